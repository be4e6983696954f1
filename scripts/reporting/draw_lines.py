"""Line and bar charts as SVG; see draw.py."""

from .draw import BAR, GROUPS, HEIGHT, MOST_LABEL, WIDTH, along, axes, canvas, horizontal, legend, linked, words
from .lines import Bars, Lines
from .markup import Element, Quantity, Scale, element, labelled, shortened, shown, text_width

SHAPES = ("M-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0Z", "M-4,-4H4V4H-4Z", "M0,-5L5,4H-5Z", "M0,-5.5L5.5,0L0,5.5L-5.5,0Z")
MOST_KNOTS = 40  # of a line; of more, a mark is seen under the pointer only
THIN = 16.0  # height of one of a run's bars


def look(index: int) -> str:
    """Style classes of a line: its colour, and dashes if there are more lines than colours."""
    return f"s{index % GROUPS} d{index // GROUPS}"


def _mark(index: int, x: float, y: float, is_faint: bool = False) -> Element:
    shape = SHAPES[index // GROUPS]
    return element("path", d=shape, transform=f"translate({x:.2f},{y:.2f})", class_=f"dot knot g{index % GROUPS}" + (" faint" if is_faint else ""))


def _swatch(index: str, x: float, y: float) -> Element:
    number = int(index)
    line = element("path", d=f"M{x - 9:.1f},{y - 4:.1f}h22", class_=f"line {look(number)}")
    return element("g", line, _mark(number, x + 2, y - 4))


def _runs(numbers: list[int | None]) -> str | None:
    """The numbers of runs, in the format of the filter of the page's table."""
    return " ".join(str(number) for number in dict.fromkeys(numbers)) if None not in numbers else None


def lines(chart: Lines) -> Element:
    dots = [dot for line in chart.lines for dot in line.dots]
    x_name, y_name = (Quantity.of(name, reach) for name, reach in zip((chart.x_name, chart.y_name), chart.reaches))
    key, top = None, 34.0
    looks = [i if line.look is None else line.look for i, line in enumerate(chart.lines)]
    if len(chart.lines) > 1:
        key, height = legend([(str(i), line.label) for i, line in zip(looks, chart.lines)], 71, 16, WIDTH, _swatch)
        top += height
    bottom = top + HEIGHT - 84.0
    x = Scale.over([dot.x * x_name.factor for dot in dots], 62, WIDTH - 20, chart.doubles or None)
    y = Scale.over([height * y_name.factor for height in chart.heights], bottom, top, chart.y_logarithmic)
    drawing = canvas(
        chart.name, f"{chart.title}: {chart.y_name} against {chart.x_name}", WIDTH, bottom + 50, axes(x, y, x_name, y_name), key
    )
    if chart.limit is not None:
        height = y(chart.limit * y_name.factor)
        drawing.append(element("path", d=f"M{x.start:.1f},{height:.1f}H{x.end:.1f}", class_="limit", data_limit=repr(chart.limit)))
        drawing.append(words(f"limit {chart.limit * y_name.factor:g}", x.start + 5, height - 5, "limit-text"))
    if chart.place is not None and x.low <= chart.place * x_name.factor <= x.high:
        place = x(chart.place * x_name.factor)
        drawing.append(element("path", d=f"M{place:.1f},{bottom:.1f}V{top:.1f}", class_="limit", data_place=repr(chart.place)))
    for i, line in zip(looks, chart.lines):
        corners = [(x(dot.x * x_name.factor), y(dot.y * y_name.factor)) for dot in line.dots]
        path = "M" + "L".join(f"{left:.1f},{height:.1f}" for left, height in corners)
        marks = []
        for dot, (left, height) in zip(line.dots, corners):
            value, at = shown(dot.y, chart.y_name), f"{chart.x_name} {x_name.text(dot.x)}"
            if y_name.factor == 1:
                value = f"{value} {chart.y_name}"
            tip = ", ".join(word for word in (line.label, at, value, dot.note) if word)
            marks.append(linked(dot.number, tip, _mark(i, left, height, len(corners) > MOST_KNOTS), x=dot.x, y=dot.y))
        group = along(f"{line.label or chart.y_name}, {len(marks)} values", marks, "series")
        group.insert(0, element("path", d=path, class_=f"line {look(i)}", data_runs=_runs([dot.number for dot in line.dots])))
        if line.level is not None:
            height = y(line.level * y_name.factor)
            group.append(element("path", d=f"M{x.start:.1f},{height:.1f}H{x.end:.1f}", class_=f"level s{i % GROUPS}"))
        drawing.append(group)
    return drawing


def bars(chart: Bars) -> Element:
    largest = max(value for _, _, values in chart.bars for value in values.values())
    name = Quantity.of(chart.value_name, largest)
    left = min(max(text_width(label) for _, label, _ in chart.bars) + 14, MOST_LABEL)
    key, height, thick = None, 8.0, BAR - 6.0
    if chart.names != [""]:
        key, height = legend([(f"g{i % GROUPS}", way) for i, way in enumerate(chart.names)], 8, 16, WIDTH)
        thick = THIN
    top = height + 14
    bottom = top + sum(thick * len(values) + 6 for _, _, values in chart.bars)
    x = Scale(0.0, largest * name.factor * 1.15, left, WIDTH - 20.0)
    drawing = canvas(chart.name, f"{chart.title}: {chart.value_name}", WIDTH, bottom + 46, key)
    drawing.append(horizontal(x, name, top, bottom))
    y, numbers = top, element("g", class_="small over", aria_hidden="true")
    for number, label, values in chart.bars:
        tip = f"{label}: " + ", ".join(f"{way} {shown(value, chart.value_name)}".strip() for way, value in values.items())
        row = linked(number, tip, words(shortened(label, left - 14), left - 8, y + 13, anchor="end"))
        for way, value in values.items():
            end = x(value * name.factor)
            row.append(
                element(
                    "rect",
                    x=left,
                    y=y + 2.0,
                    width=end - left,
                    height=thick - 3,
                    class_=f"g{chart.names.index(way) % GROUPS}",
                    data_part=way,
                    data_value=repr(value),
                    data_tip=f"{label}: {way} {shown(value, chart.value_name)}",
                )
            )
            numbers.append(words(labelled(value, chart.value_name), end + 5, y + thick - 4))
            y += thick
        y += 6
        drawing.append(row)
    if chart.base is not None:
        place = x(chart.base * name.factor)
        drawing.append(element("line", x1=place, x2=place, y1=top, y2=bottom, class_="limit", data_limit=repr(chart.base)))
    drawing.append(numbers)
    return drawing

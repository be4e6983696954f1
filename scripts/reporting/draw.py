"""Charts of many points as SVG. Every mark has attributes with its exact numbers (data-x, data-y, ...) and its tool tip (data-tip).
The mark of a run links to the row of the run in the table. Colours are classes of the page's style."""

from collections.abc import Callable, Iterable, Sequence

from .charts import Front, Heat, Mark, Shares
from .markup import Element, Quantity, Scale, brief, element, shortened, shown, text_width

WIDTH = 720
HEIGHT = 380
LEAST = 0.78  # of its width, on a narrow screen
GROUPS = 6  # colours
STEPS = 7  # of a heat map's colours
BAR = 22  # height
MOST_LABEL = 380.0  # width


def canvas(name: str, label: str, width: float, height: float, *children: Element) -> Element:
    """The SVG element of a chart. On a narrow screen, the chart shrinks a little and then scrolls."""
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        style=f"min-width:{LEAST * width:.0f}px",
        role="group",
        id=f"svg-{name}",
        aria_label=label,
    )


def words(text: str, x: float, y: float, class_: str = "", anchor: str = "start") -> Element:
    return element("text", text, x=x, y=y, class_=class_ or None, text_anchor=None if anchor == "start" else anchor)


def linked(number: int | None, tip: str, *children: Element, **data: object) -> Element:
    """Marks of a run, as a link to the row of the run if it has one."""
    link = {"href": f"#run-{number}", "class_": "mark", "data_run": number}
    return element(
        "g" if number is None else "a",
        *children,
        **({"tabindex": 0, "role": "img"} if number is None else link),
        aria_label=tip,
        data_tip=tip,
        **{f"data_{name}": repr(value) for name, value in data.items()},
    )


def along(label: str, marks: Sequence[Element], class_: str = "") -> Element:
    """A group of marks that the tab key reaches as one; arrow keys move between marks (page.js)."""
    for mark in marks[1:]:
        mark.set("tabindex", "-1")
    return element(
        "g", *marks, class_=f"along {class_}".strip(), role="group", aria_label=f"{label}; arrow keys lead from one to the next"
    )


def _box(class_: str, x: float, y: float) -> Element:
    return element("rect", x=x, y=y - 10.0, width=12, height=12, rx=2, class_=class_)


def legend(
    entries: Iterable[tuple[str, str]], x: float, y: float, width: float, swatch: Callable[[str, float, float], Element] = _box
) -> tuple[Element, float]:
    """@param entries  class and text. @return the legend, and its height"""
    group, left, top = element("g", class_="legend"), x, y
    for class_, text in entries:
        wide = text_width(text) + 30
        if left + wide > width and left > x:
            left, top = x, top + 20
        group.append(swatch(class_, left, top))
        group.append(words(text, left + 17, top))
        left += wide
    return group, top - y + 20


def horizontal(x: Scale, name: Quantity, top: float, bottom: float, most: int = 7) -> Element:
    """The axis below a chart, with a vertical line at each tick."""
    group = element("g", class_="axis", aria_hidden="true")
    for value in x.ticks(most):
        group.append(element("line", x1=x(value), x2=x(value), y1=top, y2=bottom))
        group.append(words(name.text(value), x(value), bottom + 17, anchor="middle"))
    group.append(words(name.label, (x.start + x.end) / 2, bottom + 38, anchor="middle"))
    return group


def axes(x: Scale, y: Scale, x_name: Quantity, y_name: Quantity, most: int = 7) -> Element:
    group = horizontal(x, x_name, y.end, y.start, most)
    for value in y.ticks(most):
        group.append(element("line", x1=x.start, x2=x.end, y1=y(value), y2=y(value)))
        group.append(words(y_name.text(value), x.start - 7, y(value) + 4, anchor="end"))
    group.append(words(y_name.label, x.start - 50, y.end - 12))
    return group


def _named(marks: Iterable[Mark], x: Scale, y: Scale, factor: float) -> Element:
    """Names of the best runs beside their marks, if there is space."""
    group, taken = element("g", class_="small", aria_hidden="true"), []
    for mark in marks:
        place, height, wide = x(mark.x * factor), y(mark.y) - 10, text_width(mark.label, 10)
        left = place - wide - 8 if place > WIDTH / 2 else place + 8
        if (
            left >= x.start
            and left + wide <= WIDTH
            and all(abs(height - other) > 12 or left > end or left + wide < begin for other, begin, end in taken)
        ):
            taken.append((height, left, left + wide))
            group.append(
                words(mark.label, left if left > place else left + wide, height, anchor="start" if left > place else "end")
            )
    return group


def front(chart: Front) -> Element:
    x_name = Quantity.of(chart.x_name, max(mark.x for mark in chart.marks))
    y_name = Quantity(chart.y_name, 1.0)
    limit = [] if chart.limit is None else [chart.limit.value]
    groups, key, top = chart.groups, None, 34.0
    colour = {group: min(i, GROUPS - 1) for i, group in enumerate(groups)}
    if len(groups) > 1:
        key, height = legend([(f"g{colour[group]}", group) for group in groups[:GROUPS]], 62, 16, WIDTH)
        top += height
    bottom = HEIGHT - 50.0
    x = Scale.over([value * x_name.factor for value in limit + [mark.x for mark in chart.marks]], 62, WIDTH - 20)
    y = Scale.over([mark.y for mark in chart.marks], bottom, top)
    drawing = canvas(
        chart.name, f"{chart.title}: {chart.y_name} against {chart.x_name}", WIDTH, HEIGHT, axes(x, y, x_name, y_name)
    )
    if key is not None:
        drawing.append(key)
    for group in groups:
        best = sorted((mark for mark in chart.marks if mark.best and mark.group == group), key=lambda mark: mark.x)
        corners = [(x(mark.x * x_name.factor), y(mark.y)) for mark in best]
        path = f"M{corners[0][0]:.1f},{bottom:.1f}V{corners[0][1]:.1f}"
        path += "".join(f"H{left:.1f}V{height:.1f}" for left, height in corners[1:]) + f"H{x.end:.1f}"
        drawing.append(element("path", d=path, class_=f"front s{colour[group]}"))
    if limit:
        place = x(limit[0] * x_name.factor)
        drawing.append(element("line", x1=place, x2=place, y1=bottom, y2=top, class_="limit", data_limit=repr(limit[0])))
        right = place > WIDTH - 160
        drawing.append(
            words(
                f"SLO {limit[0] * x_name.factor:g}",
                place + (-5 if right else 5),
                top + 12,
                "limit-text",
                "end" if right else "start",
            )
        )
    for mark in sorted(chart.marks, key=lambda mark: mark.x):
        tip = f"{mark.label}: {chart.x_name} {shown(mark.x, chart.x_name)}, {mark.y:.5g} {chart.y_name}" + (
            ", on the front" if mark.best else ""
        )
        dot = element(
            "circle",
            cx=x(mark.x * x_name.factor),
            cy=y(mark.y),
            r=6 if mark.best else 4,
            class_=f"dot g{colour[mark.group]}" + (" best" if mark.best else ""),
        )
        drawing.append(linked(mark.number, tip, dot, x=mark.x, y=mark.y))
    drawing.append(_named([mark for mark in chart.marks if mark.best], x, y, x_name.factor))
    return drawing


def shares(chart: Shares) -> Element:
    longest = max(sum(seconds.values()) for _, _, seconds in chart.bars)
    name = Quantity.of("time_s", longest)
    left = min(max(text_width(label) for _, label, _ in chart.bars) + 14, MOST_LABEL)
    key, height = legend([(chart.look(part), part) for part in chart.names], 8, 16, WIDTH)
    top = height + 14
    bottom = top + BAR * len(chart.bars)
    x = Scale(0.0, longest * name.factor * 1.02, left, WIDTH - 20.0)
    drawing = canvas(chart.name, f"{chart.title}, stacked", WIDTH, bottom + 46, key)
    drawing.append(horizontal(x, name, top, bottom))
    for i, (number, label, seconds) in enumerate(chart.bars):
        y, begun = top + BAR * i, 0.0
        row = linked(
            number, f"{label}: " + ", ".join(f"{part} {shown(value, 'x_s')}" for part, value in seconds.items() if value)
        )
        row.append(words(shortened(label, left - 14), left - 8, y + 15, anchor="end"))
        for part, value in seconds.items():
            here, begun = begun, begun + value
            if value > 0:
                row.append(
                    element(
                        "rect",
                        x=x(here * name.factor),
                        y=y + 3.0,
                        width=x(begun * name.factor) - x(here * name.factor),
                        height=BAR - 6,
                        class_=chart.look(part),
                        data_part=part,
                        data_value=repr(value),
                        data_tip=f"{label}: {part} {shown(value, 'x_s')}",
                    )
                )
        drawing.append(row)
    return drawing


def heat(chart: Heat) -> Element:
    wide, high = max(66.0, *(text_width(str(column)) + 8 for column in chart.columns)), 30.0
    left = 16 + max(text_width(text) for text in (chart.row_name + " ↓", *map(str, chart.rows)))
    names = (chart.value_name, *(panel.title for panel in chart.panels))
    size = max(left + len(chart.columns) * wide + 24, max(map(text_width, names)) + 24)
    in_row = max(1, int(WIDTH // size))
    tall = 62 + len(chart.rows) * high + 12
    lines = -(-len(chart.panels) // in_row)
    top = 22  # for the name of the value
    width, height = size * min(in_row, len(chart.panels)), top + tall * lines + 6
    name = f"{chart.title}: {chart.value_name}"
    drawing = canvas(chart.name, name, width, height)
    drawing.append(words(chart.value_name, 8, 14))
    low, span = chart.lowest, (max(chart.values) - chart.lowest) or 1.0
    for i, panel in enumerate(chart.panels):
        ox, oy = (i % in_row) * size, top + (i // in_row) * tall
        drawing.append(words(panel.title, ox + left, oy + 16, "strong"))
        drawing.append(words(chart.column_name + " →", ox + left, oy + 36))
        drawing.append(words(chart.row_name + " ↓", ox + left - 8, oy + 54, anchor="end"))
        for c, column in enumerate(chart.columns):
            drawing.append(words(str(column), ox + left + (c + 0.5) * wide, oy + 54, anchor="middle"))
        for r, row in enumerate(chart.rows):
            y = oy + 62 + r * high
            drawing.append(words(str(row), ox + left - 8, y + 20, anchor="end"))
            for c, column in enumerate(chart.columns):
                if (row, column) not in panel.cells:
                    continue
                value, number = panel.cells[row, column]
                step = min(int((value - low) / span * STEPS), STEPS - 1)
                best = chart.marks_best and value == chart.best
                tip = (
                    f"{panel.title + ': ' if panel.title else ''}{chart.row_name}={row}, {chart.column_name}={column}: "
                    f"{chart.value_name} {brief(value)}" + (", the best" if best else "")
                )
                x = ox + left + c * wide
                drawing.append(
                    linked(
                        number,
                        tip,
                        element(
                            "rect",
                            x=x + 1,
                            y=y + 1,
                            width=wide - 2,
                            height=high - 2,
                            rx=3,
                            class_=f"h{step}" + (" best" if best else ""),
                        ),
                        words(brief(value), x + wide / 2, y + 20, f"t{step}", "middle"),
                        value=value,
                    )
                )
    return drawing

"""Charts of one run as SVG; see draw.py."""

import re

from .draw import HEIGHT, WIDTH, along, axes, canvas, horizontal, legend, linked, words
from .kernel_charts import Roofline
from .markup import Element, Quantity, Scale, element, shown, text_width
from .path_charts import Causes
from .run_charts import Pipeline, Topology

BINS = (0.05, 0.1, 0.25, 0.5, 0.75)  # of utilisation: colours u1, u2, ...; u0 is none
LANE = 26.0
DEVICE, NARROW = 46.0, 21.0  # width of a column; of a machine with more columns than MOST_WIDE
LEVEL, HIGH = 74.0, 150.0  # height of a row, likewise
MOST_WIDE = 48
WORK = {"compute": "kernels", "tp": "collectives", "pp": "activations", "kv": "KV handoff"}
LIMITS = {"tensor": "g0", "feed": "g1", "l2": "g2", "hbm": "g3", "launch": "g4"}


def pipeline(chart: Pipeline) -> Element:
    begin = min(bar.begin_s for bar in chart.bars)
    span = (max(bar.end_s for bar in chart.bars) - begin) or 1e-9
    name = Quantity.of("time_s", begin + span)
    left = max(text_width(lane) for lane in chart.lanes) + 12
    width = WIDTH + 160.0
    x = Scale(begin * name.factor, (begin + span) * name.factor, left, width - 16)
    works = list(dict.fromkeys(bar.work for bar in chart.bars))
    key, height = legend([(f"p-{work}", WORK[work]) for work in WORK if work in works], left, 16, width)
    top = height + 12
    bottom = top + LANE * len(chart.lanes)
    drawing = canvas(
        chart.name,
        f"{chart.title}: jobs of {len(chart.lanes)} ranks over time; the table below has each",
        width,
        bottom + 46,
        key,
    )
    drawing.append(horizontal(x, name, top, bottom, 9))
    rows = {lane: i for i, lane in enumerate(chart.lanes)}
    for lane, i in rows.items():
        drawing.append(words(lane, left - 8, top + LANE * i + 15, anchor="end"))
    count = dict.fromkeys(chart.lanes, 0)
    for bar in chart.bars:
        y, work = top + LANE * rows[bar.lane], f"p-{bar.work}"
        if bar.work == "compute":
            count[bar.lane] += 1
            work += " odd" if count[bar.lane] % 2 else ""
        place, tall = x(bar.begin_s * name.factor), 15.0 if bar.work == "compute" else 6.0
        if bar.work == "tp":  # of all ranks
            y, tall = top, LANE * len(chart.lanes) - 9
        times = [shown(value, "x_s") for value in (bar.begin_s, bar.end_s, bar.end_s - bar.begin_s)]
        drawing.append(
            element(
                "rect",
                x=place,
                y=y + (2.0 if bar.work in ("compute", "tp") else 18.0),
                width=max(x(bar.end_s * name.factor) - place, 0.6),
                height=tall,
                class_=work,
                data_begin=repr(bar.begin_s),
                data_end=repr(bar.end_s),
                data_tip=f"{bar.name}: {times[0]} to {times[1]}, {times[2]}",
            )
        )
    return drawing


def utilisation_bin(value: float) -> int:
    return 0 if value == 0 else 1 + sum(value >= edge for edge in BINS)


def topology(chart: Topology) -> Element:
    used = sorted({device.row for device in chart.devices})
    columns = max(device.column for device in chart.devices)
    wide, high = (DEVICE, LEVEL) if columns <= MOST_WIDE else (NARROW, HIGH)
    height_of = {row: 58 + high * i for i, row in enumerate(used)}
    middle = {device.name: (40 + wide * device.column, height_of[device.row]) for device in chart.devices}
    shares = ["0 %", *(f"< {100 * edge:g} %" for edge in BINS), f">= {100 * BINS[-1]:g} %"]
    width = max(80 + wide * columns, 560.0)
    key, _ = legend([(f"u{i}", text) for i, text in enumerate(shares)], 8, 16, width)
    drawing = canvas(
        chart.name,
        f"{chart.title}: {len(chart.devices)} devices, {len(chart.connections)} links; the table below has each",
        width,
        max(height_of.values()) + 40,
        key,
    )
    lines = element("g", class_="links")
    parallel: dict[tuple[str, str], int] = {}
    for link in sorted(chart.connections, key=lambda link: link.utilisation):
        (x1, y1), (x2, y2) = (middle[end] for end in link.ends)
        pair = tuple(sorted(link.ends))
        offset = 4 * parallel.setdefault(pair, 0)
        parallel[pair] += 1
        tip = (
            f"{link.name}, {link.gb_per_s:g} GB/s: tx {100 * link.tx:.2f} %, rx {100 * link.rx:.2f} %, {link.gigabytes:.4g} GB"
        )
        path = f"M{x1 + offset:.1f},{y1:.1f}L{x2 + offset:.1f},{y2:.1f}"
        if y1 == y2:  # beside each other: an arc over what lies between
            path = f"M{x1:.1f},{y1:.1f}Q{(x1 + x2) / 2:.1f},{y1 - 44 + offset:.1f} {x2:.1f},{y2:.1f}"
        drawn = utilisation_bin(link.utilisation)
        lines.append(
            element(
                "path",
                d=path,
                class_=f"link l{drawn}",
                data_link=link.name,
                data_tx=repr(link.tx),
                data_rx=repr(link.rx),
                data_tip=tip,
            )
        )
    drawing.append(lines)
    for device in chart.devices:
        x, y = middle[device.name]
        short = device.name.rpartition(".")[2].replace("nvswitch", "nvs")
        if wide == NARROW:
            short = re.sub(r"^\D+", "", short)
        drawing.append(
            element(
                "g",
                element(
                    "rect", x=x - wide / 2 + 2, y=y - 11, width=wide - 4, height=22, rx=4, class_=f"device d-{device.kind}"
                ),
                words(short, x, y + 4, "small", "middle"),
                data_tip=f"{device.name}, {device.kind}",
            )
        )
    for server in dict.fromkeys(device.name.partition(".")[0] for device in chart.devices if "." in device.name):
        own = [middle[device.name] for device in chart.devices if device.name.startswith(server + ".")]
        drawing.append(words(server, min(x for x, _ in own) - 21, min(y for _, y in own) - 18, "strong"))
    return drawing


def roofline(chart: Roofline) -> Element:
    kernels = chart.kernels
    intensities = [kernel.flops_per_byte for kernel in kernels]
    heights = [kernel.tflops for kernel in kernels] + list(chart.peaks.values())
    ridge = [peak * 1e3 / chart.gb_per_s for peak in chart.peaks.values()]
    left, right, top, bottom = 62.0, WIDTH - 20.0, 54.0, HEIGHT - 50.0
    x = Scale(min(intensities + ridge) / 2, max(intensities + ridge) * 3, left, right, True)
    y = Scale(min(heights) / 2, max(heights) * 2, bottom, top, True)
    used = [limit for limit in LIMITS if any(kernel.limit == limit for kernel in kernels)]
    key, _ = legend([(LIMITS[limit], f"limited by {limit}") for limit in used], left, 16, WIDTH)
    drawing = canvas(
        chart.name,
        f"{chart.title}: TFLOP/s against FLOPs a byte, logarithmic",
        WIDTH,
        HEIGHT,
        axes(x, y, Quantity("FLOPs / HBM byte", 1), Quantity("TFLOP/s", 1)),
        key,
    )
    for name, peak in chart.roofs.items():
        corner = peak * 1e3 / chart.gb_per_s
        low = max(x.low, y.low * 1e3 / chart.gb_per_s)
        points = [(low, low * chart.gb_per_s * 1e-3), (corner, peak), (x.high, peak)]
        path = "M" + "L".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
        drawing.append(element("path", d=path, class_="roof", data_peak=repr(peak)))
        drawing.append(words(f"{name} {peak:.0f} TFLOP/s", right - 4, y(peak) - 5, "small", "end"))
    for limit in dict.fromkeys(kernel.limit for kernel in kernels):
        marks = []
        for kernel in sorted((kernel for kernel in kernels if kernel.limit == limit), key=lambda kernel: kernel.flops_per_byte):
            tip = f"{kernel.name}: {kernel.tflops:.4g} TFLOP/s at {kernel.flops_per_byte:.4g} FLOPs a byte, limited by {limit}"
            dot = element(
                "circle", cx=x(kernel.flops_per_byte), cy=y(kernel.tflops), r=4.5, class_=f"dot {LIMITS.get(limit, 'g5')}"
            )
            marks.append(linked(kernel.number, tip, dot, x=kernel.flops_per_byte, y=kernel.tflops))
        drawing.append(along(f"{len(marks)} kernels limited by {limit}", marks))
    return drawing


def causes(chart: Causes) -> Element:
    name = Quantity.of(chart.path.metric, chart.path.mean_s)
    x = Scale(0.0, chart.path.mean_s * name.factor * 1.02, 8.0, WIDTH - 20.0)
    marks, y = [], 0.0
    drawing = element("g")
    for view, pieces in chart.bars:
        drawing.append(words(view, 8, y + 18, "strong"))
        key, height = legend([(piece.look, piece.name) for piece in pieces], 8, y + 38, WIDTH)
        drawing.append(key)
        y += 24 + height
        begun = 0.0
        for piece in pieces:
            here, begun = begun, begun + piece.seconds
            share = 100 * piece.seconds / chart.path.mean_s
            tip = f"{view}: {piece.name} {shown(piece.seconds, 'x_s')}, {share:.1f} % of {chart.path.metric}"
            bar = element(
                "rect",
                x=x(here * name.factor),
                y=y,
                width=x(begun * name.factor) - x(here * name.factor),
                height=LANE - 4,
                class_=piece.look,
                data_part=piece.name,
                data_value=repr(piece.seconds),
            )
            marks.append(linked(None, tip, bar, value=piece.seconds))
        y += LANE + 6
    drawing.append(along(f"{chart.title}, {len(marks)} parts", marks))
    grid = element("g", class_="axis", aria_hidden="true")
    for value in x.ticks():
        grid.append(element("line", x1=x(value), x2=x(value), y1=y - 4, y2=y + 2))
        grid.append(words(f"{value:.6g}", x(value), y + 15, anchor="middle"))
    grid.append(words(name.label, (x.start + x.end) / 2, y + 34, anchor="middle"))
    return canvas(chart.name, f"{chart.title}, by cost, class and links", WIDTH, y + 42, drawing, grid)

"""Predictions against measurements, as points around a diagonal. Only validate.py uses this chart."""

from collections.abc import Sequence
from dataclasses import dataclass

from .draw import axes, canvas, legend
from .markup import Element, Quantity, Scale, element

COLORS = 10  # q0 to q8, and q9 for what has no colour of its own
SIDE = 420.0  # of a panel, with its axes
TICKS = 5  # of an axis
DIGIT_WIDTH, LEAST_MARGIN = 8, 62  # of the labels of y
BAND = 1.25  # dotted: a quarter more, a quarter less


@dataclass
class Cloud:
    """Points with the same unit. `groups`: color, and (measured, predicted) pairs."""

    unit: str
    groups: list[tuple[int, list[tuple[float, float]]]]


def _swatch(look: str, x: float, y: float) -> Element:
    return element("path", d=f"M{x + 6:.1f},{y - 4:.1f}h0", class_=f"swatch {look}")


def _panel(cloud: Cloud, left: float, top: float) -> Element:
    drawing = element("g")
    measured, predicted = ([pair[i] for _, pairs in cloud.groups for pair in pairs] for i in (0, 1))
    low, high = min(measured + predicted) / 1.3, max(measured + predicted) * 1.3
    y = Scale(low, high, top + SIDE - 78, top, True)
    x_name, y_name = (Quantity(name, 1.0) for name in (f"measured {cloud.unit}", f"predicted {cloud.unit} (dotted: 25 % off)"))
    labels = max(len(y_name.text(value)) for value in y.ticks(TICKS))
    x = Scale(low, high, left + max(LEAST_MARGIN, 14 + DIGIT_WIDTH * labels), left + SIDE - 16, True)
    drawing.append(axes(x, y, x_name, y_name, TICKS))
    for factor, look in ((1.0, "ideal"), (BAND, "ideal band"), (1 / BAND, "ideal band")):
        begin, end = max(low, low / factor), min(high, high / factor)
        path = f"M{x(begin):.1f},{y(begin * factor):.1f}L{x(end):.1f},{y(end * factor):.1f}"
        drawing.append(element("path", d=path, class_=look))
    for color, pairs in cloud.groups:
        places = dict.fromkeys(f"M{x(one):.1f},{y(other):.1f}h0" for one, other in pairs)
        drawing.append(element("path", d="".join(places), class_=f"points q{color}"))
    return drawing


def draw(names: Sequence[str], clouds: Sequence[Cloud]) -> Element:
    """@param names  names of the colors"""
    width = SIDE * len(clouds)
    key, height = legend([(f"q{color}", name) for color, name in enumerate(names) if name], 8, 16, width, _swatch)
    top = height + 34
    drawing = canvas("scatter", "Predicted against measured", width, top + SIDE - 28, key)
    for i, cloud in enumerate(clouds):
        drawing.append(_panel(cloud, SIDE * i, top))
    return drawing

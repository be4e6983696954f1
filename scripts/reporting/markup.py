"""Elements of HTML and SVG; units, scales and ticks of axes."""

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass

from comparing.tables import UNITS, duration, formatter

Element = ElementTree.Element
LONG = ((2 * 86_400, 86_400, "days"), (2 * 3600, 3600, "h"), (120, 60, "min"))  # from so many seconds on: in this unit
METRIC_UNITS = (("gb_per_s", "GB/s"), ("tokens_per_s", "tokens/s"))  # by the end of a metric's name
MOST_LINEAR = 30  # of largest over smallest value; beyond, a scale is logarithmic


def element(tag: str, *children: Element | str | None, **attributes: object) -> Element:
    """An element. `class_` becomes class, `data_x` becomes data-x. Children and attributes that are None are left out. Coordinates keep two decimals."""
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
            made.set(name.rstrip("_").replace("_", "-"), text)
    for child in children:
        if isinstance(child, str):
            if len(made):
                made[-1].tail = (made[-1].tail or "") + child
            else:
                made.text = (made.text or "") + child
        elif child is not None:
            made.append(child)
    return made


def written(root: Element) -> str:
    return ElementTree.tostring(root, encoding="unicode", method="html")


def shown(value: object, name: str = "") -> str:
    """A value in readable form."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    if isinstance(value, int) and abs(value) < 10**9:
        return str(value)
    if formatter(name) is duration or name.endswith(", s"):
        return duration(value)
    if name.endswith("utilisation"):
        return f"{100 * value:.2f} %"
    return f"{value:.5g}"


def brief(value: float) -> str:
    """Three digits at least, large values without an exponent."""
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def duration_text(seconds: float) -> str:
    """To three digits, with a unit: 305 ms, 1.21 s."""
    value, unit = duration(seconds).split(" ")
    return f"{brief(float(value))} {unit}"


def long_text(seconds: float) -> str:
    """To three digits, from days down to nanoseconds."""
    return next((f"{brief(seconds / size)} {unit}" for least, size, unit in LONG if seconds >= least), duration_text(seconds))


def long_unit(seconds: float) -> tuple[float, str]:
    """The unit of this time on an axis, in seconds, and its name."""
    return next(((size, unit) for least, size, unit in LONG if seconds >= least), (1.0, "s"))


def labelled(value: float, name: str) -> str:
    """Three digits and a unit that fits, where the name tells the quantity: 305 ms, 26.5 GB/s, 4.88 days."""
    if formatter(name) is duration:
        return duration_text(value)
    if size := next((size for _, size, unit in LONG if unit == name), None):
        return long_text(value * size)
    unit = next((unit for ending, unit in METRIC_UNITS if name.endswith(ending)), name if name.isalpha() else "")
    return f"{brief(value)} {unit}".strip()


def bytes_text(value: float) -> str:
    """A size in the format of benchmarks: 512, 64K, 2M."""
    for scale, unit in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if value >= scale and value % scale == 0:
            return f"{value // scale:.0f}{unit}"
    return f"{value:.6g}"


@dataclass
class Quantity:
    """The form of a metric on an axis: a label with a unit, and the factor from the metric to this unit."""

    label: str
    factor: float

    def text(self, value: float) -> str:
        """The text of a tick."""
        return bytes_text(value) if self.label.endswith("bytes") else f"{value:.10g}"

    @staticmethod
    def of(name: str, largest: float) -> "Quantity":
        plain, _, rest = name.partition(" ")
        if formatter(plain) is not duration or not re.fullmatch(r"[\w.]*", plain):
            return Quantity(name, 1.0)
        factor, unit = next((factor, unit) for least, factor, unit in UNITS if largest >= least)
        label = re.sub(r"_s(?=\.|$)", "", plain)
        return Quantity(f"{label}, {unit}" + (f" {rest}" if rest else ""), factor)


@dataclass
class Scale:
    """Maps values to positions on the page, linearly from zero or logarithmically. `binary`: ticks are powers of two."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False
    binary: bool = False

    @staticmethod
    def over(values: Iterable[float], start: float, end: float, logarithmic: bool | None = None) -> "Scale":
        """@param logarithmic  None: logarithmic if the values differ by a large factor"""
        known = list(values)
        low, high = min(known), max(known)
        if logarithmic is None:
            logarithmic = low > 0 and high / low > MOST_LINEAR
        if logarithmic and low > 0:
            return Scale(low / 1.3, high * 1.3, start, end, True, all(math.log2(value).is_integer() for value in known))
        return Scale(0.0, (high * 1.06) or 1.0, start, end)

    def __call__(self, value: float) -> float:
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 7) -> list[float]:
        if self.binary:
            first, last = math.ceil(math.log2(self.low)), math.floor(math.log2(self.high))
            return [2.0**n for n in range(first, last + 1, -(-(last - first + 1) // most))]
        if self.logarithmic:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for steps in ((1, 2, 5), (1, 3), (1,)):
                found = [step * 10.0**n for n in decades for step in steps if self.low <= step * 10.0**n <= self.high]
                if len(found) <= most:
                    break
            return found
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def text_width(text: str, size: float = 12) -> float:
    """An estimate of the width of a text; rather too wide than too narrow."""
    return 0.63 * size * len(text)


def shortened(text: str, width: float) -> str:
    """The end of a text that is too long. The end often contains the difference between runs."""
    fits = int(width / text_width("x") + 1e-6)
    return text if len(text) <= fits else "…" + text[len(text) - fits + 1 :]

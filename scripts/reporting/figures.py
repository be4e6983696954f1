"""Charts as SVG files for documentation and papers: the drawings of the page, with a title and an embedded style. The files are
readable on light and dark pages. The same input gives the same bytes."""

import pathlib
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from lib import written

from . import page
from .charts import Chart
from .draw import words
from .markup import Element, element

TITLE = 28  # height
OF_PAGES = re.compile(r"data-|aria-|href$|tabindex$|style$|role$")  # attributes for readers of a page
COLORS = re.compile(r":root \{(.*?)\}", re.DOTALL)  # first light ones, then dark ones
COLOR = re.compile(r"--([\w-]+): ([^;]+);")
RULE = re.compile(r"([^{}@]+) \{ ([^{}]*) \}")
BETWEEN = re.compile(r",(?![^()]*\))")  # selectors, but not the arguments of :is()


def _without_page(drawn: Element) -> Element:
    """A copy without links, tips and exact numbers."""
    copy = element("g" if drawn.tag == "a" else drawn.tag, drawn.text, *(_without_page(child) for child in drawn))
    for name, value in drawn.items():
        if not OF_PAGES.match(name):
            copy.set(name, value)
    return copy


def _resolved(rules: Sequence[tuple[str, str]], colors: dict[str, str]) -> list[str]:
    """The style with variables replaced by their values, because not all SVG viewers support variables."""
    return [f"{selector} {{ {re.sub(r'var[(]--([^)]+)[)]', lambda name: colors[name[1]], look)} }}" for selector, look in rules]


def _style(classes: set[str]) -> str:
    """The rules of drawing.css that apply to a drawing with these classes."""
    sheet = page.style("drawing.css")
    light, dark = (dict(COLOR.findall(block)) for block in COLORS.findall(sheet))
    rules = []
    for selectors, look in RULE.findall(COLORS.sub("", sheet)):
        kept = [selector.strip() for selector in BETWEEN.split(selectors) if set(re.findall(r"\.([\w-]+)", selector)) <= classes]
        if kept:
            rules.append((", ".join(kept), look))
    colored = [rule for rule in rules if "var(" in rule[1]]
    return "\n".join(
        ["", *_resolved(rules, light), "@media screen and (prefers-color-scheme: dark) {", *_resolved(colored, dark), "}", ""]
    )


def text(title: str, drawing: Element) -> str:
    """@param drawing  a canvas. @return the content of an SVG file"""
    figure = _without_page(drawing)
    width, height = (float(figure.get(name)) for name in ("width", "height"))
    figure.insert(0, element("rect", y=-TITLE, width="100%", height="100%", class_="paper"))
    figure.insert(1, words(title, 8, -10, "strong"))
    figure.insert(0, element("style", _style({name for part in figure.iter() for name in part.get("class", "").split()})))
    figure.insert(0, element("title", title))
    for name, value in {
        "xmlns": "http://www.w3.org/2000/svg",
        "height": f"{height + TITLE:g}",
        "viewBox": f"0 {-TITLE} {width:g} {height + TITLE:g}",
        "role": "img",
    }.items():
        figure.set(name, value)
    ElementTree.indent(figure, "")
    return ElementTree.tostring(figure, encoding="unicode") + "\n"


def write(path: pathlib.Path, title: str, drawing: Element) -> None:
    written.text(path, text(title, drawing))


def draw_all(charts: Sequence[Chart], directory: pathlib.Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        drawing = page.drawn(chart)
        if drawing is not None:
            write(directory / f"{chart.name}.svg", chart.title, drawing)

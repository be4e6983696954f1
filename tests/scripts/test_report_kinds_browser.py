"""Reports of kinds that have no front, in a browser: lines and bars are where their numbers are, keys go along them."""

import math

import pytest

import browsers
from browsers import DESKTOP, FACTORS, PHONE, TICKS, By, Keys, fixture_browser  # noqa: F401  pylint: disable=unused-import
from reports import KINDS, database, kind_sweep, report

pytestmark = browsers.needed


@pytest.fixture(name="kinds", scope="module")
def fixture_kinds(tmp_path_factory):
    """Sweeps of the kinds whose charts are lines and bars: directory and page."""
    folder = tmp_path_factory.mktemp("kinds")
    sweeps = {kind: kind_sweep(folder / kind, kind) for kind in KINDS}
    sweeps["bars"] = kind_sweep(folder / "bars", "p2p", "{workload.engine: [copy_engine, sm], workload.p2p: [true, false]}")
    return {kind: (sweep, report(sweep)) for kind, sweep in sweeps.items()}


def test_pages_load_work_fit_and_print(browser, kinds):
    for _, page in kinds.values():
        browsers.expect_quiet(browser, page)
        browsers.expect_readable(browser, page, PHONE, "light")
        browsers.expect_readable(browser, page, DESKTOP, "dark")
        browsers.expect_printable(browser, page)


DOTS = """
return [...document.querySelectorAll(arguments[0] + " .series")].flatMap((s) => [...s.querySelectorAll("a.mark")].map((a) => {
  const place = a.querySelector("path").getAttribute("transform").match(/[-\\d.]+/g);
  return {run: +a.dataset.run, x: +a.dataset.x, y: +a.dataset.y, left: +place[0], top: +place[1], tip: a.dataset.tip};
}));
"""


@pytest.mark.parametrize(
    "kind, chart, axis, metric",
    [
        ("collective", "busbw-all_reduce", None, "busbw_gb_per_s.{}"),
        ("p2p", "unidirectional", "copy_bytes", "unidirectional_gb_per_s"),
        ("layer", "layer-kernels", "tp", "kernels_s"),
    ],
)
def test_lines_are_the_database_and_lie_where_the_axes_say(browser, kinds, kind, chart, axis, metric):
    sweep, page = kinds[kind]
    stored = database(sweep)
    browser.open(page)
    dots = browser.run(DOTS, f"#{chart}")
    expected = []
    for number, row in enumerate(stored):
        if kind != "collective" or row["op"] == "all_reduce":
            sizes = [row[axis]] if axis else [1024, 65536, 4194304]
            expected += [(number, size, row[metric.format(size)]) for size in sizes]
    assert sorted((dot["run"], dot["x"], dot["y"]) for dot in dots) == sorted(expected)
    ticks = browser.run(TICKS, f"#{chart}")
    units = {"K": 2**10, "M": 2**20}
    columns = [
        (float(text.rstrip("KM")) * units.get(text[-1], 1), x)
        for text, x, _, anchor in ticks
        if anchor == "middle" and text[0].isdigit()
    ]
    heights = [(float(text), y - 4) for text, _, y, anchor in ticks if anchor == "end"]
    factor = next((factor for unit, factor in FACTORS.items() if f", {unit}" in ticks[-1][0]), 1)
    (first, left), (last, right) = columns[0], columns[-1]
    (low, bottom), (high, top) = heights[0], heights[-1]
    for dot in dots:
        along = (
            math.log(dot["x"] / first) / math.log(last / first)
            if chart != "unidirectional"
            else (dot["x"] - first) / (last - first)
        )
        assert dot["left"] == pytest.approx(left + along * (right - left), abs=0.1)
        assert dot["top"] == pytest.approx(bottom + (dot["y"] * factor - low) / (high - low) * (top - bottom), abs=0.1)


def test_arrow_keys_go_along_a_line_and_the_filter_fades_it(browser, kinds):
    sweep, page = kinds["collective"]
    browser.open(page)
    reached = "return [document.activeElement.dataset.tip, document.getElementById('tip').textContent]"
    first = browser.driver.find_element(By.CSS_SELECTOR, "#busbw-all_reduce .series a.mark")
    tips = [dot["tip"] for dot in browser.run(DOTS, "#busbw-all_reduce")][:3]
    browser.run("arguments[0].focus()", first)
    seen = []
    for key in (None, Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.ARROW_UP):
        if key:
            browser.driver.switch_to.active_element.send_keys(key)
        seen.append(browser.run(reached))
    assert seen == [[tips[i], tips[i]] for i in (0, 1, 2, 2, 1, 0)]
    stops = browser.run(
        "return [...document.querySelectorAll('#busbw-all_reduce .series')]"
        ".map((s) => [...s.querySelectorAll('a.mark')].filter((a) => a.tabIndex == 0).length)"
    )
    assert stops == [1] * 4
    box = browser.driver.find_element(By.ID, "filter")
    box.clear()
    box.send_keys("ranks=2")
    faded = browser.run(
        "return [...document.querySelectorAll('#busbw-all_reduce path.line[data-runs].dim')].map((l) => +l.dataset.runs)"
    )
    assert faded == [number for number, row in enumerate(database(sweep)) if row["op"] == "all_reduce" and row["ranks"] != 2]


def test_bars_are_as_long_as_their_values(browser, kinds):
    sweep, page = kinds["bars"]
    browser.open(page)
    bars = browser.run(
        """return [...document.querySelectorAll("#latency a.mark")].map((a) => { const r = a.querySelector("rect");
      return [+a.dataset.run, +r.dataset.value, +r.getAttribute("width")]; })"""
    )
    ticks = browser.run(TICKS, "#latency")
    factor = FACTORS[ticks[-1][0].removeprefix("latency, ")]
    (zero, begin, *_), (last, end, *_) = ticks[0], ticks[-2]
    per_second = (end - begin) / (float(last) - float(zero)) * factor
    assert [(number, value) for number, value, _ in bars] == [(n, row["latency_s"]) for n, row in enumerate(database(sweep))]
    assert all(width == pytest.approx(value * per_second, abs=0.1) for _, value, width in bars)

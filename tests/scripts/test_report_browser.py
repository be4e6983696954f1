"""Reports in a browser: nothing is fetched, nothing complains, marks are where their numbers are, keys reach everything."""

import collections
import re

import pytest

import browsers
from browsers import DESKTOP, FACTORS, PHONE, TICKS, By, Keys, fixture_browser  # noqa: F401  pylint: disable=unused-import
from platform_runs import succeed, tiny
from reports import database, report, small_sweep

pytestmark = browsers.needed
MARKS = """
return [...document.querySelectorAll(arguments[0])].map((a) => {
  const shape = a.querySelector("circle, rect");
  return {...a.dataset, cx: +shape.getAttribute("cx"), cy: +shape.getAttribute("cy"), best: shape.classList.contains("best")};
});
"""


@pytest.fixture(name="sweep", scope="module")
def fixture_sweep(tmp_path_factory):
    return small_sweep(tmp_path_factory.mktemp("sweep"))


@pytest.fixture(name="page", scope="module")
def fixture_page(sweep):
    return report(sweep, "--slo", "ttft_s=0.001")


@pytest.fixture(name="layer", scope="module")
def fixture_layer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layer")
    workload = "workload: {kind: layer, phase: decode, batch: 16, context_tokens: 512, tp: 4}\n"
    scenario = tiny(folder, workload + re.search("model: .*\n", tiny(folder).read_text())[0])
    succeed("plx_box", scenario, "--out", folder / "out", "--quiet")
    return report(folder / "out")


def done(sweep):
    return {number: row for number, row in enumerate(database(sweep)) if row["status"] == "done"}


def test_pages_load_and_work_without_a_complaint_or_a_request(browser, page, layer):
    for shown in (page, layer):
        browsers.expect_quiet(browser, shown)


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_the_screen_and_can_be_read(browser, page, layer, size, scheme):
    for shown in (page, layer):
        browsers.expect_readable(browser, shown, size, scheme)


def test_paper_has_the_whole_width_and_no_controls(browser, page):
    browsers.expect_printable(browser, page)


def test_marks_of_the_front_are_the_database_and_lie_where_the_axes_say(browser, page, sweep):
    browser.open(page)
    marks = browser.run(MARKS, "#front-prefill a.mark")
    assert {int(mark["run"]): (float(mark["x"]), float(mark["y"])) for mark in marks} == {
        number: (row["ttft_s"], row["prefill_capacity_tokens_per_s"] / (row["tp"] * row["pp"])) for number, row in done(sweep).items()
    }
    ticks = browser.run(TICKS, "#front-prefill")
    unit = next(text for text, *_ in ticks if text.startswith("ttft, ")).removeprefix("ttft, ")
    factor = FACTORS[unit]
    columns = [(float(text), x) for text, x, _, anchor in ticks if anchor == "middle" and not text.startswith("ttft")]
    lines = [(float(text), y) for text, _, y, anchor in ticks if anchor == "end"]

    def place(known, value, offset=0.0):
        (low, first), (high, last) = known[0], known[-1]
        return first + (value - low) / (high - low) * (last - first) - offset

    for mark in marks:  # an axis' numbers stand four pixels below its lines
        assert mark["cx"] == pytest.approx(place(columns, float(mark["x"]) * factor), abs=0.1)
        assert mark["cy"] == pytest.approx(place(lines, float(mark["y"]), 4), abs=0.1)
    limit = browser.run(
        "const l = document.querySelector('#front-prefill .limit'); return [+l.getAttribute('x1'), l.dataset.limit]"
    )
    assert limit == [pytest.approx(place(columns, 0.001 * factor), abs=0.1), "0.001"]
    by_prompt = collections.defaultdict(list)
    for number, row in done(sweep).items():
        by_prompt[row["prompt"]].append((row["ttft_s"], -row["prefill_capacity_tokens_per_s"] / (row["tp"] * row["pp"]), number))
    best = set()
    for members in by_prompt.values():
        best |= {
            number
            for time, rate, number in members
            if not any(other[0] <= time and other[1] <= rate and other != (time, rate, number) for other in members)
        }
    assert {int(mark["run"]) for mark in marks if mark["best"]} == best


def test_bars_are_as_long_as_their_parts_and_heat_cells_are_the_objective(browser, page, sweep):
    browser.open(page)
    bars = browser.run(
        """return [...document.querySelectorAll("#parts-prefill a.mark")].map((a) => [+a.dataset.run,
      [...a.querySelectorAll("rect")].map(
        (r) => [r.dataset.part, +r.dataset.value, +r.getAttribute("x"), +r.getAttribute("width")])])"""
    )
    assert sorted(number for number, _ in bars) == sorted(done(sweep))
    ticks = browser.run(TICKS, "#parts-prefill")
    factor = FACTORS[ticks[-1][0].removeprefix("time, ")]
    (zero, begin, *_), (last, end, *_) = ticks[0], ticks[-2]
    per_second = (end - begin) / (float(last) - float(zero)) * factor
    for number, parts in bars:
        row = done(sweep)[number]
        values = {part: value for part, value, *_ in parts}
        assert sum(values.values()) == pytest.approx(row["prefill_window_s"] + row["exposed_s.kv"], rel=1e-12)
        assert values.get("all-reduces", 0) == row["exposed_s.tp"] and values.get("handoff", 0) == row["exposed_s.kv"]
        for (_, value, x, wide), follower in zip(parts, parts[1:] + [None]):
            assert wide == pytest.approx(value * per_second, abs=0.1)
            assert follower is None or follower[2] == pytest.approx(x + wide, abs=0.02)
    cells = browser.run(MARKS, "#heat a.mark")
    assert {int(cell["run"]): float(cell["value"]) for cell in cells} == {
        number: row["objective"] for number, row in done(sweep).items()
    }
    assert [int(cell["run"]) for cell in cells if cell["best"]] == [
        min(done(sweep), key=lambda number: done(sweep)[number]["objective"])
    ]


def shown_rows(browser):
    return browser.run(
        "return [...document.querySelectorAll('#runs tbody tr')].filter((r) => !r.hidden).map((r) => +r.dataset.run)"
    )


def test_the_table_has_every_run_and_metric_sorts_and_filters(browser, page, sweep):
    browser.open(page)
    table = browser.run(
        """const heads = [...document.querySelectorAll("#runs thead th")].map((h) => h.dataset.name);
      return [...document.querySelectorAll("#runs tbody tr")].map((r) => [+r.dataset.run,
        Object.fromEntries([...r.cells].map((c, i) =>
        [heads[i], c.dataset.v === undefined ? c.textContent : c.dataset.v]))])"""
    )
    rows = dict(enumerate(database(sweep)))
    assert [number for number, _ in table] == list(rows)
    for number, cells in table:
        for name, value in rows[number].items():
            if name in cells and value is not None:
                assert (float(cells[name]) if isinstance(value, (int, float)) else cells[name]) == value, (number, name)
        assert cells["status"] == rows[number]["status"]
    metrics = set(rows[next(iter(done(sweep)))]) - {
        "position",
        "id",
        "platform",
        "seed",
        "error",
        "directory",
        "kind",
        "model",
        "objective",
    }
    assert metrics <= set(table[0][1])
    head = browser.driver.find_element(By.CSS_SELECTOR, "#runs th[data-name=ttft_s] button")
    by_time = sorted(done(sweep), key=lambda number: rows[number]["ttft_s"])
    failed = [number for number in rows if number not in by_time]
    head.click()
    assert shown_rows(browser) == by_time + failed
    head.send_keys(Keys.ENTER)
    assert shown_rows(browser) == by_time[::-1] + failed
    browser.driver.find_element(By.CSS_SELECTOR, "#runs th[data-name=prompt] button").click()
    assert [rows[number]["prompt"] for number in shown_rows(browser)] == sorted(row["prompt"] for row in rows.values())
    box = browser.driver.find_element(By.ID, "filter")
    for words, condition in [
        ("tp=2", lambda row: row["tp"] == 2),
        (
            f"ttft_s<{rows[by_time[2]]['ttft_s']!r} done",
            lambda row: row["ttft_s"] is not None and row["ttft_s"] < rows[by_time[2]]["ttft_s"],
        ),
        ("FAILED", lambda row: row["status"] == "failed"),
        ("tp>9", lambda row: False),
    ]:
        box.clear()
        box.send_keys(words)
        left = {number for number, row in rows.items() if condition(row)}
        assert set(shown_rows(browser)) == left
        assert browser.driver.find_element(By.ID, "count").text == f"{len(left)} of {len(rows)} runs"
        dim = browser.run("return [...document.querySelectorAll('#front-prefill .mark.dim')].map((m) => +m.dataset.run)")
        assert set(dim) == set(done(sweep)) - left
    assert not browser.driver.find_element(By.CSS_SELECTOR, "th[data-name=end_s]").is_displayed()
    browser.driver.find_element(By.ID, "every").click()
    assert browser.driver.find_element(By.CSS_SELECTOR, "th[data-name=end_s]").is_displayed()


def test_keys_reach_what_a_pointer_reaches(browser, page, sweep):
    browser.open(page)
    reached = []
    for _ in range(60):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(
            browser.run(
                "const a = document.activeElement; "
                "return [a.tagName, a.dataset.run || null, a.getAttribute('aria-label') || a.textContent, "
                "document.getElementById('tip').hidden ? null : document.getElementById('tip').textContent]"
            )
        )
    assert reached[0][2] == "To the content"
    marks = [(int(run), label, tip) for tag, run, label, tip in reached if tag == "a" and run]
    assert {run for run, *_ in marks} == set(done(sweep))
    assert all(label == tip for _, label, tip in marks)
    mark = browser.driver.find_element(By.CSS_SELECTOR, "#front-prefill a.mark")
    number = mark.get_attribute("data-run")
    browser.run("arguments[0].focus()", mark)
    mark.send_keys(Keys.ENTER)
    assert browser.run("return document.activeElement.id") == f"run-{number}"
    for drawing in browser.driver.find_elements(By.CSS_SELECTOR, "svg"):
        assert drawing.get_attribute("aria-label")
    assert browser.run(
        "return [...document.querySelectorAll('section')]"
        ".every((s) => document.getElementById(s.getAttribute('aria-labelledby')))"
    )
    assert browser.run(
        "return [...document.querySelectorAll('main > section > figure')]"
        ".every((f) => f.parentElement.querySelector('details table'))"
    )
    assert browser.run(
        "const named = [...document.querySelectorAll('[id]')]; " "return new Set(named.map((e) => e.id)).size == named.length"
    )


def test_the_page_is_readable_without_scripts(browser, page, sweep):
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.open(page)
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "#runs tbody tr")) == len(database(sweep))
    assert not browser.driver.find_element(By.ID, "filter").is_displayed()
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

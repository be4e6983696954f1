"""Critical paths in reports and comparisons: bars and tables hold what why.json holds."""

import json
import subprocess
import sys

import pytest

import browsers
from browsers import DESKTOP, PHONE, fixture_browser  # noqa: F401  pylint: disable=unused-import
from platform_runs import ROOT, succeed, summary, tiny
from reports import report

from lib import critical_path  # noqa: E402  (reports.py put scripts/ on the path)
from reporting import path_charts  # noqa: E402

COMPARE = ROOT / "scripts" / "compare.py"


@pytest.fixture(name="runs", scope="module")
def fixture_runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("why")
    for name, sets in (("two", []), ("one", ["--set", "workload.prefill.tp=1"])):
        succeed("plx_box", tiny(folder), "--out", folder / name, "--why", "--quiet", *sets)
    return folder / "two", folder / "one"


def paths(run):
    """By metric, those that were measured."""
    return {path["metric"]: path for path in json.loads((run / "why.json").read_text())["paths"] if path["mean_s"] > 0}


def test_bars_are_as_long_as_the_metric_and_hold_the_parts_of_the_file(runs):
    charts = {chart.name: chart for chart in path_charts.charts(runs[0])}
    assert set(charts) == {f"why-{metric}" for metric in paths(runs[0])}
    assert charts["why-ttft_s"].path.mean_s == summary(runs[0])["metrics"]["ttft_s"]
    for metric, path in paths(runs[0]).items():
        bars = dict(charts[f"why-{metric}"].bars)
        hosts = ["by host"] if any(part["path_s"] for part in path["hosts"]) else []
        assert list(bars) == ["by cost", "kernels bound by", *hosts, "by traffic class", "by links"]
        for pieces in bars.values():
            assert sum(piece.seconds for piece in pieces) == pytest.approx(path["mean_s"], rel=1e-9)
        spent = [part["path_s"] for part in path["costs"] if part["path_s"]]
        assert [piece.seconds for piece in bars["by cost"]] == spent
        limits = {part["limit"]: part["path_s"] for part in path["kernels"] if part["path_s"]}
        assert {piece.name: piece.seconds for piece in bars["kernels bound by"] if piece.name != path_charts.OTHER} == limits
        classes = {part["class"]: part["path_s"] for part in path["classes"] if part["path_s"]}
        assert {piece.name: piece.seconds for piece in bars["by traffic class"] if piece.name != path_charts.OTHER} == classes


def test_the_table_has_the_metric_without_each_part(runs):
    (chart,) = [chart for chart in path_charts.charts(runs[0]) if chart.path.metric == "ttft_s"]
    path, table = paths(runs[0])["ttft_s"], chart.table()
    free = {f"links {part['links']}": part["without_s"] for part in path["links"] if part["path_s"]}
    free |= {f"traffic class {part['class']}": part["without_s"] for part in path["classes"] if part["path_s"]}
    free |= {f"host {critical_path.HOSTS[part['work']]}": part["without_s"] for part in path["hosts"] if part["path_s"]}
    free |= {f"kernels bound by {part['limit']}": part["without_s"] for part in path["kernels"] if part["path_s"]}
    shown = {row[0]: row for row in table.rows}
    assert free and {name: row[3] for name, row in shown.items() if name in free} == free
    assert len(shown) == len(free) + len([part for part in path["costs"] if part["path_s"]])
    for row in table.rows:
        assert row[4] == row[3] - path["mean_s"] and row[2] == pytest.approx(100 * row[1] / path["mean_s"])


def test_runs_compare_their_critical_paths(runs, tmp_path):
    done = subprocess.run(
        [sys.executable, COMPARE, *runs, "--csv", tmp_path / "all.csv"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "  critical path of ttft_s " in done.stdout
    lines = dict(
        line.rsplit(",", 2)[:1] + [line.rsplit(",", 2)[1:]] for line in (tmp_path / "all.csv").read_text().splitlines()
    )
    for metric in set(paths(runs[0])) & set(paths(runs[1])):
        kernels = [next(part["path_s"] for part in paths(run)[metric]["costs"] if part["cost"] == "kernel") for run in runs]
        assert [float(value) for value in lines[f"path of {metric}: kernels"]] == kernels
        assert [float(value) for value in lines[f"path of {metric}: {metric}"]] == [
            paths(run)[metric]["mean_s"] for run in runs
        ]
    (runs[1] / "why.json").rename(tmp_path / "why.json")
    without = subprocess.run([sys.executable, COMPARE, *runs], capture_output=True, text=True, check=False, timeout=60)
    (tmp_path / "why.json").rename(runs[1] / "why.json")
    assert without.returncode == 0 and "critical path" not in without.stdout


def test_a_file_of_another_version_is_one_line(runs, tmp_path):
    for name in ("summary.json", "links.csv", "machine.json"):
        (tmp_path / name).write_bytes((runs[0] / name).read_bytes())
    for text, words in [
        ('{"schema_version": 1, "paths": []}', "schema_version: expected 3, got 1; written by another version of Railyard?"),
        ('{"schema_version": 3, "paths": [{"mean_s": 1}]}', "paths[0]: has no metric; written by another version of Railyard?"),
        ("no", "not the critical paths of a run"),
    ]:
        (tmp_path / "why.json").write_text(text)
        for command in (["report.py", tmp_path], ["compare.py", runs[0], tmp_path]):
            done = subprocess.run(
                [ROOT / "scripts" / command[0], *command[1:]], capture_output=True, text=True, check=False, timeout=60
            )
            assert (done.returncode, done.stderr.count("\n")) == (2, 1) and f"why.json: {words}" in done.stderr


@browsers.needed
def test_the_page_shows_the_path_and_its_table(browser, runs):
    page = report(runs[0])
    browsers.expect_quiet(browser, page)
    browsers.expect_readable(browser, page, PHONE, "dark")
    browsers.expect_readable(browser, page, DESKTOP, "light")
    shown = browser.run("return [...document.querySelectorAll('#why-ttft_s rect[data-value]')].map((r) => +r.dataset.value)")
    assert sum(shown) == pytest.approx(4 * paths(runs[0])["ttft_s"]["mean_s"], rel=1e-9)
    assert browser.run("return document.querySelector('#why-ttft_s details').open")


def test_figures_show_the_path(runs, tmp_path):
    report(runs[0], "--figures", tmp_path / "figures", "--html", tmp_path / "page.html")
    assert {path.stem for path in (tmp_path / "figures").glob("why-*.svg")} == {f"why-{metric}" for metric in paths(runs[0])}

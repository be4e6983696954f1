"""Pages of one run of `serving` and of `training`: head and tiles, charts that hold what the files hold, and how they look in a browser."""

import math
import shutil
import statistics

import pytest

import browsers
from browsers import DESKTOP, LOOKS, PHONE, fixture_browser  # noqa: F401  pylint: disable=unused-import
from platform_runs import ROOT, rows, succeed, summary
from reports import report
from scripts_inside import call
from test_plan import planned_with_fluid_rates

from reporting import charts, gantt, overview, serving_charts, source, training_charts  # noqa: E402  (reports.py put scripts/ on the path)

NS = 1e-9


def run(folder, name, *settings):
    succeed("dgx_h100", ROOT / "scenarios" / name, "--quiet", "--out", folder, *(word for text in settings for word in ("--set", text)))
    return folder


@pytest.fixture(name="serving", scope="module")
def fixture_serving(tmp_path_factory):
    return run(tmp_path_factory.mktemp("serving") / "out", "pd/colocated_or_not.yaml", "workload.requests.count=20",
               "workload.instances=[{name: c, count: 2}]")


@pytest.fixture(name="training", scope="module")
def fixture_training(tmp_path_factory):
    return run(tmp_path_factory.mktemp("training") / "out", "training/llama3_8b_8.yaml", "workload.global_batch=8", "workload.pp=2", "workload.tp=2")


def point_of(folder):
    return source.read(folder).points[0]


def test_the_head_says_what_ran(serving, training):
    facts = dict(overview.facts_of(point_of(serving)))
    assert facts["machine"] == "1 x dgx_h100, H100-SXM5-80GB" and facts["work"] == "20 requests"
    assert facts["mapping"] == "c0 (colocated): one GPU, vllm-0.19; c1 (colocated): one GPU, vllm-0.19"
    assert facts["command"].startswith(str(summary(serving) and (serving / "command.txt").read_text().split()[0]))
    facts = dict(overview.facts_of(point_of(training)))
    assert facts["mapping"] == "tp 2 pp 2 dp 2"
    assert facts["work"] == "8 sequences of 8192 tokens, 4 micro-batches, schedule 1f1b, ZeRO 1, recompute none"


def test_tiles_are_in_human_units(training):
    metrics, found = summary(training)["metrics"], dict(overview.tiles_of(point_of(training)))
    assert found["MFU"] == f"{100 * metrics['mfu']:.3g} %"
    assert found["memory of the fullest GPU"] == f"{metrics['memory']['peak_bytes'] / 1e9:.3g} GB"
    assert found["a step, GPUs, estimate"] == f"{metrics['energy']['per_step_j'] / 1e3:.3g} kJ"
    tiny = source.Point(0, "", "done", "", None, kind="training", metrics={"bubble_fraction": 3e-13})
    assert overview.tiles_of(tiny) == [("of the step is bubble", "0 %")]


def test_charts_of_requests_hold_the_requests(serving):
    found = {chart.name: chart for chart in serving_charts.charts(point_of(serving))}
    requests = rows(serving / "requests.csv")
    waits = [NS * int(row["TTFT"]) for row in requests]
    (_, _, mean), (_, _, slowest) = found["ttft-parts"].bars
    assert math.fsum(mean.values()) == pytest.approx(statistics.fmean(waits), rel=1e-6)
    assert math.fsum(slowest.values()) == pytest.approx(max(waits), rel=1e-6)
    for line, column in zip(found["requests"].lines, ("latency", "TTFT")):
        for dot in line.dots[::20]:
            inside = sum(NS * int(row["arrival"]) <= dot.x < NS * (int(row["arrival"]) + int(row[column])) for row in requests)
            assert abs(dot.y - inside) <= sum(abs(NS * (int(row["arrival"]) + int(row[column])) - dot.x) < 1e-9 for row in requests)
    assert found["cdf-ttft"].lines[0].dots[-1].x == pytest.approx(max(waits), rel=1e-9)
    assert {label: sum(parts.values()) for _, label, parts in found["stages"].bars} == pytest.approx(
        dict.fromkeys(("c0, stage 0", "c1, stage 0"), summary(serving)["metrics"]["end_s"]), rel=1e-6)
    assert sum(values[""] for _, _, values in found["instances-requests"].bars) == 20


def test_charts_of_a_step_hold_the_step(training):
    point = point_of(training)
    [memory] = training_charts.charts(point)
    together, *kinds = memory.lines
    assert max(dot.y for dot in together.dots) == pytest.approx(point.metrics["memory.peak_bytes"] / 1e9, rel=1e-9)
    assert {"weights", "gradients", "optimizer state", "activations"} <= {line.label for line in kinds}
    slots = gantt.chart_of(training)
    assert len(slots.run.rows) == 8 and slots.run.kinds == {"F", "B"}
    [step] = charts.shares(source.read(training))
    [(_, _, parts)] = step.bars
    assert math.fsum(parts.values()) == pytest.approx(point.metrics["step_s"], rel=1e-3)
    assert step.names == ["kernels", "tensor-parallel collectives", "pipeline transfers", "data-parallel collectives", "bubble", "host software", "optimizer"]


@pytest.fixture(name="decision", scope="module")
def fixture_decision(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    words = ["--fix", "cp=1", "--fix", "recompute=none", "--fix", "pp=1", "--fix", "micro_batch=1", "--fix", "zero_stage=1", "--top", "2"]
    assert planned_with_fluid_rates(folder, *words).returncode == 0
    return folder / "out" / "decision.html"


@browsers.needed
def test_pages_fit_the_screen_and_no_two_entries_of_a_legend_look_alike(browser, serving, training, decision, tmp_path):
    shutil.copytree(serving, tmp_path / "again")
    assert call("compare", serving, tmp_path / "again", "--html", tmp_path / "compare.html").returncode == 0
    for page in (report(serving), report(training), decision, tmp_path / "compare.html"):
        browsers.expect_quiet(browser, page)
        for size in (PHONE, DESKTOP):
            browsers.expect_readable(browser, page, size, "light")
        browser.open(page)
        legends = browser.run(LOOKS)
        assert legends and [legend for legend in legends if len(set(legend)) < len(legend)] == []

"""Reports: what their charts hold is what the runs and the database hold; bad input is one line."""

import contextlib
import csv
import json
import re
import shutil
import sqlite3
import xml.etree.ElementTree as ElementTree
from collections import defaultdict

import pytest

from platform_runs import ROOT, rows, succeed, summary, tiny
from reports import database, report, small_sweep
from scripts_inside import call

from reporting import charts, figures, kernel_charts, kinds, markup, run_charts, source  # noqa: E402  (reports.py put scripts/ on the path)
from lib.old_names import OLD_NAMES  # noqa: E402
from sweeping.database import DATABASE  # noqa: E402


def refused(*arguments):
    done = call("report", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture(name="sweep", scope="module")
def fixture_sweep(tmp_path_factory):
    return small_sweep(tmp_path_factory.mktemp("sweep"))


@pytest.fixture(name="run", scope="module")
def fixture_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    succeed("plx_box", tiny(folder), "--out", folder / "out", "--quiet")
    return folder / "out"


def mark(number, x, y, group=""):
    return charts.Mark(number, f"run {number}", group, x, y)


def point(number, kind="layer", status="done", **metrics):
    metrics = {"ranks": 2, "tokens_per_s": 100.0, "pass_s": 1.0} | metrics
    return source.Point(number, f"run {number}", status, "box", None, kind=kind, values={}, metrics=metrics)


def layer_sweep(tmp_path, points, axes=None):
    (tmp_path / DATABASE).touch()
    return source.Subject(tmp_path, "Sweep", points, axes or {})


def test_the_front_has_the_runs_that_no_other_beats_in_both(tmp_path):
    measured = {1: (1.0, 100.0), 2: (2.0, 300.0), 3: (2.0, 250.0), 4: (3.0, 300.0), 5: (4.0, 400.0), 6: (1.5, 90.0)}
    points = [point(number, pass_s=time, tokens_per_s=rate) for number, (time, rate) in measured.items()]
    (front,) = charts.fronts(layer_sweep(tmp_path, points), [charts.Limit("pass_s", 2.0)])
    assert (front.x_name, front.y_name) == ("pass_s", "tokens_per_s per GPU")
    assert {mark.number: (mark.x, mark.y) for mark in front.marks} == {n: (x, y / 2) for n, (x, y) in measured.items()}
    assert {mark.number for mark in front.marks if mark.best} == {1, 2, 5}
    assert front.note == "Within pass_s = 2: 4 of 6 runs; the most throughput has run 2."


def test_service_levels_of_any_metric_have_a_front_and_count_runs(tmp_path):
    points = [point(n, pass_s=1.0, tokens_per_s=100.0 * n, **{"exposed_s.tp": n * 1e-3}) for n in (1, 2, 3)]
    subject = layer_sweep(tmp_path, points)
    limits = [charts.Limit("exposed_s.tp", 2e-3), charts.Limit("tokens_per_s", 150, False)]
    assert [front.x_name for front in charts.fronts(subject, limits)] == ["pass_s", "exposed_s.tp", "tokens_per_s"]
    assert charts.kept(subject, limits) == "1 of 3 runs keep exposed_s.tp <= 0.002, tokens_per_s >= 150; the first of them: run 2"
    with pytest.raises(source.Error, match="--slo exposed.tp: no run has this metric; nearest: exposed_s.tp"):
        charts.kept(subject, [charts.Limit("exposed.tp", 1)])


def test_runs_that_were_asked_something_else_do_not_compete(tmp_path):
    points = [point(1, pass_s=1.0, tokens_per_s=500.0), point(2, pass_s=2.0, tokens_per_s=100.0)]
    for one, tokens in zip(points, (128, 4096)):
        one.values = {"tokens": tokens}
    asked = layer_sweep(tmp_path, points, {"tokens": ["workload.tokens"]})
    assert [mark.best for mark in charts.fronts(asked, [])[0].marks] == [True, True]
    chosen = layer_sweep(tmp_path, points, {"tokens": ["workload.chunk_tokens"]})
    assert [mark.best for mark in charts.fronts(chosen, [])[0].marks] == [True, False]


def test_the_heat_map_has_means_of_repeats(tmp_path):
    subject = layer_sweep(
        tmp_path, [point(i) for i in range(4)], {"tp": ["workload.prefill.tp"], "pp": ["workload.prefill.pp"]}
    )
    for one, (tp, pp, value) in zip(subject.points, [(8, 1, 1.0), (8, 1, 3.0), (2, 4, 5.0), (16, 1, 4.0)]):
        one.values, one.objective = {"tp": tp, "pp": pp}, value
    (heat,) = charts.heats(subject)
    assert (heat.title, heat.rows, heat.columns, heat.best) == ("TP x PP", [2, 8, 16], [1, 4], 2.0)
    assert heat.panels[0].cells == {(8, 1): (2.0, 0), (2, 4): (5.0, 2), (16, 1): (4.0, 3)}


def test_charts_of_a_sweep_hold_what_its_database_holds(sweep):
    subject = source.read(sweep)
    stored = database(sweep)
    fronts = {front.x_name: front for front in charts.fronts(subject, [])}
    assert set(fronts) == {"ttft_s", "tpot_s"}
    for mark in fronts["ttft_s"].marks:
        row = stored[mark.number]
        assert (mark.x, mark.y) == (row["ttft_s"], row["prefill_capacity_tokens_per_s"] / (row["tp"] * row["pp"]))
    done = [number for number, row in enumerate(stored) if row["status"] == "done"]
    assert sorted(mark.number for mark in fronts["ttft_s"].marks) == done and len(done) < len(stored)
    shares = {chart.title: chart for chart in charts.shares(subject)}
    for number, _, seconds in shares["Where the time goes: prefill"].bars:
        handoff = seconds["handoff"]
        assert handoff == stored[number]["exposed_s.kv"]
        assert sum(seconds.values()) - handoff == pytest.approx(stored[number]["prefill_window_s"], rel=1e-12)
    (heat,) = charts.heats(subject)
    cells = {(panel.title, tp, pp): value for panel in heat.panels for (tp, pp), (value, _) in panel.cells.items()}
    assert cells == {
        (f"prompt={row['prompt']}", row["tp"], row["pp"]): row["objective"] for row in stored if row["status"] == "done"
    }
    assert heat.best == min(cells.values()) == subject.ranked()[0].objective


def test_a_sweep_with_metrics_of_version_1_has_the_names_of_today(sweep, tmp_path):
    then = tmp_path / "then"
    shutil.copytree(sweep, then)
    with contextlib.closing(sqlite3.connect(then / DATABASE)) as connection, connection:
        for old, new in OLD_NAMES.items():
            connection.execute(f'ALTER TABLE runs RENAME COLUMN "{new}" TO "{old}"')
    assert [point.metrics for point in source.read(then).points] == [point.metrics for point in source.read(sweep).points]


def test_the_pipeline_shows_the_bubble_that_the_run_reports(tmp_path):
    sets = ["--set", "workload.prefill.tp=1", "--set", "workload.prefill.pp=3"]
    succeed("plx_box", tiny(tmp_path), "--out", tmp_path / "out", "--quiet", *sets)
    metrics = summary(tmp_path / "out")["metrics"]
    (prefill,) = [chart for chart in run_charts.pipelines(tmp_path / "out") if chart.name == "pipeline-prefill"]
    assert len(prefill.lanes) == 3
    busy = sum(bar.end_s - bar.begin_s for bar in prefill.bars if bar.work == "compute")
    assert 1 - busy / (3 * metrics["prefill_window_s"]) == pytest.approx(metrics["bubble_fraction"], rel=1e-9)


def test_the_pipeline_has_the_jobs_of_the_run(run):
    prefill = run_charts.pipelines(run)[0]
    assert (prefill.name, prefill.lanes) == ("pipeline-prefill", [f"rank {rank}" for rank in range(4)])
    jobs = {row["name"]: row for row in rows(run / "jobs.csv")}
    assert {bar.name for bar in prefill.bars} == {name for name in jobs if re.match("P_|PP_|Handoff", name)}
    for bar in prefill.bars:
        row = jobs[bar.name]
        assert (bar.lane, bar.work, bar.begin_s, bar.end_s) == (
            f"rank {row['rank']}",
            row["kind"],
            float(row["start_s"]),
            float(row["end_s"]),
        )
    for lane in prefill.lanes:  # a stream is in order
        own = sorted((bar.begin_s, bar.end_s) for bar in prefill.bars if bar.lane == lane and bar.work == "compute")
        assert all(end <= begin for (_, end), (begin, _) in zip(own, own[1:]))


def test_a_long_pipeline_says_what_it_leaves_out(run, monkeypatch):
    monkeypatch.setattr(run_charts, "MOST_BARS", 5)
    monkeypatch.setattr(run_charts, "MOST_HELD", 7)
    prefill = run_charts.pipelines(run)[0]
    starts = sorted(float(row["start_s"]) for row in rows(run / "jobs.csv") if re.match("P_|PP_|Handoff", row["name"]))
    assert [bar.begin_s for bar in prefill.bars] == starts[:5]
    assert prefill.note == f"The first 5 of {len(starts)} jobs."


def test_the_drawing_of_the_machine_has_every_link_with_its_utilisation(run):
    chart = run_charts.topology(run)
    stored = {(row["name"], row["direction"]): row for row in rows(run / "links.csv")}
    assert {link.name for link in chart.connections + chart.undrawn} == {name for name, _ in stored}
    for link in chart.connections + chart.undrawn:
        ways = ("tx", "rx") if (link.name, "tx") in stored else ("both",)
        assert (link.tx, link.rx)[: len(ways)] == tuple(float(stored[link.name, way]["utilisation"]) for way in ways)
    assert {link.name.partition("_P[")[0].partition("_D[")[0] for link in chart.undrawn} == {"Far_Peers", "Host_Memory"}
    ends = {link.name: link.ends for link in chart.connections}
    assert ends["GPU_P[0][0]_PCI"] == ("prefill0.gpu0", "prefill0.plx0") and ends["IB_Cable_D[1]"] == ("decode0.nic1", "ib0")
    places = {(device.column, device.row) for device in chart.devices}
    assert len(places) == len(chart.devices)
    for row in {device.row for device in chart.devices}:  # boxes do not overlap
        columns = sorted(device.column for device in chart.devices if device.row == row)
        assert all(right - left >= 1 - 1e-9 for left, right in zip(columns, columns[1:]))


def test_no_kernel_is_above_the_roof(tmp_path):
    succeed("plx_box", ROOT / "scenarios" / "kernels_h100_l40s.yaml", "--out", tmp_path / "out", "--quiet")
    found = kinds.charts(source.read(tmp_path / "out"))
    charts_by_gpu = {chart.name: chart for chart in found if isinstance(chart, kernel_charts.Roofline)}
    assert set(charts_by_gpu) == {"roofline-H100-PCIe-80GB", "roofline-L40S"}
    ada = charts_by_gpu["roofline-L40S"]
    assert ada.gb_per_s == 864 and ada.peaks == pytest.approx(
        {"bf16": 362.05, "fp8": 733.0}, rel=0.02
    )  # NVIDIA's L40S datasheet
    for chart in charts_by_gpu.values():
        assert len(chart.kernels) > 10
        for kernel in chart.kernels:
            peak = chart.peaks["fp8" if " fp8" in kernel.name else "bf16"]
            assert kernel.tflops < peak
            assert kernel.tflops < 1.001 * kernel.flops_per_byte * chart.gb_per_s * 1e-3


def test_a_page_is_the_same_from_call_to_call_and_leaves_nothing_else(sweep, run):
    for directory in (sweep, run):
        before = set(directory.iterdir()) | {directory / "report.html"}
        first = report(directory).read_bytes()
        assert report(directory).read_bytes() == first
        assert set(directory.iterdir()) == before


def test_the_page_needs_nothing_else(sweep):
    text = report(sweep).read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"""(src|href)=["']?(https?:|//)|@import|url\(|<script [^>]*src""", text)


def test_the_title_says_what_a_run_is(run, tmp_path):
    page = report(run, "--html", tmp_path / "run.html").read_text()
    assert re.findall(r"<(title|h1)>([^<]*)<", page) == [(tag, "tiny on plx_box, disaggregated_prefill") for tag in ("title", "h1")]
    assert {label for chart in charts.shares(source.read(run)) for _, label, _ in chart.bars} == {"tiny on plx_box"}
    succeed("plx_box", ROOT / "scenarios" / "kernels_h100_l40s.yaml", "--out", tmp_path / "out", "--quiet")
    assert "<title>kernel on plx_box</title>" in report(tmp_path / "out").read_text()


def test_links_lead_to_the_files_of_each_run(sweep, tmp_path):
    for page in (report(sweep), report(sweep, "--html", tmp_path / "elsewhere.html")):
        found = defaultdict(set)
        for number, link in re.findall(r'<tr id="run-(\d+)"|<a href="([^#"][^"]*)"', page.read_text()):
            if number:
                current = int(number)
            elif link != "data:,":
                assert (page.parent / link).is_file(), link
                found[current].add((page.parent / link).name)
        done = {number for number, row in enumerate(database(sweep)) if row["status"] == "done"}
        assert {number for number, names in found.items() if {"summary.json", "jobs.csv", "command.txt"} <= names} == done


@pytest.mark.parametrize("kind", ["disaggregated_prefill", "layer", "unheard_of"])
def test_a_run_that_had_hardly_begun_has_a_page(run, tmp_path, kind):
    def nothing(value):
        return {name: nothing(part) for name, part in value.items()} if isinstance(value, dict) else 0

    begun = summary(run) | {"complete": False, "kind": kind}
    begun["metrics"] = nothing(begun["metrics"] if kind != "layer" else {"layer_s": 1, "kernels_s": 1, "collectives_s": 1})
    (tmp_path / "summary.json").write_text(json.dumps(begun))
    for name in ("links.csv", "machine.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    (tmp_path / "jobs.csv").write_text((run / "jobs.csv").read_text().splitlines()[0] + "\n")
    text = report(tmp_path).read_text()
    assert "(incomplete)" in text and 'id="links"' in text and "Where the time goes" not in text and "Pipeline" not in text


def test_words_of_a_sweep_are_text(tmp_path):
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    with contextlib.closing(sqlite3.connect(sweep / DATABASE)) as connection, connection:
        connection.execute("CREATE TABLE meta (key, value)")
        axes = json.dumps([{"name": "what", "keys": ["what"], "values": []}])
        connection.executemany("INSERT INTO meta VALUES (?, ?)", [("schema_version", "1"), ("axes", axes), ("objective", "")])
        connection.execute(
            "CREATE TABLE runs (position, id, platform, seed, status, error, directory, kind, model, objective, what)"
        )
        for i, (status, what) in enumerate([("failed", "<script>alert(1)</script>"), ("missing", '"&')]):
            connection.execute(
                "INSERT INTO runs VALUES (?, ?, 'box', 1, ?, ?, ?, NULL, NULL, NULL, ?)",
                (i, f"id{i}", status, "<b>no</b> room" if status == "failed" else None, f"points/id{i}", what),
            )
    text = report(sweep).read_text()
    assert (
        "<script>alert" not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "&lt;b&gt;no&lt;/b&gt; room" in text
    )
    assert "1 failed, 1 missing" in text


def test_figures_are_every_chart_and_the_same_from_call_to_call(sweep, tmp_path):
    report(sweep, "--figures", tmp_path / "a", "--slo", "ttft_s=1")
    names = {
        "front-prefill",
        "front-decode",
        "parts-prefill",
        "parts-decode-step",
        "heat",
        "pipeline-prefill",
        "pipeline-decode",
        "links",
    }
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(f"{name}.svg" for name in names)
    figures.draw_all(charts.heats(source.read(sweep)), tmp_path / "b")
    assert (tmp_path / "a" / "heat.svg").read_bytes() == (tmp_path / "b" / "heat.svg").read_bytes()
    texts = [
        element.text for element in ElementTree.parse(tmp_path / "a" / "heat.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    shown = {f"{row['objective']:.3g}" for row in database(sweep) if row["status"] == "done"}
    assert shown | {charts.heats(source.read(sweep))[0].value_name} <= set(texts)


def test_a_figure_stands_alone(sweep, tmp_path):
    report(sweep, "--figures", tmp_path)
    for path in tmp_path.glob("*.svg"):
        text = path.read_text()
        style = text[text.index("<style>") : text.index("</style>")]
        assert "prefers-color-scheme: dark" in style and "fill: #16181b" in style  # its own paper
        assert not re.search(r"var\(|href|data-|aria-|tabindex", text)
        assert all(line.count("(") == line.count(")") for line in style.splitlines())
        used = {name for part in ElementTree.fromstring(text).iter() for name in part.get("class", "").split()}
        assert set(re.findall(r"\.([a-z][\w-]*)", style)) <= used


def test_bad_input_is_one_line(sweep, run, tmp_path):
    assert refused(tmp_path / "none").endswith(
        "none: neither the --out directory of a run nor a sweep's: no summary.json, no results.sqlite\n"
    )
    assert refused(run, "--slo", "ttft_ss=1") == "report.py: error: --slo ttft_ss: no run has this metric; nearest: ttft_s, ttft_p99_s, ttft_p95_s\n"
    assert refused(sweep, "--slo", "ttft=1").startswith("report.py: error: --slo ttft: no run has this metric; nearest: ttft_s")
    for wrong in ("ttft_s", "=1", "ttft_s=nan"):
        assert f"'{wrong}' is not METRIC=LIMIT" in refused(sweep, "--slo", wrong)
    assert refused(run, "--html", tmp_path / "no" / "where.html").endswith("No such file or directory\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / DATABASE).write_text("no database, and long enough to be none: " + 99 * "x")
    assert refused(other).endswith("results.sqlite: no database of a sweep: file is not a database\n")
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("summary.json", "links.csv", "machine.json"):
        (copy / name).write_bytes((run / name).read_bytes())
    (copy / "jobs.csv").write_text(
        "name,kind,rank,start_s,end_s,queued_s,bytes\nP_Rank_PP[0]_TP[0]_Chunk[0],compute,0,soon,1,0,0\n"
    )
    assert refused(copy).endswith("copy/jobs.csv: line 2: start_s: 'soon' is no number\n")
    (copy / "jobs.csv").unlink()
    with (copy / "links.csv").open("w", newline="") as file:
        csv.writer(file).writerow(["name", "direction"])
    assert "copy/links.csv: no column bytes; expected the links of a run" in refused(copy)
    assert not (copy / "report.html").exists()


@pytest.mark.parametrize("value, name, text", [
    (0.30512, "ttft_s", "305 ms"), (4.8763, "days", "4.88 days"), (0.0766, "days", "110 min"), (0.002, "min", "120 ms"), (26.534, "unidirectional_gb_per_s", "26.5 GB/s"), (12345.6, "price per hour", "12346"),
    (999.7, "GPUs", "1000 GPUs"), (0.9999, "latency_s", "1000 ms"), (1.2345, "time in series / time", "1.23"), (0.0, "latency_s", "0 s"), (140, "output_tokens_per_s", "140 tokens/s")])
def test_labels_of_bars_have_three_digits_and_a_unit(value, name, text):
    assert markup.labelled(value, name) == text

"""Reports of kinds that have no front: their charts hold what the database and the runs' files hold."""

import json

import pytest

from platform_runs import rows, succeed, tiny
from reports import KINDS, database, kind_sweep, report

from reporting import (
    charts,
    draw,
    draw_lines,
    kernel_charts,
    kinds,
    lines,
    run_charts,
    source,
)  # noqa: E402  (reports.py set the path)


@pytest.fixture(name="sweeps", scope="module")
def fixture_sweeps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    return {kind: kind_sweep(folder / kind, kind) for kind in KINDS}


def charts_of(sweep):
    return {chart.name: chart for chart in kinds.charts(source.read(sweep))}


def values(chart):
    return {(line.label, dot.x): (dot.y, dot.number) for line in chart.lines for dot in line.dots}


@pytest.mark.parametrize("metric, name", [("busbw_gb_per_s", "busbw"), ("time_s", "times")])
def test_collectives_have_a_line_for_each_setting_over_sizes(sweeps, metric, name):
    found, stored = charts_of(sweeps["collective"]), database(sweeps["collective"])
    assert set(found) == {f"{what}-{op}" for what in ("busbw", "times") for op in ("all_reduce", "all_gather")}
    for op in ("all_reduce", "all_gather"):
        assert found[f"{name}-{op}"].title.endswith(f": op={op}")
        assert values(found[f"{name}-{op}"]) == {
            (f"algorithm={row['algorithm']}, ranks={row['ranks']}", size): (row[f"{metric}.{size}"], number)
            for number, row in enumerate(stored)
            for size in (1024, 65536, 4194304)
            if row["op"] == op
        }


def test_sizes_that_are_an_axis_are_one_line(tmp_path):
    axes = "{workload.sizes_bytes: {values: [[1024], [65536]], name: size}, workload.algorithm: [ring, auto]}"
    sweep = kind_sweep(tmp_path / "sweep", "collective", axes)
    chart, stored = charts_of(sweep)["times"], database(sweep)
    assert [(line.label, [dot.x for dot in line.dots]) for line in chart.lines] == [
        (f"algorithm={algorithm}", [1024, 65536]) for algorithm in ("ring", "auto")
    ]
    for number, row in enumerate(stored):
        (size,) = json.loads(row["size"])
        assert values(chart)[f"algorithm={row['algorithm']}", size] == (row[f"time_s.{size}"], number)


def test_copies_are_means_by_size_and_every_pair_of_a_run(sweeps):
    found, stored = charts_of(sweeps["p2p"]), database(sweeps["p2p"])
    metrics = {"unidirectional": "unidirectional_gb_per_s", "bidirectional": "bidirectional_gb_per_s", "latency": "latency_s"}
    assert set(found) == set(metrics)
    for name, metric in metrics.items():
        assert values(found[name]) == {
            (f"engine={row['engine']}", row["copy_bytes"]): (row[metric], number) for number, row in enumerate(stored)
        }
    files = sweeps["p2p"] / stored[0]["directory"] / "out"
    measured = {(row["measure"], int(row["from"]), int(row["to"])): row for row in rows(files / "p2p.csv")}
    pairs = {chart.name: chart for chart in run_charts.matrices(files)}
    assert set(pairs) == {f"pairs-{name}" for name in metrics}
    for name in metrics:
        cells = pairs[f"pairs-{name}"].panels[0].cells
        assert set(cells) == {(i, j) for i in range(3) for j in range(3) if i != j}
        for pair, (value, _) in cells.items():
            assert value == float(measured[name, *pair]["latency_us" if name == "latency" else "gb_per_s"])


def test_copies_of_one_size_are_bars(tmp_path):
    sweep = kind_sweep(tmp_path / "sweep", "p2p", "{workload.engine: [copy_engine, sm], workload.p2p: [true, false]}")
    stored = database(sweep)
    chart = charts_of(sweep)["latency"]
    assert chart.bars == [
        (number, f"engine={row['engine']}, p2p={row['p2p']}", {"": row["latency_s"]}) for number, row in enumerate(stored)
    ]


def test_a_kernel_is_under_the_roof_of_its_own_machine(sweeps):
    stored = database(sweeps["kernel"])
    found = charts_of(sweeps["kernel"])
    roofs = [chart for chart in found.values() if isinstance(chart, kernel_charts.Roofline)]
    assert [chart.title for chart in roofs] == [f"Roofline: L40S, clock_mhz={clock}" for clock in (1245, 2490)]
    slow, fast = roofs
    assert fast.peaks == {name: pytest.approx(2 * peak, rel=1e-12) for name, peak in slow.peaks.items()}
    assert fast.peaks["bf16"] == pytest.approx(362.05, rel=0.02)  # NVIDIA's L40S datasheet: at 2520 MHz
    for chart, clock in zip(roofs, (1245, 2490)):
        own = {number: row for number, row in enumerate(stored) if row["clock_mhz"] == clock}
        expected = []
        for number, row in own.items():
            for kernel in rows(sweeps["kernel"] / row["directory"] / "out" / "kernels.csv"):
                expected.append((number, int(kernel["flops"]) / int(kernel["hbm_bytes"]), float(kernel["tflops"])))
        assert sorted((k.number, k.flops_per_byte, k.tflops) for k in chart.kernels) == sorted(expected)
        for kernel in chart.kernels:
            assert kernel.tflops < chart.peaks["fp8" if " fp8 " in kernel.name else "bf16"]
            assert kernel.tflops < 1.001 * kernel.flops_per_byte * chart.gb_per_s * 1e-3


def test_a_changed_memory_is_the_roof_of_a_layer_too(tmp_path):
    scenario = tiny(tmp_path, KINDS["layer"][0])
    sets = ["--set", "machine.overrides.gpu.hbm.gb_per_s=1000", "--set", "machine.overrides.gpu.sm.count=66"]
    peaks = []
    for name, changed in (("plain", []), ("changed", sets)):
        succeed("dgx_h100", scenario, "--out", tmp_path / name, "--quiet", *changed)
        (chart,) = kernel_charts.of_layer(tmp_path / name)
        peaks.append((chart.gb_per_s, chart.peaks["bf16"]))
    (plain_memory, plain), (memory, peak) = peaks
    assert (plain_memory, memory) == (3350, 1000)  # NVIDIA's H100 datasheet: 3.35 TB/s
    assert peak == pytest.approx(plain / 2, rel=1e-12)  # of 132 SMs


def test_kernels_by_size_have_a_line_for_each_setting(sweeps):
    chart, stored = charts_of(sweeps["kernel"])["gemm-by-m"], database(sweeps["kernel"])
    expected = {}
    for number, row in enumerate(stored):
        for kernel in rows(sweeps["kernel"] / row["directory"] / "out" / "kernels.csv"):
            label = f"clock_mhz={row['clock_mhz']}, dtype={kernel['dtype']}, k={row['k']}"
            expected[label, int(kernel["m"])] = (float(kernel["tflops"]), number)
    assert len(expected) == 24 and values(chart) == expected


def test_kernels_that_files_do_not_tell_apart_are_lines_of_their_own(tmp_path):
    entry = "op: norm, tokens: [16, 256], width: 4096, cold: true"
    kernels = f"workload: {{kind: kernel, kernels: [{{{entry}, residual: true}}, {{{entry}, residual: false}}]}}"
    succeed("plx_box", tiny(tmp_path, kernels), "--out", tmp_path / "out", "--quiet")
    (chart,) = kinds.charts(source.read(tmp_path / "out"))
    assert (chart.name, chart.y_name) == ("norm-by-tokens", "time, us")  # it has no FLOPs
    measured = rows(tmp_path / "out" / "kernels.csv")
    times = {(f"item={row['item']}", int(row["tokens"])): (float(row["time_us"]), None) for row in measured}
    assert len(times) == len(measured) == 4 and values(chart) == times


def test_parts_of_a_layer_grow_along_the_axis_with_most_values(sweeps):
    found, stored = charts_of(sweeps["layer"]), database(sweeps["layer"])
    assert [found[name].title for name in ("layer-kernels", "layer-exposed-collectives")] == [
        "Layer: kernels by tp",
        "Layer: exposed collectives by tp",
    ]
    for name, metric in (("layer-kernels", "kernels_s"), ("layer-exposed-collectives", "collectives_s")):
        assert values(found[name]) == {
            (f"tokens={row['tokens']}", row["tp"]): (row[metric], number) for number, row in enumerate(stored)
        }
    (shares,) = charts.shares(source.read(sweeps["layer"]))
    assert [number for number, _, _ in shares.bars] == list(range(6))  # by size, not by rank
    for number, _, seconds in shares.bars:
        assert sum(seconds.values()) == pytest.approx(stored[number]["layer_s"], rel=1e-12)


def test_ways_to_overlap_are_measured_against_the_series_of_both(sweeps, tmp_path):
    found, stored = charts_of(sweeps["overlap"]), database(sweeps["overlap"])
    assert set(found) == {"speed-up-all_gather_gemm", "speed-up-gemm_reduce_scatter"}
    expected = {}
    for number, row in enumerate(stored):
        times = {way: row[f"time_s.{way}"] for way in ("decomposed", "fused")}
        times["bound"] = max(row["time_s.gemm"], row["time_s.collective"])
        expected |= {(row["op"], way, row["m"]): (row["time_s.serial"] / time, number) for way, time in times.items()}
    shown = {
        (op, way, m): value
        for op in ("all_gather_gemm", "gemm_reduce_scatter")
        for (way, m), value in values(found[f"speed-up-{op}"]).items()
    }
    assert shown == expected
    succeed("dgx_h100", tiny(tmp_path, KINDS["overlap"][0]), "--out", tmp_path / "out", "--quiet")
    (bars,) = kinds.charts(source.read(tmp_path / "out"))
    measured = {row["method"]: float(row["time_us"]) for row in rows(tmp_path / "out" / "overlap.csv")}
    assert bars.base == 1 and list(bars.bars[0][2]) == ["decomposed", "fused", "bound"]
    for way in ("decomposed", "fused"):
        assert bars.bars[0][2][way] == pytest.approx(measured["serial"] / measured[way], rel=1e-9)


def test_repeats_are_their_mean_and_lead_to_the_first():
    found = lines.lines_of([("a", lines.Dot(2, 3.0, 7)), ("a", lines.Dot(1, 1.0, 6)), ("a", lines.Dot(2, 5.0, 8))])
    assert found == [lines.Line("a", [lines.Dot(1, 1.0, 6), lines.Dot(2, 4.0, 7)])]


def test_what_is_left_out_is_said():
    samples = [(f"setting {i}", lines.Dot(1, i, i)) for i in range(lines.MOST_LINES + 1)]
    (chart,) = lines.chart_of("a", "A", "m", "TFLOP/s", samples, "Said.")
    assert (
        len(chart.lines) == lines.MOST_LINES and chart.note == f"Said. The first {lines.MOST_LINES} of {len(samples)} settings."
    )
    half = lines.MOST_BARS // 2
    (bars,) = lines.bars_of("b", "B", "latency_s", [(i, f"{i}", {"x": 1.0, "y": 2.0}) for i in range(half + 1)])
    assert len(bars.bars) == half and bars.note == f"The first {half} of {half + 1} runs."


def test_every_kind_has_a_page_and_figures(sweeps, tmp_path):
    for kind, sweep in sweeps.items():
        text = report(sweep, "--figures", tmp_path / kind, "--html", tmp_path / f"{kind}.html").read_text()
        for chart in charts_of(sweep).values():
            assert f'id="svg-{chart.name}"' in text
            assert (tmp_path / kind / f"{chart.name}.svg").stat().st_size > 1000


def test_every_line_of_a_chart_looks_different():
    looks = {(draw_lines.look(i), draw_lines.SHAPES[i // draw.GROUPS]) for i in range(lines.MOST_LINES)}
    assert len(looks) == lines.MOST_LINES

"""The comparison of runs: what it prints, what it writes and what it refuses."""

import contextlib
import csv
import html
import json
import os
import pathlib
import re
import sqlite3

import pytest

from scripts_inside import call

pytest.importorskip("yaml")

from comparing import tables  # noqa: E402
from comparing.runs import Run  # noqa: E402
from reporting import compare_page  # noqa: E402

def write_run(directory, ttft_s, waited_s=2e-6, busy=(0.5, 0.25), kind="disaggregated_prefill", scenario=None, **changes):
    names = ["GPU_P[0][0]_PCI", "IB_Cable_P[0]"]
    summary = {
        "schema_version": 2,
        "kind": kind,
        "platform": "plx_box",
        "model": "tiny",
        "seed": 1,
        "complete": True,
        "metrics": {
            "requests": 1,
            "ttft_s": ttft_s,
            "ttft_p50_s": ttft_s,
            "bubble_fraction": 0.125,
            "prefill_capacity_tokens_per_s": 1024 / ttft_s,
            "exposed_s": {"tp": 0.0, "kv": 3e-7},
        },
        "traffic": [{"class": "kv", "mean_actual_s": 4e-5, "mean_uncontended_s": 2e-5}],
        "links": [
            {"name": name, "direction": "tx", "busy_s": share * ttft_s, "utilisation": share}
            for name, share in zip(names, busy)
        ],
    }
    summary.update(changes)
    os.makedirs(directory, exist_ok=True)
    (pathlib.Path(directory) / "summary.json").write_text(json.dumps(summary))
    rows = ["name,direction,waited_tp_s,waited_kv_s", f"{names[0]},tx,0.0,{waited_s}", f"{names[1]},tx,0.0,0.0"]
    (pathlib.Path(directory) / "links.csv").write_text("\n".join(rows) + "\n")
    if scenario is not None:
        (pathlib.Path(directory) / "scenario.yaml").write_text(scenario)
    return directory


def run(*arguments):
    return call("compare", *arguments)


def refused(*arguments):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def line_of(text, name):
    """The columns of the line with this name, in the first table that has one."""
    for table in text.split("\n\n"):
        found = [line for line in table.splitlines() if line.startswith("  " + name + "  ")]
        if found:
            assert len(found) == 1, (name, text)
            return re.split(r"\s{2,}", found[0].strip())
    raise AssertionError((name, text))


def test_values_stand_side_by_side_with_their_ratio_to_the_first(tmp_path):
    runs = [write_run(tmp_path / "a", 0.5), write_run(tmp_path / "b", 0.4, waited_s=3e-6), write_run(tmp_path / "c", 2.0)]
    done = run(*runs)
    assert (done.returncode, done.stderr) == (0, "")
    assert line_of(done.stdout, "metric") == ["metric", "a", "b", "ratio", "c", "ratio"]
    assert line_of(done.stdout, "ttft_s") == ["ttft_s", "500.000 ms", "400.000 ms", "0.800", "2.000 s", "4.000"]
    assert line_of(done.stdout, "exposed_s.kv")[1] == "300.000 ns"
    assert line_of(done.stdout, "exposed_s.tp") == ["exposed_s.tp", "0 s", "0 s", "0 s"]  # no ratio to nothing
    assert line_of(done.stdout, "bubble_fraction")[1] == "12.50 %"
    assert line_of(done.stdout, "prefill_capacity_tokens_per_s")[1:4] == ["2048.0", "2560.0", "1.250"]
    assert line_of(done.stdout, "kv.mean_actual_s")[1] == "40.000 us"
    assert line_of(done.stdout, "GPU_P[0][0]_PCI tx")[1] == "50.00 %"
    assert line_of(done.stdout, "kv for GPU_P[0][0]_PCI tx")[1:4] == ["2.000 us", "3.000 us", "1.500"]
    assert "IB_Cable_P[0] tx  " not in done.stdout.split("waiting")[1]  # nothing waited there
    assert "ttft_p50_s" not in done.stdout  # of a single request


def test_percentiles_show_where_there_are_several_requests(tmp_path):
    metrics = {"requests": 8, "ttft_p50_s": 0.1}
    runs = [write_run(tmp_path / name, 0.5, metrics=metrics) for name in "ab"]
    assert line_of(run(*runs).stdout, "ttft_p50_s")[1] == "100.000 ms"


def test_an_instance_does_not_repeat_what_its_service_has(tmp_path):
    runs = []
    for name, tokens in (("a", 1.0), ("b", 2.0)):
        prefill, decode = {"iterations": {"count": 4}, "kv_share": 0.5}, {"iterations": {"count": 6, "mean_tokens": tokens}}
        metrics = {"iterations": decode["iterations"], "prefill": prefill, "instances": {"prefill": prefill | {"own_s": 1.0}, "decode": decode}}
        runs.append(write_run(tmp_path / name, 0.5, metrics=metrics))
    found = re.findall(r"^  (instances\S+)", run(*runs).stdout, re.MULTILINE)
    assert found == ["instances.prefill.own_s"]


@pytest.mark.parametrize("name, text", [("busbw_gb_per_s.8192", "0.5"), ("time_s.8192", "500.000 ms"), ("tflops.hopper", "0.5")])
def test_a_name_tells_its_unit_before_or_behind_a_point(name, text):
    assert tables.formatter(name)(0.5) == text


def test_links_limits_the_list_and_keeps_the_busiest_of_every_run(tmp_path):
    runs = [write_run(tmp_path / "a", 0.5, busy=(0.5, 0.25)), write_run(tmp_path / "b", 0.5, busy=(0.125, 0.25))]
    links = run(*runs, "--links", 1).stdout.split("busiest links")[1]
    assert line_of(links, "GPU_P[0][0]_PCI tx")[1:] == ["50.00 %", "12.50 %", "0.250"]
    assert line_of(links, "IB_Cable_P[0] tx")[1:] == ["25.00 %", "25.00 %", "1.000"]


def test_every_class_shows_the_three_links_where_it_waited_longest(tmp_path):
    waits = {"A": (9, 1), "B": (8, 2), "C": (7, 3), "D": (6, 4)}
    for name in "ab":
        rows = ["name,direction,waited_tp_s,waited_kv_s"] + [f"{link},tx,{tp},{kv}" for link, (tp, kv) in waits.items()]
        (write_run(tmp_path / name, 0.5) / "links.csv").write_text("\n".join(rows) + "\n")
    text = run(tmp_path / "a", tmp_path / "b").stdout.split("waiting")[1]
    assert re.findall(r"(\w+ for \w) tx", text) == ["tp for A", "tp for B", "tp for C", "kv for D", "kv for C", "kv for B"]


def test_a_metric_that_one_run_lacks_is_a_dash(tmp_path):
    first = write_run(tmp_path / "a", 0.5)
    second = write_run(tmp_path / "b", 0.5, metrics={"requests": 1, "only_here_s": 1.0})
    text = run(first, second).stdout
    assert line_of(text, "ttft_s") == ["ttft_s", "500.000 ms", "-"]
    assert line_of(text, "only_here_s") == ["only_here_s", "-", "1.000 s"]


def test_labels_are_the_shortest_tails_that_differ_and_say_what_is_incomplete(tmp_path):
    runs = [write_run(tmp_path / "x" / "out", 0.5), write_run(tmp_path / "y" / "out", 0.5, complete=False)]
    assert line_of(run(*runs).stdout, "metric") == ["metric", "x/out", "y/out (incomplete)", "ratio"]


# A server of its own for decode, so that tp and pp of prefill need their group's name.
BASE = "name: a.yaml\nschema_version: 1\nplatform: plx_box\nworkload: {chunk_tokens: 256, prefill: {tp: 4, pp: 2}, decode: {tp: 4, pp: 2}}\n"


def labels_of(folder, *runs):
    """@param runs  text of a scenario, or that and changes of summary.json"""
    made = [one if isinstance(one, tuple) else (one, {}) for one in runs]
    paths = [write_run(folder / name, 0.5, scenario=text, **changes) for name, (text, changes) in zip("abcde", made)]
    done = run(*paths)
    assert (done.returncode, done.stderr) == (0, "")
    legend = done.stdout.splitlines()[: len(paths)]
    assert all(line.endswith(f": tiny on {changes.get('platform', 'plx_box')}, {path}") for line, path, (_, changes) in zip(legend, paths, made))
    labels = [line.partition(": ")[0] for line in legend]
    header = line_of(done.stdout, "metric")
    assert [header[1], *header[2::2]] == labels
    return labels


def test_labels_are_the_keys_that_differ_by_their_shortest_names(tmp_path):
    other = BASE.replace("prefill: {tp: 4, pp: 2}", "prefill: {tp: 8, pp: 1}")
    assert labels_of(tmp_path, BASE, other) == ["prefill.tp=4 prefill.pp=2", "prefill.tp=8 prefill.pp=1"]
    alone = [text.replace(", decode: {tp: 4, pp: 2}", "") for text in (BASE, other)]
    assert labels_of(tmp_path, *alone) == ["tp=4 pp=2", "tp=8 pp=1"]
    both = other.replace("decode: {tp: 4, pp: 2}", "decode: {tp: 8, pp: 2}")  # each tp as the other one, in either run
    assert labels_of(tmp_path, BASE, both) == ["tp=4 prefill.pp=2", "tp=8 prefill.pp=1"]
    assert labels_of(tmp_path, BASE + "events: [{at_us: 5, fail: true}]\n", BASE + "events: [{at_us: 6, fail: false}]\n") == [
        "at_us=5 fail=true", "at_us=6 fail=false"]
    assert labels_of(tmp_path, BASE + "sizes: [1, 2, 4]\n", BASE + "sizes: [1, 8, 4]\n") == ["sizes.1=2", "sizes.1=8"]


def test_labels_of_several_runs_tell_each_from_all_others(tmp_path):
    texts = [BASE + f"model: {{dtype: bf16}}\nmachine: {{plx: {{uplink: {uplink}, nics_per_plx: {nics}}}}}\n"
             for uplink in ("dual_root", "single_root") for nics in (1, 2)]
    assert labels_of(tmp_path, *texts) == [f"uplink={uplink} nics_per_plx={nics}" for uplink in ("dual_root", "single_root") for nics in (1, 2)]
    # Five keys differ from the first run; the last of them is needed to tell the second and third apart.
    texts = [BASE + "p: 1\nq: 1\nr: 1\ns: 1\nt: 1\n", BASE + "p: 2\nq: 2\nr: 2\ns: 2\nt: 2\n", BASE + "p: 2\nq: 2\nr: 2\ns: 2\nt: 3\n"]
    assert labels_of(tmp_path, *texts) == ["p=1 q=1 t=1 +2 more", "p=2 q=2 t=2 +2 more", "p=2 q=2 t=3 +2 more"]


def test_labels_are_short(tmp_path):
    texts = [BASE + "".join(f"a_still_longer_key_{letter}: {letter}{value}\n" for letter in "pqrs") for value in (1, 2)]
    assert labels_of(tmp_path, *texts) == ["a_still_longer_key_p=p1 +3 more", "a_still_longer_key_p=p2 +3 more"]
    texts = [BASE + f"note: {value}{'x' * 50}\n" for value in (1, 2)]
    assert labels_of(tmp_path, *texts) == [f"note={value}{'x' * 20}..." for value in (1, 2)]


def test_a_key_that_a_run_leaves_out_is_not_in_its_label(tmp_path):
    assert labels_of(tmp_path, BASE, BASE + "fabric: {fidelity: fluid}\n") == ["default", "fidelity=fluid"]
    sets = ["", "fabric: {fidelity: fluid}\n", "seeds: 4\n", "fabric: {fidelity: fluid}\nseeds: 4\n"]
    assert labels_of(tmp_path, *(BASE + text for text in sets)) == ["default", "fidelity=fluid", "seeds=4", "fidelity=fluid seeds=4"]
    setups = [{"setup": {"chunk_tokens": chunk, "prefill": {"tp": 4}}} for chunk in (512, 1024)]
    less = BASE.replace("chunk_tokens: 256, ", "")
    assert labels_of(tmp_path, (less, setups[0]), (BASE.replace("256", "1024"), setups[1])) == ["chunk_tokens=512", "chunk_tokens=1024"]
    # A default that is written out is no difference; a key that all set comes first.
    texts = [less + "fabric: {fidelity: fluid}\nmodel: {dtype: fp8}\n", BASE.replace("256", "512") + "model: {dtype: bf16}\n"]
    assert labels_of(tmp_path, (texts[0], setups[0]), (texts[1], setups[0])) == ["dtype=fp8 fidelity=fluid", "dtype=bf16"]


def test_labels_have_the_names_of_files_without_their_folders(tmp_path):
    texts = [BASE + f"model: {{config: {path}}}\n" for path in ("/x/models/tiny.json", "/y/models/large.json")]
    assert labels_of(tmp_path, *texts) == ["config=tiny.json", "config=large.json"]
    assert labels_of(tmp_path, texts[0], texts[0].replace("/x", "/y")) == ["a", "b"]


def test_platform_seed_and_build_label_runs_of_one_scenario(tmp_path):
    assert labels_of(tmp_path, BASE, (BASE, {"platform": "dgx_h100"})) == ["platform=plx_box", "platform=dgx_h100"]
    assert labels_of(tmp_path, BASE, (BASE + "seed: 7\n", {"seed": 7})) == ["seed=1", "seed=7"]
    builds = [{"simulator": {"version": "0.1.0", "commit": commit}} for commit in ("abc", "def")]
    assert labels_of(tmp_path, *((BASE, build) for build in builds)) == ["commit=abc", "commit=def"]
    other = BASE.replace("256", "512")
    assert labels_of(tmp_path, (BASE, builds[0]), (other, builds[1])) == ["chunk_tokens=256", "chunk_tokens=512"]


def test_labels_are_directories_where_scenarios_do_not_tell_runs_apart(tmp_path):
    assert labels_of(tmp_path, BASE, BASE) == ["a", "b"]
    assert labels_of(tmp_path, BASE, BASE.replace("a.yaml", "b.yaml")) == ["a", "b"]
    assert labels_of(tmp_path, BASE, BASE.replace("256", "512"), BASE) == ["a", "b", "c"]
    one_key_each = [BASE + "p: 1\nq: 1\nr: 1\ns: 1\n".replace(f"{key}: 1", f"{key}: 2") for key in "-pqrs"]
    assert labels_of(tmp_path, *one_key_each) == ["a", "b", "c", "d", "e"]
    assert labels_of(tmp_path / "older", BASE, None) == ["a", "b"]  # no scenario.yaml


def test_labels_of_real_runs(tmp_path):
    from platform_runs import succeed, tiny

    for name, sets in {"one": [], "other": ["--set", "workload.prefill.tp=4", "--set", "workload.prefill.pp=1"]}.items():
        succeed("plx_box", tiny(tmp_path), "--out", tmp_path / name, "--quiet", *sets)
    assert line_of(run(tmp_path / "one", tmp_path / "other").stdout, "metric")[1:4] == ["prefill.tp=2 prefill.pp=2", "prefill.tp=4 prefill.pp=1", "ratio"]


def test_csv_holds_every_number_unrounded(tmp_path):
    runs = [write_run(tmp_path / "a", 1 / 3), write_run(tmp_path / "b", 0.1)]
    assert run(*runs, "--csv", tmp_path / "t.csv").returncode == 0
    rows = list(csv.reader((tmp_path / "t.csv").open()))
    assert rows[0] == ["quantity", "a", "b"]
    table = {row[0]: row[1:] for row in rows[1:]}
    assert len(table) == len(rows) - 1
    assert [float(value) for value in table["ttft_s"]] == [1 / 3, 0.1]
    assert table["IB_Cable_P[0] tx utilisation"] == ["0.25", "0.25"]
    assert table["GPU_P[0][0]_PCI tx waited_kv_s"] == ["2e-06", "2e-06"]


# A prefill window of 1 s: kernels 0.4 s, all-reduces 0.3 s, the gate 0.05 s, a bubble of 0.25 s of which 0.1 s wait for activations.
WINDOW = {
    "requests": 1, "prefill_window_s": 1.0, "stage_utilisation": {"stage0": 0.5, "stage1": 0.3}, "bubble_fraction": 0.25,
    "exposed_s": {"tp": 0.3, "tp_sync": 0.05, "pp": 0.1, "kv": 0.02, "host": 0.0},
    "iterations": {"count": 4, "mean_s": 0.05},
    "decode": {"exposed_s": {"tp": 0.08, "tp_sync": 0.0, "pp": 0.04, "host": 0.0}},
}


def test_where_the_time_moved(tmp_path):
    more = WINDOW | {"prefill_window_s": 1.2, "stage_utilisation": {"stage0": 0.4}, "bubble_fraction": 0.125, "exposed_s": WINDOW["exposed_s"] | {"tp": 0.5}}
    runs = [write_run(tmp_path / "a", 1.0, metrics=WINDOW), write_run(tmp_path / "b", 1.2, metrics=more)]
    table = run(*runs).stdout.split("where the time moved")[1].split("\n\n")[0]
    rows = {line[0]: line[1:] for line in (re.split(r"\s{2,}", text.strip()) for text in table.splitlines()[1:])}
    assert rows == {
        "prefill: kernels": ["400.000 ms", "480.000 ms", "+80.000 ms"],
        "prefill: all-reduces": ["300.000 ms", "500.000 ms", "+200.000 ms"],
        "prefill: waiting for the last peer": ["50.000 ms", "50.000 ms", "0"],
        "prefill: waiting for activations": ["100.000 ms", "100.000 ms", "0"],
        "prefill: bubble": ["150.000 ms", "50.000 ms", "-100.000 ms"],
        "prefill: the rest": ["-", "20.000 ms"],
        "prefill": ["1.000 s", "1.200 s", "+200.000 ms"],
        "handoff": ["20.000 ms", "20.000 ms", "0"],
        "decode step: all-reduces": ["20.000 ms", "20.000 ms", "0"],
        "decode step: waiting for activations": ["10.000 ms", "10.000 ms", "0"],
        "decode step: kernels and the rest": ["20.000 ms", "20.000 ms", "0"],
        "decode step": ["50.000 ms", "50.000 ms", "0"],
    }


def test_a_run_of_version_1_is_compared_by_the_names_of_today(tmp_path):
    steps = {"count": 4, "tokens": 8, "mean_s": 0.05, "mean_batch": 2.0, "tokens_per_s": 40.0}
    before = dict(zip(("steps", "tokens", "step_s", "batch", "capacity_tokens_per_s"), steps.values()))
    now = WINDOW | {"iterations": steps}
    then = {name: value for name, value in WINDOW.items() if name != "iterations"} | {"decode": WINDOW["decode"] | before}
    runs = [write_run(tmp_path / "then", 1.0, metrics=then, schema_version=1), write_run(tmp_path / "now", 1.0, metrics=now)]
    done = run(*runs)
    assert (done.returncode, done.stderr) == (0, "")
    for name, value in steps.items():
        shown = tables.formatter(f"iterations.{name}")(value)
        assert line_of(done.stdout, f"iterations.{name}") == [f"iterations.{name}", shown, shown, "1.000"]
    assert line_of(done.stdout, "decode step") == ["decode step", "50.000 ms", "50.000 ms", "0"]
    assert not re.search("|".join(rf"decode\.{name}\\b" for name in before), done.stdout)


@pytest.mark.parametrize("tp, pp", [(2, 2), (4, 1), (1, 3)])
def test_the_parts_of_a_real_prefill_are_the_whole(tmp_path, tp, pp):
    from platform_runs import succeed, tiny

    sets = ["--set", f"workload.prefill.tp={tp}", "--set", f"workload.prefill.pp={pp}", "--set", "workload.requests.count=3"]
    succeed("plx_box", tiny(tmp_path), "--out", tmp_path / "out", "--quiet", *sets)
    found = tables.parts(Run(str(tmp_path / "out")).metrics)
    assert "prefill: the rest" not in found and min(found.values()) >= 0
    assert sum(value for name, value in found.items() if name.startswith("prefill: ")) == pytest.approx(found["prefill"], rel=1e-9)


@pytest.mark.parametrize("phase", ["prefill", "decode", "training"])
def test_the_parts_of_a_real_layer_are_the_whole(tmp_path, phase):
    from platform_runs import ROOT, succeed

    succeed("dgx_h100", ROOT / "scenarios" / "layers" / f"{phase}.yaml", "--out", tmp_path / "out", "--quiet")
    found = tables.parts(Run(str(tmp_path / "out")).metrics)
    assert list(found) == ["layer: kernels", "layer: collectives", "layer"] and min(found.values()) > 0
    assert found["layer: kernels"] + found["layer: collectives"] == pytest.approx(found["layer"], rel=1e-9)


def test_what_only_rounding_leaves_is_nothing(tmp_path):
    from_sums = WINDOW | {"bubble_fraction": 0.1 - 1e-17, "exposed_s": WINDOW["exposed_s"] | {"host": 1e-17}}
    noise = WINDOW | {"ttft_s": 0.5 + 1e-15, "exposed_s": WINDOW["exposed_s"] | {"tp": 0.3 + 1e-15}}
    runs = [write_run(tmp_path / name, 1.0, metrics=metrics) for name, metrics in (("a", from_sums), ("b", WINDOW), ("c", noise))]
    assert tables.parts(Run(str(runs[0])).metrics)["prefill: bubble"] == 0
    text = run(*runs).stdout
    assert line_of(text, "prefill: bubble")[1:4] == ["0 s", "150.000 ms", "+150.000 ms"]
    assert line_of(run(runs[1], runs[2]).stdout, "prefill: all-reduces")[1:] == ["300.000 ms", "300.000 ms", "0"]
    assert "-0.000" not in text and tables.duration(-1e-16) == "0 s" and tables.duration(1e-12) == "0.001 ns"


def test_links_that_changed_most_come_first(tmp_path):
    runs = [write_run(tmp_path / "a", 0.5, busy=(0.5, 0.25)), write_run(tmp_path / "b", 0.5, busy=(0.45, 0.375)), write_run(tmp_path / "c", 0.5, busy=(0.5, 0.25))]
    changed = run(*runs).stdout.split("links that changed most")[1].split("\n\n")[0].splitlines()[1:]
    assert [re.split(r"\s{2,}", line.strip()) for line in changed] == [
        ["IB_Cable_P[0] tx", "25.00 %", "37.50 %", "+12.50 points", "25.00 %", "0"],
        ["GPU_P[0][0]_PCI tx", "50.00 %", "45.00 %", "-5.00 points", "50.00 %", "0"],
    ]
    assert "links that changed most" not in run(runs[0], runs[2]).stdout


def test_a_link_without_utilisation_in_a_phase_is_a_dash(tmp_path):
    runs = [write_run(tmp_path / name, 0.5) for name in "ab"]
    for directory in runs:
        summary = json.loads((directory / "summary.json").read_text())
        summary["links"][0]["utilisation_prefill"] = 0.75
        (directory / "summary.json").write_text(json.dumps(summary))
    in_phase = run(*runs).stdout.split("utilisation in prefill")[1].split("\n\n")[0]
    assert line_of(in_phase, "GPU_P[0][0]_PCI tx")[1:] == ["75.00 %", "75.00 %", "1.000"]
    assert line_of(in_phase, "IB_Cable_P[0] tx")[1:] == ["-", "-"]


def test_markdown_and_html_say_what_the_terminal_says(tmp_path):
    runs = [write_run(tmp_path / "a|b", 0.5), write_run(tmp_path / "<b>", 0.4)]
    done = run(*runs, "--markdown", tmp_path / "t.md", "--html", tmp_path / "t.html")
    assert done.returncode == 0, done.stderr
    printed = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines() if line.startswith("  ")]
    markdown = (tmp_path / "t.md").read_text()
    rows = [[cell.strip(" `").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in markdown.splitlines() if line.startswith("| ") and "---" not in line]
    assert [[cell for cell in row if cell] for row in rows] == printed
    page = (tmp_path / "t.html").read_text()
    cells = [[html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", line) if cell] for line in re.findall(r"<tr>(.*?)</tr>", page)]
    titles = re.findall(r'<h2 id="table-\d+-title">([^<]*)</h2>', page)
    assert len(titles) == 5
    assert [row for row in printed if row[0].capitalize() not in titles and row not in cells] == []
    assert not re.search(r"src=|href=\"(?!#|data:)|url\(", page) and "<b>" not in page


def test_the_page_has_bars_of_where_the_time_goes(tmp_path):
    step = {"step_s": 1.0, "kernels_s": 0.7, "bubble_s": 0.1, "host_s": 0.05, "optimizer_s": 0.05, "exposed_s": {"tp": 0.1, "pp": 0.0}}
    found = []
    for name in ("a", "b"):
        folder = pathlib.Path(write_run(tmp_path / name, 0.5, kind="training"))
        summary = json.loads((folder / "summary.json").read_text())
        (folder / "summary.json").write_text(json.dumps(summary | {"metrics": step}))
        found.append(Run(str(folder)))
        found[-1].label = name
    [chart] = compare_page.bars(found)
    assert chart.title == "Where the time goes: step" and [label for _, label, _ in chart.bars] == ["a", "b"]
    assert chart.names == ["kernels", "tensor-parallel collectives", "bubble", "host software", "optimizer"]
    assert [sum(parts.values()) for _, _, parts in chart.bars] == pytest.approx([1.0, 1.0])


def test_points_of_a_sweep(tmp_path):
    sweep = tmp_path / "sweep"
    rows = [(1, 1, "done"), (2, 1, "done"), (2, 2, "failed"), (2, 3, "missing")]
    for tp, pp, status in rows:
        if status == "done":
            write_run(sweep / "points" / f"{tp}{pp}" / "out", 0.5 / tp)
    with contextlib.closing(sqlite3.connect(sweep / "results.sqlite")) as database, database:
        database.execute("CREATE TABLE meta (key, value)")
        database.execute("INSERT INTO meta VALUES ('schema_version', '1')")
        database.execute("CREATE TABLE runs (status, error, directory, tp, pp, note)")
        for tp, pp, status in rows:
            database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, 'x')", (status, "no room" if status == "failed" else None, f"points/{tp}{pp}", tp, pp))
    done = run(f"{sweep}:note=x,tp=1,pp=1", f"{sweep}:note=x,tp=2,pp=1")
    assert line_of(done.stdout, "metric") == ["metric", "tp=1", "tp=2", "ratio"]
    assert line_of(done.stdout, "ttft_s") == ["ttft_s", "500.000 ms", "250.000 ms", "0.500"]
    alone = write_run(tmp_path / "alone", 0.25)
    assert line_of(run(alone, f"{sweep}:tp=1").stdout, "metric") == ["metric", "alone", f"{sweep}:tp=1", "ratio"]
    for directory, chunk in ((alone, 256), (sweep / "points" / "11" / "out", 512)):
        (directory / "scenario.yaml").write_text(f"workload: {{chunk_tokens: {chunk}}}\n")
    assert line_of(run(alone, f"{sweep}:tp=1").stdout, "metric") == ["metric", "chunk_tokens=256", "chunk_tokens=512", "ratio"]
    for wanted, words in [("tp=2", "3 points of the sweep match; expected exactly one"), ("tp=9", "0 points of the sweep match; expected exactly one"),
                          ("tq=2", "no axis 'tq'; there are: status, error, directory, tp, pp, note"), ("tp", "'tp' is not AXIS=VALUE"),
                          ("tp=2,pp=2", "failed: no room"), ("tp=2,pp=3", "missing")]:
        assert refused(alone, f"{sweep}:{wanted}") == f"compare.py: error: {sweep}:{wanted}: {words}\n"
    assert refused(alone, sweep) == f"compare.py: error: {sweep}: is a sweep; select one of its points: {sweep}:AXIS=VALUE,...\n"
    assert refused(f"{sweep}:tp=1", f"{sweep}:tp=1").endswith(": given twice\n")
    with contextlib.closing(sqlite3.connect(sweep / "results.sqlite")) as database, database:
        database.execute("UPDATE meta SET value = '2'")
    assert refused(alone, f"{sweep}:tp=1").endswith("results.sqlite: schema_version is not 1; written by another version of Railyard?\n")


def test_bad_input_is_one_line(tmp_path):
    good = write_run(tmp_path / "good", 0.5)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "summary.json").write_text("no")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "summary.json").write_text('{"schema_version": 1}')
    other = write_run(tmp_path / "other", 0.5, kind="training")
    newer = write_run(tmp_path / "newer", 0.5, schema_version=3)
    unlinked = write_run(tmp_path / "unlinked", 0.5)
    (unlinked / "links.csv").unlink()
    assert refused(good) == "compare.py: error: nothing to compare; give at least two runs\n"
    assert refused(good, good) == f"compare.py: error: {good}: given twice\n"
    assert refused(good, tmp_path / "none").endswith("none/summary.json: No such file or directory; expected summary.json in the --out directory of a run\n")
    assert "text/summary.json: not summary.json in the --out directory of a run: " in refused(good, tmp_path / "text")
    assert refused(good, tmp_path / "bare").endswith("bare/summary.json: has no kind; written by another version of Railyard?\n")
    assert refused(good, newer).endswith("schema_version: expected 1 to 2, got 3; written by another version of Railyard?\n")
    assert refused(good, other).endswith("runs of different kinds: disaggregated_prefill, training\n")
    assert refused(good, unlinked).endswith("unlinked/links.csv: No such file or directory; expected the links of a run\n")
    spoiled = write_run(tmp_path / "spoiled", 0.5, scenario="workload: {tp: 1, tp: 2}\n")
    written = write_run(tmp_path / "written", 0.5, scenario="workload: {tp: 1}\n")
    assert refused(written, spoiled) == f"{spoiled}/scenario.yaml:1:19: error: workload: 'tp' is given twice\n"
    (spoiled / "scenario.yaml").write_text("[1, 2")
    assert f"{spoiled}/scenario.yaml:1:6: error: not YAML: " in refused(written, spoiled)
    (spoiled / "scenario.yaml").write_text("- 1\n")
    assert refused(written, spoiled) == f"{spoiled}/scenario.yaml:1:1: error: scenario: expected a mapping\n"
    assert refused(good, other, "--links", "0").endswith("'0' is not an integer of at least 1\n")


def test_parts_of_a_training_step_add_up():
    metrics = {"step_s": 10.0, "kernels_s": 6.0, "bubble_s": 1.0, "host_s": 0.5, "optimizer_s": 0.25, "exposed_s.tp": 2.0, "exposed_s.dp": 0.25}
    found = tables.parts(metrics)
    assert found.pop("step") == sum(found.values()) and found["step: exposed tp"] == 2.0

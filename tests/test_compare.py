"""The comparison of runs: what it prints, what it writes, what it runs and what it refuses."""

import csv
import json
import os
import pathlib
import re
import stat
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "compare.py"

# Stands for a platform executable: TTFT is 0.8 s over workload.prefill.tp, the wait grows with it, tp above 4 is refused.
EXECUTABLE = """#!/usr/bin/python3
import argparse, json, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("scenario")
parser.add_argument("--set", action="append", default=[])
parser.add_argument("--out")
parser.add_argument("--quiet", action="store_true")
options = parser.parse_args()
assert options.quiet
sets = dict(text.split("=") for text in options.set)
tp = int(sets.get("workload.prefill.tp", 1))
if tp > 4:
    sys.exit(print(f"{options.scenario}:1:1: error: no room for tp {tp}", file=sys.stderr) or 2)
if "broken" in options.scenario:
    sys.exit(print("the run cannot progress", file=sys.stderr) or 3)
sys.path.insert(0, os.environ["TESTS"])
import test_compare
test_compare.write_run(options.out, 0.8 / tp, waited_s=tp * 1e-6, seed=int(sets.get("seed", 1)))
"""


def write_run(directory, ttft_s, waited_s=2e-6, busy=(0.5, 0.25), kind="disaggregated_prefill", **changes):
    names = ["GPU_P[0][0]_PCI", "IB_Cable_P[0]"]
    summary = {
        "schema_version": 1,
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
            "prefill_tokens_per_s": 1024 / ttft_s,
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
    return directory


def run(*arguments, **environment):
    return subprocess.run(
        [str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def refused(*arguments):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def line_of(text, name):
    """The columns of the table's line with this name."""
    found = [line for line in text.splitlines() if line.startswith("  " + name + "  ")]
    assert len(found) == 1, (name, text)
    return re.split(r"\s{2,}", found[0].strip())


@pytest.fixture(name="executable")
def make_executable(tmp_path):
    path = tmp_path / "plx_box"
    path.write_text(EXECUTABLE)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_values_stand_side_by_side_with_their_ratio_to_the_first(tmp_path):
    runs = [write_run(tmp_path / "a", 0.5), write_run(tmp_path / "b", 0.4, waited_s=3e-6), write_run(tmp_path / "c", 2.0)]
    done = run(*runs)
    assert (done.returncode, done.stderr) == (0, "")
    assert line_of(done.stdout, "metric") == ["metric", "a", "b", "ratio", "c", "ratio"]
    assert line_of(done.stdout, "ttft_s") == ["ttft_s", "500.000 ms", "400.000 ms", "0.800", "2.000 s", "4.000"]
    assert line_of(done.stdout, "exposed_s.kv")[1] == "300.000 ns"
    assert line_of(done.stdout, "exposed_s.tp") == ["exposed_s.tp", "0 s", "0 s", "0 s"]  # no ratio to nothing
    assert line_of(done.stdout, "bubble_fraction")[1] == "12.50 %"
    assert line_of(done.stdout, "prefill_tokens_per_s")[1:4] == ["2048.0", "2560.0", "1.250"]
    assert line_of(done.stdout, "kv.mean_actual_s")[1] == "40.000 us"
    assert line_of(done.stdout, "GPU_P[0][0]_PCI tx")[1] == "50.00 %"
    assert line_of(done.stdout, "kv at GPU_P[0][0]_PCI tx")[1:4] == ["2.000 us", "3.000 us", "1.500"]
    assert "IB_Cable_P[0] tx  " not in done.stdout.split("waiting")[1]  # nothing waited there
    assert "ttft_p50_s" not in done.stdout  # of a single request


def test_percentiles_show_where_there_are_several_requests(tmp_path):
    metrics = {"requests": 8, "ttft_p50_s": 0.1}
    runs = [write_run(tmp_path / name, 0.5, metrics=metrics) for name in "ab"]
    assert line_of(run(*runs).stdout, "ttft_p50_s")[1] == "100.000 ms"


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
    assert re.findall(r"(\w+ at \w) tx", text) == ["tp at A", "tp at B", "tp at C", "kv at D", "kv at C", "kv at B"]


def test_a_metric_that_one_run_lacks_is_a_dash(tmp_path):
    first = write_run(tmp_path / "a", 0.5)
    second = write_run(tmp_path / "b", 0.5, metrics={"requests": 1, "only_here_s": 1.0})
    text = run(first, second).stdout
    assert line_of(text, "ttft_s") == ["ttft_s", "500.000 ms", "-"]
    assert line_of(text, "only_here_s") == ["only_here_s", "-", "1.000 s"]


def test_labels_are_the_shortest_tails_that_differ_and_say_what_is_incomplete(tmp_path):
    runs = [write_run(tmp_path / "x" / "out", 0.5), write_run(tmp_path / "y" / "out", 0.5, complete=False)]
    assert line_of(run(*runs).stdout, "metric") == ["metric", "x/out", "y/out (incomplete)", "ratio"]


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


def test_run_compares_scenarios_and_passes_settings_on(tmp_path, executable):
    out = tmp_path / "new" / "out"
    done = run("--run", executable, "s/one.yaml", "s/two.yaml", "--out", out, "--set", "seed=7", TESTS=str(SCRIPT.parent.parent / "tests"))
    assert done.returncode == 0, done.stderr
    assert line_of(done.stdout, "metric") == ["metric", "one", "two", "ratio"]
    assert [json.loads((out / name / "summary.json").read_text())["seed"] for name in ("one", "two")] == [7, 7]


def test_vary_runs_every_combination_and_leaves_out_what_is_refused(tmp_path, executable):
    arguments = ["--vary", "workload.prefill.tp=1,2,8", "--vary", "seed=3,4"]
    done = run("--run", executable, "one.yaml", "--out", tmp_path / "out", *arguments, TESTS=str(SCRIPT.parent.parent / "tests"))
    assert done.returncode == 0, done.stderr
    assert line_of(done.stdout, "metric")[1::2] == ["tp=1,seed=3", "ratio", "ratio", "ratio"]
    assert line_of(done.stdout, "ttft_s") == ["ttft_s", "800.000 ms", "800.000 ms", "1.000"] + ["400.000 ms", "0.500"] * 2
    left_out = [line for line in done.stderr.splitlines() if line.startswith("left out")]
    assert left_out == [f"left out tp=8,seed={seed}: one.yaml:1:1: error: no room for tp 8" for seed in (3, 4)]


def test_vary_keeps_a_list_in_brackets_whole(tmp_path, executable):
    done = run("--run", executable, "one.yaml", "--out", tmp_path / "out", "--vary", "seed=[1,2],3", TESTS="")
    assert "running seed=[1,2]\n" in done.stderr


def test_a_run_that_fails_ends_with_its_own_words_and_status(tmp_path, executable):
    done = run("--run", executable, "broken.yaml", "one.yaml", "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (3, "running broken\nthe run cannot progress\n")
    done = run("--run", executable, "one.yaml", "two.yaml", "--out", tmp_path / "out", "--set", "workload.prefill.tp=9")
    assert (done.returncode, done.stderr) == (2, "running one\none.yaml:1:1: error: no room for tp 9\n")


def test_bad_input_is_one_line(tmp_path, executable):
    good = write_run(tmp_path / "good", 0.5)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "summary.json").write_text("no")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "summary.json").write_text('{"schema_version": 1}')
    other = write_run(tmp_path / "other", 0.5, kind="training")
    newer = write_run(tmp_path / "newer", 0.5, schema_version=2)
    unlinked = write_run(tmp_path / "unlinked", 0.5)
    (unlinked / "links.csv").unlink()
    assert refused(good) == "compare.py: error: one run only: nothing to compare\n"
    assert refused(good, good) == f"compare.py: error: {good}: given twice\n"
    assert refused(good, tmp_path / "none").endswith("none/summary.json: No such file or directory; expected the --out directory of a run\n")
    assert "text/summary.json: not JSON: " in refused(good, tmp_path / "text")
    assert refused(good, tmp_path / "bare").endswith("bare/summary.json: has no kind\n")
    assert refused(good, newer).endswith("schema_version is not 1; written by another version of Railyard?\n")
    assert refused(good, other).endswith("runs of different kinds: disaggregated_prefill, training\n")
    assert refused(good, unlinked).endswith("unlinked/links.csv: No such file or directory\n")
    assert refused(good, other, "--vary", "a=1").endswith("--out, --set and --vary need --run EXECUTABLE\n")
    assert refused("a.yaml", "--run", executable).endswith("--run needs --out DIR\n")
    assert refused("a.yaml", "--run", executable, "--out", tmp_path / "o", "--vary", "a").endswith("--vary a: not KEY=VALUE,VALUE,...\n")
    assert refused("a.yaml", "--run", executable, "--out", tmp_path / "o", "--vary", "a=1,1").endswith("a=1: given twice\n")
    assert refused(good, other, "--links", "0").endswith("'0' is no number from 1 on\n")
    assert not (tmp_path / "o").exists()

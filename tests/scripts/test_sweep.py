"""Sweeps: which points a file makes, what runs and what does not run again, and what the database says."""

import csv
import json
import random
import shutil
import signal
import subprocess
import time

import pytest

from sweeps import ROOT, SWEEP, contents, fixture_folder  # noqa: F401  pylint: disable=unused-import

import sweep  # noqa: E402
from lib import runner  # noqa: E402
from sweeping.expressions import Expression, ExpressionError  # noqa: E402
from sweeping.identity import identity  # noqa: E402
from sweeping.plan import Sweep  # noqa: E402


def points(folder, text):
    folder.sweep(text)
    return Sweep(folder.path / "sweep.yaml").points()


def values(folder, axes, more=""):
    return [tuple(point.values.values()) for point in points(folder, f"scenario: base.yaml\naxes:\n{axes}{more}")]


# -- which points

def test_the_last_axis_is_the_fastest_and_where_chooses(folder):
    assert values(folder, "  workload.tp: [1, 2, 4]\n  workload.pp: [4, 2, 1]\n") == [(t, p) for t in (1, 2, 4) for p in (4, 2, 1)]
    chosen = "let: {gpus: 8, ranks: tp * pp}\nwhere: [ranks == gpus / 2, tp != 2 or pp == 1]\n"
    assert values(folder, "  workload.tp: [1, 2, 4]\n  workload.pp: [4, 2, 1]\n", chosen) == [(1, 4), (4, 1)]


@pytest.mark.parametrize("axis, expected", [
    ("{from: 1, to: 8, factor: 2}", [1, 2, 4, 8]),
    ("{from: 1, to: 7.9, factor: 2}", [1, 2, 4]),
    ("{from: 256, to: 1024, step: 256}", [256, 512, 768, 1024]),
    ("{from: 0.1, to: 0.3, step: 0.1}", [0.1, 0.2, 0.3]),
    ("{from: 1e6, to: 1e6, step: 1}", [1e6]),
    ("{values: [on, null, 1e-6, 0x10, [1, 2], {a: 1}]}", ["on", None, 1e-6, 16, [1, 2], {"a": 1}]),
])
def test_values_of_an_axis(folder, axis, expected):
    assert [value for value, in values(folder, f"  workload.tp: {axis}\n")] == expected


def test_what_a_point_sets(folder):
    (folder.path / "model.json").touch()
    (folder.path / "other").mkdir()
    (folder.path / "other" / "scenario.yaml").write_text("platform: rack\nseed: 7\nmodel: {config: ../model.json}\n")
    first, *_, last = points(folder, """\
scenario: base.yaml
set: {refuse: 1, workload.op: none}
axes:
  box:
    choices:
      small: {set: {workload.op: gather}, let: {gpus: 8}}
      large: {scenario: other/scenario.yaml, set: {model.config: model.json}, let: {gpus: 72}}
  workload.tp: {values: [1, 2], name: ranks, also: [workload.pp]}
where: ranks < gpus
repeats: 2
""")
    assert (first.platform, first.seed, first.values) == ("box", 1, {"box": "small", "ranks": 1})
    assert first.settings == {"refuse": 1, "workload.op": "gather", "workload.tp": 1, "workload.pp": 1}
    assert (last.platform, last.seed, last.position, last.names["gpus"]) == ("rack", 8, 7, 72)
    assert last.settings == {"refuse": 1, "workload.op": "none", "model.config": str(folder.path / "model.json"), "workload.tp": 2,
                             "workload.pp": 2, "seed": 8}
    assert last.scenario.text.startswith("platform: rack")


def test_options_of_a_point_reach_the_executable_and_make_it_another_point(folder):
    text = "scenario: base.yaml\noptions: [--jobs, none]\naxes:\n  a: {choices: {x: {options: [--why]}, y: {}}}\n"
    first, second = points(folder, text)
    assert (first.options, second.options) == (("--jobs", "none", "--why"), ("--jobs", "none"))
    assert identity(first, folder.bin) != identity(second, folder.bin)
    assert folder.run().returncode == 0
    assert [line.count("--jobs none") for line in folder.log.read_text().splitlines()] == [1, 1] and folder.log.read_text().count("--why") == 1


def test_platforms_are_an_axis(folder):
    made = points(folder, "scenario: base.yaml\naxes:\n  platform: [box, rack]\n")
    assert [(point.platform, point.settings["platform"]) for point in made] == [("box", "box"), ("rack", "rack")]


# -- expressions

@pytest.mark.parametrize("text, value", [
    ("tp * pp <= 8", True), ("1 < tp < 3", True), ("tp // 3 + tp % 3 - -1", 3), ("tp in [1, 4]", False), ("not tp == 2 or pp == 4", True),
    ("max(tp, pp, 3) / min(tp, abs(-pp))", 2.0), ("name == 'plx'", True), ("exposed_s.tp / 2", 0.5),
])
def test_expressions(text, value):
    assert Expression(text).value({"tp": 2, "pp": 4, "name": "plx", "exposed_s.tp": 1.0}) == value


@pytest.mark.parametrize("text", [
    "__import__('os')", "tp.__class__()", "(lambda: 1)()", "[x for x in tp]", "tp ** 9", "tp << 9", "f'{tp}'", "tp[0]", "open", "tp if tp else 0",
    "min(*tp)", "max(key=tp)", "(tp := 1)", "b'1'", "1j", "tp =", "", "'a' * 9", "name + name", "tp / 0", "tp < name", "-name", "(" * 300, "1" * 2000,
])
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(ExpressionError):
        Expression(text).value({"tp": 2, "name": "plx"})


# -- bad input

@pytest.mark.parametrize("text, line", [
    ("axes: {workload.tp: [1]}", "1:1: error: scenario: missing; a sweep has a base scenario and axes"),
    ("scenario: nowhere.yaml\naxes: {workload.tp: [1]}", "1:11: error: scenario: nowhere.yaml: no such file"),
    ("scenario: base.yaml\naxis: {workload.tp: [1]}", "2:1: error: sweep: unknown key 'axis' (did you mean 'axes'?); accepted: "),
    ("scenario: base.yaml\naxes: {workload.tp: []}", "2:21: error: axes.workload.tp: no values"),
    ("scenario: base.yaml\naxes: {}", "2:7: error: axes: expected at least one"),
    ("scenario: base.yaml\naxes: {workload.tp: [1, 1]}", "2:25: error: axes.workload.tp: 1 is given twice"),
    ("scenario: base.yaml\naxes: {workload.tp: {from: 1, to: 4}}", "2:21: error: axes.workload.tp: expected a list, values, choices, or from, to and one of "),
    ("scenario: base.yaml\naxes: {workload.tp: {from: 1, to: 4, step: -1}}", "2:21: error: axes.workload.tp: expected from <= to and a step above 0"),
    ("scenario: base.yaml\naxes: {workload.tp: {values: [1], to: 4}}", "2:39: error: axes.workload.tp: values, or from, to and step or factor; not both"),
    ("scenario: base.yaml\naxes: {workload.tp: {value: [1]}}", "2:22: error: axes.workload.tp: unknown key 'value' (did you mean 'values'?)"),
    ("scenario: base.yaml\naxes: {a.tp: [1], b.tp: [1]}", "2:19: error: axes.b.tp: another axis has the name 'tp'; give this axis another name with name:"),
    ("scenario: base.yaml\naxes: {a: {choices: {x: {set: {workload.tp: 1}}}}, workload.tp: [1]}", "2:52: error: axes.workload.tp: sets workload.tp, which the axis 'a' also sets"),
    ("scenario: base.yaml\naxes: {a.status: [1]}", "2:8: error: axes.a.status: 'status' has another meaning in the results"),
    ("scenario: base.yaml\naxes: {workload.tp: [1]}\nwhere: tpp == 1", "3:8: error: where: tpp == 1: 'tpp' is unknown (did you mean 'tp'?); known here: platform, seed, tp"),
    ("scenario: base.yaml\naxes: {workload.tp: [1]}\nwhere: tp + 1", "3:8: error: where: tp + 1 is 2, neither true nor false"),
    ("scenario: base.yaml\naxes: {workload.tp: [1]}\nwhere: tp == 2", "1:1: error: where: true for none of 1 combinations"),
    ("scenario: base.yaml\naxes: {workload.tp: [1]}\nwhere: tp.x()", "3:8: error: where: tp.x(): unknown function; accepted: min, max, abs"),
    ("scenario: base.yaml\naxes: {workload.tp: [1]}\nlet: {tp: 1}", "3:7: error: let: 'tp' is not a name, or names an axis, platform or seed"),
    ("scenario: base.yaml\naxes: {workload.tp: [1]}\noptions: [--jobs, some]", "3:19: error: options: --jobs needs one of all, stage, none behind it"),
    ("scenario: base.yaml\naxes: {workload.tp: [1]}\noptions: [--out, x]", "3:11: error: options: '--out' is unknown"),
    ("scenario: base.yaml\naxes: {workload.tp: [1]}\nrepeats: 0", "3:10: error: repeats: expected an integer from 1 to 1000000"),
    ("scenario: base.yaml\naxes: {seed: [1]}\nrepeats: 2", "3:10: error: repeats: cannot be combined with the axis 'seed', because both set the seed"),
    ("scenario: base.yaml\naxes: {workload.tp: [1]}\nobjective: ttft_s", "3:12: error: objective: expected a mapping"),
    ("scenario: base.yaml\naxes: {workload.tp: [1]}\nschema_version: 2", "3:17: error: schema_version: expected 1"),
    ("scenario: base.yaml\naxes: {model.config: [none.json]}", "2:23: error: model.config: none.json: no such file or folder; paths are relative to the sweep file"),
    ("scenario: base.yaml\naxes: {workload.tpp: [1]}", "2:8: error: workload.tpp: unknown key (did you mean 'tp'?); accepted: tp, pp, op"),
    ("scenario: base.yaml\nset: {worklod.tp: 1}\naxes: {workload.tp: [1]}", "2:7: error: worklod: unknown key (did you mean 'workload'?)"),
    ("scenario: base.yaml\naxes: {platform: [bax]}", ": error: no platform executable 'bax' in "),
    ("scenario: base.yaml\naxes: {a: {from: 1, to: 1001, step: 1}, b: {from: 1, to: 1000, step: 1}}", "1:1: error: axes: 1001000 combinations, 1 times: more than 1000000 runs"),
    ("scenario: base.yaml\naxes: {workload.tp: [1, 2]}\nrepeats: 500001", "axes: 2 combinations, 500001 times: more than 1000000 runs"),
    ("scenario: base.yaml\naxes: [", "2:8: error: not YAML: "),
    ("scenario: base.yaml\nscenario: base.yaml", "2:1: error: sweep: 'scenario' is given twice"),
    ("- a", "1:1: error: sweep: expected a mapping"),
    ("", ": error: empty"),
])
def test_a_bad_sweep_is_one_line(folder, capsys, text, line):
    folder.sweep(text)
    with pytest.raises(SystemExit) as end:
        sweep.main(folder.command()[1:])
    stdout, stderr = capsys.readouterr()
    assert (end.value.code, stdout, stderr.count("\n")) == (2, "", 1), stderr
    assert line in stderr and stderr.startswith(str(folder.path / "sweep.yaml"))
    assert not (folder.path / "out").exists()


def test_bad_options_are_one_line(folder):
    for arguments, words in [(["--backend", "slrm"], "'slrm' is unknown; accepted: local, slurm, or a command that contains {command}"),
                             (["--sbatch=-p x"], "--sbatch needs --backend slurm"), (["--workers", "0"], "'0' is not an integer of at least 1")]:
        done = folder.run(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1) and words in done.stderr
    assert not (folder.path / "out").exists()


# -- runs

def test_the_database_says_what_the_runs_say(folder):
    folder.base(refuse=4)
    done = folder.run("--workers", 2, "--csv", folder.path / "runs.csv")
    assert done.returncode == 1 and done.stdout.startswith("10 points: 8 done, 2 failed, 0 missing\n  failed 2 times: scenario.yaml:1:1: error: no room for tp 4\n")
    assert "smallest ttft_s:\n  225 ms       tp=8, pp=1\n" in done.stdout
    assert "10 of 10 over, 2 failed, 0 s left, best ttft_s = 225 ms at tp=8, pp=1\n" in done.stderr
    names = "position, status, tp, pp, seed, platform, kind, ttft_s, objective, \"exposed_s.tp\", requests, error"
    expected = []
    for position, (tp, pp) in enumerate((t, p) for t in (1, 2, 4, 8) for p in (1, 2, 4, 8) if t * p <= 8):
        ttft_s = 1 / tp + pp / 10
        end = (None, None, None, None, None, "scenario.yaml:1:1: error: no room for tp 4") if tp == 4 else ("stand_in", ttft_s, ttft_s, tp * 1e-3, 1, None)
        expected.append((position, "failed" if tp == 4 else "done", tp, pp, 1, "box", *end))
    assert folder.rows(names) == expected
    with open(folder.path / "runs.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["tp"], row["ttft_s"]) for row in rows] == [(str(row[2]), "" if row[7] is None else repr(row[7])) for row in expected]
    for directory, status in folder.rows("directory, status"):
        place = folder.path / "out" / directory
        assert json.loads((place / "out" / "summary.json").read_text())["metrics"] if status == "done" else (place / "error.txt").read_text()


def test_only_what_is_missing_runs(folder):
    folder.base(refuse=8)
    assert folder.run().returncode == 1 and folder.runs() == 10
    first = contents(folder.path / "out" / "results.sqlite")
    again = folder.run()
    assert (again.returncode, again.stderr, folder.runs()) == (1, "0 of 10 points to run\n", 10)
    assert contents(folder.path / "out" / "results.sqlite") == first
    assert folder.run("--retry-failed").returncode == 1 and folder.runs() == 11
    folder.sweep(SWEEP.replace("[1, 2, 4, 8]", "[1, 2, 3]"))  # three of its own, eight that are there
    assert folder.run().returncode == 0 and folder.runs() == 13
    assert [row for row in folder.rows("tp, pp, ttft_s") if row[0] == 3] == [(3, pp, 1 / 3 + pp / 10) for pp in (1, 2)]
    listed = folder.run("--list")
    assert listed.returncode == 0 and [line.split()[1] for line in listed.stdout.splitlines()] == ["done"] * 9
    folder.box.write_text(folder.box.read_text() + "# built again\n")
    assert [line.split()[1] for line in folder.run("--list").stdout.splitlines()] == ["missing"] * 9
    assert folder.run().returncode == 0 and folder.runs() == 22


def test_a_point_that_takes_too_long_has_failed(folder):
    folder.base(pause_s=30)
    folder.sweep("scenario: base.yaml\naxes: {pause_s: [0, 30]}\n")
    done = folder.run("--limit-s", "2")
    assert done.returncode == 1 and "failed 1 times: longer than the limit of wall time, 2 s" in done.stdout
    assert [(pause, status) for pause, status in folder.rows("pause_s, status")] == [(0, "done"), (30, "failed")]


def test_an_id_tells_scenario_inputs_settings_and_executable_apart(folder, tmp_path):
    model = folder.path / "model.json"
    model.write_text("{}")
    times = folder.path / "profile" / "deep" / "times.txt"
    times.parent.mkdir(parents=True)
    times.write_text("1")
    folder.base(compute="{profile: profile}")
    text = "scenario: base.yaml\naxes: {workload.tp: [1, 2]}\nset: {model.config: model.json}\n"

    def ids(made):
        from sweeping.identity import contents as hashed
        hashed.cache_clear()
        return [identity(point, folder.bin) for point in made]

    first = ids(points(folder, text))
    assert len(set(first)) == 2 and ids(points(folder, "# said otherwise\n" + text.replace("[1, 2]", "{from: 1, to: 2, step: 1}"))) == first
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.copytree(folder.path / "profile", moved / "profile")
    for name in ("model.json", "base.yaml", "sweep.yaml"):
        (moved / name).write_text((folder.path / name).read_text())
    assert ids(Sweep(moved / "sweep.yaml").points()) == first
    model.write_text("{ }")
    second = ids(points(folder, text))
    times.write_text("2")
    third = ids(points(folder, text))
    folder.base(refuse=3)
    fourth = ids(points(folder, text))
    folder.box.write_text("other")
    fifth = ids(points(folder, text))
    assert len({*first, *second, *third, *fourth, *fifth}) == 10


def test_equal_points_run_once(folder):
    folder.sweep("scenario: base.yaml\naxes: {box: {choices: {a: {}, b: {}}}}\n")
    assert folder.run().returncode == 0 and folder.runs() == 1
    assert folder.rows("box, status, ttft_s") == [("a", "done", 1.1), ("b", "done", 1.1)]


def test_repeats_count_as_their_mean(folder):
    folder.sweep("scenario: base.yaml\naxes: {workload.tp: [1, 2]}\nrepeats: 3\nobjective: {maximise: ttft_s + seed}\n")
    done = folder.run()
    assert folder.rows("tp, seed, objective") == [(tp, seed, 1 / tp + 0.1 + seed) for tp in (1, 2) for seed in (1, 2, 3)]
    assert done.stdout.splitlines()[1:4] == ["largest ttft_s + seed:", "  3.1          tp=1", "  2.6          tp=2"]


def test_an_objective_with_an_old_name_means_the_new_one(folder, capsys):
    folder.sweep("scenario: base.yaml\naxes: {workload.tp: [1]}\nobjective: {minimise: decode.step_s / tp + old.decode.step_s}\n")
    assert Sweep(folder.path / "sweep.yaml").objective.text == "iterations.mean_s / tp + old.decode.step_s"
    assert capsys.readouterr().err == f"{folder.path / 'sweep.yaml'}: objective.minimise: decode.step_s is now iterations.mean_s\n"


def test_an_unknown_metric_is_refused_before_the_first_run(folder):
    folder.sweep(SWEEP.replace("ttft_s", "tttf_s"))
    done = folder.run()
    assert (done.returncode, folder.runs()) == (2, 0)
    assert "sweep.yaml:6:23: error: objective.minimise: tttf_s: 'tttf_s' is neither a metric nor a name of the sweep; nearest: ttft_s" in done.stderr


def test_limits_leave_points_out_of_the_ranking(folder):
    folder.sweep(SWEEP.replace("minimise: ttft_s", "minimise: ttft_s, subject_to: [exposed_s.tp <= 0.002, pp > 1]"))
    done = folder.run()
    assert done.returncode == 0, done.stderr
    assert folder.rows("tp, pp") == folder.rows("tp, pp") and {tp for tp, pp, value in folder.rows("tp, pp, objective") if value is not None} == {1, 2}
    assert done.stdout.splitlines()[2].split() == ["700", "ms", "tp=2,", "pp=2"]


def test_parquet_needs_pyarrow_and_uses_it(folder, tmp_path, monkeypatch):
    folder.sweep("scenario: base.yaml\naxes: {workload.tp: [1, 2], workload.op: [5, all]}\n")
    stand_in = tmp_path / "modules" / "pyarrow"
    stand_in.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(stand_in.parent))
    (stand_in / "__init__.py").write_text("raise ImportError('no pyarrow here')")
    done = folder.run("--parquet", tmp_path / "runs.parquet")
    assert done.returncode == 2 and "--parquet: no pyarrow here; pip install pyarrow, or use --csv" in done.stderr
    (stand_in / "__init__.py").write_text("table = dict\n")
    (stand_in / "parquet.py").write_text("import json\ndef write_table(table, path): path.write_text(json.dumps(table))\n")
    assert folder.run("--parquet", tmp_path / "runs.parquet").returncode == 0
    table = json.loads((tmp_path / "runs.parquet").read_text())
    assert (table["tp"], table["op"], table["ttft_s"]) == ([1, 1, 2, 2], ["5", "all"] * 2, [1.1, 1.1, 0.6, 0.6])


# -- interruptions

def uninterrupted(folder):
    folder.base(refuse=4, pause_s=0.05)
    assert folder.run("--workers", 2, out="whole").returncode == 1
    return contents(folder.path / "whole" / "results.sqlite")


def started(folder, count, process):
    while folder.runs() < count:
        assert process.poll() is None
        time.sleep(0.002)


def test_ctrl_c_keeps_what_is_done(folder):
    whole = uninterrupted(folder)
    folder.log.unlink()
    with subprocess.Popen(folder.command("--workers", 2), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        started(folder, 5, process)  # so three at least are over
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and "points are missing; the same command goes on" in stderr
    statuses = [status for status, in folder.rows("status")]
    assert 3 <= len(statuses) - statuses.count("missing") < 10
    assert sorted(path.name for path in (folder.path / "out" / "points").iterdir()) == sorted(
        identifier for identifier, status in folder.rows("id, status") if status != "missing")
    assert folder.run("--workers", 2).returncode == 1
    assert contents(folder.path / "out" / "results.sqlite") == whole


def test_killed_again_and_again_it_ends_with_the_same_database(folder):
    whole = uninterrupted(folder)
    dice = random.Random(5)
    for kill in range(4):
        with subprocess.Popen(folder.command("--workers", 2), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            time.sleep(0.1 + 0.1 * dice.random())
            process.send_signal([signal.SIGKILL, signal.SIGTERM][kill % 2])
    assert folder.run("--workers", 2).returncode == 1
    assert contents(folder.path / "out" / "results.sqlite") == whole
    assert not list((folder.path / "out" / "points").glob(".*"))


def test_a_build_during_the_sweep_changes_nothing(folder):
    whole = uninterrupted(folder)
    folder.log.unlink()
    with subprocess.Popen(folder.command("--workers", 2), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        started(folder, 1, process)
        built = folder.box.read_text()
        folder.box.write_text("#!/bin/false\n")
    folder.box.write_text(built)
    assert folder.runs() == 10 and contents(folder.path / "out" / "results.sqlite") == whole


def test_a_second_sweep_waits_for_nobody(folder):
    folder.base(pause_s=0.3)
    with subprocess.Popen(folder.command(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        started(folder, 1, process)
        second = folder.run()
        process.send_signal(signal.SIGINT)
    assert (second.returncode, second.stderr) == (2, f"{folder.path / 'out'}: error: another sweep is running in this directory\n")


# -- a command for each task

def test_a_command_runs_the_tasks(folder):
    whole = uninterrupted(folder)
    folder.log.unlink()
    done = folder.run("--backend", f"echo task >>{folder.path}/tasks; exec {{command}}", "--task-s", 0.1, "--workers", 3)
    assert done.returncode == 1 and folder.runs() == 10
    # The first point was timed here, at 0.05 s and the start of a process, so that two at most make a task of 0.1 s.
    assert 5 <= len((folder.path / "tasks").read_text().splitlines()) <= 9
    assert contents(folder.path / "out" / "results.sqlite") == whole


def test_ctrl_c_ends_the_tasks_of_a_command(folder):
    whole = uninterrupted(folder)
    folder.log.unlink()
    with subprocess.Popen(folder.command("--backend", "{command}", "--task-s", 10), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        started(folder, 4, process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130 and folder.runs() < 10
    done = folder.run("--backend", "{command}", "--task-s", 10)
    assert done.returncode == 1 and contents(folder.path / "out" / "results.sqlite") == whole


# -- shipped sweeps

@pytest.mark.parametrize("file", sorted((ROOT / "scenarios" / "sweeps").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_sweeps_are_right(file, capsys):
    """Its keys are known, every point passes the executable's check, and the page tells of it."""
    from platform_runs import BIN, run

    with pytest.raises(SystemExit) as end:
        sweep.main([str(file), "--bin", str(BIN), "--list"])
    listed = capsys.readouterr().out.splitlines()
    made = Sweep(file).points()
    assert end.value.code == 0 and len(listed) == len(made) > 1
    for point in made:
        done = run(point.platform, point.scenario.path, "--check", "--quiet", *runner.set_options(point.settings))
        assert done.returncode == 0, (point.label, done.stderr)
    assert file.name in (ROOT / "docs" / "sweeps.md").read_text()

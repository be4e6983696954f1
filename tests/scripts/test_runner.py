"""The runner of points: what each leaves, failures that stop nobody else, and an end by Ctrl-C that leaves nothing half."""

import json
import pathlib
import signal
import stat
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from lib import runner  # noqa: E402
from lib.runner import Point  # noqa: E402

# Says what it was asked for; scenario keys make it fail, die or wait until the file `go` exists.
EXECUTABLE = """#!/usr/bin/python3
import json, os, pathlib, sys, time
scenario = json.load(open(sys.argv[1]))
if "refuse" in scenario:
    sys.exit(print(f"{os.path.abspath(sys.argv[1])}:3:4: error: {scenario['refuse']}", file=sys.stderr) or 2)
if "die" in scenario:
    os.kill(os.getpid(), 9)
if "started" in scenario:
    pathlib.Path(scenario["started"]).touch()
while "go" in scenario and not os.path.exists(scenario["go"]):
    time.sleep(0.005)
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir()
out.joinpath("summary.json").write_text("{" if "garble" in scenario else json.dumps({"scenario": scenario, "arguments": sys.argv[2:]}))
"""


@pytest.fixture(name="binaries")
def fixture_binaries(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "box").write_text(EXECUTABLE)
    (folder / "box").chmod(stat.S_IRWXU)
    return folder


def test_a_point_leaves_its_scenario_command_and_output(tmp_path, binaries):
    point = Point("tp=4, n/2", "box", {"a": [1, {"b": 2}]}, {"machine.plx.acs": True, "workload.op": "all_reduce"})
    result, = runner.run([point], tmp_path / "runs", binaries)
    assert not result.failed and result.error == ""
    assert result.directory == tmp_path / "runs" / "tp=4,_n_2"
    assert sorted(path.name for path in result.directory.iterdir()) == ["command.txt", "out", "scenario.yaml"]
    assert json.loads((result.directory / "scenario.yaml").read_text()) == result.summary["scenario"] == point.scenario
    assert result.summary["arguments"] == ["--quiet", "--out", "out", "--set", "machine.plx.acs=true", "--set", "workload.op=all_reduce"]
    assert (result.directory / "command.txt").read_text().split()[1:3] == ["scenario.yaml", "--quiet"]


def test_failures_keep_their_message_and_stop_nobody(tmp_path, binaries):
    points = [Point("refused", "box", {"refuse": "no such op"}), Point("dead", "box", {"die": 1}), Point("none", "no_box", {}),
              Point("garbled", "box", {"garble": 1}), Point("fine", "box", {})]
    told = []
    results = runner.run(points, tmp_path / "runs", binaries, workers=2, report=lambda result, over, count: told.append((result.point.name, over, count)))
    assert [result.point.name for result in results] == [point.name for point in points]
    assert [result.failed for result in results] == [True, True, True, True, False]
    assert results[0].error == "scenario.yaml:3:4: error: no such op"
    assert results[1].error == "box ended by signal 9"
    assert results[2].error.endswith("no_box: No such file or directory")
    assert results[3].error.startswith("box left no readable summary.json")
    assert [(over, count) for _, over, count in told] == [(i, 5) for i in range(1, 6)]
    assert {name for name, _, _ in told} == {point.name for point in points}


def test_points_run_side_by_side(tmp_path, binaries):
    # Each waits for the other to have started, so one at a time would not end.
    first, second = tmp_path / "first", tmp_path / "second"
    points = [Point("a", "box", {"started": str(first), "go": str(second)}), Point("b", "box", {"started": str(second), "go": str(first)})]
    assert not any(result.failed for result in runner.run(points, tmp_path / "runs", binaries, workers=2))


def test_an_older_run_is_replaced(tmp_path, binaries):
    runner.run([Point("a", "box", {"old": 1})], tmp_path / "runs", binaries)
    runner.run([Point("a", "box", {"new": 1})], tmp_path / "runs", binaries)
    assert json.loads((tmp_path / "runs" / "a" / "scenario.yaml").read_text()) == {"new": 1}
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["a"]


def test_points_of_one_directory_are_refused(tmp_path, binaries):
    for names in (("a", "a"), ("a/b", "a b")):
        with pytest.raises(ValueError, match="would share the directory"):
            runner.run([Point(name, "box", {}) for name in names], tmp_path / "runs", binaries)


def test_ctrl_c_ends_all_and_leaves_nothing_half(tmp_path, binaries):
    started, runs = tmp_path / "started", tmp_path / "runs"
    program = f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
from lib import runner
points = [runner.Point("fine", "box", {{}})]
points += [runner.Point(f"stuck {{i}}", "box", {{"go": "/nonexistent/go", "started": {str(started)!r} + str(i)}}) for i in range(4)]
runner.run(points, {str(runs)!r}, {str(binaries)!r}, workers=2)
"""
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as process:
        while not all(pathlib.Path(f"{started}{i}").exists() for i in range(2)):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT and stderr.rstrip().endswith("KeyboardInterrupt")
    assert [path.name for path in runs.iterdir()] == ["fine"]
    assert not pathlib.Path(f"{started}2").exists()

"""Time to tokens: the played process against closed forms, what a checkpoint costs, the same bytes again, and bad input."""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from platform_runs import BIN, ROOT, succeed
from scripts_inside import call

from training_run import best, formulas  # noqa: E402
from training_run.process import PARTS, Cause, Process, play  # noqa: E402
from training_run.stragglers import Drawn, Slow, Stragglers  # noqa: E402

MTBF_S = 10_800.0
CAUSES = (Cause("gpu", 0.7 / MTBF_S, True), Cause("job", 0.3 / MTBF_S, False))
PROCESS = Process(600_000, 8.0, 100, causes=CAUSES, detection_s=600.0, restart_s=280.0, reload_s=20.0)
SCENARIO = f"""schema_version: 1
platform: dgx_h100
model: {{config: {ROOT}/tests/models/tiny.json}}
machine: {{groups: {{box: {{servers: 2}}}}, network: {{kind: single_switch}}}}
fabric: {{fidelity: fluid}}
workload:
  kind: training
  seq_tokens: 512
  global_batch: 32
  tp: 2
"""
OPERATION = """checkpoint: {mode: asynchronous, interval_s: best, to: file_system}
file_system: {write_gb_per_s: 2, client_gb_per_s: 0.5}
failures: {gpu_mtbf_h: 0.2, server_mtbf_h: 1, job_mtbf_h: 0.5, detection_s: 3, restart_s: 2, spares: 1, repair_h: 0.01}
stragglers:
- {of: gpu, distribution: exponential, ratio: 0.02}
- {of: nic, share: 0.01, rate_ratio: 0.25}
evaluation: {interval_steps: 5000, sequences: 64, pause_s: 0.1}
price: {gpu_h: 2.5}
"""


def played(process, runs=4):
    return [play(process, seed) for seed in range(1, runs + 1)]


def goodput(runs):
    return sum(run.parts_s["steps"] for run in runs) / sum(run.total_s for run in runs)


# -- closed forms

@pytest.mark.parametrize("pause_s, writing_s, slowdown", [(60.0, 0.0, 1.0), (1.0, 300.0, 1.1), (300.0, 0.0, 1.0)])
def test_goodput_is_that_of_the_formula(pause_s, writing_s, slowdown):
    runs = played(replace(PROCESS, pause_s=pause_s, writing_s=writing_s, slowdown=slowdown))
    training_s = PROCESS.interval * PROCESS.step_s
    segment_s = training_s + pause_s + writing_s * (1 - 1 / slowdown)
    assert goodput(runs) == pytest.approx(training_s / formulas.between_safe_s(MTBF_S, segment_s, writing_s, 900.0), rel=0.01)
    # Failures: total time / MTBF; both causes by their rates.
    count = sum(sum(run.failures.values()) for run in runs)
    assert count == pytest.approx(sum(run.total_s for run in runs) / MTBF_S, rel=4 / math.sqrt(count))
    assert sum(run.failures["gpu"] for run in runs) / count == pytest.approx(0.7, abs=4 * math.sqrt(0.21 / count))


@pytest.mark.parametrize("cost_s, mtbf_s", [(1.0, 10_800.0), (60.0, 86_400.0), (10.0, 3600.0), (300.0, 500_000.0)])
def test_intervals_are_near_the_simulated_best(cost_s, mtbf_s):
    simulated = best.interval_s(mtbf_s, cost_s, 0.0, 0.0, 600.0, 1)
    assert formulas.best_s(cost_s, mtbf_s) == pytest.approx(simulated, rel=0.02)
    assert formulas.daly_s(cost_s, mtbf_s) == pytest.approx(simulated, rel=0.05)
    assert formulas.young_s(cost_s, mtbf_s) == pytest.approx(simulated, rel=0.05)


def test_a_write_beside_the_steps_costs_as_much_as_its_slowdown():
    """The best interval depends on what a checkpoint takes from the steps, not on how long its write lasts."""
    assert best.interval_s(MTBF_S, 1.0, 9.0, 120.0, 600.0, 1) == pytest.approx(formulas.best_s(10.0, MTBF_S), rel=0.03)


@pytest.mark.parametrize("members", [1, 64, 16_384])
def test_the_slowest_member_is_that_of_its_closed_form(members):
    harmonic = sum(1 / i for i in range(1, members + 1))
    drawn = {name: Drawn(members, name, 0.05) for name in ("exponential", "normal", "lognormal")}
    assert drawn["exponential"].mean == pytest.approx(1 + 0.05 * harmonic, rel=1e-12)
    for one in drawn.values():
        assert one.factors(np.random.default_rng(1), 200_000).mean() == pytest.approx(one.mean, rel=1e-3)
    # The largest of so many single draws.
    alone = np.random.default_rng(2).standard_normal((members, 200)).max(axis=0)
    assert drawn["normal"].mean == pytest.approx(1 + 0.05 * alone.mean(), rel=0.01)


def test_one_slow_member_of_many_slows_the_step():
    slow = Slow(1000, 0.002, 1.3, False)
    assert slow.probability == pytest.approx(1 - 0.998**1000)
    for until_restart in (False, True):
        run, = played(replace(PROCESS, stragglers=Stragglers((), (replace(slow, until_restart=until_restart),))), 1)
        assert run.parts_s["stragglers"] / run.parts_s["steps"] == pytest.approx(0.3 * slow.probability, rel=0.02 if not until_restart else 0.1)
    both = Stragglers((Drawn(64, "exponential", 0.05),), (slow, replace(slow, share=0.0005, factor=1.6)))
    random = np.random.default_rng(1)
    assert np.mean(both.factors(random, both.standing(random), 400_000)) == pytest.approx(both.mean, rel=2e-3)


def test_without_failures_the_parts_are_exact():
    run = play(Process(1000, 2.0, 10, pause_s=0.5, writing_s=4.0, slowdown=1.25, evaluation_steps=250, evaluation_s=30.0), 1)
    assert run.parts_s == dict.fromkeys(PARTS, 0.0) | {"steps": 2000.0, "checkpoints": 100 * 0.5 + 4.0, "evaluation": 3 * 30.0,
                                                      "contention": pytest.approx(99 * 4.0 * (1 - 1 / 1.25))}
    assert run.checkpoints == 100


def test_without_spares_each_lost_server_is_waited_for():
    run = play(replace(PROCESS, spares=0, repair_s=7200.0), 1)
    assert run.without_spare == run.failures["gpu"] and run.parts_s["spares"] == pytest.approx(7200 * run.failures["gpu"])
    many = play(replace(PROCESS, spares=100, repair_s=7200.0), 1)
    assert many.without_spare == 0 and many.parts_s["spares"] == 0
    some = play(replace(PROCESS, spares=1, repair_s=36_000.0), 1)
    assert 0 < some.without_spare < some.failures["gpu"]


# -- the command

def run(folder, *arguments, operation=OPERATION, scenario=SCENARIO):
    (folder / "s.yaml").write_text(scenario)
    (folder / "o.yaml").write_text(operation)
    words = ["s.yaml", "--tokens", "1e9", "--operation", "o.yaml", *arguments]
    return call("train_run", *(words if "--run" not in arguments else words[1:]), "--bin", BIN, cwd=folder)


@pytest.fixture(name="twice", scope="module")
def fixture_twice(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    for out in ("a", "b"):
        done = run(folder, "--out", out, "--figures", f"{out}/figures", "--runs", 5)
        assert done.returncode == 0 and not done.stderr, done.stderr
        (folder / f"{out}.txt").write_text(done.stdout)
    return folder


def test_twice_gives_the_same_bytes(twice):
    for name in ("run.json", "run.html"):
        assert (twice / "a" / name).read_bytes() == (twice / "b" / name).read_bytes()
    assert (twice / "a.txt").read_text() == (twice / "b.txt").read_text()
    assert {path.name for path in (twice / "a" / "figures").iterdir()} == {"lost.svg", "interval.svg", "spread.svg"}


def test_the_parts_are_the_whole(twice):
    found = json.loads((twice / "a" / "run.json").read_text())
    assert sum(found["parts_s"].values()) == pytest.approx(found["total_s"], rel=1e-12)
    assert found["days"] * 24 * found["gpus"] == pytest.approx(found["gpu_hours"], rel=1e-12) and found["gpus"] == 16
    assert found["cost"] == pytest.approx(2.5 * (found["gpu_hours"] + found["spare_gpu_hours"]))
    assert found["spare_gpu_hours"] == pytest.approx(found["gpu_hours"] / 2)
    assert found["parts_s"]["steps"] == pytest.approx(found["steps"] * found["step_s"])
    assert found["steps"] == math.ceil(1e9 / (512 * 32))
    for each in found["runs"]:
        assert sum(each["parts_s"].values()) == pytest.approx(each["days"] * 86400)
    assert all(found["parts_s"][part] > 0 for part in PARTS)
    changes = found["closed_form"]["changes"]
    assert changes.pop("as it is") == found["closed_form"]["goodput"] and len(changes) == 6
    assert all(found["closed_form"]["goodput"] < goodput < 1 for goodput in changes.values())
    # An evaluation: two thirds of a step are backward, so 64 of 32 sequences take two thirds of a step; 12 of them.
    assert found["parts_s"]["evaluation"] == pytest.approx(12 * (0.1 + 2 / 3 * found["step_s"]), rel=0.01)
    intervals = found["intervals"]
    assert intervals["formula_s"] == pytest.approx(intervals["simulated_s"], rel=0.05)
    assert found["mtbf_s"] == pytest.approx(3600 / (16 / 0.2 + 2 / 1 + 1 / 0.5))


def test_a_checkpoint_is_weights_and_optimizer_once(twice):
    """bf16 weights, master copy and two moments in fp32: 14 bytes of each parameter, however the replicas divide them."""
    found = json.loads((twice / "a" / "run.json").read_text())["checkpoint"]
    explained = json.loads(succeed("dgx_h100", twice / "s.yaml", "--explain", "--json").stdout)
    parameters = 2 * sum(stage["parameters_per_rank"] for stage in explained["stages"])  # tp 2
    assert found["total_bytes"] == 14 * parameters
    assert found["server_bytes"] == pytest.approx(found["total_bytes"] / 2)
    assert found["write_s"] == pytest.approx(found["server_bytes"] / 0.5e9) and found["writing_s"] == found["write_s"]
    assert found["pause_s"] == pytest.approx(found["total_bytes"] / 16 / found["copy_gb_per_s"] * 1e-9)
    assert found["copy_gb_per_s"] == pytest.approx(26.5, rel=0.02)  # two GPUs behind one uplink of PCIe 5.0 x16
    assert found["nic_share"] == pytest.approx(0.5 / 400)
    for zero_stage in (0, 3):
        others = json.loads(succeed("dgx_h100", twice / "s.yaml", "--set", f"workload.zero_stage={zero_stage}", "--explain", "--json").stdout)
        assert others["checkpoint"] == explained["checkpoint"]


@pytest.mark.parametrize("scenario, sets, parameters", [
    ("mixtral_8x7b_ep8", [], 46.70e9), ("mixtral_8x7b_ep8", ["workload.ep=4"], 46.70e9), ("llama3_8b_8", [], 8.03e9), ("schedules/1f1b", [], 6.74e9),
    ("schedules/1f1b", ["workload.schedule=dualpipe"], 6.74e9), ("llama3_70b_lora", [], 0.2176e9)])
def test_each_trained_parameter_is_saved_once(scenario, sets, parameters):
    """Whatever holds it: replicas, experts, both halves of DualPipe; of adapters, not the frozen weights."""
    words = [word for one in sets for word in ("--set", one)]
    explained = json.loads(succeed("dgx_h100", ROOT / "scenarios" / "training" / f"{scenario}.yaml", *words, "--explain", "--json").stdout)
    assert sum(sum(value for key, value in rank.items() if key != "pipeline_rank") for rank in explained["checkpoint"]) == pytest.approx(14 * parameters, rel=1e-3)


def test_a_finished_run_is_taken_over(twice):
    done = run(twice, "--run", "a/steps/step/out", "--out", "c", "--json", "--no-page", "--op", "checkpoint.mode=synchronous", "--op", "checkpoint.interval_s=60")
    assert done.returncode == 0, done.stderr
    found, before = json.loads(done.stdout), json.loads((twice / "a" / "run.json").read_text())
    assert found["step_s"] == before["step_s"] and not (twice / "c" / "steps" / "step").exists() and not (twice / "c" / "run.html").exists()
    assert found["checkpoint"]["pause_s"] == pytest.approx(before["checkpoint"]["pause_s"] + before["checkpoint"]["write_s"])
    assert found["intervals"]["chosen_s"] == pytest.approx(60, rel=0.01) and found["parts_s"]["contention"] == 0


def test_energy_is_that_of_steps_and_of_waiting_gpus(twice):
    """16 GPUs that draw 700 W in a step and 100 W without work. Steps that are done again count as steps."""
    shutil.copytree(twice / "a" / "steps" / "step" / "out", twice / "measured")
    summary = json.loads((twice / "measured" / "summary.json").read_text())
    metrics = summary["metrics"]
    metrics["energy"] = {"per_step_j": 16 * 700 * metrics["step_s"], "idle_j": 16 * 100 * metrics["end_s"]}
    (twice / "measured" / "summary.json").write_text(json.dumps(summary))
    done = run(twice, "--run", "measured", "--out", "d", "--json", "--no-page", "--runs", 2, "--op", "price.kwh=0.1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    parts = found["parts_s"]
    running_s = sum(parts[part] for part in ("steps", "stragglers", "contention", "lost"))
    assert found["energy_kwh"] == pytest.approx(16 * (0.7 * running_s + 0.1 * (found["total_s"] - running_s)) / 3600)
    assert found["cost"] == pytest.approx(2.5 * (found["gpu_hours"] + found["spare_gpu_hours"]) + 0.1 * found["energy_kwh"])


# -- bad input

@pytest.mark.parametrize("words, line", [
    (["--tokens", "0"], "train_run.py: error: argument --tokens: '0' is not a number of tokens of at least 1, as 15.6e12"),
    (["--tokens", "-3"], "train_run.py: error: argument --tokens: '-3' is not a number of tokens of at least 1, as 15.6e12"),
    (["--op", "failures.gpu_mtbf_h=0"], "--op failures.gpu_mtbf_h:1:1: error: failures.gpu_mtbf_h: expected a number above 0, in h, got 0"),
    (["--op", "file_system.write_gb_per_s=0"], "--op file_system.write_gb_per_s:1:1: error: file_system.write_gb_per_s: expected a number above 0, in GB/s, got 0"),
    (["--op", "checkpoint.intervall_s=60"], "train_run.py: error: --op checkpoint.intervall_s=60: no key 'checkpoint.intervall_s' (did you mean 'checkpoint.interval_s'?); accepted: "),
    (["--op", "checkpoint.mode=asynch"], "--op checkpoint.mode:1:1: error: checkpoint.mode: 'asynch' is unknown (did you mean 'asynchronous'?); accepted: "),
    (["--op", "checkpoint.mode=none"], "--op checkpoint.mode:1:1: error: checkpoint.mode: none: with failures, a run without checkpoints begins again each time; accepted: "),
    (["--set", "workload.kind=serving"], "s.yaml:7:3: error: workload.kind is serving; accepted: training"),
    (["--set", "workload.tpp=2"], "error: workload.tpp: unknown key (did you mean 'tp'?)"),
    (["--op", "stragglers=[{of: gpu, share: 0.1}]"], "--op stragglers:1:2: error: stragglers.0: expected distribution and ratio, or share and rate_ratio"),
])
def test_bad_input_is_one_line(words, line, tmp_path):
    done = run(tmp_path, *words)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and line in done.stderr, done.stderr
    assert not done.stdout


@pytest.mark.parametrize("change, line", [
    ("checkpoint.interval_s=0.0001", "--op checkpoint.interval_s:1:1: error: checkpoint.interval_s: a checkpoint takes longer than its interval: "),
    ("checkpoint.interval_s=3600", "--op checkpoint.interval_s:1:1: error: checkpoint.interval_s: the run does not end: failures are "),
    ("failures.gpu_mtbf_h=1e-6", ": error: failures.restart_s: the run does not end: failures are "),
])
def test_an_operation_that_does_not_go_with_its_step_is_one_line(twice, change, line):
    done = run(twice, "--run", "a/steps/step/out", "--out", "a", "--op", change)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and line in done.stderr, done.stderr
    assert not done.stdout


def test_an_unknown_key_of_the_file_is_named_with_its_place(tmp_path):
    done = run(tmp_path, operation="failures:\n  gpu_mtbf: 100\n")
    assert done.returncode == 2 and done.stderr.startswith("o.yaml:2:3: error: failures: unknown key 'gpu_mtbf' (did you mean 'gpu_mtbf_h'?); accepted: gpu_mtbf_h,")
    assert done.stderr.count("\n") == 1

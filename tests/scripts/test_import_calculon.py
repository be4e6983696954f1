"""Files of Calculon become scenarios that run: every key is taken over or refused by name."""

import json
import random

import pytest
import yaml

from platform_runs import run, succeed, summary
from scripts_inside import call

APP = {"hidden": 2048, "feedforward": 8192, "seq_size": 1024, "attn_heads": 16, "attn_size": 128, "num_blocks": 8}
EXE = {"num_procs": 16, "tensor_par": 4, "pipeline_par": 2, "data_par": 2, "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 1,
       "batch_size": 8, "microbatch_size": 1, "datatype": "float16", "fused_activation": False, "attention_type": "multihead",
       "activation_recompute": "attn_only", "pipeline_interleaving": 2, "optimizer_sharding": True, "tensor_par_comm_type": "rs_ag",
       "tensor_par_overlap": "none", "seq_par_ag_redo": True, "data_par_overlap": True, "weight_offload": False,
       "activations_offload": False, "optimizer_offload": False, "training": True}
SYSTEM = {"matrix": {"float16": {"tflops": 312}}, "mem1": {"GiB": 80, "GBps": 2039},
          "networks": [{"bandwidth": 300, "size": 8}, {"bandwidth": 25, "size": 65536}]}


EFFICIENT = {"matrix": {"float16": {"tflops": 312, "gflops_efficiency": [[128, 0.95], [16, 0.9], [0, 0.1]]}},
             "mem1": {"GiB": 80, "GBps": 2039, "MB_efficiency": [[1, 0.6], [100, 0.9]]},
             "networks": [{"bandwidth": 300, "size": 8, "efficiency": 0.65}, {"bandwidth": 25, "size": 65536, "efficiency": 0.9}]}


def imported(folder, *words, app=None, exe=None, system=None):
    """The result of the script, and the scenario's path."""
    files = []
    for name, values in (("app", APP | (app or {})), ("exe", EXE | (exe or {})), ("system", system)):
        if values is not None:
            files.append(folder / f"{name}.json")
            files[-1].write_text(json.dumps(values))
    out = folder / "scenario.yaml"
    out.unlink(missing_ok=True)
    out.with_suffix(".model.json").unlink(missing_ok=True)
    return call("import_calculon", *files, *words, "--out", out), out


def test_all_keys_arrive(tmp_path):
    result, out = imported(tmp_path, system=SYSTEM)
    assert result.returncode == 0 and result.stderr == ""
    scenario = yaml.safe_load(out.read_text())
    assert scenario["platform"] == "dgx_a100" and scenario["machine"] == {"groups": {"node": {"servers": 2}}}
    workload = scenario["workload"]
    expected = {"kind": "training", "seq_tokens": 1024, "global_batch": 8, "micro_batch": 1, "tp": 4, "pp": 2, "dp": 2, "schedule": "interleaved",
                "virtual_stages": 2, "sequence_parallel": True, "keep_gathered": False, "recompute": "selective", "zero_stage": 1,
                "dp_overlap": True, "param_gather_overlap": True, "tp_overlap": "none"}
    assert {key: workload.get(key) for key in expected} == expected
    explained = json.loads(succeed("dgx_a100", out, "--explain", "--json").stdout)
    # 12 h^2 weights in each of the layers, and 13 h biases and norms.
    layers = sum(stage["parameters_per_rank"] for stage in explained["stages"]) * EXE["tensor_par"]
    assert layers == pytest.approx(8 * (12 * 2048**2 + 13 * 2048), rel=0.01)
    succeed("dgx_a100", out, "--quiet")


@pytest.mark.parametrize("exe, keys", [
    ({"tensor_par_comm_type": "ar", "seq_par_ag_redo": False}, {"sequence_parallel": None, "pp_send": None}),
    ({"tensor_par_comm_type": "p2p_rs_ag", "seq_par_ag_redo": False}, {"sequence_parallel": None, "pp_send": "shard"}),
    ({"tensor_par_overlap": "ring"}, {"tp_overlap": "ring"}), ({"tensor_par_overlap": "pipe"}, {"tp_overlap": "pipelined"}),
    ({"activation_recompute": "full", "pipeline_interleaving": 1}, {"recompute": "full", "schedule": None}),
    ({"optimizer_sharding": False}, {"zero_stage": 0}), ({"attention_type": "multiquery"}, {}), ({"datatype": "bfloat16"}, {})])
def test_choices_run(exe, keys, tmp_path):
    result, out = imported(tmp_path, exe=exe)
    assert result.returncode == 0, result.stderr
    workload = yaml.safe_load(out.read_text())["workload"]
    assert {key: workload.get(key) for key in keys} == keys
    succeed("dgx_a100", out, "--check")


def test_a_system_changes_the_nearest_platform(tmp_path):
    system = {"matrix": {"float16": {"tflops": 1000}}, "mem1": {"GiB": 120, "GBps": 5000},
              "networks": [{"bandwidth": 900, "size": 8}, {"bandwidth": 100, "size": 65536}]}
    result, out = imported(tmp_path, system=system)
    assert result.returncode == 0, result.stderr
    scenario = yaml.safe_load(out.read_text())
    assert scenario["platform"] == "dgx_h100"
    assert scenario["machine"]["overrides"] == {"gpu": {"hbm": {"capacity_gb": 128.849, "gb_per_s": 5000}, "nvlink": {"gb_per_s": 50}},
                                                "ib_cable": {"gb_per_s": 100}}
    succeed("dgx_h100", out, "--check")


def test_efficiencies_of_a_system_replace_those_of_the_platform(tmp_path):
    result, out = imported(tmp_path, "--as-is", system=EFFICIENT)
    assert result.returncode == 0, result.stderr
    assert yaml.safe_load(out.read_text())["machine"]["overrides"] == {
        "gpu": {"sm": {"burst_efficiency_ratio": 0.95, "sustained_efficiency_ratio": 0.95}, "hbm": {"gemm_ratio": 0.9, "stream_ratio": 0.9},
                "nvlink": {"gb_per_s": 16.25}}, "ib_cable": {"gb_per_s": 22.5}}
    steps = []
    for words in ([], ["--as-is"]):
        _, out = imported(tmp_path, *words, system=EFFICIENT)
        succeed("dgx_a100", out, "--quiet", "--out", tmp_path / f"run{len(steps)}", "--set", "fabric.fidelity=fluid")
        steps.append(summary(tmp_path / f"run{len(steps)}")["metrics"]["step_s"])
    assert steps[0] != steps[1]


@pytest.mark.parametrize("words, system, message", [
    (["--as-is"], None, "--as-is needs SYSTEM.json"),
    (["--as-is"], SYSTEM, "system.json: matrix.float16.gflops_efficiency: missing"),
    (["--as-is"], EFFICIENT | {"mem1": {"GiB": 80, "GBps": 2039, "MB_efficiency": [[1]]}}, "system.json: mem1.MB_efficiency: is neither a ratio"),
    (["--as-is"], EFFICIENT | {"mem1": {"GiB": 80, "GBps": 2039, "MB_efficiency": 1.5}}, "system.json: mem1.MB_efficiency: is neither a ratio")])
def test_efficiencies_that_are_refused(words, system, message, tmp_path):
    result, out = imported(tmp_path, *words, system=system)
    assert result.returncode == 2 and not out.exists()
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("changes, message", [
    ({"exe": {"num_procs": 17}}, "exe.json: num_procs: 17 is not tensor_par x pipeline_par x data_par = 16"),
    ({"exe": {"weight_offload": True}}, "exe.json: weight_offload: true; offload to host memory is not modelled; accepted: false"),
    ({"exe": {"fused_activation": True}}, "exe.json: fused_activation: true; an activation that is not kept"),
    ({"exe": {"training": False}}, "exe.json: training: false; only training steps are imported; accepted: true"),
    ({"exe": {"tensor_par_overlap": "pipes"}}, "exe.json: tensor_par_overlap: 'pipes'; accepted: none, ring, pipe"),
    ({"exe": {"tensor_par_comm_type": "ar"}}, "exe.json: seq_par_ag_redo: true needs tensor_par_comm_type: rs_ag"),
    ({"exe": {"tensor_parallel": 2}}, "exe.json: tensor_parallel: unknown key; nearest: tensor_par"),
    ({"exe": {"batch_size": "8"}}, "exe.json: batch_size: '8' is not a whole number of at least 1"),
    ({"exe": {"pipeline_par_net": 0}}, "exe.json: pipeline_par_net: 0, but ranks of pipeline_par lie in several servers of 8 GPUs; accepted: 1"),
    ({"app": {"hidden": 0}}, "app.json: hidden: 0 is not a whole number of at least 1"),
    ({"system": SYSTEM | {"networks": [{"bandwidth": 300, "size": 72}, {"bandwidth": 25}]}}, "system.json: networks[0].size: 72; servers of dgx_a100"),
    ({"system": {"matrix": {}}}, "system.json: matrix.float16: missing")])
def test_refusals(changes, message, tmp_path):
    result, out = imported(tmp_path, **changes)
    assert result.returncode == 2 and not out.exists()
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("key", sorted(EXE))
def test_a_missing_key_is_named(key, tmp_path):
    for name, values in (("app", APP), ("exe", {k: v for k, v in EXE.items() if k != key})):
        (tmp_path / f"{name}.json").write_text(json.dumps(values))
    result = call("import_calculon", tmp_path / "app.json", tmp_path / "exe.json", "--out", tmp_path / "s.yaml")
    assert result.returncode == 2 and f"exe.json: {key}: missing" in result.stderr



def test_damaged_files_end_with_one_line(tmp_path):
    source = random.Random(7)
    text = json.dumps(EXE)
    (tmp_path / "app.json").write_text(json.dumps(APP))
    for number in range(25):
        place = source.randrange(len(text))
        damaged = source.choice([text[:place], text[:place] + source.choice('{}[]",:0-x\n') + text[place + 1:], text[:place] + text[place + 5:]])
        (tmp_path / "exe.json").write_text(damaged)
        out = tmp_path / f"{number}.yaml"
        result = call("import_calculon", tmp_path / "app.json", tmp_path / "exe.json", "--out", out)
        assert result.returncode in (0, 2), result.stderr
        assert result.returncode == 0 or (len(result.stderr.splitlines()) == 1 and not out.exists())
        if result.returncode == 0:
            assert run("dgx_a100", out, "--check").returncode in (0, 2)

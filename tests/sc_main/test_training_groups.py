"""Pipelines with GPUs of several groups: equal GPUs give the pipeline of one group, and each stage runs on its own kind."""

import json

import pytest

from platform_runs import refuse, succeed, summary

LAYERS = 8
MODEL = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": LAYERS,
         "vocab_size": 32000, "torch_dtype": "bfloat16"}
WORKLOAD = {"kind": "training", "seq_tokens": 4096, "global_batch": 16, "tp": 2, "dp": 4, "sequence_parallel": True}
FAST, SLOW = "H100-SXM5-80GB", "H20-SXM-96GB"


def scenario(folder, groups, **keys):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(json.dumps(MODEL))
    machine = {"groups": {name: {"servers": servers, "gpu": gpu} for name, (servers, gpu) in groups.items()}}
    workload = {key: value for key, value in (WORKLOAD | keys).items() if value is not None}
    text = {"schema_version": 1, "model": {"config": "model.json"}, "machine": machine, "workload": workload}
    (folder / "s.yaml").write_text(json.dumps(text))
    return folder / "s.yaml"


def stages(*layers):
    return [{"group": name, "layers": number} for name, number in zip("ab", layers)]


def step(folder, groups, **keys):
    succeed("dgx_h100", scenario(folder, groups, **keys), "--quiet", "--out", folder / "out")
    return summary(folder / "out")["metrics"]


def two(first, second):
    return {"a": (1, first), "b": (1, second)}


@pytest.mark.parametrize("schedule", ["1f1b", "zb_auto"])
def test_equal_gpus_give_the_pipeline_of_one_group(schedule, tmp_path):
    keys = {"schedule": schedule}
    whole = step(tmp_path / "whole", {"node": (2, FAST)}, pp=2, **keys)
    parted = step(tmp_path / "parted", two(FAST, FAST), stages=stages(4, 4), dp=None, **keys)
    assert parted == whole
    for table in ("ranks.csv", "memory.csv", "schedule.csv"):
        text = (tmp_path / "parted" / "out" / table).read_text()
        assert text.replace("a0.", "node0.").replace("b0.", "node1.") == (tmp_path / "whole" / "out" / table).read_text()


def test_layers_follow_the_speed_of_their_gpus(tmp_path):
    fast = step(tmp_path / "fast", {"node": (2, FAST)}, pp=2)["step_s"]
    slow = step(tmp_path / "slow", {"node": (2, SLOW)}, pp=2)["step_s"]
    even = step(tmp_path / "even", two(FAST, SLOW), stages=stages(4, 4))
    uneven = step(tmp_path / "uneven", two(FAST, SLOW), stages=stages(7, 1))
    assert fast < uneven["step_s"] < even["step_s"] < slow
    # FLOPs of a step over those of all GPUs.
    assert even["mfu"] * even["step_s"] == pytest.approx(uneven["mfu"] * uneven["step_s"])


def test_each_stage_has_the_memory_of_its_gpus(tmp_path):
    path = scenario(tmp_path, two(FAST, SLOW), stages=stages(4, 4))
    done = succeed("dgx_h100", path, "--explain", "--json")
    fast, slow = (rank["capacity_bytes"] for rank in json.loads(done.stdout)["memory"])
    assert fast < slow


@pytest.mark.parametrize("keys, line", [
    ({"stages": stages(4, 3)}, "workload.stages: have 7 layers; model has 8"),
    ({"stages": [{"group": "a", "layers": 4}, {"group": "c", "layers": 4}]}, "workload.stages.1.group: no group 'c'"),
    ({"stages": [{"group": "a", "layers": 8}]}, "machine.groups.b: the workload uses no GPU of this group"),
    ({"stages": stages(4, 4), "pp": 2}, "workload.pp: is not accepted with workload.stages"),
    ({"stages": stages(4, 4), "dp": 5, "global_batch": 20}, "workload.stages: 1 of group a x tp 2 x cp 1 x dp 5 needs more than its 8 GPUs"),
    ({"stages": stages(4, 4), "schedule": "dualpipe", "zero_stage": 0}, "workload.stages: need a schedule with one stage on each pipeline rank"),
    ({"stages": [{"group": name, "layers": 2} for name in "aaab"], "dp": None, "tp": 1}, "workload.stages: 3 of group a x tp 1 x cp 1 does not divide its 8 GPUs"),
    ({"stages": [{"group": name, "layers": 2} for name in "aabb"] + [{"group": "b", "layers": 0}] * 2, "dp": None},
     "workload.stages: 4 of group b x tp 2 x cp 1 leaves GPUs for 1 replicas, the other groups for 2; set workload.dp"),
    ({"stages": [{"group": "a"}]}, "workload.stages.0.layers"),
])
def test_bad_stages_are_one_line(keys, line, tmp_path):
    assert line in refuse("dgx_h100", scenario(tmp_path, two(FAST, SLOW), **keys), "--quiet", "--out", tmp_path / "out")

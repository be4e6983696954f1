"""Validation class training: which scenario a published step becomes, by source; how its value is read; and that no row is lost."""

import csv
import json
import pathlib
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from lib import runner  # noqa: E402
from validation import CLASSES, comparison, experiment, orderings, rows, training, training_flops, training_layer_rows, training_models  # noqa: E402

TABLES = [ROOT / "validation" / table for table in training.TABLES]
COMMON = {"id": "T-1", "category": "4-training", "value": "10", "unit": "s", "metric": "step_time", "extra": ""}
KORTHIKANTI = COMMON | {"system": "A100-80GB HDR", "model": "GPT 175B", "n_gpus": "64", "precision": "fp16", "seq": "2048", "gbs": "64", "mbs": "1",
                        "tp": "8", "pp": "8", "vp": "3", "layers": "96", "hidden": "12288", "heads": "96", "metric": "iteration_time",
                        "extra": "SP + selective recompute; HFU 52.8", "source": "Korthikanti et al. 2022 Table 5"}
SC21 = COMMON | {"system": "Selene A100-80GB, 8x HDR200", "model": "GPT 7.5B", "n_gpus": "128", "precision": "fp16", "seq": "2048", "gbs": "512",
                 "tp": "4", "pp": "1", "layers": "36", "hidden": "4096", "heads": "32", "metric": "TFLOP/s/GPU", "unit": "TFLOP/s",
                 "extra": "vocab 51200, full recompute (HFU-like)", "source": "Narayanan et al. SC21 Table 1"}
NEMO = COMMON | {"system": "DGX H100", "model": "llama3.1 70b", "n_gpus": "64", "precision": "FP8", "seq": "8192", "gbs": "128", "mbs": "1",
                 "tp": "4", "pp": "4", "cp": "2", "vp": "5", "source": "NVIDIA/dgxc-benchmarking v25.04:llama3.1/README.md"}
VTRAIN = COMMON | {"system": "8xA100 SXM server", "model": "GPT h1024 L24", "n_gpus": "4", "precision": "fp16", "seq": "1024", "gbs": "16",
                   "mbs": "2", "tp": "2", "pp": "2", "layers": "24", "hidden": "1024", "heads": "16", "metric": "iteration_time",
                   "extra": "Megatron-DeepSpeed, eager, unfused attention, full recompute, vocab 50257", "source": "VIA-Research/vTrain @f8dda84"}
MPT = COMMON | {"system": "MosaicML a100_40gb", "model": "MPT 30b", "n_gpus": "32", "precision": "bf16", "seq": "4096", "gbs": "128", "mbs": "4",
                "metric": "tokens/s/GPU", "unit": "tok/s/GPU", "source": "mosaicml/llm-foundry @8c8dd48",
                "extra": "FSDP FULL_SHARD, AC=True; A100 40GB with 1600 Gbps node-node interconnect (RoCE)"}
TITAN = COMMON | {"system": "Meta Grand Teton H100-96GB HBM2e 2.4TB/s 500W, 400G/GPU", "model": "Llama3.1 8B FSDP", "n_gpus": "128",
                  "precision": "bf16", "seq": "8192", "mbs": "2", "metric": "tokens/s/GPU", "unit": "tok/s/GPU", "source": "pytorch/torchtitan benchmarks"}
MAXTEXT = COMMON | {"system": "DGX H100", "model": "maxtext llama2 70b", "n_gpus": "512", "precision": "FP8", "seq": "4096", "gbs": "1024", "mbs": "2",
                    "extra": "FSDP+DP MBS=2 Throughput on 512x H100 GPUs (FSDP=128 GBS=1024)",
                    "source": "NVIDIA/dgxc-benchmarking v24.11.1:maxtext/README_70b.md"}
PIPELINE = {"id": "O-1", "category": "6-overlap-pipeline", "system": "A100 SXM RoCE", "kind": "pipeline ZB_2p", "n_gpus": "8", "value": "14.5",
            "config": "GPT 1.5B seq1024 L22 h2304 a24 mbs6 PP=8 microbatches=24", "metric": "samples/s/GPU", "unit": "samples/s/GPU",
            "source": "Qi et al. \"Zero Bubble Pipeline Parallelism\" Table 4"}
LAYER = COMMON | {"system": "8xA100-80GB", "model": "GPT 22B single layer", "n_gpus": "8", "precision": "fp16", "seq": "2048", "mbs": "4", "tp": "8",
                  "hidden": "6144", "heads": "64", "metric": "layer_bwd", "unit": "ms", "extra": "selective recompute",
                  "source": "Korthikanti et al. 2022 Table 4"}


MIXTURE = COMMON | {"system": "AWS p6-b300 (8x B300, 16x 400G EFA)", "model": "DeepSeek-V3 (671B)", "n_gpus": "256", "precision": "bf16", "seq": "4096",
                    "gbs": "256", "mbs": "4", "tp": "8", "pp": "8", "ep": "32", "metric": "iteration_time",
                    "extra": "Megatron-Bridge 0.4.2, etp 1; dispatcher NCCL all-to-all; moe all-to-all overlap off; recompute as in the recipe",
                    "source": "awslabs/awsome-distributed-ai 3.test_cases/megatron/megatron-bridge/dsv3/benchmarks/RESULTS.md"}


def row(columns):
    return rows.Row("table.csv", 2, columns, float(columns["value"]))


def mapped(columns, **changes):
    return training.map_row(row(columns | changes))


def workload(columns, **changes):
    return mapped(columns, **changes).scenario["workload"]


def reason(columns, **changes):
    with pytest.raises(rows.Unmapped) as caught:
        mapped(columns, **changes)
    return str(caught.value)


def part(mapping, *names):
    return {name: mapping.get(name) for name in names}


def config_of(one):
    model = one.scenario["model"]
    return json.loads(one.files.get(model["config"]) or pathlib.Path(model["config"]).read_text(encoding="utf-8"))


# --- one row of each source

def test_megatron_of_2022_recomputes_as_printed_and_reduces_all_gradients_at_once():
    asked = workload(KORTHIKANTI)
    assert part(asked, "software", "tp", "pp", "dp", "zero_stage") == {"software": "megatron_2021", "tp": 8, "pp": 8, "dp": 1, "zero_stage": 0}
    assert part(asked, "schedule", "virtual_stages", "global_batch") == {"schedule": "interleaved", "virtual_stages": 3, "global_batch": 64}
    assert asked["recompute"] == "selective" and asked["sequence_parallel"]
    assert asked["precision"] == {"gradients": "as_parameters"} and mapped(KORTHIKANTI).scenario["model"]["dtype"] == "fp16"
    full = workload(KORTHIKANTI, extra="full recompute")
    assert full["recompute"] == "full" and "sequence_parallel" not in full
    assert mapped(KORTHIKANTI).scenario["machine"]["nic"] == {"datasheet": "connectx6_hdr"}


def test_nvidias_recipes_have_sequence_parallelism_and_a_distributed_optimizer_with_overlap():
    one = mapped(NEMO)
    asked = one.scenario["workload"]
    assert part(asked, "software", "cp", "dp", "zero_stage", "dp_overlap", "param_gather_overlap", "sequence_parallel") == {
        "software": "megatron_core", "cp": 2, "dp": 2, "zero_stage": 1, "dp_overlap": True, "param_gather_overlap": True, "sequence_parallel": True}
    assert asked["precision"] == {"gemm": "fp8", "gradients": "as_parameters"} and one.scenario["model"]["dtype"] == "bf16"
    assert one.operation == "NeMo fp8, TP overlap" and one.scenario["machine"]["nic"] == {"datasheet": "connectx7_ndr", "per_server": 8}
    alone = mapped(NEMO, model="llama3.1 8b", tp="1", pp="1", vp="NA")
    assert alone.operation == "NeMo fp8" and "sequence_parallel" not in alone.scenario["workload"]


def test_vtrain_runs_on_a_part_of_a_server():
    one = mapped(VTRAIN)
    asked = one.scenario["workload"]
    assert part(asked, "software", "recompute", "schedule", "dp") == {"software": "megatron_deepspeed", "recompute": "full", "schedule": "1f1b", "dp": 1}
    assert asked["placement"] == [0, 1, 2, 3] and "placement" not in workload(VTRAIN, n_gpus="8")
    assert one.operation == "vTrain fp16" and one.size_class == "one server"
    assert config_of(one) == {"model_type": "gpt2", "n_layer": 24, "n_embd": 1024, "n_head": 16, "n_positions": 1024, "vocab_size": 50432}


def test_mpt_is_sharded_and_its_positions_follow_the_sequence():
    one = mapped(MPT)
    asked = one.scenario["workload"]
    assert part(asked, "software", "zero_stage", "recompute", "dp") == {"software": "llm_foundry", "zero_stage": 3, "recompute": "full", "dp": 32}
    assert asked["precision"]["gradients"] == "as_parameters" and workload(MPT, precision="amp_bf16")["precision"]["gradients"] == "fp32"
    assert config_of(one)["max_seq_len"] == 4096
    assert one.scenario["machine"]["groups"]["node"] == {"servers": 4, "gpu": "A100-SXM4-40GB"}
    assert one.scenario["machine"]["nic"] == {"datasheet": "connectx6_roce", "per_server": 8}


def test_torchtitan_has_the_memory_and_the_power_limit_that_its_rows_name():
    one = mapped(TITAN)
    changes = one.scenario["machine"]["overrides"]["gpu"]
    assert changes == {"hbm": {"capacity_gb": 96, "visible_gb": 96, "gb_per_s": 2400}, "sm": {"power_limit_w": 500}}
    asked = one.scenario["workload"]
    assert part(asked, "software", "global_batch", "zero_stage") == {"software": "torchtitan", "global_batch": 256, "zero_stage": 3}
    assert part(asked, "recompute") == {"recompute": "selective"}
    assert workload(TITAN, model="Llama3.1 8B FSDP+compile")["software"] == "torchtitan_compile"
    long = workload(TITAN, model="Llama3.1 8B FSDP4 CP2", n_gpus="8", mbs="1", cp="2", precision="fp8")
    assert part(long, "software", "cp", "dp", "global_batch", "recompute") == {
        "software": "torchtitan_compile", "cp": 2, "dp": 4, "global_batch": 4, "recompute": "full"}


def test_xla_recomputes_a_share_of_the_layers_and_shards_within_groups():
    asked = workload(MAXTEXT)
    assert part(asked, "software", "hsdp", "zero_stage") == {"software": "xla_fsdp", "hsdp": 128, "zero_stage": 3}
    # gate and up, 2 x 8192 x 28672, of 855.6 million weights of a layer
    assert part(asked, "recompute") == {"recompute": {"method": "block", "layers": round(80 * 2 * 8192 * 28672 / 855638016)}}
    assert "hsdp" not in workload(MAXTEXT, n_gpus="128", gbs="256")
    pax = workload(MAXTEXT, model="paxml gpt5b", n_gpus="16", gbs="64", mbs="4", seq="2048", extra="FSDP+DP, MBS=4",
                   source="NVIDIA/dgxc-benchmarking v24.11.1:paxml/README_5b.md")
    assert part(pax, "hsdp", "recompute") == {"hsdp": 8, "recompute": {"method": "block", "layers": 8}}


def test_zero_bubble_schedules_have_their_limits_and_shorter_ends():
    asked = workload(PIPELINE)
    assert part(asked, "schedule", "memory_limit_stages", "grad_norm", "global_batch", "micro_batch") == {
        "schedule": "zb_auto", "memory_limit_stages": 2, "grad_norm": "none", "global_batch": 144, "micro_batch": 6}
    assert asked["stage_layers"] == [2, 3, 3, 3, 3, 3, 3, 2] and sum(asked["stage_layers"]) == 22
    loop = workload(PIPELINE, kind="pipeline 1F1B interleaved")
    assert loop["virtual_stages"] == 3 and loop["stage_layers"] == [0] + [1] * 22 + [0]
    # A bubble rate is read from the run of the throughput row: the schedule's own, as the paper finds it.
    rate = mapped(PIPELINE, kind="bubble rate ZB_2p", config="GPT 1.5B PP=8 microbatches=24", metric="bubble_rate", unit="fraction")
    assert rate.key == mapped(PIPELINE).key
    assert rate.read(types.SimpleNamespace(summary={"metrics": {"bubble_planned_fraction": 0.04, "step_s": 1}})) == 0.96
    assert rate.compared(0.03) == 0.97


def test_overlapped_tensor_parallelism_is_a_group_of_its_own():
    columns = PIPELINE | {"system": TITAN["system"], "kind": "TP async fp8 tensorwise", "n_gpus": "64", "metric": "tokens/s/GPU", "unit": "tok/s/GPU",
                          "config": "Llama3 8B FSDP8 TP8 compile per-op SAC local batch 12 seq 8192", "source": "pytorch/torchtitan async TP benchmark"}
    one = mapped(columns)
    asked = one.scenario["workload"]
    assert one.operation == "torchtitan fp8 tensorwise, TP overlap"
    assert asked["precision"] == {"gradients": "fp32", "gemm": "fp8", "recipe": "tensorwise"} and asked["keep_gathered"]
    assert part(asked, "tp", "dp", "global_batch", "micro_batch") == {"tp": 8, "dp": 8, "global_batch": 96, "micro_batch": 12}
    assert mapped(columns | {"kind": "TP vanilla fp8 tensorwise"}).operation == "torchtitan fp8 tensorwise"
    for kind, operation in (("TP vanilla fp8 rowwise", "torchtitan fp8 rowwise"), ("TP async fp8 row-wise", "torchtitan fp8 rowwise, TP overlap")):
        rowwise = mapped(columns | {"kind": kind})
        assert rowwise.operation == operation and rowwise.scenario["workload"]["precision"]["recipe"] == "rowwise"


def test_a_layer_is_read_from_its_steps():
    one = mapped(LAYER)
    assert part(one.scenario["workload"], "kind", "phase", "recompute", "attention", "dropout", "batch", "reduce_beside_wgrad") == {
        "kind": "layer", "phase": "training", "recompute": "selective", "attention": "unfused", "dropout": True, "batch": 4,
        "reduce_beside_wgrad": True}
    steps = (("forward.mlp.up", 0, 5), ("recompute.attention", 5, 7), ("backward.mlp.up_dgrad", 7, 11), ("backward.mlp.all_reduce", 11, 13),
             ("backward.mlp.up_wgrad", 11, 14))  # the last two beside each other
    lines = [{"name": name, "start_s": str(start * 1e-6), "end_s": str(end * 1e-6)} for name, start, end in steps]
    seconds = {metric: training_layer_rows.part_s(lines, metric) for metric in ("layer_fwd", "layer_bwd", "layer_fwd+bwd")}
    assert seconds == pytest.approx({"layer_fwd": 5e-6, "layer_bwd": 9e-6, "layer_fwd+bwd": 14e-6})


# --- what is not printed

def test_a_published_recipe_fills_empty_columns_only():
    grok = NEMO | {"model": "grok1 314b", "n_gpus": "512", "source": "NVIDIA/dgxc-benchmarking v25.05.01:grok1/README.md"} | dict.fromkeys(
        ("seq", "gbs", "mbs", "tp", "pp", "cp", "vp"), "")
    asked = workload(grok)
    assert part(asked, "tp", "pp", "cp", "ep", "dp", "virtual_stages", "global_batch") == {
        "tp": 4, "pp": 8, "cp": 2, "ep": 8, "dp": 8, "virtual_stages": 8, "global_batch": 1024}
    assert workload(grok, gbs="2048")["global_batch"] == 2048
    assert config_of(mapped(grok))["vocab_size"] == 128256
    # NA in a recipe's column is filled, too; elsewhere it means one.
    large = NEMO | {"model": "nemotron4 340b", "n_gpus": "256", "seq": "4096", "gbs": "64", "tp": "8", "pp": "8", "cp": "1", "vp": "NA"}
    assert workload(large)["virtual_stages"] == 12
    # Later releases run NeMo's recipe, which recomputes nothing. Both put the gradients of the head off, where there are stages.
    for release, recompute in [("v24.11.1", "selective"), ("v25.02", "selective"), ("v25.04", "none"), ("v25.05", "none")]:
        asked = workload(large, source=f"NVIDIA/dgxc-benchmarking {release}:nemotron/README.md")
        assert part(asked, "recompute", "defer_embedding_wgrad") == {"recompute": recompute, "defer_embedding_wgrad": True}
    assert "defer_embedding_wgrad" not in workload(NEMO, tp="1", pp="1")
    assert workload(NEMO, vp="n/a")["schedule"] == "1f1b"


def test_layers_of_a_row_replace_those_of_its_model_and_ends_count_as_layers():
    one = mapped(NEMO, model="llama3.1 405b PROXY(fewer layers)", n_gpus="64", tp="8", vp="8", layers="30", gbs="64")
    assert config_of(one)["num_hidden_layers"] == 30
    assert one.scenario["workload"]["stage_layers"] == [0] + [1] * 30 + [0]
    assert "32 virtual stages" in reason(NEMO, model="llama3.1 405b PROXY(fewer layers)", n_gpus="64", tp="8", vp="8", layers="31", gbs="64")


def test_experts_are_whole_where_the_row_says_so_or_replicas_are_too_few():
    asked = workload(MIXTURE)
    assert part(asked, "tp", "dp", "ep", "expert_tp", "recompute", "tp_overlap", "stage_layers", "schedule") == {
        "tp": 8, "dp": 4, "ep": 32, "expert_tp": 1, "recompute": "full", "tp_overlap": "none", "stage_layers": [8] * 7 + [5], "schedule": "1f1b"}
    overlap = workload(MIXTURE, extra=MIXTURE["extra"].replace("overlap off; recompute as in the recipe", "overlap on (1F1B); recompute off"))
    assert part(overlap, "overlap_moe", "virtual_stages", "recompute", "stage_layers") == {
        "overlap_moe": True, "virtual_stages": 2, "recompute": "none", "stage_layers": [4] * 15 + [1]}
    plain = {"extra": "Megatron-Bridge; recompute off", "vp": "1"}
    assert workload(MIXTURE, **plain)["expert_tp"] == 1 and "expert_tp" not in workload(MIXTURE, ep="4", **plain)
    assert "EP 24 of TP 8 x DP 4" in reason(MIXTURE, ep="24")
    assert "expert_exchange" not in asked
    assert workload(MIXTURE, extra=MIXTURE["extra"].replace("NCCL all-to-all", "DeepEP over UCCL"))["expert_exchange"] == "deepep"
    assert "HybridEP" in reason(MIXTURE, extra=MIXTURE["extra"].replace("NCCL all-to-all", "HybridEP"))


def test_what_is_not_printed_is_chosen_and_the_fastest_run_counts():
    one = mapped(SC21)
    assert one.operation == "Megatron fp16, tuned"
    assert [candidate.scenario["workload"]["micro_batch"] for candidate in one.candidates] == [1, 2, 4, 8, 16]
    assert len({candidate.key for candidate in one.candidates}) == 5
    outcomes = comparison.map_rows(CLASSES["training"], [row(SC21)])
    points = comparison.assign_points(CLASSES["training"], outcomes)
    assert len(points) == 5 and len({point.name for point in points}) == 5
    step_s = {1: 9.0, 2: 8.0, 4: 7.5, 16: 7.0}  # 8 does not fit
    results = []
    for point in points:
        seconds = step_s.get(point.scenario["workload"]["micro_batch"])
        summary = {"metrics": {"step_s": seconds}} if seconds else None
        results.append(runner.Result(point, pathlib.Path(), summary, "" if seconds else "memory exceeded"))
    comparison.compare(outcomes, results)
    assert outcomes[0].chosen == "micro-batch 16" and outcomes[0].point.scenario["workload"]["micro_batch"] == 16
    shape = training_models.gpt("", 36, 4096, 32, 2048, 51200)
    assert outcomes[0].predicted == pytest.approx(training_flops.gpt(shape, 2048, 512, True) / 128 / 7.0 * 1e-12)
    comparison.compare(outcomes, [runner.Result(point, pathlib.Path(), None, "memory exceeded") for point in points])
    assert outcomes[0].skipped == "the run failed: memory exceeded"


def test_candidates_of_an_interleaved_schedule_divide_layers_and_micro_batches():
    one = mapped(SC21, pp="2", gbs="64", n_gpus="512", tp="8")  # 32 replicas of one or two micro-batches
    sizes = [(a["micro_batch"], a.get("virtual_stages", 1)) for a in (candidate.scenario["workload"] for candidate in one.candidates)]
    assert (1, 2) in sizes and (2, 1) in sizes
    assert (2, 2) not in sizes  # one micro-batch is less than two stages
    assert all(36 % (2 * virtual) == 0 for _, virtual in sizes)


def test_replicas_over_several_servers_run_folded():
    assert mapped(NEMO, n_gpus="2048", gbs="2048").scenario["simulation"] == {"fold": "auto"}
    assert "network" not in mapped(NEMO, n_gpus="2048", gbs="2048").scenario["machine"]
    assert mapped(NEMO, n_gpus="4096", gbs="4096").scenario["machine"]["network"] == {"tiers": 3}
    assert mapped(SC21, n_gpus="1024").scenario["machine"]["network"] == {"tiers": 3}
    assert "simulation" not in mapped(VTRAIN).scenario  # one server
    assert "simulation" not in mapped(KORTHIKANTI).scenario  # one replica


def test_recipes_with_adapters_train_these_only():
    lora = {"model": "llama3 8b finetuning lora", "tp": "", "pp": "", "vp": ""}
    eight = workload(NEMO, **lora)
    assert eight["lora"] == {"rank": 8, "modules": ["qkv"]} and "tp_overlap" not in eight and eight["precision"].get("parameters") is None
    mlperf = {"model": "Llama2-70B LoRA", "source": "mlcommons/training_results_v4.1", "gbs": "8", "tp": "", "pp": "", "vp": "", "mbs": ""}
    sizes = {(gpus, ga): [workload(NEMO, n_gpus=str(gpus), ga=str(ga), **mlperf).get(key, 1) for key in ("tp", "cp", "dp")]
             for gpus, ga in ((4, 8), (8, 4), (8, 1), (64, 1))}
    assert sizes == {(4, 8): [4, 1, 1], (8, 4): [4, 1, 2], (8, 1): [1, 1, 8], (64, 1): [4, 2, 8]}  # tp4pp1cp1, ..., tp1pp1cp1, tp4pp1cp2
    steps = workload(NEMO, n_gpus="8", ga="4", **mlperf)
    assert steps["lora"] == {"rank": 16, "modules": ["qkv", "proj"]} and steps["tp_overlap"] == "none" and not steps["dp_overlap"]
    assert steps["precision"]["parameters"] == "gemm"


@pytest.mark.parametrize("columns, changes, what", [
    (NEMO, {"model": "llama3.1 70b lora"}, "adapters (LoRA)"),
    (NEMO, {"model": "Llama2-70B LoRA", "source": "mlcommons", "ga": "1", "gbs": "96"}, "are not divided evenly"),
    (NEMO, {"extra": "SFT Performance"}, "packed sequences"),
    (NEMO, {"model": "DeepSeekV3"}, "multi-token prediction"),
    (NEMO, {"model": "DeepSeekV4 Flash"}, "the attention of DeepSeek-V4"),
    (NEMO, {"model": "nemotron-h 56b"}, "Mamba"),
    (NEMO, {"gbs": ""}, "configuration is not printed"),
    (NEMO, {"model": "falcon 180b"}, "no configuration of model 'falcon 180b'"),
    (NEMO, {"precision": "int8"}, "precision 'int8' is none of"),
    (NEMO, {"precision": "nvfp4"}, "H100-SXM5-80GB has no tensor rate of nvfp4"),
    (NEMO, {"n_gpus": "48"}, "48 GPUs are no multiple of TP x CP x PP 32"),
    (NEMO, {"gbs": "127"}, "is no multiple of micro-batch x DP 2"),
    (NEMO, {"source": "somebody's blog"}, "no rule for the software of 'somebody's blog'"),
    (NEMO, {"metric": "loss"}, "metric 'loss' is no time or rate of a step"),
    (NEMO, {"metric": "step_time", "unit": "furlongs"}, "unit 'furlongs'"),
    (KORTHIKANTI, {"system": "DGX-2 V100"}, "no platform has V100 GPUs"),
    (KORTHIKANTI, {"category": "3-compute"}, "belongs to another class"),
    (PIPELINE, {"kind": "pipeline DualPipe"}, "schedule 'DualPipe' is none of"),
    (PIPELINE, {"kind": "EP all-to-all overlap off"}, "neither a pipeline schedule nor"),
])
def test_what_cannot_be_mapped_says_why(columns, changes, what):
    assert what in reason(columns, **changes)


# --- values

@pytest.mark.parametrize("columns, changes, value", [
    (KORTHIKANTI, {}, 2.5),
    (NEMO, {"metric": "tokens/s/GPU", "unit": "tok/s/GPU"}, 700),
    (COMMON | {"system": "A100-80GB (PAX)", "model": "GPT 126M", "n_gpus": "64", "precision": "bf16", "seq": "2048",
               "source": "NVIDIA JAX-Toolbox / PAX README"}, {"extra": "DP64 bs4", "metric": "seqs/s", "unit": "seq/s"}, 64 * 4 / 2.5),
    (PIPELINE, {}, 6 * 24 / 8 / 2.5),
])
def test_metrics_are_those_of_the_row(columns, changes, value):
    metrics = {"step_s": 2.5, "tokens_per_s_per_gpu": 700}
    one = mapped(columns, **changes)
    assert one.read(types.SimpleNamespace(summary={"metrics": metrics})) / one.unit == pytest.approx(value)


def test_flops_are_those_of_the_sources():
    # Narayanan et al. print 4.4 PFLOP/s for 1.7 billion parameters: equation 3 by hand
    shape = training_models.gpt("", 24, 2304, 24, 2048, 51200)
    by_hand = 96 * 512 * 2048 * 24 * 2304**2 * (1 + 2048 / (6 * 2304) + 51200 / (16 * 24 * 2304))
    assert training_flops.gpt(shape, 2048, 512, recomputed=True) == pytest.approx(by_hand)
    # Without recomputation: 6 FLOPs a weight and token, and 12 s h l a token for scores and values
    weights = 24 * 12 * 2304**2 + 2304 * 51200
    assert training_flops.gpt(shape, 2048, 1, recomputed=False) == pytest.approx(2048 * (6 * weights + 12 * 2048 * 2304 * 24))
    # Llama-3.1-70B as published: 6 N and the scores
    llama = training_models.shape_of(row(NEMO), 8192, 1)
    products = 80 * 855638016 + 8192 * 128256
    assert training_flops.llama(llama, 8192, 1) == pytest.approx(8192 * (6 * products + 12 * 8192 * 8192 * 80))


def test_sc21_rows_have_flops_and_time_that_agree():
    """The printed throughput and GPUs give the time of a step that the same formula turns back."""
    one = mapped(SC21)
    shape = training_models.gpt("", 36, 4096, 32, 2048, 51200)
    seconds = training_flops.gpt(shape, 2048, 512, True) / (142e12 * 128)
    assert one.read(types.SimpleNamespace(summary={"metrics": {"step_s": seconds}})) / one.unit == pytest.approx(142)


def test_vocabularies_are_padded_as_megatron_does():
    assert [training_models.padded(50257, tp) for tp in (1, 2, 4, 8)] == [50304, 50432, 50688, 51200]
    assert training_models.padded(51200, 8) == 51200


# --- whole tables

def test_every_row_is_mapped_or_has_a_reason():
    counts = {}
    for table in TABLES:
        outcomes = comparison.map_rows(CLASSES["training"], rows.read(str(table)))
        points = comparison.assign_points(CLASSES["training"], outcomes)
        assert len({point.name for point in points}) == len({runner.directory_name(point.name) for point in points}), table
        assert all(bool(one.skipped) != bool(one.point) for one in outcomes), table
        assert not [one.skipped for one in outcomes if one.skipped.startswith("the rule failed")], table
        counts[table.name] = sum(not one.skipped for one in outcomes)
    assert counts["training.csv"] >= 400
    assert counts["training_vtrain.csv"] == 1153 and counts["training_pipelines.csv"] == 55


def test_every_scenario_uses_all_its_ranks():
    for table in TABLES:
        for one in comparison.map_rows(CLASSES["training"], rows.read(str(table))):
            for candidate in one.experiment.candidates if one.experiment else ():
                asked = candidate.scenario["workload"]
                if asked["kind"] != "training":
                    continue
                gpus = asked["tp"] * asked["pp"] * asked["dp"] * asked.get("cp", 1)
                assert gpus == int(one.row["n_gpus"]), one.row["id"]
                assert asked["global_batch"] % (asked["micro_batch"] * asked["dp"]) == 0, one.row["id"]
                layers = training_models.Shape("", json.dumps(config_of(candidate))).layers
                stages = asked["pp"] * asked.get("virtual_stages", 1)
                assert sum(asked.get("stage_layers", [layers // stages] * stages)) == layers, one.row["id"]


def test_equal_steps_of_two_releases_share_a_run():
    outcomes = comparison.map_rows(CLASSES["training"], [row(NEMO), row(NEMO | {"source": NEMO["source"].replace("25.04", "25.02")})])
    assert len(comparison.assign_points(CLASSES["training"], outcomes)) == 1


def test_files_of_a_scenario_lie_beside_it(tmp_path):
    tool = tmp_path / "bin" / "dgx_a100"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\ncat model.json > /dev/null || exit 1\nmkdir out\necho '{\"metrics\": {\"step_s\": 1}}' > out/summary.json\n")
    tool.chmod(0o755)
    point = next(iter(experiment.merge([("one", mapped(VTRAIN))]).values()))
    result = runner.run([point], tmp_path / "runs", tool.parent, 1)[0]
    assert not result.failed, result.error
    assert json.loads((result.directory / "model.json").read_text())["n_layer"] == 24


def test_list_shows_scenarios_and_reasons_and_runs_nothing(tmp_path):
    table = tmp_path / "table.csv"
    with open(table, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(NEMO))
        writer.writeheader()
        writer.writerows([NEMO, NEMO | {"id": "T-2", "model": "nemotron-h 56b"}])
    command = [ROOT / "scripts" / "validate.py", "training", "--rows", table, "--list", "--bin", tmp_path / "none"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second, *covered = result.stdout.splitlines()
    assert covered == ["coverage: 1 of 2 rows, 50.0%", "     1  not: Mamba layers are not modelled"]
    assert first.startswith("T-1  DGX H100/NeMo fp8, TP overlap/several servers  dgx_h100  {")
    assert json.loads(first[first.index("{"):]) == mapped(NEMO).scenario
    assert second.startswith("T-2  skipped: Mamba layers are not modelled")
    told = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert (told["rows"], told["expressed"], told["ratio"], told["reasons"]) == (2, 1, 0.5, {"Mamba layers are not modelled": 1})
    both = subprocess.run([*command, "--out", tmp_path], capture_output=True, text=True, check=False)
    assert both.returncode == 2 and "--list runs nothing" in both.stderr


def test_rows_of_other_columns_than_the_shipped_tables_have_the_same_scenario():
    """A larger table of the same kind: further columns do not count."""
    assert mapped(NEMO, confidence="read in source", split="calibration", note="tok/s printed 95239").scenario == mapped(NEMO).scenario


def test_steps_know_the_datasheets_of_their_software():
    software = {path.stem for path in (ROOT / "platforms" / "datasheets" / "software").glob("*.yaml")}
    used = set()
    for table in TABLES:
        for one in comparison.map_rows(CLASSES["training"], rows.read(str(table))):
            if one.experiment and one.experiment.scenario["workload"]["kind"] == "training":
                used.add(one.experiment.scenario["workload"]["software"])
    assert used == software


# --- which of two mappings is faster

def outcome_of(columns, predicted, **changes):
    """A row that has been compared."""
    its_row = row(columns | changes)
    return comparison.Outcome(its_row, experiment=training.map_row(its_row), predicted=predicted)


def test_rows_that_differ_in_mapping_are_a_pair():
    one, two = outcome_of(VTRAIN, 11, value="10"), outcome_of(VTRAIN, 12, id="T-2", tp="4", pp="1", value="12")
    (pair,) = orderings.pairs([two, one])
    assert (pair.low, pair.high, pair.right) == (one, two, True)
    assert pair.text == "T-1 and T-2: measured x 1.20, predicted x 1.09"
    two.predicted = 10.5
    assert not orderings.pairs([one, two])[0].right


@pytest.mark.parametrize("changes", [{"gbs": "32"}, {"n_gpus": "8"}, {"layers": "48"}, {"seq": "2048"}, {"extra": VTRAIN["extra"] + " and more", "metric": "step_time"}])
def test_other_rows_are_no_pair(changes):
    one, two = outcome_of(VTRAIN, 11, value="10"), outcome_of(VTRAIN, 12, id="T-2", tp="4", pp="1", value="12", **changes)
    assert not orderings.pairs([one, two])


def test_rows_within_the_noise_of_measurements_are_no_pair():
    one, two = outcome_of(VTRAIN, 11, value="10"), outcome_of(VTRAIN, 12, id="T-2", tp="4", pp="1", value="10.5")
    assert not orderings.pairs([one, two])


def test_orderings_are_counted_by_table_and_source():
    found = [outcome_of(VTRAIN, 11, value="10"), outcome_of(VTRAIN, 12, id="T-2", tp="4", pp="1", value="12"),
             outcome_of(VTRAIN, 10.9, id="T-3", tp="1", pp="4", value="14")]
    told = orderings.lines(found)
    assert "| table.csv, VIA-Research/vTrain | 3 | 33.3 % |" in told and "| all | 3 | 33.3 % |" in told
    assert orderings.as_json(found)["all"] == {"pairs": 3, "right_share": pytest.approx(1 / 3)}
    assert not orderings.lines(found[:1])

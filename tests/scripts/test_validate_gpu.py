"""Validation class gpu: what measured kernels become, which are refused with which reason, and how predictions are read."""

import csv
import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from lib import runner  # noqa: E402
from validation import CLASSES, comparison, kernels, rows  # noqa: E402

GPU = CLASSES["gpu"]

GEMM = {"id": "G-1", "category": "3-compute", "system": "h100_sxm", "dtype": "bfloat16", "M": "64", "N": "4096", "K": "8192",
        "library": "cuBLAS via torch, weights rotated to defeat L2", "metric": "time", "value": "30", "unit": "us"}
ATTENTION = {"id": "A-1", "category": "3-compute", "system": "b200_sxm", "phase": "decode", "dtype": "bf16", "batch": "8", "seq": "1",
             "kv_len": "4096", "heads": "32", "kv_heads": "8", "head_dim": "128", "library": "trtllm 1.3", "metric": "time", "value": "40",
             "unit": "us"}
MEMORY = {"id": "M-1", "category": "3-compute", "system": "a100_80", "kind": "STREAM-like scale", "config": "occupancy 100.0%",
          "metric": "bandwidth", "value": "1700", "unit": "GB/s"}


DECODE = {"id": "D-1", "category": "5-inference", "system": "A100-80GB", "model": "Llama2-7B", "n_gpus": "2", "precision": "int8",
          "framework": "gpt-fast", "tp": "2", "batch": "1", "metric": "decode tokens/s", "value": "100", "unit": "tok/s"}


def row(base, **changes):
    columns = base | changes
    return rows.Row("table.csv", 2, columns, float(columns["value"]))


def mapped(base, **changes):
    return GPU.map_row(row(base, **changes))


def reason(base, **changes):
    with pytest.raises(rows.Unmapped) as caught:
        mapped(base, **changes)
    return str(caught.value)


def only(one):
    (kernel,) = one.kernels
    return kernel


@pytest.mark.parametrize("system, gpu", [
    ("a100_sxm", "A100-SXM4-80GB"), ("a100_40", "A100-SXM4-40GB"), ("a100_80", "A100-SXM4-80GB"), ("h100_pcie", "H100-PCIe-80GB"),
    ("a40 (vidur)", "A40-48GB"), ("Azure ND H100", "H100-SXM5-80GB"), ("NVIDIA A100 PCIe", "A100-PCIe-80GB"), ("H800", "H800-SXM5-80GB"),
    ("l40s", "L40S"), ("l40", "L40-48GB"), ("gh200", "GH200-96GB"), ("mi300x", "MI300X"), ("gb200", "GB200-186GB"), ("rtx_pro_6000_server", "RTX-PRO-6000-Blackwell-Server"),
])
def test_gpus_by_name(system, gpu):
    one = mapped(GEMM, system=system)
    assert one.scenario["machine"]["groups"]["node"]["gpu"] == gpu and one.platform == "plx_box"


def test_products():
    assert only(mapped(GEMM)) == {"op": "gemm", "m": 64, "n": 4096, "k": 8192, "dtype": "bf16", "weight_copies": 5}
    narrow = mapped(GEMM, dtype="fp8")
    assert [kernel["op"] for kernel in narrow.kernels] == ["quantize", "gemm"] and narrow.operation == "gemm fp8"
    assert narrow.kernels[0] == {"op": "quantize", "tokens": 64, "width": 8192, "dtype": "fp8", "dynamic": True}
    assert [kernel["op"] for kernel in mapped(GEMM, dtype="int8_wo").kernels] == ["gemm"]
    flushed = only(mapped(GEMM, system="H800", dtype="fp8", library="DeepGEMM fp8 (InferSim)"))
    assert flushed["gemm_library"] == "deepgemm" and flushed["l2_flushed"] and "groups" not in flushed
    experts = mapped(GEMM, system="H20", dtype="fp8", library="DeepGEMM fp8 (InferSim)", groups="32")
    assert only(experts)["groups"] == 32 and experts.operation == "gemm fp8, groups"
    assert "weight_copies" not in flushed and "launch" not in flushed
    assert [mapped(GEMM, M=m).size_class for m in ("64", "65", "1024", "1025")] == ["M<=64", "M<=1024", "M<=1024", "M>1024"]


def test_attention():
    rotary, attention = mapped(ATTENTION, library="trtllm 1.0.0rc3").kernels
    assert rotary["op"] == "rotary" and rotary["tokens"] == 8 and rotary["kv_cache"]
    assert mapped(ATTENTION, library="vllm 0.14.0").kernels[0] == {"op": "copy", "bytes": 8 * 2 * 8 * 128 * 2}  # new keys and values
    assert (attention["op"], attention["batch"], attention["context_tokens"]) == ("attention_decode", 8, 4095)
    assert mapped(ATTENTION).size_class == "KV<=256MB"  # 8 x 4096 x 8 x 128 x 2 values of 2 bytes: 134 MB
    latent = mapped(ATTENTION, heads="128", kv_heads="1", head_dim="576", library="FlashMLA").kernels[-1]
    assert latent["latent"] and latent["value_dim"] == 512
    alone = only(mapped(ATTENTION, system="H800", library="FA3/FlashInfer (InferSim)"))
    assert alone["op"] == "attention_decode"
    rotary, prefill = mapped(ATTENTION, library="trtllm 1.0.0rc3", phase="prefill causal", seq="512", kv_len="2048").kernels
    assert rotary["tokens"] == 4096
    assert (prefill["op"], prefill["tokens"], prefill["context_tokens"]) == ("attention_prefill", 512, 1536) and "causal" not in prefill
    for phase, causal in (("prefill", True), ("context", True), ("prefill non-causal", False), ("prefill, full", False)):
        prefill = mapped(ATTENTION, phase=phase, seq="512", kv_len="2048").kernels[1]
        assert prefill.get("causal", True) == causal, phase
    forward, backward = mapped(ATTENTION, system="Azure ND A100", phase="fwd+bwd benchmark as in FA2 repo", library="FlashAttention-2",
                               batch="2", seq="8192", heads="", head_dim="64", metric="TFLOPs", unit="TFLOP/s").kernels
    assert (forward["op"], backward["op"]) == ("attention_prefill", "attention_backward") and forward["heads"] == 32


def test_attention_of_torch():
    torch = {"system": "H200-SXM-141GB, torch 2.11", "library": "torch sdpa, CUDA graph"}
    decode = only(mapped(ATTENTION, **torch))
    assert (decode["op"], decode["library"], decode["kv_in_l2"]) == ("attention_decode", "cudnn", True)
    prefill = only(mapped(ATTENTION, **torch, phase="prefill causal", seq="4096"))
    assert (prefill["op"], prefill["library"]) == ("attention_prefill", "cudnn") and "kv_in_l2" not in prefill
    assert "library" not in only(mapped(ATTENTION, **torch | {"system": "a100_sxm"}))


def test_memory():
    assert only(mapped(MEMORY))["cold"] and "threads" not in only(mapped(MEMORY))
    few = {kind: only(mapped(MEMORY, kind=f"STREAM-like {kind}", config="blockSize 32, threads 3456, occupancy 3%"))
           for kind in ("read", "scale", "triad")}
    assert {kind: (one["threads"], one["load_bytes"]) for kind, one in few.items()} == {"read": (3456, 4), "scale": (3456, 8), "triad": (3456, 12)}
    small = mapped(MEMORY, kind="back-to-back small SCALE kernels, graph", config="4096 doubles (65536 B moved), best block size")
    assert only(small) == {"op": "copy", "bytes": 32768, "launch": "graph"} and comparison.group_name(row(MEMORY), small).endswith("<=64KiB")
    softmax = only(mapped(MEMORY, kind="softmax fp16", config="M=4096 N=32", metric="throughput", unit="Gelem/s"))
    assert (softmax["op"], softmax["tokens"], softmax["width"]) == ("softmax", 4096, 32)
    up = only(mapped(MEMORY, system="a100 (vidur)", kind="Llama-2-70b-hf op mlp_up_proj", config="num_tokens=128 TP=2", metric="time_min",
                     unit="us"))
    assert (up["m"], up["n"], up["k"]) == (128, 28672, 8192)
    three = mapped(MEMORY, system="4xA100 NVLink FC, TP4", kind="GPT-3 layer (h12288,96 heads) Q_K_V", config="prefill bs8 seq2048",
                   metric="time", unit="us")
    assert [(one["m"], one["n"], one["k"]) for one in three.kernels] == [(16384, 3072, 12288)] * 3


def test_the_all_reduce_of_a_layer_is_a_run_of_its_own():
    one = mapped(MEMORY, system="4xA100 NVLink FC, TP4", kind="GPT-3 layer (h12288,96 heads) AllReduce_MHA", config="prefill bs8 seq2048",
                 metric="time", unit="us")
    assert GPU.point_name(row(MEMORY), one) == "all_reduce-A100-SXM4-80GB"


def test_decode_steps():
    one = mapped(DECODE)
    assert one.platform == "dgx_a100" and one.scenario["machine"]["groups"]["node"]["gpu"] == "A100-SXM4-80GB"
    assert pathlib.Path(one.scenario["model"]["config"]).name == "llama-2-7b.json" and pathlib.Path(one.scenario["model"]["config"]).exists()
    assert one.scenario["model"]["dtype"] == "int8"
    assert one.scenario["workload"] == {"kind": "layer", "phase": "decode", "tp": 2, "batch": 1, "context_tokens": 106, "library": "nccl"}
    assert mapped(DECODE, input_len="1000", output_len="40").scenario["workload"]["context_tokens"] == 1020


@pytest.mark.parametrize("base, changes, words", [
    (DECODE, {"framework": "vllm"}, "a served model"),
    (DECODE, {"model": "GPT-9"}, "no configuration"),
    (DECODE, {"precision": "ternary"}, "precision 'ternary'"),
    (GEMM, {"category": "1-collectives"}, "another class"),
    (GEMM, {"system": "tpu"}, "no GPU datasheet"),
    (GEMM, {"dtype": "fp128"}, "dtype 'fp128'"),
    (GEMM, {"N": ""}, "has no N"),
    (GEMM, {"M": "1.5"}, "no whole number"),
    (GEMM, {"M": "2000000000"}, "gemm of m 2000000000"),
    (GEMM, {"dtype": "nvfp4"}, "H100-SXM5-80GB has no tensor rate for nvfp4"),
    (ATTENTION, {"kv_heads": "5"}, "5 KV heads do not divide 32"),
    (ATTENTION, {"batch": "100000"}, "of batch 100000"),
    (ATTENTION, {"phase": "prefill causal", "seq": "512", "kv_len": "100"}, "of context_tokens -412"),
    (GEMM, {"metric": "power"}, "neither time nor TFLOPs"),
    (GEMM, {"unit": "GB/s"}, "unit 'GB/s'"),
    (ATTENTION, {"phase": "verify"}, "neither prefill nor decode"),
    (ATTENTION, {"library": "PyTorch standard attention"}, "several kernels"),
    (MEMORY, {"kind": "STREAM-like sort", "config": "blockSize 32, threads 3456"}, "'sort' is none of"),
    (MEMORY, {"kind": "pointer-chase load latency"}, "one load"),
    (MEMORY, {"kind": "back-to-back small SCALE kernels, grid-sync persistent"}, "persistent"),
    (MEMORY, {"kind": "power"}, "no kernel that is modelled"),
])
def test_what_is_refused(base, changes, words):
    assert words in reason(base, **changes)


def test_shipped_tables_are_accounted_for():
    for table in GPU.TABLES:
        outcomes = comparison.map_rows(GPU, rows.read(str(ROOT / "validation" / table)))
        comparison.assign_points(GPU, outcomes)
        assert all(bool(one.skipped) != bool(one.point) for one in outcomes), table
        assert all(one.row["source"] for one in outcomes), table
        assert sum(not one.skipped for one in outcomes) > 0.8 * len(outcomes), table


def test_rows_of_a_gpu_share_a_run_and_kernels(tmp_path):
    measured = [row(GEMM), row(GEMM, value="40"), row(GEMM, dtype="fp8"), row(GEMM, system="l40s"),
                row(GEMM, metric="TFLOPs", unit="TFLOP/s", value="100")]
    outcomes = comparison.map_rows(GPU, measured)
    points = comparison.assign_points(GPU, outcomes)
    assert sorted(point.name for point in points) == ["kernels-H100-SXM5-80GB", "kernels-L40S"]
    assert outcomes[0].point is outcomes[1].point is outcomes[2].point is not outcomes[3].point
    results = []
    for point in points:  # kernel i takes i + 1 us
        folder = tmp_path / point.name
        (folder / "out").mkdir(parents=True)
        (folder / "scenario.yaml").write_text(json.dumps(point.scenario))
        with open(folder / "out" / "kernels.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["kernel", "time_us", "limit"])
            writer.writerows([i, i + 1, "hbm"] for i in range(len(point.scenario["workload"]["kernels"])))
        results.append(runner.Result(point, folder, {"metrics": {}}, ""))
    comparison.compare(outcomes, results)
    place = {kernels.key(kernel): i + 1 for i, kernel in enumerate(outcomes[0].point.scenario["workload"]["kernels"])}
    for outcome in outcomes[:3]:
        assert outcome.predicted == pytest.approx(sum(place[kernels.key(kernel)] for kernel in outcome.experiment.kernels))
    rate = 2 * 64 * 4096 * 8192 / (place[kernels.key(only(outcomes[4].experiment))] * 1e-6) * 1e-12
    assert outcomes[4].predicted == pytest.approx(rate) and outcomes[4].error == pytest.approx(rate / 100 - 1)


def test_products_with_a_scale_for_each_row_run_in_their_own_kernel():
    base = GEMM | {"dtype": "fp8", "library": "torch scaled_mm, weights in turn, CUDA graph"}
    row, tensor = (mapped(base | {"kind": f"product, one scale a {scale}"}) for scale in ("row", "tensor"))
    assert only(row)["gemm_library"] == "rowwise" and "gemm_library" not in only(tensor)
    assert row.operation == "gemm fp8, row-wise" and tensor.operation == "gemm fp8"


def test_products_of_experts_touch_the_experts_that_some_token_has():
    base = GEMM | {"kind": "products of experts", "config": "128 experts, 8 a token", "library": "Triton, experts in turn"}
    assert only(mapped(base, M="1")).items() >= {"groups": 8, "m": 1, "weight_copies": 5}.items()
    # 128 (1 - (15/16)^1024) is 128 to the last digit, and each has 1024 x 8 / 128 rows.
    assert only(mapped(base, M="1024")).items() >= {"groups": 128, "m": 64}.items()
    assert mapped(base).operation == "gemm bf16, experts"

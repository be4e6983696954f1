"""Rows of memory-bound kernels, launches and single operations of models as kernels.

Rules, by `kind`:
  STREAM-like, BabelStream     a copy of 512 MiB, whatever the mixture of reads and writes. `config` tells how many threads run; each has
                               its loads and stores of doubles in flight
  back-to-back small SCALE kernels   copies launched from a stream or a graph, of the bytes that `config` tells
  softmax, layernorm, gelu     torch calls that are waited for (LLMCompass): M x N, or n elements, in rows of 1024
  GPT-3 layer ...              the operations of a layer on one of four ranks, LLMCompass, torch
  copy by few blocks           a constant of collectives, no kernel of the model
  ... op NAME                  Vidur's profiles: kernels of a layer of the model that the kind names, split by TP, as the profiler
                               timed them, without launches
"""

import re

from . import collectives, kernels, systems
from .experiment import LARGEST_CLASS, Experiment, size_class
from .rows import BYTES_PER_SECOND, SECONDS, Row, Unmapped

LONG_COPY = 256 << 20  # bytes read and as many written
# Doubles that a thread reads and writes per wait for memory
STREAM_DOUBLES = {"read": 1, "init": 1, "copy": 2, "scale": 2, "mul": 2, "dot": 2, "add": 3, "triad": 3}
GIGA = {"Gelem/s": 1e9}
DOUBLE = 8
# hidden, MLP width, heads, KV heads and head size, of the models' configurations
MODELS = {
    "Llama-2-7b": (4096, 11008, 32, 32, 128),
    "Llama-2-70b": (8192, 28672, 64, 8, 128),
    "Llama-3-8B": (4096, 14336, 32, 8, 128),
    "Llama-3-70B": (8192, 28672, 64, 8, 128),
}
GPT3_RANKS = 4
GELU_WIDTH = 1024
FP16_BYTES = 2
SCALAR_BYTES = 2  # that a thread of the kernels of those days asked for at once


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    kind = row["kind"]
    if re.search("pointer.chase", kind):
        raise Unmapped("the latency of one load is no kernel's time")
    if re.search("launch overhead", kind):
        raise Unmapped("what a launch call costs the host is not modelled")
    if re.match("STREAM|BabelStream", kind):
        return _stream(row)
    if re.search("small SCALE", kind):
        return _small_copy(row)
    if re.match("(softmax|layernorm|gelu)", kind):
        return _elementwise(row)
    if re.match("GPT-3 layer", kind):
        return _gpt3(row)
    operation = re.search(r" op (\w+)$", kind)
    if operation:
        return _profiled(row, operation.group(1))
    raise Unmapped(f"kind '{kind}' is no kernel that is modelled")


def _stream(row):
    copy = {"op": "copy", "bytes": LONG_COPY, "cold": True, "launch": "stream"}
    threads = re.search(r"threads (\d+)", row["config"])
    if threads:
        name = row["kind"].split()[-1].lower()
        if name not in STREAM_DOUBLES:
            raise Unmapped(f"'{name}' is none of {', '.join(STREAM_DOUBLES)}")
        copy |= {"threads": int(threads.group(1)), "load_bytes": STREAM_DOUBLES[name] * DOUBLE // 2}
    return kernels.experiment(row, "stream", LARGEST_CLASS, [copy], lambda seconds: 2 * LONG_COPY / seconds, row.scale(BYTES_PER_SECOND))


def _small_copy(row):
    launch = re.search("(stream|graph)", row["kind"])
    if not launch or re.search("persistent", row["kind"]):
        raise Unmapped("a persistent kernel with barriers of its own is not launched again")
    moved = re.search(r"(\d+) doubles", row["config"])
    if not moved:
        raise Unmapped("config names no number of doubles")
    each = int(moved.group(1)) * DOUBLE
    copy = {"op": "copy", "bytes": each, "launch": launch.group(1)}
    return kernels.experiment(row, f"small copy, {launch.group(1)}", size_class(2 * each), [copy], lambda seconds: 2 * each / seconds,
                              row.scale(BYTES_PER_SECOND))


def _elementwise(row):
    name = row["kind"].split()[0]
    numbers = {key: int(value) for key, value in re.findall(r"\b([MNn])=(\d+)", row["config"])}
    if name == "gelu":
        tokens, width, op = numbers.get("n", 0) // GELU_WIDTH, GELU_WIDTH, {"op": "activation"}
    else:
        tokens, width, op = numbers.get("M"), numbers.get("N"), {"op": "norm" if name == "layernorm" else "softmax"}
    if not tokens or not width:
        raise Unmapped("config names no shape")
    kernel = op | {"tokens": tokens, "width": width, "dtype": "fp16"} | _waited(name)
    return kernels.experiment(row, name, size_class(4 * tokens * width), [kernel], lambda seconds: tokens * width / seconds, row.scale(GIGA))


def _waited(call):
    return {"launch": "synchronous", "host_us": kernels.TORCH_CALL_US[call]}


def _gpt3(row):
    shape = re.search(r"h(\d+),\s*(\d+) heads\) (\w+)", row["kind"])
    prompt = re.search(r"bs(\d+) seq(\d+)", row["config"])
    if not shape or not prompt or not row["config"].startswith("prefill"):
        raise Unmapped("names no shape of the layer")
    hidden, heads, name = int(shape.group(1)), int(shape.group(2)), shape.group(3)
    batch, length = int(prompt.group(1)), int(prompt.group(2))
    if name.startswith("AllReduce"):
        size = FP16_BYTES * batch * length * hidden
        return collectives.experiment_of(row, systems.gpu_of(row), 1, {"op": "all_reduce"}, size, GPT3_RANKS * size, "time_s", row.scale(SECONDS))
    tokens, head_dim, own = batch * length, hidden // heads, hidden // GPT3_RANKS
    groups = batch * heads // GPT3_RANKS

    def gemm(m, n, k, groups=1):
        return {"op": "gemm", "m": m, "n": n, "k": k, "groups": groups, "dtype": "fp16"} | _waited("matmul")

    def over(op, rows, width, call):
        return {"op": op, "tokens": rows, "width": width, "dtype": "fp16"} | _waited(call)

    known = {
        "Q_K_V": [gemm(tokens, own, hidden)] * 3,
        "Q_mul_K": [gemm(length, length, head_dim, groups)],
        "A_mul_V": [gemm(length, head_dim, length, groups)],
        "Wo_proj": [gemm(tokens, hidden, own)],
        "W1_proj": [gemm(tokens, 4 * own, hidden)],
        "W2_proj": [gemm(tokens, hidden, 4 * own)],
        "Softmax": [over("softmax", groups * length, length, "softmax")],
        "GeLU": [over("activation", tokens, 4 * own, "gelu")],
    }
    known["LayerNorm_MHA"] = known["LayerNorm_FFN"] = [over("norm", tokens, hidden, "layernorm")]
    if name not in known:
        raise Unmapped(f"operation '{name}' of the layer is not one of {', '.join(known)}")
    return kernels.time_experiment(row, f"layer {name}", LARGEST_CLASS, known[name])


def _profiled(row, name):
    model = next((shape for model, shape in MODELS.items() if model.lower() in row["kind"].lower()), None)
    split = re.match(r"num_tokens=(\d+) TP=(\d+)", row["config"])
    if model is None or not split:
        raise Unmapped("names no model, or no tokens and TP")
    hidden, ffn, heads, kv_heads, head_dim = model
    tokens, tp = int(split.group(1)), int(split.group(2))
    own_heads, own_kv = heads // tp, max(1, kv_heads // tp)

    def gemm(n, k):
        return {"op": "gemm", "m": tokens, "n": n, "k": k, "dtype": "fp16"}

    known = {
        "attn_pre_proj": gemm((own_heads + 2 * own_kv) * head_dim, hidden),
        "attn_post_proj": gemm(hidden, own_heads * head_dim),
        "mlp_up_proj": gemm(2 * ffn // tp, hidden),
        "mlp_down_proj": gemm(hidden, ffn // tp),
        "mlp_act": {"op": "activation", "tokens": tokens, "width": ffn // tp, "gated": True, "dtype": "fp16", "load_bytes": SCALAR_BYTES},
        "input_layernorm": {"op": "norm", "tokens": tokens, "width": hidden, "dtype": "fp16", "load_bytes": SCALAR_BYTES},
        "post_attention_layernorm": {"op": "norm", "tokens": tokens, "width": hidden, "dtype": "fp16", "load_bytes": SCALAR_BYTES},
        "add": {"op": "residual_add", "tokens": tokens, "width": hidden, "dtype": "fp16"},
        "attn_rope": {"op": "rotary", "tokens": tokens, "heads": own_heads, "kv_heads": own_kv, "head_dim": head_dim, "dtype": "fp16",
                      "load_bytes": SCALAR_BYTES},
    }
    if name not in known:
        raise Unmapped(f"operation '{name}' is not one of {', '.join(known)}")
    kernel = known[name]
    if kernel["op"] == "gemm":
        return kernels.time_experiment(row, "gemm fp16", kernels.classed(tokens, ((64, "64"), (1024, "1024")), "M"), [kernel])
    return kernels.time_experiment(row, kernel["op"].replace("_", " "), size_class(2 * tokens * hidden), [kernel])

"""Rows of attention as kernels.

Rules, by column:
  phase            prefill: `seq` new tokens of each sequence, the last ones of `kv_len`, causal unless the row says non-causal, full or
                   bidirectional; decode: one new token; fwd+bwd: FlashAttention's benchmark, not causal unless the row says so,
                   whose hidden size is 2048 and whose FLOPs are 3.5 times the forward pass's, half of it if causal
  library          aiconfigurator's trtllm rows hold the rotary embedding and the write to the cache, one kernel there. Its vllm rows hold the
                   write alone, a copy of the new keys and values: collector/vllm/collect_attn.py calls the backend, which writes to
                   the cache itself or has a call for it. Other rows are the kernel alone. trtllm runs its own kernels, PyTorch's
                   scaled_dot_product_attention runs cuDNN's on Hopper (sdp_utils.cpp, check_prefer_cudnn_attention), all others
                   FlashAttention. vllm before Hopper decodes with FlashAttention-2, which splits the contexts of grouped heads only.
                   Decodes of aiconfigurator and of measure_gpu.py read the same cache again and again; it stays in L2 as far as it fits,
                   except in the collector of vllm before Hopper, whose times grow at the rate of memory from the smallest caches on
                   InferSim calls from PyTorch in a loop: its stream is full where the kernel takes longer than the call
                   (set_aside.py has the others)
  heads, kv_heads, head_dim, batch, dtype   as they are; one KV head of 576 is DeepSeek's latent attention
"""

import re

from . import kernels
from .experiment import Experiment
from .rows import Row, Unmapped
from .gemm_rows import TERA

BENCHMARK_WIDTH = 2048
FORWARD_AND_BACKWARD = 3.5
PROMPTS = ((512, "512"), (4096, "4096"))
CACHES = ((16e6, "16MB"), (256e6, "256MB"))
LATENT_SHAPE, LATENT_VALUES = (1, 576), 512
WITH_ROTARY, WITH_WRITE, OF_TORCH = r"trtllm|sglang", r"vllm", r"torch sdpa"
FLASH_ATTENTION_2 = ("A100", "A800", "A40", "RTX-3090", "RTX-4090", "L20", "L40S")
HOPPER = ("H100", "H20", "H800", "GH200")  # and the H200
NOT_CAUSAL = r"non.?causal|not causal|\bfull\b|bidirectional"
ELEMENT_BYTES = {"fp8": 1, "int8": 1, "fp4": 0.5}


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if re.search("standard attention", row["library"]):
        raise Unmapped("attention that writes its scores to memory is several kernels of a framework")
    if re.search("fwd.?bwd", row["phase"]):
        return _benchmark(row)
    dtype = kernels.dtype_of(row)
    batch, heads, kv_heads, head_dim = kernels.needed(row, "batch", "heads", "kv_heads", "head_dim")
    shape = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "dtype": dtype}
    warp_wide = kernels.gpu_of(row).startswith(FLASH_ATTENTION_2)
    library = _library(row)
    latent = {"latent": True, "value_dim": LATENT_VALUES} if (kv_heads, head_dim) == LATENT_SHAPE else {}
    if re.match("prefill|context", row["phase"]):
        tokens, = kernels.needed(row, "seq")
        context = (row.integer("kv_len") or tokens) - tokens
        causal = {"causal": False} if re.search(NOT_CAUSAL, row["phase"], re.IGNORECASE) else {}
        attention = {"op": "attention_prefill", "batch": batch, "tokens": tokens, "context_tokens": context} | shape | causal | latent | library
        operation, size_class = "attention prefill", kernels.classed(tokens, PROMPTS, "S")
    elif re.match("decode|generation", row["phase"]):
        tokens, (length,) = 1, kernels.needed(row, "kv_len")
        attention = {"op": "attention_decode", "batch": batch, "context_tokens": length - 1} | shape | latent | library
        old_vllm = warp_wide and re.match("vllm", row["library"], re.IGNORECASE)
        if heads == kv_heads and old_vllm:
            attention["split_context"] = False
        if re.match(f"{WITH_ROTARY}|{WITH_WRITE}|{OF_TORCH}", row["library"], re.IGNORECASE) and not old_vllm:
            attention["kv_in_l2"] = True
        cache = _cache_bytes(batch * length, kv_heads, head_dim, dtype)
        operation, size_class = "attention decode", kernels.classed(cache, CACHES, "KV")
    else:
        raise Unmapped(f"phase '{row['phase']}' is neither prefill nor decode nor fwd+bwd")
    if re.search("InferSim", row["library"]):
        attention |= {"launch": "stream"}
    parts = [attention]
    if re.match(WITH_ROTARY, row["library"], re.IGNORECASE):
        parts.insert(0, {"op": "rotary", "tokens": batch * tokens, "kv_cache": True} | shape)
    elif re.match(WITH_WRITE, row["library"], re.IGNORECASE):
        parts.insert(0, {"op": "copy", "bytes": int(_cache_bytes(batch * tokens, kv_heads, head_dim, dtype))})
    return kernels.time_experiment(row, operation, size_class, parts)


def _library(row):
    """The key `library` of the kernels, unless it is the default, FlashAttention."""
    if re.match("trtllm", row["library"], re.IGNORECASE):
        return {"library": "trtllm"}
    if re.match(OF_TORCH, row["library"], re.IGNORECASE) and kernels.gpu_of(row).startswith(HOPPER):
        return {"library": "cudnn"}
    return {}


def _cache_bytes(tokens, kv_heads, head_dim, dtype):
    return 2.0 * tokens * kv_heads * head_dim * ELEMENT_BYTES.get(dtype, 2)


def _benchmark(row):
    batch, tokens, head_dim = kernels.needed(row, "batch", "seq", "head_dim")
    heads = row.integer("heads") or BENCHMARK_WIDTH // head_dim
    causal = re.search("causal", row["phase"], re.IGNORECASE) is not None and not re.search(NOT_CAUSAL, row["phase"], re.IGNORECASE)
    shape = {"batch": batch, "tokens": tokens, "heads": heads, "head_dim": head_dim, "dtype": kernels.dtype_of(row), "causal": causal,
             "launch": "stream"}
    parts = [{"op": op} | shape for op in ("attention_prefill", "attention_backward")]
    flops = FORWARD_AND_BACKWARD * 4.0 * batch * heads * head_dim * tokens**2 / (2 if causal else 1)
    return kernels.experiment(row, "attention fwd+bwd", kernels.classed(tokens, PROMPTS, "S"), parts, lambda seconds: flops / seconds, row.scale(TERA))

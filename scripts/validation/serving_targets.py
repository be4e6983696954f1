"""Targets of class `serving`: the largest error that the model should have, over groups of rows.

Each target is for the median of |error|. Those under load are beside what inference-sim/sim-to-real-accuracy-validation publishes for
BLIS, a simulator fitted to other runs of the same kind (6.8, 6.5 and 18.4 %).
"""

import re
from collections.abc import Callable, Sequence

from . import host_share, targets
from .comparison import Outcome
from .targets import Target


def _operation(pattern: str) -> Callable[[Outcome], bool]:
    return lambda one: re.fullmatch(pattern, one.experiment.operation) is not None


def _trace(metric: str) -> Callable[[Outcome], bool]:
    return lambda one: one.row["system"] == "RTX 4090" and one.experiment.operation == f"trace {metric}, profile"


def _median(name: str, pattern: str, most: float) -> Target:
    return Target(name, _operation(pattern), {"median": most})


def _closed_loops() -> list[Target]:
    """Precisions that the source guesses (`bf16?`) are apart."""
    engines = (("vLLM", "vllm", ""), ("vLLM, bf16 guessed", "vllm", " bf16?"), ("TensorRT-LLM", "trtllm", ""),
               ("TensorRT-LLM, bf16 guessed", "trtllm", " bf16?"), ("TensorRT-LLM, latent attention", "trtllm latent attention", ""),
               ("SGLang, bf16 guessed", "sglang", " bf16?"), ("SGLang, latent attention", "sglang latent attention", ""))
    return [_median(f"closed loop, {name}, {metric}", f"closed loop {metric} {engine}{re.escape(guessed)}", most)
            for name, engine, guessed in engines for metric, most in (("TPOT", 0.15 if "latent" in engine else 0.10), ("TTFT", 0.25))]


TARGETS = (
    *(Target(f"ShareGPT-300 on an RTX 4090, kernel profile, {name}", _trace(name), {"mean": most})
      for name, most in (("TPOT", 0.02), ("TTFT", 0.03), ("Latency", 0.03))),
    _median("vLLM 0.15.1 under load, end to end, mean of a stage", "under load E2E mean", 0.08),
    _median("vLLM 0.15.1 under load, ITL, mean of a stage", "under load ITL mean", 0.08),
    _median("vLLM 0.15.1 under load, TTFT, mean of a stage", "under load TTFT mean", 0.18),
    *_closed_loops(),
    _median("SGLang + Mooncake, 1P1D, time of a KV transfer of 49 MB to 12.6 GB", "closed loop KV transfer time sglang", 0.15),
    _median("SGLang + Mooncake, 1P1D, TTFT", "closed loop TTFT mean sglang", 0.15),
    _median("Splitwise, eager vLLM of 2023, time between tokens", "batch token_time", 0.10),
    _median("Splitwise, eager vLLM of 2023, TTFT", "batch prompt_time", 0.20),
    _median("gpt-fast, decode", "decode gpt-fast", 0.15),
    _median("TensorRT-LLM offline, throughput", "max throughput", 0.15),
    _median("TensorRT-LLM, one batch, throughput", "batch throughput", 0.15),
)


def lines(outcomes: Sequence[Outcome]) -> list[str]:
    """The table of the targets, and the host constants that are most of a TTFT, for the digest."""
    return targets.lines(TARGETS, outcomes) + host_share.lines(outcomes)

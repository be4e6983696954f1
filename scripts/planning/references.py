"""Mappings that people would choose without a search. They are simulated beside the best of the search."""

from collections.abc import Callable
from dataclasses import replace

from .space import EVEN, NO_SAVING, Mapping, Question

TUNED = 0  # micro-batch: the one with the fastest estimate
# Published mappings of a model on a GPU: model, GPU, GPUs, name, mapping, source
PUBLISHED = (
    ("llama-3.1-70b", "H100", 64, "NVIDIA's recipe in bf16", Mapping(4, 2, 1, 4, 5, "interleaved", 1, 1, "none", "userbuffers"),
     "NVIDIA NeMo, performance guide for 25.02: Llama 3 70B on 64 H100, TP 4, PP 4, CP 2, virtual 5"),
    ("llama-3.1-70b", "H100", 64, "NVIDIA's recipe in fp8", Mapping(4, 1, 1, 8, 5, "interleaved", 1, 1, "none", "userbuffers"),
     "NVIDIA/dgxc-benchmarking v25.04, llama3.1/README.md: Llama 3.1 70B on 64 H100 in fp8, TP 4, PP 8, virtual 5"),
    ("llama-3.1-70b", "H100", 256, "torchtitan's FSDP x TP, micro-batch tuned", Mapping(8, 1, 1, 1, 1, "1f1b", TUNED, 3, "full"),
     "pytorch/torchtitan 2887250, benchmark of asynchronous TP: 70B on 256 H100, FSDP 32, TP 8, full recomputation; its micro-batch of 16 is none of the axis"),
)


def least_that_fits(candidates: list[Mapping], fits: Callable[[Mapping], bool]) -> Mapping | None:
    """Of these mappings the one with the fewest pipeline stages that fits in memory."""
    return next((mapping for mapping in sorted(candidates, key=lambda m: m.pp) if fits(mapping)), None)


def references(question: Question, legal: list[Mapping], fits: Callable[[Mapping], bool], seconds: Callable[[Mapping], float],
               model: str, gpu: str) -> list[tuple[str, Mapping]]:
    """@param seconds  the estimate of a step"""
    tp = max((m.tp for m in legal if m.tp <= question.nvlink_gpus), default=0)
    plain = [m for m in legal if (m.tp, m.cp, m.ep, m.schedule, m.recompute, m.tp_overlap, m.stage_layers, m.gtp, m.saving)
             == (tp, 1, 1, "1f1b", "none", "none", EVEN, question.gtp, NO_SAVING)]
    found: list[tuple[str, Mapping | None]] = []
    for stage, name in ((0, "textbook rule, plain data parallelism"), (1, "textbook rule, distributed optimizer")):
        found.append((name, least_that_fits([m for m in plain if m.zero_stage == stage and m.micro_batch == 1], fits)))
    least = found[0][1]
    tuned = [m for m in plain if least and m.zero_stage == 0 and m.pp == least.pp and fits(m)]
    found.append(("Megatron's takeaways, micro-batch tuned", min(tuned, key=seconds, default=None)))
    for of_model, of_gpu, gpus, name, mapping, _ in PUBLISHED:
        if model == of_model and gpu.startswith(of_gpu) and question.gpus % gpus == 0:
            alike = [m for m in legal if (mapping.micro_batch == TUNED or m.micro_batch == mapping.micro_batch) and replace(m, micro_batch=mapping.micro_batch) == mapping]
            found.append((name, min((m for m in alike if fits(m)), key=seconds, default=None)))
    return [(name, mapping) for name, mapping in found if mapping is not None]

"""A closed form for the time of a step, from `--explain`. It ranks mappings; it is not a result.

  slot      forward and backward kernels of the slowest pipeline rank, and its tensor-parallel transfers at the rate of their path; of
            transfers beside their products the last piece of PIECES stays, or what is longer than the kernels
  pipeline  (m + (p - 1) / v) slots: 1F1B, with v virtual stages interleaved (Narayanan et al., arXiv 2104.04473). With F, I and W for the
            times of forward, gradients of inputs and of weights: zb_h1 idles (p - 1) (F + I - W), as does zbv, in half-sized slots (Qi et
            al., arXiv 2401.10241)
  pp        blocking sends: each boundary adds its transfers to each slot. Sends of all other schedules run beside kernels
  dp        gradients that the last backward slot does not hide, and the gather of the weights; zero_stage 2 and 3: what the kernels of all
            micro-batches do not hide
"""

from dataclasses import dataclass

from scipy import stats

from .explain import Facts
from .space import Mapping


PIECES = 4  # of a product that overlaps with its collective (Transformer Engine, userbuffers)


@dataclass(frozen=True)
class Estimate:
    kernels_s: float
    tp_s: float
    bubble_s: float
    pp_s: float
    dp_s: float

    @property
    def step_s(self) -> float:
        return self.kernels_s + self.tp_s + self.bubble_s + self.pp_s + self.dp_s


def estimate(mapping: Mapping, facts: Facts) -> Estimate:
    micro_batches, pp, virtual = facts.answer["micro_batches"], mapping.pp, mapping.virtual_stages
    forward, backward, weights = [0.0] * pp, [0.0] * pp, [0.0] * pp
    for stage in facts.answer["stages"]:
        forward[stage["rank"]] += stage["forward_kernels_s"]
        backward[stage["rank"]] += stage["backward_kernels_s"]
        weights[stage["rank"]] += stage["backward_weights_kernels_s"]
    kernels = max(f + b for f, b in zip(forward, backward))
    tensor, expert = (facts.sent(group) / facts.rate(group) / micro_batches for group in ("tp", "ep"))
    if mapping.tp_overlap != "none":
        tensor = max(tensor / PIECES, tensor - kernels)
    transfers = tensor + expert
    hidden = 2 * max(weights) if mapping.schedule.startswith("zb") else 0.0  # weights' gradients fill the bubble
    bubble = (pp - 1) / virtual * max(0.0, kernels + transfers - hidden)
    pipeline = facts.sent("pp") / facts.rate("pp") * (1 if mapping.schedule == "1f1b" else (pp - 1) / (micro_batches * virtual))
    reduced = facts.sent("dp") / facts.rate("dp")
    largest = facts.largest
    scattered = largest["gradients_bytes"] / (largest["gradients_bytes"] + largest["weights_bytes"]) if mapping.zero_stage else 1.0
    if mapping.zero_stage >= 2:
        return Estimate(micro_batches * kernels, micro_batches * transfers, bubble, pipeline, max(0.0, reduced - micro_batches * kernels))
    exposed = max(0.0, scattered * reduced - max(backward) / virtual) + (1 - scattered) * reduced
    return Estimate(micro_batches * kernels, micro_batches * transfers, bubble, pipeline, exposed)


def rank_correlation(first: list[float], second: list[float]) -> float | None:
    """Spearman's; None for fewer than three values."""
    return float(stats.spearmanr(first, second).statistic) if len(first) >= 3 else None

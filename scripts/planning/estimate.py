"""A closed form for the time of a step, from `--explain`. It ranks mappings; it is not a result.

  slot      forward and backward kernels of the slowest pipeline rank, and its tensor-parallel transfers at the rate of their path, with
            COLLECTIVE_S for each; of transfers beside their products the last piece of PIECES stays, or what is longer than the kernels
  pipeline  (m + (p - 1) / v) slots: 1F1B, with v virtual stages interleaved (Narayanan et al., arXiv 2104.04473). With F, I and W for the
            times of forward, gradients of inputs and of weights: zb_h1 idles (p - 1) (F + I - W), as does zbv, in half-sized slots (Qi et
            al., arXiv 2401.10241)
  pp        blocking sends: each boundary adds its transfers to each slot. Sends of all other schedules run beside kernels
  dp        at the rate of the path to the next replica, or of the cables of the group's GPUs in a server. zero_stage 0 and 1: gradients
            (with dp_overlap: what the last backward slot does not hide of them), and the gather of the weights. 2: the gradients of each
            micro-batch that the slots after it do not hide, and the gather. 3: a quarter of the bytes beside forward kernels (weights of 2
            bytes), the rest beside backward kernels (weights, and gradients of 4); the first gather and the last sum of a pass have no kernels
            beside them. 2 and 3: kernels leave SMS_TAKEN of their SMs to collectives
"""

from dataclasses import dataclass

from scipy import stats

from .explain import Facts
from .space import Mapping, Question


COLLECTIVE_S = 15e-6  # of a collective, besides its bytes
COLLECTIVES_OF_LAYER = 8  # forward and backward, with sequence parallelism
CABLE_USED = 0.9  # share of the cables' rate that rings over several GPUs of each server reach
SMS_TAKEN, SMS_TAKEN_IN_SERVER = 0.1, 0.2  # of the kernels' rate, while collectives over the network, or in one server, run beside them
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


def _replicas_rate(mapping: Mapping, facts: Facts, question: Question) -> float:
    """Bytes per second of a rank in rings over the data-parallel ranks."""
    replicas = mapping.dp(question) * mapping.cp
    if question.cable_bytes_per_s == 0 or mapping.tp * replicas <= question.nvlink_gpus:
        return facts.rate("dp")
    in_server = max(1, min(replicas, question.nvlink_gpus // mapping.tp))
    return min(facts.rate("dp"), CABLE_USED * in_server * question.cable_bytes_per_s)


def _exposed(mapping: Mapping, facts: Facts, question: Question, forward: float, backward: float) -> float:
    """Of gradients and weights. @param forward, backward  kernels of a micro-batch on the slowest pipeline rank"""
    micro_batches, rate = facts.answer["micro_batches"], _replicas_rate(mapping, facts, question)
    moved, largest = facts.sent("dp") / rate, facts.largest
    taken = SMS_TAKEN_IN_SERVER if mapping.tp * mapping.dp(question) * mapping.cp <= question.nvlink_gpus else SMS_TAKEN
    kernels = micro_batches * (forward + backward)
    if mapping.zero_stage == 3:
        ends = 2 * moved / (question.model.layers / mapping.pp + 2)
        return ends + taken * min(kernels, moved) + max(0.0, moved / 4 - micro_batches * forward) + max(0.0, 3 * moved / 4 - micro_batches * backward)
    if mapping.zero_stage == 2:
        gather = min(moved, largest["weights_bytes"] / rate)
        each = (moved - gather) / micro_batches
        beside = min(kernels, (micro_batches - 1) * each)
        return taken * beside + (micro_batches - 1) * max(0.0, each - forward - backward) + each + gather
    scattered = largest["gradients_bytes"] / (largest["gradients_bytes"] + largest["weights_bytes"]) if mapping.zero_stage else 1.0
    hidden = backward / mapping.virtual_stages if question.dp_overlap else 0.0
    return max(0.0, scattered * moved - hidden) + (1 - scattered) * moved


def estimate(mapping: Mapping, facts: Facts, question: Question) -> Estimate:
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
    if mapping.tp > 1:
        tensor += COLLECTIVE_S * COLLECTIVES_OF_LAYER * question.model.layers / pp
    transfers = tensor + expert
    hidden = 2 * max(weights) if mapping.schedule.startswith("zb") else 0.0  # weights' gradients fill the bubble
    bubble = (pp - 1) / virtual * max(0.0, kernels + transfers - hidden)
    pipeline = facts.sent("pp") / facts.rate("pp") * (1 if mapping.schedule == "1f1b" else (pp - 1) / (micro_batches * virtual))
    exposed = _exposed(mapping, facts, question, max(forward), max(backward))
    return Estimate(micro_batches * kernels, micro_batches * transfers, bubble, pipeline, exposed)


def rank_correlation(first: list[float], second: list[float]) -> float | None:
    """Spearman's; None for fewer than three values."""
    return float(stats.spearmanr(first, second).statistic) if len(first) >= 3 else None

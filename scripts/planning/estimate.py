"""An estimate of the time of a step, from `--explain` and from collectives that are simulated alone. It ranks mappings; it is not a result.

  slot      kernels of a stage and its exposed collectives. Tensor-parallel collectives and all-to-alls of experts take as long as alone. Backward,
            HIDDEN_OF_BLOCK of a block run beside products (with zero bubble half of them, as products of weights are in slots of their own),
            which have SMS_TAKEN_IN_SERVER fewer SMs meanwhile, or, if their kernels are persistent, to their end. Of collectives that overlap with
            their own products LEFT_OF_OVERLAP stays, and what is longer than these products
  pipeline  the slots in the order of the schedule (--schedule-times), stages of different length included. 1F1B sends block; sends of all other
            schedules run beside kernels and take SENDS_TAKE of their SMs
  dp        at the rate of a bucket's reduce-scatter alone. zero_stage 0 and 1: gradients (with dp_overlap: what the last backward slot does
            not hide of them), and the gather of the weights (with param_gather_overlap: what the first forward slot does not hide of it). 2: the
            gradients of each micro-batch that the slots after it do not hide, and the gather. 3: a quarter of the bytes are weights beside forward kernels, a quarter weights beside backward kernels, and half
            gradients (4 bytes), with dp_overlap beside backward kernels, else beside the slots of the next micro-batch; the first gather of
            the step and the last sum have no kernels beside them. 2 and 3: kernels lose TAKEN_BY_CHANNEL of their
            rate for each thread block of a collective
  offload   a slot is at least as long as the copies of its activations, and ends with that of one layer. The optimizer takes the time of its bytes at
            the memory of the socket, whose GPUs take turns; copies of one run beside updates of the others
  gtp       the first gather, what gathers and sums are longer than the kernels, and the SMs that they take: from persistent
            kernels to their end
"""

import bisect
import math
import statistics
from dataclasses import dataclass, field

from .collectives import Collectives
from .explain import Facts
from .host import Host
from .pipeline import Pipelines, Stage
from .space import ACTIVATIONS_AWAY, OPTIMIZER_AWAY, Mapping, Question

BYTES = 2  # of an activation
HIDDEN_OF_BLOCK = 2  # of a dense block's five collectives: inputs are gathered again, and their gradients scattered, beside products
BY_COLUMNS, ATTENTION_BY_COLUMNS = 0.6, 0.1  # of the products of weights: those split by columns, and of a model of experts those of attention
SENDS_TAKE = {True: 0.018, False: 0.005}  # of the kernels' rate (persistent or not), by thread blocks of sends and receives that wait for their peers
SMS_TAKEN_IN_SERVER = 0.2  # of the kernels' rate, while tensor-parallel collectives run beside them
TAKEN_BY_CHANNEL = {2: 0.0076, 3: 0.012}  # the same for a channel of collectives among replicas. 3: a gather and a sum often run at the same time
ATTENTION_PRODUCTS = 0.2  # of the products of a dense layer (Llama 3: 0.18 to 0.19)
LEFT_OF_OVERLAP = {True: 1 / 4, False: 1 / 13}  # of a collective beside its product. With zero bubble no products of weights run beside it
ALL_TO_ALLS = {"none": 4, "selective": 4, "full": 6}  # of a layer of experts, for a micro-batch
MATRICES = 4  # of a layer that gtp gathers one by one
BUCKET = 160_000_000  # bytes of a reduce-scatter of gradients (Megatron: 40 million parameters); zero_stage 3 reduces a layer
# Bytes for each byte of the state of an optimizer on a CPU: in fp32, 30 are read or written of 18, and gradients and weights are 6 of these.
ADAM, COPIED = 30 / 18, 6 / 18
MOST_SERVERS = 8  # of a group in a run; a ring over more has about the same rate


@dataclass(frozen=True)
class Estimate:
    pipeline_s: float
    dp_s: float
    host_s: float = 0.0  # of the optimizer

    @property
    def step_s(self) -> float:
        return self.pipeline_s + self.dp_s + self.host_s


@dataclass(frozen=True)
class Estimator:
    question: Question
    collectives: Collectives
    pipelines: Pipelines
    host: Host | None = None  # None: nothing is offloaded
    known: dict[Mapping, Estimate] = field(default_factory=dict)

    def about(self, question: Question) -> "Estimator":
        return Estimator(question, self.collectives, self.pipelines, self.host)

    def _members(self, count: int, stride: int) -> tuple[int, ...]:
        """GPUs of the first group. Of a group over many servers those of the first ones."""
        of_server = max(1, self.question.nvlink_gpus // stride)
        return tuple(rank * stride for rank in range(min(count, MOST_SERVERS * of_server)))

    def _tensor(self, mapping: Mapping, facts: Facts) -> tuple[float, float]:
        """Of all tensor-parallel collectives of a layer for a micro-batch, and of one."""
        if mapping.tp == 1:
            return 0.0, 0.0
        size = BYTES * self.question.model.hidden * mapping.micro_batch * self.question.seq_tokens // mapping.cp
        one = self.collectives.seconds("all_gather", self._members(mapping.tp, 1), size)
        count = facts.sent("tp") / (size * (mapping.tp - 1) / mapping.tp)
        return one * count / (facts.answer["micro_batches"] * self._layers(facts)), one

    def _layers(self, facts: Facts) -> int:
        layers = [0] * (1 + max(stage["rank"] for stage in facts.answer["stages"]))
        for stage in facts.answer["stages"]:
            layers[stage["rank"]] += stage["layers"]
        return max(layers)

    def _experts(self, mapping: Mapping, facts: Facts) -> float:
        """Of all-to-alls of a layer for a micro-batch."""
        if mapping.ep == 1:
            return 0.0
        count = ALL_TO_ALLS[mapping.recompute]
        sent = facts.sent("ep") / (facts.answer["micro_batches"] * self._layers(facts) * count)
        return count * self.collectives.seconds("all_to_all", self._members(mapping.ep, mapping.tp * mapping.gtp * mapping.cp), round(sent * mapping.ep / (mapping.ep - 1)))

    def _copy(self, mapping: Mapping, facts: Facts) -> float:
        """Seconds of a copy of what a layer keeps for a micro-batch and offloads."""
        if mapping.saves(ACTIVATIONS_AWAY) is None:
            return 0.0
        slots = facts.answer["micro_batches"] * mapping.virtual_stages
        in_flight = mapping.pp if mapping.virtual_stages == 1 else 2 * (mapping.pp - 1) + (mapping.virtual_stages - 1) * mapping.pp + 1  # Megatron's warm-up
        layers = sum(stage["layers"] for stage in facts.answer["stages"] if stage["rank"] == 0) / mapping.virtual_stages
        return facts.answer["memory"][0]["host_activations_bytes"] / (min(slots, in_flight) * max(layers, 1) * self.host.copy_bytes_per_s)

    def _optimizer(self, mapping: Mapping, facts: Facts) -> float:
        """Seconds of an optimizer on the CPUs."""
        if mapping.saves(OPTIMIZER_AWAY) is None:
            return 0.0
        state, host = max(rank["host_state_bytes"] for rank in facts.answer["memory"]), self.host
        return host.gpus * ADAM * state / host.memory_bytes_per_s + COPIED * state / (host.gpus * host.copy_bytes_per_s)

    def _stages(self, mapping: Mapping, facts: Facts) -> list[Stage]:
        zero_bubble = mapping.schedule.startswith("zb")
        tensor, one = self._tensor(mapping, facts)
        experts = self._experts(mapping, facts)
        copy = self._copy(mapping, facts)
        blocks, by_columns = (1, ATTENTION_BY_COLUMNS) if self.question.model.experts else (2, BY_COLUMNS)
        products = 1 if zero_bubble else 2  # of inputs, and of weights, each with a collective beside it
        beside = one * HIDDEN_OF_BLOCK * blocks * products / 2
        answer = facts.answer
        slower = 1 + (SENDS_TAKE[self.question.persistent] if mapping.virtual_stages > 1 else 0.0)
        size = round(facts.sent("pp") / (2 * answer["micro_batches"] * mapping.virtual_stages))
        neighbours = (0, mapping.tp * mapping.cp * mapping.dp(self.question) * mapping.gtp)
        transfer = self.collectives.seconds("send_recv", neighbours, size) if mapping.pp > 1 else 0.0
        found = []
        for stage, plain in zip(answer["stages"], answer.get("plain_stages", answer["stages"])):
            layers = stage["layers"]
            forward, backward, weights = (slower * stage[f"{part}_kernels_s"] for part in ("forward", "backward", "backward_weights"))
            if mapping.tp_overlap != "none":
                exposed, stretch = self._left_of_overlap(layers * tensor, slower * plain["forward_products_s"], weights, zero_bubble), 0.0
            else:
                shared = products * by_columns * weights if mapping.tp > 1 else 0.0
                hidden = min(layers * beside, shared)
                exposed, stretch = layers * tensor - hidden, SMS_TAKEN_IN_SERVER * (shared if self.question.persistent else hidden)
            of_forward = layers * (min(exposed / layers, 4 * one) if layers else 0.0)
            slots = (forward + of_forward + layers * experts / 2, backward - weights + stretch + exposed - of_forward + layers * experts / 2)
            if copy:
                slots = (max(slots[0], (layers - 1) * copy) + copy, max(slots[1] + weights, (layers - 1) * copy) + copy - weights)
            found.append(Stage(*slots, weights, transfer))
        return found

    def _left_of_overlap(self, collectives: float, forward: float, weights: float, zero_bubble: bool) -> float:
        """Of ten collectives of a layer, attention and MLP have two each beside forward products, and three each beside those of both gradients.

        @param forward  products of a forward pass; those of gradients of inputs take as long
        @param weights  products of gradients of weights, and what adds them to the gradients of other micro-batches
        """
        of_block = {ATTENTION_PRODUCTS: 0.5, 1 - ATTENTION_PRODUCTS: 0.5} if not self.question.model.experts else {ATTENTION_PRODUCTS: 1.0}
        longer = sum(max(0.0, share * part * collectives - of_products * products)
                     for of_products, part in of_block.items() for products, share in ((forward, 0.4), (forward + weights, 0.6)))
        return min(collectives, LEFT_OF_OVERLAP[zero_bubble] * collectives + longer)

    def _replicas(self, mapping: Mapping, facts: Facts) -> tuple[float, float, int]:
        """Seconds of all transfers among replicas, seconds for each byte, and channels."""
        question, largest = self.question, facts.largest
        replicas = mapping.dp(question) * mapping.cp
        sent = facts.sent("dp")
        groups = {mapping.tp * mapping.gtp: (replicas, sent)}
        if mapping.ep > 1:  # experts have fewer replicas
            few, many = (1 - mapping.ep / replicas), (1 - 1 / replicas)
            total = (largest["gradients_bytes"] + largest["weights_bytes"]) if mapping.zero_stage else 2 * largest["gradients_bytes"]
            experts = min(max(0.0, few * (many * total - sent) / (many - few)), sent)
            stride = mapping.tp * mapping.gtp
            groups = {stride: (replicas, sent - experts), stride * mapping.cp * mapping.ep: (replicas // mapping.ep, experts)}
        seconds, channels = 0.0, 0
        for stride, (count, moved) in groups.items():
            if count > 1 and moved:
                members = self._members(count, stride)
                bucket = BUCKET
                if mapping.zero_stage == 3:
                    layer = moved / 2 / (facts.answer["micro_batches"] * self._layers(facts))
                    bucket = 1 << round(math.log2(layer))  # so that nearly equal ones are simulated once
                alone = self.collectives.alone("reduce_scatter", members, bucket)
                seconds += moved * alone.time_s / (bucket * (1 - 1 / len(members)))
                channels = max(channels, alone.channels)
        return seconds, seconds / sent if sent else 0.0, channels

    @staticmethod
    def _slots(facts: Facts) -> list[float]:
        """Kernels of a micro-batch on the slowest ranks: forward, backward, gradients of weights in it."""
        stages = facts.answer["stages"]
        return [max(sum(stage[f"{part}_kernels_s"] for stage in stages if stage["rank"] == rank) for rank in {stage["rank"] for stage in stages})
                for part in ("forward", "backward", "backward_weights")]

    def _gathered(self, mapping: Mapping, facts: Facts) -> float:
        """Exposed gathers of divided matrices and sums of their gradients, and what they take from kernels."""
        moved = facts.sent("gtp")
        if not moved:
            return 0.0
        micro_batches, members = facts.answer["micro_batches"], self._members(mapping.gtp, mapping.tp)
        matrices = MATRICES * self._layers(facts)
        gather = 1 << round(math.log2(moved / 3 / (micro_batches * matrices)))
        alone = self.collectives.alone("all_gather", members, gather)
        seconds = moved * alone.time_s / (gather * (1 - 1 / len(members)))
        forward, backward, weights = (micro_batches * slot for slot in self._slots(facts))
        longer = max(0.0, seconds / 3 - forward) + max(0.0, 2 * seconds / 3 - backward)
        products = 3 * weights  # forward, gradients of inputs and of weights, each with a collective beside it
        beside = products if self.question.persistent else min(products, seconds)
        return seconds / matrices + TAKEN_BY_CHANNEL[2] * alone.channels * beside + longer

    def _exposed(self, mapping: Mapping, facts: Facts) -> float:
        """Of gradients and weights."""
        question, micro_batches, largest = self.question, facts.answer["micro_batches"], facts.largest
        forward, backward, _ = self._slots(facts)
        moved, of_byte, channels = self._replicas(mapping, facts)
        taken = TAKEN_BY_CHANNEL.get(mapping.zero_stage, 0.0) * channels
        kernels = micro_batches * (forward + backward)
        if mapping.zero_stage == 3:
            each = moved / micro_batches
            first = each / 4 / self._layers(facts)
            last = each / 2 / (self._layers(facts) if question.dp_overlap else 1)
            beside = moved - first - last
            if question.dp_overlap:
                longer = max(0.0, moved / 4 - micro_batches * forward) + max(0.0, 3 * moved / 4 - micro_batches * backward)
            else:
                longer = (micro_batches - 1) * max(0.0, each - forward - backward)
            return first + last + taken * min(kernels, beside) + longer
        if mapping.zero_stage == 2:
            gather = min(moved, largest["weights_bytes"] * of_byte)
            each = (moved - gather) / micro_batches
            beside = min(kernels, (micro_batches - 1) * each)
            return taken * beside + (micro_batches - 1) * max(0.0, each - forward - backward) + each + self._late(gather, mapping, facts, forward)
        scattered = largest["gradients_bytes"] / (largest["gradients_bytes"] + largest["weights_bytes"]) if mapping.zero_stage else 1.0
        hidden = backward / mapping.virtual_stages if question.dp_overlap else 0.0
        return max(0.0, scattered * moved - hidden) + self._late((1 - scattered) * moved, mapping, facts, forward)

    def _late(self, gather: float, mapping: Mapping, facts: Facts, forward: float) -> float:
        """Of the gather of all weights: the first layer's, and what is longer than the first forward slots of the rank."""
        if not self.question.gather_overlap:
            return gather
        first = gather / self._layers(facts)
        return first + max(0.0, gather - first - forward / mapping.virtual_stages)

    def estimate(self, mapping: Mapping, facts: Facts) -> Estimate:
        """@param facts  the same whenever this mapping is estimated"""
        if mapping not in self.known:
            stages = self._stages(mapping, facts)
            slots = self.pipelines.seconds(mapping.schedule, mapping.pp, stages, facts.answer["micro_batches"], mapping.schedule == "1f1b")
            self.known[mapping] = Estimate(slots, self._exposed(mapping, facts) + self._gathered(mapping, facts),
                                           self._optimizer(mapping, facts))
        return self.known[mapping]


def rank_correlation(first: list[float], second: list[float]) -> float | None:
    """Spearman's; None for fewer than three values, or if all are equal."""
    if len(first) < 3 or min(len(set(first)), len(set(second))) == 1:
        return None
    return statistics.correlation(_ranks(first), _ranks(second))


def _ranks(values: list[float]) -> list[float]:
    """Equal values have the mean of their ranks."""
    order = sorted(values)
    return [(bisect.bisect_left(order, value) + bisect.bisect_right(order, value)) / 2 for value in values]

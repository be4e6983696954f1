"""The time of a pipeline's slots: forward (F) and backward (B) of a stage and micro-batch, or backward as gradients of inputs (I) and of weights (W).

Orders of slots are those of models/workload/training/schedule_*.cpp. An order does not depend on times, so it is made once.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

F, B, I, W = range(4)
KEPT = 16  # orders; mappings with the same order are best estimated one after another
REGULAR = 4  # times as many micro-batches as ranks: from there on, each further one takes as long

Slot = tuple[int, int, int]  # kind, stage, micro-batch


@dataclass(frozen=True)
class Stage:
    """Seconds of a slot of each kind, and of the transfers of activations and gradients."""

    forward: float
    inputs: float
    weights: float
    transfer: float


class _Order:
    """The slots of a rank; slots of one kind and stage are in the order of micro-batches."""

    def __init__(self, micro_batches: int) -> None:
        self.slots: list[Slot] = []
        self.micro_batches, self.added = micro_batches, dict[tuple[int, int], int]()

    def add(self, kind: int, stage: int, count: int = 1) -> None:
        """Up to count slots, as far as there are micro-batches."""
        for _ in range(count):
            if (done := self.added.get((kind, stage), 0)) < self.micro_batches:
                self.slots.append((kind, stage, done))
                self.added[kind, stage] = done + 1


def _interleaved(rank: int, ranks: int, virtual: int, count: int) -> list[Slot]:
    """1F1B with one virtual stage."""
    order = _Order(count)
    turns = [chunk for _ in range(count // ranks) for chunk in range(virtual) for _ in range(ranks)] if virtual > 1 else [0] * count
    ahead = 2 * (ranks - rank - 1) + (virtual - 1) * ranks if virtual > 1 else ranks - rank - 1
    for i in range(len(turns) + ahead):
        if i < len(turns):
            order.add(F, turns[i] * ranks + rank)
        if i >= ahead:
            order.add(B, (virtual - 1 - turns[i - ahead]) * ranks + rank)
    return order.slots


def _zb_h1(rank: int, ranks: int, count: int) -> list[Slot]:
    order = _Order(count)
    order.add(F, rank, ranks - rank - 1)
    for i in range(count):
        order.add(F, rank)
        order.add(I, rank)
        if i >= rank:
            order.add(W, rank)
    order.add(W, rank, count)
    return order.slots


def _zbv(rank: int, ranks: int, count: int) -> list[Slot]:
    regular = max(2 * ranks - 1, count)
    order, down, up = _Order(regular), rank, 2 * ranks - 1 - rank
    order.add(F, down, 2 * (ranks - rank) - 1)
    for _ in range(rank):
        order.add(F, up)
        order.add(F, down)
    for _ in range(ranks - rank):
        for kind in (F, I, W):
            order.add(kind, up)
    while order.added.get((F, up), 0) < regular:
        for stage in (down, up):
            for kind in (F, I, W):
                order.add(kind, stage)
    for _ in range(rank):
        order.add(I, down)
        order.add(I, up)
    for _ in range(ranks - rank):
        order.add(I, down)
        order.add(W, down)
    order.add(W, up, regular)
    order.add(W, down, regular)
    return [slot for slot in order.slots if slot[2] < count]


def _needs(slot: Slot, stages: int, whole: bool) -> Slot | None:
    """The slot of another rank, or of the loss, that must end before."""
    kind, stage, micro_batch = slot
    if kind == F:
        return (F, stage - 1, micro_batch) if stage else None
    if kind == W:
        return None  # its I is before it on the same rank
    return (B if whole else I, stage + 1, micro_batch) if stage + 1 < stages else (F, stage, micro_batch)


@functools.lru_cache(KEPT)
def _order(schedule: str, ranks: int, virtual: int, count: int) -> tuple[tuple[int, int, int, int, bool], ...]:
    """All slots, each behind those that it needs: number of the slot before it on its rank, number of the slot that it needs (-1: none), kind,
    stage, and whether a transfer is between."""
    if schedule == "zbv":
        slots = [_zbv(rank, ranks, count) for rank in range(ranks)]
    elif schedule == "zb_h1":
        slots = [_zb_h1(rank, ranks, count) for rank in range(ranks)]
    else:
        slots = [_interleaved(rank, ranks, virtual, count) for rank in range(ranks)]
    stages, whole = ranks * virtual, not schedule.startswith("zb")
    rank_of = {stage: rank for rank in range(ranks) for _, stage, _ in slots[rank]}
    numbers: dict[Slot, int] = {}
    found, next_of, last = [], [0] * ranks, [-1] * ranks
    waiting = list(range(ranks))
    while waiting:
        left = []
        for rank in waiting:
            while next_of[rank] < len(slots[rank]):
                slot = slots[rank][next_of[rank]]
                needed = _needs(slot, stages, whole)
                if needed is not None and needed not in numbers:
                    left.append(rank)
                    break
                found.append((last[rank], -1 if needed is None else numbers[needed], slot[0], slot[1],
                              needed is not None and rank_of[needed[1]] != rank))
                numbers[slot] = last[rank] = len(found) - 1
                next_of[rank] += 1
        waiting = left
    return tuple(found)


def _run(schedule: str, ranks: int, stages: Sequence[Stage], count: int, blocking: bool) -> float:
    durations = [[stage.forward, stage.inputs + stage.weights, stage.inputs, stage.weights] for stage in stages]
    transfers = [0.0 if blocking else stage.transfer for stage in stages]
    if blocking:  # a transfer is a part of its sender's slot
        for number, stage in enumerate(stages):
            durations[number][F] += stage.transfer if number + 1 < len(stages) else 0.0
            durations[number][B] += stage.transfer if number else 0.0
    ends: list[float] = []
    for before, needed, kind, stage, moved in _order(schedule, ranks, len(stages) // ranks, count):
        start = ends[before] if before >= 0 else 0.0
        if needed >= 0:
            start = max(start, ends[needed] + (transfers[stage] if moved else 0.0))
        ends.append(start + durations[stage][kind])
    return max(ends)


def seconds(schedule: str, ranks: int, stages: Sequence[Stage], micro_batches: int, blocking: bool) -> float:
    """Of all slots of a step.

    @param stages    by virtual stage, in the order of the model
    @param blocking  a rank does nothing else while it sends
    """
    regular = REGULAR * ranks + micro_batches % ranks
    if ranks == 1 or micro_batches <= regular + ranks:
        return _run(schedule, ranks, stages, micro_batches, blocking)
    once, more = (_run(schedule, ranks, stages, count, blocking) for count in (regular, regular + ranks))
    return more + (more - once) * (micro_batches - regular - ranks) / ranks

"""The way of the new weights to the rollouts, and of the training's state to host memory and back, as execution traces.

Weights go in buckets. On other GPUs (slime, OpenRLHF, verl's one_step_off_policy): the ranks that hold a stage's weights gather a bucket,
and the first of them broadcasts it to all GPUs of the service; every engine gets all weights and keeps its share. On the same GPUs (verl,
slime with --colocate): a stage's ranks broadcast their shares of a bucket to the other stages, then the ranks of each copy gather it,
and engines read it where it is. Experts have buckets of their own: tensor-parallel ranks gather the parts of their experts, then
expert-parallel ranks gather the experts of all, and the rest is the same (slime, update_weight_from_distributed).
"""

from dataclasses import dataclass, field

from lib import chakra

from .layout import Layout


@dataclass
class Trace:
    """Nodes of each GPU. The nodes of a GPU follow each other; each group of ranks has its own stream."""

    gpus: int
    nodes: list[list[bytes]] = field(init=False)
    groups: dict[str, list[int]] = field(default_factory=dict)
    names: dict[tuple[int, ...], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = [[] for _ in range(self.gpus)]

    def _add(self, rank: int, kind: int, **attributes: object) -> None:
        number = len(self.nodes[rank])
        self.nodes[rank].append(chakra.node(number, kind, ctrl=[number - 1] if number else (), **attributes))

    def _collective(self, ranks: list[int], kind: int, size: int) -> None:
        """@param ranks  the first one is the root of a broadcast. @param size  input of a rank"""
        if len(ranks) < 2 or size == 0:
            return
        name = self.names.setdefault(tuple(ranks), f"g{len(self.names)}")
        self.groups[name] = ranks
        for rank in ranks:
            self._add(rank, chakra.COLL, comm_type=kind, comm_size=size, pg_name=name)

    def gather(self, ranks: list[int], result_bytes: int) -> None:
        self._collective(ranks, chakra.ALL_GATHER, -(-result_bytes // len(ranks)))

    def broadcast(self, ranks: list[int], size: int) -> None:
        self._collective(ranks, chakra.BROADCAST, size)

    def copy(self, rank: int, size: int, to_host: bool) -> None:
        if size > 0:
            self._add(rank, chakra.MEM_STORE if to_host else chakra.MEM_LOAD, tensor_size=size)

    @property
    def is_empty(self) -> bool:
        return not any(self.nodes)

    def files(self) -> list[bytes]:
        """One for each GPU up to the last one that does something. A file holds at least one node."""
        last = max(rank for rank, nodes in enumerate(self.nodes) if nodes)
        return [chakra.trace(nodes or [chakra.node(0, chakra.METADATA)]) for nodes in self.nodes[: last + 1]]


def _buckets(total: int, bucket: int) -> list[int]:
    return [bucket] * (total // bucket) + ([total % bucket] if total % bucket else [])


@dataclass(frozen=True)
class Weights:
    """Bytes of a pipeline rank's weights, each parameter once."""

    common: int
    experts: int = 0  # of routed experts that are on several ranks

    @property
    def total(self) -> int:
        return self.common + self.experts


def _gather_experts(trace: Trace, layout: Layout, trainers: list[int], groups: tuple[list[list[int]], list[list[int]]], size: int) -> None:
    """@param groups  of a copy (Layout.expert_groups). @param size  of a bucket"""
    for of_groups, result in zip(groups, (-(-size // layout.size["ep"]), size)):
        for ranks in of_groups:
            trace.gather([trainers[rank] for rank in ranks], result)


def to_others(gpus: int, layout: Layout, trainers: list[int], service: list[int], weights: list[Weights], bucket: int) -> Trace:
    """Weights to a service on other GPUs.

    @param trainers  GPU of each rank. @param service  its GPUs. @param weights  of each pipeline rank. @param bucket  bytes
    """
    trace = Trace(gpus)
    for stage, of_stage in enumerate(weights):
        holders = [trainers[rank] for rank in layout.holders(stage)[0]]
        for size in _buckets(of_stage.common, bucket):
            trace.gather(holders, size)
            trace.broadcast([holders[0], *service], size)
        for size in _buckets(of_stage.experts, bucket):
            _gather_experts(trace, layout, trainers, layout.expert_groups(stage)[0], size)
            trace.broadcast([holders[0], *service], size)
    return trace


def to_own(gpus: int, layout: Layout, trainers: list[int], weights: list[Weights], bucket: int) -> Trace:
    """Weights to a service on the GPUs of the training. Parameters as of to_others()."""
    trace, stages = Trace(gpus), layout.size["pp"]

    def to_other_stages(stage: int, share: int) -> None:
        for column in layout.columns():
            trace.broadcast([trainers[column[stage]], *(trainers[rank] for i, rank in enumerate(column) if i != stage)], share)

    for stage, of_stage in enumerate(weights):
        for size in _buckets(of_stage.common, bucket):
            to_other_stages(stage, -(-size // len(layout.holders(stage)[0])))
            for gathered in range(stages):
                for copy in layout.holders(gathered):
                    trace.gather([trainers[rank] for rank in copy], size)
        for size in _buckets(of_stage.experts, bucket):
            to_other_stages(stage, -(-size // layout.expert_shares))
            for gathered in range(stages):
                for copy in layout.expert_groups(gathered):
                    _gather_experts(trace, layout, trainers, copy, size)
    return trace


def state(gpus: int, layout: Layout, trainers: list[int], rank_bytes: list[int], to_host: bool) -> Trace:
    """Copies of the training's state. @param rank_bytes  of a rank, by pipeline rank"""
    trace = Trace(gpus)
    for column in layout.columns():
        for stage, rank in enumerate(column):
            trace.copy(trainers[rank], rank_bytes[stage], to_host)
    return trace

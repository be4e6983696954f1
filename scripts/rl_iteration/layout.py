"""Which GPU holds which part of the weights that are trained."""

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Ranks of the training; rank r runs on the r-th GPU of its groups. `order`: dimensions from adjacent ranks to ranks far apart."""

    order: tuple[str, ...]
    size: dict[str, int]  # by dimension: tp, cp, dp, pp
    is_sharded: bool  # replicas divide weights (ZeRO stage 3)

    @property
    def ranks(self) -> int:
        return math.prod(self.size.values())

    def rank(self, **place: int) -> int:
        found, stride = 0, 1
        for name in self.order:
            found += place.get(name, 0) * stride
            stride *= self.size[name]
        return found

    def _replicas(self) -> Iterator[dict[str, int]]:
        for cp in range(self.size["cp"]):
            for dp in range(self.size["dp"]):
                yield {"cp": cp, "dp": dp}

    def holders(self, stage: int) -> list[list[int]]:
        """For each complete copy of a stage's weights: the ranks that hold it together, in equal shares."""
        copies = [[self.rank(tp=tp, pp=stage, **replica) for tp in range(self.size["tp"])] for replica in self._replicas()]
        return [sorted(rank for copy in copies for rank in copy)] if self.is_sharded else copies

    def columns(self) -> list[list[int]]:
        """For each place in a stage: its ranks, by stage."""
        return [[self.rank(tp=tp, pp=pp, **replica) for pp in range(self.size["pp"])] for replica in self._replicas() for tp in range(self.size["tp"])]


def layout_of(setup: dict, rank_order: str) -> Layout:
    size = {name: int(setup.get(name, 1)) for name in ("tp", "cp", "dp", "pp")}
    return Layout(tuple(name for name in rank_order.split("-") if name in size), size, setup.get("zero_stage") == 3)

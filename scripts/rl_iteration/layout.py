"""Which GPU holds which part of the weights that are trained."""

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Ranks of the training; rank r runs on the r-th GPU of its groups. `order`: dimensions from adjacent ranks to ranks far apart."""

    order: tuple[str, ...]
    size: dict[str, int]  # by dimension: tp, gtp, cp, ep, dp (of those with the same experts), pp
    is_sharded: bool  # replicas divide weights (ZeRO stage 3)
    has_whole_experts: bool = False  # each rank of tp x ep has experts of its own; otherwise tp ranks divide each expert

    @property
    def ranks(self) -> int:
        return math.prod(self.size.values())

    def rank(self, **place: int) -> int:
        found, stride = 0, 1
        for name in self.order:
            found += place.get(name, 0) * stride
            stride *= self.size[name]
        return found

    def _shares(self) -> Iterator[dict[str, int]]:
        """Of one copy of all weights but those of experts on several ranks."""
        for gtp in range(self.size["gtp"]):
            for tp in range(self.size["tp"]):
                yield {"tp": tp, "gtp": gtp}

    def _replicas(self) -> Iterator[dict[str, int]]:
        """Of all weights but those of experts."""
        for place in self._expert_replicas():
            for ep in range(self.size["ep"]):
                yield place | {"ep": ep}

    def _expert_replicas(self) -> Iterator[dict[str, int]]:
        for cp in range(self.size["cp"]):
            for dp in range(self.size["dp"]):
                yield {"cp": cp, "dp": dp}

    @property
    def expert_shares(self) -> int:
        """Ranks that hold the experts of a stage together, in equal shares."""
        return self.size["tp"] * self.size["ep"]

    def expert_groups(self, stage: int) -> list[tuple[list[list[int]], list[list[int]]]]:
        """For each complete copy of a stage's experts: ranks that gather the parts of their experts, then ranks that gather the experts of all."""
        found = []
        for replica in self._expert_replicas():
            ranks = [[self.rank(tp=tp, ep=ep, pp=stage, **replica) for tp in range(self.size["tp"])] for ep in range(self.size["ep"])]
            whole = [sum(ranks, [])] if self.has_whole_experts else [list(of_tp) for of_tp in zip(*ranks)]
            found.append(([] if self.has_whole_experts else ranks, whole))
        return found

    def holders(self, stage: int) -> list[list[int]]:
        """For each complete copy of a stage's weights: the ranks that hold it together, in equal shares."""
        copies = [[self.rank(pp=stage, **share, **replica) for share in self._shares()] for replica in self._replicas()]
        return [sorted(rank for copy in copies for rank in copy)] if self.is_sharded else copies

    def columns(self) -> list[list[int]]:
        """For each place in a stage: its ranks, by stage."""
        return [[self.rank(pp=pp, **share, **replica) for pp in range(self.size["pp"])] for replica in self._replicas() for share in self._shares()]


def layout_of(setup: dict, rank_order: str) -> Layout:
    size = {name: int(setup.get(name, 1)) for name in ("tp", "gtp", "cp", "ep", "dp", "pp")}
    whole = size["tp"] > 1 and setup.get("expert_tp") == 1
    if whole:
        size["ep"] //= size["tp"]
    size["dp"] //= size["ep"]
    return Layout(tuple(rank_order.replace("tp", "tp-gtp", 1).split("-")), size, setup.get("zero_stage") == 3, whole)

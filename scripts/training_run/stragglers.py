"""Members of unequal speed. A step waits for its slowest member: the maximum of n draws is one draw, F^-1(u^(1/n))."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from . import formulas
from .operation import Straggler

DRAWS = 1_000_000


@dataclass(frozen=True)
class Drawn:
    """Times of a step that differ from member to member and from step to step."""

    members: int
    distribution: str
    ratio: float

    @property
    def mean(self) -> float:
        """Of the slowest member, in steps."""
        return formulas.slowest(self.members, self.distribution, self.ratio)

    def factors(self, random: np.random.Generator, count: int) -> np.ndarray:
        """The slowest member's time of each of so many steps, in steps."""
        above = -np.expm1(np.log(1 - random.random(count)) / self.members)  # 1 - u^(1/n)
        if self.distribution == "exponential":
            return 1 - self.ratio * np.log(above)
        z = -special.ndtri(above)
        return np.exp(self.ratio * z) if self.distribution == "lognormal" else 1 + self.ratio * z


@dataclass(frozen=True)
class Slow:
    """A step with at least one slow member takes this many steps, as simulated with one. Several take no longer."""

    members: int
    share: float
    factor: float
    until_restart: bool

    @property
    def probability(self) -> float:
        """That at least one of the members is slow."""
        return float(-np.expm1(self.members * np.log1p(-self.share))) if self.share < 1 else 1.0


@dataclass(frozen=True)
class Stragglers:
    """What a step waits for: the longest of all kinds."""

    drawn: tuple[Drawn, ...] = ()
    slow: tuple[Slow, ...] = ()

    @property
    def are_none(self) -> bool:
        return not self.drawn and not self.slow

    @functools.cached_property
    def mean(self) -> float:
        """Of a step's time, in steps: both kinds are independent. With several distributions, from draws of a fixed seed."""
        slow, none_slower = 0.0, 1.0
        for kind in sorted(self.slow, key=lambda kind: -kind.factor):
            slow += kind.factor * kind.probability * none_slower
            none_slower *= 1 - kind.probability
        drawn = self.drawn[0].mean if len(self.drawn) == 1 else float(np.mean(self.slowest(np.random.default_rng(0), DRAWS))) if self.drawn else 1.0
        return (slow + none_slower) * drawn

    def slowest(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Of all members whose times are drawn for each step."""
        return np.maximum.reduce([kind.factors(random, count) for kind in self.drawn])

    def standing(self, random: np.random.Generator) -> float:
        """The factor of members that are slow until the next restart."""
        return max([1.0, *(kind.factor for kind in self.slow if kind.until_restart and random.random() < kind.probability)])

    def factors(self, random: np.random.Generator, standing: float, count: int) -> np.ndarray:
        found = np.full(count, standing)
        for kind in self.slow:
            if not kind.until_restart:
                found = np.maximum(found, np.where(random.random(count) < kind.probability, kind.factor, 1.0))
        if self.drawn:
            found = found * self.slowest(random, count)
        return found


def of(stragglers: Sequence[Straggler], members: dict[str, int], slow_steps: dict[tuple[str, float], float]) -> Stragglers:
    """@param members  by kind. @param slow_steps  steps with one slow member, in steps, by kind and rate"""
    drawn = tuple(Drawn(members[one.of], one.distribution, one.ratio) for one in stragglers if one.distribution)
    slow = tuple(Slow(members[one.of], one.share, slow_steps[one.of, one.rate_ratio], one.lasts == "restart") for one in stragglers if one.share)
    return Stragglers(drawn, slow)

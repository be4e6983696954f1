"""Quantiles of Student's t distribution."""

import functools
import math

_PANELS = 400  # of Simpson's rule
_LARGE = 200  # degrees of freedom; beyond, the normal distribution is as good


@functools.cache
def quantile(probability: float, freedom: int) -> float:
    """@param probability  above 0.5 and below 1. @param freedom  degrees, at least 1"""
    freedom = min(freedom, _LARGE)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def density(angle: float) -> float:
        """With t = tan(angle) * sqrt(freedom), so that the whole axis is finite."""
        return scale * math.sqrt(freedom) * math.cos(angle) ** (freedom - 1)

    def below(angle: float) -> float:
        step = angle / _PANELS
        inner = sum((4 if i % 2 else 2) * density(i * step) for i in range(1, _PANELS))
        return 0.5 + step / 3 * (density(0.0) + inner + density(angle))

    low, high = 0.0, math.pi / 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < probability else (low, middle)
    return math.tan(low) * math.sqrt(freedom)

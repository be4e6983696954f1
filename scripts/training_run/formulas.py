"""Closed forms. Failures are a Poisson process of mean distance M = mtbf_s, also while the job restarts.

A segment is the training between two checkpoints. It takes x, of which w is training, and its end is safe after a further d, while the
checkpoint is written beside the next steps (synchronous: d = 0). Each failure costs r until the job trains again, and r begins again if a
failure falls into it. From one safe checkpoint to the next one the mean time is

  E = M exp((r + d) / M) (exp(x / M) - 1)

With d = 0 it is Daly's equation (J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, Future Generation
Computer Systems 22, 2006). With d: after a failure, the first segment is safe after x + d without a failure, each later one x after the one
before; the sum over both states gives the factor exp(d / M).
"""

import math

from scipy import integrate, special


def between_safe_s(mtbf_s: float, segment_s: float, writing_s: float, restart_s: float) -> float:
    """E above; without failures, x."""
    if math.isinf(mtbf_s):
        return segment_s
    exponent = (restart_s + writing_s) / mtbf_s
    if exponent + segment_s / mtbf_s > 500:
        return math.inf
    return mtbf_s * math.exp(exponent) * math.expm1(segment_s / mtbf_s)


def young_s(cost_s: float, mtbf_s: float) -> float:
    """J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17, 1974."""
    return math.sqrt(2 * cost_s * mtbf_s)


def daly_s(cost_s: float, mtbf_s: float) -> float:
    """Daly's estimate of higher order: training between two checkpoints of this cost."""
    if cost_s >= 2 * mtbf_s:
        return mtbf_s
    root = math.sqrt(cost_s / (2 * mtbf_s))
    return young_s(cost_s, mtbf_s) * (1 + root / 3 + root * root / 9) - cost_s


def best_s(cost_s: float, mtbf_s: float) -> float:
    """The w with the smallest E / w, where x = w + cost: w = M (1 + W(-exp(-1 - cost / M))), W of Lambert."""
    return mtbf_s * (1 + special.lambertw(-math.exp(-1 - cost_s / mtbf_s)).real)


def slowest(members: int, distribution: str, ratio: float) -> float:
    """Mean of the slowest member's time of a step, in steps: 1 + ratio H(n) if times are exponential; otherwise the integral over the
    distribution of the maximum, n f(z) F(z)^(n-1)."""
    if distribution == "exponential":
        return 1 + ratio * (special.digamma(members + 1) + float(-special.digamma(1)))
    time = (lambda z: math.exp(ratio * z)) if distribution == "lognormal" else (lambda z: 1 + ratio * z)

    def density(z: float) -> float:
        return time(z) * members * math.exp((members - 1) * special.log_ndtr(z) - z * z / 2) / math.sqrt(2 * math.pi)

    return integrate.quad(density, -10, 10 + 2 * ratio, limit=400, points=[-special.ndtri(1 / (members + 1))])[0]

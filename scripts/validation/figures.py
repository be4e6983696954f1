"""Error figures. With p predicted and m measured, both in the row's own metric and unit:

  error            p/m - 1, a fraction: at 0.1 the prediction is 10 % too large (too slow for a time, too fast for a bandwidth)
  median_abs_err   median of |error|
  p90_abs_err      its 90th percentile, interpolated between the ranks around it (as numpy.percentile does)
  mean_abs_ln_err  mean of |ln(p/m)|; a factor of 1/2 and a factor of 2 count the same
  bias             mean of error
"""

import math
from collections.abc import Sequence

FIGURES = ("median_abs_err", "p90_abs_err", "mean_abs_ln_err", "bias")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie, linear between ranks."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def figures(pairs: Sequence[tuple[float, float]]) -> dict:
    """The figures of (predicted, measured) pairs; each figure is None if there are no pairs."""
    if not pairs:
        return dict.fromkeys(FIGURES)
    errors = [predicted / measured - 1 for predicted, measured in pairs]
    sizes = [abs(error) for error in errors]
    logs = [abs(math.log(predicted / measured)) for predicted, measured in pairs]
    return dict(zip(FIGURES, (percentile(sizes, 0.5), percentile(sizes, 0.9), sum(logs) / len(logs), sum(errors) / len(errors))))

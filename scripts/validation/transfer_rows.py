"""What a row measures of KV that moves from an instance that prefills to one that decodes, as columns of transfers.csv.

Rules, by metric; a mean over requests unless it names a percentile:
  KV transfer time             from the first post or copy to the last byte
  KV transfer post time        until all descriptors are posted
  KV transfer size             bytes over all ranks
  KV transfer bandwidth        size over time
  descriptors a transfer       over all ranks
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from .figures import percentile
from .rows import BYTES_PER_SECOND, SECONDS

BYTES = {"MB": 1e6, "GB": 1e9, "MiB": 2.0**20, "GiB": 2.0**30, "B": 1.0}


@dataclass(frozen=True)
class Quantity:
    """A figure of a transfer; `units` has one of each unit in that of `of`."""

    name: str
    units: dict
    of: Callable[[dict], float]

    def value(self, transfers: list[dict], rank: float | None) -> float:
        """The mean if `rank` is None."""
        values = [self.of(transfer) for transfer in transfers]
        return sum(values) / len(values) if rank is None else percentile(values, rank)


def _seconds(transfer: dict) -> float:
    return float(transfer["landed_s"]) - float(transfer["begun_s"])


QUANTITIES = (
    (r"KV transfer post\w* time", Quantity("KV transfer post time", SECONDS, lambda transfer: float(transfer["post_s"]))),
    (r"KV transfer (?:bandwidth|rate)", Quantity("KV transfer bandwidth", BYTES_PER_SECOND, lambda transfer: float(transfer["bytes"]) / _seconds(transfer))),
    (r"KV transfer size", Quantity("KV transfer size", BYTES, lambda transfer: float(transfer["bytes"]))),
    (r"descriptors? (?:a|per) transfer", Quantity("descriptors", {"count": 1.0}, lambda transfer: float(transfer["descriptors"]))),
    (r"KV transfer (?:time|latency)", Quantity("KV transfer time", SECONDS, _seconds)),
)


def find(metric: str) -> Quantity | None:
    return next((quantity for pattern, quantity in QUANTITIES if re.search(pattern, metric, re.IGNORECASE)), None)

"""Names host constants that are most of a TTFT, in the digest of a class with serving engines.

TTFT of such rows checks the constants of a load generator and of an engine's sheet more than it checks the model."""

import functools
import statistics
from collections.abc import Sequence

import yaml

from lib.command_line import ROOT

from .comparison import Outcome, grouped
from .experiment import Experiment

SHEETS = ROOT / "platforms" / "datasheets" / "engines"
MOST = 0.5


@functools.cache
def request_us(sheet: str) -> float:
    """The sheet's host time for each request, its own or that of its base."""
    content = yaml.safe_load((SHEETS / f"{sheet}.yaml").read_text(encoding="utf-8"))
    own = content.get("host", {})
    return own["request_us"] if "request_us" in own or "base" not in content else request_us(content["base"])


def constants(experiment: Experiment) -> dict[str, float]:
    """Seconds for each request that do not depend on the run, by where they are from."""
    workload = experiment.scenario["workload"]
    host = workload.get("host", {})
    client_s = experiment.client_s + 1e-6 * workload.get("client_us", 0)
    client = {"load generator": client_s} if client_s else {}
    if host == "none":
        return client
    if "request_us" in host:
        return client | {"scenario": 1e-6 * host["request_us"]}
    return client | {"engine sheet": 1e-6 * request_us(workload["engine"])}


def lines(outcomes: Sequence[Outcome]) -> list[str]:
    """A row for each group with TTFTs of which more than half is host time."""
    timed = [one for one in outcomes if not one.skipped and one.host_s is not None and "TTFT" in one.row["metric"]]
    made = []
    for name, members in grouped(timed, lambda one: f"{one.experiment.operation}, {one.experiment.scenario['workload']['engine']}").items():
        most = [one for one in members if one.host_s > MOST * _ttft_s(one)]
        if not most:
            continue
        found = constants(most[0].experiment)
        parts = ", ".join(f"{where} {1e3 * seconds:.4g}" for where, seconds in found.items())
        ttft_s, host_s = statistics.median(map(_ttft_s, most)), statistics.median(one.host_s for one in most)
        made.append(f"| {name} | {len(most)} of {len(members)} | {1e3 * ttft_s:.4g} | {1e3 * host_s:.4g} | {1e3 * sum(found.values()):.4g} ({parts}) |")
    if not made:
        return []
    return ["### TTFT that is mostly host time", "", "Medians of these rows in ms. The last column has the constants for each request, and where they are from.",
            "", "| group | rows | TTFT | host | of it, for each request |", "| --- | ---: | ---: | ---: | ---: |", *made, ""]


def _ttft_s(one: Outcome) -> float:
    return one.predicted * one.experiment.unit

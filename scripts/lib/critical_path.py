"""Reads why.json of a run: the critical paths of its times, and each time without a given cost."""

import pathlib
from dataclasses import dataclass

from . import run_files

FILE = "why.json"
SCHEMA_VERSION = 3
COSTS = {  # as --why prints them
    "kernel": "kernels",
    "sharing": "kernel slow-down by contention",
    "straggler": "slow GPUs",
    "sm_wait": "collectives waiting for SMs",
    "step": "collective protocol steps",
    "engine": "DMA engines and copy rates",
    "latency": "latency",
    "wire": "serialisation on the bottleneck link",
    "queue": "queueing",
    "host": "host software",
    "delay": "delays",
    "arrival": "idle: no work had arrived",
}
HOSTS = {
    "engine": "steps and launches",
    "client": "clients",
    "router": "router",
    "server": "API server",
    "posts": "posts",
    "handshakes": "handshakes",
}


@dataclass
class Part:
    """Mean time of a cost on the path, and the metric without this cost if it is predicted. `where`: the link with the largest share."""

    name: str
    path_s: float
    without_s: float | None
    where: str = ""


@dataclass
class Path:
    """The critical path of a metric. Its costs sum to the metric. Kernels by limit, hosts, classes, and links are other views of the costs.

    `held_s`: a part of the same time, in which requests waited in the router."""

    metric: str
    mean_s: float
    costs: list[Part]
    kernels: list[Part]
    stragglers: list[Part]
    hosts: list[Part]
    held_s: float
    classes: list[Part]
    links: list[Part]

    @property
    def views(self) -> dict[str, list[Part]]:
        """Without parts of zero time."""
        views = {
            "cost": self.costs,
            "kernels bound by": self.kernels,
            "slow GPU": self.stragglers,
            "host": self.hosts,
            "traffic class": self.classes,
            "links": self.links,
        }
        return {view: [part for part in parts if part.path_s > 0] for view, parts in views.items()}


def labelled(view: str, name: str) -> str:
    """The name of a part, distinct from parts of other views."""
    return name if view == "cost" else f"{view} {name}"


def _cost(value: object) -> None:
    if not isinstance(value, str) or value not in COSTS:
        raise ValueError(f"one of {', '.join(COSTS)}")


def _work(value: object) -> None:
    if not isinstance(value, str) or value not in HOSTS:
        raise ValueError(f"one of {', '.join(HOSTS)}")


def _version(value: object) -> None:
    if value != SCHEMA_VERSION:
        raise ValueError(f"{SCHEMA_VERSION}")


def _time_or_none(value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise ValueError("a number or null")


TIMES = {"path_s": float, "without_s": _time_or_none}
PATH = {
    "metric": str,
    "mean_s": float,
    "costs": [{"cost": _cost, **TIMES}],
    "kernels": [{"limit": str, **TIMES}],
    "stragglers": [{"gpu": str, **TIMES}],
    "hosts?": [{"work": _work, **TIMES}],
    "held_s?": float,
    "classes": [{"class": str, **TIMES}],
    "links": [{"links": str, "worst_link": str, "worst_link_direction": str, **TIMES}],
}


def read(directory: pathlib.Path) -> list[Path]:
    """Empty if the run was made without --why, or has measured nothing. @throws run_files.Error"""
    path = directory / FILE
    if not path.exists():
        return []
    why = run_files.json_file(path, {"schema_version": _version, "paths": [PATH]}, "the critical paths of a run")
    return [_path(entry) for entry in why["paths"] if entry["mean_s"] > 0]


def _path(entry: dict) -> Path:
    costs = [Part(COSTS[part["cost"]], part["path_s"], part["without_s"]) for part in entry["costs"]]
    kernels = [Part(part["limit"], part["path_s"], part["without_s"]) for part in entry["kernels"]]
    stragglers = [Part(part["gpu"], part["path_s"], part["without_s"]) for part in entry["stragglers"]]
    hosts = [Part(HOSTS[part["work"]], part["path_s"], part["without_s"]) for part in entry.get("hosts", [])]
    classes = [Part(part["class"], part["path_s"], part["without_s"]) for part in entry["classes"]]
    links = [
        Part(part["links"], part["path_s"], part["without_s"], f"{part['worst_link']} {part['worst_link_direction']}")
        for part in entry["links"]
    ]
    return Path(entry["metric"], entry["mean_s"], costs, kernels, stragglers, hosts, entry.get("held_s", 0.0), classes, links)

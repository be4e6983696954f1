"""why.json of a run, as scripts read it: what made its times, and what each would be if that had taken no time."""

import json
import pathlib
from dataclasses import dataclass

FILE = "why.json"
SCHEMA_VERSION = 1
COSTS = {  # as --why prints them
    "kernel": "kernels",
    "sharing": "kernels sharing their GPU",
    "sm_wait": "collectives waiting for SMs",
    "step": "collectives' own steps",
    "engine": "engines and root complexes",
    "latency": "latency",
    "wire": "bytes at the slowest link",
    "queue": "queues",
    "delay": "delays",
    "arrival": "nothing to do",
}


class PathError(Exception):
    """A critical path that cannot be read, in one line."""


@dataclass
class Part:
    """Time on the path, mean over what the metric measures; and the metric, had it taken none. `where`: the link with most of it."""

    name: str
    path_s: float
    if_free_s: float
    where: str = ""


@dataclass
class Path:
    """What made a metric: its costs add up to it; kernels by what binds them, classes and links are other views of parts of it."""

    metric: str
    mean_s: float
    costs: list[Part]
    kernels: list[Part]
    classes: list[Part]
    links: list[Part]

    @property
    def views(self) -> dict[str, list[Part]]:
        """Without what took no time."""
        views = {"cost": self.costs, "kernels bound by": self.kernels, "traffic class": self.classes, "links": self.links}
        return {view: [part for part in parts if part.path_s > 0] for view, parts in views.items()}


def labelled(view: str, name: str) -> str:
    """A part as it is called beside those of other views."""
    return name if view == "cost" else f"{view} {name}"


def read(directory: pathlib.Path) -> list[Path]:
    """None of them where the run was made without --why, or has measured nothing."""
    path = directory / FILE
    if not path.exists():
        return []
    try:
        why = json.loads(path.read_text(encoding="utf-8"))
        if why["schema_version"] != SCHEMA_VERSION:
            raise PathError(f"{path}: schema_version is not {SCHEMA_VERSION}; written by another version of Railyard?")
        return [_path(entry) for entry in why["paths"] if entry["mean_s"] > 0]
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise PathError(f"{path}: not written by this version of Railyard ({error!r})") from error


def _path(entry: dict) -> Path:
    costs = [Part(COSTS[part["cost"]], part["path_s"], part["if_free_s"]) for part in entry["costs"]]
    kernels = [Part(part["limit"], part["path_s"], part["if_free_s"]) for part in entry["kernels"]]
    classes = [Part(part["class"], part["path_s"], part["if_free_s"]) for part in entry["classes"]]
    links = [
        Part(part["links"], part["path_s"], part["if_free_s"], f"{part['worst_link']} {part['worst_link_direction']}")
        for part in entry["links"]
    ]
    return Path(entry["metric"], entry["mean_s"], costs, kernels, classes, links)

"""Reads summary.json of a run."""

import os

from . import old_names, run_files
from .run_files import Maybe

SCHEMA_VERSION = 2  # versions before have old names of metrics
IN_PHASE = "utilisation_"  # a key of links, with the phase behind it


def _version(value: object) -> None:
    if value not in range(1, SCHEMA_VERSION + 1):
        raise ValueError(f"1 to {SCHEMA_VERSION}")


def _metric(value: object) -> None:
    """Anything, but numbers that no float holds."""
    if isinstance(value, dict):
        for below in value.values():
            _metric(below)
    elif isinstance(value, (int, float)) and not abs(value) < run_files.LARGEST:
        raise ValueError("numbers that are no larger than times and rates can be")


TRAFFIC = {"class": str, "messages?": int, "mean_actual_s?": Maybe(float), "mean_uncontended_s?": Maybe(float)}
LINK = {"name": str, "direction": str, "busy_s": float, "utilisation": float, IN_PHASE + "prefill?": float, IN_PHASE + "decode?": float}
SHAPE = {
    "schema_version": _version,
    "kind": str,
    "platform": str,
    "complete": bool,
    "model?": str,
    "seed?": int,
    "setup?": {},
    "metrics": {None: _metric},
    "traffic": [TRAFFIC],
    "links": [LINK],
    "memory?": {None: [{"gpu": str}]},
    "simulator?": {"version?": str, "commit?": str, "wall_s?": float, "transactions?": float},
}


def _is_time_or_rate(name: str) -> bool:
    return any(word.endswith("_s") or word.endswith("_fraction") or "utilisation" in word for word in name.split("."))


def read(path: str | os.PathLike) -> dict:
    """@throws run_files.Error"""
    summary = run_files.json_file(path, SHAPE, "summary.json in the --out directory of a run")
    for name, value in metrics(summary).items():
        if _is_time_or_rate(name):
            run_files.check(path, value, Maybe(float), f"metrics.{name}")
    return summary


def title(summary: dict) -> str:
    return f"{summary.get('model') or summary['kind']} on {summary['platform']}"


def flat(group: dict) -> dict[str, object]:
    """What is below under dotted names: `exposed_s.tp`."""
    found: dict[str, object] = {}
    for name, value in group.items():
        found |= {f"{name}.{key}": below for key, below in flat(value).items()} if isinstance(value, dict) else {name: value}
    return found


def metrics(summary: dict) -> dict[str, object]:
    """The metrics under dotted names, those of today."""
    return {old_names.today(name): value for name, value in flat(summary["metrics"]).items()}

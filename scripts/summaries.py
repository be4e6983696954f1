"""summary.json of a run, as scripts read it."""

import json
import os

SCHEMA_VERSION = 1
REQUIRED = ("kind", "platform", "complete", "metrics", "traffic", "links")


class SummaryError(Exception):
    """A summary that cannot be read, in one line."""


def read(path: str | os.PathLike) -> dict:
    try:
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
    except OSError as error:
        raise SummaryError(f"{path}: {error.strerror}; expected the --out directory of a run") from error
    except ValueError as error:
        raise SummaryError(f"{path}: not JSON: {error}") from error
    if not isinstance(summary, dict) or summary.get("schema_version") != SCHEMA_VERSION:
        raise SummaryError(f"{path}: schema_version is not {SCHEMA_VERSION}; written by another version of Railyard?")
    missing = [key for key in REQUIRED if key not in summary]
    if missing:
        raise SummaryError(f"{path}: has no {missing[0]}")
    return summary


def metrics(summary: dict) -> dict[str, object]:
    """The metrics under dotted names: `exposed_s.tp`."""
    flat: dict[str, object] = {}

    def add(group: dict, prefix: str) -> None:
        for name, value in group.items():
            if isinstance(value, dict):
                add(value, f"{prefix}{name}.")
            else:
                flat[prefix + name] = value

    add(summary.get("metrics", {}), "")
    return flat

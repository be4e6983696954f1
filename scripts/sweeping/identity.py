"""What a point's result depends on: scenario, settings, contents of its inputs, executable. Their hash is its id."""

import functools
import hashlib
import json
import os
import pathlib

from .plan import SweepPoint

DIGITS = 16


@functools.cache
def contents(path: str) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _setting(value: object) -> object:
    """An input stands for its name, which the results tell, and its contents, wherever it lies."""
    if isinstance(value, str) and os.path.isabs(value) and os.path.isfile(value):
        return {"input": os.path.basename(value), "sha256": contents(value)}
    return value


def identity(point: SweepPoint, executables: pathlib.Path) -> str:
    parts = {
        "platform": point.platform,
        "executable": contents(str(executables / point.platform)),
        "scenario": point.scenario.text,
        "settings": [[key, _setting(value)] for key, value in point.settings.items()],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:DIGITS]

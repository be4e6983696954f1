"""The id of a point: a hash of all inputs of its result, which are scenario, settings, contents of input files, and executable."""

import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator

from lib.keys import names_input
from lib.runner import Point

from .plan import SweepPoint

DIGITS = 16


@functools.cache
def contents(path: str) -> str:
    """The SHA-256 of a file, or of all files of a folder and their names."""
    if os.path.isdir(path):
        files = sorted(str(file.relative_to(path)) for file in pathlib.Path(path).rglob("*") if file.is_file())
        parts = [[name, contents(os.path.join(path, name))] for name in files]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _setting(key: str, value: object) -> object:
    """A setting for the hash. An input counts by its name, which results contain, and its contents; its folder does not count."""
    if names_input(key, value) and os.path.exists(value):
        return {"input": os.path.basename(value), "sha256": contents(value)}
    return value


def identity(point: SweepPoint, executables: pathlib.Path) -> str:
    return _hash(point.platform, executables, point.scenario.text, point.settings, {}, point.options)


def identity_of_run(point: Point, executables: pathlib.Path) -> str:
    """The id of a point whose scenario is a mapping."""
    settings = dict(_leaves(point.scenario)) | point.overrides
    return _hash(point.platform, executables, json.dumps(point.scenario, sort_keys=True), settings, point.files, point.options)


def _leaves(value: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """The scalars of a scenario, by key in the format of --set."""
    if isinstance(value, (dict, list)):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(entry, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value


def _hash(platform: str, executables: pathlib.Path, scenario: str, settings: dict, files: dict[str, str], options: tuple[str, ...]) -> str:
    parts = {
        "platform": platform,
        "executable": contents(str(executables / platform)),
        "scenario": scenario,
        "settings": [[key, _setting(key, value)] for key, value in settings.items()],
    }
    parts |= {name: value for name, value in (("files", files), ("options", options)) if value}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:DIGITS]

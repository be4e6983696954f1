"""Reads timeline.json.gz of a run: Chrome trace events, one per line."""

import os
from collections.abc import Iterator

from . import run_files
from .run_files import Any

FILE = "timeline.json.gz"
WHAT = "the timeline of a run with --timeline"
_PLACE = {"pid": int, "tid": int}
_INSTANT = {**_PLACE, "ts": float}
_COLLECTIVE = {"operation": str, "algorithm": str, "protocol": str, "bytes": int, "ranks": int}
SHAPES = {
    "M": {"pid": int, "name": str, "args": {"name?": str, "sort_index?": float}},
    "X": {**_INSTANT, "dur": float, "name": str, "cat": str, "args?": {"work?": str, "bytes?": int}},
    "C": {"pid": int, "ts": float, "name": str, "args": {None: float}},
    **dict.fromkeys("stf", {**_INSTANT, "cat": str, "id": int}),
}


def events(path: str | os.PathLike, kinds: str = "".join(SHAPES)) -> Iterator[dict]:
    """Events of these kinds (their `ph`), in the file's order. @throws run_files.Error"""
    lines = run_files.lines(path, WHAT)
    first = next(lines, "")
    if not first.rstrip().endswith("["):  # not an event a line
        text = "".join([first, *lines])
        trace = run_files.json_text_of(path, text, {"traceEvents": [{"ph": str}]}, WHAT)
        for event in trace["traceEvents"]:
            yield from _checked(path, event, kinds)
        return
    skipped = tuple(f'{{"ph":"{kind}"' for kind in SHAPES if kind not in kinds)
    last = ""
    for line in lines:
        last = line
        if line.startswith('{"ph"') and not line.startswith(skipped):
            yield from _checked(path, run_files.json_text_of(path, line.rstrip().rstrip(","), {"ph": str}, "an event"), kinds)
    if last.strip() != "]}":
        raise run_files.Error(path, "ends in the middle")


def _checked(path: str | os.PathLike, event: dict, kinds: str) -> Iterator[dict]:
    kind = event["ph"]
    if kind not in kinds:
        return
    run_files.check(path, event, SHAPES.get(kind, Any), f"an event '{kind}'")
    if kind == "M" and event["name"].endswith("_name"):
        run_files.check(path, event["args"], {"name": str}, f"a {event['name']}")
    if kind == "X" and "operation" in event.get("args", {}):
        run_files.check(path, event["args"], _COLLECTIVE, "a collective")
    yield event

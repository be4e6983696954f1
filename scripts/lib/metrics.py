"""The metrics of each kind of workload: docs/results.md lists them, written by the executables' own declarations (results_reference)."""

import difflib
import functools
import pathlib
import re
from collections.abc import Iterable

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results.md"
SHOWN = 3  # of the nearest names
_TABLE = re.compile(r"<!-- metrics of (\w+) -->\n(.*?)<!-- end of metrics -->", re.DOTALL)
_PARTS = re.compile(r"^\| part \| the request \|\n\| --- \| --- \|\n((?:\|.*\n)+)", re.MULTILINE)
_ROW = re.compile(r"^\| `metrics\.(\S+)` \|", re.MULTILINE)


@functools.cache
def of_kinds() -> dict[str, tuple[str, ...]]:
    """Names by kind. A word in brackets stands for any word: `ttft_parts_s.[part]`."""
    return {kind: tuple(_ROW.findall(table)) for kind, table in _TABLE.findall(PAGE.read_text(encoding="utf-8"))}


@functools.cache
def ttft_parts() -> tuple[str, ...]:
    """The parts of the TTFT of a request."""
    found = _PARTS.search(PAGE.read_text(encoding="utf-8"))
    return tuple(re.findall(r"^\| `(\w+)` \|", found[1], re.MULTILINE)) if found else ()


def kind_of(workload: object) -> str:
    """The kind whose metrics a run has, by the scenario's `workload.kind`: a preset has those of the kind that it stands for."""
    return "serving" if workload == "disaggregated_prefill" else str(workload)


def is_metric(name: str, kinds: Iterable[str]) -> bool:
    return any(_stands_for(known, name) for kind in kinds for known in of_kinds().get(kind, ()))


def _stands_for(known: str, name: str) -> bool:
    words, there = re.findall(r"\[\w+\]|[^.]+", known), name.split(".")
    return len(words) == len(there) and all(word.startswith("[") or word == other for word, other in zip(words, there))


def nearest(name: str, kinds: Iterable[str], more: Iterable[str] = ()) -> str:
    """"; nearest: ttft_s, ttft_p50_s", or how to find all names.
    @param more  other names that are accepted"""
    names = dict.fromkeys([*more, *(known for kind in kinds for known in of_kinds().get(kind, ()))])
    close = difflib.get_close_matches(name, names, SHOWN, 0.5)
    return f"; nearest: {', '.join(close)}" if close else "; docs/results.md lists the metrics"

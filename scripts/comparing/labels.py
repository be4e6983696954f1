"""Labels of compared runs: the keys of their scenarios whose values differ, as `tp=8 pp=1` and `tp=4 pp=2`."""

import os
from collections.abc import Sequence

from lib import run_files, summaries
from lib.keys import names_input
from lib.yaml_source import leaves, read

FILE = "scenario.yaml"
OF_THE_FILE = ("name", "schema_version")  # keys without influence on results
MOST_KEYS = 3
MOST_CHARS = 44  # of a label, unless a single key needs more
MOST_OF_VALUE = 24
DEFAULT = "default"  # a run that sets none of the keys

Settings = dict[str, str]
Values = tuple[str | None, ...]  # of a key in each run; None where the run does not set it
Column = tuple[str, Values]  # by the key's shortest name


def tails(directories: Sequence[str]) -> list[str]:
    """The shortest last parts by which different paths can be distinguished."""
    parts = [os.path.abspath(directory).split(os.sep) for directory in directories]
    for count in range(1, max(map(len, parts), default=0) + 1):
        labels = ["/".join(part[-count:]) for part in parts]
        if len(set(labels)) == len(labels):
            return labels
    return list(directories)


def by_differences(directories: Sequence[str], of_runs: Sequence[dict]) -> list[str] | None:
    """None if a run has no scenario.yaml, or if the scenarios do not distinguish all runs.

    @param of_runs  the summary of each directory
    @throws InputError of a scenario.yaml that cannot be read
    """
    paths = [os.path.join(directory, FILE) for directory in directories]
    if not all(map(os.path.exists, paths)):
        return None
    columns = _columns([_settings(path, summary) for path, summary in zip(paths, of_runs)], of_runs)
    if not columns:
        columns = _columns([_build(summary) for summary in of_runs], of_runs)
    chosen = _distinguishing(columns)
    if not chosen:
        return None
    for column in columns:
        wider = chosen | {column}
        if len(wider) <= MOST_KEYS and max(map(len, _labels(columns, wider))) <= MOST_CHARS:
            chosen = wider
    return _labels(columns, chosen)


def _shown(key: str, value: object) -> str:
    if names_input(key, value):
        value = os.path.basename(os.path.normpath(value))
    text = str(value).lower() if isinstance(value, bool) else run_files.printable(str(value))
    return text if len(text) <= MOST_OF_VALUE else text[: MOST_OF_VALUE - 3] + "..."


def _settings(path: str, summary: dict) -> Settings:
    """The keys that the scenario sets, plus platform and seed, which may be defaults."""
    scenario = read(path)
    if not scenario.is_mapping:
        raise scenario.wrong("scenario: expected a mapping")
    inside = {key: value for key, value in leaves(scenario) if key not in (*OF_THE_FILE, "platform", "seed")}
    settings = {"platform": summary["platform"]} | inside | {key: summary[key] for key in ("seed",) if key in summary}
    return {key: _shown(key, value) for key, value in settings.items()}


def _build(summary: dict) -> Settings:
    """What made the run."""
    simulator = summary.get("simulator", {})
    return {key: simulator[key] for key in ("version", "commit") if key in simulator}


def _columns(settings: Sequence[Settings], of_runs: Sequence[dict]) -> list[Column]:
    """The keys that differ; keys that every run sets come first. Keys in `setup` of summary.json, as workload.prefill.tp, have
    their value from there, also if it is a default."""
    setups = [summaries.flat(summary.get("setup", {})) for summary in of_runs]
    values: dict[str, Values] = {}
    for key in sorted(dict.fromkeys(key for own in settings for key in own), key=lambda key: not all(key in own for own in settings)):
        inside = key.partition(".")[2]
        if all(inside in setup for setup in setups):
            values[key] = tuple(_shown(key, setup[inside]) for setup in setups)
        else:
            values[key] = tuple(own.get(key) for own in settings)
    return list(dict.fromkeys((_name(key, values), column) for key, column in values.items() if len(set(column)) > 1))


def _name(key: str, values: dict[str, Values]) -> str:
    """The shortest last part of the key that is unique, or that it shares only with keys of equal values in all runs."""
    words = key.split(".")
    for count in range(1, len(words)):
        tail = words[-count:]
        alike = (column == values[key] for other, column in values.items() if other.split(".")[-count:] == tail)
        if not tail[0].isdigit() and all(alike):
            return ".".join(tail)
    return key


def _distinguishing(columns: Sequence[Column]) -> set[Column]:
    """A few keys that distinguish all runs; empty if there are none."""
    chosen: list[Column] = []
    apart = 1
    for column in columns:
        rows = set(zip(*(values for _, values in (*chosen, column))))
        if len(rows) > apart:
            chosen, apart = [*chosen, column], len(rows)
        if apart == len(column[1]):
            return set(chosen) if len(chosen) <= MOST_KEYS else set()
    return set()


def _labels(columns: Sequence[Column], chosen: set[Column]) -> list[str]:
    more = f" +{len(columns) - len(chosen)} more" if len(columns) > len(chosen) else ""
    shown = [column for column in columns if column in chosen]
    rows = [[f"{name}={values[run]}" for name, values in shown if values[run] is not None] for run in range(len(columns[0][1]))]
    return [(" ".join(row) or DEFAULT) + more for row in rows]

#!/usr/bin/python3
"""Finds the results of the shipped scenarios that a change of the model changes.

  scripts/digests.py write before.jsonl                     # with the build before the change
  scripts/digests.py check before.jsonl                     # with the build after the change: prints differences
  scripts/digests.py check before.jsonl --only 'layers/*' --quick

Runs every scenario of scenarios/, the first two points of each sweep, and a few runs with waveform, timeline and critical path. FILE
has one line of JSON for each output file of a run: scenario, file, SHA-256. FILE.contents has the packed contents of all but large
files, so that `check` can name the keys and cells that differ. Build, wall time and cost of a run (`simulator` of summary.json) and
the folders of checkout and executables are ignored. `check` runs the scenarios in FILE. Exit status: 0 no difference, 1 a difference
or a failed run, 2 bad arguments or FILE, 130 interrupted.
"""

import argparse
import contextlib
import csv
import fnmatch
import gzip
import hashlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lib import run_files, runner, written
from lib.command_line import INTERRUPTED, ROOT, Parser, one_line, positive

try:
    from lib.yaml_source import InputError
    from sweeping.plan import Sweep, scenario_at
except ImportError as missing:
    sys.exit(f"digests.py: error: {missing}; it needs the Debian package python3-yaml")

DIFFERENT = 1
SCENARIOS = ROOT / "scenarios"
POINTS = 2  # of each sweep
OBSERVED = (  # scenarios that run once more, with these options
    ("layers/prefill.yaml", "--timeline --why --vcd --vcd-level all"),
    ("nic_rule_comparison/modulo.yaml", "--timeline --why --jobs all"),
    ("nic_rule_comparison/nearest.yaml", "--vcd --vcd-level summary --jobs stage"),
    ("dgx_b200_llama3_70b.yaml", "--why --jobs none"),
)
SECONDS = {  # of the longest runs of a scenario, roughly; they start first
    "training/llama3_70b_128.yaml": 600,
    "training/llama3_70b_64.yaml": 10,
    "training/gpt_175b_64.yaml": 8,
    "serving_llama3_70b_tp4_pp2.yaml": 15,
    "ib_write.yaml": 10,
    "dgx_a100_llama3_70b.yaml": 4,
    "sweeps/platforms.yaml": 4,
    "disagg_llama3_70b_plx.yaml": 2,
}
QUICK_S = 3  # --quick leaves out what takes longer
MOST_PACKED_BYTES = 200_000  # of contents that are kept
SHOWN = 5  # differences of a file
LINE = {"scenario": str, "file": str, "sha256": str}

Digests = dict[tuple[str, str], str]  # scenario and file to SHA-256


class Difference(NamedTuple):
    """One key, cell or line; None where there is none."""

    where: str
    before: str | None
    now: str | None


def shipped() -> Iterator[runner.Point]:
    """All runs, under the names that --only matches."""
    for path in sorted(SCENARIOS.glob("**/*.yaml")):
        name = str(path.relative_to(SCENARIOS))
        if path.parent.name == "sweeps":
            for point in Sweep(path).points()[:POINTS]:
                yield runner.Point(f"{name} {point.label}", point.platform, point.scenario.text, point.settings)
            continue
        scenario = scenario_at(path)
        if scenario.platform is None:
            raise InputError(f"{path}: error: platform: missing")
        for options in ("", *(options for observed, options in OBSERVED if observed == name)):
            yield runner.Point(f"{name} {options}".strip(), scenario.platform, scenario.text, scenario.inputs, tuple(options.split()))


def seconds(name: str) -> float:
    return SECONDS.get(name.split()[0], 0)


def chosen(options: argparse.Namespace, name: str) -> bool:
    return fnmatch.fnmatchcase(name, options.only) and not (options.quick and seconds(name) > QUICK_S)


# -- what a run leaves

def contents(path: pathlib.Path, folders: Sequence[str]) -> bytes:
    """What counts of a file: unpacked, without the folders and without what is another's in each run."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for folder in folders:
        data = data.replace(f"{folder}/".encode(), b"")
    if path.name == "summary.json":
        summary = run_files.json_text_of(path, data.decode(), {"simulator": {}}, "summary of a run")
        del summary["simulator"]
        data = json.dumps(summary, indent=1).encode()
    return data


def digests(options: argparse.Namespace, points: list[runner.Point], kept: pathlib.Path) -> tuple[Digests, dict[str, str]]:
    """Runs the points; packed contents go to `kept`. @return also what is wrong with those that failed"""
    points = sorted(points, key=lambda point: -seconds(point.name))
    found: Digests = {}
    failed = {}
    folders = sorted((str(options.bin), str(ROOT)), key=len, reverse=True)
    with tempfile.TemporaryDirectory() as scratch, \
            contextlib.closing(runner.completed(points, scratch, options.bin, options.jobs)) as ends:
        for _, result in ends:
            if result.failed:
                failed[result.point.name] = f"failed: {result.error}"
            for path in sorted((result.directory / "out").rglob("*")):
                data = contents(path, folders)
                digest = hashlib.sha256(data).hexdigest()
                found[result.point.name, str(path.relative_to(result.directory / "out"))] = digest
                if len(packed := gzip.compress(data, compresslevel=6, mtime=0)) <= MOST_PACKED_BYTES:
                    (kept / f"{digest}.gz").write_bytes(packed)
            shutil.rmtree(result.directory, ignore_errors=True)
    return found, failed


# -- what differs

def flat(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of JSON under their paths: links[3].busy_s."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from flat(below, f"{where}.{key}" if where else key)
    elif isinstance(value, list) and value:
        for index, below in enumerate(value):
            yield from flat(below, f"{where}[{index}]")
    else:
        yield where, json.dumps(value)


def parts(file: str, text: str) -> dict[str, str]:
    """What is compared of a file: keys of JSON, cells of CSV, otherwise lines."""
    kind = file.removesuffix(".gz").rpartition(".")[2]
    if kind == "json":
        return dict(flat(json.loads(text)))
    if kind == "csv":
        head, *rows = csv.reader(io.StringIO(text))
        return {f"line {number} {column}": cell for number, row in enumerate(rows, 2) for column, cell in zip(head, row)}
    return {f"line {number}": line for number, line in enumerate(text.splitlines(), 1)}


def differences(file: str, before: pathlib.Path, now: pathlib.Path) -> list[Difference]:
    """Empty where either is too large to be kept."""
    if not before.exists() or not now.exists():
        return []
    old, new = (parts(file, "".join(run_files.lines(path, "contents that digests.py keeps"))) for path in (before, now))
    return [Difference(where, old.get(where), new.get(where)) for where in old | new if old.get(where) != new.get(where)]


def tell(scenario: str, file: str, found: list[Difference]) -> None:
    count = "1 difference" if len(found) == 1 else f"{len(found)} differences"
    print(f"{scenario}: {file}: " + (count if found else "differs; too large to be kept"))
    for where, before, now in found[:SHOWN]:
        print(f"  {where}: " + " -> ".join("none" if value is None else run_files.shown(value) for value in (before, now)))


# -- commands

def beside(file: pathlib.Path) -> pathlib.Path:
    return file.with_name(f"{file.name}.contents")


def tell_failed(failed: dict[str, str]) -> None:
    for name, message in failed.items():
        print(f"{name}: {message}")


def write(options: argparse.Namespace) -> int:
    points = [point for point in shipped() if chosen(options, point.name)]
    if not points:
        raise InputError(f"digests.py: error: --only '{options.only}': no such scenario")
    options.file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.file.parent) as scratch:
        kept = pathlib.Path(scratch) / "contents"
        kept.mkdir()
        found, failed = digests(options, points, kept)
        tell_failed(failed)
        if failed:
            return DIFFERENT
        shutil.rmtree(beside(options.file), ignore_errors=True)
        kept.rename(beside(options.file))
    lines = [json.dumps(dict(zip(LINE, (*key, digest)))) for key, digest in sorted(found.items())]
    written.text(options.file, "\n".join(lines) + "\n")
    print(f"{len(points)} runs, {len(found)} files")
    return 0


def check(options: argparse.Namespace) -> int:
    lines = run_files.json_lines(options.file, LINE, "what digests.py write makes")
    before = {(line["scenario"], line["file"]): line["sha256"] for line in lines if chosen(options, line["scenario"])}
    known = {scenario for scenario, _ in before}
    if not known:
        raise InputError(f"digests.py: error: {options.file}: no run of --only '{options.only}'")
    there = {point.name: point for point in shipped() if chosen(options, point.name)}
    if new := sorted(set(there) - known):
        print(f"not in {options.file}: {', '.join(new)}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        kept = pathlib.Path(scratch)
        now, failed = digests(options, [point for name, point in there.items() if name in known], kept)
        failed |= dict.fromkeys(sorted(known - set(there)), "not shipped any more")
        tell_failed(failed)
        different = [key for key in sorted(before | now) if key[0] not in failed and before.get(key) != now.get(key)]
        for scenario, file in different:
            if (scenario, file) in before and (scenario, file) in now:
                tell(scenario, file, differences(file, beside(options.file) / f"{before[scenario, file]}.gz",
                                                 kept / f"{now[scenario, file]}.gz"))
            else:
                print(f"{scenario}: {file}: only {'before' if (scenario, file) in before else 'now'}")
    print(f"{len(known)} runs, {len(before)} files: {len(different)} files differ, {len(failed)} runs failed")
    return DIFFERENT if different or failed else 0


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("command", choices=("write", "check"))
    parser.add_argument("file", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--only", default="*", metavar="GLOB", help="only runs with a matching name: scenario, values of a sweep's point, options")
    parser.add_argument("--quick", action="store_true", help=f"leave out runs that take more than {QUICK_S} s")
    parser.add_argument("--jobs", type=positive, default=runner.WORKERS, metavar="N", help="parallel runs (default: number of processors)")
    parser.add_executables()
    options = parser.parse_args(arguments)
    options.bin = options.bin.resolve()
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    try:
        with one_line("digests.py", InputError, complete=True):
            sys.exit({"write": write, "check": check}[options.command](options))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()

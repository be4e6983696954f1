"""Mutated scenarios, model configs, datasheets, traces, profile bundles, sweep files and arguments.

For any input, an executable must end with a result (status 0), a one-line error in UTF-8 (status 2), or a report of a stalled
run (status 3). It must not be killed by a signal, run forever, or print impossible figures.
"""

import json
import math
import pathlib
import random
from dataclasses import dataclass

from . import bases, cases, mutate
from .cases import Done, Failure

LONGEST_RUN_S = 18000
STATUSES = (0, 2, 3)
INTERRUPTED = (128 + 15, -15)
OPTIONS = (["--why"], ["--timeline"], ["--vcd"], ["--vcd", "--vcd-level", "summary"], ["--jobs", "none"], ["--vcd", "--vcd-window", "0,1ms"])
LOOKS = (["--check"], ["--describe"], ["--describe", "--json"], ["--explain"], ["--explain", "--json"])
ODD_OPTIONS = (["--vcd-window", "5,1"], ["--vcd", "--vcd-window", "nan,inf"], ["--vcd", "--vcd-filter", "[*"], ["--jobs", "some"], ["--sett"],
               ["--out"], ["--set"], ["--set", "="], ["--set", "a.b.c"], ["--schema", "x"], ["--vcd-level", "all"], ["-x"], ["--json"],
               ["--set", "workload=[" * 40], ["--out", "/proc/none/x"], ["--out", "s.yaml"], ["\udcff\n\x1b[1m"], ["--set", "a\udcfe\n=\udcff"])


@dataclass
class Case:
    """The files of a case in a folder, and the command that reads these files."""

    command: list[str]
    scenario: str = "s.yaml"


def make(rng: random.Random, folder: pathlib.Path, executables: pathlib.Path, grammar: mutate.Grammar, known: list[bases.Base]) -> Case:
    base = rng.choice(known)
    scenario: object = base.scenario
    files = dict(base.files)
    sets: list[str] = []
    arguments: list[str] = []
    way = rng.random()
    if way < 0.35:  # keys of the grammar, in the file
        for _ in range(rng.choice((1, 1, 2, 3, 5))):
            scenario = mutate.with_key(scenario, *grammar.setting(rng))
    elif way < 0.55:  # the same by --set
        for _ in range(rng.choice((1, 1, 2, 3))):
            key, value = grammar.setting(rng)
            sets += ["--set", f"{'.'.join(key)}={json.dumps(value)}".replace("\0", " ")]
    elif way < 0.65:
        for _ in range(rng.choice((1, 2, 3))):
            scenario = mutate.tree(rng, scenario)
    content = mutate.dumped(rng, scenario)
    if 0.65 <= way < 0.72:
        content = mutate.text(rng, content)
    bases.write(folder, files | {"s.yaml": content})
    if 0.72 <= way < 0.92 and files:  # what the scenario names
        name = rng.choice(sorted(files))
        path = folder / name
        if isinstance(files[name], (dict, list)) and rng.random() < 0.6:
            path.write_bytes(mutate.dumped(rng, mutate.tree(rng, files[name])))
        elif rng.random() < 0.85:
            path.write_bytes(mutate.text(rng, path.read_bytes()))
        else:
            mutate.whole_file(rng, path)
    elif 0.92 <= way < 0.95:
        mutate.whole_file(rng, folder / "s.yaml")
    elif way >= 0.95:
        arguments = list(rng.choice(ODD_OPTIONS))
    looks = rng.random() < 0.2
    command = [str(executables / base.platform), *base.arguments, "--quiet", *sets, *arguments]
    if looks:
        return Case(command + rng.choice(LOOKS))
    if rng.random() < 0.3:
        command += rng.choice(OPTIONS)
    return Case([*command, "--out", "out"])


def line_of(stderr: bytes, status: int) -> str | None:
    """The fault in the error output of a command; None if there is none."""
    try:
        text = stderr.decode("utf-8")
    except UnicodeDecodeError:
        return "a message that is not UTF-8"
    lines = text.split("\n")
    if any(not c.isprintable() and c != "\n" for c in text):
        return "a message with control characters"
    if status == 0 and text:
        return "a message beside a result"
    if status == 2 and (len(lines) != 2 or lines[1]):
        return "a refusal of no line, or several"
    if status in (2, 3) and "error: " not in lines[0]:
        return "a message that does not say error"
    if any(len(line) > 20000 for line in lines):
        return "a message without end"
    return None


def figures(summary: object, at: str = "") -> str | None:
    """Faults in the figures of a summary."""
    if isinstance(summary, dict):
        found = (figures(value, f"{at}.{key}") for key, value in summary.items() if key != "simulator")
        return next((wrong for wrong in found if wrong), None)
    if isinstance(summary, list):
        return next((wrong for wrong in (figures(value, f"{at}[]") for value in summary) if wrong), None)
    if isinstance(summary, (int, float)) and not isinstance(summary, bool):
        name = at.rsplit(".", 1)[-1]
        if not math.isfinite(summary):
            return f"{at} is not finite"
        if "utilisation" in at and not 0 <= summary <= 1 + 1e-9:
            return f"{at} is no share"
        if name.endswith("_s") and summary < 0:
            return f"{at} is negative"
        if name in ("end_s", "ttft_s", "tpot_s", "layer_s") and summary > LONGEST_RUN_S:
            return f"{at} is longer than a run"
    return None


def judge(done: Done, folder: pathlib.Path) -> tuple[str, Failure | None]:
    """The outcome of a command in one or two words, and its fault."""
    said = done.stderr.decode("utf-8", "backslashreplace")
    if done.hung:
        return "hung", Failure("hung", "does not end, nor when it is asked to")
    if done.cut_short and done.status in INTERRUPTED:
        return "too long", None
    if done.status not in STATUSES:
        what = next((line for line in said.splitlines() if "rror:" in line or "Fatal" in line or "Assertion" in line), said)
        where = next((line for line in said.splitlines() if "railyard" in line and line.lstrip().startswith("#")), "")
        return f"status {done.status}", Failure(f"status {done.status}: {cases.signature(what)} {cases.signature(where)}", said)
    how = f"status {done.status}"
    if wrong := line_of(done.stderr, done.status):
        return how, Failure(f"{how}: {wrong}", said)
    if list(folder.glob("*.partial-*")):
        return how, Failure(f"{how}: leaves a partial folder", said)
    path = folder / "out" / "summary.json"
    if "--out" in done.command and done.command[-1] == "out" and path.exists() != (done.status != 2):
        return how, Failure(f"{how}: {'a' if path.exists() else 'no'} summary.json", said)
    if path.exists():
        try:
            text = path.read_text(encoding="utf-8")
            wrong = figures(json.loads(text, parse_constant=lambda word: math.nan))
        except ValueError as error:
            wrong = f"summary.json cannot be read: {error}"
        if wrong:
            return how, Failure(f"{how}: {cases.signature(wrong)}", f"{wrong}\n{said}")
    return how, None

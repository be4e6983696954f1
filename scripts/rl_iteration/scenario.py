"""The file of an iteration: a scenario with two workloads, `rollouts` and `training`, and the section `rl`.

A phase is a scenario of its own. Its text is the file's, with the other sections blank and the name of its workload replaced: `rollouts`,
`training` and `workload` have eight letters, so the executable names the lines and columns of the file.
"""

import json
import os
import pathlib
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field

from lib import yaml_source
from lib.runner import set_options
from lib.words import nearest
from lib.yaml_source import InputError, Value
from sweeping.plan import names_input

PHASES = {"rollouts": "serving", "training": "training"}  # and the kind of each workload
SCHEDULES = {"alternating": "rollouts wait for the training, and the training for rollouts",
             "asynchronous": "the next rollouts are made during the training, with weights that are one iteration older"}
KEYS = ("schedule", "groups", "logprob_passes", "updates", "bucket_mib", "offload")
MIB = 1 << 20
BUCKET_MIB = 512  # slime's default of --update-weight-buffer-size
LOGPROB_PASSES = 2  # of verl's GRPO: log-probabilities of the old policy, and of the reference
MOST = 1 << 20


@dataclass(frozen=True)
class Iteration:
    """The section `rl`."""

    schedule: str = "alternating"
    groups: dict[str, list[str]] = field(default_factory=dict)  # of the machine, by phase
    logprob_passes: int = LOGPROB_PASSES
    updates: int | None = None  # optimizer steps; None: by tokens
    bucket_bytes: int = BUCKET_MIB * MIB
    offload: bool = True


@dataclass(frozen=True)
class Phase:
    """A scenario of the executable."""

    name: str
    text: str
    settings: dict[str, object]

    @property
    def section(self) -> str:
        return self.name if self.name in PHASES else "workload"


class Scenario:
    """@throws InputError naming file, line and column"""

    def __init__(self, path: pathlib.Path, settings: dict[str, object], executables: pathlib.Path) -> None:
        self.path, self.settings = path, settings
        self.top = yaml_source.read(path)
        self.lines = path.read_text(encoding="utf-8").splitlines()
        self.fields = dict((key, value) for key, _, value in self.top.items("a scenario"))
        for name, kind in PHASES.items():
            self._check_workload(name, kind)
        if "workload" in self.fields:
            raise self.fields["workload"].wrong(f"workload: an iteration has two; accepted: {' and '.join(PHASES)}")
        self.platform = str(settings.get("platform") or self._platform())
        self.executable = executables.resolve() / self.platform
        if os.path.basename(self.platform) != self.platform or not os.access(self.executable, os.X_OK):
            raise self.fields.get("platform", self.top).wrong(f"platform: no executable '{self.platform}' in {executables}")
        self.iteration = self._iteration()

    def _platform(self) -> str:
        if "platform" not in self.fields:
            raise self.top.wrong("platform: is missing")
        return self.fields["platform"].text("platform")

    def _check_workload(self, name: str, kind: str) -> None:
        if name not in self.fields:
            raise self.top.wrong(f"{name}: is missing: a workload of kind {kind}")
        fields = {key: value for key, _, value in self.fields[name].items(name)}
        said = fields["kind"].text(f"{name}.kind") if "kind" in fields else "missing"
        if said != kind:
            raise fields.get("kind", self.fields[name]).wrong(f"{name}.kind is {said}; accepted: {kind}")
        if name == "training" and "placement" in fields:
            raise fields["placement"].wrong("training.placement: not accepted in an iteration; rank r runs on GPU r of its groups")

    def _iteration(self) -> Iteration:
        given = {key.partition(".")[2]: yaml_source.parse(value if isinstance(value, str) else json.dumps(value), f"--set {key}") for key, value in self.settings.items() if key.startswith("rl.")}
        for key in given:
            if key not in KEYS:
                raise InputError(f"rl.py: error: --set rl.{key}: unknown key{nearest(key, KEYS)}; accepted: {', '.join(KEYS)}")
        fields = (self.fields["rl"].fields("rl", KEYS) if "rl" in self.fields else {}) | given
        made = {}
        if "schedule" in fields:
            word = fields["schedule"].text("rl.schedule")
            if word not in SCHEDULES:
                raise fields["schedule"].wrong(f"rl.schedule: '{word}' is unknown{nearest(word, SCHEDULES)}; accepted: {', '.join(SCHEDULES)}")
            made["schedule"] = word
        for key, least in (("logprob_passes", 0), ("updates", 1), ("bucket_mib", 1)):
            if key in fields:
                number = fields[key].number(f"rl.{key}")
                if not isinstance(number, int) or not least <= number <= MOST:
                    raise fields[key].wrong(f"rl.{key}: expected an integer from {least} to {MOST}")
                made[key] = number
        if "bucket_mib" in made:
            made["bucket_bytes"] = made.pop("bucket_mib") * MIB
        if "offload" in fields:
            made["offload"] = fields["offload"].plain()
            if not isinstance(made["offload"], bool):
                raise fields["offload"].wrong("rl.offload: expected true or false")
        if "groups" in fields:
            made["groups"] = self._groups(fields["groups"])
        return Iteration(**made)

    @property
    def seed(self) -> int:
        """Of the first run of the rollouts."""
        seed = self.given("seed")
        return seed if isinstance(seed, int) else 1

    def given(self, key: str) -> object:
        """What the file or --set has for a key; None: nothing."""
        if key in self.settings:
            return self.settings[key]
        value = self.place(key)
        return value.plain() if value else None

    def place(self, key: str) -> Value | None:
        """A key's value in the file."""
        found: Value | None = self.top
        for word in key.split("."):
            found = {name: value for name, _, value in found.items(key)}.get(word) if found and found.is_mapping else None
        return found

    def wrong(self, key: str, message: str) -> InputError:
        """An error of a key, at its place, or at that of its section."""
        if key in self.settings:
            return InputError(f"--set {key}: error: {key}: {message}")
        return (self.place(key) or self.place(key.partition(".")[0]) or self.top).wrong(f"{key}: {message}")

    def machine_groups(self) -> dict[str, object]:
        """The groups of the machine as written."""
        machine = self.fields["machine"].plain() if "machine" in self.fields else {}
        return (machine or {}).get("groups") or {} if isinstance(machine, dict) else {}

    def _groups(self, value: Value) -> dict[str, list[str]]:
        known, found = list(self.machine_groups()), {}
        for phase, names in value.fields("rl.groups", list(PHASES)).items():
            found[phase] = []
            if not names.list(f"rl.groups.{phase}"):
                raise names.wrong(f"rl.groups.{phase}: expected at least one group; accepted: {', '.join(known)}")
            for entry in names.list(f"rl.groups.{phase}"):
                name = entry.text(f"rl.groups.{phase}")
                if name not in known:
                    raise entry.wrong(f"rl.groups.{phase}: the machine has no group '{name}'{nearest(name, known)}; accepted: {', '.join(known) or 'none: machine.groups is missing'}")
                found[phase].append(name)
        return found

    # -- phases

    def phase(self, name: str) -> Phase:
        """The scenario of a workload."""
        text = self._text(name)
        settings: dict[str, object] = {}
        for key, leaf in yaml_source.leaves(yaml_source.parse(text, str(self.path))):
            if names_input(key, leaf) and (self.path.parent / leaf).exists():
                settings[key] = str((self.path.parent / leaf).resolve())
        groups = self.machine_groups()
        kept = self.iteration.groups.get(name)
        if kept is not None and set(kept) != set(groups):
            settings["machine.groups"] = {group: groups[group] for group in groups if group in kept}
        for key, value in self.settings.items():
            section, _, below = key.partition(".")
            if section == name:
                settings[f"workload.{below}"] = value
            elif section not in (*PHASES, "rl", "platform"):
                settings[key] = value
        return Phase(name, text, settings)

    def of_trace(self, workload: dict[str, object]) -> Phase:
        """A scenario of another workload on the whole machine. Buckets are large, so rates are fluid unless the file says otherwise (docs/rl.md)."""
        machine = {key: value for key, value in self.fields.items() if key not in (*PHASES, "rl", "model", "workload")}
        text = json.dumps({key: value.plain() for key, value in machine.items()} | {"workload": workload}, indent=1)
        fidelity = {} if self.given("fabric.fidelity") else {"fabric.fidelity": "fluid"}
        return Phase("weights", text, fidelity | {key: value for key, value in self.settings.items() if key.partition(".")[0] not in (*PHASES, "rl", "platform", "model")})

    def _text(self, name: str) -> str:
        """The file without the sections of others."""
        lines = list(self.lines)
        starts = [(key, where.node.start_mark.line) for key, where, _ in self.top.items("a scenario")]
        if len({line for _, line in starts}) < len(starts):
            raise self.top.wrong("expected each key of the top level on a line of its own")
        ends = [line for _, line in starts[1:]] + [len(lines)]
        for (key, start), end in zip(starts, ends):
            if key == name:
                lines[start] = lines[start].replace(key, "workload", 1)
            elif key in (*PHASES, "rl"):
                lines[start:end] = [""] * (end - start)
        return "\n".join(lines) + "\n"

    def said(self, phase: Phase, *words: str) -> str:
        """What the executable prints about a phase. @throws InputError with its line, at the place in the file"""
        command = [str(self.executable), "/dev/stdin", *set_options(phase.settings), *words]
        done = subprocess.run(command, input=phase.text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InputError(self.of_file(phase, next((line for line in done.stderr.splitlines() if "error:" in line), f"{self.executable}: exit status {done.returncode}")))
        return done.stdout

    def of_file(self, phase: Phase, line: str) -> str:
        """A message of the executable in the words of the file."""
        line = re.sub(r"^\S*(/dev/stdin|scenario\.yaml):", f"{self.path}:", line)
        return re.sub(r"\bworkload\.", f"{phase.section}.", line)


def settings_of(texts: Iterable[str]) -> dict[str, object]:
    """@throws InputError"""
    found = yaml_source.settings_of("rl.py", texts)
    for key in found:
        if key.partition(".")[0] == "workload":
            raise InputError(f"rl.py: error: --set {key}: an iteration has two workloads; accepted: rollouts.KEY, training.KEY, rl.KEY, and keys of both, as machine.KEY")
    return found

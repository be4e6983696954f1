"""The targets of the fuzzer. A target makes case N of a seed, runs the case in a scratch folder, and checks its outcome."""

import json
import pathlib
import shutil
import subprocess
from dataclasses import dataclass

from . import bases, cases, folding, importers, inputs, machines, mutate, outputs, passes, properties, replays, scenarios


@dataclass
class Attempt:
    """`folder` contains the files of a failed case. The keeper removes the folder."""

    how: str
    commands: list[list[str]]
    failure: cases.Failure | None
    folder: pathlib.Path


class Target:
    """A target that can run in a process pool. It is copied to each process."""

    name = ""

    def __init__(self, scratch: pathlib.Path, executables: pathlib.Path, seed: int) -> None:
        self.scratch = scratch
        self.executables = executables
        self.seed = seed
        self.limit_memory = not cases.sanitized(executables / "plx_box")
        self.patience_s = cases.PATIENCE_S if self.limit_memory else 6 * cases.PATIENCE_S

    def attempt(self, number: int) -> Attempt:
        folder = self.scratch / str(number)
        folder.mkdir()
        made = self.tried(number, folder)
        if made.failure is None:
            shutil.rmtree(folder, ignore_errors=True)
        return made

    def tried(self, number: int, folder: pathlib.Path) -> Attempt:
        raise NotImplementedError


class Inputs(Target):
    name = "inputs"

    def __init__(self, scratch: pathlib.Path, executables: pathlib.Path, seed: int) -> None:
        super().__init__(scratch, executables, seed)
        schema = subprocess.run([executables / "plx_box", "--schema"], capture_output=True, text=True, check=True).stdout
        self.grammar = mutate.Grammar(json.loads(schema))
        self.known = bases.bases()

    def tried(self, number: int, folder: pathlib.Path) -> Attempt:
        rng = cases.generator(self.name, self.seed, number)
        case = inputs.make(rng, folder, self.executables, self.grammar, self.known)
        done = cases.run(case.command, folder, self.patience_s, self.limit_memory)
        how, failure = inputs.judge(done, folder)
        if failure:
            failure.files |= {"STDERR": done.stderr, "STDOUT": done.stdout}
        return Attempt(how, [done.command], failure, folder)


class Outputs(Target):
    name = "outputs"

    def __init__(self, scratch: pathlib.Path, executables: pathlib.Path, seed: int) -> None:
        super().__init__(scratch, executables, seed)
        self.ready = scratch / "ready"
        outputs.prepare(self.ready, executables)

    def tried(self, number: int, folder: pathlib.Path) -> Attempt:
        rng = cases.generator(self.name, self.seed, number)
        how, commands, failure = outputs.attempt(rng, self.ready, folder, self.executables)
        return Attempt(how, commands, failure, folder)


class Importers(Target):
    name = "importers"

    def tried(self, number: int, folder: pathlib.Path) -> Attempt:
        return Attempt(*importers.attempt(cases.generator(self.name, self.seed, number), folder), folder)


class Scenarios(Target):
    name = "scenarios"

    def tried(self, number: int, folder: pathlib.Path) -> Attempt:
        return Attempt(*scenarios.attempt(cases.generator(self.name, self.seed, number), folder, self.executables), folder)


class Machines(Target):
    name = "machines"

    def tried(self, number: int, folder: pathlib.Path) -> Attempt:
        rng = cases.generator(self.name, self.seed, number)
        platform, scenario, files = machines.machine(rng)
        bases.write(folder, files | {"s.yaml": scenario})
        checked = properties.Checked(folder, self.executables / platform, scenario["workload"]["kind"], self.patience_s, self.limit_memory)
        how, failure = checked.attempt()
        return Attempt(how, checked.commands, failure, folder)


class Folding(Target):
    name = "folding"

    def tried(self, number: int, folder: pathlib.Path) -> Attempt:
        platform, scenario, files = folding.scenario(cases.generator(self.name, self.seed, number))
        bases.write(folder, files | {"s.yaml": scenario})
        compared = folding.Compared(folder, self.executables / platform, scenario["workload"]["kind"], self.patience_s, self.limit_memory)
        how, failure = compared.attempt()
        return Attempt(how, compared.commands, failure, folder)


class OneOrTheOther(Target):
    """The same scenario in two ways."""

    ways = passes

    def tried(self, number: int, folder: pathlib.Path) -> Attempt:
        platform, scenario, files = self.ways.scenario(cases.generator(self.name, self.seed, number))
        bases.write(folder, files | {"s.yaml": scenario})
        compared = self.ways.Compared(folder, self.executables / platform, self.patience_s, self.limit_memory)
        how, failure = compared.attempt()
        return Attempt(how, compared.commands, failure, folder)


class Passes(OneOrTheOther):
    name, ways = "passes", passes


class Replays(OneOrTheOther):
    name, ways = "replays", replays


TARGETS = {target.name: target for target in (Inputs, Outputs, Importers, Scenarios, Machines, Folding, Passes, Replays)}


def keeper(options, tell) -> cases.Keeper:
    return cases.Keeper(options.out, options.target, options.seed, tell)


def note(kept: cases.Keeper, number: int, attempt: Attempt, whole: bool) -> None:
    kept.ended(attempt.how)
    if attempt.failure:
        kept.failed(number, attempt.folder, attempt.commands, attempt.failure)
    elif whole:
        kept.tell(f"case {number}: {attempt.how}")
    shutil.rmtree(attempt.folder, ignore_errors=True)

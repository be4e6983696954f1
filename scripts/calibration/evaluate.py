"""Kernel times from the platform executable, for many variants of one datasheet in one run: each variant is a group."""

import itertools
import json
import pathlib
import subprocess

import numpy

from lib import run_files

from .datasheet import Datasheet

PLATFORM = "plx_box"  # accepts every GPU datasheet; the kernels use no links


class EvaluationError(Exception):
    """The message of the executable."""


class Evaluator:
    """`kernels` are entries of workload.kernels; runs happen in `directory`."""

    def __init__(self, datasheet: Datasheet, kernels: list[dict], executables: pathlib.Path, directory: pathlib.Path) -> None:
        self.datasheet = datasheet
        self.kernels = kernels
        self.executable = executables / PLATFORM
        self.directory = directory

    def write_variant(self, number: int, constants: dict) -> pathlib.Path:
        """Writes the GPU's datasheet with other constants, by dotted key."""
        sheet = self.datasheet.copy(self.directory / f"variant{number}.yaml")
        for key, value in constants.items():
            sheet.set(key, value)
        sheet.write()
        return sheet.path

    def times(self, variants: list[dict]) -> numpy.ndarray:
        """Seconds of every kernel (columns) with each variant's constants, by dotted key (rows)."""
        groups = {}
        for number, constants in enumerate(variants):
            groups[f"variant{number}x"] = {"servers": 1, "gpu": self.write_variant(number, constants).name}
        scenario = {"schema_version": 1, "platform": PLATFORM, "machine": {"groups": groups},
                    "workload": {"kind": "kernel", "kernels": self.kernels}}
        (self.directory / "scenario.yaml").write_text(json.dumps(scenario), encoding="utf-8")
        try:
            done = subprocess.run([self.executable, "scenario.yaml", "--quiet", "--out", "out"], cwd=self.directory, capture_output=True,
                                  text=True, check=False)
        except OSError as error:
            raise EvaluationError(f"{self.executable}: {error.strerror}; build it, or say where with --bin") from error
        if done.returncode:
            raise EvaluationError(done.stderr.strip())
        rows = run_files.table(self.directory / "out" / "kernels.csv", {"time_us": run_files.number}, "the kernels of a run")
        times = [row["time_us"] * 1e-6 for row in rows]
        return numpy.array(times).reshape(len(variants), len(self.kernels))


class Table:
    """Measured rows of one GPU, each a sum of kernels: its measured `seconds`, and the kernels that it sums."""

    def __init__(self, measured: list[tuple[list[dict], float]]) -> None:
        index = {}
        self.rows = [[index.setdefault(json.dumps(kernel, sort_keys=True), len(index)) for kernel in kernels] for kernels, _ in measured]
        self.kernels = [json.loads(text) for text in index]
        self.seconds = numpy.array([seconds for _, seconds in measured])
        self._starts = list(itertools.accumulate((len(row) for row in self.rows), initial=0))[:-1]
        self._flat = list(itertools.chain.from_iterable(self.rows))

    def errors(self, times: numpy.ndarray) -> numpy.ndarray:
        """ln(model / measured) of every row (columns) for each variant (rows)."""
        return numpy.log(numpy.add.reduceat(times[:, self._flat], self._starts, axis=1) / self.seconds)

"""Two runs of a scenario, of which one computes what the other takes from before: they must write the same bytes."""

import json
import pathlib

from . import cases
from .cases import Failure

WITHOUT = ("command.txt", "scenario.yaml", "timeline.json.gz")  # what differs by the way of the run


def results(folder: pathlib.Path) -> dict[str, object]:
    """All that a run writes, without its command and the simulator's own figures."""
    files: dict[str, object] = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in WITHOUT}
    summary = json.loads(files["summary.json"])
    summary.pop("simulator")
    return files | {"summary.json": summary}


def simulator(folder: pathlib.Path) -> dict:
    return json.loads((folder / "summary.json").read_text())["simulator"]


class Compared:
    """@param ways  options of the run that saves work, and of the one that does not, by the name of its folder"""

    def __init__(self, folder: pathlib.Path, executable: pathlib.Path, patience_s: float, limit_memory: bool, ways: dict[str, list[str]]) -> None:
        self.folder, self.patience_s, self.limit_memory, self.ways = folder, patience_s, limit_memory, ways
        self.command = [str(executable), "s.yaml", "--quiet"]
        self.commands: list[list[str]] = []

    def run(self, way: str) -> cases.Done:
        command = [*self.command, "--out", way, *self.ways[way]]
        self.commands.append(command)
        return cases.run(command, self.folder, self.patience_s, self.limit_memory)

    def outcome(self, figures: dict) -> str:
        """What is said of equal runs. @param figures  the simulator's own, of the run that saves work"""
        raise NotImplementedError

    def attempt(self) -> tuple[str, Failure | None]:
        first, second = self.ways
        runs = {way: self.run(way) for way in self.ways}
        if any(done.cut_short for done in runs.values()):
            return "too long", None
        if runs[first].status != runs[second].status:
            return "unlike", Failure("one way ends otherwise than the other", f"{runs[first].status}, {runs[second].status}")
        said = runs[first].stderr.decode("utf-8", "backslashreplace")
        if runs[first].status == 2:
            return f"refused: {cases.signature(said)}", None
        if runs[first].status != 0:
            return f"status {runs[first].status}", Failure(f"status {runs[first].status}: {cases.signature(said)}", said)
        saved, whole = (results(self.folder / way) for way in self.ways)
        if saved != whole:
            names = sorted(name for name in saved.keys() | whole.keys() if saved.get(name) != whole.get(name))
            return "unlike", Failure(f"runs differ: {first} and {second}", ", ".join(names))
        return self.outcome(simulator(self.folder / first)), None

"""Properties that every correct machine model has.

  the same      a repeated run gives byte-identical results, also with any observer: waveform, timeline, causes
  conservation  if all messages go from GPU to GPU, the bytes sent, the bytes received and the bytes of the messages are equal
  alone         messages of a class take at least the time that they take without the other classes
  why           the costs of a metric add up to the metric; without one cost, the metric is between zero and its original value
  progress      a run that stalls reports lost bytes, or which jobs wait for which; without failed links, no run stalls
  fluid         with fluid links, the end time differs from the end time with trains by at most a factor
"""

import csv
import json
import pathlib
from collections.abc import Iterator

from . import cases
from .cases import Failure

OBSERVERS = {"again": [], "vcd": ["--vcd"], "timeline": ["--timeline"], "why": ["--why"], "all": ["--vcd", "--timeline", "--why"]}
OBSERVERS_FILES = ("trace.", "timeline.", "why.")
NO_CAUSES = ("p2p", "kernel", "overlap")  # kinds without --why
FLUID_FACTOR = 1.6
EXACT = 1e-9


def results(folder: pathlib.Path) -> dict[str, object]:
    """The contents of the files that must be byte-identical, by file."""
    found: dict[str, object] = {}
    for path in sorted(folder.iterdir()):
        if path.name == "summary.json":
            found[path.name] = {key: value for key, value in json.loads(path.read_text()).items() if key != "simulator"}
        elif path.suffix in (".csv", ".json") and not path.name.startswith(OBSERVERS_FILES):
            found[path.name] = path.read_bytes()
    return found


class Checked:
    """The check of one machine: its runs and their faults."""

    def __init__(self, folder: pathlib.Path, executable: pathlib.Path, kind: str, patience_s: float, limit_memory: bool) -> None:
        self.folder = folder
        self.command = [str(executable), "s.yaml", "--quiet", "--jobs", "all"]
        self.kind = kind
        self.patience_s = patience_s
        self.limit_memory = limit_memory
        self.commands: list[list[str]] = []

    def run(self, name: str, *options: str) -> cases.Done:
        command = [*self.command, "--out", name, *options]
        self.commands.append(command)
        return cases.run(command, self.folder, self.patience_s, self.limit_memory)

    def attempt(self) -> tuple[str, Failure | None]:
        done = self.run("plain")
        how = f"status {done.status}"
        said = done.stderr.decode("utf-8", "backslashreplace")
        if done.cut_short:
            return "too long", None
        if done.hung or done.status not in (0, 2, 3):
            return how, Failure(f"{how}: {cases.signature(said)}", said)
        if done.status == 2:
            return how, None  # a machine that is not right after all
        if done.status == 3:
            return how, Failure("does not progress", said)
        for wrong in self.wrongs():
            return how, wrong
        return how, None

    def wrongs(self) -> Iterator[Failure]:
        plain = results(self.folder / "plain")
        summary = plain["summary.json"]
        yield from self.alone(summary)
        yield from self.conservation(summary)
        for name, options in OBSERVERS.items():
            if self.kind in NO_CAUSES and "--why" in options:
                options = [option for option in options if option != "--why"]
                if not options:
                    continue
            done = self.run(name, *options)
            if done.status != 0:
                yield Failure(f"with {name}: status {done.status}", done.stderr.decode("utf-8", "backslashreplace"))
                return
            seen = results(self.folder / name)
            differing = [file for file in plain if seen.get(file) != plain[file]]
            if differing:
                yield Failure(f"not the same with {name}: {', '.join(differing)}", "")
        if self.kind not in NO_CAUSES:
            yield from self.why(json.loads((self.folder / "why" / "why.json").read_text()))
        if summary.get("fidelity") == "train":
            yield from self.fluid(summary)

    def alone(self, summary: dict) -> Iterator[Failure]:
        for row in summary["traffic"]:
            if row["messages"] and row["mean_actual_s"] < row["mean_uncontended_s"] * (1 - EXACT):
                yield Failure(f"messages of {row['class']} faster than alone", json.dumps(row))

    def conservation(self, summary: dict) -> Iterator[Failure]:
        """Counts bytes on the links of GPUs, found by name. Skips p2p, in-switch reductions and multicasts: not all bytes go from GPU to GPU."""
        algorithms = self.algorithms()
        if self.kind == "p2p" or "" in algorithms or algorithms & {"nvls", "nvls_tree"}:
            return
        with (self.folder / "plain" / "links.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["name"].startswith(("GPU_", "NVLink_"))]
        direct = sum(int(row["bytes"]) for row in rows if row["name"].startswith("NVLink_") and "_Plane[" not in row["name"])  # from GPU to GPU
        others = [row for row in rows if row["name"].startswith("GPU_") or "_Plane[" in row["name"]]
        sent = direct + sum(int(row["bytes"]) for row in others if row["direction"] == "tx")
        taken = direct + sum(int(row["bytes"]) for row in others if row["direction"] == "rx")
        moved = sum(row["bytes"] for row in summary["traffic"])
        if sent != taken or sent < moved:
            yield Failure("what GPUs send, take and mean differs", f"sent {sent}, taken {taken}, messages {moved}")

    def algorithms(self) -> set[str]:
        """The algorithms of the collectives, if a table names them."""
        found: set[str] = set()
        for name in ("collectives.csv", "layer.csv"):
            path = self.folder / "plain" / name
            if path.exists():
                with path.open(newline="") as file:
                    found |= {row["algorithm"] for row in csv.DictReader(file) if row.get("algorithm")}
        return found

    def why(self, why: dict) -> Iterator[Failure]:
        for path in why["paths"]:
            mean, costs = path["mean_s"], sum(part["path_s"] for part in path["costs"])
            if abs(costs - mean) > 1e-6 * mean + 1e-14:
                yield Failure("costs do not add up", f"{path['metric']}: {mean} s, costs {costs} s")
            for view in ("costs", "kernels", "stragglers", "hosts", "classes", "links"):
                for part in path[view]:
                    # Time per token lies between two instants, which a faster machine may move apart.
                    if path["metric"] != "tpot_s" and part["without_s"] is not None and not -1e-14 <= part["without_s"] <= mean * (1 + EXACT) + 1e-14:
                        yield Failure(f"a metric without one of its {view} is not between nothing and itself", f"{path['metric']}: {mean} s, {part}")

    def fluid(self, summary: dict) -> Iterator[Failure]:
        done = self.run("fluid", "--set", "fabric.fidelity=fluid")
        if done.status != 0:
            yield Failure(f"fluid: status {done.status}", done.stderr.decode("utf-8", "backslashreplace"))
            return
        end = json.loads((self.folder / "fluid" / "summary.json").read_text())["metrics"]["end_s"]
        ratio = end / summary["metrics"]["end_s"]
        if not 1 / FLUID_FACTOR <= ratio <= FLUID_FACTOR:
            yield Failure("fluid and trains are far apart", f"end with fluid / with trains = {ratio:.3f}")

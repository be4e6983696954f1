"""Times of collectives on an idle machine, simulated one by one (`workload.kind: collective`) and kept in OUT/alone.json."""

import csv
import hashlib
import json
import pathlib
import subprocess
import tempfile
from dataclasses import asdict, dataclass

from lib import run_files, written
from sweeping.identity import contents


KEPT = "times of collectives; delete it to simulate them again"  # OUT/alone.json


@dataclass(frozen=True)
class Alone:
    time_s: float
    channels: int  # thread blocks on each GPU


NOTHING = Alone(0.0, 0)


class Collectives:
    """Asks a platform executable about collectives on the machine of a scenario."""

    def __init__(self, executable: pathlib.Path, scenario: dict, store: pathlib.Path) -> None:
        self.executable, self.store = executable, store
        self.machine = {key: scenario[key] for key in ("schema_version", "platform", "machine") if key in scenario}
        self.machine["fabric"] = scenario.get("fabric", {}) | {"fidelity": "fluid"}  # large ones take a twentieth of the time
        self.base = [contents(str(executable)), self.machine]
        kept = run_files.json_file(store, {None: {"time_s": float, "channels": int}}, KEPT) if store.exists() else {}
        self.known = {key: Alone(found["time_s"], found["channels"]) for key, found in kept.items()}
        self.asked = len(self.known)

    def alone(self, operation: str, gpus: tuple[int, ...], size: int) -> Alone:
        """@param size  bytes as nccl-tests count them; fewer than two GPUs send nothing"""
        if len(gpus) < 2 or size <= 0:
            return NOTHING
        workload = {"kind": "collective", "op": operation, "sizes_bytes": [size], "ranks": list(gpus)}
        key = hashlib.sha256(json.dumps([self.base, workload], sort_keys=True).encode()).hexdigest()[:16]
        if key not in self.known:
            self.known[key] = self._run(workload)
        return self.known[key]

    def seconds(self, operation: str, gpus: tuple[int, ...], size: int) -> float:
        return self.alone(operation, gpus, size).time_s

    def keep(self) -> None:
        """Writes what was asked."""
        if len(self.known) != self.asked:
            written.text(self.store, json.dumps({key: asdict(found) for key, found in self.known.items()}))

    def _run(self, workload: dict) -> Alone:
        with tempfile.TemporaryDirectory() as folder:
            scenario = pathlib.Path(folder, "collective.yaml")
            scenario.write_text(json.dumps(self.machine | {"workload": workload}), encoding="utf-8")
            command = [str(self.executable), str(scenario), "--quiet", "--out", str(pathlib.Path(folder, "out"))]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise CollectiveError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}")
            with open(pathlib.Path(folder, "out", "collectives.csv"), encoding="utf-8", newline="") as file:
                [row] = csv.DictReader(file)
            return Alone(1e-6 * float(row["time_us"]), int(row["channels"]))


class CollectiveError(Exception):
    """The executable's message."""

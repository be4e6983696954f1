"""Times of collectives on an idle machine, simulated one by one (`workload.kind: collective`) and kept in OUT/collectives.json."""

import hashlib
import json
import pathlib
import subprocess
import tempfile

from sweeping.identity import contents


class Collectives:
    """Asks a platform executable about collectives on the machine of a scenario."""

    def __init__(self, executable: pathlib.Path, scenario: dict, store: pathlib.Path) -> None:
        self.executable, self.store = executable, store
        self.machine = {key: scenario[key] for key in ("schema_version", "platform", "machine", "fabric") if key in scenario}
        self.base = [contents(str(executable)), self.machine]
        self.known: dict[str, float] = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
        self.asked = len(self.known)

    def seconds(self, operation: str, gpus: tuple[int, ...], size: int) -> float:
        """@param size  bytes as nccl-tests count them; 0.0 for fewer than two GPUs, which send nothing"""
        if len(gpus) < 2 or size <= 0:
            return 0.0
        workload = {"kind": "collective", "op": operation, "sizes_bytes": [size], "ranks": list(gpus)}
        key = hashlib.sha256(json.dumps([self.base, workload], sort_keys=True).encode()).hexdigest()[:16]
        if key not in self.known:
            self.known[key] = self._run(workload)
        return self.known[key]

    def keep(self) -> None:
        """Writes what was asked."""
        if len(self.known) != self.asked:
            self.store.write_text(json.dumps(self.known), encoding="utf-8")

    def _run(self, workload: dict) -> float:
        with tempfile.TemporaryDirectory() as folder:
            scenario = pathlib.Path(folder, "collective.yaml")
            scenario.write_text(json.dumps(self.machine | {"workload": workload}), encoding="utf-8")
            command = [str(self.executable), str(scenario), "--quiet", "--out", str(pathlib.Path(folder, "out"))]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise CollectiveError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}")
            [seconds] = json.loads(pathlib.Path(folder, "out", "summary.json").read_text(encoding="utf-8"))["metrics"]["time_s"].values()
            return seconds


class CollectiveError(Exception):
    """The executable's message."""

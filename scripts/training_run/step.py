"""The step of a run, and what the run needs to know of its machine: all of it simulated, or said by the executable."""

import json
import math
import os
import pathlib
import re
import subprocess
from dataclasses import dataclass

from lib import run_files, runner, summaries, yaml_source
from lib.runner import set_options
from lib.yaml_source import InputError
from sweeping.plan import scenario_at

COPY_BYTES = 512 << 20  # of a copy of workload.test d2h
EXPLAINED = {
    "memory": [{"weights_bytes": float, "optimizer_bytes": float, "host_activations_bytes?": float, "host_state_bytes?": float}],
    "checkpoint": [{"weights_bytes": float, "optimizer_bytes": float}],
    "stages": [{"forward_kernels_s": float, "backward_kernels_s": float}],
}
MACHINE = {"devices": [{"name": str, "kind": str}], "links": [{"from": str, "gb_per_s": float}]}


class Failed(Exception):
    """A step could not run, in one line."""


@dataclass(frozen=True)
class Server:
    """Of the machine; all servers are alike."""

    gpus: int  # with ranks
    nics: int
    nic_gb_per_s: float
    copy_gb_per_s: float  # of a GPU to or from host memory, while all GPUs of the server copy
    host_bytes: float  # 0: not known

    @property
    def network_gb_per_s(self) -> float:
        return self.nics * self.nic_gb_per_s


@dataclass(frozen=True)
class Step:
    """A simulated step of a scenario."""

    summary: dict
    server: Server
    gpus: int  # with ranks
    servers: int
    saved: tuple[tuple[float, float], ...]  # bytes of weights and of optimizer in a checkpoint, by pipeline rank
    held: tuple[tuple[float, float], ...]  # the same on a GPU, by pipeline rank
    on_host_bytes: float  # of a rank, by the scenario's offload
    forward_share: float  # of the kernels' time
    first: dict[str, str]  # names of the first GPU, and of the first NIC's port, for events

    @property
    def seconds(self) -> float:
        return self.summary["metrics"]["step_s"]

    @property
    def setup(self) -> dict:
        return self.summary["setup"]

    @property
    def tokens(self) -> int:
        return self.setup["seq_tokens"] * self.setup["global_batch"]

    def evaluation_s(self, sequences: int) -> float:
        """The forward part of a step's time, for so many sequences: as if exchanges and bubbles were divided as the kernels are."""
        return self.seconds * self.forward_share * sequences / self.setup["global_batch"]

    @property
    def powers_w(self) -> tuple[float, float] | None:
        """Of all GPUs with ranks, in a step and without work; None if the executable does not say it."""
        metrics = summaries.metrics(self.summary)
        step_j, idle_j, end_s = (metrics.get(name) for name in ("energy.per_step_j", "energy.idle_j", "end_s"))
        return (step_j / self.seconds, idle_j / end_s) if step_j and idle_j and end_s else None

    @property
    def members(self) -> dict[str, int]:
        return {"gpu": self.gpus, "nic": self.servers * self.server.nics, "server": self.servers}


class Simulator:
    """Runs a training scenario and its variants into `folder`."""

    def __init__(self, path: pathlib.Path, settings: dict[str, object], executables: pathlib.Path, folder: pathlib.Path) -> None:
        """@throws InputError if the scenario is no training"""
        self.scenario = scenario_at(path.resolve())
        platform = settings.get("platform", self.scenario.platform)
        kind = settings.get("workload.kind", self.scenario.kind)
        if kind != "training":
            top = dict((key, value) for key, _, value in yaml_source.read(path).items("a scenario"))
            place = top.get("workload", yaml_source.read(path))
            raise place.wrong(f"workload.kind is {kind}; accepted: training")
        self.executable = executables.resolve() / str(platform)
        if not platform or not os.access(self.executable, os.X_OK):
            raise InputError(f"train_run.py: error: no platform executable '{platform}' in {executables}")
        self.path, self.platform, self.executables, self.folder = path, str(platform), executables, folder
        self.settings = self.scenario.inputs | {key: value for key, value in settings.items() if key != "platform"}

    def check(self) -> None:
        """@throws InputError with the executable's line"""
        self._said("--check")

    def _said(self, *words: str, scenario: pathlib.Path | None = None) -> str:
        """What the executable prints. @throws InputError with its line"""
        command = [str(self.executable), str(scenario or self.path), *([] if scenario else set_options(self.settings)), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InputError(next((line for line in done.stderr.splitlines() if "error:" in line), f"{self.executable}: exit status {done.returncode}"))
        return done.stdout

    def run(self, name: str, settings: dict[str, object], scenario: dict | None = None) -> pathlib.Path:
        """The outputs of a run. @throws Failed"""
        text, given = (scenario, {}) if scenario else (self.scenario.text, self.settings)
        point = runner.Point(name, self.platform, text, given | settings, options=() if scenario else ("--jobs", "none"))
        result, = runner.run([point], self.folder, self.executables, 1)
        if result.failed:
            raise Failed(f"{name}: {result.error}")
        return result.directory / "out"

    def step_s(self, name: str, settings: dict[str, object]) -> float:
        return summaries.read(self.run(name, settings) / "summary.json")["metrics"]["step_s"]

    def narrow_s(self, nic_gb_per_s: float) -> float:
        """A step whose NICs have this rate."""
        return self.step_s("step beside a write", {"machine.overrides.nic.gb_per_s": nic_gb_per_s})

    def slow_s(self, kind: str, name: str, rate_ratio: float) -> float:
        """A step in which this GPU, or the NIC of this port, runs at this share of its rate."""
        event = {"at_us": 0} | ({"gpu": name, "slow_ratio": rate_ratio} if kind == "gpu" else {"link": name, "rate_ratio": rate_ratio})
        given = self._plain().get("events") or []
        return self.step_s(f"step with a slow {kind} at {rate_ratio:g}", {"events": json.dumps([*given, event])})

    def _plain(self) -> dict:
        return yaml_source.parse(self.scenario.text, str(self.path)).plain()

    def step(self, finished: pathlib.Path | None) -> Step:
        """@param finished  outputs of a run of the scenario; None: it runs"""
        out = finished or self.run("step", {})
        summary = summaries.read(out / "summary.json")
        if summary["kind"] != "training" or not summary["complete"]:
            raise run_files.Error(out / "summary.json", "is not of a complete run of workload.kind training")
        explained = run_files.json_text_of(self.executable, self._said("--explain", "--json"), EXPLAINED, "what --explain says")
        machine = run_files.json_file(out / "machine.json", MACHINE, "the machine of a run")
        setup = summary["setup"]
        gpus = summary["simulation"]["represented_gpus"] if "simulation" in summary else sum(map(len, summary["memory"].values()))
        all_gpus = sum(group["gpus"] for group in setup["groups"].values())
        per_server = all_gpus // sum(group["servers"] for group in setup["groups"].values())
        servers = math.ceil(gpus / per_server)
        one = [device for device in machine["devices"] if device["name"].partition(".")[0] == machine["devices"][0]["name"].partition(".")[0]]
        nics = [device["name"] for device in one if device["kind"] == "nic"]
        first = {"gpu": next(device["name"] for device in one if device["kind"] == "gpu")} | ({"nic": f"{nics[0]}.network"} if nics else {})
        rates = [link["gb_per_s"] for link in machine["links"] if link["from"] == first.get("nic")]
        copy, host_bytes = self._copies()
        server = Server(min(gpus, per_server), len(nics), rates[0] if rates else 0.0, copy, host_bytes)
        both = [tuple((rank["weights_bytes"], rank["optimizer_bytes"]) for rank in explained[part]) for part in ("checkpoint", "memory")]
        on_host = max(rank.get("host_activations_bytes", 0) + rank.get("host_state_bytes", 0) for rank in explained["memory"])
        forward, backward = (sum(stage[f"{part}_kernels_s"] for stage in explained["stages"]) for part in ("forward", "backward"))
        return Step(summary, server, gpus, servers, both[0], both[1], on_host, forward / (forward + backward), first)

    def _copies(self) -> tuple[float, float]:
        """The rate of a GPU's copies to host memory while all GPUs of a server copy, in GB/s: the busiest link is busy all the time. And the
        bytes of host memory of a server."""
        machine = {key: value for key, value in (self._plain().get("machine") or {}).items() if key not in ("network", "groups", "modules")}
        groups = (self._plain().get("machine") or {}).get("groups") or {"node": {}}
        name, group = next(iter(groups.items()))
        scenario = {"schema_version": 1, "platform": self.platform, "machine": machine | {"groups": {name: (group or {}) | {"servers": 1}}},
                    "workload": {"kind": "p2p", "test": "d2h", "copy_bytes": COPY_BYTES}}
        of_machine = {key: value for key, value in self.settings.items() if key.startswith("machine.") and not re.match(r"machine\.(network\b|groups\.\w+\.servers$)", key)}
        out = self.run("copies to host memory", of_machine, scenario)
        busiest = max(link["busy_s"] for link in summaries.read(out / "summary.json")["links"])
        said = self._said("--list-parameters", scenario=out / "scenario.yaml")
        hosts = re.findall(r"^\w+\.host\d+\.bytes = (\d+)", said, re.MULTILINE)
        return COPY_BYTES / busiest * 1e-9, float(sum(map(int, hosts)))

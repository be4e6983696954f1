"""The GPUs of a plan, the machines that hold them, and the shapes of instances that fit into their memory."""

import json
import pathlib
import re
import subprocess
from dataclasses import dataclass, field

from lib.yaml_source import nearest

from .fleet import Fleet, Kind, Shape, Traffic

PLATFORMS = ("dgx_h100", "dgx_a100", "dgx_b200", "plx_box", "gb200_nvl72")  # one of them holds each GPU; eight GPUs if there is a choice
TP, PP = (1, 2, 4, 8), (1, 2, 4)
GB = 1e-9


class PlanError(Exception):
    """Bad input of a plan, or an empty space, in one line."""


@dataclass(frozen=True)
class Memory:
    """Of the rank that has least room for KV."""

    weight_bytes: int
    activation_bytes: int
    reserved_bytes: int
    usable_bytes: int
    kv_tokens: int  # of an instance

    @property
    def text(self) -> str:
        kv = self.usable_bytes - self.weight_bytes - self.activation_bytes - self.reserved_bytes
        parts = (("weights", self.weight_bytes), ("activations", self.activation_bytes), ("engine", self.reserved_bytes), ("KV", kv))
        return " + ".join(f"{name} {GB * size:.2f}" for name, size in parts) + f" = {GB * self.usable_bytes:.2f} GB"


@dataclass
class Space:
    fit: dict[tuple[Kind, Shape], Memory] = field(default_factory=dict)
    refused: dict[tuple[Kind, Shape], str] = field(default_factory=dict)  # with the executable's sum of memory, or its rule


def shipped(executables: pathlib.Path) -> list[str]:
    """The names of all GPUs, from the message about a name that does not exist."""
    for platform in PLATFORMS:
        if (executables / platform).exists():
            message = _asked(executables / platform, "-", "--check").stderr
            if found := re.search(r"shipped: ([^;]*);", message):
                return found[1].split(", ")
    raise PlanError(f"no platform executables in {executables}")


def _asked(executable: pathlib.Path, gpu: str, *words: str) -> subprocess.CompletedProcess:
    """What the executable says about a server with this GPU."""
    scenario = {"schema_version": 1, "platform": executable.name, "machine": {"groups": {"gpus": {"servers": 1, "gpu": gpu}}},
                "workload": {"kind": "p2p", "test": "matrix", "ranks": 2}}
    return subprocess.run([str(executable), "/dev/stdin", *words], input=json.dumps(scenario), capture_output=True, text=True, check=False)


def kind_of(word: str, names: list[str], executables: pathlib.Path) -> Kind:
    """@param word  a GPU, or the beginning of one name"""
    found = [word] if word in names else [name for name in names if name.startswith(f"{word}-")]
    if len(found) != 1:
        close = ", ".join(found) if found else ""
        raise PlanError(f"--gpus {word}: " + (f"several GPUs: {close}" if found else f"no such GPU{nearest(word, names)}; accepted: {', '.join(names)}"))
    for platform in PLATFORMS:
        executable = executables / platform
        if executable.exists() and (described := _asked(executable, found[0], "--describe", "--json")).returncode == 0:
            return Kind(found[0], platform, sum(device["kind"] == "gpu" for device in json.loads(described.stdout)["devices"]))
    raise PlanError(f"--gpus {found[0]}: no machine in {executables} holds it; tried: {', '.join(PLATFORMS)}")


def space_of(kinds: list[Kind], traffic: Traffic, executables: pathlib.Path, tp: tuple[int, ...], pp: tuple[int, ...]) -> Space:
    """Asks the executables about the memory of each shape."""
    space = Space()
    for kind in kinds:
        shapes = [Shape(t, p) for t in tp for p in pp if t * p <= kind.server_gpus]
        for shape in shapes:
            _ask(kind, shape, traffic, executables, space)
    return space


def _ask(kind: Kind, shape: Shape, traffic: Traffic, executables: pathlib.Path, space: Space) -> None:
    scenario = traffic.scenario(Fleet(kind, shape, 1))
    scenario = {key: value for key, value in scenario.items() if key != "schema_version"}
    words = [str(executables / kind.platform), "/dev/stdin", "--explain", "--json"]
    done = subprocess.run(words, input=json.dumps({"schema_version": 1} | scenario), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
        space.refused[kind, shape] = message.partition("error: ")[2] or message
        return
    explained = json.loads(done.stdout)
    instance = explained["instances"][0]
    stage = min(instance["stages"], key=lambda entry: entry["blocks"])
    space.fit[kind, shape] = Memory(stage["weight_bytes"], stage["activation_bytes"], explained["engine_reserved_bytes"],
                                    int(instance["visible_bytes"] * explained["memory_limit_ratio"]), instance["kv_tokens"])

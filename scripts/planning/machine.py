"""The machine and the model of a plan, as the executable and the model's config.json describe them."""

import difflib
import json
import pathlib
import subprocess
from dataclasses import dataclass
from typing import Any

import yaml
from lib import run_files
from lib.command_line import ROOT

from .space import Model, Question


DATASHEETS = ROOT / "platforms" / "datasheets"
PERSISTENT = ("hopper", "blackwell")  # architectures whose matrix products are persistent kernels


class MachineError(Exception):
    """A machine or a model for which nothing can be planned."""


@dataclass(frozen=True)
class Facts:
    gpu: str
    gpus: int
    server_gpus: int
    nvlink_gb_per_s: float  # of a link; 0: none
    cable_gb_per_s: float  # of a NIC's cable; 0: none
    names: tuple[str, ...] = ()  # of the GPUs


def nearest(word: str, words: tuple[str, ...]) -> str:
    found = difflib.get_close_matches(word, words, 1)
    return f"; nearest: {found[0]}" if found else ""


def message_of(done: subprocess.CompletedProcess[str], executable: pathlib.Path, scenario: pathlib.Path) -> str:
    """The executable's message, without the place: one in OUT helps nobody."""
    message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{executable.name}: exit status {done.returncode}"
    return message.partition(": error: ")[2] if message.startswith(f"{scenario}:") else message


def facts_of(executable: pathlib.Path, scenario: pathlib.Path) -> Facts:
    """@throws MachineError with the executable's message"""
    # All of the machine, whatever batch replicas on all of its GPUs could divide.
    sets = ["--set", "simulation.fold=off", "--set", "workload.dp=1"]
    done = subprocess.run([str(executable), str(scenario), "--describe", "--json", *sets], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(message_of(done, executable, scenario))
    machine = json.loads(done.stdout)
    gpus = [device["name"] for device in machine["devices"] if device["kind"] == "gpu"]
    first = gpus[0].partition(".")[0]
    cables = [link["gb_per_s"] for link in machine["links"] if link["name"].startswith("IB_Cable")]
    group = machine["groups"][0]
    return Facts(group["gpu"], len(gpus), sum(name.partition(".")[0] == first for name in gpus), group["peak"]["nvlink_gb_per_s"],
                 min(cables, default=0.0), tuple(gpus))


def _model(path: str) -> Model:
    config = run_files.json_file(path, {None: run_files.Any}, "config of a model")

    def size(*names: str) -> int | None:
        return next((config[name] for name in names if isinstance(config.get(name), int)), None)

    layers, heads = size("num_hidden_layers", "n_layer", "n_layers"), size("num_attention_heads", "n_head", "n_heads")
    hidden = size("hidden_size", "n_embd", "d_model")
    if layers is None or heads is None or hidden is None:
        raise MachineError(f"{path}: the number of layers or heads, or the hidden size is missing")
    return Model(layers, heads, size("num_key_value_heads") or heads, size("num_local_experts", "num_experts", "n_routed_experts") or 0, hidden)


def software_of(scenario: dict) -> str:
    return scenario["workload"].get("software", "megatron_core")


def _of_datasheet(kind: str, name: str, key: str) -> Any:
    """A value of a shipped datasheet, or of the user's."""
    path = pathlib.Path(name) if name.endswith(".yaml") else DATASHEETS / kind / f"{name}.yaml"
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))[key]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise MachineError(f"{path}: no {key} can be read: {error}") from error


def groups_of(scenario: dict) -> list[dict]:
    """The groups of servers that name their GPU. The executable refuses all else that is no group."""
    machine = scenario.get("machine")
    groups = machine.get("groups") if isinstance(machine, dict) else None
    return [group for group in groups.values() if isinstance(group, dict) and isinstance(group.get("gpu"), str)] if isinstance(groups, dict) else []


def _gpu_of(facts: Facts, scenario: dict) -> str:
    """Its name, or the user's file."""
    return next((group["gpu"] for group in groups_of(scenario) if group["gpu"].endswith(".yaml")), facts.gpu)


def zero_stages(software: str) -> tuple[int, ...]:
    return tuple(_of_datasheet("software", software, "zero_stages"))


def question(facts: Facts, scenario: dict) -> Question:
    workload = scenario["workload"]
    divided = workload.get("gtp", "none")

    def of_software(key: str) -> object:
        return workload.get(key, _of_datasheet("software", software_of(scenario), key))

    return Question(facts.gpus, facts.server_gpus, _model(scenario["model"]["config"]), workload["global_batch"], workload["seq_tokens"],
                    zero_stages(software_of(scenario)), divided.get("size", 1) if isinstance(divided, dict) else 1,
                    of_software("dp_overlap"), of_software("param_gather_overlap"),
                    _of_datasheet("gpus", _gpu_of(facts, scenario), "architecture") in PERSISTENT)

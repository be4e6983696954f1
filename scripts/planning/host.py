"""The CPU sockets of a server, as the executable describes them: what bounds a step that offloads."""

import json
import pathlib
import subprocess
from collections import Counter
from dataclasses import dataclass

from .explain import Facts
from .machine import MachineError, message_of

OFFLOAD = ["--set", "workload.offload.optimizer=true"]  # so that the route to host memory is described


@dataclass(frozen=True)
class Host:
    copy_bytes_per_s: float  # of a GPU in one direction, while all GPUs of the server copy
    memory_bytes_per_s: float  # of a socket
    memory_bytes: float  # of a socket
    gpus: int  # of a socket

    def holds(self, facts: Facts) -> bool:
        """Whether a socket's memory has room for what its GPUs offload, if all are as the fullest."""
        return self.gpus * max(rank.get("host_activations_bytes", 0) + rank.get("host_state_bytes", 0) for rank in facts.answer["memory"]) <= self.memory_bytes


def _asked(executable: pathlib.Path, scenario: pathlib.Path, option: str) -> dict | list:
    sets = ["--set", "simulation.fold=off", "--set", "workload.dp=1", *OFFLOAD]
    done = subprocess.run([str(executable), str(scenario), option, "--json", *sets], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(message_of(done, executable, scenario))
    return json.loads(done.stdout)


def host_of(executable: pathlib.Path, scenario: pathlib.Path) -> Host:
    """@throws MachineError: the executable's message; a board that does not say how much memory a socket has"""
    described = _asked(executable, scenario, "--describe")
    route = next(route for route in described["routes"] if route["class"] == "offload")
    [path] = route["lanes"]
    links = {link["from"]: link for link in described["links"]}
    names = {hop.rpartition(".")[2] for hop in path[1:]}
    behind = Counter[str]()  # GPUs whose way to the host crosses a port
    sockets = {device["name"] for device in described["devices"] if device["kind"] == "host_memory"}
    server = route["from"].partition(".")[0]
    for device in described["devices"]:
        if device["kind"] == "gpu" and device["name"].partition(".")[0] == server:
            port = f"{device['name']}.{path[0].rpartition('.')[2]}"
            while port is not None:
                behind[port] += 1
                to = links[port]["to"]
                port = next((f"{to}.{name}" for name in names if f"{to}.{name}" in links), None) if to not in sockets else None
    *ports, memory_port = path
    payload = route["payload_gb_per_s"] / min(links[hop]["gb_per_s"] for hop in ports)  # of a link's rate; memory has no packets
    rates = [payload * links[hop]["gb_per_s"] / behind[hop] for hop in ports] + [links[memory_port]["gb_per_s"] / behind[memory_port]]
    parameters = {found["name"]: found["value"] for found in _asked(executable, scenario, "--list-parameters")}
    memory = float(parameters[f"{route['to']}.bytes"])
    if not memory:
        raise MachineError(f"--allow offload: the board of {executable.name} does not say how much memory a CPU socket has; "
                           "give --base a scenario with machine.overrides.host_memory.bytes")
    return Host(1e9 * min(rates), 1e9 * links[memory_port]["gb_per_s"], memory, behind[memory_port])

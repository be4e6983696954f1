"""What a checkpoint costs: its bytes, the pause for its copy, the write, steps beside the write, and the way back."""

from dataclasses import dataclass

from .operation import Operation
from .step import Step

FAIR = 0.5  # of a NIC that a write takes at most while the step sends: two senders that always have something share it
GB = 1e9
VERSIONS = 2  # in host memory: the last safe one, and the next one
COPIES = 2  # of each: on the own server, and on another one


@dataclass(frozen=True)
class Cost:
    """Of a checkpoint. Times in seconds."""

    total_bytes: float
    server_bytes: float  # of the server that writes most
    copy_s: float  # from the GPUs to host memory
    write_s: float  # from host memory on
    pause_s: float  # the steps wait
    writing_s: float  # after the pause, until it is safe
    nic_share: float  # of the step's NICs while it is written beside steps
    limit: str  # of the write
    read_s: float  # back to host memory
    spread_s: float  # weights to the other replicas
    load_s: float  # to the GPUs

    @property
    def reload_s(self) -> float:
        return self.read_s + self.spread_s + self.load_s


def cost_of(step: Step, operation: Operation) -> Cost:
    """@throws InputError where the machine cannot keep or send a checkpoint"""
    checkpoint, files, server = operation.checkpoint, operation.file_system, step.server
    if checkpoint.mode == "none":
        return Cost(*[0.0] * 7, "nothing", 0.0, 0.0, 0.0)
    _check_network(step, operation)
    stages, setup = len(step.saved), step.setup
    writers = step.gpus // stages if checkpoint.writers == "all" else setup["tp"] * setup["ep"]
    total = sum(map(sum, step.saved))
    of_server = max(map(sum, step.saved)) / writers * min(server.gpus, writers * stages)
    _check_host_memory(step, operation, of_server)
    optimizer_is_there = step.on_host_bytes > 0 and not any(optimizer for _, optimizer in step.held)
    copied = max(weights + (0 if optimizer_is_there else optimizer) for weights, optimizer in step.saved) / writers
    copy_s = copied / server.copy_gb_per_s / GB
    beside, own = checkpoint.mode == "asynchronous", checkpoint.network == "own"
    network_s = 0.0 if own else of_server / server.network_gb_per_s / GB
    client_s = of_server / files.client_gb_per_s / GB if files.client_gb_per_s else 0.0
    is_file = checkpoint.to == "file_system"
    parts = {"the NICs of a server": network_s / (FAIR if beside and step.servers > 1 else 1.0), "the client of a server": client_s,
             "the file system": total / files.write_gb_per_s / GB if is_file else 0.0}
    limit = max(parts, key=parts.get)
    write_s = parts[limit]
    read_s = max(network_s, client_s, total / (files.read_gb_per_s or files.write_gb_per_s) / GB if is_file else 0.0)
    weights, optimizer = max(step.held, key=sum)
    spread_s = weights * server.gpus / server.network_gb_per_s / GB if setup["dp"] > 1 and step.servers > 1 else 0.0
    return Cost(total, of_server, copy_s, write_s, copy_s if beside else copy_s + write_s, write_s if beside else 0.0,
                network_s / write_s if beside and write_s else 0.0, limit, read_s, spread_s, (weights + optimizer) / server.copy_gb_per_s / GB)


def _check_network(step: Step, operation: Operation) -> None:
    checkpoint = operation.checkpoint
    if checkpoint.network == "step" and not step.server.nics:
        raise operation.wrong("checkpoint.network", "the machine has no NICs; accepted: own, with file_system.client_gb_per_s")
    if checkpoint.to == "host_memory" and step.servers == 1:
        raise operation.wrong("checkpoint.to", "host_memory: there is no other server that keeps a copy; accepted: file_system")


def _check_host_memory(step: Step, operation: Operation, of_server: float) -> None:
    """A checkpoint waits in host memory until it is written; or it stays there."""
    stays = operation.checkpoint.to == "host_memory"
    needed = of_server * (VERSIONS * COPIES if stays else 1) + step.on_host_bytes * step.server.gpus
    if step.server.host_bytes and needed > step.server.host_bytes:
        raise operation.wrong("checkpoint.to", f"{operation.checkpoint.to}: a server needs {needed * 1e-9:.0f} GB of host memory, and has {step.server.host_bytes * 1e-9:.0f} GB"
                              + ("; checkpoint.writers: all divides it" if operation.checkpoint.writers != "all" else ""))

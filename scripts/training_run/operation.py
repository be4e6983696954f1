"""How a run is operated: checkpoints, failures, stragglers, evaluation, prices. KEYS is the one table of its keys."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from lib import yaml_source
from lib.words import nearest
from lib.yaml_source import InputError, Value

BEST = "best"
MOST = 1e15  # of any number


class Key(NamedTuple):
    """A key. `accepts`: words, or the unit of a number; `least`: of a number, itself accepted only if `is_count`."""

    name: str
    accepts: str | tuple[str, ...]
    default: object
    text: str
    least: float = 0.0
    is_count: bool = False  # an integer from `least` on


KEYS = (
    Key("checkpoint.mode", ("asynchronous", "synchronous", "none"), None,
        "synchronous: steps wait until the checkpoint is written; asynchronous: only for its copy to host memory. Without it: asynchronous, or none if there are "
        "neither failures nor keys of checkpoints and the file system"),
    Key("checkpoint.interval_s", "s of training, or best", BEST, "from a checkpoint to the next one, in whole steps"),
    Key("checkpoint.to", ("file_system", "host_memory"), "file_system", "host_memory: that of the own server and of another one, over the NICs of the step"),
    Key("checkpoint.writers", ("all", "replica"), "all", "all: each rank writes its share (sharded); replica: the ranks of one replica write all"),
    Key("checkpoint.network", ("step", "own"), "step", "the way to the file system: the NICs of the step, or a network of its own of file_system.client_gb_per_s"),
    Key("file_system.write_gb_per_s", "GB/s", None, "rate at which all servers together write"),
    Key("file_system.read_gb_per_s", "GB/s", None, "the same for reading; without it, as writing"),
    Key("file_system.client_gb_per_s", "GB/s", None, "most that one server writes or reads; without it, what its NICs carry"),
    Key("failures.gpu_mtbf_h", "h", None, "mean time between failures of one GPU"),
    Key("failures.nic_mtbf_h", "h", None, "of one NIC with its cable and its share of switches"),
    Key("failures.server_mtbf_h", "h", None, "of all else in one server"),
    Key("failures.job_mtbf_h", "h", None, "of the software of the whole job; no server is lost"),
    Key("failures.detection_s", "s", 600.0, "from the failure until the job has stopped (source: pytorch/pytorch#110947, timeout of NCCL collectives)"),
    Key("failures.restart_s", "s", None, "start of processes, communicators and the first step; to be given with a MTBF"),
    Key("failures.spares", "servers", None, "servers that wait to replace others; without it, there is always one", 0, True),
    Key("failures.repair_h", "h", None, "time until a failed server is a spare again; to be given with spares"),
    Key("stragglers[].of", ("gpu", "nic", "server"), None, "the members that differ; a step waits for the slowest one"),
    Key("stragglers[].distribution", ("lognormal", "normal", "exponential"), None, "of each member's time of a step, drawn for each step"),
    Key("stragglers[].ratio", "ratio", None, "with distribution: standard deviation (of the logarithm), or mean of the exponential, as a share of the step"),
    Key("stragglers[].share", "ratio", None, "in place of a distribution: the share of members that are slow"),
    Key("stragglers[].rate_ratio", "ratio", None, "with share: rate of a slow GPU's kernels, or of a slow NIC. The step with one is simulated"),
    Key("stragglers[].lasts", ("step", "restart"), "step", "with share: slow members are drawn for each step, or for all steps until the next restart"),
    Key("evaluation.interval_steps", "steps", None, "steps from an evaluation to the next one", 1, True),
    Key("evaluation.sequences", "sequences", None, "sequences of an evaluation, which take the forward part of a step's time for as many", 1, True),
    Key("evaluation.pause_s", "s", None, "how long the steps wait for it, or for what it needs besides its sequences"),
    Key("price.gpu_h", "currency", None, "of a GPU for an hour, in any currency; spare servers cost the same"),
    Key("price.kwh", "currency", None, "of a kilowatt-hour, if the executable says the energy of a step"),
)
BY_NAME = {key.name: key for key in KEYS}


@dataclass(frozen=True)
class Checkpoint:
    mode: str
    interval_s: float | str
    to: str
    writers: str
    network: str


@dataclass(frozen=True)
class FileSystem:
    write_gb_per_s: float | None
    read_gb_per_s: float | None
    client_gb_per_s: float | None


@dataclass(frozen=True)
class Failures:
    gpu_mtbf_h: float | None
    nic_mtbf_h: float | None
    server_mtbf_h: float | None
    job_mtbf_h: float | None
    detection_s: float
    restart_s: float | None
    spares: int | None
    repair_h: float | None

    @property
    def can_happen(self) -> bool:
        return any((self.gpu_mtbf_h, self.nic_mtbf_h, self.server_mtbf_h, self.job_mtbf_h))


@dataclass(frozen=True)
class Straggler:
    of: str
    distribution: str | None
    ratio: float | None
    share: float | None
    rate_ratio: float | None
    lasts: str


@dataclass(frozen=True)
class Evaluation:
    interval_steps: int | None
    sequences: int | None
    pause_s: float | None


@dataclass(frozen=True)
class Price:
    gpu_h: float | None
    kwh: float | None


@dataclass(frozen=True)
class Operation:
    checkpoint: Checkpoint
    file_system: FileSystem
    failures: Failures
    stragglers: tuple[Straggler, ...]
    evaluation: Evaluation
    price: Price
    given: dict[str, Value]  # leaves that the user gave, for messages

    def wrong(self, key: str, message: str) -> InputError:
        """An error of a key, at its place if it was given."""
        text = f"{key}: {message}"
        return self.given[key].wrong(text) if key in self.given else InputError(f"train_run.py: error: {text}")


def _value(value: Value, key: Key, name: str) -> object:
    if isinstance(key.accepts, tuple):
        word = value.text(name)
        if word not in key.accepts:
            raise value.wrong(f"{name}: '{word}' is unknown{nearest(word, key.accepts)}; accepted: {', '.join(key.accepts)}")
        return word
    if key.accepts.endswith(BEST) and value.plain() == BEST:
        return BEST
    number = value.number(name)
    if key.is_count:
        if not isinstance(number, int) or not key.least <= number <= MOST:
            raise value.wrong(f"{name}: expected an integer of at least {key.least:g}")
        return number
    most = 1.0 if name.endswith(("share", "rate_ratio")) else MOST
    zero = name.endswith(("detection_s", "restart_s", "pause_s", "kwh", "gpu_h"))
    if not (0 <= number <= most if zero else 0 < number <= most):
        raise value.wrong(f"{name}: expected {'a number from' if zero else 'a number above'} 0{' and up to 1' if most == 1 else ''}, in {key.accepts}, got {number:g}")
    return float(number)


def _below(prefix: str) -> list[str]:
    """The names that may follow a prefix, as `checkpoint` or `checkpoint.mode`."""
    level = prefix.count(".") + 1 if prefix else 0
    return list(dict.fromkeys(key.name.replace("[]", "").split(".")[level] for key in KEYS if not prefix or key.name.replace("[]", "").startswith(prefix + ".")))


def _mapping(value: Value, prefix: str, found: dict[str, Value]) -> None:
    for name, entry in value.fields(prefix or "the operation", _below(prefix)).items():
        path = f"{prefix}.{name}" if prefix else name
        if path in BY_NAME or path == "stragglers":
            found[path] = entry
        else:
            _mapping(entry, path, found)


def changed(text: str, found: dict[str, Value]) -> None:
    """KEY=VALUE. @throws InputError"""
    name, sign, value = text.partition("=")
    known = [*(key.name for key in KEYS if "[]" not in key.name), "stragglers"]
    if not sign or name not in known:
        raise InputError(f"train_run.py: error: --op {text}: {'no key' if sign else 'not KEY=VALUE; no key'} '{name}'{nearest(name, known)}; accepted: {', '.join(known)}")
    found[name] = yaml_source.parse(value or '""', f"--op {name}")


def _section(kind: type, prefix: str, found: dict[str, Value], shown: str = "") -> object:
    """@param shown  the prefix for messages"""
    values = {}
    for field in fields(kind):
        key = BY_NAME[f"{prefix}.{field.name}"]
        name = f"{shown or prefix}.{field.name}"
        values[field.name] = _value(found[name], key, name) if name in found else key.default
    return kind(**values)


def _stragglers(found: dict[str, Value]) -> tuple[Straggler, ...]:
    members = []
    for i, entry in enumerate(found["stragglers"].list("stragglers") if "stragglers" in found else ()):
        shown = f"stragglers.{i}"
        values = {f"{shown}.{name}": value for name, value in entry.fields(shown, _below("stragglers")).items()}
        member = _section(Straggler, "stragglers[]", values, shown)
        drawn, slow = (member.distribution, member.ratio), (member.share, member.rate_ratio)
        if member.of is None:
            raise entry.wrong(f"{shown}.of: is missing; accepted: {', '.join(BY_NAME['stragglers[].of'].accepts)}")
        if not (all(drawn) and not any(slow) or all(slow) and not any(drawn)):
            raise entry.wrong(f"{shown}: expected distribution and ratio, or share and rate_ratio")
        if all(slow) and member.of == "server":
            raise entry.wrong(f"{shown}.of: a server has no rate; accepted with share: gpu, nic")
        members.append(member)
    return tuple(members)


def read(path: str | None, changes: Iterable[str]) -> Operation:
    """@throws InputError naming file, line and column"""
    found: dict[str, Value] = {}
    if path:
        _mapping(yaml_source.read(path), "", found)
    for change in changes:
        changed(change, found)
    checkpoint, failures = _section(Checkpoint, "checkpoint", found), _section(Failures, "failures", found)
    if checkpoint.mode is None:
        is_asked = failures.can_happen or any(name.startswith(("checkpoint.", "file_system.")) for name in found)
        checkpoint = replace(checkpoint, mode="asynchronous" if is_asked else "none")
    operation = Operation(checkpoint, _section(FileSystem, "file_system", found), failures,
                          _stragglers(found), _section(Evaluation, "evaluation", found), _section(Price, "price", found), found)
    _check(operation)
    return operation


def _check(operation: Operation) -> None:
    failures, checkpoint = operation.failures, operation.checkpoint
    writes_files = checkpoint.mode != "none" and checkpoint.to == "file_system"
    if writes_files and operation.file_system.write_gb_per_s is None:
        raise operation.wrong("file_system.write_gb_per_s", "to be given; or checkpoint.to: host_memory, or checkpoint.mode: none")
    if checkpoint.network == "own" and not (writes_files and operation.file_system.client_gb_per_s):
        raise operation.wrong("checkpoint.network", "own needs a file system and file_system.client_gb_per_s")
    if failures.can_happen and failures.restart_s is None:
        raise operation.wrong("failures.restart_s", "to be given with a MTBF")
    if failures.can_happen and checkpoint.mode == "none":
        raise operation.wrong("checkpoint.mode", "none: with failures, a run without checkpoints begins again each time; accepted: asynchronous, synchronous")
    if (failures.spares is None) != (failures.repair_h is None):
        raise operation.wrong("failures.repair_h" if failures.repair_h is None else "failures.spares", "spares and repair_h are given together")
    evaluation = operation.evaluation
    if (evaluation.interval_steps is None) != (evaluation.pause_s is None and evaluation.sequences is None):
        raise operation.wrong("evaluation", "interval_steps is given together with sequences, pause_s or both")


def table() -> str:
    """The keys as text."""
    rows = [(key.name, " | ".join(key.accepts) if isinstance(key.accepts, tuple) else key.accepts,
             "" if key.default is None else f"{key.default:g}" if isinstance(key.default, float) else str(key.default), key.text) for key in KEYS]
    rows.insert(0, ("key", "accepted", "default", "meaning"))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]) for row in rows) + "\n"



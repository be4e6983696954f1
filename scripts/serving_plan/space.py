"""The GPUs of a plan, the machines that hold them, and the shapes of instances that fit into their memory."""

import itertools
import json
import pathlib
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from lib.words import nearest

from .fleet import Fleet, Kind, Shape, Traffic
from .requests import Drawn

PLATFORMS = ("dgx_h100", "dgx_a100", "dgx_b200", "plx_box", "gb200_nvl72")  # one of them holds each GPU; eight GPUs if there is a choice
TP = (1, 2, 4, 8)
MANY_SERVERS = (2, 4)  # of an instance that does not fit into one
NUMBERS_OF_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")  # in a config.json
GB = 1e-9
WHOLE_SERVERS = "no shape is within a server, or fills several"
OF_EXPERTS = "ep is neither 1 nor tp x dp"
OF_REPLICAS = "with dp, ep is tp x dp"
Key = tuple[Kind, Shape]


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
    fit: dict[Key, Memory] = field(default_factory=dict)
    refused: dict[Key, str] = field(default_factory=dict)  # with the executable's sum of memory, or its rule
    outside: Counter[str] = field(default_factory=Counter)  # combinations by the rule that leaves them out

    def why_empty(self) -> str:
        """The rule that refused most. Reasons are alike if they differ only in numbers."""
        if not self.refused:
            return self.outside.most_common(1)[0][0]
        alike: dict[str, list[str]] = {}
        for reason in self.refused.values():
            alike.setdefault(re.sub(r"[\d.]+", "", reason), []).append(reason)
        most = max(alike.values(), key=len)
        return most[-1] + (f" ({len(most)} of {len(self.refused)} shapes are refused alike)" if len(self.refused) > 1 else "")


def shipped(executables: pathlib.Path) -> list[str]:
    """The names of all GPUs, from the message about a name that does not exist."""
    for platform in PLATFORMS:
        if (executables / platform).exists():
            message = _asked(executables / platform, "-", "--check").stderr
            if found := re.search(r"shipped: ([^;]*);", message):
                return found[1].split(", ")
    raise PlanError(f"no platform executables in {executables}")


def _run(executable: pathlib.Path, scenario: Mapping, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(executable), "/dev/stdin", *words], input=json.dumps(scenario), capture_output=True, text=True, check=False)


def _asked(executable: pathlib.Path, gpu: str, *words: str) -> subprocess.CompletedProcess:
    """What the executable says about a server with this GPU."""
    scenario = {"schema_version": 1, "platform": executable.name, "machine": {"groups": {"gpus": {"servers": 1, "gpu": gpu}}},
                "workload": {"kind": "p2p", "test": "matrix", "ranks": 2}}
    return _run(executable, scenario, *words)


def kind_of(word: str, names: list[str], executables: pathlib.Path) -> Kind:
    """@param word  a GPU, or the beginning of one name"""
    found = [word] if word in names else [name for name in names if name.startswith(f"{word}-")]
    if len(found) != 1:
        close = nearest(word, names) or nearest(word, [name.partition("-")[0] for name in names])
        raise PlanError(f"--gpus {word}: " + (f"several GPUs: {', '.join(found)}" if found else f"no such GPU{close}; accepted: {', '.join(names)}"))
    for platform in PLATFORMS:
        executable = executables / platform
        if executable.exists() and (described := _asked(executable, found[0], "--describe", "--json")).returncode == 0:
            return Kind(found[0], platform, sum(device["kind"] == "gpu" for device in json.loads(described.stdout)["devices"]))
    raise PlanError(f"--gpus {found[0]}: no machine in {executables} holds it; tried: {', '.join(PLATFORMS)}")


def _why_outside(kind: Kind, shape: Shape) -> str | None:
    if shape.gpus > kind.server_gpus and shape.gpus % kind.server_gpus:
        return WHOLE_SERVERS
    if shape.dp > 1 and shape.ep != shape.tp * shape.dp:
        return OF_REPLICAS
    return OF_EXPERTS if shape.ep not in (1, shape.tp * shape.dp) else None


def has_experts(config: pathlib.Path) -> bool:
    """Of a config.json that cannot be read, the executable says why."""
    try:
        pending = [json.loads(config.read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return False
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if any(isinstance(count := part.get(name), int) and count > 1 for name in NUMBERS_OF_EXPERTS):
                return True
            pending += part.values()
    return False


@dataclass(frozen=True)
class Sizes:
    """Sizes to try. None: the default."""

    tp: Sequence[int] | None
    pp: Sequence[int] | None
    dp: Sequence[int] | None
    ep: Sequence[int] | None
    experts: bool  # the model has them

    @property
    def is_open(self) -> bool:
        """Whether an instance may also have more servers than one: nobody gave sizes that say it."""
        return self.pp is None and self.dp is None

    def within(self, kind: Kind) -> list[tuple[int, int, int, int]]:
        """As given, by default in a server: tensor parallelism; of a model with experts also whole experts on ranks, and attention replicas on all GPUs."""
        dp = self.dp or ((1, kind.server_gpus) if self.experts and self.ep is None else (1,))
        found = []
        for tp, pp, replicas in itertools.product(self.tp or TP, self.pp or (1,), dp):
            whole = (1,) if not self.experts else (tp * replicas,) if replicas > 1 else (1, tp)
            if self.dp is None and replicas > 1 and tp > 1:
                continue  # replicas of one GPU each are enough to try
            found += [(tp, pp, replicas, ep) for ep in dict.fromkeys(self.ep or whole)]
        return found

    def across(self, kind: Kind) -> list[tuple[int, int, int, int]]:
        """Over several servers: a pipeline with a stage in each, and attention replicas on all GPUs of a model with experts."""
        each = kind.server_gpus
        of_pipelines = self.ep or ((1, each) if self.experts else (1,))
        pipelines = [(each, servers, 1, ep) for servers in MANY_SERVERS for ep in of_pipelines if self.tp is None or each in self.tp]
        replicas = [(1, 1, each * servers, each * servers) for servers in MANY_SERVERS if self.experts and self.ep is None and (self.tp is None or 1 in self.tp)]
        return pipelines + replicas


def shapes_of(sizes: Iterable[tuple[int, int, int, int]], settings: Mapping[str, Sequence]) -> Iterator[Shape]:
    """@param settings  values to try; None is the default"""
    for of_ranks in sizes:
        for values in itertools.product(*settings.values()):
            yield Shape(*of_ranks, tuple((name, value) for name, value in zip(settings, values) if value is not None))


def space_of(kinds: Iterable[Kind], sizes: Sizes, settings: Mapping[str, Sequence], traffic: Traffic, executables: pathlib.Path, workers: int) -> Space:
    """Asks the executables about the memory of each shape, and of those over several servers where nothing fits into one."""
    space, kinds = Space(), list(kinds)
    _ask(space, [(kind, shape) for kind in kinds for shape in shapes_of(sizes.within(kind), settings)], traffic, executables, workers)
    if sizes.is_open:
        too_small = [kind for kind in kinds if not any(of == kind for of, _ in space.fit)]
        _ask(space, [(kind, shape) for kind in too_small for shape in shapes_of(sizes.across(kind), settings)], traffic, executables, workers)
    return space


def _ask(space: Space, keys: Iterable[Key], traffic: Traffic, executables: pathlib.Path, workers: int) -> None:
    asked = []
    for kind, shape in keys:
        if why := _why_outside(kind, shape):
            space.outside[why] += 1
        else:
            asked.append((kind, shape))
    traffic = replace(traffic, requests=Drawn(1, 2), router="")  # memory does not depend on them
    with ThreadPoolExecutor(workers) as pool:
        answers = pool.map(lambda key: _run(executables / key[0].platform, traffic.scenario(Fleet(*key, 1), 1.0, 1), "--explain", "--json"), asked)
        for key, done in zip(asked, answers):
            if done.returncode == 0:
                space.fit[key] = _memory(json.loads(done.stdout))
            else:
                space.refused[key] = _message(done)


def _message(done: subprocess.CompletedProcess) -> str:
    message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
    return message.partition("error: ")[2] or message


def _memory(explained: dict) -> Memory:
    instance = explained["instances"][0]
    stage = min(instance["stages"], key=lambda entry: entry["blocks"])
    return Memory(stage["weight_bytes"], stage["activation_bytes"], instance["engine_reserved_bytes"],
                  int(instance["visible_bytes"] * instance["memory_limit_ratio"]), instance["kv_tokens"])


def why_refused(traffic: Traffic, fleet: Fleet, executables: pathlib.Path) -> str | None:
    """What the executable has against a fleet or its requests; None: nothing."""
    done = _run(executables / fleet.kind.platform, traffic.scenario(fleet, traffic.rate_per_s, 2), "--check")
    return _message(done) if done.returncode else None

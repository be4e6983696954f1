"""A candidate of a plan: instances of one shape on one kind of GPU, colocated or divided into prefill and decode."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .requests import Requests

# Settings of an instance that a plan may try, and their places in a scenario.
SETTINGS = {
    "engine": ("workload", "engine"),
    "kv_dtype": ("model", "kv_dtype"),
    "chunk": ("workload", "scheduler", "max_batched_tokens"),
    "max_seqs": ("workload", "scheduler", "max_seqs"),
}
ROUTER = ("workload", "router")
Settings = tuple[tuple[str, object], ...]  # of SETTINGS, by name


@dataclass(frozen=True)
class Kind:
    """A GPU, and the machine that holds it."""

    gpu: str
    platform: str
    server_gpus: int


@dataclass(frozen=True)
class Shape:
    """Ranks of an instance, and those of its settings that differ among the candidates. `ep` 1: tensor parallelism divides each expert."""

    tp: int
    pp: int
    dp: int = 1
    ep: int = 1
    settings: Settings = ()

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def label(self) -> str:
        ranks = [f"{name}{size}" for name, size in (("pp", self.pp), ("dp", self.dp), ("ep", self.ep)) if size > 1]
        return " ".join([f"tp{self.tp}", *ranks, *(f"{name} {value}" for name, value in self.settings)])

    @property
    def keys(self) -> dict:
        """Of an instance in a scenario."""
        return {"tp": self.tp, "pp": self.pp} | {name: size for name, size in (("dp", self.dp), ("ep", self.ep)) if size > 1}


@dataclass(frozen=True)
class Fleet:
    kind: Kind
    shape: Shape
    colocated: int  # instances
    prefill: int = 0
    decode: int = 0
    router: str = ""  # nothing: the one of the plan

    @property
    def instances(self) -> int:
        return self.colocated + self.prefill + self.decode

    @property
    def gpus(self) -> int:
        return self.shape.gpus * self.instances

    @property
    def servers(self) -> int:
        """An instance fills whole servers, or is within one: what is left of a server stays empty."""
        if self.shape.gpus > self.kind.server_gpus:
            return self.instances * self.shape.gpus // self.kind.server_gpus
        return -(-self.instances // (self.kind.server_gpus // self.shape.gpus))

    @property
    def label(self) -> str:
        many = f"{self.colocated} x" if self.colocated else f"{self.prefill}P{self.decode}D of"
        return f"{many} {self.shape.label} on {self.kind.gpu}" + (f", {self.router}" if self.router else "")

    @property
    def family(self) -> tuple:
        """What fleets have in common that differ only in the numbers of instances."""
        return self.kind, self.shape, bool(self.colocated), self.router

    @property
    def has_choice(self) -> bool:
        """Whether a router has instances to choose from."""
        return max(self.colocated, self.prefill, self.decode) > 1

    @property
    def entries(self) -> list[dict]:
        """Of `workload.instances`."""
        roles = (("c", "colocated", self.colocated), ("p", "prefill", self.prefill), ("d", "decode", self.decode))
        return [{"name": name, "role": role, "count": count, **self.shape.keys} for name, role, count in roles if count]


def _put(scenario: dict, place: tuple[str, ...], value: object) -> None:
    for key in place[:-1]:
        scenario = scenario.setdefault(key, {})
    scenario[place[-1]] = value


@dataclass(frozen=True)
class Traffic:
    """What all candidates are asked to serve, and what they have in common."""

    model: str  # path of the config
    requests: Requests
    rate_per_s: float
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)  # of SETTINGS
    router: str = ""  # nothing: the default of a scenario
    fidelity: str = "fluid"
    shared: bool = False  # a fleet at a lower rate stands for its part of the traffic behind a router that takes instances in turn

    def scenario(self, fleet: Fleet, rate: float, count: int, seed: int = 1) -> dict:
        """@param rate, count  of the requests"""
        every = max(1.0, self.rate_per_s / rate) if self.shared else 1.0
        scenario: dict = {"schema_version": 1, "platform": fleet.kind.platform, "seed": seed, "model": {"config": self.model},
                          "machine": {"groups": {"gpus": {"servers": fleet.servers, "gpu": fleet.kind.gpu}}}, "fabric": {"fidelity": self.fidelity},
                          "workload": {"kind": "serving", "requests": self.requests.keys(rate, count, every), "instances": fleet.entries}}
        for name, value in (*self.settings.items(), *fleet.shape.settings):
            _put(scenario, SETTINGS[name], value)
        if router := fleet.router or self.router:
            _put(scenario, ROUTER, router)
        return scenario

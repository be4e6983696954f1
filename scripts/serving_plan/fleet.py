"""A candidate of a plan: instances of one shape on one kind of GPU, colocated or divided into prefill and decode."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """A GPU, and the machine that holds it."""

    gpu: str
    platform: str
    server_gpus: int


@dataclass(frozen=True, order=True)
class Shape:
    """Ranks of an instance."""

    tp: int
    pp: int

    @property
    def gpus(self) -> int:
        return self.tp * self.pp

    @property
    def label(self) -> str:
        return f"tp{self.tp}" + (f" pp{self.pp}" if self.pp > 1 else "")


@dataclass(frozen=True)
class Fleet:
    kind: Kind
    shape: Shape
    colocated: int  # instances
    prefill: int = 0
    decode: int = 0

    @property
    def gpus(self) -> int:
        return self.shape.gpus * (self.colocated + self.prefill + self.decode)

    @property
    def servers(self) -> int:
        """An instance does not cross servers: what is left of a server stays empty."""
        each = self.kind.server_gpus // self.shape.gpus
        return -(-(self.colocated + self.prefill + self.decode) // each)

    @property
    def label(self) -> str:
        many = f"{self.colocated} x" if self.colocated else f"{self.prefill}P{self.decode}D of"
        return f"{many} {self.shape.label} on {self.kind.gpu}"

    @property
    def instances(self) -> list[dict]:
        shape = {"tp": self.shape.tp, "pp": self.shape.pp}
        roles = (("c", "colocated", self.colocated), ("p", "prefill", self.prefill), ("d", "decode", self.decode))
        return [{"name": name, "role": role, "count": count, **shape} for name, role, count in roles if count]


@dataclass(frozen=True)
class Traffic:
    """What all candidates are asked to serve."""

    model: str  # path of the config
    prompt: object  # a number or a distribution, as in a scenario
    output: object
    rate_per_s: float
    engine: str
    fidelity: str = "fluid"
    model_keys: dict = field(default_factory=dict, hash=False)  # more of `model`

    def scenario(self, fleet: Fleet, prompt: object = None, output: object = None) -> dict:
        """@param prompt, output  lengths instead of those of the traffic"""
        requests = {"count": 2, "arrivals": "poisson", "rate_per_s": self.rate_per_s, "prompt_tokens": prompt or self.prompt,
                    "output_tokens": output or self.output}
        return {"schema_version": 1, "platform": fleet.kind.platform, "seed": 1, "model": {"config": self.model} | self.model_keys,
                "machine": {"groups": {"gpus": {"servers": fleet.servers, "gpu": fleet.kind.gpu}}}, "fabric": {"fidelity": self.fidelity},
                "workload": {"kind": "serving", "engine": self.engine, "requests": requests, "instances": fleet.instances}}

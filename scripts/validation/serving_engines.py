"""Serving engines of measured rows as scenarios of `workload.kind: serving`, by rules that hold for all tables.

Rules:
  system            GPU and platform, as everywhere (systems.py)
  model, precision  a configuration beside the table or under scenarios/models (model_configs.py), or that of the only public checkpoint
                    (served_models.py). `bf16?` (a
                    guess at the source) is read as bf16. TensorRT-LLM keeps the KV cache of fp8 and fp4 checkpoints in fp8, as
                    NVIDIA's checkpoints say; other engines keep it in bf16
  tp, pp            of the one instance
  engine            the shipped sheet (platforms/datasheets/engines) of the engine's name and nearest version: scheduler, host, graphs,
                    kernels. A row of vLLM without a version has V1 before v0.14, whose host time is not hidden
  fabric            as a user gets it: fidelity auto. An instance of several servers has the network of the row, else the usual one of
                    its GPUs, which the row's line says
"""

import math
import re
from dataclasses import dataclass, replace

from . import systems
from .rows import Row, Unmapped
from .served_models import model_of, number

DTYPES = {"bf16": "bf16", "bf16?": "bf16", "fp16": "fp16", "fp8": "fp8", "fp4": "nvfp4", "nvfp4": "nvfp4",
          "int8": "int8"}
ENGINES = ((r"vllm", "vllm"), (r"sglang", "sglang"), (r"trt|tensorrt|NIM", "trtllm"))  # NIM's engine is TensorRT-LLM
# Version -> sheet from this version on
VLLM_SHEETS = (((0, 0), "vllm-2023-eager"), ((0, 4), "vllm-0.6"), ((0, 8), "vllm-0.12"), ((0, 14), "vllm-0.15"), ((0, 19), "vllm-0.19"))
VLLM_USUAL = (0, 8)  # of rows without a version
OTHER_SHEETS = {"sglang": "sglang-0.5", "trtllm": "trtllm-1.0"}


@dataclass(frozen=True)
class Served:
    """A platform and a scenario that lacks workload.requests."""

    platform: str
    scenario: dict
    tp: int  # of instances apart, the GPUs of the largest one
    engine: str  # vllm, sglang or trtllm
    pp: int = 1
    assumed: str = ""  # what the row does not print
    dp: int = 1

    @property
    def gpus(self) -> int:
        return self.tp * self.dp * self.pp

    def with_requests(self, requests: dict, **workload) -> dict:
        """The scenario; `workload` replaces keys of its section."""
        return self.scenario | {"workload": self.scenario["workload"] | {"requests": requests} | workload}


def engine_of(name: str) -> str:
    """@throws Unmapped if no sheet belongs to the engine"""
    engine = next((engine for pattern, engine in ENGINES if re.search(pattern, name, re.IGNORECASE)), None)
    if engine is None:
        raise Unmapped(f"no datasheet for engine '{name}'")
    return engine


def version_of(name: str) -> str:
    """The version in the name of an engine, "0.12.0" of "vLLM 0.12.0"; empty if it has none."""
    found = re.search(r"(?<![\w.])v?(\d+\.\d+)", name)
    return found[1] if found else ""


def sheet_of(engine: str, version: str) -> str:
    """The word of workload.engine."""
    if engine != "vllm":
        return OTHER_SHEETS[engine]
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    release = (int(numbers[1]), int(numbers[2])) if numbers else VLLM_USUAL
    return [sheet for since, sheet in VLLM_SHEETS if since <= release][-1]


def serve(row: Row, engine_name: str, version: str, parallel: dict | None = None) -> Served:
    """`parallel`: keys of the instance beside tp and pp. @throws Unmapped with the reason"""
    parallel = parallel or {}
    engine = engine_of(engine_name)
    model = model_of(row, DTYPES)
    gpu = systems.gpu_of(row)
    platform = systems.platform_of(row, gpu)
    if model["dtype"] not in gpu.tensor_types:
        raise Unmapped(f"{gpu.name} has no tensor rate of {model['dtype']}")
    tp, pp = number(row, "tp", 1), number(row, "pp", 1)
    kv_dtype = "fp8" if engine == "trtllm" and row["precision"] in ("fp8", "fp4", "nvfp4") else "bf16"
    printed = re.search(r"\bKV(?: cache)?(?: dtype)?[ =:]*(fp8|bf16)\b(?! but)", row.text("extra", "config"), re.IGNORECASE)
    if printed:
        kv_dtype = printed[1].lower()
    servers = -(-tp * pp * parallel.get("dp", 1) // systems.gpus_per_server(platform))
    machine = systems.machine(row, platform, gpu, servers, may_assume=True)
    scenario = {
        "model": model | {"kv_dtype": kv_dtype},
        "machine": machine,
        "workload": {"kind": "serving", "instances": [{"name": "server", "tp": tp, "pp": pp} | parallel],
                     "engine": sheet_of(engine, version)},
    }
    return Served(platform, scenario, tp, engine, pp, systems.assumption(platform, machine), parallel.get("dp", 1))


def serve_apart(row: Row, engine_name: str, version: str, counts: tuple[int, int], tp: tuple[int, int], least_servers: int = 1,
                parallel: tuple[dict, dict] = ({}, {})) -> Served:
    """Instances that prefill and instances that decode, side by side; one of each has servers of its own if there are several.

    `counts`, `tp`, `parallel`: of both roles; keys beside tp. @throws Unmapped with the reason
    """
    served = serve(Row(row.file, row.line, row.columns | {"tp": str(max(tp))}, row.value), engine_name, version)
    gpu, of_server = systems.gpu_of(row), systems.gpus_per_server(served.platform)
    sizes = tuple(size * keys.get("dp", 1) for size, keys in zip(tp, parallel))
    servers = max(_servers(counts, sizes, of_server), least_servers)
    machine = systems.machine(row, served.platform, gpu, servers, may_assume=True)
    instances = [{"name": role, "role": role, "tp": size} | keys | ({"count": count} if count > 1 else {})
                 for role, size, keys, count in zip(("prefill", "decode"), tp, parallel, counts)]
    if counts == (1, 1):
        second = of_server * math.ceil(sizes[0] / of_server) if servers > 1 else sizes[0]
        for instance, first, size in zip(instances, (0, second), sizes):
            instance["gpus"] = list(range(first, first + size))
    scenario = served.scenario | {"machine": machine,
                                  "workload": served.scenario["workload"] | {"instances": instances}}
    return replace(served, scenario=scenario, tp=max(sizes), assumed=systems.assumption(served.platform, machine))


def _servers(counts: tuple[int, int], sizes: tuple[int, int], of_server: int) -> int:
    """Servers that hold these instances: each in one server, or in servers of its own."""
    whole = sum(count * (size // of_server) for count, size in zip(counts, sizes))
    return whole + math.ceil(sum(count * (size % of_server) for count, size in zip(counts, sizes)) / of_server)

"""Serving engines of measured rows as scenarios of `workload.kind: serving`, by rules that hold for all tables.

Rules:
  system            GPU and platform, as everywhere (systems.py)
  model, precision  a configuration beside the table or under scenarios/models (model_configs.py), or that of the only public checkpoint
                    (served_models.py). `bf16?` (a
                    guess at the source) is read as bf16. TensorRT-LLM keeps the KV cache of fp8 and fp4 checkpoints in fp8, as
                    NVIDIA's checkpoints say; other engines keep it in bf16
  tp, pp            of the one instance
  engine            scheduler preset by name: vLLM, SGLang, TensorRT-LLM, and by version: vLLM before 0.8 is engine V0. The host is the
                    shipped one of the preset and version. vLLM schedules asynchronously since v0.14 (release notes); the host time of
                    earlier versions, and of rows without a version, is not hidden
  fabric            as a user gets it: fidelity auto. An instance of several servers has the network of the row, else the usual one of
                    its GPUs, which the row's line says
"""

import re
from dataclasses import dataclass

from . import systems
from .rows import Row, Unmapped
from .served_models import model_of, number

DTYPES = {"bf16": "bf16", "bf16?": "bf16", "fp16": "fp16", "fp8": "fp8", "fp4": "nvfp4", "nvfp4": "nvfp4",
          "int8": "int8"}
PRESETS = ((r"vllm", "vllm"), (r"sglang", "sglang"), (r"trt|tensorrt", "trtllm"))
GRAPHS_SINCE, V1_SINCE, ASYNC_SINCE = (0, 4), (0, 8), (0, 14)  # vLLM


@dataclass(frozen=True)
class Served:
    """A platform and a scenario that lacks workload.requests."""

    platform: str
    scenario: dict
    tp: int
    engine: str  # vllm, sglang or trtllm
    pp: int = 1
    assumed: str = ""  # what the row does not print

    @property
    def gpus(self) -> int:
        return self.tp * self.pp

    def with_requests(self, requests: dict, **workload) -> dict:
        """The scenario; `workload` replaces keys of its section."""
        return self.scenario | {"workload": self.scenario["workload"] | {"requests": requests} | workload}


def engine_of(name: str) -> str:
    """@throws Unmapped if no scheduler preset belongs to the engine"""
    preset = next((preset for pattern, preset in PRESETS if re.search(pattern, name, re.IGNORECASE)), None)
    if preset is None:
        raise Unmapped(f"no scheduler preset for engine '{name}'")
    return preset


def version_of(name: str) -> str:
    """The version in the name of an engine, "0.12.0" of "vLLM 0.12.0"; empty if it has none."""
    found = re.search(r"(?<![\w.])v?(\d+\.\d+)", name)
    return found[1] if found else ""


def presets_of(engine: str, version: str) -> tuple[str, str]:
    """Of the scheduler and of the host."""
    if engine != "vllm":
        return engine, engine
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    release = (int(numbers[1]), int(numbers[2])) if numbers else V1_SINCE
    if release < V1_SINCE:
        return "vllm_v0", "vllm_v0" if release >= GRAPHS_SINCE else "vllm_2023_eager"
    return "vllm", "vllm_v1" if release >= ASYNC_SINCE else "vllm_v1_sync"


def serve(row: Row, engine_name: str, version: str) -> Served:
    """@throws Unmapped with the reason"""
    engine = engine_of(engine_name)
    model = model_of(row, DTYPES)
    gpu = systems.gpu_of(row)
    platform = systems.platform_of(row, gpu)
    if model["dtype"] not in gpu.tensor_types:
        raise Unmapped(f"{gpu.name} has no tensor rate of {model['dtype']}")
    tp, pp = number(row, "tp", 1), number(row, "pp", 1)
    scheduler, host = presets_of(engine, version)
    kv_dtype = "fp8" if engine == "trtllm" and row["precision"] in ("fp8", "fp4", "nvfp4") else "bf16"
    printed = re.search(r"\bKV(?: cache)?(?: dtype)?[ =:]*(fp8|bf16)\b(?! but)", row.text("extra", "config"), re.IGNORECASE)
    if printed:
        kv_dtype = printed[1].lower()
    servers = -(-tp * pp // systems.gpus_per_server(platform))
    assumed = ""
    if servers > 1:
        row, assumed = systems.with_network(row, gpu)
    scenario = {
        "model": model | {"kv_dtype": kv_dtype},
        "machine": systems.machine(row, platform, gpu, servers),
        "workload": {"kind": "serving", "instances": [{"name": "server", "tp": tp, "pp": pp}], "scheduler": {"preset": scheduler},
                     "host": {"preset": host}},
    }
    return Served(platform, scenario, tp, engine, pp, assumed)

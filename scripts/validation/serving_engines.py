"""Serving engines of measured rows as scenarios of `workload.kind: serving`, by rules that hold for all tables.

Rules:
  system            GPU and platform, as everywhere (systems.py)
  model, precision  a configuration beside the table or under scenarios/models (model_configs.py), or that of the only public checkpoint
                    (served_models.py). `bf16?` (a
                    guess at the source) is read as bf16. TensorRT-LLM keeps the KV cache of fp8 and fp4 checkpoints in fp8, as
                    NVIDIA's checkpoints say; other engines keep it in bf16
  tp, pp            of the one instance
  engine            scheduler preset by name: vLLM, SGLang, TensorRT-LLM; the host is that of the nearest version (HOSTS). SGLang
                    has that of vLLM V1, whose constants are the only published ones, except request_us. vLLM schedules
                    asynchronously since v0.14 (release notes); the host time of earlier versions, and of rows without a version,
                    is not hidden
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
# From the client to the queue. The preset's 15.6 ms were fitted with all prompts computed, but inference-perf sends prompts that are in
# the cache (load_rows.py). With these cached, the measured TTFT of all six runs is lower by about the same time, 9.4 ms at the median.
REQUEST_US = 6200
# Of earlier versions: what decode steps of Qwen3-32B on vLLM 0.12 (serving_closed_loop.csv, TP2 and TP8 alike) take longer than on the GPU,
# 1.4 ms and 45 us a sequence. inference-sim issue 482 has 0.5-2 ms for the scheduler and 1-5 ms for inputs.
SYNCHRONOUS = {"async": False, "step_us": 1400, "sequence_us": 45}
V1 = {"preset": "vllm_v1", "request_us": REQUEST_US}
# Engine -> the version from which on a host is that of the engine; the first one stands for all versions before it, the last but one of the
# engine for rows without a version
HOSTS = {
    "vllm": (((0, 1), {"preset": "vllm_2023_eager"}), ((0, 4), V1 | SYNCHRONOUS), ((0, 14), V1)),
    "sglang": (((0, 0), V1),),
    "trtllm": (((0, 0), {"preset": "trtllm"}),),
}


@dataclass(frozen=True)
class Served:
    """A platform and a scenario that lacks workload.requests."""

    platform: str
    scenario: dict
    tp: int
    engine: str  # name of the scheduler preset
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


def host_of(engine: str, version: str) -> dict:
    """The host of the nearest version."""
    hosts = HOSTS[engine]
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    if numbers is None:
        return dict(hosts[-2 if len(hosts) > 1 else -1][1])
    own = (int(numbers[1]), int(numbers[2]))
    return dict(next((host for since, host in reversed(hosts) if since <= own), hosts[0][1]))


def serve(row: Row, engine_name: str, version: str) -> Served:
    """@throws Unmapped with the reason"""
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
    servers = -(-tp * pp // systems.gpus_per_server(platform))
    assumed = ""
    if servers > 1:
        row, assumed = systems.with_network(row, gpu)
    scenario = {
        "model": model | {"kv_dtype": kv_dtype},
        "machine": systems.machine(row, platform, gpu, servers),
        "workload": {"kind": "serving", "instances": [{"name": "server", "tp": tp, "pp": pp}], "scheduler": {"preset": engine},
                     "host": host_of(engine, version)},
    }
    return Served(platform, scenario, tp, engine, pp, assumed)

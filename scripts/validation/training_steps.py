"""A published training step as a scenario of `workload.kind: training`.

A Step has what the rules found. Micro-batch and virtual stages that its source does not print are chosen: each candidate is a run, and the
fastest that fits counts. Such rows have groups of their own, "tuned", and so have rows whose software hides tensor-parallel collectives
behind products, "TP overlap": the scenario does not.

Links are fluid: the step of Nemotron-4 15B on 16 H100 (TP4) differs by 0.08 % from trains and takes 0.9 instead of 71 s of wall time.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lib.runner import Result

from . import systems
from .experiment import Experiment
from .rows import Row, Unmapped
from .training_models import Shape

MICRO_BATCHES = (1, 2, 4, 8, 16)  # candidates
MOST_VIRTUAL = 8  # candidates
# Networks of systems whose rows do not name one
NETWORKS = (
    # DGX A100 and DGX H100 user guides; NVIDIA's clusters Selene and Eos consist of them
    (r"(?=.*A100)(.*\b(DGX|NVIDIA|Megatron-LM|JAX-Toolbox)\b)", "8x HDR200"),
    (r"(?=.*H100)(.*\b(DGX|NVIDIA|Megatron-LM)\b)", "8x NDR"),
    (r"foundation-model-stack", "4x 100G RoCE"),  # its README: 400 Gb/s a server
    (r"pytorch/torchtitan", "8x 400G RoCE"),  # benchmarks/llama3_h100_202412_torchtitan.md: RDMA, 400 Gb/s a GPU
    (r"Zero Bubble", "8x 200G RoCE"),  # arXiv 2401.10241 names RoCE only; the usual rate of A100 servers
)
# Bits of these words are the rate of all NICs of a server
TOGETHER = re.compile(r"(\d+) Gbps node-node interconnect \((RoCE|IB)\)")
USUAL_NICS = 8


@dataclass(frozen=True)
class Step:
    row: Row
    stack: str  # for groups
    software: str
    shape: Shape
    gpus: int
    seq: int
    global_batch: int
    gemm: str  # number format of products
    fp32_gradients: bool  # otherwise in the format of the weights
    micro_batch: int | None = None  # None: chosen
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    virtual: int | None = 1  # None: chosen
    sequence_parallel: bool = False
    zero_stage: int = 0
    recompute: str = "none"
    recomputed_layers: int = 0  # full: the first layers of each virtual stage; 0: all
    tp_overlap: str | dict = "none"
    recipe: str = ""  # fp8: of its scales; empty: the default
    narrow_parameters: bool = False  # weights of layers exist in the format of products only
    options: dict = field(default_factory=dict)  # further keys of the workload

    @property
    def dp(self) -> int:
        """@throws Unmapped if the GPUs are no multiple of the other groups"""
        ranks = self.tp * self.pp * self.cp
        if self.gpus % ranks:
            raise Unmapped(f"{self.gpus} GPUs are no multiple of TP x CP x PP {ranks}")
        return self.gpus // ranks

    @property
    def tuned(self) -> bool:
        return self.micro_batch is None or self.virtual is None

    @property
    def operation(self) -> str:
        words = [f"{self.stack} {self.gemm}" + (f" {self.recipe}" if self.recipe else "")]
        words += ["TP overlap"] if self.tp_overlap != "none" else []
        words += ["tuned"] if self.tuned else []
        return ", ".join(words)

    @property
    def size_class(self) -> str:
        return "one server" if self.gpus <= systems.USUAL_GPUS_PER_SERVER else "several servers"


def network_named(row: Row) -> Row:
    """The row with the network of its system, if the row does not name it."""
    text = row.text("system", "source")
    together = TOGETHER.search(row["extra"])
    if together:
        fabric = f"{USUAL_NICS}x {int(together[1]) // USUAL_NICS}G {together[2]}"
    elif re.search(r"[EHN]DR|\d+G IB", row["system"]):
        return row
    else:
        fabric = next((network for pattern, network in NETWORKS if re.search(pattern, text)), None)
        fabric = fabric or row["fabric"]
    return Row(row.file, row.line, row.columns | {"fabric": fabric}, row.value)


def machine_of(row: Row, gpus: int) -> tuple[str, dict]:
    """Platform and `machine`. @throws Unmapped for a system that no platform is"""
    row = network_named(row)
    gpu = systems.gpu_of(row)
    platform = systems.platform_of(row, gpu)
    servers = -(-gpus // systems.gpus_per_server(platform))
    machine = systems.machine(row, platform, gpu, servers, may_assume=True)
    hbm = machine.get("overrides", {}).get("gpu", {}).get("hbm")
    if hbm:  # a module with other memory than the datasheet's
        hbm["visible_gb"] = hbm["capacity_gb"]
    return platform, machine


def scenario(step: Step, machine: dict, machine_gpus: int) -> tuple[dict, dict[str, str]]:
    """The scenario of a step that has nothing to choose, and its files. @throws Unmapped for a batch that does not divide"""
    per_pass = step.micro_batch * step.dp
    if step.global_batch % per_pass:
        raise Unmapped(f"a batch of {step.global_batch} is no multiple of micro-batch x DP {per_pass}")
    weights = "fp16" if step.gemm == "fp16" else "bf16"
    model, files = step.shape.section(weights)
    precision = {"gradients": "fp32" if step.fp32_gradients else "as_parameters"} | ({"gemm": step.gemm} if step.gemm != weights else {})
    precision |= {"recipe": step.recipe} if step.recipe else {}
    precision |= {"parameters": "gemm"} if step.narrow_parameters else {}
    workload = {"kind": "training", "software": step.software, "seq_tokens": step.seq, "global_batch": step.global_batch,
                "micro_batch": step.micro_batch, "tp": step.tp, "pp": step.pp, "dp": step.dp, "zero_stage": step.zero_stage,
                "recompute": {"method": "block", "layers": step.recomputed_layers} if step.recomputed_layers else step.recompute,
                "precision": precision}
    workload |= {"sequence_parallel": True, "tp_overlap": step.tp_overlap} if step.sequence_parallel else {}
    workload |= {name: size for name, size in (("cp", step.cp), ("ep", step.ep)) if size > 1}
    if step.pp > 1:
        workload |= {"schedule": "interleaved", "virtual_stages": step.virtual} if step.virtual > 1 else {"schedule": "1f1b"}
        workload |= stage_layers(step)
    workload |= {"placement": list(range(step.gpus))} if step.gpus < machine_gpus else {}
    folded = {"simulation": {"fold": "auto"}} if machine["groups"]["node"]["servers"] > 1 and step.dp > 1 else {}
    return {"model": model, "machine": machine, "fabric": {"fidelity": "fluid"}} | folded | {"workload": workload | step.options}, files


def expert_options(step: Step) -> dict:
    """Who has which experts: tensor-parallel ranks divide each expert, unless the row says otherwise (etp 1), or there are more
    expert-parallel ranks than replicas. @throws Unmapped for groups that are not modelled"""
    if step.tp == 1 or step.ep == 1:
        if step.dp % step.ep:
            raise Unmapped(f"EP {step.ep} does not divide the {step.dp} replicas")
        return {}
    if not re.search(r"\betp 1\b", step.row["extra"]) and step.dp % step.ep == 0:
        return {}
    if step.ep % step.tp or step.tp * step.dp % step.ep or step.cp > 1:
        raise Unmapped(f"EP {step.ep} of TP {step.tp} x DP {step.dp} with whole experts is not modelled")
    return {"expert_tp": 1}


def stage_layers(step: Step) -> dict:
    """Nothing for equal stages. Otherwise embedding and loss count as a layer each, as in NeMo (account_for_embedding_in_pipeline_split)
    and in arXiv 2401.10241, section 5.1. If this does not divide either, the last stage has fewer layers (NVIDIA-NeMo/Megatron-Bridge
    recipes/deepseek/deepseek_v3.py: 8 layers in each of seven stages, 5 in the last). @throws Unmapped if none are left for it"""
    stages = step.pp * step.virtual
    if step.shape.layers % stages == 0:
        return {}
    if (step.shape.layers + 2) % stages:
        each = -(-step.shape.layers // stages)
        last = step.shape.layers - each * (stages - 1)
        if last < 1:
            raise Unmapped(f"{step.shape.layers} layers cannot be divided among {stages} virtual stages")
        return {"stage_layers": [each] * (stages - 1) + [last]}
    each = (step.shape.layers + 2) // stages
    return {"stage_layers": [each - 1] + [each] * (stages - 2) + [each - 1]}


def candidates(step: Step) -> list[Step]:
    """The steps to choose from: those whose batch and layers divide."""
    micro = MICRO_BATCHES if step.micro_batch is None else (step.micro_batch,)
    virtual = range(1, MOST_VIRTUAL + 1) if step.virtual is None and step.pp > 1 else (step.virtual or 1,)
    found = []
    for m in micro:
        for v in virtual:
            stages, batches = step.pp * v, step.global_batch // (m * step.dp)
            whole = step.shape.layers % stages == 0 and step.global_batch % (m * step.dp) == 0
            if not step.tuned or (whole and (v == 1 or batches % step.pp == 0)):
                found.append(replace(step, micro_batch=m, virtual=v))
    if not found:
        raise Unmapped(f"no micro-batch divides a batch of {step.global_batch} among {step.dp} replicas")
    return found


def experiment(step: Step, value: Callable[[dict], float], unit: float) -> Experiment:
    """`value` reads the row's metric from the metrics of a run; `unit` is one unit of the row in it. @throws Unmapped with the reason"""
    platform, machine = machine_of(step.row, step.gpus)
    gpu = next(gpu for gpu in systems.gpus() if gpu.name == machine["groups"]["node"]["gpu"])
    if step.gemm not in gpu.tensor_types:
        raise Unmapped(f"{gpu.name} has no tensor rate of {step.gemm}")
    machine_gpus = machine["groups"]["node"]["servers"] * systems.gpus_per_server(platform)
    step = replace(step, options=step.options | expert_options(step))

    def one(chosen: Step) -> Experiment:
        text, files = scenario(chosen, machine, machine_gpus)
        cost = chosen.gpus * chosen.shape.layers / chosen.pp * chosen.global_batch / (chosen.micro_batch * chosen.dp)  # kernels
        words = f"micro-batch {chosen.micro_batch}" + (f", {chosen.virtual} virtual stages" if chosen.pp > 1 else "")
        return Experiment(step.operation, platform, text, None, lambda result: value(result.summary["metrics"]), unit, cost,
                          lambda result: words if step.tuned else "", size_class=step.size_class, files=files, seconds=seconds,
                          assumed=systems.assumption(platform, machine))

    first, *others = map(one, candidates(step))
    return replace(first, variants=tuple(others))


def seconds(result: Result) -> float:
    return result.summary["metrics"]["step_s"]

"""Software stacks of published training steps: how each source ran the step that its row prints.

Rules, by source:
  Megatron-LM 2021-2022   software megatron_2021, fp16. Recomputation and sequence parallelism as printed. Data-parallel ranks reduce all
                          gradients (ZeRO stage 0). Micro-batch and virtual stages are chosen where they are not printed
  Megatron-LM v0.8        megatron_core with sequence parallelism, distributed optimizer, and all overlaps
  NeMo, MLPerf            the same, as NVIDIA's recipes say; gradients are reduced in bf16 (grad_sync_dtype)
  vTrain                  megatron_deepspeed, full recomputation, one bucket
  llm-foundry             FSDP FULL_SHARD: stage 3. AC: full recomputation. amp_bf16 reduces gradients in fp32, bf16 in bf16
  torchtitan, fms-fsdp    FSDP: stage 3. torchtitan's rows that name no full activation checkpointing recompute selectively, by operators
  MaxText, Pax            XLA: stage 3, recomputation of the products that the policy does not save
Other sources: by the software that the row's columns name. Megatron-Bridge and NeMo, Megatron, torchtitan, FSDP (as torchtitan without its
recomputation) and DeepSpeed with the ZeRO stage that is printed. Recomputation as printed, else none.
FP8: NeMo, MLPerf, XLA     delayed scales (NeMo 24.07 to dgxc-benchmarking 25.02: fp8_hybrid, fp8_amax_history_len)
     Megatron-Bridge       scales of current tensors (bf16_with_fp8_current_scaling_mixed, its default on Hopper)
     torchtitan            the same (torchao float8, dynamic tensorwise)
A policy that recomputes a share of each layer becomes full recomputation of this share of the layers.
"""

import re
from dataclasses import replace

from .rows import Row, Unmapped
from .served_models import number
from .training_adapters import has_adapters, with_adapters
from .training_models import Shape, shape_of
from .training_recipes import userbuffers
from .training_steps import Step

# "FP8-CS" scales tensors by their current maxima, "MX" blocks of 32
PRECISIONS = {"fp16": "fp16", "bf16": "bf16", "amp_bf16": "bf16", "fp8": "fp8", "fp8-cs": "fp8", "fp8-mx": "mxfp8", "mxfp8": "mxfp8", "nvfp4": "nvfp4"}
AUTOGRAD = {"keep_gathered": True}  # PyTorch keeps the gathered input of a linear, or gathers it once more as it recomputes the layer
FP8_RECIPES = ((r"row.?wise", "rowwise"), (r"tensor.?wise", "tensorwise"), (r"block.?wise", "blockwise"))
# Shares of a layer's products that XLA's policies recompute. MaxText saves those of attention (remat_policy custom, save_qkv_proj), so
# gate and up run again; Pax saves QKV and both output products (SAVE_QKV_OUT_PROJ), so the first of the MLP runs again.
PAX_SHARE = 8 / 24
# Of Megatron-Bridge: recipes/deepseek/deepseek_v3.py, deepseek_v3_pretrain_config_32nodes (full, uniform, of each layer)
# and recipes/qwen/qwen3_moe.py of v0.4.2, qwen3_30b_a3b_pretrain_config (the same)
RECIPES_RECOMPUTE = ((r"deepseek-?v3", "full"), (r"qwen3-30b-a3b", "full"))
# Of Megatron-Bridge, models/qwen/qwen3_moe_bridge.py and models/deepseek/deepseek_v3_bridge.py; recipes of its performance tables also fuse
# the router (perf_recipes/qwen, perf_recipes/deepseek)
BRIDGE_EXPERTS = {"permute_fused": True}
BRIDGE_PERFORMANCE_EXPERTS = BRIDGE_EXPERTS | {"router_fused": True}
# Pages that call recomputation off where their script leaves it to the recipe, but for overlapped all-to-alls
# (qwen3-235b/benchmarks/bench_qwen3_pretrain.py: RECOMPUTE is not set)
LEFT_TO_THE_RECIPE = re.compile(r"qwen3-30b/benchmarks/RESULTS\.md")


def gemm_of(row: Row) -> str:
    """@throws Unmapped for a number format that kind training lacks"""
    gemm = PRECISIONS.get(re.sub(r"[ ,(]+(row|tensor|block).?wise.*", "", row["precision"].lower()))
    if gemm is None:
        raise Unmapped(f"precision '{row['precision']}' is none of {', '.join(PRECISIONS)}")
    return gemm


def recipe_said(text: str) -> str:
    """The recipe of fp8 that a text names; empty: none."""
    return next((recipe for words, recipe in FP8_RECIPES if re.search(words, text, re.IGNORECASE)), "")


def recipe_of(row: Row) -> str:
    """What has a scale of its own in fp8; empty: the default, delayed scales of tensors."""
    if gemm_of(row) != "fp8":
        return ""
    said = recipe_said(row.text("precision", "model", "extra"))
    if said:
        return said
    current = row["precision"].lower() == "fp8-cs" or re.search(r"Megatron-Bridge|torchtitan", row["source"])
    return "tensorwise" if current else ""


def parallel(row: Row) -> dict:
    """Sizes of the groups, 1 where none is printed, and what the columns say of batches."""
    sizes = {name: row.integer(name) or 1 for name in ("tp", "pp", "cp", "ep")}
    gpus = number(row, "n_gpus")
    return sizes | {"gpus": gpus, "seq": number(row, "seq"), "micro_batch": row.integer("mbs"),
                    "virtual": row.integer("vp") if sizes["pp"] > 1 else 1}


def recompute_printed(row: Row) -> str:
    found = re.search(r"(full|selective)(?: activation)? (?:recompute|checkpoint|AC\b)|(?:recompute|AC)[ =:]+(full|selective)", row["extra"], re.IGNORECASE)
    return (found[1] or found[2]).lower() if found else "none"


def micro_batch_of(row: Row) -> int:
    """The printed micro-batch, or the batch of a replica that accumulates nothing. @throws Unmapped if neither is printed"""
    sizes = parallel(row)
    whole = row.integer("gbs")
    replicas = sizes["gpus"] // (sizes["tp"] * sizes["cp"] * sizes["pp"])
    micro_batch = sizes["micro_batch"] or (whole // replicas if whole and replicas and whole % replicas == 0 else None)
    if not micro_batch:
        raise Unmapped("no micro-batch is printed")
    return micro_batch


def recomputed(found: Step, part: float) -> Step:
    """The step with full recomputation of a part of its layers."""
    return replace(found, recompute="full", recomputed_layers=max(1, round(part * found.shape.layers)))


def step(row: Row, stack: str, software: str, fp32_gradients: bool, **more) -> Step:
    sizes = parallel(row)
    shape = shape_of(row, sizes["seq"], sizes["tp"])
    return Step(row=row, stack=stack, software=software, shape=shape, gemm=gemm_of(row), recipe=recipe_of(row), fp32_gradients=fp32_gradients,
                **({"global_batch": row.integer("gbs")} | sizes | more))


def megatron_2021(row: Row) -> Step:
    if re.search(r"ZeRO-3", row["extra"]):
        return step(row, "Megatron", "megatron_deepspeed", False, zero_stage=3, recompute="full")
    recompute = recompute_printed(row)
    if "SC21" in row["source"]:
        recompute = "full"
    return step(row, "Megatron", "megatron_2021", False, recompute=recompute, sequence_parallel=bool(re.search(r"\bSP\b", row["extra"])))


def megatron_tables(row: Row) -> Step:
    """Steps without accumulation: a micro-batch is the batch of a replica."""
    sizes = parallel(row)
    replicas = sizes["gpus"] // (sizes["tp"] * sizes["pp"])
    return step(row, "Megatron", "megatron_2021", False, recompute="full", micro_batch=number(row, "gbs") // replicas)


def nvidia(row: Row, stack: str, fp32_gradients: bool, overlap: bool = True) -> Step:
    tp = row.integer("tp") or 1
    fsdp = re.search(r"FSDP=([1-9]\d*)", row["extra"])
    return step(row, stack, "megatron_core", fp32_gradients, sequence_parallel=tp > 1, zero_stage=3 if fsdp else 1,
                tp_overlap=userbuffers(row) if overlap and tp > 1 else "none", options={"dp_overlap": True, "param_gather_overlap": True})


def megatron_core(row: Row) -> Step:
    return nvidia(row, "Megatron", True)


def nemo(row: Row) -> Step:
    if not row.integer("gbs") or not row.integer("seq"):
        raise Unmapped("the configuration is not printed")
    # grok1_314b.yaml switches ub_tp_comm_overlap off
    found = nvidia(row, "MLPerf" if "mlcommons" in row["source"] else "NeMo", False, not re.search("grok", row["model"]))
    release = re.search(r"dgxc-benchmarking v([\d.]+)", row["source"])
    # nemotron4-340b-synth.yaml recomputes attention; NVIDIA/NeMo recipes/nemotron4_340b.py, which releases from 25.04 run, does not
    if "340b" in row["model"] and release and release[1] < "25.04":
        found = replace(found, recompute="selective")
    # llama3.1_70b.yaml, llama3.1_405b.yaml, nemotron4-340b-synth.yaml, and the recipes of NeMo in later releases
    if release and found.pp > 1 and re.search("(llama3.1 (70|405)|nemotron4 340)b", row["model"]):
        found = replace(found, options=found.options | {"defer_embedding_wgrad": True})
    if found.shape.has_experts and "Megatron-Bridge" in row["source"]:
        found = replace(found, options=found.options | BRIDGE_PERFORMANCE_EXPERTS)
    if "nemo_megatron" in row["source"]:  # gpt3_175b_hydra.yaml: hidden_dropout and attention_dropout
        found = replace(found, options=found.options | {"dropout": True})
    return found


def vtrain(row: Row) -> Step:
    return step(row, "vTrain", "megatron_deepspeed", False, recompute="full", virtual=1)


def llm_foundry(row: Row) -> Step:
    checkpoints = "AC=True" in row["extra"]
    amp = row["precision"].startswith("amp")
    # The rows without amp are the table of pytorch:1.13.1, the image of submit_benchmarks.py, whose checkpoints recompute whole layers.
    return step(row, "MPT", "llm_foundry", amp, zero_stage=3, recompute="full" if checkpoints else "none",
                options={} if amp or not checkpoints else {"recompute_stops_early": False})


def torchtitan(row: Row) -> Step:
    sizes = parallel(row)
    micro_batch = micro_batch_of(row)
    words = row.text("model", "extra")
    compiled = re.search("compile", words) or row["precision"] != "bf16" or sizes["cp"] > 1
    found = step(row, "torchtitan", "torchtitan_compile" if compiled else "torchtitan", True, zero_stage=3,
                 sequence_parallel=sizes["tp"] > 1, tp_overlap="decomposed" if re.search("AsyncTP", words) else "none",
                 micro_batch=micro_batch, global_batch=micro_batch * sizes["gpus"] // (sizes["tp"] * sizes["cp"]),
                 options=AUTOGRAD if sizes["tp"] > 1 else {})
    full = re.search("full AC", words) or sizes["tp"] > 1 or sizes["cp"] > 1  # tables 2 and 4 of the source
    return replace(found, recompute="full" if full else "selective")  # its default, selective_ac_option op


def fms_fsdp(row: Row) -> Step:
    sizes = parallel(row)
    micro_batch = micro_batch_of(row)
    hybrid = "HSDP" in row["extra"]
    return step(row, "fms-fsdp", "torchtitan", True, zero_stage=3, recompute="none" if hybrid else "full",
                micro_batch=micro_batch, global_batch=micro_batch * sizes["gpus"], options={"hsdp": 8} if hybrid else {})


def fsdp(row: Row) -> Step:
    """PyTorch's FSDP in a script that nothing else is known of."""
    sizes = parallel(row)
    micro_batch, whole = micro_batch_of(row), row.integer("gbs")
    return step(row, "FSDP", "torchtitan_compile" if re.search("compile", row.text("model", "extra")) else "torchtitan", True, zero_stage=3,
                recompute=recompute_printed(row), micro_batch=micro_batch, sequence_parallel=sizes["tp"] > 1,
                global_batch=whole or micro_batch * sizes["gpus"] // (sizes["tp"] * sizes["cp"]))


def deepspeed(row: Row) -> Step:
    stage = re.search(r"ZeRO[- ]?(?:stage )?([0-3])", row.text(*SOFTWARE_COLUMNS), re.IGNORECASE)
    if not stage:
        raise Unmapped("no ZeRO stage is printed")
    sizes, micro_batch = parallel(row), micro_batch_of(row)
    replicas = sizes["gpus"] // (sizes["tp"] * sizes["pp"] * sizes["cp"])
    return step(row, "DeepSpeed", "megatron_deepspeed", False, zero_stage=int(stage[1]), recompute=recompute_printed(row),
                micro_batch=micro_batch, global_batch=row.integer("gbs") or micro_batch * replicas)


def megatron_named(row: Row) -> Step:
    """Megatron-LM of today, or a framework on it, of which the row says the rest."""
    if not row.integer("seq"):
        raise Unmapped("has no seq")
    # Recipes of mixtures leave tp_comm_overlap out (NVIDIA-NeMo/Megatron-Bridge recipes/deepseek, recipes/qwen/h100/qwen3_moe.py)
    found = nvidia(row, "Megatron", not re.search("bridge|nemo", row.text(*SOFTWARE_COLUMNS), re.IGNORECASE), (row.integer("ep") or 1) == 1)
    recompute = recompute_printed(row)
    overlaps = re.search(r"all-to-all overlap on", row["extra"])
    if "recompute as in the recipe" in row["extra"] or (LEFT_TO_THE_RECIPE.search(row["source"]) and not overlaps):
        recompute = next((kept for model, kept in RECIPES_RECOMPUTE if re.search(model, row["model"], re.IGNORECASE)), None)
        if recompute is None:
            raise Unmapped(f"the recomputation of the recipe of {row['model']} is not known")
    options = {"overlap_moe": True} if overlaps else {}
    options |= BRIDGE_EXPERTS if found.shape.has_experts else {}
    return replace(found, recompute=recompute, options=found.options | options)


def xla(row: Row) -> Step:
    found = step(row, "XLA", "xla_fsdp", False, zero_stage=3)
    if "maxtext" in row["source"]:
        part = _gate_and_up(found.shape)
        sharded = int(re.search(r"FSDP=(\d+)", row["extra"])[1])
    else:
        part, sharded = PAX_SHARE, 128 if "175b" in row["model"] else 8  # paxml/configure.sh: 16 servers, one server
    return recomputed(replace(found, options={"hsdp": sharded} if sharded < found.gpus else {}), part)


def jax_toolbox(row: Row) -> Step:
    words = re.search(r"(DP|FSDP)\d* bs(\d+)", row["extra"])
    micro_batch, gpus = int(words[2]), number(row, "n_gpus")
    found = step(row, "XLA", "xla_fsdp", False, zero_stage=3 if words[1] == "FSDP" else 0, micro_batch=micro_batch, global_batch=micro_batch * gpus)
    return found if words[1] == "DP" else recomputed(found, PAX_SHARE)


def _gate_and_up(shape: Shape) -> float:
    hidden, ffn = shape.size("hidden_size"), shape.size("intermediate_size")
    groups = shape.size("num_attention_heads") / shape.size("num_key_value_heads")
    return 2 * ffn / (3 * ffn + 2 * hidden + 2 * hidden / groups)



# The first match counts
SOURCES = (
    (r"vTrain", vtrain),
    (r"SC21|Korthikanti|old README", megatron_2021),
    (r"images/tables\.tex", megatron_tables),
    (r"Megatron-LM README model table", megatron_core),
    (r"torchtitan", torchtitan),
    (r"fms-fsdp", fms_fsdp),
    (r"llm-foundry", llm_foundry),
    (r"JAX-Toolbox", jax_toolbox),
    (r"dgxc-benchmarking \S+:(maxtext|paxml)/", xla),
    (r"NeMo|dgxc-benchmarking|mlcommons", nemo),
)


SOFTWARE_COLUMNS = ("framework", "software", "source", "model", "extra", "note")
# Software that a row of another source names
SOFTWARE = (
    (r"megatron|\bnemo\b", megatron_named),
    (r"torchtitan", torchtitan),
    (r"deepspeed|\bZeRO[- ]?[0-3]", deepspeed),
    (r"\bFSDP2?\b|fully.sharded", fsdp),
)


def step_of(row: Row) -> Step:
    """@throws Unmapped with the reason"""
    dispatcher = re.search(r"dispatcher (?!NCCL)([\w ]+?)(?:;|,|$)", row["extra"])
    deepep = dispatcher is not None and re.match("DeepEP", dispatcher[1])  # over EFA, UCCL or NVSHMEM carries its messages
    if dispatcher and not deepep:
        raise Unmapped(f"all-to-alls of {dispatcher[1]} are not modelled")
    rule = next((rule for pattern, rule in SOURCES if re.search(pattern, row["source"])), None)
    rule = rule or next((rule for pattern, rule in SOFTWARE if re.search(pattern, row.text(*SOFTWARE_COLUMNS), re.IGNORECASE)), None)
    if rule is None:
        raise Unmapped(f"no rule for the software of '{row['source']}'")
    found = with_adapters(rule(row), row) if has_adapters(row) else rule(row)
    return replace(found, options=found.options | {"expert_exchange": "deepep"}) if deepep else found

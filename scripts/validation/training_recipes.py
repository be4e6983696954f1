"""Columns that a table of training steps leaves empty, from the configuration that the source publishes elsewhere.

Each entry: words of the row's source and model, the columns, and the page. An entry fills empty columns only.
NA in a table means that the run does without: one virtual stage, one group.
"""

import re

from .rows import Row

ABSENT = ("na", "n/a")  # unlike an empty cell: the run does without
GROUPS = ("tp", "pp", "cp", "ep", "vp")

RECIPES = (
    # Narayanan et al., arXiv 2104.04473, section 5.2: tensor-parallel size 8, pipeline-parallel size 12
    ("SC21 Table 2", r"GPT 174\.6B", r"model-parallel size 96", {"tp": "8", "pp": "12"}),
    # Korthikanti et al., arXiv 2205.05198, table 3: interleaving for 175B and 530B only
    ("Korthikanti", r"GPT 1T", "", {"vp": "1"}),
    # NVIDIA/Megatron-LM README, strong scaling: the model of 177 billion parameters of the weak scaling, whose row prints the rest
    ("Megatron-LM README", r"GPT 177B", r"strong scaling",
     {"seq": "4096", "tp": "8", "pp": "6", "layers": "96", "hidden": "12288", "heads": "96"}),
    # NVIDIA/Megatron-LM 5281919 images/tables.tex: the weak scaling of the same models on one server
    (r"tables\.tex", r"GPT weak scaling TP1", "", {"layers": "24", "hidden": "1920", "heads": "15"}),
    (r"tables\.tex", r"GPT weak scaling TP2", "", {"layers": "30", "hidden": "2304", "heads": "18"}),
    # NVIDIA/dgxc-benchmarking v25.05 nemotron/README.md
    ("dgxc-benchmarking", r"nemotron4 340b", "", {"vp": "12"}),
    # NVIDIA/dgxc-benchmarking v24.11.1 grok1/configure.sh, 64 nodes
    ("dgxc-benchmarking", r"grok1 314b", "",
     {"seq": "8192", "gbs": "1024", "mbs": "1", "tp": "4", "pp": "8", "cp": "2", "vp": "8", "ep": "8"}),
    # 3.test_cases/megatron/megatron-bridge of the source, dsv3/bench_dsv3_pretrain.py and qwen3-235b/benchmarks/bench_qwen3_pretrain.py:
    # exchanges of experts beside other micro-batches need virtual stages, two unless VPP says otherwise
    ("awslabs/awsome-distributed-ai", ".*", "overlap off", {"vp": "1"}),
    ("awslabs/awsome-distributed-ai", ".*", "overlap on", {"vp": "2"}),
    # NVIDIA/NeMo docs/source/performance/performance_long_sequence.md: 4 Mi tokens a step, micro-batches of one sequence
    ("long-sequence", r"Llama2-7B long-seq 4K", "", {"gbs": "1024", "mbs": "1"}),
    ("long-sequence", r"Llama2-7B long-seq 8K", "", {"gbs": "512", "mbs": "1"}),
    ("long-sequence", r"Llama2-7B long-seq 16K", "", {"gbs": "256", "mbs": "1"}),
    ("long-sequence", r"Llama2-7B long-seq 64K", "", {"gbs": "64", "mbs": "1"}),
    ("long-sequence", r"Llama2-7B long-seq 256K", "", {"gbs": "16", "mbs": "1"}),
)

# SMs of the collectives of TP overlap, where a recipe has others than Transformer Engine: words of the model; of qkv_dgrad, qkv_wgrad, fc1_dgrad
# and fc1_wgrad (bulk), proj_fprop and fc2_fprop (pipelined; None: a ring, for which the default stands). All on H100.
# NVIDIA/NeMo nemo/collections/llm/recipes/tp_overlap_configs/userbuffers.py; nemo megatron: NVIDIA/dgxc-benchmarking v24.11.1,
# gpt3_175b_hydra.yaml. The recipes of Nemotron have the default on H100.
COMM_SMS = (
    (r"llama.?[23](\.1)?[ _-]70b", (4, 24, 2, 4, 24, 16)),
    (r"llama3\.1[ _]405b", (2, 24, 2, 2, 24, 8)),
    (r"nemo megatron", (4, 8, 2, 4, 24, 20)),
    (r"gpt-?3.175b", (4, 4, 2, 4, 24, None)),
    (r"gpt-?3.20b", (8, 16, 4, 16, 16, 24)),
)
COMM_PRODUCTS = ("qkv_dgrad", "qkv_wgrad", "fc1_dgrad", "fc1_wgrad", "proj_fprop", "fc2_fprop")


def userbuffers(row: Row) -> str | dict:
    """tp_overlap of NVIDIA's recipe."""
    sms = next((sms for model, sms in COMM_SMS if re.search(model, row["model"], re.IGNORECASE)), None)
    if not sms or "H100" not in row["system"]:
        return "userbuffers"
    return {"default": "userbuffers"} | {product: {"method": "userbuffers", "comm_sms": count} for product, count in zip(COMM_PRODUCTS, sms) if count}


def filled(row: Row) -> Row:
    """The row with the published values of its empty columns."""
    absent = [column for column, value in row.columns.items() if value.strip().lower() in ABSENT]
    columns = row.columns | dict.fromkeys(absent, "")
    for source, model, extra, published in RECIPES:
        if re.search(source, row["source"]) and re.fullmatch(model, row["model"]) and re.search(extra, row["extra"]):
            columns |= {column: value for column, value in published.items() if not columns.get(column)}
    columns |= {column: "1" for column in absent if column in GROUPS and not columns[column]}
    return Row(row.file, row.line, columns, row.value)

"""Small valid inputs of each kind of workload, from which mutations start. Each input runs in a fraction of a second."""

import json
import pathlib
from dataclasses import dataclass, field

from lib.command_line import ROOT

from lib import chakra as encoding

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "num_hidden_layers": 4, "hidden_size": 1024,
    "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 2816, "vocab_size": 8192, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
EXPERTS = MODEL | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
AZURE = ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:46.9951690,96,9\n"
         "2023-11-16 18:15:47.1,131,3\n")
MOONCAKE = "".join(json.dumps({"timestamp": 7 * i, "input_length": 100 + 50 * i, "output_length": 3 + i, "hash_ids": [i]}) + "\n" for i in range(3))
CLUSTER = {"num_nodes": 1, "link_bw": [16, 100], "link_latency": 1000, "nodes": [{
    "num_instances": 1, "cpu_mem": {"mem_size": 64, "mem_bw": 50, "mem_latency": 0}, "instances": [{
        "model_name": "org/tiny", "hardware": "RTX4090", "pd_type": None, "tp_size": 2, "pp_size": 2, "num_npus": 4, "ep_size": 1,
        "dp_group": None, "npu_mem": {"mem_size": 1, "mem_bw": 1008, "mem_latency": 0, "mem_util": 0.9}, "max_num_seqs": 8, "block_size": 16,
        "max_num_batched_tokens": 64, "kv_cache_dtype": "auto", "enable_prefix_caching": True, "placement": {"default": {"weights": "npu"}}}]}]}
DATASET = "".join(json.dumps({"input_toks": 40 + i, "output_toks": 1 + i, "arrival_time_ns": 9000 * i, "input_tok_ids": list(range(40 + i))}) + "\n"
                  for i in range(3))
DENSE = ("embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj", "final_layernorm")
PREFILL = {"kind": "disaggregated_prefill", "requests": {"count": 2, "prompt_tokens": 256}, "chunk_tokens": 128,
           "prefill": {"tp": 2, "pp": 1}, "decode": {"tp": 2, "pp": 1, "steps": 2}}
SERVING = {"kind": "serving", "requests": {"count": 4, "arrivals": "poisson", "rate_per_s": 100, "prompt_tokens": 100, "output_tokens": 4},
           "engine": "vllm-0.19", "scheduler": {}, "host": {}}
TRAINING = {"kind": "training", "seq_tokens": 128, "global_batch": 8, "micro_batch": 1}


@dataclass
class Base:
    """A scenario, or a cluster configuration of LLMServingSim, with its files. A tree is written as JSON, which is valid YAML; other content is written as text."""

    name: str
    platform: str
    scenario: dict
    files: dict[str, object] = field(default_factory=dict)
    arguments: tuple[str, ...] = ("s.yaml",)  # s.yaml holds the scenario


def profile() -> dict[str, str]:
    """A profile bundle for two ranks."""
    tokens, contexts, sequences = (1, 64, 512), (0, 128, 1024), (1, 8, 32)
    dense = [f"{layer},{t},{3 + i + t / 100}" for i, layer in enumerate(DENSE) for t in tokens]
    per_sequence = [f"{layer},{n},{20 + n}" for layer in ("lm_head", "sampler") for n in sequences]
    attention = [f"{t},{c},0,0,{5 + t / 10 + c / 50}" for t in tokens for c in contexts]
    attention += [f"0,0,{n},{c},{7 + n + c / 20}" for n in sequences for c in contexts]
    tables = {"dense": ("layer,tokens,time_us", dense), "per_sequence": ("layer,sequences,time_us", per_sequence),
              "attention": ("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", attention)}
    made = {f"bundle/tp2/{name}.csv": "\n".join([head, *rows]) + "\n" for name, (head, rows) in tables.items()}
    return made | {"bundle/meta.yaml": "hardware: TEST\n"}


def shipped(path: str) -> str:
    return (ROOT / "platforms" / "datasheets" / path).read_text(encoding="utf-8")


SIMAI = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 2 vpp: 1 ga: 2 all_gpus: 8 checkpoints: 0 checkpoint_initiates: 0 pp_comm: 4096
6
grads -1 0 NONE 0 0 NONE 0 0 REDUCESCATTER 65536 100
a -1 5000 ALLGATHER 8192 4000 REDUCESCATTER 8192 4000 NONE 0 100
b -1 5000 REDUCESCATTER 8192 4000 ALLGATHER 8192 4000 NONE 0 100
a -1 5000 ALLGATHER 8192 4000 REDUCESCATTER 8192 4000 NONE 0 100
b -1 5000 REDUCESCATTER 8192 4000 ALLGATHER 8192 4000 NONE 0 100
end -1 0 ALLREDUCE 4 0 NONE 0 0 NONE 0 100
"""


def chakra_trace(rank: int) -> bytes:
    """A Chakra trace with a node of each type."""
    peer = {"comm_dst": 1 - rank} if rank == 0 else {"comm_src": 0}
    nodes = [encoding.node(1, encoding.COMP, micros=3), encoding.node(2, encoding.COMP, data=[1], num_ops=10**9, tensor_size=10**6),
             encoding.node(3, encoding.COLL, data=[2], comm_type=encoding.ALL_REDUCE, comm_size=65536, pg_name="pair"),
             encoding.node(4, encoding.SEND if rank == 0 else encoding.RECV, ctrl=[3], comm_size=4096, comm_tag=1, **peer),
             encoding.node(5, encoding.MEM_STORE, data=[3], tensor_size=4096), encoding.node(6, encoding.METADATA, data=[5]),
             encoding.node(7, encoding.COMP, ctrl=[6], micros=2, is_cpu_op=True)]
    return encoding.trace(nodes)


def bases() -> list[Base]:
    model = {"config": "models/tiny.json"}
    tiny = {"models/tiny.json": MODEL}
    azure = PREFILL | {"requests": {"format": "azure", "file": "trace.csv", "rate_scale": 100}}
    mooncake = PREFILL | {"requests": {"format": "mooncake", "file": "trace.jsonl", "max_count": 2}}
    listed = PREFILL | {"requests": {"list": [{"prompt_tokens": 130, "output_tokens": 3}, {"arrival_s": 1e-3, "prompt_tokens": 20}]}}
    own = {"groups": {"prefill": {"gpu": "./gpu.yaml"}, "decode": {"gpu": "H100-SXM5-80GB"}}, "nic": {"datasheet": "./nic.yaml"},
           "network": {"datasheet": "./switch.yaml"}}
    sheets = {"gpu.yaml": shipped("gpus/H100-SXM5-80GB.yaml"), "nic.yaml": shipped("nics/connectx7_ndr.yaml"),
              "switch.yaml": shipped("network_switches/qm9700.yaml")}
    faults = [{"at_us": 50, "link": "IB_Cable_P[0]", "rate_ratio": 0.5}, {"at_us": 100, "gpu": "decode0.gpu0", "slow_ratio": 0.9},
              {"at_us": 200, "link": "GPU_P[0][0]_PCI", "fail": True}]
    fabric = {"fidelity": "fluid", "transaction_bytes": "auto", "classes": {"tp": {"vc": 0}, "kv": {"vc": 1, "weight": 1, "priority": 0}}}
    kernels = [{"op": "gemm", "m": 64, "n": 1024, "k": 512, "dtype": "fp8"},
               {"op": "attention_decode", "heads": 16, "kv_heads": 8, "head_dim": 64, "batch": 4, "context_tokens": 300},
               {"op": "norm", "tokens": 32, "width": 1024}]
    return [
        Base("plx", "plx_box", {"schema_version": 1, "platform": "plx_box", "seed": 1, "model": model | {"dtype": "bf16"},
                                "machine": {"groups": {"prefill": {"servers": 1, "gpu": "L40S"}, "decode": {"servers": 1}},
                                            "plx": {"uplink": "dual_root", "nics_per_plx": 1}, "network": {"kind": "single_switch"}},
                                "workload": PREFILL}, tiny),
        Base("fluid", "plx_box", {"model": model, "fabric": fabric, "workload": PREFILL | {"prefill": {"tp": 2, "pp": 2}}}, tiny),
        Base("azure", "plx_box", {"model": model, "workload": azure}, tiny | {"trace.csv": AZURE}),
        Base("mooncake", "dgx_h100", {"model": model, "workload": mooncake}, tiny | {"trace.jsonl": MOONCAKE}),
        Base("list", "plx_box", {"model": model, "workload": listed, "machine": {"plx": {"acs": True}}}, tiny),
        Base("faults", "plx_box", {"model": model, "workload": PREFILL, "events": faults}, tiny),
        Base("own", "dgx_h100", {"model": model, "machine": own, "workload": PREFILL}, tiny | sheets),
        Base("experts", "dgx_b200", {"model": model, "workload": PREFILL}, {"models/tiny.json": EXPERTS}),
        Base("profile", "plx_box", {"model": model, "compute": {"profile": "bundle"}, "workload": PREFILL}, tiny | profile()),
        Base("llmservingsim", "plx_box", CLUSTER, {"models/org_tiny.json": MODEL, "d.jsonl": DATASET},
             ("--cluster-config", "s.yaml", "--dataset", "d.jsonl", "--models", "models")),
        Base("serving", "plx_box", {"model": model, "workload": SERVING | {"instances": [{"name": "a", "tp": 2, "pp": 2}]}}, tiny),
        Base("pair", "plx_box", {"model": model, "workload": SERVING | {"instances": [
            {"name": "p", "role": "prefill", "tp": 2, "pp": 1, "gpus": [0, 1]}, {"name": "d", "role": "decode", "tp": 2, "pp": 1, "gpus": [4, 5]}]}}, tiny),
        Base("training", "dgx_h100", {"model": model, "workload": TRAINING | {"tp": 2, "sequence_parallel": True, "pp": 2, "schedule": "1f1b"}}, tiny),
        Base("training_folded", "dgx_h100", {
            "model": model, "simulation": {"fold": "require"}, "workload": TRAINING | {"tp": 2, "pp": 2, "dp": 8, "schedule": "1f1b"},
            "machine": {"groups": {"node": {"servers": 4}}, "network": {"kind": "rail_optimized", "tiers": 3, "pod_leaves": 2, "spines": 4, "cores": 2}}}, tiny),
        Base("virtual", "plx_box", {"model": model, "workload": TRAINING | {
            "pp": 2, "virtual_stages": 2, "schedule": "interleaved", "software": "megatron_2021", "recompute": "selective", "zero_stage": 0}}, tiny),
        Base("shards", "dgx_a100", {"model": model, "workload": TRAINING | {"zero_stage": 3, "software": "torchtitan", "recompute": "full"}}, tiny),
        Base("routed", "dgx_h100", {"model": model, "workload": TRAINING | {"ep": 4, "cp": 2, "steps": 2}}, {"models/tiny.json": EXPERTS}),
        Base("table", "dgx_h100", {"model": model, "workload": TRAINING | {"pp": 2, "dp": 1, "global_batch": 2, "schedule": "./slots.txt"}},
             tiny | {"slots.txt": "rank 0: F0 F1 B0 B1\nrank 1: F0 I0 F1 W0 B1\n"}),
        Base("layer", "dgx_h100", {"model": model, "workload": {"kind": "layer", "phase": "prefill", "tp": 4, "tokens": 256}}, tiny),
        Base("decode", "plx_box", {"model": model, "workload": {"kind": "layer", "phase": "decode", "tp": 2, "batch": 8,
                                                                "context_tokens": 500, "library": "vllm-0.19"}}, {"models/tiny.json": EXPERTS}),
        Base("collective", "dgx_h100", {"workload": {"kind": "collective", "op": "all_reduce", "min_bytes": 1024, "max_bytes": 1048576,
                                                     "factor": 32, "dtype": "fp32"}}),
        Base("ring", "dgx_a100", {"machine": {"groups": {"node": {"servers": 2}}},
                                  "workload": {"kind": "collective", "op": "all_gather", "ranks_per_server": 2, "sizes_bytes": [65536],
                                               "algorithm": "ring", "protocol": "simple"}}),
        Base("p2p", "plx_box", {"workload": {"kind": "p2p", "test": "matrix", "engine": "copy_engine", "copy_bytes": 100000, "ranks": 4}}),
        Base("ib", "dgx_a100", {"machine": {"groups": {"node": {"servers": 2}}},
                                "workload": {"kind": "p2p", "test": "ib_write_bw", "sizes_bytes": [4096], "iterations": 20}}),
        Base("kernel", "plx_box", {"machine": {"groups": {"node": {"gpu": "H100-PCIe-80GB"}}}, "workload": {"kind": "kernel", "kernels": kernels}}),
        Base("overlap", "dgx_a100", {"workload": {"kind": "overlap", "op": "gemm_all_reduce", "gemm": {"m": 512, "n": 1024, "k": 256},
                                                  "collective_bytes": 65536, "methods": ["gemm", "serial", "beside"], "ranks": 4}}),
        Base("chakra", "dgx_h100", {"workload": {"kind": "trace", "format": "chakra", "prefix": "t", "groups": "groups.json"}},
             {"t.0.et": chakra_trace(0), "t.1.et": chakra_trace(1), "groups.json": {"pair": [0, 1]}}),
        Base("simai", "plx_box", {"workload": {"kind": "trace", "format": "simai", "file": "w.txt"}}, {"w.txt": SIMAI}),
        Base("gather", "dgx_h100", {"workload": {"kind": "overlap", "op": "all_gather_gemm", "gemm": {"m": 512, "n": 1024, "k": 256}, "ranks": 4}}),
    ]


def sweep() -> dict:
    return {"scenario": "s.yaml", "set": {"seed": 3}, "let": {"gpus": 8, "ranks": "tp * pp"},
            "axes": {"workload.prefill.tp": [1, 2, 4], "workload.prefill.pp": {"from": 1, "to": 4, "factor": 2},
                     "box": {"choices": {"plx": {"scenario": "s.yaml", "let": {"gpus": 8}}, "acs": {"set": {"machine.plx.acs": True}}}}},
            "where": "tp * pp <= gpus", "repeats": 2, "objective": {"minimise": "ttft_s"}}


def write(folder: pathlib.Path, files: dict[str, object]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1) + "\n", encoding="utf-8")

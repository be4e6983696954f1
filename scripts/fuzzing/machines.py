"""Random valid machines and workloads: platforms with suitable GPUs; changed rates, latencies and buffers of links; networks; traffic
classes; transaction sizes; and a small workload of each kind that moves bytes."""

import random

from . import bases

GPUS = {
    "plx_box": ("L40S", "A100-PCIe-80GB", "H100-PCIe-80GB", "RTX-4090", "RTX-5090", "V100-PCIe-32GB", "A40-48GB", "L20-48GB"),
    "hgx_a100_4gpu": ("A100-SXM4-80GB", "A800-SXM4-80GB"),
    "hgx_h100_4gpu": ("H100-SXM5-80GB", "H800-SXM5-80GB"),
    "dgx_a100": ("A100-SXM4-80GB", "A800-SXM4-80GB"),
    "dgx_h100": ("H100-SXM5-80GB", "H200-SXM-141GB", "H800-SXM5-80GB", "H20-SXM-96GB"),
    "dgx_b200": ("B200-SXM-180GB", "B300-SXM-270GB"),
    "gb200_nvl72": ("GB200-186GB",),
}
PLATFORMS = ("plx_box",) * 4 + ("dgx_h100",) * 3 + ("dgx_a100", "dgx_a100", "dgx_b200", "gb200_nvl72", "hgx_a100_4gpu", "hgx_h100_4gpu")
RACK_GPUS, MESH_GPUS, USUAL_GPUS = 72, 4, 8
NICS = {"infiniband": ("connectx5_edr", "connectx6_hdr", "connectx7_ndr"), "roce": ("connectx6_roce", "connectx7_roce")}
LINKS = {"plx_box": ("nic_pcie", "plx_uplink", "socket_link", "ib_cable", "gpu_pcie"),
         "hgx_a100_4gpu": ("nic_pcie", "ib_cable", "nvlink"), "hgx_h100_4gpu": ("socket_link", "gpu_pcie", "nvlink"),
         "dgx_a100": ("nic_pcie", "plx_uplink", "socket_link", "ib_cable", "gpu_pcie", "nvlink"),
         "dgx_h100": ("nic_pcie", "ib_cable", "gpu_pcie", "nvlink"), "dgx_b200": ("ib_cable", "nvlink"), "gb200_nvl72": ("nvlink", "ib_cable")}
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv", "reduce")


def machine(rng: random.Random, kind: str | None = None) -> tuple[str, dict, dict[str, object]]:
    """@return platform, scenario, and the files that the scenario names"""
    platform = rng.choice(PLATFORMS)
    kind = kind or rng.choice(("disaggregated_prefill",) * 3 + ("collective",) * 3 + ("p2p", "p2p", "layer", "overlap"))
    if platform == "gb200_nvl72" and kind in ("disaggregated_prefill", "p2p"):
        platform = "dgx_b200"
    groups = ("prefill", "decode") if kind == "disaggregated_prefill" else ("node",)
    servers = 1 if kind in ("layer", "overlap") or platform == "gb200_nvl72" else rng.choice((1, 1, 2))
    made: dict = {"groups": {name: {"servers": servers, "gpu": rng.choice(GPUS[platform])} for name in groups}}
    if platform == "plx_box":
        made["plx"] = {"uplink": rng.choice(("dual_root", "single_root", "cascaded")), "nics_per_plx": rng.choice((1, 1, 2))}
        if rng.random() < 0.2:
            made["plx"]["acs"] = True
    if rng.random() < 0.3 and platform in ("plx_box", "dgx_a100"):
        made["nic"] = {"datasheet": rng.choice(NICS[rng.choice(tuple(NICS))])}
    if rng.random() < 0.4:
        made["network"] = {"kind": "leaf_spine", "routing": rng.choice(("deterministic", "ecmp", "adaptive"))}
    if rng.random() < 0.2 and "nic" not in made and platform.startswith("dgx"):
        made.setdefault("network", {})["sharp"] = True
    if rng.random() < 0.5:
        made["overrides"] = overrides(rng, platform)
    scenario: dict = {"schema_version": 1, "platform": platform, "seed": rng.randrange(1, 9), "machine": made}
    if rng.random() < 0.6:
        scenario["fabric"] = fabric(rng)
    files: dict[str, object] = {}
    if kind in ("disaggregated_prefill", "layer"):
        files["models/tiny.json"] = model(rng)
        scenario["model"] = {"config": "models/tiny.json"}
    gpus = RACK_GPUS if platform == "gb200_nvl72" else MESH_GPUS if platform.startswith("hgx") else USUAL_GPUS
    scenario["workload"] = WORKLOADS[kind](rng, gpus, servers)
    return platform, scenario, files


def overrides(rng: random.Random, platform: str) -> dict:
    made: dict = {}
    for link in rng.sample(LINKS[platform], min(len(LINKS[platform]), rng.choice((1, 1, 2, 3)))):
        fields = {"gb_per_s": 10 ** rng.uniform(0, 2.5), "latency_ns": rng.choice((0, 1, 10, 100, 1000, 333.3)),
                  "buffer_bytes": rng.choice((0, 16384, 65536, 1 << 20))}
        made[link] = {name: fields[name] for name in rng.sample(sorted(fields), rng.choice((1, 1, 2)))}
    return made


def fabric(rng: random.Random) -> dict:
    made: dict = {}
    if rng.random() < 0.7:
        made["transaction_bytes"] = rng.choice((512, 4096, 4096, 65536, 1 << 20, "auto"))
    if rng.random() < 0.4:
        made["classes"] = {name: {"vc": rng.randrange(6), "weight": rng.choice((1, 1, 5, 100)), "priority": rng.randrange(4)}
                           for name in rng.sample(("tp", "pp", "kv", "dp", "ep", "cp", "weights"), rng.choice((1, 2, 3)))}
    return made


def model(rng: random.Random) -> dict:
    made = dict(rng.choice((bases.MODEL, bases.EXPERTS)))
    made["num_hidden_layers"] = rng.choice((2, 3, 4))
    made["tie_word_embeddings"] = rng.random() < 0.5
    return made


def prefill(rng: random.Random, gpus: int, servers: int) -> dict:
    splits = [(tp, pp) for tp, pp in ((1, 1), (2, 1), (2, 2), (4, 1), (1, 2), (4, 2), (8, 1), (8, 2)) if tp <= gpus and tp * pp <= gpus * servers]
    tp, pp = rng.choice(splits)
    decode_tp, decode_pp = rng.choice(splits)
    if rng.random() < 0.5:
        requests: dict = {"count": rng.choice((1, 2, 3)), "prompt_tokens": rng.choice((64, 200, 300))}
    else:
        requests = {"list": [{"arrival_s": i * rng.choice((0, 1e-5, 1e-4)), "prompt_tokens": rng.choice((50, 128, 300)),
                              "output_tokens": rng.choice((1, 2, 4))} for i in range(rng.choice((1, 2, 4)))]}
    made = {"kind": "disaggregated_prefill", "requests": requests, "chunk_tokens": rng.choice((64, 128, 256)),
            "nic_rule": rng.choice(("modulo", "nearest")), "handoff": rng.choice(("per_layer", "per_chunk", "at_end")),
            "pp_send": rng.choice(("shard", "full")), "prefill": {"tp": tp, "pp": pp}, "decode": {"tp": decode_tp, "pp": decode_pp}}
    if "count" in requests:
        made["decode"]["steps"] = rng.choice((0, 1, 3))
    return made


def collective(rng: random.Random, gpus: int, servers: int) -> dict:
    made = {"kind": "collective", "op": rng.choice(OPERATIONS), "sizes_bytes": [rng.choice((8, 1000, 4096, 65536, 300000, 1 << 20))]}
    ranks = rng.choice([n for n in (2, 3, 4, 8) if n <= gpus]) if gpus <= USUAL_GPUS else rng.choice((2, 4, 8, 18))
    if servers == 2:
        made["ranks_per_server"] = rng.choice([n for n in (1, 2, 4, 8) if n <= gpus])
    else:
        made["ranks"] = ranks
    if rng.random() < 0.3:
        made["in_graph"] = True
    if rng.random() < 0.3 and made["op"] in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"):
        made |= {"algorithm": "ring", "protocol": rng.choice(("auto", "simple", "ll", "ll128"))}
    if rng.random() < 0.2:
        made["iterations"] = 2
    return made


def p2p(rng: random.Random, gpus: int, servers: int) -> dict:
    if servers == 2:
        test = rng.choice(("ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat"))
        return {"kind": "p2p", "test": test, "sizes_bytes": [rng.choice((2, 4096, 65536))], "iterations": rng.choice((5, 20)),
                "memory": rng.choice(("host", "gpu"))}
    test = rng.choice(("matrix", "matrix", "h2d", "d2h"))
    made = {"kind": "p2p", "test": test, "ranks": rng.choice((2, 3, 4)), "copy_bytes": rng.choice((1000, 100000, 1 << 20))}
    return made | ({"engine": rng.choice(("sm", "copy_engine"))} if test == "matrix" else {})


def layer(rng: random.Random, gpus: int, servers: int) -> dict:
    made = {"kind": "layer", "tp": rng.choice([n for n in (1, 2, 4, 8) if n <= gpus]), "phase": rng.choice(("prefill", "decode", "training"))}
    if made["phase"] == "decode":
        return made | {"batch": rng.choice((1, 8, 32)), "context_tokens": rng.choice((1, 300, 2000)), "library": rng.choice(("nccl", "vllm-0.19", "sglang-0.5"))}
    return made | {"tokens": rng.choice((64, 256, 512)), "sequence_parallel": rng.random() < 0.3}


def overlap(rng: random.Random, gpus: int, servers: int) -> dict:
    operation = rng.choice(("all_gather_gemm", "gemm_reduce_scatter", "gemm_all_reduce"))
    return {"kind": "overlap", "op": operation, "gemm": {"m": 512, "n": 1024, "k": rng.choice((256, 1024))}, "ranks": rng.choice([n for n in (2, 4, 8) if n <= gpus])}


WORKLOADS = {"disaggregated_prefill": prefill, "collective": collective, "p2p": p2p, "layer": layer, "overlap": overlap}

"""Serving with composed passes against the same with all jobs: random services, whose results must be the same bytes.

Dense models and mixtures, tensor and pipeline parallelism, attention replicas, one instance, several behind a router, or prefill and decode instances, with or without replicas, with each
way to move KV, buffers and handshakes for it, copies in host memory and on disks, drafts, hosts of each engine, chunk sizes, closed and open loops, slow links and GPUs, lost instances.
"""

import pathlib
import random

from . import bases, compared, machines

PLATFORMS = ("dgx_h100", "dgx_h100", "dgx_a100", "dgx_b200", "hgx_a100_4gpu", "plx_box")
ENGINES = ("vllm-0.19", "vllm-0.19", "vllm-0.15", "vllm-0.6", "sglang-0.5", "trtllm-1.0", "none")
POLICIES = ("round_robin", "random", "session", "least_load", "least_requests", "power_of_two", "cache_aware", "kv_cost", "scorers", "prefix_trie")
WITH_CONTENTS = ("cache_aware", "kv_cost", "scorers", "prefix_trie")
WITH_REPORTS = ("least_load", "kv_cost", "scorers")  # of engines, which the router may see late
COPIES_BYTES = 1 << 26
EXPERTS = 16


def scenario(rng: random.Random) -> tuple[str, dict, dict[str, object]]:
    """@return platform, scenario, and the files that the scenario names"""
    platform = rng.choice(PLATFORMS)
    gpus = machines.MESH_GPUS if platform.startswith("hgx") else machines.USUAL_GPUS
    servers = rng.choice((1, 1, 2))
    made: dict = {"schema_version": 1, "platform": platform, "seed": rng.randrange(1, 100),
                  "machine": {"groups": {"node": {"servers": servers, "gpu": rng.choice(machines.GPUS[platform])}}}}
    if rng.random() < 0.7:
        made["fabric"] = {"fidelity": rng.choice(("train", "fluid"))}
    files: dict[str, object] = {"models/tiny.json": (bases.EXPERTS | {"num_local_experts": EXPERTS} if (experts := rng.random() < 0.3) else bases.MODEL)
                                | {"num_hidden_layers": rng.choice((4, 6, 9))}}
    made["model"] = {"config": "models/tiny.json", "dtype": "fp16"}
    made["workload"] = service(rng, gpus * servers, experts)
    events = events_of(rng, made["workload"]["instances"])
    if events:
        made["events"] = events
    return platform, made, files


def service(rng: random.Random, gpus: int, experts: bool) -> dict:
    form = rng.choice(("one", "one", "one", "several", "several", "pair", "pair"))
    tp, pp = rng.choice([(t, p) for t in (2, 4, 8) for p in (1, 1, 2, 3) if t * p * (1 if form == "one" else 2) <= gpus] or [(2, 1)])
    instance: dict = {"tp": tp, "pp": pp}
    count = gpus // (tp * pp)
    if form == "one":
        if experts and rng.random() < 0.7:
            instance = {"pp": 1} | replicas(rng, gpus)
        instances = [instance | {"name": "a"}]
    elif form == "several":
        instances = [instance | {"name": "a", "count": rng.randrange(2, count + 1) if count > 2 else 2}]
    else:
        instances = [instance | {"name": "p", "role": "prefill"}, {"name": "d", "role": "decode", "tp": tp, "pp": rng.choice((1, pp))}]
        if experts and rng.random() < 0.7:
            instances = paired_replicas(rng, gpus, instances)
    policy = rng.choice(POLICIES)
    made: dict = {"kind": "serving", "engine": rng.choice(ENGINES), "requests": requests(rng, policy in WITH_CONTENTS), "instances": instances,
                  "scheduler": {"max_batched_tokens": rng.choice((64, 200, 512, 2048)), "max_seqs": rng.choice((4, 16, 64))}}
    if any(i.get("dp", 1) > 1 and i["tp"] > 1 for i in instances) and made["engine"] == "trtllm-1.0":
        made["engine"] = "sglang-0.5"  # replicas of TensorRT-LLM have one rank
    if made["engine"] == "vllm-0.6":
        made["scheduler"]["max_batched_tokens"] = 2048  # whole prompts
    if form == "several":
        made["router"] = {"policy": policy}
        if policy in WITH_REPORTS:
            made["router"]["state_delay_us"] = rng.choice((0, 50))
    if form == "pair":
        made["kv_transfer"] = {"mode": rng.choice(("pull", "pull", "push_at_end", "push_per_chunk", "push_per_layer"))}
        if rng.random() < 0.3:
            made["kv_transfer"]["staging"] = rng.choice(("resharded", "all"))
        if rng.random() < 0.3:
            made["kv_transfer"] |= {"metadata_us": 300, "prepare_us": 0.1, "first_contact": "in_run"}
    if rng.random() < 0.2:
        made["kv_tiers"] = {"host": {"bytes_per_server": COPIES_BYTES, "pool": rng.choice(("instance", "server"))}}
        if rng.random() < 0.5:
            made["kv_tiers"]["disk"] = {"bytes_per_server": 10 * COPIES_BYTES, "gb_per_s": 5, "latency_us": rng.choice((0, 80, 2000))}
        if form == "several" and gpus == 2 * machines.USUAL_GPUS and tp * pp == machines.USUAL_GPUS:  # on a server each
            made["kv_tiers"]["peers"] = {"min_tokens": rng.choice((16, 100))}
    if rng.random() < 0.2 and form != "pair" and made["engine"].startswith("vllm-0.1"):
        made["speculation"] = {"method": rng.choice(("eagle", "ngram")), "tokens": rng.choice((1, 3)), "acceptance": rng.choice((0, 0.6))}
    if rng.random() < 0.3:
        made["kv_blocks"] = rng.choice((60, 90, 200))  # preemptions
    return made


def replicas(rng: random.Random, gpus: int) -> dict:
    """Attention replicas of one rank or of several."""
    tp, dp = rng.choice([(tp, dp) for tp in (1, 1, 2, 4) for dp in (2, 4, 8, 16) if tp * dp <= min(gpus, EXPERTS)])
    return {"tp": tp, "dp": dp, "ep": tp * dp}


def paired_replicas(rng: random.Random, gpus: int, pair: list[dict]) -> list[dict]:
    """Attention replicas in one or both of a pair, or in two that prefill or decode."""
    many = lambda of: {key: of[key] for key in ("name", "role")} | replicas(rng, gpus // 2)
    made = rng.choice(([many(pair[0]), many(pair[1])], [many(pair[0]), many(pair[1])], [many(pair[0]), pair[1]], [pair[0], many(pair[1])]))
    used = sum(i.get("dp", 1) * i.get("tp", 1) * i.get("pp", 1) for i in made)
    twice = rng.choice(made)
    if "dp" in twice and used + twice["dp"] * twice["tp"] <= gpus:
        twice["count"] = 2
    return made


def requests(rng: random.Random, has_contents: bool) -> dict:
    made: dict = {"count": rng.randrange(4, 30), "prompt_tokens": {"uniform": {"min": 200, "max": rng.choice((240, 500))}},
                  "output_tokens": {"uniform": {"min": 1, "max": rng.choice((8, 40))}}}
    if rng.random() < 0.3:
        made["arrivals"], made["concurrency"] = "closed_loop", rng.randrange(1, 8)
    else:
        made["arrivals"], made["rate_per_s"] = "poisson", rng.choice((50, 500, 5000))
    if has_contents or rng.random() < 0.4:
        made["prefix"] = {"groups": 2, "users_per_group": 1, "shared_tokens": rng.choice((64, 160))}
    return made


def events_of(rng: random.Random, instances: list[dict]) -> list[dict]:
    made: list[dict] = []
    if rng.random() < 0.25:
        made.append({"at_us": rng.choice((0, 300, 2500.5)), "gpu": "node0.gpu1", "slow_ratio": rng.choice((0.5, 0.9))})
    if rng.random() < 0.15 and instances[0].get("count", 1) > 1 and "role" not in instances[0]:
        made.append({"at_us": rng.choice((100, 1500)), "instance": instances[0]["name"] + "1", rng.choice(("drain", "fail")): True})
    return made


class Compared(compared.Compared):
    def __init__(self, folder: pathlib.Path, executable: pathlib.Path, patience_s: float, limit_memory: bool) -> None:
        ways = {way: ["--jobs", "none", "--set", f"fabric.compose={word}"] for way, word in (("composed", "true"), ("with_all_jobs", "false"))}
        super().__init__(folder, executable, patience_s, limit_memory, ways)

    def outcome(self, figures: dict) -> str:
        return "equal, some passes composed" if figures.get("passes", {}).get("composed") else "equal, no pass composed"

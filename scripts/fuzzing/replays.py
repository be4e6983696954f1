"""Training with replayed collectives and composed slots against the same with every collective simulated: random steps, whose results must be
the same bytes.

Dense models and mixtures, tensor, sequence, pipeline, context, expert and data parallelism on one or two servers, every kind of schedule, virtual stages, overlap of
products, transfers and gradients with kernels, divided states and weights, copies in host memory, recomputation, slow links and GPUs.
"""

import pathlib
import random

from . import bases, compared, machines

PLATFORMS = ("dgx_h100", "dgx_h100", "dgx_a100", "dgx_b200", "hgx_a100_4gpu", "plx_box")
MOST_REPLAYED = 0.5  # of a run's transactions


def scenario(rng: random.Random) -> tuple[str, dict, dict[str, object]]:
    """@return platform, scenario, and the files that the scenario names"""
    platform = rng.choice(PLATFORMS)
    gpus = machines.MESH_GPUS if platform.startswith("hgx") else machines.USUAL_GPUS
    servers = rng.choice((1, 1, 1, 2))
    made: dict = {"schema_version": 1, "platform": platform, "seed": rng.randrange(1, 100),
                  "fabric": {"fidelity": rng.choice(("train", "train", "train", "fluid"))},
                  "machine": {"groups": {"node": {"servers": servers, "gpu": rng.choice(machines.GPUS[platform])}}}}
    experts = rng.random() < 0.2
    made["workload"] = step(rng, gpus * servers, experts)
    layers = made["workload"]["pp"] * made["workload"].get("virtual_stages", 1) * rng.choice((1, 2, 3))
    tiny = (bases.EXPERTS if experts else bases.MODEL) | {"num_hidden_layers": layers, "tie_word_embeddings": rng.random() < 0.3}
    made["model"] = {"config": "models/tiny.json"}
    if rng.random() < 0.25:
        made["events"] = [rng.choice(({"at_us": rng.choice((0, 300, 2500.5)), "gpu": "node0.gpu1", "slow_ratio": rng.choice((0.5, 0.9))},
                                      {"at_us": rng.choice((0, 700)), "link": "node0.gpu1.pcie", "rate_ratio": 0.5}))]
    return platform, made, {"models/tiny.json": tiny}


def step(rng: random.Random, gpus: int, experts: bool) -> dict:
    tp, pp = rng.choice([(t, p) for t in (2, 2, 4, 8) for p in (1, 2, 2, 4) if t * p <= gpus])
    dp = gpus // (tp * pp)
    made: dict = {"kind": "training", "tp": tp, "pp": pp, "seq_tokens": rng.choice((256, 1024, 2048)), "micro_batch": 1, "steps": rng.choice((1, 1, 2))}
    if dp % 2 == 0 and rng.random() < 0.15:
        made |= {"cp": 2, "cp_comm": rng.choice(("p2p", "all_gather", "a2a"))}
        dp //= 2
    if dp % 2 == 0 and rng.random() < 0.1:
        made["gtp"] = {"size": 2}
        dp //= 2
    made["dp"] = dp
    if experts and "gtp" not in made and dp > 1:
        made |= {"ep": rng.choice([n for n in (2, 4, 8) if dp % n == 0] or [1]), "sequence_parallel": True}
    if pp > 1:
        made |= rng.choice(({"schedule": "1f1b"}, {"schedule": "1f1b"}, {"schedule": "gpipe"}, {"schedule": "naive"}, {"schedule": "zb_h1"}, {"schedule": "zb_h2"},
                            {"schedule": "zb_auto"}, {"schedule": "zbv", "virtual_stages": 2}, {"schedule": "dualpipe_v", "virtual_stages": 2},
                            {"schedule": "interleaved", "virtual_stages": 2}, {"schedule": "interleaved", "virtual_stages": 3}))
    micro_batches = pp * rng.choice((2, 3) if made.get("schedule") == "dualpipe_v" else (1, 2, 3))
    made["global_batch"] = dp * made.get("gtp", {}).get("size", 1) * micro_batches
    options = {"sequence_parallel": 0.6, "pp_overlap": 0.3, "dp_overlap": 0.5, "param_gather_overlap": 0.3, "keep_gathered": 0.1}
    for key, share in options.items():
        if rng.random() < share:
            made[key] = True
    made["zero_stage"] = rng.choice((0, 1, 1, 2, 3))
    if pp > 1 and made["zero_stage"] < 2 and rng.random() < 0.2:
        made["defer_embedding_wgrad"] = True
    made["bucket_parameters"] = rng.choice((1000000, 10000000))
    if rng.random() < 0.3:
        made["recompute"] = rng.choice(("selective", "full"))
    if rng.random() < 0.3:
        made["grad_norm"] = rng.choice(("none", "post_validation") if pp > 1 else ("none",))
    if rng.random() < 0.15 and made.get("sequence_parallel"):
        made["tp_overlap"] = rng.choice(("ring", "bulk", "userbuffers"))
    if rng.random() < 0.15 and dp % 2 == 0 and made["zero_stage"] > 0 and "ep" not in made and "gtp" not in made:
        made["hsdp"] = 2
    if rng.random() < 0.1:
        made["offload"] = {"optimizer": True}
    if rng.random() < 0.2:
        made["launch"] = "graph"
    if rng.random() < 0.2:
        made["rank_order"] = rng.choice(("tp-cp-ep-pp-dp", "tp-pp-cp-ep-dp"))
    return made


class Compared(compared.Compared):
    def __init__(self, folder: pathlib.Path, executable: pathlib.Path, patience_s: float, limit_memory: bool) -> None:
        # A timeline shows the messages of every collective.
        super().__init__(folder, executable, patience_s, limit_memory, {"replayed": ["--jobs", "stage"], "simulated": ["--jobs", "stage", "--timeline"]})

    def outcome(self, figures: dict) -> str:
        share = figures["replayed_transactions"] / max(1, figures["transactions"])
        composed = ", slots composed" if figures.get("passes", {}).get("composed") else ""
        return ("equal, nothing replayed" if share == 0 else "equal, much replayed" if share > MOST_REPLAYED else "equal, some replayed") + composed

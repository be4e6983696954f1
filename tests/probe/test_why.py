"""--why: chains without gaps whose costs add up to what the summary says, and what-ifs against the same run made that way."""

import decimal
import json
import random
import re

import pytest

import serving_runs
import timelines
from platform_runs import ROOT, TINY, rows, run, succeed, summary, tiny

COSTS = ["kernel", "sharing", "straggler", "sm_wait", "step", "engine", "latency", "wire", "queue", "host", "delay", "arrival"]
REQUESTS = ", ".join(f"{{prompt_tokens: {tokens}, arrival_s: {arrival}}}" for tokens, arrival in [(700, 0), (300, 0.0001), (900, 0.0002), (256, 0.02), (1024, 0.0201)])
MANY = TINY.replace("{count: 1, prompt_tokens: 700}", f"{{list: [{REQUESTS}]}}")


MEANS = 1e-9  # to which doubles add up: a mean is a sum of exact times, divided


def check_sums(folder, paths):
    """Every group of costs adds up: to a mean's rounding in why.json, to the femtosecond in why.csv."""
    for path in paths.values():
        spent = {row["cost"]: row["path_s"] for row in path["costs"]}
        assert sum(spent.values()) == pytest.approx(path["mean_s"], rel=MEANS)
        assert sum(row["path_s"] for row in path["kernels"]) == pytest.approx(spent["kernel"], rel=MEANS)
        traffic = sum(spent[name] for name in ("step", "engine", "latency", "wire", "queue"))
        assert sum(row["path_s"] for row in path["classes"]) == pytest.approx(traffic, rel=MEANS, abs=1e-18)
        assert sum(row["path_s"] for row in path["links"]) == pytest.approx(spent["wire"] + spent["queue"], rel=MEANS, abs=1e-18)
    until = {}
    for row in rows(folder / "why.csv"):
        begun, ended = decimal.Decimal(row["from_s"]), decimal.Decimal(row["to_s"])
        assert begun == until.get(row["metric"], begun)
        until[row["metric"]] = ended
        assert sum(decimal.Decimal(row[f"{name}_s"]) for name in COSTS) == ended - begun
        assert decimal.Decimal(row["worst_link_s"] or 0) <= ended - begun
    assert float(until["end_s"]) == pytest.approx(paths["end_s"]["mean_s"], rel=1e-12)


def check_without(paths, tokens=None):
    """Without a cost, nothing takes longer than with it: to the first token, to the last one and to the end.

    The time between tokens alone may: where the first token gains more than the last."""
    for metric, path in paths.items():
        for view, key in VIEWS.items():
            for row in path[view]:
                if row["without_s"] is None:
                    assert row["not_predicted"] in ("arrivals", "queues")
                    continue
                assert row["without_s"] >= 0
                if metric != "tpot_s":
                    assert row["without_s"] <= path["mean_s"] * (1 + MEANS)
                elif tokens is not None:
                    first = next((r for r in paths["ttft_s"][view] if r[key] == row[key]), {"without_s": paths["ttft_s"]["mean_s"]})
                    if first["without_s"] is None:
                        continue
                    most = paths["ttft_s"]["mean_s"] + (tokens - 1) * path["mean_s"]
                    assert first["without_s"] + (tokens - 1) * row["without_s"] <= most * (1 + MEANS)


VIEWS = {"costs": "cost", "kernels": "limit", "stragglers": "gpu", "classes": "class", "links": "links"}


def why(folder):
    return {path["metric"]: path for path in json.loads((folder / "why.json").read_text())["paths"]}


def cost(path, name):
    return next(row for row in path["costs"] if row["cost"] == name)


def follow(folder, platform, text, *options, out="out"):
    succeed(platform, tiny(folder, text), "--why", "--quiet", "--out", folder / out, *options)
    return why(folder / out)


@pytest.mark.parametrize("platform", ["plx_box", "dgx_h100"])
@pytest.mark.parametrize("handoff, fidelity", [("per_layer", "train"), ("at_end", "train"), ("per_chunk", "fluid")])
def test_chains_have_no_gap_and_add_up(tmp_path, platform, handoff, fidelity):
    text = MANY + f"  handoff: {handoff}\nfabric: {{fidelity: {fidelity}}}\n"
    paths = follow(tmp_path, platform, text)
    metrics = summary(tmp_path / "out")["metrics"]
    for metric in ("ttft_s", "tpot_s", "end_s"):
        # Of the end: credits come home after the last job.
        assert paths[metric]["mean_s"] == pytest.approx(metrics[metric], rel=MEANS)
    assert paths["ttft_s"]["count"] == paths["tpot_s"]["count"] == 5
    check_sums(tmp_path / "out", paths)
    check_without(paths, tokens=4)
    for row in paths["ttft_s"]["costs"] + paths["ttft_s"]["classes"] + paths["ttft_s"]["links"]:
        assert row["path_s"] > 0 or row["without_s"] == pytest.approx(paths["ttft_s"]["mean_s"], rel=MEANS)


def random_scenario(seed):
    """A small machine and workload. @return platform, scenario, tokens of each request"""
    pick = random.Random(seed)
    platform = pick.choice(["plx_box", "plx_box", "dgx_h100"])
    gpus = ["L40S", "RTX-5090", "A100-PCIe-80GB"] if platform == "plx_box" else ["H100-SXM5-80GB", "H20-SXM-96GB"]
    networks = [{"kind": "single_switch"}] + [{"kind": "leaf_spine", "routing": how} for how in ("deterministic", "ecmp", "adaptive")]
    machine = {"network": pick.choice(networks)}
    if platform == "plx_box":
        machine["plx"] = {"uplink": pick.choice(["dual_root", "single_root", "cascaded"]), "nics_per_plx": pick.choice([1, 2])}
    text = {"model": {"config": f"{ROOT}/tests/models/tiny.json"}, "fabric": {"fidelity": pick.choice(["train", "train", "fluid"])}}
    if pick.random() < 0.3:
        machine["groups"] = {"node": {"gpu": pick.choice(gpus), "servers": pick.choice([1, 2])}}
        sequence = pick.choice([True, False])
        text["workload"] = {"kind": "layer", "phase": "prefill", "tp": 8, "batch": 2, "tokens": 128, "sequence_parallel": sequence}
        return platform, text | {"machine": machine}, None
    machine["groups"] = {group: {"gpu": pick.choice(gpus)} for group in ("prefill", "decode")}
    steps = pick.choice([2, 5])
    arrivals = [round(pick.random() * 2e-3, 6) for _ in range(pick.choice([1, 3, 6]))]
    text["workload"] = {
        "kind": "disaggregated_prefill",
        "requests": {"list": [{"prompt_tokens": pick.randrange(20, 900), "arrival_s": arrival} for arrival in sorted(arrivals)]},
        "chunk_tokens": pick.choice([128, 256]),
        "prefill": dict(zip(("tp", "pp"), pick.choice([(2, 2), (4, 1), (1, 4), (8, 1)]))),
        "decode": dict(zip(("tp", "pp"), pick.choice([(2, 2), (4, 1), (1, 1)]))) | {"steps": steps, "max_batch": pick.choice([1, 8])},
        "handoff": pick.choice(["per_layer", "per_chunk", "at_end"]),
        "nic_rule": pick.choice(["modulo", "nearest"]),
    }
    return platform, text | {"machine": machine}, steps + 1


@pytest.mark.parametrize("seed", range(12))
def test_costs_of_random_scenarios_add_up(tmp_path, seed):
    platform, scenario, tokens = random_scenario(seed)
    paths = follow(tmp_path, platform, json.dumps(scenario))
    check_sums(tmp_path / "out", paths)
    check_without(paths, tokens)


def test_host_time_is_a_cost_of_its_own(tmp_path):
    text = TINY.replace("engine: none", "engine: none\n  host: {step_us: 100, request_us: 1000, token_us: 30}")
    paths = follow(tmp_path, "plx_box", text, "--set", "workload.prefill={tp: 1, pp: 1}", "--set", "workload.decode={tp: 1, pp: 1, steps: 3}")
    path = paths["ttft_s"]  # a request of three chunks
    assert cost(path, "host")["path_s"] == pytest.approx(1000e-6 + 3 * 100e-6 + 30e-6, rel=1e-9)
    assert cost(path, "host")["without_s"] == pytest.approx(path["mean_s"] - 1330e-6, rel=1e-9)
    # Of each of three steps, and of the last token's way where KV came later than the first token's.
    assert 100e-6 * (1 - 1e-6) <= cost(paths["tpot_s"], "host")["path_s"] <= 110e-6 * (1 + 1e-6)
    for row in [cost(path, "arrival"), cost(paths["tpot_s"], "arrival"), cost(path, "delay")]:
        assert row["path_s"] == pytest.approx(0, abs=1e-12)
    names = [row["job"] for row in rows(tmp_path / "out" / "why.csv") if row["metric"] == "ttft_s"]
    assert [name for name in names if name.startswith("Host_")] == [
        "Host_Request", "Host_P_Chunk[0]", "Host_P_Chunk[1]", "Host_P_Chunk[2]", "Host_Token[0]"]


@pytest.mark.parametrize("shape", serving_runs.SHAPES, ids=str)
def test_paths_through_a_serving_engine_add_up(tmp_path, shape):
    paths = follow(tmp_path, "plx_box", serving_runs.serving(**shape))
    metrics = summary(tmp_path / "out")["metrics"]
    for metric in ("ttft_s", "tpot_s", "end_s"):
        assert paths[metric]["mean_s"] == pytest.approx(metrics[metric], rel=MEANS)
    assert paths["ttft_s"]["count"] == metrics["requests"]
    check_sums(tmp_path / "out", paths)
    check_without(paths)


def test_a_request_in_the_queue_does_not_cause_the_batches_before_it(tmp_path):
    """Without kernels, the second request would start at its arrival, and not only when the third one is in the queue."""
    text = serving_runs.serving().replace("max_seqs: 16", "max_seqs: 1")
    requests = ", ".join(f"{{arrival_s: {at}, prompt_tokens: 256, output_tokens: 40}}" for at in (0, 0.002, 0.004))
    text = re.sub(r"requests: \{.*\}", f"requests: {{list: [{requests}]}}", text, flags=re.DOTALL)
    path = follow(tmp_path, "plx_box", text)["ttft_s"]
    assert summary(tmp_path / "out")["metrics"]["ttft_parts_s"]["queue_slots"] > 0
    assert cost(path, "kernel")["path_s"] == pytest.approx(path["mean_s"], rel=MEANS)
    assert cost(path, "kernel")["without_s"] < 1e-5
    assert cost(path, "arrival")["path_s"] == 0


def test_a_run_is_the_same_with_and_without(tmp_path):
    follow(tmp_path, "dgx_h100", MANY)
    succeed("dgx_h100", tmp_path / "tiny.yaml", "--quiet", "--out", tmp_path / "without")
    for name in ("jobs.csv", "links.csv", "requests.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    again = follow(tmp_path, "dgx_h100", MANY, out="again")
    assert again == why(tmp_path / "out")


def test_collectives_whose_course_is_known_cost_what_simulated_ones_do(tmp_path):
    text = MANY.replace("pp: 2", "pp: 1").replace("tp: 2", "tp: 4")  # links that nothing else crosses
    reused = follow(tmp_path, "dgx_h100", text)
    assert summary(tmp_path / "out")["simulator"]["replayed_transactions"] > 0
    simulated = follow(tmp_path, "dgx_h100", text, "--timeline", out="simulated")
    assert summary(tmp_path / "simulated")["simulator"]["replayed_transactions"] == 0
    for metric, path in reused.items():
        for ours, theirs in zip(path["costs"], simulated[metric]["costs"]):
            assert ours["path_s"] == pytest.approx(theirs["path_s"], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    "links, role, fast",
    [("IB_Cable", "ib_cable", ["gb_per_s=100000", "latency_ns=0"]), ("PLX_Uplink", "plx_uplink", ["gb_per_s=100000", "latency_ns=0"])],
)
def test_a_what_if_comes_true(tmp_path, links, role, fast):
    """Decode waits for all of a handoff over slow links, which also hold up the links before them."""

    def made(out, values):
        options = [option for value in values for option in ("--set", f"machine.overrides.{role}.{value}")]
        return follow(tmp_path, "plx_box", TINY + "  handoff: at_end\n", *options, out=out)["end_s"]

    slow = made("slow", ["gb_per_s=0.5"])
    predicted = next(row for row in slow["links"] if row["links"] == links)["without_s"]
    truly = made("fast", fast)["mean_s"]
    gain = slow["mean_s"] - truly
    assert gain > 0.3 * slow["mean_s"]
    assert predicted == pytest.approx(truly, abs=0.05 * gain)


def test_what_kernels_would_take_with_a_faster_memory_comes_true(tmp_path):
    text = TINY.replace("tp: 2, pp: 2", "tp: 1, pp: 1") + "  handoff: at_end\n"
    path = follow(tmp_path, "plx_box", text)["ttft_s"]
    truly = follow(tmp_path, "plx_box", text, "--set", "machine.overrides.gpu.hbm.gb_per_s=1000000", out="fast")["ttft_s"]["mean_s"]
    predicted = next(row for row in path["kernels"] if row["limit"] == "hbm")["without_s"]
    assert truly < 0.9 * path["mean_s"]
    assert predicted == pytest.approx(truly, rel=0.02)


def test_a_timeline_shows_the_chains(tmp_path):
    follow(tmp_path, "plx_box", MANY, "--timeline")
    timeline = timelines.Timeline(tmp_path / "out")
    for metric in ("ttft_s", "tpot_s", "end_s"):
        shown = timeline.slices["why", metric]
        listed = [row for row in rows(tmp_path / "out" / "why.csv") if row["metric"] == metric]
        assert [(s["begin_ns"], s["end_ns"]) for s in shown] == [(timelines.ns(row["from_s"]), timelines.ns(row["to_s"])) for row in listed]
        assert [s["name"] for s in shown if "[" in s["name"]] == [row["job"] for row in listed if row["job"]]


def test_without_out_only_the_table_shows_it(tmp_path):
    result = succeed("plx_box", tiny(tmp_path), "--why")
    assert "critical path of TTFT" in result.stdout and "critical path of the run" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


@pytest.mark.parametrize(
    "platform, kind",
    [
        ("plx_box", "kind: kernel\n  kernels: [{op: gemm, m: 512, n: 512, k: 512, dtype: bf16}]"),
        ("dgx_h100", "kind: collective\n  op: all_reduce\n  min_bytes: 1024\n  max_bytes: 4096"),
    ],
)
def test_other_kinds_have_an_end_only(tmp_path, platform, kind):
    paths = follow(tmp_path, platform, f"workload:\n  {kind}\n")
    assert list(paths) == ["end_s"]
    assert sum(row["path_s"] for row in paths["end_s"]["costs"]) == pytest.approx(paths["end_s"]["mean_s"], rel=1e-9)


def test_copies_between_gpus_are_explained_one_by_one(tmp_path):
    paths = follow(tmp_path, "plx_box", "workload:\n  kind: p2p\n  test: matrix\n")
    assert list(paths) == ["unidirectional_s", "bidirectional_s", "latency_s", "end_s"]
    for path in paths.values():
        assert sum(row["path_s"] for row in path["costs"]) == pytest.approx(path["mean_s"], rel=1e-9)
    costs = {row["cost"]: row for row in paths["latency_s"]["costs"]}
    assert costs["engine"]["path_s"] + costs["latency"]["path_s"] > 0.99 * paths["latency_s"]["mean_s"]
    wire = {row["cost"]: row for row in paths["unidirectional_s"]["costs"]}["wire"]
    assert wire["path_s"] > 0.9 * paths["unidirectional_s"]["mean_s"]


def test_small_writes_are_bound_by_the_thread_that_posts_them(tmp_path):
    workload = "kind: p2p\n  test: ib_write_bw\n  min_bytes: 64\n  max_bytes: 64\n  iterations: 2000\n  queue_pairs: 2\n"
    paths = follow(tmp_path, "plx_box", f"machine:\n  groups:\n    node: {{servers: 2}}\nworkload:\n  {workload}")
    host = {row["cost"]: row for row in paths["write_s"]["costs"]}["host"]
    assert host["path_s"] > 0.9 * paths["write_s"]["mean_s"]

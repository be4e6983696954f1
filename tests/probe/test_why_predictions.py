"""--why against the same runs without a cost; requests that arrive in time; slow GPUs; parts of TTFT."""

import json
import sys

import pytest

import serving_runs
from platform_runs import BIN, ROOT, rows, succeed, summary, tiny

sys.path.insert(0, str(ROOT / "scripts" / "studies"))

import why_predictions  # noqa: E402

CLOSE = 0.05
KINDS = ["disaggregated_prefill", "serving", "training", "collective", "p2p", "layer", "overlap", "kernel", "trace"]
FREE_MEMORY = ["--set", "machine.overrides.gpu.hbm.gb_per_s=1000000"]


def why(folder, platform, text, *options, out="out"):
    succeed(platform, tiny(folder, text), "--why", "--quiet", "--out", folder / out, *options)
    return {path["metric"]: path for path in json.loads((folder / out / "why.json").read_text())["paths"]}


def row(path, view, key, name):
    return next(row for row in path[view] if row[key] == name)


def without_hbm(path):
    return row(path, "kernels", "limit", "hbm")["without_s"]


@pytest.mark.parametrize("kind", KINDS)
def test_five_what_ifs_of_a_kind_come_true(tmp_path, kind):
    """Nine of ten within 5 %. All what-ifs of all scenarios: scripts/studies/why_predictions.py."""
    chosen = why_predictions.evenly([base for base in why_predictions.bases(tmp_path) if base.kind == kind], 5)
    found, failed = why_predictions.study(chosen, tmp_path, BIN, 1, most=5)
    assert not failed
    errors = [error for runs in found.values() for run in runs for error in run]
    assert sum(len(runs) for runs in found.values()) == 5
    predicted = [error for error in errors if error.predicted_s is not None]
    assert predicted
    assert sum(error.ratio > CLOSE for error in predicted) <= 0.1 * len(predicted), predicted


def serving(requests, **shape):
    """Of a small model on one GPU, with other requests."""
    text = serving_runs.serving(**shape)
    return text[: text.index("  requests:")] + f"  requests: {requests}\n"


LENGTHS = "prompt_tokens: 300, output_tokens: 24"


@pytest.mark.parametrize(
    "requests",
    [f"{{count: 24, {LENGTHS}}}", f"{{count: 24, arrivals: closed_loop, concurrency: 1, {LENGTHS}}}",
     f"{{count: 24, arrivals: closed_loop, concurrency: 4, {LENGTHS}}}", f"{{count: 24, arrivals: constant, rate_per_s: 10, {LENGTHS}}}",
     f"{{count: 40, arrivals: poisson, rate_per_s: 400, {LENGTHS}}}",
     f"{{count: 1, {LENGTHS}, sessions: {{turns: 8, think_s: 0.004, growth_tokens: 90, subagents: 3}}}}"],
    ids=["at_once", "one_after_the_other", "closed_loop", "far_apart", "poisson", "session"])
def test_arrivals_do_not_hold_up_batches(tmp_path, requests):
    """A scheduler waits for no request: with a free memory, steps are shorter also where requests arrive in time."""
    text = serving(requests, host=serving_runs.ASYNC)
    paths = why(tmp_path, "plx_box", text)
    truly = why(tmp_path, "plx_box", text, *FREE_MEMORY, out="truly")
    for metric, path in paths.items():
        if without_hbm(path) is not None:
            assert without_hbm(path) == pytest.approx(truly[metric]["mean_s"], rel=CLOSE), metric
    assert without_hbm(paths["tpot_s"]) is not None or "poisson" in requests


def test_time_before_the_queue_is_the_requests_own(tmp_path):
    """Batches of others run while the host prepares a request. They are not on its path, which has all of the host's time."""
    text = serving(f"{{count: 30, arrivals: poisson, rate_per_s: 300, {LENGTHS}}}", host=serving_runs.SYNC)
    path = why(tmp_path, "plx_box", text)["ttft_s"]
    assert row(path, "costs", "cost", "host")["path_s"] >= 107e-6
    assert sum(cost["path_s"] for cost in path["costs"]) == pytest.approx(path["mean_s"], rel=1e-9)


def test_thinking_is_on_the_path_of_a_session(tmp_path):
    text = serving(f"{{count: 1, {LENGTHS}, sessions: {{turns: 5, think_s: 0.03, growth_tokens: 90, subagents: 2}}}}")
    costs = {cost["cost"]: cost["path_s"] for cost in why(tmp_path, "plx_box", text)["end_s"]["costs"]}
    assert costs["arrival"] == pytest.approx(4 * 0.03, rel=1e-9)


@pytest.mark.parametrize("shape", [{}, {"tp": 2}, {"tp": 2, "pp": 2}], ids=str)
def test_parts_and_path_of_a_request_alone_are_the_same(tmp_path, shape):
    """No other request holds it up: each part of TTFT is the time of its costs on the path."""
    path = why(tmp_path, "plx_box", serving("{list: [{prompt_tokens: 300, output_tokens: 2}]}", host=serving_runs.SYNC, **shape))["ttft_s"]
    parts = summary(tmp_path / "out")["metrics"]["ttft_parts_s"]
    costs = {cost["cost"]: cost["path_s"] for cost in path["costs"]}
    classes = {traffic["class"]: traffic["path_s"] for traffic in path["classes"]}
    assert parts["host"] == pytest.approx(costs["host"], rel=1e-9)
    assert parts["prefill_kernels"] == pytest.approx(costs["kernel"] + costs["sharing"], rel=1e-6)
    for name in ("tp", "pp"):
        assert parts.get(name, 0) == pytest.approx(classes.get(name, 0), rel=1e-6, abs=1e-12)


def pair(requests):
    text = serving(requests, host=serving_runs.SYNC)
    return text.replace("{name: a, tp: 1, pp: 1}", "{name: p, role: prefill}, {name: d, role: decode}")


def hosts(path):
    return {host["work"]: host["path_s"] for host in path["hosts"]}


def test_the_path_of_a_pair_goes_through_both_instances(tmp_path):
    """Client, router, prefill, handshake, posts, KV and the first step of the other instance, for a request alone."""
    more = ["--set", "workload.client_us=70", "--set", "workload.router={policy: round_robin, router_us: 250}",
            "--set", "workload.kv_transfer.first_contact=in_run"]
    path = why(tmp_path, "dgx_h100", pair("{list: [{prompt_tokens: 300, output_tokens: 2}]}"), *more)["ttft_s"]
    parts = summary(tmp_path / "out")["metrics"]["ttft_parts_s"]
    costs = {cost["cost"]: cost["path_s"] for cost in path["costs"]}
    classes = {traffic["class"]: traffic["path_s"] for traffic in path["classes"]}
    assert parts["kv_post"] > 0 and parts["kv"] > 0
    own = hosts(path)
    assert costs["host"] == pytest.approx(sum(own.values()), rel=1e-9)
    assert own["client"] == pytest.approx(70e-6, rel=1e-9)
    assert own["router"] == pytest.approx(parts["router"], rel=1e-9) and parts["router"] == pytest.approx(250e-6, rel=1e-9)
    assert own["client"] + own["server"] + own["engine"] == pytest.approx(parts["host"], rel=1e-9)
    assert own["posts"] == pytest.approx(parts["kv_post"], rel=1e-9)
    assert own["handshakes"] == pytest.approx(parts["kv_handshake"], rel=1e-9) and parts["kv_handshake"] > 0
    assert costs["kernel"] + costs["sharing"] == pytest.approx(parts["prefill_kernels"] + parts["decode_kernels"], rel=1e-6)
    assert classes["kv"] == pytest.approx(parts["kv"] + parts["kv_contention"], rel=1e-6)


@pytest.mark.parametrize("rate", [50, 1500])
def test_posts_and_kv_of_pairs_are_on_the_path_under_load(tmp_path, rate):
    path = why(tmp_path, "dgx_h100", pair(f"{{count: 40, arrivals: poisson, rate_per_s: {rate}, {LENGTHS}}}"))["ttft_s"]
    parts = summary(tmp_path / "out")["metrics"]["ttft_parts_s"]
    assert hosts(path)["posts"] >= parts["kv_post"] * (1 - 1e-9) > 0
    assert row(path, "costs", "cost", "host")["path_s"] >= (parts["kv_post"] + parts["host"]) * (1 - 1e-9)
    assert row(path, "classes", "class", "kv")["path_s"] >= (parts["kv"] + parts["kv_contention"]) * (1 - 1e-9)
    assert sum(cost["path_s"] for cost in path["costs"]) == pytest.approx(path["mean_s"], rel=1e-9)


@pytest.mark.parametrize("rate, descriptor_us", [(50, 2), (200, 4), (600, 2)])
def test_pairs_without_posts_come_true(tmp_path, rate, descriptor_us):
    """KV that is there sooner takes part in an earlier step, or waits longer for the same one."""
    text = pair(f"{{count: 40, arrivals: poisson, rate_per_s: {rate}, {LENGTHS}}}")
    posts = ["--set", f"workload.kv_transfer.descriptor_us={descriptor_us}", "--set", "workload.kv_transfer.merges_adjacent=false"]
    path = why(tmp_path, "dgx_h100", text, *posts)["ttft_s"]
    truly = why(tmp_path, "dgx_h100", text, *posts, "--set", "workload.kv_transfer.descriptor_us=0", out="truly")["ttft_s"]
    assert row(path, "hosts", "work", "posts")["path_s"] > 0.1 * path["mean_s"]
    assert row(path, "hosts", "work", "posts")["without_s"] == pytest.approx(truly["mean_s"], rel=CLOSE)


def test_the_wait_in_the_router_is_told(tmp_path):
    """It is a part of the same time: the path goes on in the instance that has no room."""
    queued = ["--set", "workload.router={policy: round_robin, router_us: 40, queue_threshold: 0.5}", "--set", "workload.scheduler.max_batched_tokens=512"]
    path = why(tmp_path, "plx_box", serving(f"{{count: 40, arrivals: poisson, rate_per_s: 1500, {LENGTHS}}}"), *queued)["ttft_s"]
    parts = summary(tmp_path / "out")["metrics"]["ttft_parts_s"]
    assert path["held_s"] > 0.1 * path["mean_s"]
    assert path["held_s"] + 40e-6 == pytest.approx(parts["router"], rel=1e-9)
    assert sum(cost["path_s"] for cost in path["costs"]) == pytest.approx(path["mean_s"], rel=1e-9)
    assert "of this, while held in the router" in succeed("plx_box", tmp_path / "tiny.yaml", "--why", *queued).stdout


@pytest.mark.parametrize("rate", [50, 1500])
def test_parts_and_path_differ_only_by_the_time_in_the_queue(tmp_path, rate):
    """On the path, this time belongs to what the batches of others did meanwhile."""
    text = serving(f"{{count: 40, arrivals: poisson, rate_per_s: {rate}, {LENGTHS}}}", host=serving_runs.SYNC)
    path = why(tmp_path, "plx_box", text)["ttft_s"]
    parts = summary(tmp_path / "out")["metrics"]["ttft_parts_s"]
    costs = {cost["cost"]: cost["path_s"] for cost in path["costs"]}
    waited = sum(seconds for part, seconds in parts.items() if part.startswith("queue") or part == "step_alignment")
    of_kernels = costs["kernel"] + costs["sharing"] - parts["prefill_kernels"]
    of_host = costs["host"] - parts["host"]
    assert of_kernels >= -1e-9 and of_host >= -1e-9
    assert of_kernels + of_host == pytest.approx(waited, rel=1e-6, abs=1e-9)


def test_a_slow_gpu_has_its_own_row(tmp_path):
    """All ranks wait for it in every all-reduce; without it, the step takes what it takes on equal GPUs."""
    text = ("model: {config: " + str(ROOT) + "/tests/models/tiny.json}\nmachine: {groups: {node: {servers: 1}}}\n"
            "workload: {kind: layer, phase: prefill, tp: 8, tokens: 4096}\n")
    slow = ["--set", "events=[{at_us: 0, gpu: node0.gpu3, slow_ratio: 0.5}]"]
    path = why(tmp_path, "dgx_h100", text, *slow)["end_s"]
    fair = why(tmp_path, "dgx_h100", text, out="fair")["end_s"]
    [straggler] = path["stragglers"]
    assert straggler["gpu"] == "node0.gpu3" and fair["stragglers"] == []
    assert straggler["path_s"] == pytest.approx(path["mean_s"] - fair["mean_s"], rel=0.05)
    assert straggler["without_s"] == pytest.approx(fair["mean_s"], rel=0.01)
    assert row(path, "costs", "cost", "straggler")["path_s"] == pytest.approx(straggler["path_s"], rel=1e-9)
    assert row(path, "costs", "cost", "sharing")["path_s"] < 0.01 * path["mean_s"]
    assert any(piece["straggler_s"] != "0" for piece in rows(tmp_path / "out" / "why.csv"))
    table = succeed("dgx_h100", tmp_path / "tiny.yaml", "--why", *slow).stdout
    assert "slow GPUs" in table and "\n    node0.gpu3" in table

"""Clients that leave before they have their answer: their requests are given up wherever they are."""

import json
import random
import sys

import pytest

from platform_runs import ROOT, refuse, rows, succeed, summary

sys.path.insert(0, str(ROOT / "scripts"))
from lib import request_times

ALONE = "[{name: a, tp: 2}]"
DEPLOYMENTS = {
    "alone": f"instances: {ALONE}",
    "two": "instances: [{name: a, tp: 2, count: 2}]\n  router: {policy: least_load, queue_threshold: 0.5}",
    "pull": "instances: [{name: p, role: prefill, tp: 2}, {name: d, role: decode, tp: 2}]",
    "push": "instances: [{name: p, role: prefill, tp: 2}, {name: d, role: decode, tp: 2}]\n  kv_transfer: {mode: push_per_layer}",
    "replicas": "instances: [{name: a, tp: 1, dp: 2, ep: 2}]",
}
REQUESTS = 60


def scenario(folder, deployment, leaves, engine="vllm-0.19", model="tiny", more=""):
    """Requests that come every 2 ms for up to 60 tokens, with the times at which clients leave."""
    draw = random.Random(3)
    lines = []
    for number in range(REQUESTS):
        request = {"arrival_time_ns": 2_000_000 * number, "input_toks": draw.randrange(20, 900), "output_toks": draw.randrange(1, 60)}
        if leaves is not None:
            stay = leaves(draw)
            request["client_left_ns"] = None if stay is None else request["arrival_time_ns"] + stay
        lines.append(json.dumps(request))
    (folder / "t.jsonl").write_text("\n".join(lines) + "\n")
    path = folder / "s.yaml"
    path.write_text(f"model: {{config: {ROOT}/tests/models/{model}.json}}\nworkload:\n  kind: serving\n  engine: {engine}\n  kv_blocks: 150\n"
                    f"  requests: {{format: llmservingsim, file: t.jsonl}}\n  {deployment}\n{more}")
    return path


def some_leave(draw):
    return draw.choice((None, draw.randrange(0, 100), draw.randrange(0, 400_000_000), draw.randrange(0, 40_000_000)))


def finished(path, out, *options):
    succeed("dgx_h100", path, "--out", out, "--quiet", *options)
    table = rows(out / "requests.csv")
    assert sorted(int(row["request id"]) for row in table) == list(range(REQUESTS))
    return table


@pytest.mark.parametrize("name, engine", [("alone", "vllm-0.19"), ("alone", "sglang-0.5"), ("alone", "trtllm-1.0"), ("two", "vllm-0.19"),
                                          ("pull", "vllm-0.19"), ("push", "sglang-0.5"), ("replicas", "vllm-0.19")])
def test_requests_of_clients_that_leave_are_given_up_at_that_instant(tmp_path, name, engine):
    path = scenario(tmp_path, DEPLOYMENTS[name], some_leave, engine, "tiny_experts" if name == "replicas" else "tiny")
    table = finished(path, tmp_path / "out")
    trace = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    aborted = [row for row in table if row["aborted"] == "1"]
    assert 5 < len(aborted) < REQUESTS - 5
    for row in table:
        asked = trace[int(row["request id"])]
        if row["aborted"] == "1":
            assert int(row["end_time"]) == asked["client_left_ns"] and int(row["output"]) < asked["output_toks"] + 1
        else:
            assert int(row["output"]) == asked["output_toks"]
    metrics = summary(tmp_path / "out")["metrics"]
    assert (metrics["requests"], metrics["aborted"]) == (REQUESTS - len(aborted), len(aborted))
    # Percentiles of scripts are those of the summary: of requests that were served.
    times = request_times.read(tmp_path / "out" / "requests.csv", ["ttft"])
    assert request_times.percentile(sorted(times.of("ttft")), 90) == pytest.approx(metrics["ttft_p90_s"], abs=1e-9)
    # The same, job by job.
    assert finished(path, tmp_path / "jobs", "--set", "fabric.compose=false", "--set", "fabric.fidelity=train") == finished(path, tmp_path / "train", "--set", "fabric.fidelity=train")


def test_those_who_stay_are_served_sooner(tmp_path):
    """A memory that holds few requests: what leaves makes room."""
    times = []
    for leaves in (lambda draw: None, lambda draw: draw.choice((None, 1_000_000))):
        folder = tmp_path / str(len(times))
        folder.mkdir()
        table = finished(scenario(folder, DEPLOYMENTS["alone"], leaves), folder / "out")
        times.append(max(int(row["end_time"]) for row in table if row["aborted"] == "0"))
    assert times[1] < 0.8 * times[0]


def test_a_trace_in_which_nobody_leaves_is_as_one_that_does_not_say(tmp_path):
    tables = []
    for leaves in (None, lambda draw: None):
        folder = tmp_path / str(len(tables))
        folder.mkdir()
        tables.append(finished(scenario(folder, DEPLOYMENTS["alone"], leaves), folder / "out"))
    assert "aborted" not in tables[0][0]
    assert tables[0] == [{key: value for key, value in row.items() if key != "aborted"} for row in tables[1]]


def test_a_leave_before_the_arrival_is_refused(tmp_path):
    path = scenario(tmp_path, DEPLOYMENTS["alone"], lambda draw: -1)
    assert "client_left_ns: expected whole nanoseconds, not before arrival_time_ns, or null, got '-1'" in refuse("dgx_h100", path, "--check")

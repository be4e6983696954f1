"""workload.defer_embedding_wgrad: the head's gradients of weights follow all other slots of the last pipeline rank."""

import json

import pytest

from platform_runs import ROOT, run, rows, succeed, summary

MICRO_BATCHES, STAGES, TOKENS = 8, 4, 4096


def scenario(tmp_path, **keys):
    """Eight layers of Llama-3.1-8B, so that the head is a large part of the last of four stages."""
    config = json.loads((ROOT / "scenarios" / "models" / "llama-3.1-8b.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(config | {"num_hidden_layers": 8}))
    workload = {"kind": "training", "seq_tokens": TOKENS, "global_batch": MICRO_BATCHES, "pp": STAGES, "dp": 1, "zero_stage": 0} | keys
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps({"schema_version": 1, "model": {"config": "model.json"}, "workload": workload}))
    return path


def step(tmp_path, name, **keys):
    out = tmp_path / name
    succeed("dgx_h100", scenario(tmp_path, **keys), "--out", out, "--quiet")
    return out, summary(out)["metrics"]


def explained(tmp_path, **keys):
    return json.loads(succeed("dgx_h100", scenario(tmp_path, **keys), "--explain", "--json").stdout)


def slots(out, rank):
    return [slot for slot in rows(out / "schedule.csv") if slot["rank"] == str(rank)]


@pytest.mark.parametrize("keys, last", [({}, 3), ({"schedule": "interleaved", "virtual_stages": 2}, 7), ({"schedule": "gpipe"}, 3)])
def test_the_head_follows_all_other_slots_of_its_rank(keys, last, tmp_path):
    out, _ = step(tmp_path, "deferred", defer_embedding_wgrad=True, **keys)
    plain, _ = step(tmp_path, "plain", **keys)
    for rank in range(STAGES):
        expected = slots(plain, rank)
        if rank == STAGES - 1:
            expected = expected + [{"rank": str(rank), "position": str(len(expected) + m), "kind": "backward_weights", "virtual_stage": str(last),
                                    "micro_batch": str(m)} for m in range(MICRO_BATCHES)]
        assert slots(out, rank) == expected
    assert (out / "schedule.txt").read_bytes() == (plain / "schedule.txt").read_bytes()  # as workload.schedule reads it


def test_the_step_ends_earlier_by_what_the_other_ranks_hide(tmp_path):
    """The last rank is the slowest. Without the head's product of each micro-batch the others end earlier; the products run meanwhile."""
    plain, before = step(tmp_path, "plain")
    out, after = step(tmp_path, "deferred", defer_embedding_wgrad=True)
    kernels = [[float(rank["kernels_s"]) for rank in rows(folder / "ranks.csv")] for folder in (plain, out)]
    assert kernels[1] == pytest.approx(kernels[0], rel=2e-3)  # transfers beside kernels differ
    stages = explained(tmp_path)["stages"]
    with_head = explained(tmp_path, defer_embedding_wgrad=True)["stages"][-1]
    head = stages[-1]["backward_kernels_s"] - with_head["backward_kernels_s"]
    drain = sum(stage["backward_kernels_s"] for stage in stages[:-1])
    assert drain < MICRO_BATCHES * head  # so the step gains all of the drain
    assert before["step_s"] - after["step_s"] == pytest.approx(drain, rel=0.05)


def test_inputs_and_gradients_of_logits_of_all_micro_batches_stay(tmp_path):
    model = json.loads((ROOT / "scenarios" / "models" / "llama-3.1-8b.json").read_text())
    stays = 2 * TOKENS * (model["hidden_size"] + model["vocab_size"])  # of a micro-batch, in 16 bits
    plain, deferred = (explained(tmp_path, defer_embedding_wgrad=defers)["memory"][-1]["activations_bytes"] for defers in (False, True))
    assert deferred == plain + (MICRO_BATCHES - 1) * stays


def test_gradients_of_layers_do_not_wait_for_the_head(tmp_path):
    """With replicas: buckets without the head start while its products run; the head's bucket starts after them."""
    keys = {"defer_embedding_wgrad": True, "dp": 2, "global_batch": 2 * MICRO_BATCHES, "dp_overlap": True, "bucket_parameters": 1000000}
    out, metrics = step(tmp_path, "replicas", **keys)
    _, plain = step(tmp_path, "plain", **keys | {"defer_embedding_wgrad": False})
    jobs = rows(out / "jobs.csv")
    last = [job for job in jobs if job["name"].startswith("W_PP[3]")]
    reduced = [job for job in jobs if job["name"].startswith("DP_") and "_PP[3]" in job["name"]]
    assert last and len(reduced) == 2
    head_ends = max(float(job["end_s"]) for job in last)
    starts = sorted(float(job["start_s"]) for job in reduced)
    assert starts[0] < head_ends <= starts[-1]
    assert metrics["step_s"] < plain["step_s"]


@pytest.mark.parametrize("keys, words", [
    ({"pp": 1}, "needs pp of 2 or more; accepted with pp: 1: false"),
    ({"schedule": "zb_h1"}, "the schedule already divides backward slots into B and W; accepted with it: false"),
    ({"zero_stage": 2, "dp": 2}, "needs zero_stage: 0 or 1, which reduce gradients once a step"),
    ({"gtp": {"size": 2}}, "needs gtp: none"),
])
def test_where_it_is_refused(keys, words, tmp_path):
    refused = run("dgx_h100", scenario(tmp_path, defer_embedding_wgrad=True, **keys), "--out", tmp_path / "out")
    assert refused.returncode == 2 and f"error: workload.defer_embedding_wgrad: {words}" in refused.stderr
    assert not (tmp_path / "out").exists()

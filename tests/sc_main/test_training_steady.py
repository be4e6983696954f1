"""A step is one of many alike: where its weights are gathered, and what one step says of several."""

import pytest

from platform_runs import metrics_of_step, rows

ROUNDED = 1e-7  # s: ranks end some nanoseconds apart
STEP = {"seq_tokens": 2048, "global_batch": 4, "tp": 2, "sequence_parallel": True, "dp": 4, "zero_stage": 1, "bucket_parameters": 100_000_000}


def times_of(folder, prefix):
    """From the first start to the last end of the jobs with these first letters, by step."""
    found = {}
    for row in rows(folder / "out" / "jobs.csv"):
        if row["name"].startswith(prefix) and "_Step[" in row["name"]:
            step = int(row["name"].rpartition("_Step[")[2].rstrip("]"))
            start, end = float(row["start_s"]), float(row["end_s"])
            first, last = found.get(step, (start, end))
            found[step] = min(first, start), max(last, end)
    return found


def test_without_overlap_the_optimizer_ends_with_the_gathers(tmp_path):
    metrics_of_step(tmp_path / "run", **STEP, steps=2)
    gathers, forward = times_of(tmp_path / "run", "DP_AG_"), times_of(tmp_path / "run", "F_")
    assert gathers.keys() == forward.keys() == {0, 1}
    assert all(times_of(tmp_path / "run", "Adam_")[step][1] <= gathers[step][0] + ROUNDED for step in gathers)
    assert forward[1][0] >= gathers[0][1] - ROUNDED


def test_with_overlap_a_step_begins_with_its_gathers(tmp_path):
    metrics_of_step(tmp_path / "run", **STEP, steps=2, param_gather_overlap=True)
    gathers, forward, optimizer = (times_of(tmp_path / "run", prefix) for prefix in ("DP_AG_", "F_", "Adam_"))
    assert gathers.keys() == {0, 1} and gathers[0][0] == 0
    for step in gathers:
        assert gathers[step][0] <= forward[step][0] < gathers[step][1]
        assert gathers[step][1] < optimizer[step][0]
    assert gathers[1][0] >= optimizer[0][1] - ROUNDED


@pytest.mark.parametrize("keys", [{}, {"param_gather_overlap": True}, {"zero_stage": 3}])
def test_one_step_is_as_long_as_each_of_several(keys, tmp_path):
    one, two = (metrics_of_step(tmp_path / str(steps), **STEP | keys, steps=steps) for steps in (1, 2))
    assert one["step_s"] == pytest.approx(two["step_s"], rel=1e-3)
    assert one["exposed_s"]["dp"] == pytest.approx(two["exposed_s"]["dp"], rel=0.02, abs=1e-6)


def test_overlapped_gathers_hide_behind_forward_slots(tmp_path):
    late, early = (metrics_of_step(tmp_path / str(overlap), **STEP, param_gather_overlap=overlap) for overlap in (False, True))
    assert early["exposed_s"]["dp"] < 0.8 * late["exposed_s"]["dp"]
    assert early["step_s"] < late["step_s"]

"""workload.kind: training from outside: stages without layers, and interleaved slots without overlap."""

import pytest

from platform_runs import ROOT, rows, run, succeed, summary

INTERLEAVED = ROOT / "scenarios" / "training" / "schedules" / "interleaved.yaml"  # 32 layers in 8 virtual stages


def step(folder, *sets):
    options = [option for text in sets for option in ["--set", f"workload.{text}"]]
    succeed("dgx_h100", INTERLEAVED, "--out", folder, "--quiet", *options)
    return summary(folder)["metrics"]["step_s"], [float(rank["kernels_s"]) for rank in rows(folder / "ranks.csv")]


@pytest.mark.parametrize("batch", [4, 16])
def test_interleaved_slots_run_without_overlap(batch, tmp_path):
    beside, slowed = step(tmp_path / "beside", f"global_batch={batch}")
    blocking, alone = step(tmp_path / "blocking", f"global_batch={batch}", "pp_overlap=false")
    assert sum(alone) < sum(slowed)  # transfers take SMs from kernels only if both run at the same time
    assert max(alone) < blocking < 1.2 * beside


def test_ends_may_be_stages_of_their_own(tmp_path):
    _, equal = step(tmp_path / "equal", "pp_overlap=false")
    _, ends = step(tmp_path / "ends", "pp_overlap=false", "stage_layers=[0, 5, 5, 6, 6, 5, 5, 0]")
    assert sum(ends) == pytest.approx(sum(equal), rel=1e-6)  # the same work
    assert ends[0] < equal[0] and ends[-1] < equal[-1]


@pytest.mark.parametrize("sets, words", [
    (["stage_layers=[4, 0, 4, 4, 4, 4, 6, 6]"], "stage_layers.1: 0 layers are accepted in the first and the last virtual stage only"),
    (["virtual_stages=1", "schedule=zb_h1", "stage_layers=[0, 10, 11, 11]"], "stage_layers.0: 0 layers are not accepted with a schedule"),
])
def test_other_stages_need_layers(sets, words, tmp_path):
    options = [option for text in sets for option in ["--set", f"workload.{text}"]]
    refused = run("dgx_h100", INTERLEAVED, "--out", tmp_path / "out", *options)
    assert refused.returncode == 2 and words in refused.stderr

"""The clock of a step follows from the shares of time of collectives of its layers: those that kernels wait for, and those beside kernels."""

import math

import pytest

from platform_runs import metrics_of_step

CLOCK_MHZ, STEP_RATIO, BURST_RATIO = 1830, 0.77, 0.9116  # H100-SXM5-80GB.yaml
WITHOUT_LOAD, OF_WAITS, OF_TRANSFERS = 0.17, 0.38, 0.11  # of the power limit; gpu/kernels/step_clock.h
WORKLOAD = {"seq_tokens": 8192, "global_batch": 8, "pp": 1, "launch": "graph"}


def metrics_of(folder, **keys):
    return metrics_of_step(folder, **WORKLOAD | keys)


def test_without_collectives_in_layers_kernels_have_the_clock_of_the_datasheet(tmp_path):
    assert metrics_of(tmp_path / "run", tp=1, dp=8)["sm_clock_mhz"] == pytest.approx(STEP_RATIO * CLOCK_MHZ, rel=1e-12)


def expected_mhz(run):
    """By the waits that the run had, and the collectives beside kernels."""
    waits = run["exposed_s"]["tp"] / (run["exposed_s"]["tp"] + run["kernels_s"])
    hidden = run["hidden_ratio"]["tp"]  # of the collectives' time; gathers beside the products of inputs, sums beside those of weights
    beside = run["exposed_s"]["tp"] * hidden / (1 - hidden) / (run["exposed_s"]["tp"] + run["kernels_s"])
    load = (1 - waits * OF_WAITS - beside * OF_TRANSFERS) / (1 - waits) - WITHOUT_LOAD
    return CLOCK_MHZ * min(BURST_RATIO, STEP_RATIO * math.sqrt(load / (1 - WITHOUT_LOAD)))


@pytest.mark.parametrize("tp", [2, 8])
def test_the_clock_fits_the_waits_that_the_run_has(tp, tmp_path):
    run = metrics_of(tmp_path / "run", tp=tp, dp=8 // tp, sequence_parallel=True)
    assert run["sm_clock_mhz"] == pytest.approx(expected_mhz(run), rel=0.01)


@pytest.mark.parametrize("key", ["gpu.nvlink.gb_per_s", "nvlink.gb_per_s"])
def test_the_clock_follows_the_waits_of_other_links(key, tmp_path):
    """Slower links: longer waits, and more power for the kernels between them."""
    keys = WORKLOAD | {"tp": 8, "dp": 1, "sequence_parallel": True, "zero_stage": 0, "global_batch": 1, "grad_norm": "none"}
    clocks = []
    for rate in (6.25, 12.5, 25, 100, 1000):
        run = metrics_of_step(tmp_path / str(rate), "--set", f"machine.overrides.{key}={rate}", **keys)
        clocks.append(run["sm_clock_mhz"])
        assert clocks[-1] == pytest.approx(expected_mhz(run), rel=0.02)
    assert clocks == sorted(clocks, reverse=True) and clocks[1] > 1.03 * clocks[2]


def test_overlap_leaves_less_power(tmp_path):
    none = metrics_of(tmp_path / "none", tp=8, dp=1, sequence_parallel=True)
    overlapped = metrics_of(tmp_path / "overlapped", tp=8, dp=1, sequence_parallel=True, tp_overlap="userbuffers")
    assert overlapped["sm_clock_mhz"] < none["sm_clock_mhz"]
    assert overlapped["exposed_s"]["tp"] < none["exposed_s"]["tp"]

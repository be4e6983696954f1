"""The host of a training software: its time for a slot, and where it waits for the GPU."""

import pytest

from platform_runs import metrics_of_step

MICRO_BATCHES, SLOT_US = 3, 3000.0
WORKLOAD = {"seq_tokens": 8192, "global_batch": 8 * MICRO_BATCHES, "tp": 1, "pp": 1, "dp": 8, "launch": "eager", "host_us": 10.0}


def step_s(folder, **keys):
    return metrics_of_step(folder, **WORKLOAD | keys)["step_s"]


@pytest.mark.parametrize("synchronize, exposed", [(True, MICRO_BATCHES), (False, 1)])
def test_kernels_hide_the_time_of_slots_unless_they_synchronize(synchronize, exposed, tmp_path):
    without = step_s(tmp_path / "without", slots_synchronize=synchronize, slot_host_us=0)
    having = step_s(tmp_path / "with", slots_synchronize=synchronize, slot_host_us=SLOT_US)
    assert having - without == pytest.approx(exposed * SLOT_US * 1e-6, abs=1e-9)


def test_launches_hide_no_kernels_of_the_slot_before(tmp_path):
    # The host is slower than the GPU: without a wait, the last kernels of a slot run beside the launches of the next one.
    keys = {"host_us": 1000.0, "slot_host_us": 0}
    ahead = step_s(tmp_path / "ahead", slots_synchronize=False, **keys)
    waiting = step_s(tmp_path / "waiting", slots_synchronize=True, **keys)
    slots = 2 * MICRO_BATCHES
    assert (slots - 1) * 1e-3 < waiting - ahead  # a wait is a call of the host, and the last kernel of a slot takes time

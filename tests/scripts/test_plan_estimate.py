"""The planner's estimate: slots of pipelines against closed forms, and collectives as the executable simulates them."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace

import pytest

from platform_runs import BIN, ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from planning import space  # noqa: E402
from planning.candidates import Candidates  # noqa: E402
from planning.collectives import Alone, CollectiveError, Collectives  # noqa: E402
from planning.estimate import Estimator  # noqa: E402
from planning.explain import Facts  # noqa: E402
from planning.pipeline import PipelineError, Pipelines, Stage  # noqa: E402

PIPELINES = Pipelines(BIN / "dgx_h100")


def alike(schedule, ranks, virtual, count, stage=Stage(1.0, 1.5, 0.75, 0.0), blocking=False):
    return PIPELINES.seconds(schedule, ranks, [stage] * (ranks * virtual), count, blocking)


@pytest.mark.parametrize("ranks, count", [(1, 3), (2, 3), (4, 4), (4, 6), (8, 32), (4, 61), (3, 100)])
def test_equal_stages_take_as_long_as_their_closed_forms(ranks, count):
    """Narayanan et al., arXiv 2104.04473; Qi et al., arXiv 2401.10241. """
    whole = 1.0 + 1.5 + 0.75
    assert alike("1f1b", ranks, 1, count) == pytest.approx(whole * (count + ranks - 1))
    for virtual in (2, 5):
        if count % ranks == 0:
            assert alike("interleaved", ranks, virtual, count) == pytest.approx(whole * (count * virtual + ranks - 1))
    if count >= ranks > 1:
        assert alike("zb_h1", ranks, 1, count) == pytest.approx(whole * count + (ranks - 1) * (1.0 + 1.5 - 0.75))


@pytest.mark.parametrize("ranks, count", [(2, 8), (4, 16), (4, 40)])
def test_zero_bubble_v_idles_only_while_it_fills(ranks, count):
    """With slots of one length, p - 1 slots of a half stage are idle on the rank that starts last."""
    slot = Stage(1.0, 1.0, 1.0, 0.0)
    assert 6 * count < alike("zbv", ranks, 2, count, slot) <= (6 * count + ranks - 1) * (1 + 1e-12)  # rounding


def test_the_longest_stage_sets_the_pace():
    """1F1B: the longest stage runs for all micro-batches but one, which passes through all stages."""
    stages = [Stage(forward, 1.5 * forward, 0.5 * forward, 0.0) for forward in (1.0, 1.2, 0.9, 1.7)]
    of_each = [3 * stage.forward for stage in stages]
    for count in (4, 9, 50):
        assert PIPELINES.seconds("1f1b", 4, stages, count, False) == pytest.approx((count - 1) * max(of_each) + sum(of_each))


def test_transfers_are_hidden_or_block():
    """Of sends beside slots those of the first micro-batch to the last stage and back are left. Sends that block take a sender's time."""
    stage = Stage(1.0, 1.5, 0.75, 0.01)
    sends = (alike("1f1b", 4, 1, 16, stage, True) - 3.25 * 19) / 0.01
    assert 2 * 15 <= sends <= 2 * 15 + 6  # a rank between others sends twice for each micro-batch
    assert 6 <= (alike("1f1b", 4, 1, 16, stage) - 3.25 * 19) / 0.01 < sends
    assert alike("interleaved", 4, 2, 16, stage) < alike("interleaved", 4, 2, 16, stage, True)


def test_a_schedule_that_does_not_exist_is_one_line():
    for schedule, ranks, virtual, message in (("zbw", 2, 2, "stdin:1:1: error: schedule: 'zbw' is none of naive, "), ("zbv", 2, 1, "virtual stages"),
                                              ("interleaved", 4, 2, "leave a last group of 1")):
        with pytest.raises(PipelineError, match=message):
            Pipelines(BIN / "dgx_h100").seconds(schedule, ranks, [Stage(1.0, 1.0, 1.0, 0.0)] * (ranks * virtual), 9, False)


def test_collectives_are_those_of_the_executable_and_are_kept(tmp_path, monkeypatch):
    machine = {"schema_version": 1, "platform": "dgx_h100", "machine": {"groups": {"node": {"servers": 2}}}, "workload": {"kind": "training"}}
    collectives = Collectives(BIN / "dgx_h100", machine, tmp_path / "alone.json")
    inside, across = (collectives.seconds("all_gather", gpus, 1 << 24) for gpus in ((0, 1, 2, 3), (0, 4, 8, 12)))
    assert 0.75 * (1 << 24) / 450e9 < inside < across and collectives.seconds("all_gather", (0,), 1 << 24) == 0
    collectives.keep()
    assert json.loads((tmp_path / "alone.json").read_text()) == {key: asdict(found) for key, found in collectives.known.items()}
    assert collectives.alone("all_gather", (0, 1, 2, 3), 1 << 24).channels > 1
    again = Collectives(BIN / "dgx_h100", machine, tmp_path / "alone.json")
    monkeypatch.setattr(subprocess, "run", None)
    assert again.seconds("all_gather", (0, 1, 2, 3), 1 << 24) == inside
    monkeypatch.undo()
    with pytest.raises(CollectiveError, match="99"):
        collectives.seconds("all_gather", (0, 99), 1 << 24)


class Ideal:
    """Collectives at 100 GB/s, with ten channels."""

    def __init__(self):
        self.asked = []

    def alone(self, operation, gpus, size):
        self.asked.append((operation, gpus))
        return Alone(size / 100e9, 10) if len(gpus) > 1 else Alone(0.0, 0)

    def seconds(self, operation, gpus, size):
        return self.alone(operation, gpus, size).time_s


def facts(layers, micro_batches, sent):
    stages = [{"rank": rank, "layers": count, "forward_kernels_s": 0.01 * count, "backward_kernels_s": 0.02 * count, "backward_weights_kernels_s": 0.01 * count,
               "forward_products_s": 0.01 * count}
              for rank, count in enumerate(layers)]
    memory = [{"weights_bytes": 2e9, "gradients_bytes": 4e9, "total_bytes": 1e10}]
    return Facts({"micro_batches": micro_batches, "stages": stages, "memory": memory,
                  "sent": [{"group": group, "bytes_per_rank": count} for group, count in sent.items()]})


def test_replicas_of_experts_are_fewer():
    """Gradients and weights: 6 GB on each rank; 0.6 GB are those of experts, which have 2 replicas in other servers, of 8 ranks."""
    asked = space.Question(16, 8, space.Model(4, 32, 8, 8, 4096), 16, 4096)
    mapping = space.Mapping(2, 1, 4, 1, 1, "1f1b", 1, 1, "none")
    ideal = Ideal()
    sent = {"tp": 0.0, "ep": 0.0, "dp": 7 / 8 * 5.4e9 + 1 / 2 * 0.6e9}
    found = Estimator(asked, ideal, PIPELINES).estimate(mapping, facts([4], 2, sent))
    groups = {gpus for operation, gpus in ideal.asked if operation == "reduce_scatter"}
    assert groups == {(0, 2, 4, 6, 8, 10, 12, 14), (0, 8)}
    # On the ideal network a ring of n takes 1 / (1 - 1/n) longer for its bytes.
    assert found.dp_s == pytest.approx(5.4e9 / 100e9 + 0.6e9 / 100e9)


@pytest.mark.parametrize("persistent", [False, True])
def test_hidden_collectives_take_sms_and_not_time(persistent):
    """Of a layer's ten collectives six are exposed. Four take a fifth of the SMs from products: meanwhile, or from six tenths of them."""
    asked = space.Question(8, 8, space.Model(4, 32, 8, 0, 4096), 8, 4096, persistent=persistent)
    one = 4096 * 4096 * 2
    sent = {"tp": 8 * 4 * 10 * one * 3 / 4, "dp": 0.0}
    plain, overlapped = (Estimator(asked, Ideal(), PIPELINES).estimate(space.Mapping(4, 1, 1, 1, 1, "1f1b", 1, 0, "none", overlap), facts([4], 8, sent)).pipeline_s
                         for overlap in ("none", "userbuffers"))
    kernels, weights, collectives = 8 * 4 * 0.03, 8 * 4 * 0.01, 8 * 4 * 10 * one / 100e9
    assert plain == pytest.approx(kernels + 0.6 * collectives + 0.2 * (2 * 0.6 * weights if persistent else 0.4 * collectives))
    assert overlapped == pytest.approx(kernels + collectives / 13)


@pytest.mark.parametrize("dp_overlap", [False, True])
def test_sums_of_zero_3_run_beside_the_next_micro_batch(dp_overlap):
    """Of 4 micro-batches, each moves a quarter of its bytes beside forward, a quarter beside backward, and half are sums of gradients. Without overlap
    those of the last micro-batch are exposed, with it those of the last layer. Either exposes the first gather."""
    asked = space.Question(8, 8, space.Model(4, 32, 8, 0, 4096), 32, 4096, dp_overlap=dp_overlap)
    moved = 0.1 / (1 - 1 / 8)  # s; 10 GB on an ideal ring
    found = Estimator(asked, Ideal(), PIPELINES).estimate(space.Mapping(1, 1, 1, 1, 1, "1f1b", 1, 3, "none"), facts([4], 4, {"dp": 10e9}))
    first, last = moved / 16 / 4, moved / 8 / (4 if dp_overlap else 1)
    assert found.dp_s == pytest.approx(first + last + 0.12 * (moved - first - last))


@pytest.mark.parametrize("persistent", [False, True])
def test_divided_matrices_are_gathered_beside_products(persistent):
    """The first of 16 matrices of a pass is exposed. Products of three kinds, 10 ms each in 4 micro-batches of 4 layers, lose ten channels
    while matrices are gathered, or, if their kernels are persistent, to their end."""
    asked = space.Question(8, 8, space.Model(4, 32, 8, 8, 4096), 32, 4096, persistent=persistent)
    mapping = space.Mapping(1, 1, 1, 1, 1, "1f1b", 1, 0, "none", gtp=8)
    found = Estimator(asked, Ideal(), PIPELINES).estimate(mapping, facts([4], 4, {"gtp": 10e9}))
    moved, products = 0.1 / (1 - 1 / 8), 3 * 4 * 4 * 0.01
    assert found.dp_s == pytest.approx(moved / 16 + 0.076 * (products if persistent else moved))
    assert found.pipeline_s == pytest.approx(4 * 4 * 0.03)


class Explained:
    """Only recomputed activations fit."""

    def __init__(self):
        self.asked = []

    @staticmethod
    def of(tp, micro_batch):
        """Ten collectives in each of 4 layers, for 8 micro-batches of 16384 tokens."""
        return facts([4], 8, {"tp": 8 * 4 * 10 * 2 * 4096 * 16384 * micro_batch * (tp - 1) / tp, "dp": 0.0})

    def ask(self, all_settings, progress):
        self.asked += all_settings
        found = [self.of(settings["workload.tp"], settings["workload.micro_batch"]) for settings in all_settings]
        for of_settings, settings in zip(found, all_settings):
            of_settings.largest["capacity_bytes"] = 1e11 if settings["workload.recompute"] == "full" else 1e9
        return found


def test_another_sequence_has_its_own_mappings():
    """Of each shape the fastest and the smallest micro-batch are asked about, and of those that fit the fastest estimate is the first."""
    asked = space.Question(8, 8, space.Model(4, 32, 8, 0, 4096), 16, 4096)
    fit = [space.Mapping(tp, 1, 1, 1, 1, "1f1b", size, 0, recompute) for recompute in ("none", "full") for tp in (2, 4) for size in (4, 2, 1)]
    candidates = Candidates(asked, 1.0, {}, fit, [], Counter(), {})
    explained, settings = Explained(), {"workload.seq_tokens": 16384}
    estimator = Estimator(asked, Ideal(), PIPELINES)
    found = candidates.with_workload(settings, [fit[1]], explained, estimator)
    assert {(mapping.tp, mapping.micro_batch, mapping.recompute) for mapping in found} == {(tp, size, "full") for tp in (2, 4) for size in (1, 4)}
    assert len(explained.asked) == 2 * 2 * 2 + 1 and all(of_one["workload.seq_tokens"] == 16384 for of_one in explained.asked)
    longer = estimator.about(replace(asked, seq_tokens=16384))
    seconds = [longer.estimate(mapping, explained.of(mapping.tp, mapping.micro_batch)).step_s for mapping in found]
    assert seconds == sorted(seconds)

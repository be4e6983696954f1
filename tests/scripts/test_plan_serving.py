"""Plans of serving: which fleets follow from single instances, how many instances it takes against brute force, and bad input."""

import json
import subprocess

import pytest

from platform_runs import BIN, ROOT
from test_load import measure_of

from loading.objectives import objectives_of  # noqa: E402
from loading.search import Search, driven  # noqa: E402
from serving_plan.decision import Decision  # noqa: E402
from serving_plan.estimate import Rates  # noqa: E402
from serving_plan.fleet import Fleet, Kind, Shape, Traffic  # noqa: E402
from serving_plan.sizes import Sizes, changes, doubled, lost  # noqa: E402
from serving_plan.space import Memory, Space  # noqa: E402

KIND = Kind("H100-SXM5-80GB", "dgx_h100", 8)
OTHER = Kind("L40S", "plx_box", 8)
ONE, TWO = Shape(1, 1), Shape(2, 1)
TRAFFIC = Traffic("model.json", 1000, {"lognormal": {"mean": 200, "cv_ratio": 0.7}}, 25.0, "vllm-0.19")


class Queues:
    """A simulator of fleets as M/D/c queues, with a service of 0.1 s on one GPU and 0.06 s on two; twice the prompt takes twice as long."""

    def __init__(self, objectives):
        self.objectives = objectives

    def together(self, _, scenarios, searches):
        answers = {}
        for name, steps in searches.items():
            workload = scenarios[name]["workload"]
            instances = sum(instance["count"] for instance in workload["instances"])
            service = {1: 0.1, 2: 0.06}[workload["instances"][0]["tp"]] * workload["requests"]["prompt_tokens"] / 1000
            answers[name] = driven(steps, measure_of(service, instances, self.objectives, 2))
        return answers


def planned(objectives, rates, top):
    sizes = Sizes(TRAFFIC, rates, Queues(objectives), 1200, 64)
    sizes.look(top)
    return sizes


def test_fleets_follow_from_single_instances():
    rates = Rates(colocated={(KIND, ONE): 4.0, (KIND, TWO): None}, prefill={(KIND, ONE): 12.5, (KIND, TWO): 30.0}, decode={(KIND, ONE): 6.0, (KIND, TWO): None})
    fleets = rates.fleets(25.0, 64)
    assert [(fleet.label, fleet.gpus, rates.of(fleet)) for fleet in fleets] == [
        ("7 x tp1 on H100-SXM5-80GB", 7, 28.0), ("2P5D of tp1 on H100-SXM5-80GB", 7, 25.0)]
    assert rates.fleets(25.0, 6) == []
    assert Fleet(KIND, Shape(4, 1), 3).servers == 2 and Fleet(KIND, Shape(8, 1), 0, 1, 2).servers == 3


def test_the_number_of_instances_is_that_of_brute_force():
    """From an estimate that is one instance off, either way."""
    objectives = objectives_of("ttft_p90_s=0.3")
    brute = next(n for n in range(1, 10) if driven(Search(600, 1200, 0.02).settle([25.0]), measure_of(0.1, n, objectives, 2))[0].holds)
    rates = Rates(colocated={(KIND, ONE): 8.0})
    for first in (brute - 1, brute + 1):
        sizes = planned(objectives, rates, [Fleet(KIND, ONE, first)])
        assert min(fleet.colocated for fleet in sizes.holding) == brute
        assert not sizes.loads[Fleet(KIND, ONE, brute - 1)].holds


def test_the_decision_names_the_fewest_and_the_cheapest(tmp_path):
    objectives = objectives_of("ttft_p90_s=0.3")
    rates = Rates(colocated={(KIND, ONE): 8.0, (OTHER, TWO): 14.0})
    sizes = planned(objectives, rates, [Fleet(KIND, ONE, 3), Fleet(OTHER, TWO, 2)])
    space = Space({(KIND, ONE): Memory(16, 1, 1, 70, 1000)}, {(OTHER, ONE): "has no memory"})
    prices = {KIND.gpu: 3.0, OTHER.gpu: 1.0}
    decision = Decision(TRAFFIC, objectives, space, rates, sizes, prices, None, {}, {})
    best = decision.best()
    assert {name: (fleet.kind, fleet.gpus) for name, fleet in best.items()} == {"fewest GPUs": (KIND, 3), "cheapest": (OTHER, 4)}
    page = decision.html()
    assert decision.html() == page and "2 x tp2 on L40S" in page and "has no memory" in page
    assert json.loads(json.dumps(decision.json()))["best"]["cheapest"] == "2 x tp2 on L40S"
    assert decision.csv_text().startswith("fleet,gpu,platform,")


def test_what_would_change_it():
    fleet = Fleet(KIND, ONE, 3)
    assert lost(fleet).colocated == 2 and lost(Fleet(KIND, ONE, 0, 1, 2)).decode == 1 and lost(Fleet(KIND, ONE, 1)) is None
    assert doubled({"lognormal": {"mean": 200, "cv_ratio": 0.7}}) == {"lognormal": {"mean": 400, "cv_ratio": 0.7}}
    made = {name: make(fleet) for name, make in changes(TRAFFIC).items()}
    assert made["10 % more requests"][1] == pytest.approx(27.5)
    assert made["prompts twice as long"][0]["workload"]["requests"]["prompt_tokens"] == 2000
    assert made["one instance lost"][0]["workload"]["instances"][0]["count"] == 2


GOOD = ["--model", str(ROOT / "tests" / "models" / "tiny.json"), "--gpus", "L40S", "--prompt", "400", "--output", "20", "--rate", "40", "--slo", "ttft_p99_s=1"]


@pytest.mark.parametrize("more, line", [
    (["--gpus", "H100"], "plan.py: error: --gpus H100: several GPUs: H100-PCIe-80GB, H100-SXM5-80GB"),
    (["--gpus", "L40SS"], "plan.py: error: --gpus L40SS: no such GPU (did you mean 'L40S'?); accepted: A100-PCIe-80GB, "),
    (["--gpus", "GH200"], "plan.py: error: --gpus GH200-96GB: no machine in "),
    (["--price", "H100=2"], "plan.py: error: --price H100: is none of --gpus; accepted: L40S"),
    (["--price", "L40S=2", "--budget", "1", "--tp", "1"], "plan.py: error: --budget 1: below one instance, which costs at least 2 an hour"),
    (["--budget", "1"], "plan.py serving: error: --budget needs --price"),
    (["--slo", "ttf_s=1"], "plan.py serving: error: argument --slo: 'ttf_s' is no metric of serving; nearest: ttft_s"),
    (["--prompt", "many"], "plan.py serving: error: argument --prompt: 'many' is neither a number of tokens nor a distribution"),
    (["--tp", "16"], "plan.py: error: no shape of an instance can run; none is within a server"),
    (["--model", str(ROOT / "scenarios" / "models" / "llama-3.1-405b.json"), "--tp", "1"], "plan.py: error: no shape of an instance can run; workload: a rank of stage 0 on L40S has no memory"),
])
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, more, line):
    command = [ROOT / "scripts" / "plan.py", "serving", *GOOD, *more, "--bin", BIN, "--out", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and done.stderr.startswith(line), done.stderr
    assert not (tmp_path / "out").exists()

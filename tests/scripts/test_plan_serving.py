"""Plans of serving: which fleets follow from single instances, how many instances it takes against brute force, and bad input."""

import json
import math
import re
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest

from platform_runs import BIN, ROOT
from scripts_inside import call
from test_load import measure_of

from lib.yaml_source import InputError  # noqa: E402
from loading.judgement import Verdict  # noqa: E402
from loading.objectives import objectives_of  # noqa: E402
from loading.search import NoKnee, Search, driven  # noqa: E402
from reporting.lines import Dot  # noqa: E402
from serving_plan import page  # noqa: E402
from serving_plan.decision import Decision  # noqa: E402
from serving_plan.estimate import Contest, Estimator, Rates  # noqa: E402
from serving_plan.fleet import Fleet, Kind, Shape, Traffic  # noqa: E402
from serving_plan.requests import Drawn, doubled, trace_of  # noqa: E402
from serving_plan.simulate import Replayed  # noqa: E402
from serving_plan.sizes import Sizes, changes, lost  # noqa: E402
from serving_plan.space import Memory, Sizes as RanksToTry, Space, space_of  # noqa: E402

KIND = Kind("H100-SXM5-80GB", "dgx_h100", 8)
OTHER = Kind("L40S", "plx_box", 8)
ONE, TWO = Shape(1, 1), Shape(2, 1)
LENGTHS = Drawn(1000, {"lognormal": {"mean": 200, "cv_ratio": 0.7}})
TRAFFIC = Traffic("model.json", LENGTHS, 25.0)


class Queues:
    """A simulator of fleets as M/D/c queues, with a service of 0.1 s on one GPU and 0.06 s on two; twice the prompt takes twice as long."""

    def __init__(self, objectives):
        self.objectives, self.failed, self.asked = objectives, {}, []

    def together(self, _, subjects, searches, hopeless=lambda names: ()):
        answers = {}
        for name, steps in searches.items():
            traffic, fleet = subjects[name]
            self.asked.append(name)
            service = {1: 0.1, 2: 0.06}[fleet.shape.tp] * traffic.requests.prompt / 1000
            try:
                answers[name] = driven(steps, measure_of(service, fleet.instances, self.objectives, 2))
            except NoKnee as error:
                answers[name] = error
        hopeless(())
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


def test_an_instance_fills_servers_or_is_within_one():
    assert Fleet(KIND, Shape(8, 4), 3).servers == 12 and Fleet(KIND, Shape(1, 1, 16, 16), 2).gpus == 32


def test_sizes_follow_from_model_and_server():
    """Whole experts, and attention replicas on all GPUs, where there are experts; more servers where nothing fits into one."""
    dense, experts = RanksToTry(None, None, None, None, False), RanksToTry(None, None, None, None, True)
    assert dense.within(KIND) == [(1, 1, 1, 1), (2, 1, 1, 1), (4, 1, 1, 1), (8, 1, 1, 1)]
    assert experts.within(KIND) == [(1, 1, 1, 1), (1, 1, 8, 8), (2, 1, 1, 1), (2, 1, 1, 2), (4, 1, 1, 1), (4, 1, 1, 4), (8, 1, 1, 1), (8, 1, 1, 8)]
    assert dense.across(KIND) == [(8, 2, 1, 1), (8, 4, 1, 1)]
    assert experts.across(KIND) == [(8, 2, 1, 1), (8, 2, 1, 8), (8, 4, 1, 1), (8, 4, 1, 8), (1, 1, 16, 16), (1, 1, 32, 32)]
    assert RanksToTry((4,), None, None, (1,), True).within(KIND) == [(4, 1, 1, 1)] and RanksToTry((4,), None, None, None, True).across(KIND) == []


@pytest.mark.parametrize("sizes, fit", [
    (RanksToTry(None, None, None, None, True), {"tp8 pp2", "tp8 pp2 ep8", "tp8 pp4", "tp8 pp4 ep8", "tp1 dp16 ep16", "tp1 dp32 ep32"}),
    (RanksToTry((8,), (1, 2), None, (1,), True), {"tp8 pp2"}),
])
def test_a_model_that_a_server_cannot_hold_takes_several(sizes, fit):
    """671 GB of weights on eight H100 with 80 GB each."""
    traffic = Traffic(str(ROOT / "scenarios" / "models" / "deepseek-v3.json"), LENGTHS, 1.0)
    space = space_of([KIND], sizes, {}, traffic, BIN, 2)
    assert {shape.label for _, shape in space.fit} == fit
    assert all("has no memory" in reason or "GB" in reason for reason in space.refused.values())


def test_routers_are_tried_where_there_is_a_choice():
    routers = ["round_robin", "random"]
    assert [fleet.label for fleet in Rates(colocated={(KIND, ONE): 20.0}).fleets(25.0, 64, routers)] == [
        "2 x tp1 on H100-SXM5-80GB, round_robin", "2 x tp1 on H100-SXM5-80GB, random"]
    assert len(Rates(colocated={(KIND, ONE): 30.0}).fleets(25.0, 64, routers)) == 1


def test_settings_reach_the_scenario():
    """Common ones, those of a shape, and attention replicas."""
    shape = Shape(1, 1, 8, 8, (("chunk", 4096), ("engine", "sglang-0.5")))
    traffic = replace(TRAFFIC, settings={"kv_dtype": "fp8", "max_seqs": 64}, router="random")
    scenario = traffic.scenario(Fleet(KIND, shape, 2), 3.0, 50, 7)
    assert scenario["model"] == {"config": "model.json", "kv_dtype": "fp8"} and scenario["seed"] == 7
    workload = scenario["workload"]
    assert (workload["engine"], workload["router"], workload["scheduler"]) == ("sglang-0.5", "random", {"max_seqs": 64, "max_batched_tokens": 4096})
    assert workload["instances"] == [{"name": "c", "role": "colocated", "count": 2, "tp": 1, "pp": 1, "dp": 8, "ep": 8}]
    assert workload["requests"] == {"count": 50, "arrivals": "poisson", "rate_per_s": 3.0, "prompt_tokens": 1000, "output_tokens": LENGTHS.output}
    shared = replace(traffic, shared=True).scenario(Fleet(KIND, shape, 1), 5.0, 50)["workload"]["requests"]  # one of five instances
    assert (shared["arrivals"], shared["burstiness_ratio"], shared["rate_per_s"]) == ("gamma", 5.0, 5.0)
    assert scenario["machine"]["groups"]["gpus"]["servers"] == 2 and shape.label == "tp1 dp8 ep8 chunk 4096 engine sglang-0.5"


def test_the_number_of_instances_is_that_of_brute_force():
    """From an estimate that is some instances off, either way."""
    objectives = objectives_of("ttft_p90_s=0.3")
    brute = next(n for n in range(1, 10) if driven(Search(600, 1200, 0.02).settle([25.0]), measure_of(0.1, n, objectives, 2))[0].holds)
    rates = Rates(colocated={(KIND, ONE): 8.0})
    for first in (1, brute - 1, brute, brute + 1, brute + 9):
        sizes = planned(objectives, rates, [Fleet(KIND, ONE, first)])
        assert min(fleet.colocated for fleet in sizes.holding) == brute
        assert not sizes.loads[Fleet(KIND, ONE, brute - 1)].holds


def test_a_fleet_without_certainty_runs_longer_only_where_the_answer_depends_on_it():
    """Three servers are near the limit: they run up to the most requests, five need no certainty."""
    objectives = objectives_of("ttft_p90_s=0.3")
    exact = driven(Search(3000, 12000, 0.01).largest(20.0), measure_of(0.1, 3, objectives, 2)).rate_per_s
    sizes = Sizes(replace(TRAFFIC, rate_per_s=exact), Rates(colocated={(KIND, ONE): 8.0}), Queues(objectives), 9000, 64)
    sizes.look([Fleet(KIND, ONE, 5)])
    assert sizes.loads[Fleet(KIND, ONE, 3)].count > 2400 >= max(load.count for fleet, load in sizes.loads.items() if fleet.colocated > 3)


class Deceiving:
    """A simulator where three instances seem to be enough until a run has 5000 requests; four are."""

    failed: dict = {}

    @staticmethod
    def together(_, subjects, searches):
        def load(count, instances):
            is_open = instances == 3 and count < 5000
            verdict = Verdict.OPEN if is_open else Verdict.HOLDS if instances > 3 else Verdict.BROKEN
            return SimpleNamespace(rate_per_s=TRAFFIC.rate_per_s, count=count, verdict=verdict, holds=instances > 3 or is_open, filling_factor=2.0, findings=[])

        return {fleet: driven(steps, lambda loads, n=subjects[fleet][1].instances: [load(count, n) for _, count in loads]) for fleet, steps in searches.items()}


@pytest.mark.parametrize("first", [1, 2, 3, 4, 9])
def test_the_number_is_looked_for_again_where_a_longer_run_changes_a_verdict(first):
    sizes = Sizes(TRAFFIC, Rates(colocated={(KIND, ONE): 8.0}), Deceiving(), 8000, 64)
    sizes.look([Fleet(KIND, ONE, first)])
    assert [fleet.colocated for fleet in sizes.smallest()] == [4] and sizes.loads[Fleet(KIND, ONE, 3)].count >= 5000


def test_a_replayed_trace_is_judged_as_it_is():
    """Also if it ends while requests pile up."""
    [load] = measure_of(0.1, 1, objectives_of("ttft_p50_s=60"), 1)([(20.0, 300)])
    assert load.grows and not load.holds
    replayed = Replayed(load.rate_per_s, load.count, load.runs, load.objectives)
    assert replayed.holds and replayed.verdict is Verdict.HOLDS
    assert not Replayed(load.rate_per_s, load.count, load.runs, objectives_of("ttft_p50_s=1")).holds


def test_estimates_are_the_rates_of_queues():
    """M/D/1 at its 90th percentile, one and two GPUs; a contest knows how many GPUs each takes."""
    objectives = objectives_of("ttft_p90_s=0.3")
    shapes = [(KIND, ONE), (KIND, TWO)]
    estimator = Estimator(replace(TRAFFIC, rate_per_s=100.0), Queues(objectives), Contest(2, {}))
    estimator.colocated(shapes)
    for key, service in zip(shapes, (0.1, 0.06)):
        exact = driven(Search(3000, 12000, 0.02).largest(5.0), measure_of(service, 1, objectives, 2)).rate_per_s
        assert estimator.rates.colocated[key] == pytest.approx(exact, rel=0.1)
        largest = max(load.rate_per_s for load in estimator.rates.loads[key] if load.holds)
        assert estimator.contest.most["colocated", key] == (KIND.gpu, math.ceil(100.0 / largest) * key[1].gpus)


def test_a_fleet_is_lost_only_behind_top_others_by_gpus_and_by_price():
    contest = Contest(2, {"A": 1.0, "B": 10.0}, {1: ("A", 8), 2: ("B", 4), 3: ("A", math.inf)})
    assert not contest.is_lost("A", 8) and not contest.is_lost("B", 8) and contest.is_lost("B", 9) and not contest.is_lost("A", 40)
    assert contest.is_lost("A", 41) and not Contest(3, {}, contest.most).is_lost("A", 1e9)


def test_the_decision_names_the_fewest_and_the_cheapest(tmp_path):
    objectives = objectives_of("ttft_p90_s=0.3")
    rates = Rates(colocated={(KIND, ONE): 8.0, (OTHER, TWO): 14.0}, at_most={(OTHER, ONE): 2.0})
    prices = {KIND.gpu: 3.0, OTHER.gpu: 1.0}
    sizes = replace(planned(objectives, rates, [Fleet(KIND, ONE, 3), Fleet(OTHER, TWO, 2)]), prices=prices)
    space = Space({(KIND, ONE): Memory(16, 1, 1, 70, 1000)}, {(OTHER, ONE): "has no memory"})
    decision = Decision(TRAFFIC, objectives, space, rates, sizes, prices, None, rates.fleets(25.0, 64))
    best = decision.best()
    assert {name: (fleet.kind, fleet.gpus) for name, fleet in best.items()} == {"fewest GPUs": (KIND, 3), "cheapest": (OTHER, 4)}
    sizes.find_largest()
    winner = decision.winner
    assert sizes.knees[winner] > 25.0 and "takes 2.25 times the price" in decision.reason()
    decision.changes = changes(sizes, winner, [Fleet(KIND, ONE, 3)])
    rows = {row[0]: row[1:] for row in decision.what_would_change()[1]}
    assert rows["one instance lost"][:1] + rows["one instance lost"][2:3] == ["breaks", "a spare instance: 3"]
    assert rows["prompts twice as long"][0] == "breaks" and rows["prompts twice as long"][3].endswith("x tp2 on L40S")
    html = page.text(decision)
    assert page.text(decision) == html and "2 x tp2 on L40S" in html and "has no memory" in html and "below 2" in html
    assert json.loads(json.dumps(decision.json()))["best"]["cheapest"] == "2 x tp2 on L40S"
    assert decision.csv_text().startswith("fleet,gpu,platform,")


def test_the_front_has_what_nothing_exceeds():
    dots = [Dot(x, y, None) for x, y in ((1, 9), (2, 9), (2, 5), (4, 4), (3, 6), (5, 1))]
    assert [(dot.x, dot.y) for dot in page.front_of(dots)] == [(2, 9), (3, 6), (4, 4), (5, 1)]


def test_what_would_change_it():
    fleet = Fleet(KIND, ONE, 3)
    assert lost(fleet).colocated == 2 and lost(Fleet(KIND, ONE, 0, 1, 2)).decode == 1 and lost(Fleet(KIND, ONE, 1)) is None
    assert LENGTHS.with_doubled_prompts() == Drawn(2000, LENGTHS.output) and LENGTHS.of_prompts() == Drawn(1000, 1)
    assert doubled({"lognormal": {"mean": 200, "cv_ratio": 0.7}}) == {"lognormal": {"mean": 400, "cv_ratio": 0.7}}


TRACES = {
    "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00.0000000,100,10\n2024-01-01 00:00:02.0000000,300,30\n",
    "vidur.csv": "arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,10\n2,300,30\n",
    "mooncake.jsonl": '{"timestamp": 0, "input_length": 100, "output_length": 10, "hash_ids": [7]}\n{"timestamp": 2000, "input_length": 300, "output_length": 30, "hash_ids": [7]}\n',
    "bailian.jsonl": '{"chat_id": 1, "timestamp": 0, "input_length": 100, "output_length": 10}\n{"chat_id": 2, "timestamp": 2, "input_length": 300, "output_length": 30}\n',
    "llmservingsim.jsonl": '{"arrival_time_ns": 0, "input_toks": 100, "output_toks": 10}\n{"arrival_time_ns": 2000000000, "input_toks": 300, "output_toks": 30}\n',
    "list.yaml": "- {arrival_s: 2, prompt_tokens: 300, output_tokens: 30}\n- {prompt_tokens: 100, output_tokens: 10}\n",
}


@pytest.mark.parametrize("name", TRACES)
def test_traces_of_all_formats_have_the_same_requests(tmp_path, name):
    """A load at 3 requests/s is six times as fast as the trace; changed traces keep the arrivals."""
    path = tmp_path / name
    path.write_text(TRACES[name], encoding="utf-8")
    found = trace_of(path, tmp_path)
    assert (found.rows, found.rate_per_s, found.prompt_mean, found.output_mean) == (2, 0.5, 200, 20)
    found.prepare()
    assert found.keys(3.0, 50) == {"format": found.form, "file": str(found.path), "max_count": 2, "rate_scale": 6.0}
    twice, prompts = (trace_of(changed.path, tmp_path) for changed in (found.with_doubled_prompts(), found.of_prompts()))
    assert (twice.prompt_mean, twice.output_mean, twice.arrivals_s) == (400, 20, found.arrivals_s)
    assert (prompts.prompt_mean, prompts.output_mean, prompts.form) == (200, 1, found.form)
    if name == "mooncake.jsonl":  # 200 and 600 tokens in blocks of 512
        rows = [json.loads(line)["hash_ids"] for line in twice.path.read_text(encoding="utf-8").splitlines()]
        assert rows == [[14], [14, 15]]


@pytest.mark.parametrize("name, text, line", [
    ("a.csv", "TIMESTAMP,Model\n2024-01-01 00:00:00,x\n", ":2:1: error: ContextTokens: is missing; a plan needs the lengths of all requests"),
    ("a.csv", "when,what\n1,2\n", ":1:1: error: no trace that is known; accepted: azure: TIMESTAMP, ContextTokens, GeneratedTokens; "),
    ("a.jsonl", '{"timestamp": 0, "input_length": 5}\n', ":1:1: error: output_length: is missing; a plan needs the lengths of all requests"),
    ("a.jsonl", '{"timestamp": 0, "input_length": 5, "output_length": 1}\n{"timestamp"\n', ":2:1: error: not JSON: "),
    ("a.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,x\n", ":2:1: error: num_decode_tokens: expected an integer from 1 to 16777216, got 'x'"),
    ("a.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\nnoon,1,1\n", ":2:1: error: arrived_at: 'noon' is no time of vidur"),
    ("a.yaml", "- {arrival_s: 1, prompt_tokens: 4}\n", ":1:3: error: output_tokens: is missing; a plan needs the lengths of all requests"),
    ("a.yaml", "- {prompt_tokens: 4, output_tokens: 1}\n- {prompt_tokens: 4, output_tokens: 1}\n", ": error: a plan needs requests that arrive at different times"),
    ("a.yaml", "- {prompt: 4}\n", ":1:4: error: a request: unknown key 'prompt' (did you mean 'prompt_tokens'?); accepted: arrival_s, "),
    ("a.csv", None, ": error: No such file or directory"),
])
def test_bad_traces_are_one_line(tmp_path, name, text, line):
    path = tmp_path / name
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        trace_of(path, tmp_path / "out")
    assert str(error.value).startswith(f"{path}{line}") and not (tmp_path / "out").exists()


GOOD = ["--model", str(ROOT / "tests" / "models" / "tiny.json"), "--gpus", "L40S", "--prompt", "400", "--output", "20", "--rate", "40", "--slo", "ttft_p99_s=1"]


@pytest.mark.parametrize("more, line", [
    (["--gpus", "H100"], "plan.py: error: --gpus H100: several GPUs: H100-PCIe-80GB, H100-SXM5-80GB"),
    (["--gpus", "L40SS"], "plan.py: error: --gpus L40SS: no such GPU (did you mean 'L40S'?); accepted: A100-PCIe-80GB, "),
    (["--gpus", "B20O"], "plan.py: error: --gpus B20O: no such GPU (did you mean 'B200'?); accepted: A100-PCIe-80GB, "),
    (["--gpus", "GH200"], "plan.py: error: --gpus GH200-96GB: no machine in "),
    (["--price", "H100=2"], "plan.py: error: --price H100: is none of --gpus; accepted: L40S"),
    (["--price", "L40S=2", "--budget", "1", "--tp", "1"], "plan.py: error: --budget 1: below one instance, which costs at least 2 an hour"),
    (["--budget", "1"], "plan.py serving: error: --budget needs --price"),
    (["--slo", "ttf_s=1"], "plan.py serving: error: argument --slo: 'ttf_s' is no metric of serving; nearest: ttft_s"),
    (["--prompt", "many"], "plan.py serving: error: argument --prompt: 'many' is neither a number of tokens nor a distribution"),
    (["--tp", "12"], "plan.py: error: no shape of an instance can run; no shape is within a server, or fills several"),
    (["--dp", "2"], "plan.py: error: no shape of an instance can run; with dp, ep is tp x dp"),
    (["--tp", "1", "--engine", "vllm-0.19,vllm-9"], "plan.py: error: --engine vllm-9: no shape can run; "),
    (["--tp", "1", "--router", "robin"], "plan.py: error: --router robin: "),
    (["--chunk", "many"], "plan.py serving: error: argument --chunk: 'many' is not a list of numbers, as default,8192"),
    (["--traffic", "x.csv"], "plan.py serving: error: --traffic already has the lengths; not accepted with --prompt or --output"),
    (["--model", str(ROOT / "scenarios" / "models" / "llama-3.1-405b.json"), "--tp", "1"], "plan.py: error: no shape of an instance can run; workload: a rank of stage 0 on L40S has no memory"),
])
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, more, line):
    done = call("plan", "serving", *GOOD, *more, "--bin", BIN, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and done.stderr.startswith(line), done.stderr
    assert not (tmp_path / "out").exists()


def test_a_plan_of_a_trace_gives_the_same_bytes_and_runs_nothing_twice(tmp_path):
    """The winner is the smallest fleet that keeps the objective in a run of the whole trace."""
    out = tmp_path / "out"
    command = [ROOT / "scripts" / "plan.py", "serving", "--model", ROOT / "tests" / "models" / "tiny.json", "--gpus", "H100-SXM5", "--tp", "1",
               "--traffic", ROOT / "scenarios" / "traces" / "synthetic_azure.csv", "--rate", "600", "--slo", "e2e_p95_s=0.2", "--top", "1", "--no-divided",
               "--no-what-if", "--json", "--bin", BIN, "--out", out]
    pages = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
        pages.append((done.stdout, (out / "decision.html").read_bytes(), (out / "plan.csv").read_bytes(), sorted(path.name for path in (out / "points").iterdir())))
    assert pages[0] == pages[1]
    found = json.loads(pages[0][0])
    holding = {fleet["gpus"]: fleet["holds"] for fleet in found["fleets"]}
    assert found["best"]["fewest GPUs"] == f"{min(n for n in holding if holding[n])} x tp1 on H100-SXM5-80GB"
    assert not holding.get(min(n for n in holding if holding[n]) - 1, False)
    folder = next(path for path in (out / "points").iterdir() if '"max_count": 200' in (path / "scenario.yaml").read_text(encoding="utf-8"))
    rows = (folder / "out" / "requests.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 201


def test_objectives_that_no_load_meets_are_one_line_with_the_best_value(tmp_path):
    command = [ROOT / "scripts" / "plan.py", "serving", *GOOD, "--slo", "ttft_p99_s=0.0001", "--tp", "1,2", "--bin", BIN, "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and re.fullmatch(r"plan.py: error: one instance keeps the objectives at no rate; nearest is tp[12] on L40S: "
                                                 r"no load meets ttft_p99_s <= 0.0001: the value is 0.00\d+ at \S+ requests/s, where requests hardly meet", line), line

"""Load curves: the largest rate against closed forms of queues, what is too short to be believed, what runs again, and bad input."""

import heapq
import json
import math
import random

import pytest

from queues import Queue, largest_rate

from lib.request_times import Requests  # noqa: E402
from loading.judgement import Load, Run, Verdict  # noqa: E402
from loading.objectives import ObjectiveError, objectives_of  # noqa: E402
from loading.search import NoKnee, Search, driven  # noqa: E402
from loading.student import quantile  # noqa: E402


@pytest.fixture(name="queue")
def fixture_queue(tmp_path):
    return Queue(tmp_path)


def measure_of(service_s, servers, objectives, seeds=3):
    """Loads of an M/D/c queue."""
    def run(rate, count, seed):
        drawn, free, now = random.Random(seed), [0.0] * servers, 0.0
        arrivals, waits = [], []
        for _ in range(count):
            now += drawn.expovariate(1.0) / rate
            begin = max(now, heapq.heappop(free))
            heapq.heappush(free, begin + service_s)
            arrivals.append(now)
            waits.append(begin - now)
        times = [wait + service_s for wait in waits]
        grows = rate * service_s >= servers
        summary = {"metrics": {"growth": {"is_certain": int(grows)}, "middle": {"request_rate_per_s": min(rate, servers / service_s)}}}
        return Run(seed, summary, Requests(arrivals, {"ttft": times, "tpot": [math.nan] * count, "ttft_admitted": times, "e2e": times}))

    return lambda loads: [Load(rate, count, [run(rate, count, seed) for seed in range(1, seeds + 1)], objectives) for rate, count in loads]


# -- closed forms

@pytest.mark.parametrize("servers, services, percent", [(1, 2, 90), (3, 1, 90), (1, 4, 99)])
def test_the_largest_rate_is_that_of_the_closed_form(servers, services, percent):
    objectives = objectives_of(f"ttft_p{percent}_s={0.1 * (services + 1)}")
    knee = driven(Search(400, 32_000, 0.02).largest(3.0 * servers), measure_of(0.1, servers, objectives))
    exact = largest_rate(0.1, servers, services, 1 - percent / 100)
    assert abs(knee.rate_per_s / exact - 1) < 0.02
    assert knee.interval_per_s[0] < exact < knee.interval_per_s[1]
    assert knee.broken == (f"ttft_p{percent}_s",)
    assert knee.low.holds and not knee.high.holds


def test_the_mean_of_a_queue_is_an_objective():
    """M/D/1: the mean wait is rate * service^2 / 2 / (1 - rate * service)."""
    objectives = objectives_of("ttft_s=0.2")  # a wait of 0.1: at 2/3 of the capacity
    knee = driven(Search(400, 32_000, 0.02).largest(3.0), measure_of(0.1, 1, objectives))
    assert abs(knee.rate_per_s / (2 / 3 / 0.1) - 1) < 0.02


def test_quantiles_of_student():
    for freedom, value in ((1, 12.7062), (2, 4.30265), (9, 2.26216), (29, 2.04523)):
        assert quantile(0.975, freedom) == pytest.approx(value, rel=1e-5)


# -- what is believed

def test_a_short_run_is_open_and_a_longer_one_is_not():
    """Just above capacity, the first hundreds of requests keep an objective that no steady state keeps."""
    objectives = objectives_of("ttft_p90_s=3")
    measure = measure_of(0.1, 1, objectives)
    short, = measure([(10.3, 250)])
    assert all(finding.excess < 0 for finding in short.findings) and short.verdict is Verdict.OPEN
    settled, = driven(Search(250, 16_000, 0.02).settle([10.3]), measure)
    assert settled.count > 250 and settled.verdict is Verdict.BROKEN and not settled.holds


def test_the_filling_of_a_service_is_not_believed():
    """All requests arrive within the time of a few services: ten times that time is needed."""
    objectives = objectives_of("ttft_p90_s=60")
    load, = measure_of(20.0, 100, objectives)([(4.0, 200)])
    assert load.filling_factor == pytest.approx(10 * 20.0 / load.runs[0].requests.span_s, rel=0.2)
    assert load.verdict is Verdict.OPEN


def test_no_rate_is_found_where_none_or_all_hold():
    objectives = objectives_of("ttft_p90_s=0.05")
    with pytest.raises(NoKnee, match=r"no load meets ttft_p90_s <= 0.05: the value is 0.1 at 0.\d+ requests/s"):
        driven(Search(200, 2000, 0.05).largest(5.0), measure_of(0.1, 1, objectives))
    with pytest.raises(NoKnee, match=r"the value is 0.1\d* at 1.25 requests/s, the smallest rate of runs with 20000 requests"):
        driven(Search(20000, 20000, 0.05).largest(5.0), measure_of(0.1, 1, objectives, 1))  # slower, a run would be too long
    wide = objectives_of("ttft_p90_s=0.3")
    with pytest.raises(NoKnee, match="holds at 4 requests/s, the largest rate: the knee is above it"):
        driven(Search(200, 8000, 0.05).largest(3.0, 2.0, 4.0), measure_of(0.1, 1, wide))
    with pytest.raises(NoKnee, match="at 8 requests/s, the smallest rate: the knee is below it"):
        driven(Search(200, 8000, 0.05).largest(3.0, 8.0, 12.0), measure_of(0.1, 1, wide))


# -- objectives

@pytest.mark.parametrize("text, labels", [
    ("ttft_p99_s=1", ["TTFT p99"]), ("tpot_s=0.03,e2e_p99.9_s=4", ["TPOT mean", "E2E p99.9"]), ("ttft_queue_blocks_p95_s=1", ["TTFT, queue blocks p95"]),
    ("itl_p99_s=0.1", ["itl_p99_s"]), ("slo_attainment_ratio>=0.9", ["slo_attainment_ratio"]), ("ttft_parts_s.kv<=0.1", ["ttft_parts_s.kv"]),
])
def test_any_metric_and_percentile_is_an_objective(text, labels):
    assert [objective.label for objective in objectives_of(text)] == labels


@pytest.mark.parametrize("text, message", [
    ("ttft_p99_s", "'ttft_p99_s' is not METRIC=LIMIT, as ttft_p99_s=1"),
    ("ttft_p99_s=-1", "'ttft_p99_s=-1': the limit is no number above 0"),
    ("ttf_p99_s=1", "'ttf_p99_s' is no metric of serving; nearest: ttft_p99_s"),
    ("ttft_queue_block_p99_s=1", "'ttft_queue_block_p99_s' is no metric of serving"),
    ("ttft_p100_s=1", "ttft_p100_s: a percentile is above 0 and below 100"),
    ("goodput_per_s=3", "'goodput_per_s=3': at most or at least? accepted: goodput_per_s<=3, goodput_per_s>=3"),
    ("ttft_s>=1", "'ttft_s>=1': a time is at most its limit; accepted: ttft_s=1"),
    ("ttft_s=1,ttft_s=2", "ttft_s is given twice"),
])
def test_what_is_no_objective_is_refused(text, message):
    with pytest.raises(ObjectiveError) as error:
        objectives_of(text)
    assert str(error.value).startswith(message)


# -- the command

FAST = ("--seeds", 2, "--most-requests", 800, "--precision", 0.1, "--workers", 2)


def test_the_same_command_gives_the_same_bytes_and_runs_nothing_again(queue):
    command = ("--slo", "ttft_p90_s=0.3", "--find-max", "--price", "H100-SXM5-80GB=2.5", "--seeds", 1, "--most-requests", 400, "--precision", 0.3, "--workers", 2)
    first = queue.run(*command, "--json")
    assert first.returncode == 0, first.stderr
    runs, names = queue.runs(), ("load.html", "load.json", "load.csv")
    before = {name: (queue.path / "out" / name).read_bytes() for name in names}
    again = queue.run(*command, "--json")
    assert (again.returncode, again.stdout, queue.runs()) == (0, first.stdout, runs)
    other = queue.run(*command, "--json", out="other")
    assert other.stdout == first.stdout
    for folder in ("out", "other"):
        assert {name: (queue.path / folder / name).read_bytes() for name in names} == before
    found = json.loads(first.stdout)
    assert found["holds_at_per_s"] <= found["max_rate_per_s"] <= found["broken_at_per_s"]
    assert "ITL" not in next(iter((queue.path / "out" / "points").glob("*/out/requests.csv"))).read_text()


def test_the_cost_of_tokens_by_hand(queue):
    """Two GPUs of 3.6 an hour cost 0.002 a second; 4 requests a second have 400 tokens of prompts and 8 of answers."""
    done = queue.run("--rates", 4, "--price", "H100-SXM5-80GB=3.6", "--no-page", "--json", *FAST)
    assert done.returncode == 0, done.stderr
    spent = json.loads(done.stdout)["loads"][0]["cost"]
    assert spent == pytest.approx({"per_hour": 7.2, "per_request": 0.0005, "per_million_input": 5.0, "per_million_output": 250.0})


def test_rates_make_a_table_with_the_side_of_the_knee(queue):
    done = queue.run("--slo", "ttft_p90_s=0.3", "--rates", "2,3,12", "--no-page", *FAST)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "ttft_p90_s <= 0.3: the knee is between 3 and 12 requests/s."
    assert [line.split()[0] for line in lines[3:]] == ["2", "3", "12"] and "holds" in lines[3] and "broken" in lines[5]
    above = queue.run("--slo", "ttft_p90_s=0.3", "--rates", "2,3", "--no-page", *FAST)
    assert above.stdout.startswith("Every load keeps ttft_p90_s <= 0.3: the knee is above 3 requests/s.")


@pytest.mark.parametrize("arguments, line", [
    (["--rates", "2"], None),
    (["--slo", "ttft_p99_s=1"], "load.py: error: --rates or --find-max is needed"),
    (["--find-max"], "load.py: error: --find-max needs --slo"),
    (["--rates", "2,x"], "load.py: error: argument --rates: '2,x' is not a list of rates, as 2,4,8 (requests per second)"),
    (["--find-max", "--slo", "ttft_p9_s=1,tpott_s=1"], "load.py: error: argument --slo: 'tpott_s' is no metric of serving; nearest: tpot_s"),
    (["--rates", "2", "--price", "H100=1"], "load.py: error: --price H100: the machine has no such GPU; accepted: H100-SXM5-80GB"),
    (["--rates", "2", "--set", "workload.requests.arrivals=at_once"], "scenario.yaml:10:5: error: workload.requests: expected generated requests, with "),
])
def test_bad_input_is_one_line(queue, arguments, line):
    done = queue.run(*arguments, "--no-page", *FAST)
    if line is None:
        assert done.returncode == 0
        return
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines)) == (2, 1) and line in lines[0], done.stderr

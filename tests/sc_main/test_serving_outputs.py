"""What a run of a serving engine leaves, from outside: requests, iterations, log, timeline, waveform."""

import decimal
import json
import re

import pytest

from platform_runs import ROOT, refuse, rows, run, succeed, summary, tiny
from serving_runs import SHAPES, serving
from test_kinds import documented
from timelines import Timeline, ns

LOG_S = 0.004
OPTIONS = ["--iterations", "--log-interval", LOG_S, "--timeline", "--vcd", "--vcd-level", "summary"]
MEANS = 1e-9  # to which sums of rounded doubles agree


class Run:
    def __init__(self, folder, **settings):
        path = tiny(folder, serving(**settings))
        self.folder = folder / "out"
        self.stderr = succeed("plx_box", path, "--out", self.folder, "--quiet", *OPTIONS).stderr
        self.metrics = summary(self.folder)["metrics"]
        self.requests = rows(self.folder / "requests.csv")
        self.iterations = rows(self.folder / "iterations.csv")
        succeed("plx_box", path, "--out", folder / "plain", "--quiet")
        self.plain = folder / "plain"


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def served(request, tmp_path_factory):
    return Run(tmp_path_factory.mktemp("served"), **request.param)


def test_results_are_the_same_with_and_without(served):
    for name in ["requests.csv", "jobs.csv", "links.csv"]:
        assert (served.folder / name).read_bytes() == (served.plain / name).read_bytes()
    assert summary(served.plain)["metrics"] == served.metrics
    assert not (served.plain / "iterations.csv").exists()


def test_parts_of_ttft_add_up(served):
    named = [name for name in served.requests[0] if re.fullmatch(r"ttft_\w+_ns", name)]
    parts = served.metrics["ttft_parts_s"]
    assert named == [f"ttft_{part}_ns" for part in parts]
    assert set(parts) < documented("Serving")
    for row in served.requests:
        assert sum(int(row[name]) for name in named) == int(row["TTFT"])
    assert sum(parts.values()) == pytest.approx(served.metrics["ttft_s"], rel=MEANS)
    for part, name in zip(parts, named, strict=True):
        mean_ns = sum(int(row[name]) for row in served.requests) / len(served.requests)
        assert parts[part] * 1e9 == pytest.approx(mean_ns, abs=1)


def test_iterations_are_the_batches(served):
    steps = served.iterations
    assert set(steps[0]) < documented("Serving")
    assert [int(row["iteration"]) for row in steps] == list(range(len(steps)))
    assert len(steps) == served.metrics["iterations"]["count"]
    tokens = sum(int(row["tokens"]) for row in steps)
    assert tokens / len(steps) == pytest.approx(served.metrics["iterations"]["mean_tokens"], rel=MEANS)
    # All tokens of prompts and answers but each answer's last one, and once more what was preempted.
    wanted = sum(int(r["input"]) - int(r["cached_tokens"]) + int(r["output"]) - 1 for r in served.requests)
    again = sum(int(r["recomputed_tokens"]) for r in served.requests)
    assert wanted <= tokens <= wanted + again
    assert max(int(row["blocks"]) for row in steps) == served.metrics["kv_blocks"]["peak"]
    jobs = {row["name"]: row for row in rows(served.folder / "jobs.csv")}
    for row in steps:
        assert int(row["prompts"]) + int(row["decodes"]) <= int(row["running"]) <= 16
        # A request in a batch has a block at least.
        assert int(row["blocks"]) >= int(row["prompts"]) + int(row["decodes"])
        assert row["start_s"] == jobs[f"It[{row['iteration']}]_PP[0]_TP[0]"]["start_s"]
        assert decimal.Decimal(row["start_s"]) < decimal.Decimal(row["end_s"])
    assert {int(row["waiting"]) for row in steps} > {0}


def test_log_lines_count_what_happened_until_then(served):
    line = re.compile(
        r"\[([\d.]+)s\] Avg prompt throughput: ([\d.]+) tokens/s, Avg generation throughput: ([\d.]+) tokens/s\n"
        r"└─Running Instance\[0\]: (\d+) reqs, Waiting: (\d+) reqs, Total # (\d+) NPUs, Each NPU Memory Usage ([\d.]+) MB "
        r"\(([\d.]+) % Used\), Prefix Cache Hit ratio ([\d.]+) %, \((\d+) / (\d+)\)\n")
    lines = line.findall(served.stderr)
    assert len(lines) == int(served.metrics["end_s"] / LOG_S) > 5
    assert line.sub("", served.stderr) == ""
    ended = [(float(row["end_s"]), row) for row in served.iterations]
    for number, (at, prompts, answers, running, waiting, *_, hits, found, prompted) in enumerate(lines):
        assert float(at) == pytest.approx((number + 1) * LOG_S)
        within = [row for end, row in ended if float(at) - LOG_S < end <= float(at)]
        tokens = sum(int(row["tokens"]) for row in within)
        decodes = sum(int(row["decodes"]) for row in within)
        assert float(prompts) * LOG_S == pytest.approx(tokens - decodes, abs=0.001 + 0.05 * LOG_S)
        assert decodes - 0.001 <= float(answers) * LOG_S <= decodes + sum(int(row["prompts"]) for row in within) + 0.001
        arrived = sum(int(r["arrival"]) * 1e-9 <= float(at) for r in served.requests)
        done = sum(int(r["end_time"]) * 1e-9 <= float(at) for r in served.requests)
        in_the_host = 2 if "request_us" in (served.folder / "scenario.yaml").read_text() else 0
        assert 0 <= arrived - done - int(running) - int(waiting) <= in_the_host + int(running) + 1
        assert float(hits) == pytest.approx(100 * int(found) / max(1, int(prompted)), abs=0.006)


def signals(path, names):
    """{name: [(instant in fs, value)]} of wires of a VCD."""
    codes, scopes, changes, now = {}, [], {name: [] for name in names}, 0
    for text in path.read_text().splitlines():
        if text.startswith("$scope"):
            scopes.append(text.split()[2])
        elif text.startswith("$upscope"):
            scopes.pop()
        elif text.startswith("$var"):
            code, name = text.split()[3:5]
            codes[code] = ".".join(scopes[1:] + [name])
        elif text.startswith("#"):
            now = int(text[1:])
        elif text.startswith("b") and codes[text.split()[1]] in changes:
            value, code = text[1:].split()
            changes[codes[code]].append((now, int(value, 2)))
    return changes


def at(changes, instant):
    return [value for when, value in changes if when <= instant][-1]


def test_waveform_and_timeline_show_queues_and_blocks(served):
    names = {"running": "requests running", "waiting": "requests waiting", "kv_blocks": "KV blocks held"}
    wires = signals(served.folder / "trace.vcd", [f"engine.a.{wire}" for wire in names])
    timeline = Timeline(served.folder)
    for wire, counter in names.items():
        changes, drawn = wires[f"engine.a.{wire}"], timeline.counters["engine", counter]
        assert changes[-1][1] == drawn[-1][1] == 0
        assert max(value for _, value in changes) == max(value for _, value in drawn) > 0
        instants = sorted({when // 10**6 for when, _ in changes[1:]})
        assert all(at(changes, (instant + 1) * 10**6 - 1) == at(drawn, instant) for instant in instants)
    peak = max(value for _, value in wires["engine.a.kv_blocks"])
    assert peak >= served.metrics["kv_blocks"]["peak"]
    assert "railyard.engine.a.running" in (served.folder / "trace.gtkw").read_text()


def test_timeline_shows_each_iteration_on_each_rank(served):
    timeline = Timeline(served.folder)
    drawn = {s["name"]: s for (process, _), track in timeline.slices.items() if process == "jobs" for s in track}
    table = [row for row in rows(served.folder / "jobs.csv") if re.fullmatch(r"It\[\d+\]_PP\[\d+\]_TP\[\d+\]", row["name"])]
    assert len(table) % len(served.iterations) == 0
    for row in table:
        assert (drawn[row["name"]]["begin_ns"], drawn[row["name"]]["end_ns"]) == (ns(row["start_s"]), ns(row["end_s"]))


@pytest.mark.parametrize("options, said", [
    (["--iterations", "--out", "out"], "--iterations: error: workload.kind disaggregated_prefill has no serving engine; accepted: serving"),
    (["--log-interval", "1"], "--log-interval: error: workload.kind disaggregated_prefill has no serving engine; accepted: serving"),
    (["--iterations"], "--iterations: needs --out DIR"),
    (["--log-interval", "0"], "--log-interval: accepted: 1e-06 to 18000 seconds"),
    (["--log-interval", "nan"], "--log-interval: accepted: 1e-06 to 18000 seconds"),
])
def test_options_of_a_serving_engine_are_refused(tmp_path, options, said):
    done = run("plx_box", tiny(tmp_path), *options, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options, reason", [
    (["--jobs", "stage"], None),
    (["--jobs", "stage", "--set", "fabric.compose=false"], "fabric.compose is off"),
    (["--jobs", "all"], "jobs.csv has rows of all jobs"),
    (["--jobs", "stage", "--why"], "causes are followed"),
    (["--jobs", "stage", "--vcd", "--vcd-level", "links"], "links, GPUs or streams are followed"),
    (["--jobs", "none", "--timeline"], "jobs.csv has rows of all jobs"),
], ids=str)
def test_passes_are_composed_unless_their_jobs_are_followed(tmp_path, options, reason):
    path = tiny(tmp_path, serving(tp=2, pp=2))
    plain = succeed("dgx_h100", path, "--out", tmp_path / "plain", "--iterations", "--jobs", "stage")
    run = succeed("dgx_h100", path, "--out", tmp_path / "out", "--iterations", *options)
    results = [summary(tmp_path / folder) for folder in ("plain", "out")]
    simulators = [result.pop("simulator") for result in results]
    assert results[0] == results[1]
    for file in ("requests.csv", "links.csv", "iterations.csv") + (("jobs.csv",) if "stage" in options else ()):
        assert (tmp_path / "plain" / file).read_bytes() == (tmp_path / "out" / file).read_bytes(), file
    passes = 2 * len(rows(tmp_path / "out" / "iterations.csv"))
    composed = simulators[0]["passes"]["composed"]
    assert 0.95 * passes < composed == passes - sum(other["passes"] for other in simulators[0]["passes"]["not_composed"])
    assert simulators[0]["composed_jobs"] > 0.25 * (simulators[0]["composed_jobs"] + simulators[0]["jobs"])
    assert f"composed {composed} of {passes} passes on a stage" in plain.stdout
    if reason is not None:
        assert simulators[1]["passes"] == {"composed": 0, "not_composed": [{"reason": reason, "passes": passes}]}
        assert simulators[1]["composed_jobs"] == 0
        assert f"composed 0 of {passes} passes on a stage; {passes} not: {reason}\n" in run.stdout


@pytest.mark.parametrize("count, has_layers", [(65, True), (70, False)])
def test_jobs_of_layers_have_rows_if_they_cannot_be_many(tmp_path, count, has_layers):
    # At most 250 passes a request, with two all-reduces in each of 6 layers: 200 000 rows are those of 66 requests.
    requests = f"{{count: {count}, arrivals: poisson, rate_per_s: 1000, prompt_tokens: 20, output_tokens: 2}}"
    text = serving(tp=2)
    succeed("dgx_h100", tiny(tmp_path, text[: text.index("  requests:")] + f"  requests: {requests}\n"), "--out", tmp_path / "out", "--quiet")
    assert any("_Layer[" in row["name"] for row in rows(tmp_path / "out" / "jobs.csv")) == has_layers
    assert (summary(tmp_path / "out")["simulator"]["passes"]["composed"] == 0) == has_layers


def test_five_alike_instances_are_one_table(tmp_path):
    text = serving().replace("instances: [{name: a, tp: 1, pp: 1}]", "instances: [{name: a, count: 5}, {name: b, count: 3}]\n  router: round_robin")
    requests = "{count: 24, arrivals: poisson, rate_per_s: 200, prompt_tokens: {uniform: {min: 20, max: 200}}, output_tokens: 5}"
    done = succeed("plx_box", tiny(tmp_path, text[: text.index("  requests:")] + f"  requests: {requests}\n"), "--out", tmp_path / "out")
    peaks = {name: figures["kv_blocks"]["peak"] for name, figures in summary(tmp_path / "out")["metrics"]["instances"].items() if name[0] == "a"}
    least, greatest = min(peaks, key=peaks.get), max(peaks, key=peaks.get)
    mean = sum(peaks.values()) / 5
    assert "\n  a0 to a4: 5 instances, each tp 1, pp 1, " in done.stdout and "\n  a1: " not in done.stdout
    assert re.search(rf"peak of KV blocks +{peaks[least]} \({least}\) to {peaks[greatest]} \({greatest}\), mean {mean:.0f}, of \d+\n", done.stdout)
    assert all(f"\n  b{i}: tp 1, pp 1, " in done.stdout for i in range(3))


def test_a_load_may_begin_while_a_batch_is_in_flight_whose_requests_have_their_answers(tmp_path):
    # vLLM composes the next batch before it knows which drafts are right. If all answers are complete then, a request that comes is
    # composed, and its KV loaded, while that batch is in flight.
    path = tiny(tmp_path, f"""\
model: {{config: {ROOT}/tests/models/tiny.json}}
machine: {{groups: {{gpus: {{servers: 1}}}}}}
workload:
  kind: serving
  engine: vllm-0.19
  instances: [{{name: a, tp: 2}}]
  requests: {{count: 40, arrivals: closed_loop, concurrency: 2, prompt_tokens: 400, output_tokens: 8,
    prefix: {{groups: 2, users_per_group: 1, shared_tokens: 160}}}}
  kv_tiers: {{host: {{bytes_per_server: 1e9}}}}
  speculation: {{method: eagle, tokens: 1, acceptance: 0.6}}
""")
    for composed in ("true", "false"):
        succeed("dgx_h100", path, "--out", tmp_path / composed, "--jobs", "none", "--set", f"fabric.compose={composed}")
    assert summary(tmp_path / "true")["simulator"]["passes"]["composed"] > 0
    assert (tmp_path / "true/requests.csv").read_bytes() == (tmp_path / "false/requests.csv").read_bytes()


def test_what_is_no_boolean_does_not_switch_composition(tmp_path):
    assert "fabric.compose" in refuse("dgx_h100", tiny(tmp_path, serving(tp=2)), "--set", "fabric.compose=often")


def test_instances_have_figures_of_their_own(tmp_path):
    text = serving().replace("instances: [{name: a, tp: 1, pp: 1}]", "instances: [{name: east, gpus: [3]}, {name: west}]")
    items = [f"{{arrival_s: {i * 1e-3}, prompt_tokens: {50 + 30 * i}, output_tokens: {2 + i}, instance: {'west' if i % 3 else 'east'}}}" for i in range(9)]
    path = tiny(tmp_path, text[: text.index("  requests:")] + f"  router: fixed\n  requests: {{list: [{', '.join(items)}]}}\n")
    succeed("plx_box", path, "--out", tmp_path / "out", "--quiet", "--iterations")
    result = summary(tmp_path / "out")
    requests = rows(tmp_path / "out" / "requests.csv")
    batches = rows(tmp_path / "out" / "iterations.csv")
    figures = result["metrics"]["instances"]
    assert [instance["name"] for instance in result["setup"]["instances"]] == list(figures) == ["east", "west"]
    for place, name in enumerate(figures):
        own = [row for row in requests if row["instance id"] == str(place)]
        assert figures[name]["requests"] == len(own) == (3, 6)[place]
        assert figures[name]["ttft_s"] == pytest.approx(sum(float(row["TTFT"]) for row in own) / len(own) * 1e-9, abs=1e-9)
        assert figures[name]["iterations"]["count"] == sum(row["instance"] == str(place) for row in batches)
        assert sum(figures[name]["stage_bubble_s"]["stage0"].values()) > 0
    assert "kv_blocks" not in result["metrics"]  # of which one?
    names = {row["name"] for row in rows(tmp_path / "out" / "jobs.csv")}
    assert {"It[0]_PP[0]_TP[0]_Inst[east]", "It[0]_PP[0]_TP[0]_Inst[west]"} <= names
    links = [row["name"] for row in rows(tmp_path / "out" / "links.csv") if row["direction"] == "tx"]
    assert len(links) == len(set(links)) and "GPU_G[east][0][0]_PCI" in links


def test_explain_shows_parameters_memory_flop_and_kernel_times(tmp_path):
    text = run("plx_box", tiny(tmp_path, serving(tp=2, pp=2)), "--explain").stdout
    total, decoder = map(int, re.search(r"^(\d+) parameters, (\d+) in decoder layers", text, re.MULTILINE).groups())
    flop = float(re.search(r"prompts that fill a batch, (\S+) FLOP", text)[1])
    assert total > decoder and 2 * decoder * 384 < flop < 3 * decoder * 384  # products, and attention
    prompt, decode = re.findall(r"pass of (\d+) tokens: attention (\S+) us, MLP (\S+) us", text)
    assert (prompt[0], decode[0]) == ("384", "1")
    assert all(float(of_prompt) > float(of_decode) > 0 for of_prompt, of_decode in zip(prompt[1:], decode[1:]))
    assert re.search(r"stage 1, \d+ layers: - \S+ GB weights", text)


SESSIONS = """\
model: {{config: {root}/tests/models/tiny.json}}
machine: {{groups: {{gpus: {{servers: 1}}}}}}
workload:
  kind: serving
  host: none
  requests: {{format: mooncake, file: {file}}}
  instances: [{{name: a}}]
"""


def trace(folder, *lines):
    (folder / "trace.jsonl").write_text("".join(json.dumps({"input_length": 40, "output_length": 3, **line}) + "\n" for line in lines))
    return tiny(folder, SESSIONS.format(root=ROOT, file=folder / "trace.jsonl"))


def test_a_session_of_a_trace_from_outside(tmp_path):
    path = trace(tmp_path, {"timestamp": 10, "session_id": "a"}, {"timestamp": 10}, {"session_id": "a", "delay": 2.5, "input_length": 60})
    printed = succeed("plx_box", path, "--out", tmp_path / "out").stdout
    first, alone, second = (row for _, row in sorted((int(row["request id"]), row) for row in rows(tmp_path / "out" / "requests.csv")))
    assert [row["session"] for row in (first, alone, second)] == ["1", "0", "1"]
    assert int(second["arrival"]) - int(first["end_time"]) == 2_500_000
    assert second["cached_tokens"] == "32"  # full blocks of the first prompt and its answer: 43 tokens, 42 with KV
    metrics = summary(tmp_path / "out")["metrics"]["sessions"]
    assert metrics["count"] == 1
    assert metrics["duration_s"] * 1e9 == pytest.approx(int(second["end_time"]) - int(first["arrival"]), abs=1)
    assert "    sessions                       1, each " in printed


def test_a_circle_of_requests_is_refused(tmp_path):
    path = trace(tmp_path, {"request_id": 1, "wait_for": [2]}, {"request_id": 2, "wait_for": [1]})
    assert "trace.jsonl:1:1: error: wait_for: the line waits for itself, by way of line 2" in refuse("plx_box", path)


def replicas(tmp_path, requests, more):
    """Four attention replicas of a model with eight experts."""
    path = tmp_path / "s.yaml"
    path.write_text(f"""\
model: {{config: {ROOT}/tests/models/tiny_experts.json}}
machine: {{groups: {{gpus: {{servers: 1, gpu: L40S}}}}}}
workload:
  kind: serving
  requests: {requests}
  instances: [{{name: a, dp: 4, ep: 4}}]
  {more}
""")
    return path


EXCHANGED = {  # bytes of a layer over all four replicas, where one of them has a prompt of 1024 tokens of 1024 numbers, two experts of eight
    "allgather_reducescatter": 3 * 1024 * (2 * 1024 + 8) * 2,
    "all_to_all": 3 * 1024 * 2 * 2 * 1024 * 2,
    "deepep_low_latency": 3 * 1024 * 2 * (16 + 2 * 1024 * 2),
}


@pytest.mark.parametrize("exchange", EXCHANGED)
def test_replicas_exchange_the_tokens_of_each_layer_with_experts(tmp_path, exchange):
    path = replicas(tmp_path, "{count: 8, prompt_tokens: 1024, output_tokens: 1}", f"experts: {{exchange: {exchange}}}")
    succeed("plx_box", path, "--out", tmp_path / "out", "--quiet", "--jobs", "none", "--iterations")
    result = summary(tmp_path / "out")
    traffic = {row["class"]: row["bytes"] for row in result["traffic"]}
    assert result["simulator"]["passes"]["composed"] > 0
    batches = rows(tmp_path / "out" / "iterations.csv")
    assert [row["prompts"] for row in batches] == ["1"] * 8  # the API server takes one by one
    assert traffic["ep"] == 8 * 2 * EXCHANGED[exchange] and traffic["tp"] == 0
    succeed("plx_box", path, "--out", tmp_path / "simulated", "--quiet", "--jobs", "none", "--set", "fabric.compose=false")
    assert (tmp_path / "simulated" / "requests.csv").read_bytes() == (tmp_path / "out" / "requests.csv").read_bytes()


def test_experts_are_placed_by_their_traced_loads(tmp_path):
    (tmp_path / "traced.csv").write_text("# layer, tokens of each expert\n1,4,4,2,2,2,2,0,0\n0,2,2,1,1,1,1,0,0\n")
    ends, peaks = [], []
    for more, fullest in (("", 2), (", redundant: 0", 1), (", redundant: 4", 7 / 6)):  # thirds of the first two experts
        path = replicas(tmp_path, "{count: 8, prompt_tokens: 2048, output_tokens: 1}", f"experts: {{routing: traced.csv{more}}}\n  kv_blocks: 200")
        succeed("plx_box", path, "--out", tmp_path / "out", "--quiet", "--jobs", "none")
        result = summary(tmp_path / "out")
        assert result["setup"]["instances"][0]["fullest_expert_rank"] == pytest.approx(fullest, rel=1e-5)
        ends.append(result["metrics"]["end_s"])
        peaks.append(result["memory"]["a"][0]["peak_bytes"])
    assert ends[1] < ends[0]  # no rank has four eighths of the copies
    assert peaks[1] == peaks[0] and peaks[2] - peaks[1] == 2 * 3 * 1024 * 2048 * 2  # one of four more experts, of two layers


@pytest.mark.parametrize("method", ["ngram", "mtp", "eagle"])
def test_replicas_verify_drafts_of_their_own_requests(tmp_path, method):
    path = replicas(tmp_path, "{count: 12, prompt_tokens: 100, output_tokens: 40}",
                    f"speculation: {{method: {method}, tokens: 2, acceptance: 0.6}}")
    for compose in ("true", "false"):
        succeed("plx_box", path, "--out", tmp_path / compose, "--quiet", "--jobs", "none", "--set", f"fabric.compose={compose}")
    requests = rows(tmp_path / "true" / "requests.csv")
    assert len(requests) == 12 and (tmp_path / "false" / "requests.csv").read_bytes() == (tmp_path / "true" / "requests.csv").read_bytes()
    figures = summary(tmp_path / "true")["metrics"]["speculation"]
    assert 0 < figures["accepted_tokens"] < figures["drafted_tokens"]
    assert figures["tokens_per_step"] == pytest.approx(1 + 0.6 + 0.36, rel=0.1)

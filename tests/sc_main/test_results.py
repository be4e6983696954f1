"""What a run leaves: names, counts, order and sums, from outside."""

import ast
import collections
import filecmp
import itertools
import json
import os
import re

import pytest

from platform_runs import ROOT, TINY, rows, succeed, summary, tiny

LAYERS, HIDDEN, KV_BYTES_PER_TOKEN = 6, 1024, 2 * 6 * 4 * 128 * 2  # of tests/models/tiny.json
TP = PP = 2
PROMPT, CHUNKS, STEPS, REQUESTS = 700, 3, 3, 3

JOB_NAMES = {
    r"P_Rank_PP\[(\d+)\]_TP\[(\d+)\]_Chunk\[(\d+)\](_Req\[\d+\])?": "compute",
    r"TP_AR_PP\[(\d+)\]_Layer\[(\d+)\]_Chunk\[(\d+)\]_(Attn|Mlp)(_Req\[\d+\])?": "tp",
    r"TP_AG_PP\[(\d+)\]_Chunk\[(\d+)\](_Req\[\d+\])?": "tp",
    r"PP_Act_FromP\[(\d+)\]_ToP\[(\d+)\]_TP\[(\d+)\]_Chunk\[(\d+)\](_Req\[\d+\])?": "pp",
    r"Handoff_PP\[(\d+)\]_TP\[(\d+)\]_Chunk\[(\d+)\](_Layer\[\d+\])?(_Req\[\d+\])?": "kv",
    r"D_Rank_\[(\d+)\]_Step_\[(\d+)\]": "compute",
    r"D_TP_AR_PP\[(\d+)\]_Layer\[(\d+)\]_Step_\[(\d+)\]_(Attn|Mlp)": "tp",
    r"D_TP_AG_PP\[(\d+)\]_Step_\[(\d+)\]": "tp",
    r"D_PP_Act_FromP\[(\d+)\]_ToP\[(\d+)\]_TP\[(\d+)\]_Step_\[(\d+)\]": "pp",
    r"D_Token_FromP\[(\d+)\]_ToP\[0\]_TP\[(\d+)\]_Step_\[(\d+)\]": "pp",
}
LLMSERVINGSIM = ["instance id", "request id", "model", "input", "output", "arrival", "end_time", "latency", "queuing_delay",
                 "TTFT", "TPOT", "ITL"]


class Run:
    def __init__(self, folder):
        self.folder = folder
        self.summary = summary(folder)
        self.jobs = rows(folder / "jobs.csv")
        for job in self.jobs:
            for key in ["start_s", "end_s", "queued_s"]:
                job[key] = float(job[key])
        self.by_name = {job["name"]: job for job in self.jobs}
        self.links = rows(folder / "links.csv")
        self.requests = rows(folder / "requests.csv")

    def jobs_like(self, pattern):
        return [job for job in self.jobs if re.fullmatch(pattern, job["name"])]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("scenario"), TINY.replace("count: 1", f"count: {REQUESTS}"))


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    succeed("plx_box", tiny(folder), "--out", folder / "out", "--quiet")
    return Run(folder / "out")


@pytest.fixture(scope="module")
def several(tmp_path_factory, scenario):
    folder = tmp_path_factory.mktemp("several")
    succeed("plx_box", scenario, "--out", folder / "out", "--quiet")
    return Run(folder / "out")


# -- jobs.csv

def test_every_job_has_a_name_of_the_pattern(one, several):
    for result in [one, several]:
        # The run ends with its last job.
        assert max(job["end_s"] for job in result.jobs) == pytest.approx(result.summary["metrics"]["end_s"], rel=1e-12)
        for job in result.jobs:
            kinds = [kind for pattern, kind in JOB_NAMES.items() if re.fullmatch(pattern, job["name"])]
            assert kinds == [job["kind"]], job
            assert 0 <= job["start_s"] <= job["end_s"] <= result.summary["metrics"]["end_s"] + 1e-15
            assert job["queued_s"] >= 0
        assert len(result.by_name) == len(result.jobs)  # no name twice
    assert not any("_Req" in job["name"] for job in one.jobs)
    named = [job for job in several.jobs if not job["name"].startswith("D_")]
    assert all(re.search(r"_Req\[[0-2]\]$", job["name"]) for job in named)


def test_counts(one, several):
    for result, requests in [(one, 1), (several, REQUESTS)]:
        chunks = CHUNKS * requests
        assert len(result.jobs_like(r"P_Rank_.*")) == chunks * TP * PP
        assert len(result.jobs_like(r"TP_AR_.*")) == 2 * LAYERS * chunks
        assert len(result.jobs_like(r"TP_AG_.*")) == (PP - 1) * chunks
        assert len(result.jobs_like(r"PP_Act_.*")) == (PP - 1) * TP * chunks
        assert len(result.jobs_like(r"Handoff_.*")) == PP * TP * chunks
        steps = result.summary["metrics"]["iterations"]["count"]
        assert len(result.jobs_like(r"D_Rank_.*")) == TP * PP * steps
        assert len(result.jobs_like(r"D_TP_AR_.*")) == 2 * LAYERS * steps
        assert len(result.jobs_like(r"D_Token_.*")) == TP * steps
    assert one.summary["metrics"]["iterations"]["count"] == STEPS
    layers = {int(re.search(r"Layer\[(\d+)\]", job["name"]).group(1)) for job in one.jobs_like(r"TP_AR_PP\[1\].*")}
    assert layers == {3, 4, 5}  # numbered over the whole model


def test_no_all_reduce_before_its_kernels_and_no_stage_before_its_activations(one):
    for chunk in range(CHUNKS):
        for stage in range(PP):
            ranks = [one.by_name[f"P_Rank_PP[{stage}]_TP[{t}]_Chunk[{chunk}]"] for t in range(TP)]
            before = min(rank["start_s"] for rank in ranks)
            for layer, half in itertools.product(range(3 * stage, 3 * stage + 3), ["Attn", "Mlp"]):
                reduce = one.by_name[f"TP_AR_PP[{stage}]_Layer[{layer}]_Chunk[{chunk}]_{half}"]
                assert reduce["start_s"] > before  # kernels lie between
                assert reduce["end_s"] > reduce["start_s"] + reduce["queued_s"]
                assert int(reduce["bytes"]) == min(256, PROMPT - 256 * chunk) * HIDDEN * 2
                before = reduce["start_s"] + reduce["queued_s"]
            for t, rank in enumerate(ranks):
                handoff = one.by_name[f"Handoff_PP[{stage}]_TP[{t}]_Chunk[{chunk}]"]
                last = one.by_name[f"TP_AR_PP[{stage}]_Layer[{3 * stage + 2}]_Chunk[{chunk}]_Attn"]
                assert last["start_s"] <= handoff["start_s"] <= last["start_s"] + last["queued_s"] + 1e-15  # its rank enters then
                assert handoff["start_s"] < rank["end_s"]
                if stage > 0:
                    sent = one.by_name[f"PP_Act_FromP[{stage - 1}]_ToP[{stage}]_TP[{t}]_Chunk[{chunk}]"]
                    assert rank["start_s"] > sent["end_s"]
                    assert sent["start_s"] >= one.by_name[f"P_Rank_PP[{stage - 1}]_TP[{t}]_Chunk[{chunk}]"]["end_s"]
    # Pipelined: stage 0 begins chunk 1 before stage 1 has ended chunk 0.
    assert one.by_name["P_Rank_PP[0]_TP[0]_Chunk[1]"]["start_s"] < one.by_name["P_Rank_PP[1]_TP[0]_Chunk[0]"]["end_s"]


def test_decode_begins_after_the_last_handoff(one):
    landed = max(job["end_s"] for job in one.jobs_like(r"Handoff_.*"))
    assert all(job["start_s"] >= landed for job in one.jobs_like(r"D_.*"))
    metrics = one.summary["metrics"]
    assert metrics["decode_start_s"] == pytest.approx(max(landed, metrics["ttft_s"]), abs=1e-15)


def test_handoffs_carry_the_cache(one, several):
    for result, requests in [(one, 1), (several, REQUESTS)]:
        carried = sum(int(job["bytes"]) for job in result.jobs_like(r"Handoff_.*"))
        assert carried == requests * PROMPT * KV_BYTES_PER_TOKEN
        traffic = {entry["class"]: entry for entry in result.summary["traffic"]}
        assert traffic["kv"]["bytes"] == carried


def test_levels_of_jobs(several, scenario, tmp_path):
    succeed("plx_box", scenario, "--out", tmp_path / "stage", "--quiet", "--jobs", "stage")
    kept = (tmp_path / "stage" / "jobs.csv").read_text().splitlines()
    everything = (several.folder / "jobs.csv").read_text().splitlines()
    assert kept == [line for line in everything if "Layer[" not in line]
    assert 1 < len(kept) < len(everything)
    succeed("plx_box", scenario, "--out", tmp_path / "none", "--quiet", "--jobs", "none")
    assert not (tmp_path / "none" / "jobs.csv").exists()


# -- requests.csv

def test_requests_are_llmservingsims_and_agree_with_the_rest(several):
    header = (several.folder / "requests.csv").read_text().splitlines()[0].split(",")
    assert header[:12] == LLMSERVINGSIM
    assert header[12:] == ["queued_ns", "admitted_ns", "prefill_begin_ns", "prefilled_ns", "first_token_ns", "kv_landed_ns", "decode_begin_ns"]
    assert sorted(int(row["request id"]) for row in several.requests) == list(range(REQUESTS))
    ends = [int(row["end_time"]) for row in several.requests]
    assert ends == sorted(ends)
    for row in several.requests:
        number = {key: int(row[key]) for key in header if key not in ["model", "ITL"]}
        gaps = ast.literal_eval(row["ITL"])
        assert row["model"] == "tiny" and number["input"] == PROMPT and number["output"] == STEPS + 1
        assert number["latency"] == number["end_time"] - number["arrival"]
        assert number["queuing_delay"] == number["prefill_begin_ns"] - number["arrival"]
        assert number["TTFT"] == number["first_token_ns"] - number["arrival"]
        assert len(gaps) == STEPS and sum(gaps) == number["end_time"] - number["first_token_ns"]
        assert number["TPOT"] == sum(gaps) // STEPS
        instants = ["arrival", "queued_ns", "admitted_ns", "prefill_begin_ns", "prefilled_ns", "first_token_ns", "kv_landed_ns", "decode_begin_ns", "end_time"]
        order = [number[key] for key in instants]
        assert order == sorted(order)
        request = number["request id"]
        first = min(job["start_s"] for job in several.jobs_like(rf"P_Rank_PP\[0\]_TP\[0\].*_Req\[{request}\]"))
        assert number["prefill_begin_ns"] == pytest.approx(first * 1e9, abs=1)
        landed = max(job["end_s"] for job in several.jobs_like(rf"Handoff_.*_Req\[{request}\]"))
        assert number["kv_landed_ns"] == pytest.approx(max(landed * 1e9, number["first_token_ns"]), abs=1)
    metrics = several.summary["metrics"]
    for metric, column in [("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("queueing_s", "queuing_delay")]:
        mean = sum(int(row[column]) for row in several.requests) / REQUESTS
        assert metrics[metric] == pytest.approx(mean * 1e-9, abs=2e-9), metric
    started = sum(int(row["decode_begin_ns"]) - int(row["arrival"]) for row in several.requests) / REQUESTS
    assert metrics["decode_start_s"] == pytest.approx(started * 1e-9, abs=2e-9)
    exposed = sum(int(row["kv_landed_ns"]) - int(row["first_token_ns"]) for row in several.requests) / REQUESTS
    assert metrics["exposed_s"]["kv"] == pytest.approx(exposed * 1e-9, abs=2e-9)
    ttft = sorted(int(row["TTFT"]) for row in several.requests)
    assert metrics["ttft_p50_s"] == pytest.approx(ttft[1] * 1e-9, abs=2e-9)
    assert metrics["ttft_p99_s"] == pytest.approx(ttft[2] * 1e-9, abs=2e-9)
    assert metrics["requests"] == REQUESTS
    assert metrics["iterations"]["tokens"] == REQUESTS * STEPS


# -- links.csv

LINK_NAMES = (r"GPU_[PD]\[\d+\]\[\d+\]_PCI|GPU_[PD]_Idle\[\d+\]_PCI|"
              r"IB_NIC_[PD]\[\d+\]_PCI|IB_Cable_[PD]\[\d+\]|PLX_Uplink_[PD]\[\d+\]|Socket_[PD]\[\d+\]|Host_Memory_[PD]\[\d+\]|"
              r"Far_Peers_([PD]\[\d+\]\[\d+\]|[PD]_Idle\[\d+\])_([PD]\[\d+\]\[\d+\]|[PD]_Idle\[\d+\])")


def test_links_have_names_and_possible_loads(several):
    header = (several.folder / "links.csv").read_text().splitlines()[0]
    assert header == ("name,direction,port,bytes,wire_bytes,transactions,busy_s,utilisation,peak_queue_bytes,gb_per_s,latency_s,"
                      "waited_tp_s,waited_pp_s,waited_kv_s,utilisation_prefill,utilisation_decode")
    end = several.summary["metrics"]["end_s"]
    for link in several.links:
        assert re.fullmatch(LINK_NAMES, link["name"]), link["name"]
        busy, utilisation = float(link["busy_s"]), float(link["utilisation"])
        assert 0 <= busy <= end and utilisation == pytest.approx(busy / end, abs=1e-8)
        assert int(link["wire_bytes"]) >= int(link["bytes"])
        assert busy * float(link["gb_per_s"]) * 1e9 >= int(link["wire_bytes"]) * (1 - 1e-9)  # no line beats its rate
    for name, directions in itertools.groupby(several.links, key=lambda link: link["name"]):
        assert [link["direction"] for link in directions] == (["both"] if name.startswith("Far") else ["tx", "rx"]), name
    assert len({link["port"] for link in several.links}) == len(several.links)
    for (row, entry) in zip(several.links, several.summary["links"], strict=True):
        assert row["name"] == entry["name"] and row["direction"] == entry["direction"]
        for key in ["bytes", "wire_bytes", "peak_queue_bytes"]:
            assert int(row[key]) == entry[key]
        assert float(row["busy_s"]) == pytest.approx(entry["busy_s"], abs=1e-15)


def test_what_leaves_a_cable_came_in_at_another(several):
    cache = REQUESTS * PROMPT * KV_BYTES_PER_TOKEN
    carried = collections.Counter()
    for link in several.links:
        kind = re.match(r"[A-Za-z_]+_[PD]", link["name"]).group()
        carried[kind, link["direction"]] += int(link["bytes"])
    assert carried["IB_Cable_P", "tx"] == carried["IB_Cable_D", "rx"] == cache
    assert carried["IB_NIC_P", "rx"] == cache  # read by GPUDirect
    assert carried["IB_NIC_D", "tx"] == cache  # written by GPUDirect
    assert carried["IB_Cable_P", "rx"] == carried["IB_Cable_D", "tx"] == 0
    # GPUs send what they receive in collectives and activations, and the cache besides.
    assert carried["GPU_P", "tx"] == carried["GPU_P", "rx"] + cache
    assert carried["GPU_D", "rx"] == carried["GPU_D", "tx"] + cache
    # Reduce-scatter and all-gather: every rank sends and receives S (n-1)/n twice, twice a layer.
    reduces = sum(int(job["bytes"]) for job in several.jobs_like(r"TP_AR_.*"))
    gathers = sum(int(job["bytes"]) for job in several.jobs_like(r"TP_AG_.*"))
    activations = sum(int(job["bytes"]) for job in several.jobs_like(r"PP_Act_.*"))
    # A pair's all-reduce is one shot between two exchanges of flags of 16 B.
    flags = 2 * 16 * TP * (TP - 1) * len(list(several.jobs_like(r"TP_AR_.*")))
    assert carried["GPU_P", "rx"] == 2 * (TP - 1) * reduces + flags + (TP - 1) * gathers + activations


def test_waiting_is_laid_at_links_and_adds_up(several):
    for entry in several.summary["traffic"]:
        column = f"waited_{entry['class']}_s"
        by_link = {(link["name"], link["direction"]): float(link[column]) for link in several.links}
        assert sum(by_link.values()) == pytest.approx(entry["waited_s"], rel=1e-6, abs=1e-11)
        delay = entry["messages"] * (entry["mean_actual_s"] - entry["mean_uncontended_s"])
        assert entry["waited_s"] == pytest.approx(delay, rel=0.05, abs=1e-6), entry["class"]
        if entry["worst_link"]:
            worst = by_link[entry["worst_link"], entry["worst_link_direction"]]
            assert worst == max(by_link.values()) == pytest.approx(entry["worst_link_waited_s"], abs=1e-11)


# -- summary.json

def flat(document, prefix=""):
    for key, value in document.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from flat(value, name + ".")
        elif isinstance(value, list):
            for item in value:
                yield from flat(item, name + ".[].")
        else:
            yield name


def documented(key):
    """The key as docs/results.md writes it."""
    for pattern, general in [(r"^calibration\..*", "calibration.[gpu]"), (r"^memory\.\w+\.", "memory.[group]."), (r"^setup\.groups\.\w+\.", "setup.groups.[group]."),
                             (r"^links\.\[\]\.utilisation_\w+$", "links.[].utilisation_[phase]")]:
        key = re.sub(pattern, general, key)
    return key


def test_every_key_is_documented_and_every_documented_key_is_there(several):
    page = (ROOT / "docs" / "results.md").read_text()
    section = page[page.index("## summary.json"):page.index("## jobs.csv")]
    first_cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    described = {name for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)}
    # Metrics: tests/sc_main/test_metrics.py.
    assert {documented(key) for key in flat(several.summary) if not key.startswith("metrics.")} == described


@pytest.mark.parametrize("file", ["jobs.csv", "links.csv", "requests.csv"])
def test_every_column_is_documented(several, file):
    page = (ROOT / "docs" / "results.md").read_text()
    for column in (several.folder / file).read_text().splitlines()[0].split(","):
        assert re.search(rf"[`,]{re.escape(column)}[`,]", page), column


def test_achieved_rates_are_over_the_time_from_the_first_arrival_to_the_last_token(several):
    metrics = several.summary["metrics"]
    arrivals, ends = ([int(row[column]) for row in several.requests] for column in ("arrival", "end_time"))
    lasted = (max(ends) - min(arrivals)) * 1e-9
    assert metrics["request_rate_per_s"] == pytest.approx(REQUESTS / lasted, rel=1e-6)
    assert metrics["prompt_tokens_per_s"] == pytest.approx(REQUESTS * PROMPT / lasted, rel=1e-6)
    assert metrics["output_tokens_per_s"] == pytest.approx(REQUESTS * (STEPS + 1) / lasted, rel=1e-6)


def test_achieved_rates_follow_the_load_and_capacity_does_not(tmp_path):
    found = {}
    for gap in (0.05, 0.1):
        requests = ", ".join(f"{{prompt_tokens: {PROMPT}, output_tokens: 2, arrival_s: {gap * i}}}" for i in range(6))
        text = TINY.replace("requests: {count: 1, prompt_tokens: 700}", f"requests: {{list: [{requests}]}}")
        assert text != TINY
        out = tmp_path / f"out{gap}"
        succeed("plx_box", tiny(tmp_path, text), "--out", out, "--quiet")
        found[gap] = summary(out)["metrics"]
    slow, fast = found[0.1], found[0.05]
    assert fast["request_rate_per_s"] == pytest.approx(2 * slow["request_rate_per_s"], rel=0.05)
    assert fast["prefill_capacity_tokens_per_s"] == pytest.approx(slow["prefill_capacity_tokens_per_s"], rel=0.01)


def test_a_links_use_in_a_phase_is_its_charge_within_the_phase(one):
    metrics = one.summary["metrics"]
    prefill = metrics["prefill_window_s"]
    decode = (int(one.requests[0]["end_time"]) - int(one.requests[0]["decode_begin_ns"])) * 1e-9
    for link in one.summary["links"]:
        in_phases = link["utilisation_prefill"] * prefill + link["utilisation_decode"] * decode
        assert in_phases <= link["busy_s"] * (1 + 1e-6) + 2e-9  # one request: the phases do not overlap
        assert 0 <= link["utilisation_prefill"] <= 1 + 1e-9 and 0 <= link["utilisation_decode"] <= 1 + 1e-9
    links = {(link["name"], link["direction"]): link for link in one.summary["links"]}
    busiest = links["GPU_P[0][0]_PCI", "tx"]
    assert busiest["utilisation_prefill"] > 1.2 * busiest["utilisation"]  # the run is longer than its prefill
    decoding = links["GPU_D[0][0]_PCI", "tx"]
    assert decoding["utilisation_decode"] * decode == pytest.approx(decoding["busy_s"], rel=0.1)  # the rest acknowledges KV
    for row in one.links:
        for column in ("utilisation_prefill", "utilisation_decode"):
            assert float(row[column]) == pytest.approx(links[row["name"], row["direction"]][column], abs=1e-9)


def test_what_the_table_calls_a_steps_is_a_steps(tmp_path):
    result = succeed("plx_box", tiny(tmp_path), "--out", tmp_path / "out")
    metrics = summary(tmp_path / "out")["metrics"]
    decode = result.stdout[result.stdout.index("\n  decode: "):]
    assert re.search(rf"batches +{metrics['iterations']['count']}, ", decode)
    shown = re.search(r"exposed TP / gate / PP / host +([\d.]+) (\w+) /", decode)
    unit = {"s": 1, "ms": 1e-3, "us": 1e-6}[shown[2]]
    assert float(shown[1]) * unit == pytest.approx(metrics["decode"]["exposed_s"]["tp"] / metrics["iterations"]["count"], rel=1e-3)
    assert float(shown[1]) * unit < metrics["iterations"]["mean_s"]


def test_metrics_are_numbers_or_groups_of_numbers(several):
    for key in flat(several.summary["metrics"]):
        value = several.summary["metrics"]
        for part in key.split("."):
            value = value[part]
        assert isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0, key
    for ratio in ["bubble_fraction", *(f"stage_utilisation.stage{p}" for p in range(PP))]:
        value = several.summary["metrics"]
        for part in ratio.split("."):
            value = value[part]
        assert 0 < value < 1
    assert several.summary["complete"] is True and several.summary["schema_version"] == 2


def test_memory_holds_weights_and_the_cache(one):
    explained = json.loads(succeed("plx_box", tiny(one.folder.parent), "--explain", "--json").stdout)
    for instance in explained["instances"]:
        for entry in one.summary["memory"][instance["name"]]:
            stage = instance["stages"][entry["rank"] // TP]
            assert entry["peak_bytes"] == stage["total_bytes"]
            assert entry["capacity_bytes"] == 48_000_000_000


# -- the same again

def same(a, b, files):
    for file in files:
        assert filecmp.cmp(a / file, b / file, shallow=False), file
    left, right = summary(a), summary(b)
    left.pop("simulator"), right.pop("simulator")
    assert json.dumps(left) == json.dumps(right)


@pytest.mark.parametrize("more", [[], ["--jobs", "stage"], ["--vcd"], ["--vcd", "--vcd-level", "all"],
                                  ["--vcd", "--vcd-level", "summary"]], ids=" ".join)
def test_everything_outside_simulator_is_the_same_again(several, scenario, tmp_path, more):
    succeed("plx_box", scenario, "--out", tmp_path / "again", "--quiet", *more)
    files = ["links.csv", "requests.csv", "machine.json"] + ([] if "--jobs" in more else ["jobs.csv"])
    same(several.folder, tmp_path / "again", files)
    if "--vcd" in more:
        assert {"trace.vcd", "trace.gtkw"} < set(os.listdir(tmp_path / "again"))


@pytest.mark.parametrize("platform", ["dgx_a100", "dgx_h100", "dgx_b200"])
def test_nvlink_runs_are_the_same_again_with_and_without_a_waveform(platform, tmp_path):
    scenario = tiny(tmp_path, TINY.replace("tp: 2, pp: 2}\n  decode", "tp: 4, pp: 2}\n  decode"))
    for name, more in [("a", []), ("b", []), ("c", ["--vcd"])]:
        succeed(platform, scenario, "--out", tmp_path / name, "--quiet", *more)
    files = ["jobs.csv", "links.csv", "requests.csv", "machine.json"]
    same(tmp_path / "a", tmp_path / "b", files)
    same(tmp_path / "a", tmp_path / "c", files)
    names = {link["name"] for link in rows(tmp_path / "a" / "links.csv")}
    planes = {"dgx_a100": 6, "dgx_h100": 4, "dgx_b200": 2}[platform]
    assert {f"NVLink_P[1][3]_Plane[{k}]" for k in range(planes)} < names
    if platform == "dgx_h100":  # 5, 4, 4 and 5 links carry their share
        carried = [int(link["bytes"]) for k in range(4) for link in rows(tmp_path / "a" / "links.csv")
                   if link["name"] == f"NVLink_P[0][0]_Plane[{k}]" and link["direction"] == "tx"]
        for bytes_, links in zip(carried, [5, 4, 4, 5], strict=True):
            assert bytes_ / sum(carried) == pytest.approx(links / 18, rel=0.02)


# -- traces

def served(folder, expected):
    """Whether the rows of requests.csv are those of a trace: (arrival in ns, input, output)."""
    by_number = sorted(rows(folder / "requests.csv"), key=lambda row: int(row["request id"]))
    assert [(int(row["arrival"]), int(row["input"]), int(row["output"])) for row in by_number] == expected
    assert summary(folder)["complete"] is True


def run_trace(platform, folder, form, file, count):
    """Runs the first rows of a trace with Llama-3.1-8B. Returns where the results are."""
    scenario = tiny(folder, f"""\
model: {{config: {ROOT}/scenarios/models/llama-3.1-8b.json}}
fabric: {{transaction_bytes: 65536}}
workload:
  kind: disaggregated_prefill
  requests: {{format: {form}, file: {file}, max_count: {count}}}
  chunk_tokens: 2048
  prefill: {{tp: 4, pp: 2}}
  decode: {{tp: 2, pp: 2, steps: trace}}
""")
    succeed(platform, scenario, "--out", folder / "out", "--quiet")
    return folder / "out"


def azure_rows(path, count):
    """Arrival in ns after the first, input, output."""
    result = []
    for line in path.read_text().splitlines()[1:count + 1]:
        when, tokens, output = line.split(",")
        clock, fraction = when.split(" ")[1].split(".")
        hours, minutes, seconds = map(int, clock.split(":"))
        result.append((((hours * 60 + minutes) * 60 + seconds) * 10**9 + int(fraction.ljust(9, "0")), int(tokens), int(output)))
    return [(when - result[0][0], tokens, output) for when, tokens, output in result]


def test_the_shipped_azure_trace_runs(tmp_path):
    trace = ROOT / "scenarios" / "traces" / "synthetic_azure.csv"
    served(run_trace("plx_box", tmp_path, "azure", trace, 4), azure_rows(trace, 4))


def test_the_shipped_mooncake_trace_runs(tmp_path):
    trace = ROOT / "scenarios" / "traces" / "synthetic_mooncake.jsonl"
    lines = [json.loads(line) for line in trace.read_text().splitlines()[:2]]
    first = lines[0]["timestamp"]
    expected = [((line["timestamp"] - first) * 10**6, line["input_length"], line["output_length"]) for line in lines]
    served(run_trace("dgx_h100", tmp_path, "mooncake", trace, 2), expected)

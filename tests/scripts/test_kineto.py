"""A run's timeline as one file for each rank: what readers of PyTorch's profiles rely on, and the run's own figures in it."""

import collections
import gzip
import json
import re
import subprocess

import pytest

from platform_runs import ROOT, TINY, rows, succeed, summary, tiny

SCRIPT = ROOT / "scripts" / "kineto.py"
US_PER_S = 1e6


def convert(*arguments):
    return subprocess.run([str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", name="run")
def fixture_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kineto")
    succeed("plx_box", tiny(folder, TINY.replace("count: 1", "count: 2")), "--out", folder / "out", "--timeline", "--quiet")
    done = convert(folder / "out")
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "out"


@pytest.fixture(scope="module", name="ranks")
def fixture_ranks(run):
    """Files as they are and as read, by rank."""
    texts = [gzip.open(run / "kineto" / f"rank{k}.json.gz", "rt").read() for k in range(8)]
    return [(text, json.loads(text)) for text in texts]


def on_device(trace):
    return [e for e in trace["traceEvents"] if e.get("cat") in ["kernel", "gpu_memcpy"]]


def test_a_file_a_rank_that_says_which(run, ranks):
    assert len(list((run / "kineto").iterdir())) == 8
    gpus = [row["gpu"] for group in ["prefill", "decode"] for row in summary(run)["memory"][group]]
    for number, (text, trace) in enumerate(ranks):
        assert re.findall(r'^ *"rank":\s+(\d+),$', text, re.MULTILINE) == [str(number)]
        assert trace["distributedInfo"] == {"backend": "nccl", "rank": number, "world_size": 8}
        names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"]
        assert names == ["host", gpus[number]]
        assert trace["traceEvents"][0]["ph"] == "M"  # HTA takes index 0 for no event


def test_times_are_whole_and_nothing_overlaps(ranks):
    for _, trace in ranks:
        streams = collections.defaultdict(list)
        for event in trace["traceEvents"]:
            assert isinstance(event["ts"], int) and event["ts"] >= 0
        for event in on_device(trace):
            assert isinstance(event["dur"], int) and event["args"]["stream"] == event["tid"] > 0
            streams[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        for spans in streams.values():
            spans.sort()
            assert all(until <= begin for (_, until), (begin, _) in zip(spans, spans[1:]))


def test_everything_on_the_device_has_its_launch_in_a_step_that_counts(ranks):
    for _, trace in ranks:
        events = trace["traceEvents"]
        launches = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
        steps = sorted((e["ts"], e["ts"] + e["dur"], e["name"]) for e in events if e["name"].startswith("ProfilerStep"))
        assert [name for *_, name in steps] == [f"ProfilerStep#{k}" for k in range(len(steps))]
        assert all(until == begin for (_, until, _), (begin, *_) in zip(steps, steps[1:]))
        assert len(launches) == len(on_device(trace)) > 0 and 0 not in launches
        for event in on_device(trace):
            launch = launches.pop(event["args"]["correlation"])
            assert launch["name"] == ("cudaMemcpyAsync" if event["cat"] == "gpu_memcpy" else "cudaLaunchKernel")
            assert launch["ts"] <= event["ts"]
            assert sum(begin <= launch["ts"] < until for begin, until, _ in steps[:-1]) == 1


def test_steps_are_chunks_and_decode_steps(run, ranks):
    counts = [sum(e["name"].startswith("ProfilerStep") for e in trace["traceEvents"]) - 1 for _, trace in ranks]
    decode_steps = sum(job["name"].startswith("D_Rank_[0]_Step_") for job in rows(run / "jobs.csv"))
    assert counts == [6] * 4 + [decode_steps] * 4  # two prompts of 700 tokens in chunks of 256


def test_communication_is_that_of_the_summary(run, ranks):
    """Kernels of collectives, which nothing hides here: waiting for peers included, as in a profile of a real rank."""
    result = summary(run)
    for traces, exposed in [(ranks[:4], result["metrics"]["exposed_s"]), (ranks[4:], result["metrics"]["decode"]["exposed_s"])]:
        kernels = [e for _, trace in traces for e in on_device(trace) if e["cat"] == "kernel"]
        collectives = [e for e in kernels if re.match(r"^nccl.*Kernel", e["name"])]
        assert all(re.fullmatch(r"ncclDevKernel_All(Reduce|Gather)_(RING|ONE_SHOT)_(LL|SIMPLE)", e["name"]) for e in collectives)
        assert {e["args"]["Group size"] for e in collectives} == {2}
        total_us = sum(e["dur"] for e in collectives)
        assert total_us == pytest.approx((exposed["tp"] + exposed["tp_sync"]) * len(traces) * US_PER_S, rel=0, abs=len(collectives))
        assert {e["name"] for e in kernels} - {e["name"] for e in collectives} == {"embedding", "attention", "mlp", "head"}


def test_transfers_are_those_of_the_summary(run, ranks):
    copies = collections.Counter()
    for _, trace in ranks:
        for event in on_device(trace):
            if event["cat"] == "gpu_memcpy":
                copies[event["name"].removeprefix("Memcpy PtoP "), "messages"] += 1
                copies[event["name"].removeprefix("Memcpy PtoP "), "bytes"] += event["args"]["bytes"]
    traffic = {t["class"]: t for t in summary(run)["traffic"]}
    assert copies == {(name, key): traffic[name][key] for name in ["pp", "kv"] for key in ["messages", "bytes"]}


def test_the_files_are_the_same_each_time_and_replaced(run, tmp_path):
    (tmp_path / "rank77.json.gz").touch()
    (tmp_path / "notes.txt").touch()
    assert convert(run, "--out", tmp_path).returncode == 0
    assert {p.name for p in tmp_path.iterdir()} == {"notes.txt", *(f"rank{k}.json.gz" for k in range(8))}
    for k in range(8):
        assert (tmp_path / f"rank{k}.json.gz").read_bytes() == (run / "kineto" / f"rank{k}.json.gz").read_bytes()


def test_without_a_timeline_it_says_so(tmp_path):
    for arguments in [[tmp_path], [tmp_path / "none"]]:
        done = convert(*arguments)
        assert done.returncode == 2
        assert re.fullmatch(r"kineto\.py: error: .*timeline\.json\.gz: No such file or directory; expected .*--timeline\n", done.stderr)


def test_half_a_timeline_is_refused(run, tmp_path):
    whole = (run / "timeline.json.gz").read_bytes()
    for content in [whole[: len(whole) // 2], b"text"]:
        (tmp_path / "timeline.json.gz").write_bytes(content)
        done = convert(tmp_path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "timeline.json.gz" in done.stderr
        assert not (tmp_path / "kineto").exists()

"""The timeline of a run, as a viewer reads it, against the run's own tables."""

import collections
import json
import re
import signal
import subprocess
import time

import pytest

from platform_runs import BIN, ROOT, TINY, rows, run, succeed, summary, tiny
from timelines import Timeline, ns

NS_PER_S = 1e9


@pytest.fixture(scope="module", params=["per_chunk", "per_layer"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("timeline")
    text = TINY.replace("count: 1", "count: 3") + f"  handoff: {request.param}\n"
    succeed("plx_box", tiny(folder, text), "--out", folder / "with", "--timeline", "--quiet")
    succeed("plx_box", folder / "tiny.yaml", "--out", folder / "without", "--quiet")
    return folder


@pytest.fixture(scope="module")
def timeline(folder):
    return Timeline(folder / "with")


def test_results_are_the_same_with_and_without(folder):
    tables = {path.name for path in (folder / "without").glob("*.csv")}
    assert {"jobs.csv", "links.csv"} < tables
    for name in tables | {"machine.json"}:
        assert (folder / "with" / name).read_bytes() == (folder / "without" / name).read_bytes()
    one, other = summary(folder / "with"), summary(folder / "without")
    one.pop("simulator"), other.pop("simulator")
    assert one == other
    assert not (folder / "without" / "timeline.json.gz").exists()


def test_the_file_is_the_same_from_run_to_run(folder):
    succeed("plx_box", folder / "tiny.yaml", "--out", folder / "again", "--timeline", "--quiet")
    assert (folder / "again" / "timeline.json.gz").read_bytes() == (folder / "with" / "timeline.json.gz").read_bytes()


def test_slices_of_a_track_do_not_overlap(timeline):
    assert timeline.slices
    for track, slices in timeline.slices.items():
        slices = sorted((s for s in slices if s["cat"] != "request"), key=lambda s: (s["begin_ns"], s["end_ns"]))  # phases are within
        for before, after in zip(slices, slices[1:]):
            assert before["end_ns"] <= after["begin_ns"], track
        assert all(0 <= s["begin_ns"] <= s["end_ns"] for s in slices)


def test_every_job_is_there_with_its_times(folder, timeline):
    jobs = {s["name"]: s for (process, _), slices in timeline.slices.items() if process == "jobs" for s in slices}
    table = rows(folder / "with" / "jobs.csv")
    assert set(jobs) == {job["name"] for job in table}
    for job in table:
        drawn = jobs[job["name"]]
        assert (drawn["begin_ns"], drawn["end_ns"]) == (ns(job["start_s"]), ns(job["end_s"]))
        assert (drawn["cat"], drawn["args"]["bytes"]) == (job["kind"], int(job["bytes"]))


def test_kernels_are_named_inside_their_tasks(timeline, folder):
    """As in layer.csv, one after the other from the begin of the task to its end."""
    (folder / "layer.yaml").write_text(re.sub(r"(?s)workload:.*", "workload: {kind: layer, phase: prefill, tp: 2, tokens: 512}\n", TINY))
    succeed("plx_box", folder / "layer.yaml", "--out", folder / "layer", "--quiet")
    of_layer = {row["name"] for row in rows(folder / "layer" / "layer.csv") if row["limit"]}
    named = set()
    for track, kernels in timeline.kernels.items():
        for task in [s for s in timeline.slices[track] if s["cat"] == "kernel"]:
            inside = [k for k in kernels if task["begin_ns"] <= k["begin_ns"] < task["end_ns"]]
            named |= {k["name"] for k in inside}
            if inside:
                assert inside[-1]["end_ns"] == task["end_ns"]
                assert all(a["end_ns"] == b["begin_ns"] for a, b in zip(inside, inside[1:]))
    assert of_layer <= named, of_layer - named


def test_messages_are_those_of_the_summary(folder, timeline):
    messages, total = collections.Counter(), collections.Counter()
    for (_, track), slices in timeline.slices.items():
        if " messages" in track:
            messages[track.split()[0]] += len(slices)
            total[track.split()[0]] += sum(s["args"]["bytes"] for s in slices)
    traffic = {entry["class"]: entry for entry in summary(folder / "with")["traffic"]}
    assert set(traffic) == {"tp", "pp", "kv"}
    for name, entry in traffic.items():
        assert (messages[name], total[name]) == (entry["messages"], entry["bytes"]) and messages[name] > 0


def test_exposed_tp_from_the_slices_is_the_summarys(folder, timeline):
    """A collective is exposed on a rank's compute stream from the last member's entry until it is done there."""
    result = summary(folder / "with")
    for group, metrics in [("prefill", result["metrics"]), ("decode", result["metrics"]["decode"])]:
        ranks = [row["gpu"] for row in result["memory"][group]]
        collectives = [[s for s in timeline.slices[gpu, "stream compute"] if s["cat"] == "collective"] for gpu in ranks]
        exposed_ns = count = 0
        for stage in [collectives[0:2], collectives[2:4]]:
            assert len(stage[0]) == len(stage[1]) > 0
            for members in zip(*stage):
                entered = max(s["begin_ns"] for s in members)
                exposed_ns += sum(s["end_ns"] - entered for s in members)
                count += len(members)
        assert abs(exposed_ns / NS_PER_S - metrics["exposed_s"]["tp"] * len(ranks)) <= count / NS_PER_S  # slices are in whole ns


def test_arrows_lead_from_transfers_over_messages_to_whoever_waited(folder, timeline):
    arrows = timeline.arrows()
    posted = [(a, b) for a, b in arrows if a.slice["cat"] == "transfer"]
    landed = [(a, b) for a, b in arrows if a.slice["cat"] in ["pp", "kv"]]
    for transfer, message in posted:
        assert message.device == transfer.device and message.track.startswith(transfer.track.split()[1] + " messages")
        assert message.slice["begin_ns"] == transfer.slice["begin_ns"]
    traffic = {entry["class"]: entry["messages"] for entry in summary(folder / "with")["traffic"]}
    assert collections.Counter(message.slice["cat"] for _, message in posted) == {name: traffic[name] for name in ["pp", "kv"]}
    for message, task in landed:
        assert task.track.startswith("stream") and task.slice["begin_ns"] == message.slice["end_ns"]
        assert message.slice["cat"] == "kv" or message.slice["name"] == task.device
    # Each chunk's activations let the next stage's ranks go on, unless they had other work: the first chunk's always do.
    assert sum(task.device.startswith("prefill") for _, task in landed) >= 2
    # The first request's decoding begins with the last byte of its KV, if that lands after its first token.
    first = rows(folder / "with" / "requests.csv")[0]
    if first["kv_landed_ns"] != first["first_token_ns"]:
        assert first["kv_landed_ns"] == first["decode_begin_ns"]
        begun = [task for message, task in landed if abs(message.slice["end_ns"] - int(first["kv_landed_ns"])) <= 1]
        assert {task.device for task in begun} == {"decode0.gpu0", "decode0.gpu1"}


def test_arrows_lead_to_transfers_from_what_they_waited_for(timeline):
    led = set()
    for cause, task in timeline.arrows():
        if cause.slice["cat"] not in ["kernel", "collective"]:
            continue
        assert cause.device == task.device and cause.track != task.track
        assert cause.slice["end_ns"] == task.slice["begin_ns"]
        led |= {(task.device, task.track, task.slice["begin_ns"])}
    # Activations follow the last all-reduce of their stage, KV a kernel or an all-reduce: every transfer of this run waited.
    for (device, track), slices in timeline.slices.items():
        if track in ["stream pp", "stream kv"]:
            assert all((device, track, s["begin_ns"]) in led for s in slices)


def integral(points, end_ns):
    """Of a counter over the run: each value holds until the next."""
    return sum(value * (until - at) for (at, value), (until, _) in zip(points, [*points[1:], (end_ns, 0)]))


def end_of_run_ns(timeline):
    return max(s["end_ns"] for slices in timeline.slices.values() for s in slices)


def test_counters_of_a_gpu(folder, timeline):
    ranks = [row for group in summary(folder / "with")["memory"].values() for row in group]
    assert {gpu for gpu, name in timeline.counters if name == "HBM GB/s"} == {row["gpu"] for row in ranks} == set(timeline.ranks)
    for row in ranks:
        active = [value for _, value in timeline.counters[row["gpu"], "SMs active"]]
        assert min(active) == 0 and 0 < max(active) <= 142  # SMs of an L40S
        hbm = timeline.counters[row["gpu"], "HBM GB/s"]
        assert all(0 <= value <= 864 * (1 + 1e-6) for _, value in hbm)  # its HBM
        # Changes of less than 0.5 % of its rate are not told by themselves.
        moved = row["kernel_bytes"] + row["message_bytes"]
        assert integral(hbm, end_of_run_ns(timeline)) == pytest.approx(moved, rel=0.02)  # GB/s x ns = bytes


HOMES = {"GPU": "plx", "NVLink": "nvswitch", "PLX": "plx", "Socket": "root", "IB_NIC": "nic", "IB_Cable": "ib"}  # of links, by name


def check_links(folder, timeline):
    table = {f"{row['name']} {row['direction']}": row for row in rows(folder / "links.csv")}
    carried = collections.defaultdict(collections.Counter)
    for (process, track), slices in timeline.slices.items():
        name = re.sub(r"( [tr]x) \d+$", r"\1", track)
        if name in table:
            [home] = [home for prefix, home in HOMES.items() if name.startswith(prefix)]
            assert re.fullmatch(rf"(\w+\d\.)?{home}\d+", process)
            for s in slices:
                carried[name] += collections.Counter(s["args"])
                assert s["name"] == s["cat"] and s["name"] in ["tp", "pp", "kv", "dp"]
    assert set(carried) == {name for name, row in table.items() if row["transactions"] != "0"}
    for name, counts in carried.items():
        row = table[name]
        assert (counts["bytes"], counts["wire_bytes"], counts["trains"]) == tuple(
            int(row[key]) for key in ["bytes", "wire_bytes", "transactions"])
    return carried


def test_links_carry_what_their_table_says(folder, timeline):
    carried = check_links(folder / "with", timeline)
    assert {name.split("_")[0] for name in carried} == {"GPU", "PLX", "Socket", "IB"}


def test_nvlinks_carry_what_their_table_says(tmp_path):
    succeed("dgx_h100", tiny(tmp_path), "--out", tmp_path / "out", "--timeline", "--quiet")
    carried = check_links(tmp_path / "out", Timeline(tmp_path / "out"))
    assert {name.split("_")[0] for name in carried} == {"GPU", "NVLink", "IB"}


def test_a_large_run_reuses_collectives_under_its_timeline(tmp_path):
    model = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 8192, "num_attention_heads": 64, "intermediate_size": 8192,
             "vocab_size": 32000}
    (tmp_path / "model.json").write_text(json.dumps(model))
    (tmp_path / "large.yaml").write_text("""\
model: {config: model.json}
workload: {kind: training, software: megatron_core, seq_tokens: 8192, global_batch: 256, micro_batch: 1, tp: 8, sequence_parallel: true, pp: 1}
machine: {groups: {gpus: {servers: 1}}}
fabric: {fidelity: train}
""")
    for name, more in [("with", ["--timeline"]), ("without", [])]:
        succeed("dgx_h100", tmp_path / "large.yaml", "--out", tmp_path / name, "--quiet", *more)
    assert summary(tmp_path / "with")["simulator"]["replayed_transactions"] > 2e8
    test_results_are_the_same_with_and_without(tmp_path)
    timeline = Timeline(tmp_path / "with")
    test_slices_of_a_track_do_not_overlap(timeline)
    check_links(tmp_path / "with", timeline)
    test_counters_of_links(tmp_path, timeline)


def test_an_interrupted_run_leaves_a_timeline_of_what_happened(tmp_path):
    text = TINY.replace("count: 1", "count: 2000") + "fabric: {transaction_bytes: 256}\n"
    process = subprocess.Popen([BIN / "plx_box", tiny(tmp_path, text), "--out", tmp_path / "out", "--timeline", "--quiet"],
                               stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob("**/timeline.json.gz")) and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 128 + signal.SIGINT
    timeline = Timeline(tmp_path / "out")
    assert 0 < sum(len(slices) for (process, _), slices in timeline.slices.items() if process == "jobs") == len(rows(tmp_path / "out" / "jobs.csv"))
    test_slices_of_a_track_do_not_overlap(timeline)
    check_links(tmp_path / "out", timeline)


def test_counters_of_links(folder, timeline):
    table = {f"{row['name']} {row['direction']}": row for row in rows(folder / "with" / "links.csv")}
    end_ns = end_of_run_ns(timeline)
    seen = set()
    for (process, name), points in timeline.counters.items():
        if name.endswith(" use %"):
            row = table[name[:-6]]
            seen.add(name[:-6])
            assert all(0 <= value <= 100 * (1 + 1e-6) for _, value in points)
            assert integral(points, end_ns) * 1e-11 == pytest.approx(float(row["busy_s"]), rel=1e-4)
        elif name.endswith(" queued bytes"):
            assert 0 < max(value for _, value in points) <= int(table[name[:-13]]["bytes"])
        else:
            continue
        assert not process.endswith(("gpu0", "gpu1")), "a GPU's links are its switches'"
        windows = [at for at, _ in points]
        assert all(before + 1000 <= after for before, after in zip(windows, windows[1:])) and all(at % 1000 == 0 for at in windows)
    assert seen == {name for name, row in table.items() if row["transactions"] != "0"}


def test_requests_are_those_of_the_table(folder, timeline):
    table = rows(folder / "with" / "requests.csv")
    phases = collections.defaultdict(list)
    lanes = [slices for (process, _), slices in timeline.slices.items() if process == "requests"]
    for slices in lanes:
        for whole in [s for s in slices if s["cat"] == "request"]:
            within = [s for s in slices if s["cat"] == "phase" and whole["begin_ns"] <= s["begin_ns"] < whole["end_ns"]]
            phases[whole["name"]] = [(s["name"], s["begin_ns"], s["end_ns"]) for s in sorted(within, key=lambda s: s["begin_ns"])]
    assert len(lanes) == len(table) == 3  # all of them arrive at once
    for row in table:
        steps = [row[key] for key in ["arrival", "prefill_begin_ns", "first_token_ns", "kv_landed_ns", "decode_begin_ns", "end_time"]]
        names = ["queued", "prefill", "handoff", "decode queued", "decode"]
        expected = [(name, int(a), int(b)) for name, a, b in zip(names, steps, steps[1:]) if a != b]
        found = phases[f"Req[{row['request id']}]"]
        assert [name for name, *_ in found] == [name for name, *_ in expected]
        for (_, *times), (_, *expected_times) in zip(found, expected):  # the table rounds to the nearest ns
            assert all(abs(a - b) <= 1 for a, b in zip(times, expected_times))


def test_counters_of_requests(folder, timeline):
    result = summary(folder / "with")
    names = {name for process, name in timeline.counters if process == "requests"}
    phases = ["requests queued", "requests prefill", "requests handoff", "requests decode queued", "requests decode"]
    promised = [f"KV promised {group} stage {stage} bytes" for group in ["prefill", "decode"] for stage in [0, 1]]
    assert names == {*phases, *promised}
    assert max(value for _, value in timeline.counters["requests", "requests queued"]) == 3
    for name in names:
        assert timeline.counters["requests", name][-1][1] == 0
    # Of the tiny model: 2 bytes, a key and a value a layer; half of the KV heads and of the layers a rank.
    model = json.loads((ROOT / "tests" / "models" / "tiny.json").read_text())
    head_bytes = model["hidden_size"] // model["num_attention_heads"] * 2
    token_bytes = 2 * head_bytes * model["num_key_value_heads"] // 2 * model["num_hidden_layers"] // 2
    most = max(value for _, value in timeline.counters["requests", "KV promised prefill stage 0 bytes"])
    assert most == 3 * 700 * token_bytes
    assert result["complete"]


def test_it_goes_with_a_waveform(folder):
    succeed("plx_box", folder / "tiny.yaml", "--out", folder / "both", "--timeline", "--vcd", "--quiet")
    succeed("plx_box", folder / "tiny.yaml", "--out", folder / "vcd", "--vcd", "--quiet")
    assert (folder / "both" / "trace.vcd").read_bytes() == (folder / "vcd" / "trace.vcd").read_bytes()
    assert (folder / "both" / "timeline.json.gz").read_bytes() == (folder / "with" / "timeline.json.gz").read_bytes()


def test_it_needs_a_directory(folder):
    result = run("plx_box", folder / "tiny.yaml", "--timeline")
    assert result.returncode == 2
    assert "--timeline: needs --out DIR" in result.stderr

"""The timeline of a run, as a viewer reads it, against the run's own tables."""

import collections
import gzip
import json

import pytest

from platform_runs import TINY, rows, run, succeed, summary, tiny

NS_PER_S = 1e9


class Timeline:
    """Events of a file: slices by (process, track), times in whole nanoseconds."""

    def __init__(self, folder):
        with gzip.open(folder / "timeline.json.gz", "rt") as stream:
            self.events = json.load(stream)["traceEvents"]
        processes = self.metadata("process_name", "pid")
        tracks = self.metadata("thread_name", "pid", "tid")
        self.slices = collections.defaultdict(list)
        for event in self.events:
            if event["ph"] == "X":
                event["begin_ns"] = round(event["ts"] * 1000)
                event["end_ns"] = event["begin_ns"] + round(event["dur"] * 1000)
                self.slices[processes[event["pid"],], tracks[event["pid"], event["tid"]]].append(event)
        self.track_of = {(event["pid"], event["tid"]): name for name, events in self.slices.items() for event in events}

    def metadata(self, name, *keys):
        found = [event for event in self.events if event["ph"] == "M" and event["name"] == name]
        names = {tuple(event[key] for key in keys): event["args"]["name"] for event in found}
        assert len(names) == len(found)
        return names

    def points(self, phase):
        """Points of arrows: {id: (process, track, slices of it that begin there)}."""
        points = {}
        for event in self.events:
            if event["ph"] == phase:
                track = self.track_of[event["pid"], event["tid"]]
                at = round(event["ts"] * 1000)
                assert event["id"] not in points
                points[event["id"]] = (*track, [s for s in self.slices[track] if s["begin_ns"] == at])
        return points


def ns(text):
    """Whole nanoseconds of exact decimal seconds."""
    seconds, fraction = text.split(".")
    return int(seconds) * 10**9 + int(fraction[:9])


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
    for name in ["jobs.csv", "links.csv", "requests.csv", "machine.json"]:
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
        slices = sorted(slices, key=lambda s: (s["begin_ns"], s["end_ns"]))
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


def test_arrows_lead_from_transfers_over_messages_to_whoever_waited(timeline):
    begins, steps, ends = (timeline.points(phase) for phase in "stf")
    assert set(begins) == set(steps) and set(ends) <= set(begins)
    for arrow, (device, track, slices) in begins.items():
        assert track in ["stream pp", "stream kv"] and any(s["cat"] == "transfer" for s in slices)
        sender, messages, sent = steps[arrow]
        assert sender == device and messages.startswith(track.split()[1]) and sent
    # Each chunk's activations let the next stage's ranks go on, unless they had other work: the first chunk's always do.
    assert len(ends) >= 2
    for arrow, (device, track, slices) in ends.items():
        assert track.startswith("stream")
        _, _, messages = steps[arrow]
        assert any(m["name"] == device and m["end_ns"] == s["begin_ns"] for m in messages for s in slices)


def test_counters_of_a_gpu(timeline):
    values = collections.defaultdict(list)
    for event in timeline.events:
        if event["ph"] == "C":
            values[event["name"]].append(event["args"]["value"])
    assert set(values) == {"SMs active", "HBM GB/s"}
    assert min(values["SMs active"]) == 0 and 0 < max(values["SMs active"]) <= 142  # SMs of an L40S
    assert min(values["HBM GB/s"]) >= 0 and 0 < max(values["HBM GB/s"]) <= 864 + 1e-6  # its HBM


def test_it_goes_with_a_waveform(folder):
    succeed("plx_box", folder / "tiny.yaml", "--out", folder / "both", "--timeline", "--vcd", "--quiet")
    succeed("plx_box", folder / "tiny.yaml", "--out", folder / "vcd", "--vcd", "--quiet")
    assert (folder / "both" / "trace.vcd").read_bytes() == (folder / "vcd" / "trace.vcd").read_bytes()
    assert (folder / "both" / "timeline.json.gz").read_bytes() == (folder / "with" / "timeline.json.gz").read_bytes()


def test_it_needs_a_directory(folder):
    result = run("plx_box", folder / "tiny.yaml", "--timeline")
    assert result.returncode == 2
    assert "--timeline: needs --out DIR" in result.stderr

"""Pictures of timelines: what is on them, and what is refused."""

import gzip
import json
import xml.etree.ElementTree

import pytest

from scripts_inside import call

# Two GPUs: a kernel, a message that it sends, the kernel that waited for it; a counter.
EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "gpu1"}},
    {"ph": "M", "name": "process_sort_index", "pid": 2, "args": {"sort_index": 2}},
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "gpu0"}},
    {"ph": "M", "name": "process_sort_index", "pid": 1, "args": {"sort_index": 1}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "stream compute"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "pp messages"}},
    {"ph": "M", "name": "thread_name", "pid": 2, "tid": 3, "args": {"name": "stream compute"}},
    {"ph": "X", "pid": 2, "tid": 3, "ts": 1500, "dur": 500, "cat": "kernel", "name": "second"},
    {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 1000, "cat": "kernel", "name": "first"},
    {"ph": "X", "pid": 1, "tid": 2, "ts": 1000, "dur": 500, "cat": "pp", "name": "to gpu1"},
    {"ph": "s", "pid": 1, "tid": 2, "ts": 1000, "cat": "message", "name": "message", "id": 1},
    {"ph": "f", "pid": 2, "tid": 3, "ts": 1500, "cat": "message", "name": "message", "id": 1},
    {"ph": "C", "pid": 1, "ts": 0, "name": "SMs", "args": {"active": 142}},
    {"ph": "C", "pid": 1, "ts": 1000, "name": "SMs", "args": {"active": 0}},
]
TRACKS = ["gpu0: stream compute", "gpu0: pp messages", "gpu0: SMs active", "gpu1: stream compute"]


@pytest.fixture(name="run")
def fixture_run(tmp_path):
    def write(events):
        with gzip.open(tmp_path / "timeline.json.gz", "wt", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
        return tmp_path

    return write


def draw(*arguments):
    return call("draw_timeline", *arguments)


def picture(*arguments):
    """The words of a picture, in their order, and how many arrows it has."""
    file = arguments[0] / "a.svg"
    done = draw(arguments[0], file, *arguments[1:])
    assert (done.returncode, done.stderr) == (0, "")
    root = xml.etree.ElementTree.parse(file).getroot()
    words = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    arrows = [path for path in root.iter("{http://www.w3.org/2000/svg}path") if path.get("class") == "arrow"]
    return words, len(arrows)


def test_every_track_has_a_row_with_its_slices_and_its_largest_value(run):
    words, arrows = picture(run(EVENTS))
    assert [word for word in words if ": " in word] == TRACKS  # gpu0 first: by the file's order, not by what came first
    assert {"first", "second", "to gpu1", "142", "time, ms"} <= set(words)
    assert arrows == 1


def test_a_window_shows_what_is_in_it(run):
    words, _ = picture(run(EVENTS), "--window", "1ms,1.4ms")
    assert "to gpu1" in words
    assert not {"first", "second", "142"} & set(words)


def test_globs_choose_tracks_in_their_order(run):
    words, _ = picture(run(EVENTS), "--track", "gpu1: *", "--track", "*: pp messages", "--track", "gpu1: stream *")
    assert [word for word in words if ": " in word] == ["gpu1: stream compute", "gpu0: pp messages"]


def test_further_tracks_without_a_message_in_the_window_are_left_out(run):
    further = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 4, "args": {"name": "pp messages 2"}},
               {"ph": "X", "pid": 1, "tid": 4, "ts": 1200, "dur": 100, "cat": "pp", "name": "meanwhile"}]
    drawn = [[word for word in picture(run(EVENTS + further), "--track", "gpu0: pp *", "--window", window)[0] if ": " in word]
             for window in ("0us,0.9ms", "0us,1.25ms")]
    assert drawn == [["gpu0: pp messages"], ["gpu0: pp messages", "gpu0: pp messages 2"]]


def test_the_same_run_gives_the_same_picture(run):
    picture(run(EVENTS))
    before = (run(EVENTS) / "a.svg").read_bytes()
    picture(run(EVENTS))
    assert (run(EVENTS) / "a.svg").read_bytes() == before


def test_tracks_are_listed(run):
    done = draw(run(EVENTS), "--list")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, sorted(TRACKS))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give FILE.svg, or --list"),
        (["a.png"], "a.png: a picture is an .svg file; rsvg-convert makes a .png or .pdf of it"),
        (["a.svg", "--window", "2ms,1ms"], "argument --window: '2ms,1ms' is not T0,T1 in microseconds or with a unit, as 10us,2ms"),
        (["a.svg", "--window", "1.2.3,5"], "argument --window: '1.2.3,5' is not T0,T1 in microseconds or with a unit, as 10us,2ms"),
        (["a.svg", "--track", "gpu7*"], "--track gpu7*: no such track; --list prints those of the run"),
    ],
)
def test_bad_input_is_one_line(run, arguments, said):
    done = draw(run(EVENTS), *arguments)
    assert (done.returncode, done.stderr) == (2, f"draw_timeline.py: error: {said}\n")


def test_of_many_tracks_the_busiest_are_drawn(run):
    many = [{"ph": "C", "pid": 1, "ts": 0, "name": f"c{i}", "args": {"x": 1}} for i in range(61)]
    words, _ = picture(run(EVENTS + many))
    drawn = [word for word in words if word.startswith("gpu")]
    assert len(drawn) == 24 and [name for name in drawn if "stream" in name or "messages" in name] == [name for name in TRACKS if "SMs" not in name]
    assert "61 tracks are more than a picture holds" in draw(run(EVENTS[:4] + many), "a.svg", "--track", "*").stderr


@pytest.mark.parametrize("content", [None, b"no gzip", gzip.compress(b"{}"), gzip.compress(b"[1")])
def test_what_is_no_timeline_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "timeline.json.gz").write_bytes(content)
    done = draw(tmp_path, "--list")
    assert done.returncode == 2
    assert done.stderr.startswith(f"draw_timeline.py: error: {tmp_path}/timeline.json.gz: ") and done.stderr.count("\n") == 1
    assert "the timeline of a run with --timeline" in done.stderr

"""Pictures of training steps: every slot of the shipped schedules is drawn, and waits are where the run has them."""

import json
import xml.etree.ElementTree

import pytest

from platform_runs import ROOT, rows, succeed
from scripts_inside import call

SVG = "{http://www.w3.org/2000/svg}"
SCHEDULES = sorted((ROOT / "scenarios" / "training" / "schedules").glob("*.yaml"))
FORWARD, BACKWARD, WEIGHTS, OPTIMIZER, EXPOSED = "g0", "g2", "g4", "g3", "g1"


def gantt(*arguments):
    return call("gantt", *arguments)


def picture(folder, *runs):
    """Words, and boxes by class: (x, y, width)."""
    done = gantt(*runs, "--out", folder / "step.svg")
    assert (done.returncode, done.stderr) == (0, "")
    root = xml.etree.ElementTree.parse(folder / "step.svg").getroot()
    boxes = {}
    for box in root.iter(f"{SVG}rect"):
        if box.get("rx") is None and box.get("class") != "paper":  # not of the legend
            boxes.setdefault(box.get("class"), []).append(tuple(float(box.get(key, 0)) for key in ("x", "y", "width")))
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")], boxes


@pytest.mark.parametrize("scenario", SCHEDULES, ids=lambda path: path.stem)
def test_a_picture_of_a_shipped_schedule_has_its_slots(tmp_path, scenario):
    succeed("dgx_h100", scenario, "--out", tmp_path / "out", "--quiet")
    slots = rows(tmp_path / "out" / "schedule.csv")
    words, boxes = picture(tmp_path, tmp_path / "out")
    assert [word for word in words if word.startswith("pp ")] == ["pp 0", "pp 1", "pp 2", "pp 3"]
    assert any(word.startswith(f"{scenario.stem}: ") and word.endswith("% bubble") for word in words)
    heights = sorted({y for _, y, _ in boxes[FORWARD]})
    for kinds, look in ((("forward",), FORWARD), (("backward", "backward_inputs"), BACKWARD), (("backward_weights",), WEIGHTS)):
        for rank, height in enumerate(heights):
            wanted = sum(slot["kind"] in kinds and slot["rank"] == str(rank) for slot in slots)
            assert sum(y == height for _, y, _ in boxes.get(look, [])) == wanted
    work = [box for look in (FORWARD, BACKWARD, WEIGHTS, OPTIMIZER) for box in boxes.get(look, [])]
    for height in heights:
        row = sorted((x, width) for x, y, width in work if y == height)
        assert all(x + width <= following + 0.02 for (x, width), (following, _) in zip(row, row[1:]))


# Two pipeline ranks. The transfer moves bytes from 1 s to 3 s. Rank 0 runs a slot until 2 s, so it waits from 2 s to 3 s, as long as
# its slot begins then; rank 1 waits from 1 s to 3 s.
JOBS = """\
name,kind,rank,start_s,end_s,queued_s,bytes
F_PP[0]_TP[0]_MB[0],compute,0,0,1,0,0
F_PP[0]_TP[0]_MB[1],compute,0,1,2,0,0
PP_Act_FromP[0]_ToP[1]_TP[0]_MB[0],pp,1,0,3,1,16
F_PP[1]_TP[0]_MB[0],compute,1,3,4,0,0
B_PP[0]_TP[0]_MB[0],compute,0,3,4,0,0
"""
RANKS = "rank,pp,tp,dp\n0,0,0,0\n1,1,0,0\n"
SUMMARY = {"kind": "training", "setup": {"schedule": "1f1b"}, "metrics": {"step_s": 4.0, "bubble_fraction": 0.25}}


def write(folder, jobs=JOBS, ranks=RANKS, **summary):
    folder.mkdir(exist_ok=True)
    (folder / "jobs.csv").write_text(jobs)
    (folder / "ranks.csv").write_text(ranks)
    (folder / "summary.json").write_text(json.dumps(SUMMARY | summary))
    return folder


def test_a_wait_is_a_transfer_without_a_slot(tmp_path):
    _, boxes = picture(tmp_path, write(tmp_path / "run"))
    (start, upper, slot), *_ = sorted(boxes[FORWARD], key=lambda box: box[:2])
    second = slot + 0.5  # a slot leaves a small gap
    waits = sorted((y, (x - start) / second, width / second) for x, y, width in boxes[EXPOSED])
    assert [pytest.approx(wait[1:], abs=0.01) for wait in waits] == [(2, 1), (1, 2)]
    assert upper < waits[0][0] < waits[1][0]


def test_several_runs_share_a_time_axis(tmp_path):
    slow = write(tmp_path / "slow", JOBS.replace(",3,4,", ",3,8,"))
    words, boxes = picture(tmp_path, write(tmp_path / "run"), slow)
    assert len([word for word in words if word.startswith("1f1b: ")]) == 2
    (quick, _, first), (late, _, second) = sorted(boxes[BACKWARD], key=lambda box: box[1])
    assert quick == late and second + 0.5 == pytest.approx(5 * (first + 0.5), rel=0.01)


def test_a_large_run_has_a_row_for_each_pipeline_rank(tmp_path):
    ranks = "rank,pp,tp,dp\n" + "".join(f"{r},{r % 2},{r // 2 % 8},{r // 16}\n" for r in range(64))
    words, _ = picture(tmp_path, write(tmp_path / "run", ranks=ranks))
    assert [word for word in words if word.startswith(("pp ", "dp ", "tp "))] == ["pp 0", "pp 1"]


@pytest.mark.parametrize(("change", "said"), [
    ({"kind": "layer"}, "{run}: a run of kind layer; only runs of kind training have slots"),
    ({"jobs": "name,kind,rank,start_s,end_s,queued_s,bytes\n"}, "{run}/jobs.csv has no slots; run with --jobs stage or --jobs all"),
])
def test_a_run_without_slots_is_refused(tmp_path, change, said):
    run = write(tmp_path / "run", **change)
    done = gantt(run, "--out", tmp_path / "step.svg")
    assert (done.returncode, done.stderr) == (2, f"gantt.py: error: {said.format(run=run)}\n")

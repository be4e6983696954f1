"""Timelines as Perfetto's own trace_processor reads them, asked in SQL, against the runs' tables.

A developer's check: tests/probe/trace_processor/install fetches it (npm), or RAILYARD_TRACE_PROCESSOR names a folder that has it. Needs node.
"""

import gzip
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from platform_runs import ROOT, TINY, rows, succeed, summary, tiny
from timelines import ns

FOLDER = pathlib.Path(os.environ.get("RAILYARD_TRACE_PROCESSOR", ROOT / "tests" / "probe" / "trace_processor" / "installed"))
MISSING = [
    *([] if shutil.which("node") else ["node"]),
    *([] if (FOLDER / "trace_processor.wasm").exists() else [f"trace_processor in {FOLDER} (tests/probe/trace_processor/install)"]),
]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}")

SCENARIOS = {
    "pcie": ("plx_box", TINY.replace("count: 1", "count: 3")),
    "per_layer": ("plx_box", TINY.replace("count: 1", "count: 2") + "  handoff: per_layer\n"),
    "nvlink": ("dgx_h100", TINY),
    "fluid": ("plx_box", TINY + "fabric: {fidelity: fluid}\n"),
    "collective": ("dgx_h100", "workload: {kind: collective, op: all_reduce, ranks: 4, min_bytes: 1024, max_bytes: 4194304}\n"),
}

NS_PER_S = 1e9
QUERIES = {
    "trouble": "select name, value from stats where severity in ('error', 'data_loss') and value != 0",
    "slices": "select count(*) n from slice",
    "arrows": """
        select a.category origin, b.category target, min(b.ts - a.ts - a.dur) least, max(b.ts - a.ts - a.dur) most, count(*) n
        from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id group by 1, 2""",
    "link_use": """
        with points as (
          select t.name, c.value, c.ts, lead(c.ts, 1, (select max(ts + dur) from slice)) over (partition by t.id order by c.ts) until
          from counter c join process_counter_track t on c.track_id = t.id where t.name glob '* use %')
        select replace(name, ' use %', '') name, sum(value * (until - ts)) / 1e11 busy_s from points group by 1""",
    "requests": """
        select s.name, count(*) n, sum(s.dur) ns from slice s where s.category = 'phase' group by 1""",
    "jobs": """
        select s.name, s.category kind, s.ts, s.dur, extract_arg(s.arg_set_id, 'args.bytes') bytes
        from slice s join thread_track tt on s.track_id = tt.id join thread using (utid) join process p using (upid)
        where p.name = 'jobs'""",
    "tasks": """
        select count(*) n from slice s join thread_track tt on s.track_id = tt.id join thread t using (utid)
        where t.name glob 'stream *'""",
    "messages": """
        select s.category class, count(*) n, sum(extract_arg(s.arg_set_id, 'args.bytes')) bytes
        from slice s join thread_track tt on s.track_id = tt.id join thread t using (utid) where t.name glob '* messages*' group by 1""",
    # Of collectives in streams: members of one have its name and what it is part of in common, and the stage of their rank.
    "exposed": """
        with members as (
          select s.ts, s.ts + s.dur until, rtrim(substr(p.name, 1, instr(p.name, '.') - 1), '0123456789') side, max(s.ts) over (partition by rtrim(substr(p.name, 1, instr(p.name, '.') - 1), '0123456789'),
            substr(extract_arg(p.arg_set_id, 'chrome.process_label[0]'), 1, 8), s.name, extract_arg(s.arg_set_id, 'args.work')) entered
          from slice s join thread_track tt on s.track_id = tt.id join thread using (utid) join process p using (upid)
          where s.category = 'collective')
        select side, count(*) n, sum(until - entered) tp_ns, sum(entered - ts) tp_sync_ns from members group by side""",
}


def ask(trace, queries):
    """What trace_processor answers: {name: [row as a dictionary]}."""
    done = subprocess.run(["node", ROOT / "tests" / "probe" / "trace_processor" / "query.mjs", FOLDER, trace], input=json.dumps(queries),
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=SCENARIOS)
def run(request, tmp_path_factory):
    """A run's folder, and what trace_processor finds in its timeline."""
    platform, text = SCENARIOS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    succeed(platform, tiny(folder, text), "--out", folder / "out", "--timeline", "--quiet")
    return folder / "out", ask(folder / "out" / "timeline.json.gz", QUERIES)


def test_nothing_is_lost_on_import(run):
    assert run[1]["trouble"] == []
    assert run[1]["slices"][0]["n"] > 0


def test_files_of_ranks_are_read_as_well(run):
    if not (run[0] / "requests.csv").exists():
        pytest.skip("one kind is enough")
    subprocess.run([ROOT / "scripts" / "kineto.py", run[0]], check=True, capture_output=True)
    path = run[0] / "kineto" / "rank0.json.gz"
    written = [event for event in json.loads(gzip.open(path).read())["traceEvents"] if event["ph"] == "X"]
    found = ask(path, {name: QUERIES[name] for name in ["trouble", "slices"]})
    assert found == {"trouble": [], "slices": [{"n": len(written)}]}


def test_jobs_are_those_of_the_table(run):
    found, table = run[1]["jobs"], rows(run[0] / "jobs.csv")
    assert len(found) == len(table) > 0
    times = {job["name"]: (job["ts"], job["ts"] + job["dur"]) for job in found}
    assert times == {job["name"]: (ns(job["start_s"]), ns(job["end_s"])) for job in table}


def test_tasks_of_streams_are_all_there(run):
    assert run[1]["tasks"][0]["n"] == summary(run[0])["simulator"]["jobs"]


def test_arrows_join_what_belongs_together(run):
    """trace_processor has bound each to the slices that it should, which it does by track and time alone."""
    arrows = {(a["origin"], a["target"]): a for a in run[1]["arrows"]}
    moves, runs = {"tp", "pp", "kv"}, {"kernel", "collective"}
    for origin, target in arrows:
        assert target in {"transfer": moves}.get(origin, runs | {"transfer"}), (origin, target)
        assert origin in moves | runs | {"transfer"}
    for (origin, _), arrow in arrows.items():
        assert (arrow["least"], arrow["most"]) == (0, 0), origin  # an arrow takes no time: it ends at the instant at which it begins
    if summary(run[0])["kind"] == "disaggregated_prefill":
        posted = {target: arrow["n"] for (origin, target), arrow in arrows.items() if origin == "transfer"}
        assert posted == {t["class"]: t["messages"] for t in summary(run[0])["traffic"] if t["class"] != "tp"}


def test_use_of_links_is_the_tables(run):
    busy = {f"{row['name']} {row['direction']}": float(row["busy_s"]) for row in rows(run[0] / "links.csv")}
    if summary(run[0])["fidelity"] == "fluid":
        assert run[1]["link_use"] == []
        return
    assert {use["name"] for use in run[1]["link_use"]} == {name for name, busy_s in busy.items() if busy_s > 0}
    for use in run[1]["link_use"]:
        assert use["busy_s"] == pytest.approx(busy[use["name"]], rel=1e-4)


def test_requests_are_those_of_the_table(run):
    if not (run[0] / "requests.csv").exists():
        assert run[1]["requests"] == []
        return
    table = rows(run[0] / "requests.csv")
    phases = {phase["name"]: phase for phase in run[1]["requests"]}
    assert phases["prefill"]["n"] == phases["decode"]["n"] == len(table)
    prefill_ns = sum(int(row["first_token_ns"]) - int(row["prefill_begin_ns"]) for row in table)
    assert phases["prefill"]["ns"] == pytest.approx(prefill_ns, rel=0, abs=len(table))


def test_messages_are_those_of_the_summary(run):
    traffic = {t["class"]: (t["messages"], t["bytes"]) for t in summary(run[0])["traffic"] if t["messages"]}
    assert {m["class"]: (m["n"], m["bytes"]) for m in run[1]["messages"]} == traffic


def test_exposed_communication_is_the_summarys(run):
    """From the slices of collectives in compute streams alone: a mean over the ranks of prefill, and of decode."""
    result = summary(run[0])
    if result["kind"] != "disaggregated_prefill":
        pytest.skip("only where kernels and collectives take turns")
    exposed = {"prefill": result["metrics"]["exposed_s"], "decode": result["metrics"]["decode"]["exposed_s"]}
    for found in run[1]["exposed"]:
        ranks, rounding_s = len(result["memory"][found["side"]]), found["n"] / NS_PER_S  # slices are in whole ns
        for key in ["tp", "tp_sync"]:
            assert found[f"{key}_ns"] / NS_PER_S == pytest.approx(exposed[found["side"]][key] * ranks, rel=0, abs=rounding_s)
    assert {found["side"] for found in run[1]["exposed"]} == set(exposed)

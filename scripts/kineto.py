#!/usr/bin/python3
"""Writes the timeline of a run in the format of PyTorch's profiler (Kineto), one file per rank: DIR/rank0.json.gz, ...

Use it with readers of such files, for example HolisticTraceAnalysis (HTA). Ranks are numbered through all groups, in the order of the
timeline. The file of a rank has

  kernels       the kernels of the rank. Their names have no layer number, so that equal kernels are summed
  collectives   kernels named ncclDevKernel_[operation]_[algorithm]_[protocol], beginning when the rank entered
  transfers     gpu_memcpy from posting to landing, by traffic class; overlapping transfers are on separate streams
  the host      a launch of each kernel at the instant at which it begins (the model has no host), and a ProfilerStep#[k] for each chunk
                or decode step in which the rank has work. HTA ignores the last step of a trace, so the file ends with an empty step

Times are whole microseconds. Both ends are rounded down, so slices that do not overlap in the run do not overlap in the file.
"""

import collections
import gzip
import json
import pathlib
import re

from lib import run_files, timeline_file
from lib.command_line import Parser, reason_of

HOST_PID = 10_000  # above those of GPUs, which go by their number on the server
HOST_THREAD = 1
RANK = re.compile(r".*\d rank .*")  # a GPU's process, by its name
FIRST_STREAM = 7  # as PyTorch numbers them; HTA takes stream 0 for the host's
COLLECTIVES = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast",
    "all_to_all": "SendRecv",
    "send_recv": "SendRecv",
}


class Rank:
    """What a GPU's process of the timeline holds: (from, until, slice) in us, by track."""

    def __init__(self, name):
        self.gpu, _, self.label = name.partition(" rank ")
        self.tracks = collections.OrderedDict()


def whole_us(event):
    """Both ends of a slice; in the file they are decimals with three places."""
    begin_ns = round(event["ts"] * 1000)
    return begin_ns // 1000, (begin_ns + round(event["dur"] * 1000)) // 1000


def read(path):
    """The ranks of a timeline."""
    ranks, names, latest = {}, {}, {}
    for event in timeline_file.events(path, "MXf"):
        process, kind = event["pid"], event["ph"]
        if kind == "M" and event["name"] == "process_name" and RANK.fullmatch(event["args"]["name"]):
            ranks[process] = Rank(event["args"]["name"])
        if process not in ranks or kind == "M" and event["name"] != "thread_name":
            continue
        track = event.get("tid")
        if kind == "M":
            names[track] = event["args"]["name"]
            continue
        if track not in names:
            raise run_files.Error(path, f"an event on track {track}, which has no name")
        is_message = " messages" in names[track]
        if kind == "X" and is_message:
            latest[track] = event
        elif kind == "X" and event["cat"] not in ("transfer", "host", "single kernel"):
            ranks[process].tracks.setdefault(names[track], []).append((*whole_us(event), checked(path, event)))
        elif kind == "f" and is_message:  # an arrow leads to it: a transfer's, not a collective's
            if track not in latest:
                raise run_files.Error(path, f"an arrow to track {track}, which has no message yet")
            ranks[process].tracks.setdefault(names[track], []).append((*whole_us(latest[track]), checked(path, latest[track])))
    return list(ranks.values())


def checked(path, event):
    """An event that device_event() understands."""
    arguments = event.get("args", {})
    if "operation" in arguments:
        if arguments["operation"] not in COLLECTIVES:
            raise run_files.Error(path, f"unknown collective {run_files.shown(arguments['operation'])}")
    elif event["cat"] != "kernel" and "bytes" not in arguments:
        raise run_files.Error(path, f"a transfer without bytes: {run_files.shown(event['name'])}")
    return event


def steps(rank):
    """(from, until) of each change of what a rank's tasks are part of, the last one empty."""
    tasks = sorted((e for track in rank.tracks.values() for e in track), key=lambda e: e[0])
    begins, work = [], None
    for begin, _, event in tasks:
        own = event.get("args", {}).get("work")
        if own is not None and own != work:
            begins.append(begin)
            work = own
    end = max((until for _, until, _ in tasks), default=0) + 1
    begins = [min([begin for begin, _, _ in tasks], default=0), *begins[1:], end]
    return list(zip(begins, [*begins[1:], end + 1]))


def device_event(event):
    """Category, name and further arguments of what runs on the device."""
    arguments = event.get("args", {})
    if "operation" in arguments:
        operation = COLLECTIVES[arguments["operation"]]
        name = f"ncclDevKernel_{operation}_{arguments['algorithm'].upper()}_{arguments['protocol'].upper()}"
        more = {
            "Collective name": arguments["operation"],
            "In msg nelems": arguments["bytes"],
            "Out msg nelems": arguments["bytes"],
            "dtype": "Byte",
            "Group size": arguments["ranks"],
        }
        return "kernel", name, {**more, "label": event["name"]}
    if event["cat"] == "kernel":
        return "kernel", re.sub(r" L?\d+$", "", event["name"]), {"label": event["name"]}
    return "gpu_memcpy", f"Memcpy PtoP {event['cat']}", {"bytes": arguments["bytes"], "to": event["name"]}


def events(rank):
    """Metadata first: HTA takes the first event of a file for none at all."""
    device = int(re.search(r"\d+$", rank.gpu).group())

    def metadata(what, pid, tid, **values):
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": values}

    for pid, name, label, order in [(HOST_PID, "host", "CPU", HOST_PID), (device, rank.gpu, f"GPU {device}", 5_000_000 + device)]:
        yield metadata("process_name", pid, 0, name=name)
        yield metadata("process_labels", pid, 0, labels=label)
        yield metadata("process_sort_index", pid, 0, sort_index=order)
    yield metadata("thread_name", HOST_PID, HOST_THREAD, name="launches")
    for stream, name in enumerate(rank.tracks, FIRST_STREAM):
        yield metadata("thread_name", device, stream, name=f"stream {stream} {name.removeprefix('stream ')}")

    host = {"ph": "X", "pid": HOST_PID, "tid": HOST_THREAD}
    for number, (begin, until) in enumerate(steps(rank)):
        yield {**host, "cat": "user_annotation", "name": f"ProfilerStep#{number}", "ts": begin, "dur": until - begin}
    correlation = 0
    for stream, track in enumerate(rank.tracks.values(), FIRST_STREAM):
        for begin, until, event in track:
            correlation += 1
            link = {"External id": correlation, "correlation": correlation}
            category, name, more = device_event(event)
            launch = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernel"
            yield {**host, "cat": "cuda_runtime", "name": launch, "ts": begin, "dur": 0, "args": link}
            arguments = {**link, "device": device, "stream": stream, **more}
            yield {"ph": "X", "cat": category, "name": name, "pid": device, "tid": stream, "ts": begin, "dur": until - begin, "args": arguments}


def write(path, rank, number, ranks):
    head = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": number, "world_size": ranks},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "traceName": f"{rank.gpu} rank {rank.label}",
    }
    # Not compact: HTA looks for the rank in a line of its own, with a space behind the colon.
    text = json.dumps(head, indent=2).removesuffix("\n}")
    lines = ",\n".join(json.dumps(event) for event in events(rank))
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        packed.write(f'{text},\n  "traceEvents": [\n{lines}\n]}}\n'.encode())


def main(arguments=None):
    parser = Parser(description=__doc__)
    parser.add_argument("run", type=pathlib.Path, metavar="RUN", help="--out directory of a run with --timeline")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="folder for the files of ranks, which are replaced (default RUN/kineto)")
    options = parser.parse_args(arguments)
    timeline = options.run / "timeline.json.gz"
    out = options.out or options.run / "kineto"
    try:
        ranks = read(timeline)
    except run_files.Error as error:
        parser.error(str(error))
    if not any(rank.tracks for rank in ranks):
        parser.error(f"{timeline}: no rank of it has a kernel or transfer")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob("rank*.json.gz"):
            old.unlink()
        for number, rank in enumerate(ranks):
            write(out / f"rank{number}.json.gz", rank, number, len(ranks))
    except OSError as error:
        parser.error(f"{out}: {reason_of(error)}")
    print(f"{out}: {len(ranks)} ranks")


if __name__ == "__main__":
    main()

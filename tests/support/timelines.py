"""Reads a timeline as a viewer does, for tests of timelines."""

import collections
import gzip
import json

End = collections.namedtuple("End", "device track slice")


class Timeline:
    """Events of a file: slices by (process, track), times in whole nanoseconds. A GPU's process goes by its name alone."""

    def __init__(self, folder):
        with gzip.open(folder / "timeline.json.gz", "rt") as stream:
            self.events = json.load(stream)["traceEvents"]
        names = self.metadata("process_name", "pid")
        self.ranks = {name.split()[0]: name.split(" rank ")[1] for name in names.values() if " rank " in name}
        processes = {pid: name.split()[0] for pid, name in names.items()}
        tracks = self.metadata("thread_name", "pid", "tid")
        self.slices, self.kernels = collections.defaultdict(list), collections.defaultdict(list)  # kernels are within slices
        for event in self.events:
            if event["ph"] == "X":
                event["begin_ns"] = round(event["ts"] * 1000)
                event["end_ns"] = event["begin_ns"] + round(event["dur"] * 1000)
                found = self.kernels if event["cat"] == "single kernel" else self.slices
                found[processes[event["pid"],], tracks[event["pid"], event["tid"]]].append(event)
        self.counters = collections.defaultdict(list)
        for event in self.events:
            if event["ph"] == "C":
                [(series, value)] = event["args"].items()
                self.counters[processes[event["pid"],], f"{event['name']} {series}"].append((round(event["ts"] * 1000), value))
        self.track_of = {(event["pid"], event["tid"]): name for name, events in self.slices.items() for event in events}

    def metadata(self, name, *keys):
        found = [event for event in self.events if event["ph"] == "M" and event["name"] == name]
        names = {tuple(event[key] for key in keys): event["args"]["name"] for event in found}
        assert len(names) == len(found)
        return names

    def arrows(self):
        """Arrows as (from, to); each end is a slice with its process and track."""
        ends = {"s": {}, "f": {}}
        for event in self.events:
            if event["ph"] in ends:
                device, track = self.track_of[event["pid"], event["tid"]]
                at = round(event["ts"] * 1000)
                begun = [s for s in self.slices[device, track] if s["begin_ns"] == at]
                assert begun and event["id"] not in ends[event["ph"]]
                ends[event["ph"]][event["id"]] = End(device, track, begun[-1])
        assert set(ends["s"]) == set(ends["f"])
        return [(ends["s"][arrow], ends["f"][arrow]) for arrow in ends["s"]]


def ns(text):
    """Whole nanoseconds of exact decimal seconds."""
    seconds, fraction = text.split(".")
    return int(seconds) * 10**9 + int(fraction[:9])

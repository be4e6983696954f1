"""Charts of one run, from the output files of the executable: pipeline, machine and kernels."""

import collections
import heapq
import pathlib
import re
from dataclasses import dataclass

from lib import run_files
from lib.summaries import IN_PHASE

from .charts import Chart, Heat, Panel, Table

MOST_BARS = 1500
MOST_HELD = 30000  # of jobs.csv at a time: it may have millions
MOST_DEVICES = 400
MOST_SIDE = 24  # of a matrix
PHASES = {
    "P": "prefill",
    "TP": "prefill",
    "PP": "prefill",
    "Handoff": "prefill",
    "D": "decode",
    "Layer": "layer",
}  # by first words of names
OTHER_PHASE = "all jobs"
WORKS = ("compute", "pp", "kv", "tp")


@dataclass
class Bar:
    """A job: `work` is compute, tp, pp or kv; times in seconds."""

    lane: str
    name: str
    work: str
    begin_s: float
    end_s: float


@dataclass
class Pipeline(Chart):
    """The activity of each rank over time: its kernels, and below them the transfers that it sends."""

    lanes: list[str]
    bars: list[Bar]

    def table(self) -> Table:
        return Table(
            ["rank", "job", "kind", "start, s", "end, s"],
            [[bar.lane, bar.name, bar.work, bar.begin_s, bar.end_s] for bar in self.bars],
        )


@dataclass
class Device:
    """A device in the drawing: column (from 0, in widths of a device) and row (level of the machine)."""

    name: str
    kind: str
    column: float
    row: int


@dataclass
class Connection:
    """A link with its utilisation in both directions; or the limit of far peers, which has only `tx`."""

    name: str
    ends: tuple[str, str]
    gb_per_s: float
    tx: float
    rx: float
    gigabytes: float
    in_phases: dict[str, float]  # the busier direction's share of each phase that metrics are about

    @property
    def utilisation(self) -> float:
        return max(self.tx, self.rx)


@dataclass
class Topology(Chart):
    """The machine and the utilisation of its links. Devices are left out if there are too many to draw."""

    devices: list[Device]
    connections: list[Connection]
    undrawn: list[Connection]  # in the table only: sockets' memories, and far peers, who are joined by no link

    def table(self) -> Table:
        busiest = sorted(self.connections + self.undrawn, key=lambda link: -link.utilisation)
        return Table(
            ["link", "from", "to", "GB/s", "tx utilisation", "rx utilisation"]
            + [f"{phase} utilisation" for phase in (busiest[0].in_phases if busiest else ())]
            + ["GB moved"],
            [[link.name, *link.ends, link.gb_per_s, link.tx, link.rx, *link.in_phases.values(), link.gigabytes] for link in busiest],
        )


def _job_name(text: str) -> str:
    if not re.match(r"[A-Za-z]", text):
        raise ValueError(f"{run_files.shown(text)} is no job's name")
    return text


JOBS = {"name": _job_name, "kind": str, "rank": run_files.whole, "start_s": run_files.number, "end_s": run_files.number}
LINKS = {
    "name": str,
    "direction": str,
    "bytes": run_files.whole,
    "gb_per_s": run_files.number,
    "utilisation": run_files.number,
    IN_PHASE + "*": run_files.number,
}
PAIR = {
    "measure": str,
    "from": run_files.whole,
    "to": run_files.whole,
    "latency_us": run_files.maybe(run_files.number),
    "gb_per_s": run_files.maybe(run_files.number),
}
MACHINE = {
    "devices": [{"name": str, "kind": str}],
    "links": [{"name": str, "direction": str, "from": str, "to": str}],
    "groups": [{"name": str, "gpu": str, "peak": {"hbm_gb_per_s": float, "tflops": {None: float}}}],
}


def machine_of(files: pathlib.Path) -> dict:
    return run_files.json_file(files / "machine.json", MACHINE, "the machine of a run")


def _first(bars: list[Bar]) -> list[Bar]:
    return heapq.nsmallest(MOST_BARS, bars, key=lambda bar: (bar.begin_s, bar.name))


def pipelines(files: pathlib.Path) -> list[Pipeline]:
    """One pipeline for each phase; none without jobs.csv, or if the kind has no pipeline."""
    path = files / "jobs.csv"
    if not path.exists():
        return []
    phases: dict[str, list[Bar]] = {}
    counts: collections.Counter[str] = collections.Counter()
    computing = set()
    for row in run_files.table(path, JOBS, "the jobs of a run"):
        name, work = row["name"], row["kind"]
        first = re.match(r"[A-Za-z]+", name)[0]
        phase = PHASES.get(first, OTHER_PHASE)
        if work not in WORKS or (work == "tp" and phase != "layer"):  # elsewhere they lie inside compute
            continue
        if work == "compute":
            computing.add(phase)
        bar = Bar(f"rank {row['rank']}", name, work, row["start_s"], row["end_s"])
        bars = phases.setdefault(phase, [])
        bars.append(bar)
        counts[phase] += 1
        if len(bars) == MOST_HELD:
            bars[:] = _first(bars)
    charts = []
    for phase, bars in phases.items():
        if phase not in computing:
            continue
        shown = _first(bars)
        lanes = sorted({bar.lane for bar in shown}, key=lambda lane: int(lane.split()[1]))
        note = f"The first {len(shown)} of {counts[phase]} jobs." if len(shown) < counts[phase] else ""
        charts.append(Pipeline(f"pipeline-{phase.replace(' ', '-')}", f"Pipeline: {phase}", lanes, shown, note=note))
    return charts


# Levels of a machine, from its hosts down to its network; devices of unknown kinds come last.
LEVELS = ["host_memory", "root_complex", "plx", "gpu", "nvswitch", "network_switch"]


def _level(kind: str) -> int:
    kind = "gpu" if kind == "nic" else kind
    return LEVELS.index(kind) if kind in LEVELS else len(LEVELS)


UNDRAWN = ("Far_Peers_", "Host_Memory_")


def _placed(kinds: dict[str, str], connections: list[Connection]) -> list[Device]:
    """Positions of devices: GPUs and NICs side by side under their switches; every other device at the middle of its neighbours."""
    neighbours: dict[str, list[str]] = {name: [] for name in kinds}
    for link in connections:
        for one, other in (link.ends, link.ends[::-1]):
            neighbours[one].append(other)
    levels = {name: _level(kind) for name, kind in kinds.items()}
    leaves = [name for name in kinds if levels[name] == LEVELS.index("gpu")]
    network = [name for name in kinds if levels[name] == LEVELS.index("network_switch")]
    spines = [name for name in network if not any(other in leaves for other in neighbours[name])]
    levels |= dict.fromkeys(spines, LEVELS.index("network_switch") + 1)
    order = {name: i for i, name in enumerate(kinds)}
    server = {name: name.partition(".")[0] for name in kinds}
    servers = list(dict.fromkeys(server.values()))

    def parent(name: str) -> int:
        above = [order[other] for other in neighbours[name] if levels[other] < levels[name]]
        return min(above, default=len(order))

    leaves.sort(key=lambda name: (servers.index(server[name]), parent(name), order[name]))
    columns, last, column = {}, None, 0.0
    for name in leaves:
        column += 0 if last is None else 1 if server[name] == server[last] else 2
        columns[name] = column
        last = name
    for level in (2, 1, 0, 4, 5, 6):  # away from the leaves, each from what is placed already
        here = [name for name in kinds if levels[name] == level]
        wished = {}
        for name in here:
            known = [columns[other] for other in neighbours[name] if other in columns]
            inside = [columns[other] for other in leaves if server[other] == server[name]] or list(columns.values())
            wished[name] = sum(known or inside) / len(known or inside) if known or inside else 0.0
        if level == LEVELS.index("nvswitch"):  # each reaches every GPU: over the whole width
            for own in {server[name] for name in here}:
                of_server = [name for name in here if server[name] == own]
                inside = [columns[leaf] for leaf in leaves if server[leaf] == own]
                step = (max(inside) - min(inside)) / len(of_server)
                wished |= {name: min(inside) + (i + 0.5) * step for i, name in enumerate(of_server)}
        here.sort(key=lambda name: (wished[name], order[name]))
        _spread(here, wished)
        columns |= wished
    least = min(columns.values())
    return [Device(name, kind, columns[name] - least, levels[name]) for name, kind in kinds.items()]


def _spread(names: list[str], wished: dict[str, float]) -> None:
    """Moves neighbours with the same position apart by one width, around the mean of their positions."""
    blocks: list[list[str]] = []
    centre: list[float] = []
    for name in names:
        blocks.append([name])
        centre.append(wished[name])
        while len(blocks) > 1 and centre[-1] - centre[-2] < (len(blocks[-1]) + len(blocks[-2])) / 2:
            joined = blocks[-2] + blocks[-1]
            middle = (centre[-2] * len(blocks[-2]) + centre[-1] * len(blocks[-1])) / len(joined)
            blocks[-2:], centre[-2:] = [joined], [middle]
    for block, middle in zip(blocks, centre):
        for i, name in enumerate(block):
            wished[name] = middle + i - (len(block) - 1) / 2


def topology(files: pathlib.Path) -> Topology | None:
    path = files / "links.csv"
    if not (files / "machine.json").exists() or not path.exists():
        return None
    machine = machine_of(files)
    kinds = {device["name"]: device["kind"] for device in machine["devices"]}

    def device(end: str) -> str:
        name = end
        while name not in kinds:
            if "." not in name:
                raise run_files.Error(files / "machine.json", f"links: {end} is at no device")
            name = name[: name.rindex(".")]
        return name

    ends = {}
    for link in machine["links"]:
        if link["direction"] == "both":
            one, other = link["from"].split()
            ends[link["name"]] = device(one), device(other)
        elif link["direction"] == "tx":
            ends[link["name"]] = device(link["from"]), device(link["to"])
    directions = {(row["name"], row["direction"]): row for row in run_files.table(path, LINKS, "the links of a run")}
    connections = []
    for name, pair in ends.items():
        tx, rx = directions.get((name, "tx")) or directions.get((name, "both")), directions.get((name, "rx"), {})
        if tx is None:
            raise run_files.Error(path, f"has no row of {name} tx, which machine.json has")
        moved = (tx["bytes"] + rx.get("bytes", 0)) * 1e-9
        use = {key.removeprefix(IN_PHASE): max(tx[key], rx.get(key, 0.0)) for key in tx if key.startswith(IN_PHASE)}
        connections.append(Connection(name, pair, tx["gb_per_s"], tx["utilisation"], rx.get("utilisation", 0.0), moved, use))
    if len(kinds) > MOST_DEVICES:
        return Topology("links", "Links", [], connections, [], note=f"{len(kinds)} devices are too many to draw.")
    undrawn = [link for link in connections if link.name.startswith(UNDRAWN)]
    connections = [link for link in connections if link not in undrawn]
    linked = {end for link in connections for end in link.ends}
    drawn = {name: kind for name, kind in kinds.items() if name in linked}
    note = "" if len(drawn) == len(kinds) else "Devices without a link, such as hosts' memory, are left out."
    return Topology("links", "Links by utilisation", _placed(drawn, connections), connections, undrawn, note=note)


PAIRS = {"unidirectional": "Bandwidth one way", "bidirectional": "Bandwidth both ways", "latency": "Latency"}


def matrices(files: pathlib.Path) -> list[Heat]:
    """The p2p matrix over all pairs of GPUs, one chart for each measure."""
    path = files / "p2p.csv"
    if not path.exists():
        return []
    pairs: dict[str, dict[tuple[object, object], tuple[float, int | None]]] = {}
    for row in run_files.table(path, PAIR, "the copies of a run"):
        if row["measure"] in PAIRS and row["from"] != row["to"]:
            value = row["latency_us" if row["measure"] == "latency" else "gb_per_s"]
            if value is None:
                raise run_files.Error(path, f"no value of {row['measure']} from {row['from']} to {row['to']}")
            pairs.setdefault(row["measure"], {})[row["from"], row["to"]] = (value, None)
    found = []
    for measure, cells in pairs.items():
        froms, tos = ([*dict.fromkeys(pair[i] for pair in cells)] for i in (0, 1))
        if max(len(froms), len(tos)) > MOST_SIDE:
            continue
        unit, note = "us" if measure == "latency" else "GB/s", "Places in the list of GPUs. A GPU with itself is in p2p.csv."
        chart = Heat(
            f"pairs-{measure}",
            f"{PAIRS[measure]}, pair by pair",
            unit,
            measure != "latency",
            "from",
            "to",
            sorted(froms),
            sorted(tos),
            [Panel("", cells)],
            marks_best=False,
            note=note,
        )
        found.append(chart)
    return found

#!/usr/bin/python3
"""Draws a part of a run's timeline as a picture for a page or a paper, with one track below the other as in ui.perfetto.dev.

  build/bin/plx_box SCENARIO --out out/plx --timeline
  scripts/draw_timeline.py out/plx timeline.png --window 57.2ms,58.8ms \\
      --track '*gpu0 rank *: stream *' --track '*: PLX_Uplink_P[0] tx' --track '*: PLX_Uplink_P[0] tx use %'

A track is PROCESS: TRACK, or PROCESS: COUNTER, as in docs/waveforms.md; --list prints the tracks of the run. In a glob, * matches
anything; all other characters match themselves. Names of slices are drawn if there is room. Arrows are those of the file.
"""

import argparse
import pathlib
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import timeline_file
from command_line import Parser, one_line

try:
    from comparing.tables import UNITS as TIME_UNITS
    from reporting import figure_style as style
except ImportError as missing:
    sys.exit(f"draw_timeline.py: error: {missing}; it needs the Debian packages python3-matplotlib and python3-yaml")

MOST_TRACKS = 60
LOOKS = {"kernel": "compute", "collective": "tp", "tp": "tp", "pp": "pp", "kv": "kv"}  # by category, as in reports
UNITS = {"": 1.0, "ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}  # in us, the file's unit
WIDTH, ROW, LEFT, RIGHT = 12.0, 0.24, 2.9, 0.5  # inches: the figure, a track, the names, the counters' largest values
LETTER = 0.062
DPI = 110

Arrows = list[list[tuple[float, str]]]  # the instants and tracks that each one leads through


class Error(Exception):
    """Bad input, in words for the user."""


@dataclass
class Track:
    """Slices with their begin, end, name and look, or samples of a counter."""

    slices: list[tuple[float, float, str, str]] = field(default_factory=list)
    samples: list[tuple[float, float]] = field(default_factory=list)


def instants(text: str) -> tuple[float, float]:
    match = re.fullmatch(r"([\d.]+)(ns|us|ms|s|),([\d.]+)(ns|us|ms|s|)", text)
    try:
        begin, end = (float(match[i]) * UNITS[match[i + 1]] for i in (1, 3))
    except (TypeError, ValueError):
        begin, end = 0, 0
    if not begin < end:
        raise argparse.ArgumentTypeError(f"'{text}' is not T0,T1 in microseconds or with a unit, as 10us,2ms")
    return begin, end


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("run", type=pathlib.Path, metavar="DIR", help="the --out directory of a run with --timeline")
    parser.add_argument("picture", type=pathlib.Path, nargs="?", metavar="FILE.png", help="the picture, .png or .svg")
    parser.add_argument("--window", type=instants, metavar="T0,T1", help="part of the run, for example 10us,2ms (default: the whole run)")
    parser.add_argument("--track", action="append", metavar="GLOB", help="draw matching tracks, in the order of these options; repeatable (default: all)")
    parser.add_argument("--list", action="store_true", help="print the names of all tracks")
    options = parser.parse_args(arguments)
    if not options.picture and not options.list:
        parser.error("give FILE.png, or --list")
    return options


def read(run: pathlib.Path) -> list[dict]:
    return list(timeline_file.events(run / timeline_file.FILE if run.is_dir() else run))


def tracks_of(events: Sequence[dict]) -> tuple[dict[str, Track], Arrows]:
    """Tracks by their names, process after process in the file's order, and arrows."""
    process, thread, order = {}, {}, {}
    for event in events:
        if event["ph"] == "M":
            key, what = (event["pid"], event.get("tid")), event["name"]
            if what == "process_name":
                process[event["pid"]] = event["args"]["name"]
            elif what == "thread_name":
                thread[key] = event["args"]["name"]
            elif what == "process_sort_index":
                order[event["pid"]] = event["args"]["sort_index"]
    found: dict[tuple[int, str], Track] = defaultdict(Track)
    arrows = defaultdict(list)
    for event in events:
        if event["ph"] == "M":
            continue
        pid, time = event["pid"], event["ts"]
        name = thread.get((pid, event["tid"]), "") if event["ph"] != "C" else ""
        if event["ph"] == "X":
            look = LOOKS.get(event.get("cat", ""), "rest")
            found[pid, name].slices.append((time, time + event["dur"], event["name"], look))
        elif event["ph"] == "C":
            for series, value in event["args"].items():
                found[pid, f"{event['name']} {series}"].samples.append((time, value))
        elif event["ph"] in "stf":
            arrows[event["cat"], event["id"]].append(("stf".index(event["ph"]), time, f"{process.get(pid, pid)}: {name}"))
    for track in found.values():
        track.samples.sort(key=lambda sample: sample[0])
    ordered = sorted(found, key=lambda key: order.get(key[0], 0))
    return {f"{process.get(pid, pid)}: {name}": found[pid, name] for pid, name in ordered}, [
        [(time, name) for _, time, name in sorted(way)] for way in arrows.values()
    ]


def chosen(tracks: dict[str, Track], globs: Sequence[str] | None) -> list[str]:
    names = []
    for glob in globs or ["*"]:
        pattern = re.compile(re.escape(glob).replace(r"\*", ".*"))
        matches = [name for name in tracks if pattern.fullmatch(name)]
        if not matches:
            raise Error(f"--track {glob}: no such track; --list prints those of the run")
        names += [name for name in matches if name not in names]
    if len(names) > MOST_TRACKS:
        raise Error(f"{len(names)} tracks are more than a picture holds ({MOST_TRACKS}); choose some with --track")
    return names


def within(samples: Sequence[tuple[float, float]], begin: float, end: float) -> Iterator[tuple[float, float]]:
    """Those of a window, with the values that it begins and ends with."""
    last = next((value for time, value in reversed(samples) if time <= begin), 0.0)
    yield begin, last
    for time, value in samples:
        if begin < time < end:
            yield time, value
            last = value
    yield end, last


def end_of(track: Track, time: float) -> float:
    """Of the slice that begins at this instant: there the arrows that it sends begin."""
    return max((stop for start, stop, _, _ in track.slices if start == time), default=time)


def with_prefix(value: float) -> str:
    for scale, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= scale:
            return f"{value / scale:.3g}{prefix}"
    return f"{value:.3g}"


def draw_slices(axis: Any, row: int, track: Track, begin: float, end: float) -> None:
    letter = (end - begin) * LETTER / (WIDTH - LEFT - RIGHT)
    for start, stop, name, look in track.slices:
        if start > end or stop < begin or start < stop == begin:
            continue
        left, right = max(start, begin), min(stop, end)
        edge = style.COLORS[look] if left == right else "white"  # a slice without length is a line
        axis.broken_barh([(left, right - left)], (row - 0.4, 0.8), facecolor=style.COLORS[look], edgecolor=edge, linewidth=0.4)
        if len(name) * letter < right - left:
            axis.text((left + right) / 2, row, name, ha="center", va="center_baseline", color="white", fontsize=7)


def draw_counter(axis: Any, row: int, track: Track, begin: float, end: float) -> None:
    """In the row's height, with the largest value behind it."""
    points = list(within(track.samples, begin, end))
    most = max(value for _, value in points)
    heights = [row + 0.4 - 0.8 * value / (most or 1) for _, value in points]
    axis.fill_between([time for time, _ in points], heights, row + 0.4, step="post", color=style.COLORS["bubble"], linewidth=0)
    axis.annotate(with_prefix(most), (end, row), (4, 0), textcoords="offset points", va="center", fontsize=7, annotation_clip=False)


def draw_arrows(axis: Any, names: Sequence[str], tracks: dict[str, Track], arrows: Arrows, begin: float, end: float) -> None:
    look = {"arrowstyle": "->", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0, "connectionstyle": "arc3,rad=0.1"}
    for way in arrows:
        for (from_time, from_name), (to_time, to_name) in zip(way, way[1:]):
            if from_name in names and to_name in names and begin <= from_time and to_time <= end:
                origin = (end_of(tracks[from_name], from_time), names.index(from_name))
                axis.annotate("", (to_time, names.index(to_name)), origin, arrowprops=look)


def draw(options: argparse.Namespace, tracks: dict[str, Track], arrows: Arrows) -> None:
    names = chosen(tracks, options.track)
    last = max(max([stop for _, stop, _, _ in tracks[name].slices] + [time for time, _ in tracks[name].samples]) for name in names)
    begin, end = options.window or (0.0, last)
    height = ROW * len(names) + 0.6
    figure, axis = style.pyplot.subplots(figsize=(WIDTH, height))
    figure.subplots_adjust(left=LEFT / WIDTH, right=1 - RIGHT / WIDTH, top=1 - 0.1 / height, bottom=0.42 / height)
    for row, name in enumerate(names):
        draw_slices(axis, row, tracks[name], begin, end)
        if tracks[name].samples:
            draw_counter(axis, row, tracks[name], begin, end)
    draw_arrows(axis, names, tracks, arrows, begin, end)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(begin, end)
    factor, unit = next((factor, unit) for least, factor, unit in TIME_UNITS if end * 1e-6 >= least)
    axis.xaxis.set_major_formatter(lambda time, _: f"{time * 1e-6 * factor:.10g}")
    axis.set_xlabel(f"time, {unit}")
    style.plain(axis)
    axis.grid(visible=False, axis="y")
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
    figure.savefig(options.picture, dpi=DPI, metadata={"Date": None} if options.picture.suffix == ".svg" else None)
    style.pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    with one_line("draw_timeline.py", Error):
        tracks, arrows = tracks_of(read(options.run))
        if options.list:
            print("\n".join(tracks))
        if options.picture:
            draw(options, tracks, arrows)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader such as head may leave early
    main()

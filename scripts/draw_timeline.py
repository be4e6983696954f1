#!/usr/bin/python3
"""Draws a part of a run's timeline as a picture for a page or a paper, with one track below the other as in ui.perfetto.dev.

  build/bin/plx_box SCENARIO --out out/plx --timeline
  scripts/draw_timeline.py out/plx timeline.svg --window 57.2ms,58.8ms \\
      --track '*gpu0 rank *: stream *' --track '*: PLX_Uplink_P[0] tx' --track '*: PLX_Uplink_P[0] tx use %'

A track is PROCESS: TRACK, or PROCESS: COUNTER, as in docs/waveforms.md; --list prints the tracks of the run. Without --track, the
busiest 24 of more than 60 tracks are drawn. In a glob, * matches
anything; all other characters match themselves. Further tracks of messages that overlap (NAME 2, ...) are drawn only if there is
one in the window. Names of slices are drawn if there is room. Arrows are those of the file.
"""

import argparse
import pathlib
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lib import timeline_file
from lib.command_line import Parser, one_line

try:
    from comparing.tables import UNITS as TIME_UNITS
    from reporting import figures
    from reporting.draw import canvas, horizontal, words
    from reporting.markup import Element, Quantity, Scale, element, text_width
except ImportError as missing:
    sys.exit(f"draw_timeline.py: error: {missing}; it needs the Debian package python3-yaml")

MOST_TRACKS = 60
BUSIEST = 24  # without --track, where there are more than MOST_TRACKS
LOOKS = {"kernel": "compute", "collective": "tp", "tp": "tp", "pp": "pp", "kv": "kv"}  # by category, as in reports
UNITS = {"": 1.0, "ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}  # in us, the file's unit
WIDTH, ROW, VALUES = 1100.0, 24.0, 50.0  # the picture, a track, the counters' largest values
SMALL = 10  # letters of a slice

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
    parser.add_argument("picture", type=pathlib.Path, nargs="?", metavar="FILE.svg", help="the picture")
    parser.add_argument("--window", type=instants, metavar="T0,T1", help="part of the run, for example 10us,2ms (default: the whole run)")
    parser.add_argument("--track", action="append", metavar="GLOB", help="draw matching tracks, in the order of these options; repeatable (default: all)")
    parser.add_argument("--list", action="store_true", help="print the names of all tracks")
    options = parser.parse_args(arguments)
    if not options.picture and not options.list:
        parser.error("give FILE.svg, or --list")
    if options.picture and options.picture.suffix != ".svg":
        parser.error(f"{options.picture}: a picture is an .svg file; rsvg-convert makes a .png or .pdf of it")
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
        if event["ph"] == "M" or event.get("cat") == "single kernel":  # inside a bar of its task
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
    """Those of the globs, in their order; without globs all, or the busiest where a picture does not hold all."""
    if not globs and len(tracks) > MOST_TRACKS:
        busiest = sorted(tracks, key=lambda name: -sum(stop - start for start, stop, _, _ in tracks[name].slices))[:BUSIEST]
        return [name for name in tracks if name in busiest]
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


def is_idle(name: str, tracks: dict[str, Track], x: Scale) -> bool:
    """A further track of messages that overlap (NAME 2, ...), without one in the window."""
    further = re.fullmatch(r"(.*) \d+", name)
    return bool(further and further[1] in tracks and not any(start <= x.high and stop >= x.low for start, stop, _, _ in tracks[name].slices))


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


def drawn_slices(x: Scale, top: float, track: Track) -> Iterator[Element]:
    for start, stop, name, look in track.slices:
        if start > x.high or stop < x.low or start < stop == x.low:
            continue
        left, right = x(max(start, x.low)), x(min(stop, x.high))
        yield element("rect", x=left, y=top + 3, width=max(right - left - 0.5, 0.7), height=ROW - 6, class_=f"p-{look}")
        if text_width(name, SMALL) + 4 < right - left:
            yield words(name, (left + right) / 2, top + 15.5, "small inside", "middle")


def drawn_counter(x: Scale, top: float, track: Track) -> Iterator[Element]:
    """In the row's height, with the largest value behind it."""
    points = list(within(track.samples, x.low, x.high))
    most, base = max(value for _, value in points), top + ROW - 2
    steps = "".join(f"H{x(time):.1f}V{base - (ROW - 4) * value / (most or 1):.1f}" for time, value in points)
    yield element("path", d=f"M{x.start:.1f},{base:.1f}{steps}V{base:.1f}Z", class_="p-bubble")
    yield words(with_prefix(most), x.end + 5, top + 15.5, "small")


def drawn_arrows(x: Scale, names: Sequence[str], tracks: dict[str, Track], arrows: Arrows) -> Iterator[Element]:
    for way in arrows:
        for (from_time, from_name), (to_time, to_name) in zip(way, way[1:]):
            if from_name in names and to_name in names and x.low <= from_time and to_time <= x.high:
                left, right = x(end_of(tracks[from_name], from_time)), x(to_time)
                above, below = (ROW * (names.index(name) + 0.5) for name in (from_name, to_name))
                bend = (left + right) / 2 - 0.1 * (below - above)
                path = f"M{left:.1f},{above:.1f}Q{bend:.1f},{(above + below) / 2:.1f} {right:.1f},{below:.1f}"
                yield element("path", d=path, class_="arrow", marker_end="url(#head)")


def draw(options: argparse.Namespace, tracks: dict[str, Track], arrows: Arrows) -> None:
    names = chosen(tracks, options.track)
    last = max(max([stop for _, stop, _, _ in tracks[name].slices] + [time for time, _ in tracks[name].samples]) for name in names)
    begin, end = options.window or (0.0, last or 1.0)
    x = Scale(begin, end, max(map(text_width, names)) + 16, WIDTH - VALUES)
    names = [name for name in names if not is_idle(name, tracks, x)]
    bottom = ROW * len(names) + 4
    tip = element("path", d="M0,0L8,4L0,8Z", class_="head")
    marker = element("marker", tip, id="head", viewBox="0 0 8 8", refX=7, refY=4, markerWidth=8, markerHeight=8, orient="auto", markerUnits="userSpaceOnUse")
    drawing = canvas("timeline", f"Timeline of {len(names)} tracks", WIDTH, bottom + 42, element("defs", marker))
    factor, unit = next((factor * 1e-6, unit) for least, factor, unit in TIME_UNITS if end * 1e-6 >= least)
    scaled = Scale(begin * factor, end * factor, x.start, x.end)
    drawing.append(horizontal(scaled, Quantity(f"time, {unit}", 1.0), 0.0, bottom, 9))
    for row, name in enumerate(names):
        drawing.append(words(name, x.start - 8, ROW * row + 16, anchor="end"))
        drawing.extend(drawn_slices(x, ROW * row, tracks[name]))
        if tracks[name].samples:
            drawing.extend(drawn_counter(x, ROW * row, tracks[name]))
    drawing.extend(drawn_arrows(x, names, tracks, arrows))
    figures.write(options.picture, f"Timeline, {begin * factor:.10g} to {end * factor:.10g} {unit}", drawing)


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

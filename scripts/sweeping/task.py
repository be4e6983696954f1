#!/usr/bin/python3
"""The program of a task of a cluster. It runs the points of this task one after the other, and skips finished points.

  task.py DIRECTORY [INDEX]      the default of INDEX is SLURM_ARRAY_TASK_ID

DIRECTORY/INDEX.json lists the points. A file DIRECTORY/stop ends the task before its next point. SIGTERM and SIGINT end the task;
its current point is left to a later call.
"""

import contextlib
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib import runner, written  # noqa: E402  pylint: disable=wrong-import-position

STOP = "stop"
INTERRUPTED = 130


def write(path: pathlib.Path, points: list[runner.Point], directory: pathlib.Path, executables: pathlib.Path) -> None:
    """Writes the file of one task."""
    scenarios = list(dict.fromkeys(point.scenario for point in points))
    rows = [[point.name, point.platform, scenarios.index(point.scenario), point.overrides, point.options, point.limit_s] for point in points]
    content = {"directory": str(directory), "executables": str(executables), "scenarios": scenarios, "points": rows}
    written.text(path, json.dumps(content))


def run(folder: pathlib.Path, index: str) -> None:
    task = json.loads((folder / f"{index}.json").read_text(encoding="utf-8"))
    directory = pathlib.Path(task["directory"])
    points = [runner.Point(name, platform, task["scenarios"][scenario], overrides, tuple(options), limit_s=limit_s)
              for name, platform, scenario, overrides, options, limit_s in task["points"] if not (directory / name).exists()]
    if (folder / STOP).exists():
        return
    with contextlib.closing(runner.completed(points, directory, task["executables"], workers=1)) as ends:
        for _, result in ends:
            print(result.point.name, "interrupted" if result.interrupted else result.error or "done", flush=True)
            if result.interrupted or (folder / STOP).exists():
                return


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    index = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("SLURM_ARRAY_TASK_ID")
    if not 2 <= len(sys.argv) <= 3 or index is None:
        sys.exit("usage: task.py DIRECTORY [INDEX]")
    try:
        run(pathlib.Path(sys.argv[1]), index)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()

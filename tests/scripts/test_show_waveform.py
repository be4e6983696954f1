"""The waveform viewer's wrapper: its picture, and what it says when something is missing."""

import pathlib
import shutil
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "show_waveform"
TRACE = """$timescale 1 fs $end
$scope module railyard $end
$var wire 1 ! busy $end
$upscope $end
$enddefinitions $end
#0
$dumpvars
0!
$end
#4000000
1!
#9000000
0!
#10000000
"""
# The wave in orange, a colour that nothing else on the screen has.
VIEW = """[timestart] 0
[size] 1400 900
*-21.152003 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1
[color] 2
@28
railyard.busy
"""
ORANGE = b"\xff\x7f\x00"


def run(*arguments, **environment):
    return subprocess.run(
        ["/bin/bash", str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=environment or None,
    )


def test_usage_and_a_missing_trace(tmp_path):
    assert run().returncode == 2
    assert "usage: scripts/show_waveform" in run("--jpeg").stderr
    done = run(tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"show_waveform: {tmp_path}/trace.vcd: no such waveform (was the run made with --vcd?)\n"


def test_a_missing_viewer_names_its_package(tmp_path):
    (tmp_path / "trace.vcd").write_text(TRACE)
    done = run(tmp_path, PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "show_waveform: gtkwave is missing: apt-get install gtkwave\n")


def test_the_picture_shows_the_wave(tmp_path):
    for command, package in {"gtkwave": "gtkwave", "Xvfb": "xvfb", "convert": "imagemagick"}.items():
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed (Debian package {package})")
    (tmp_path / "trace.vcd").write_text(TRACE)
    (tmp_path / "trace.gtkw").write_text(VIEW)
    picture = tmp_path / "wave.png"
    done = run(tmp_path, "--png", picture)
    assert done.returncode == 0, done.stderr
    pixels = subprocess.run(
        ["convert", str(picture), "-depth", "8", "rgb:-"], check=True, capture_output=True
    ).stdout
    width, height = map(
        int, subprocess.run(["identify", "-format", "%w %h", str(picture)], check=True, capture_output=True).stdout.split()
    )
    assert len(pixels) == 3 * width * height
    orange = [i // 3 for i in range(0, len(pixels), 3) if pixels[i : i + 3] == ORANGE]
    columns = [sum(1 for pixel in orange if pixel % width == x) for x in range(width)]
    assert sum(1 for count in columns if count > 5) == 3  # the first value, the rising and the falling edge
    assert sum(1 for count in columns if count >= 1) > 300  # and the level between them

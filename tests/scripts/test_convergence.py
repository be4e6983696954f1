"""The convergence table and figure: what is compared with what, and what is refused."""

import pathlib
import stat
import subprocess
import xml.etree.ElementTree

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "convergence.py"

# Stands for a platform executable: a message takes 20 us and as many ns as its transactions have bytes, TTFT 1000 times 20 us.
EXECUTABLE = """#!/usr/bin/python3
import json, os, sys
size = [text.split("=")[1] for text in sys.argv if text.startswith("fabric.transaction_bytes=")][-1]
if "refused.yaml" in sys.argv:
    sys.exit(print("refused.yaml:1:1: error: no", file=sys.stderr) or 2)
size = 2000 if size == "auto" else int(size)
out = sys.argv[sys.argv.index("--out") + 1]
os.makedirs(out, exist_ok=True)
rows = [{"class": "kv", "messages": 3, "mean_actual_s": 2e-5 + size * 1e-9}, {"class": "pp", "messages": 0, "mean_actual_s": 0}]
summary = {"schema_version": 2, "kind": "disaggregated_prefill", "complete": True, "links": [], "model": "tiny", "platform": "plx_box", "metrics": {"ttft_s": 2e-2}, "traffic": rows,
           "simulator": {"transactions": 8_000_000 // size}}
json.dump(summary, open(os.path.join(out, "summary.json"), "w"))
"""


@pytest.fixture(name="executable")
def make_executable(tmp_path):
    path = tmp_path / "plx_box"
    path.write_text(EXECUTABLE)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def run(*arguments):
    return subprocess.run([str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False)


def test_every_size_is_held_against_the_smallest(executable):
    done = run(executable, "a.yaml", "--sizes", "1000", "20000", "4000")
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]
    assert rows[0] == ["transaction", "TTFT", "error", "kv message", "error", "transactions"]  # no class without messages
    assert rows[2:] == [
        ["20000 B", "20.000 ms", "+0.00 %", "40.000 us", "+90.48 %", "0.00 M"],
        ["4000 B", "20.000 ms", "+0.00 %", "24.000 us", "+14.29 %", "0.00 M"],
        ["1000 B", "20.000 ms", "reference", "21.000 us", "reference", "0.01 M"],
        ["auto", "20.000 ms", "+0.00 %", "22.000 us", "+4.76 %", "0.00 M"],
    ]


def test_the_figure_names_what_it_shows_and_repeats_to_the_byte(tmp_path, executable):
    figures = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for figure in figures:
        assert run(executable, "a.yaml", "--sizes", "1024", "16384", "4096", "65536", "--figure", figure).returncode == 0
    assert figures[0].read_bytes() == figures[1].read_bytes()
    texts = {text.text for text in xml.etree.ElementTree.parse(figures[0]).iter("{http://www.w3.org/2000/svg}text")}
    assert {"kv message", "TTFT", "64K", "4K", "a.yaml: tiny on plx_box", "error against 1 KiB, % (dotted: auto)"} <= texts


def test_bad_input_is_one_line(tmp_path, executable):
    cases = {
        (executable, "refused.yaml"): "refused.yaml:1:1: error: no",
        (tmp_path / "none", "a.yaml"): f"convergence.py: error: {tmp_path}/none: No such file or directory",
        (executable, "a.yaml", "--sizes", "64"): "convergence.py: error: --sizes: give at least two sizes",
        (executable, "a.yaml", "--sizes", "63"): "convergence.py: error: argument --sizes: '63' is not a number of bytes; accepted: 64 or more",
        (executable, "a.yaml", "--figure", "a.png"): "convergence.py: error: --figure a.png: a figure is an .svg file; rsvg-convert makes a .png or .pdf of it",
    }
    for arguments, message in cases.items():
        done = run(*arguments)
        assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (2, "", message)

"""A disk that is full, from the first write on or later: the line names the file, and nothing half-written stays. A file that may grow no larger
stands for the disk: its writes fail as late, and with an error that does not name the file either."""

import os
import pathlib
import resource
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
MODEL = ROOT / "scenarios" / "models" / "llama-3.1-8b.json"
COMMANDS = {
    "sweep.py": [ROOT / "scenarios" / "sweeps" / "tp_pp_plx.yaml", "--workers", "1", "--bin", BIN],
    "load.py": [ROOT / "scenarios" / "load.yaml", "--rates", "2", "--no-page", "--bin", BIN],
    "plan.py": ["--model", MODEL, "--platform", "dgx_h100", "--nodes", "1", "--batch", "8", "--seq", "4096", "--top", "1", "--bin", BIN],
    "make_trace.py": ["--format", "azure", "--count", "2000"],
}


def limited(name, out, largest_bytes):
    command = [str(word) for word in (ROOT / "scripts" / name, *COMMANDS[name], "--out", out)]
    # Python would cut its own compiled modules off, without an error, and other tests would read them.
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=env,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest_bytes, largest_bytes)))


@pytest.mark.parametrize("largest_bytes", [0, 20000])
@pytest.mark.parametrize("name", COMMANDS)
def test_names_the_file_and_leaves_nothing(name, largest_bytes, tmp_path):
    out = tmp_path / "new" / "out"
    if name == "make_trace.py":
        out.parent.mkdir()
    done = limited(name, out, largest_bytes)
    line = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 2 and line.startswith(f"{name}: error: {out}") and line.endswith(": File too large"), done.stderr
    assert not [path for path in tmp_path.rglob("*") if path != out.parent], done.stderr

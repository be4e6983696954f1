"""Runs the platform executables, for tests from outside."""

import csv
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("RAILYARD_BIN", ROOT / "build" / "bin")).resolve()
PLATFORMS = ["plx_box", "hgx_a100_4gpu", "hgx_h100_4gpu", "dgx_a100", "dgx_h100", "dgx_b200", "gb200_nvl72"]

if not (BIN / "plx_box").exists():
    pytest.skip(f"no executables in {BIN}: build them, or set RAILYARD_BIN", allow_module_level=True)

TINY = f"""\
model: {{config: {ROOT}/tests/models/tiny.json}}
workload:
  kind: disaggregated_prefill
  requests: {{count: 1, prompt_tokens: 700}}
  chunk_tokens: 256
  engine: none
  prefill: {{tp: 2, pp: 2}}
  decode: {{tp: 2, pp: 2, steps: 3}}
"""


def run(platform, *arguments, cwd=None):
    """Runs an executable to its end."""
    return subprocess.run([str(BIN / platform), *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=120)


def tiny(folder, text=TINY):
    """A scenario of a small model. Returns its path."""
    path = pathlib.Path(folder) / "tiny.yaml"
    path.write_text(text)
    return path


def succeed(platform, *arguments, cwd=None):
    result = run(platform, *arguments, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result


def refuse(platform, *arguments):
    """The line with which an executable refuses its input."""
    result = run(platform, *arguments)
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def training(folder, text, model="tiny"):
    """A scenario of one server; `text` begins in line 7. Returns its path."""
    path = pathlib.Path(folder) / "s.yaml"
    path.write_text(f"model: {{config: {ROOT}/tests/models/{model}.json}}\nmachine: {{groups: {{node: {{servers: 1}}}}}}\n"
                    "workload:\n  kind: training\n  seq_tokens: 512\n  global_batch: 16\n" + text)
    return path


def rows(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def summary(folder):
    return json.loads((pathlib.Path(folder) / "summary.json").read_text())


def metrics_of_step(folder, *options, **workload):
    """A training step of four layers of Llama-3.1-8B on one DGX H100, with fluid links: they take a twentieth of the time of trains."""
    folder.mkdir()
    config = json.loads((ROOT / "scenarios" / "models" / "llama-3.1-8b.json").read_text())
    (folder / "model.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    scenario = {"schema_version": 1, "model": {"config": "model.json"}, "fabric": {"fidelity": "fluid"},
                "workload": {"kind": "training"} | workload}
    (folder / "s.yaml").write_text(json.dumps(scenario))
    succeed("dgx_h100", folder / "s.yaml", "--quiet", "--out", folder / "out", *options)
    return summary(folder / "out")["metrics"]

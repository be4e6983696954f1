"""The digests of the shipped scenarios' results: the same wherever they run, and a change is named."""

import gzip
import json
import re
import shutil
import subprocess
import sys

import pytest

from platform_runs import BIN, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
pytest.importorskip("yaml")

from digests import OBSERVED, SECONDS, shipped  # noqa: E402

CHEAP = "layers/*"  # prefill once more with every observer


def checkout(folder):
    """Scripts and scenarios in another place."""
    for name in ("scripts", "scenarios"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(tree, command, file, *options):
    arguments = [tree / "scripts" / "digests.py", command, file, "--bin", BIN, *options]
    return subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True, check=False, timeout=120)


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    folder = tmp_path_factory.mktemp("before")
    file = folder / "before.jsonl"
    done = run(checkout(folder), "write", file, "--only", CHEAP)
    assert (done.returncode, done.stderr) == (0, "")
    return file


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    return checkout(tmp_path)


def change(tree, path, old, new):
    file = tree / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_digests_are_the_same_in_another_directory(before, tree):
    assert run(tree, "write", tree / "now.jsonl", "--only", CHEAP, "--jobs", "1").returncode == 0
    assert (tree / "now.jsonl").read_bytes() == before.read_bytes()
    files = {(line["scenario"], line["file"]) for line in lines(before)}
    assert {scenario for scenario, _ in files if " " not in scenario} == {f"layers/{name}.yaml" for name in ("decode", "prefill", "training")}
    assert {file for scenario, file in files if "--vcd" in scenario} >= {"summary.json", "links.csv", "trace.vcd", "timeline.json.gz", "why.csv"}
    assert {file for scenario, file in files if scenario == "layers/decode.yaml"} >= {"summary.json", "layer.csv", "jobs.csv", "command.txt"}


def test_nothing_of_build_and_wall_time_is_kept(before):
    kept = {path.stem: gzip.decompress(path.read_bytes()).decode() for path in before.with_name("before.jsonl.contents").iterdir()}
    summaries = [kept[line["sha256"]] for line in lines(before) if line["file"] == "summary.json"]
    assert summaries and all(json.loads(text)["metrics"] and "simulator" not in text for text in summaries)
    assert not any(str(folder) in text for text in kept.values() for folder in (BIN, before.parent))


def test_no_difference(before, tree):
    done = run(tree, "check", before)
    assert (done.returncode, done.stdout) == (0, f"4 runs, {len(lines(before))} files: 0 files differ, 0 runs failed\n")
    assert "not in" in done.stderr and "ib_write.yaml" in done.stderr  # FILE has only some of the runs


def test_a_changed_parameter_is_named(before, tree):
    change(tree, "scenarios/layers/decode.yaml", "batch: 32", "batch: 33")
    done = run(tree, "check", before)
    assert done.returncode == 1
    assert re.search(r"^layers/decode.yaml: layer.csv: \d+ differences\n  line \d+ \w+: '.+' -> '.+'$", done.stdout, re.MULTILINE)
    assert re.search(r"^layers/decode.yaml: summary.json: \d+ differences\n  setup.batch: '32' -> '33'$", done.stdout, re.MULTILINE)
    assert re.search(r"^layers/decode.yaml: scenario.yaml: 1 difference\n  line \d+: '  batch: 32' -> '  batch: 33'$", done.stdout, re.MULTILINE)
    assert "prefill" not in done.stdout and "training" not in done.stdout


def test_a_file_too_large_to_be_kept_is_named(before, tree):
    change(tree, "scenarios/layers/prefill.yaml", "tokens: 4096", "tokens: 4000")
    done = run(tree, "check", before, "--only", "layers/prefill.yaml --timeline*")
    assert done.returncode == 1
    assert "layers/prefill.yaml --timeline --why --vcd --vcd-level all: trace.vcd: differs; too large to be kept\n" in done.stdout
    assert "layers/prefill.yaml: " not in done.stdout


def test_a_run_that_fails_or_is_gone_is_named(before, tree):
    change(tree, "scenarios/layers/decode.yaml", "tp: 8", "tp: 7")
    (tree / "scenarios/layers/training.yaml").unlink()
    done = run(tree, "check", before)
    assert done.returncode == 1
    assert re.search(r"^layers/decode.yaml: failed: scenario.yaml:.*error:", done.stdout, re.MULTILINE)
    assert "layers/training.yaml: not shipped any more\n" in done.stdout
    assert done.stdout.endswith(": 0 files differ, 2 runs failed\n")
    done = run(tree, "write", tree / "now.jsonl", "--only", "layers/decode.yaml")
    assert done.returncode == 1 and not (tree / "now.jsonl").exists()


def test_every_listed_scenario_is_shipped():
    """A renamed one would otherwise lose its observers, or run in --quick."""
    names = {point.name for point in shipped()}
    assert {f"{name} {options}" for name, options in OBSERVED} <= names
    assert set(SECONDS) <= {name.split()[0] for name in names}


@pytest.mark.parametrize(("text", "options", "wrong"), [
    (None, [], "before.jsonl: No such file or directory; expected what digests.py write makes"),
    ("{", [], "before.jsonl: not line 1"),
    ('{"scenario": "a.yaml"}', [], "before.jsonl: line 1: has no file"),
    ('{"scenario": "layers/a.yaml", "file": "b", "sha256": "0"}', ["--only", "nothing"], "before.jsonl: no run of --only 'nothing'"),
])
def test_bad_input(tmp_path, text, options, wrong):
    if text is not None:
        (tmp_path / "before.jsonl").write_text(text + "\n")
    done = run(ROOT, "check", tmp_path / "before.jsonl", *options)
    assert done.returncode == 2
    assert wrong in done.stderr and done.stderr.count("\n") == 1

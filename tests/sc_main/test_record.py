"""What a run says of itself in --out: scenario.yaml, which gives the run again, command.txt and the summary's setup."""

import filecmp
import re
import subprocess

import pytest

from platform_runs import ROOT, succeed, summary, tiny

TP = PP = 2  # of TINY, as its prompt
PROMPT = 700


def same_but_for_the_command(one, other):
    """Whether two --out directories hold the same bytes, but for what the simulation cost and the command line."""
    left, right = summary(one), summary(other)
    left.pop("simulator"), right.pop("simulator")
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in other.iterdir())
    same = filecmp.cmpfiles(one, other, [name for name in names if name not in ("summary.json", "command.txt")], shallow=False)
    return left == right and same[1:] == ([], [])


def test_the_scenario_of_a_run_gives_the_run_again(tmp_path):
    """From another directory, too; --set options are part of it, and their paths count from where the command ran."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine.yaml").write_text((ROOT / "platforms/datasheets/gpus/L40S.yaml").read_text())
    options = ["--set", "machine.groups.prefill.gpu=./mine.yaml", "--set", "workload.chunk_tokens=128"]
    succeed("plx_box", tiny(tmp_path), *options, "--out", "first", "--quiet", cwd=tmp_path / "here")
    first = tmp_path / "here" / "first"
    succeed("plx_box", first / "scenario.yaml", "--out", tmp_path / "second", "--quiet", cwd="/")
    assert same_but_for_the_command(first, tmp_path / "second")
    setup = summary(first)["setup"]
    assert setup["groups"]["prefill"] == {"gpu": "mine", "servers": 1, "gpus": 8}
    assert (setup["chunk_tokens"], setup["prefill"], setup["prompt_tokens"]["mean"]) == (128, {"tp": TP, "pp": PP}, PROMPT)
    assert re.fullmatch(r"\w+(-dirty)?", summary(first)["simulator"]["commit"])


def test_the_command_of_a_run_can_be_typed_again(tmp_path):
    succeed("plx_box", tiny(tmp_path), "--set", "name=it's a name", "--out", tmp_path / "out", "--quiet")
    command = (tmp_path / "out" / "command.txt").read_text()
    assert subprocess.run(command, shell=True, cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "out" / "command.txt").read_text() == command
    assert summary(tmp_path / "out")["scenario"] == "it's a name"


@pytest.mark.parametrize("scenario", [path for path in sorted((ROOT / "scenarios").glob("*.yaml")) if path.stem in (
    "nccl_tests_dgx_h100", "p2p_plx", "kernels_h100_l40s", "overlap_tp8_a800")], ids=lambda path: path.stem)
def test_the_scenario_of_every_kind_is_written(tmp_path, scenario):
    platform = re.search(r"^platform: (\w+)", scenario.read_text(), re.M).group(1)
    bounds = ["--set", "workload.max_bytes=1024"] if scenario.stem.startswith("nccl") else []
    table = succeed(platform, scenario, *bounds, "--out", tmp_path / "one").stdout
    succeed(platform, tmp_path / "one" / "scenario.yaml", "--out", tmp_path / "two", "--quiet")
    assert same_but_for_the_command(tmp_path / "one", tmp_path / "two")
    groups = summary(tmp_path / "one")["setup"]["groups"].values()
    heads = "".join(line for line in table.splitlines() if line.startswith("#"))
    assert all(group["gpu"] in heads for group in groups)

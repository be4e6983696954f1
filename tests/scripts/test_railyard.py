"""One command: it runs a scenario on the scenario's machine, lists what is shipped, and knows its own words."""

import json
import re
import shutil
import subprocess

import pytest

from platform_runs import BIN, PLATFORMS, ROOT, run as run_platform, tiny, TINY

pytest.importorskip("yaml")
COMMAND = ROOT / "scripts" / "railyard"
ASKED = ("run", "explain", "describe", "check", "serve")


def railyard(*words, cwd=None):
    given = [words[0], "--bin", BIN, *words[1:]] if words and words[0] in ASKED else list(words)
    return subprocess.run([str(COMMAND), *map(str, given)], capture_output=True, text=True, cwd=cwd, check=False, stdin=subprocess.DEVNULL)


def refused(*words):
    done = railyard(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    return done.stderr


def listed(*words):
    done = railyard("list", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_scenario_runs_on_its_machine(tmp_path, platform):
    """As the executable itself runs it, also where only the command line names the machine."""
    named = tiny(tmp_path, f"platform: {platform}\n{TINY}")
    expected = run_platform(platform, named, "--explain", "--json").stdout
    assert railyard("explain", named, "--json").stdout == expected != ""
    named.write_text(TINY)
    for words in (("--platform", platform), (f"--platform={platform}",), ("--set", f"platform={platform}")):
        assert railyard("explain", *words, named, "--json").stdout == expected


def test_results_are_those_of_the_executable(tmp_path):
    scenario = tiny(tmp_path, f"platform: dgx_a100\n{TINY}")
    assert run_platform("dgx_a100", scenario, "--quiet", "--out", tmp_path / "a").returncode == 0
    assert railyard("run", "--quiet", "--out", tmp_path / "b", scenario).returncode == 0
    for name in ("jobs.csv", "links.csv", "requests.csv", "machine.json", "scenario.yaml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_shipped_scenario_runs_by_its_name_from_any_folder(tmp_path):
    (tmp_path / "layers" / "decode").mkdir(parents=True)  # results of an earlier run
    done = railyard("check", "layers/decode", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("layers/decode.yaml: ok\n")
    assert railyard("check", "layers/decode", "--set", "workload.batch=0").returncode == 2


def test_several_scenarios_are_checked_with_the_same_options():
    done = railyard("check", "layers/decode", "layers/decod", "layers/prefill", "--bin", BIN, "--set", "workload.tp=2")
    assert done.returncode == 2
    assert [line.rpartition("/")[2] for line in done.stdout.splitlines()] == ["decode.yaml: ok", "prefill.yaml: ok"]
    assert done.stderr.count("\n") == 1 and "did you mean 'layers/decode'?" in done.stderr


def test_a_shipped_sweep_is_found_by_its_name_too(tmp_path):
    done = railyard("sweep", "sweeps/layer_tp", "--list", "--out", tmp_path, "--bin", BIN, cwd=tmp_path)
    assert done.returncode == 0 and "tokens" in done.stdout, done.stderr


def test_what_cannot_run_is_refused_in_one_line(tmp_path):
    assert "did you mean 'layers/decode'?" in refused("run", "layers/decod")
    assert "platform: missing" in refused("run", tiny(tmp_path))
    assert "did you mean 'dgx_h100'?" in refused("run", tiny(tmp_path), "--platform", "dgx_h10")
    assert "--platform" in refused("run", "--cluster-config", "c.json", "--dataset", "d.jsonl")
    assert "no scenario" in refused("run")
    assert "did you mean 'explain'?" in refused("explian")
    assert "--unknown" in refused("run", "layers/decode", "--unknown")
    assert "did you mean '--platform'?" in refused("run", "--platfrom", "dgx_h100", "layers/decode")
    assert "did you mean '--timeline'?" in refused("run", "layers/decode", "--timelin")
    assert "did you mean 'gpus'?" in refused("list", "gpu")
    assert "did you mean 'h100'?" in refused("list", "gpus", "H10O")
    assert "did you mean 'zsh'?" in refused("completion", "csh")


def test_serve_finds_the_machine_of_its_scenario(tmp_path):
    """The server is told the platform, and refuses what does not serve."""
    assert "--listen HOST:PORT" in railyard("serve", "--help").stdout
    assert "serves no clients" in refused("serve", "layers/decode")
    assert "platform: missing" in refused("serve", tiny(tmp_path))
    assert "disaggregated_prefill serves no clients" in refused("serve", tiny(tmp_path), "--platform", "dgx_a100")
    assert "can be reached from other computers" in refused("serve", "load", "--listen", "0.0.0.0:0")
    assert "--timeline" in refused("serve", "load", "--timeline")


def test_lists_name_what_is_shipped():
    for what, folder, kind in (("models", "scenarios/models", "json"), ("gpus", "platforms/datasheets/gpus", "yaml"),
                               ("machines", "platforms/datasheets/boards", "yaml"), ("engines", "platforms/datasheets/engines", "yaml")):
        assert [line.split()[0] for line in listed(what)[1:]] == sorted(path.stem for path in (ROOT / folder).glob(f"*.{kind}"))
    schema = json.loads((ROOT / "scenarios" / "scenario.schema.json").read_text())
    kinds = [part["properties"]["kind"]["enum"][0] for part in schema["properties"]["workload"]["oneOf"]]
    assert sorted(line.split()[0] for line in listed("kinds")[1:]) == sorted(kinds)
    assert sorted(PLATFORMS) == [line.split()[0] for line in listed("machines")[1:]]
    assert any(re.match(r"ttft_s +serving +s +from arrival", line) for line in listed("metrics", "ttft"))
    assert all("hgx_h100_4gpu" in line for line in listed("gpus", "sxm5")[1:])


def test_every_script_is_a_command():
    """With the first sentence that it says about itself."""
    text = railyard("--help").stdout
    for script in (ROOT / "scripts").glob("*.py"):
        assert script.stem == "scenario" or re.search(rf"^  {script.stem.replace('_', '-')} +[A-Z]", text, re.MULTILINE)
    assert "usage: compare.py" in railyard("compare", "--help").stdout


def completed(script, *words):
    """What bash offers for the last word."""
    pieces = [piece for word in words for piece in re.split("(=)", word) if piece or not word]
    array = " ".join(f"'{piece}'" for piece in pieces)
    text = f"{script}\ncompopt() {{ :; }}\nCOMP_WORDS=({array}); COMP_CWORD={len(pieces) - 1}; _railyard; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return subprocess.run(["bash"], input=text, capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_options_keys_and_words():
    script = railyard("completion", "bash").stdout
    assert completed(script, "railyard", "expl") == ["explain"]
    assert "layers/decode" in completed(script, "railyard", "run", "layers/")
    assert completed(script, "railyard", "run", "s.yaml", "--timel") == ["--timeline"]
    assert completed(script, "railyard", "run", "s.yaml", "--jobs", "st") == ["stage"]
    assert completed(script, "railyard", "serve", "s.yaml", "--pa") == ["--pace"]
    assert "workload.prefill.tp=" in completed(script, "railyard", "run", "s.yaml", "--set", "workload.pre")
    assert completed(script, "railyard", "run", "s.yaml", "--set", "fabric.fidelity=tr") == ["train"]
    assert completed(script, "railyard", "run", "s.yaml", "--set", "fabric.fidelity=") == ["train", "fluid", "auto"]
    assert "H100-SXM5-80GB" in completed(script, "railyard", "run", "s.yaml", "--set", "machine.groups.node.gpu=H100")
    assert completed(script, "railyard", "list", "mo") == ["models"]


def test_zsh_reads_its_completion():
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script = railyard("completion", "zsh").stdout
    assert subprocess.run(["zsh", "-n"], input=script, text=True, check=False).returncode == 0
    assert script.startswith("#compdef railyard\n")


def test_the_manual_page_has_all_commands_options_and_keys():
    page = railyard("man").stdout.replace("\\-", "-")
    help_page = run_platform("plx_box", "--help").stdout
    for option in re.findall(r"^  (?:-\w,)?(--[\w-]+)", help_page, re.MULTILINE):
        assert f"{option}" in page
    for key in re.findall(r"^\| `(.+?)` \|", (ROOT / "docs" / "scenario-reference.md").read_text().partition("## Shipped")[0], re.MULTILINE):
        last = key.rpartition(".")[2]
        assert re.search(rf"^\.B .*\b{re.escape(last)}\b", page, re.MULTILINE), key

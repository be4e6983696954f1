"""Scenarios written from the schema, and the checks of scenarios by their platforms."""

import json
import os
import pty
import re
import subprocess

import pytest

from platform_runs import BIN, PLATFORMS, ROOT, run as run_platform, succeed

pytest.importorskip("yaml")
SCRIPT = ROOT / "scripts" / "scenario.py"
SHIPPED = sorted(set((ROOT / "scenarios").glob("**/*.yaml")) - set((ROOT / "scenarios" / "sweeps").iterdir()))
KINDS = {
    "disaggregated_prefill": {"model.config": f"{ROOT}/tests/models/tiny.json", "workload.requests.prompt_tokens": "700", "workload.prefill.tp": "2",
                              "workload.prefill.pp": "1"},
    "collective": {"workload.op": "all_gather"},
    "p2p": {"workload.test": "matrix"},
    "kernel": {"workload.kernels": "[{op: gemm, m: 64, n: 64, k: 64, dtype: bf16}]"},
}


def run(*arguments, **options):
    return subprocess.run([str(SCRIPT), "--bin", str(BIN), *map(str, arguments)], capture_output=True, text=True, check=False,
                          **{"stdin": subprocess.DEVNULL} | options)


def new(path, platform, kind, *more):
    sets = [word for key, value in KINDS[kind].items() for word in ("--set", f"{key}={value}")]
    return run("new", path, "--platform", platform, "--kind", kind, *sets, *more)


def refused(*arguments):
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    return done.stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_new_scenario_is_right(tmp_path, platform, kind):
    done = new(tmp_path / "new.yaml", platform, kind)
    assert done.returncode == 0, done.stderr
    succeed(platform, tmp_path / "new.yaml", "--check")
    text = (tmp_path / "new.yaml").read_text()
    assert max(map(len, text.splitlines())) <= 160 and "machine:" in text and (kind == "disaggregated_prefill") == ("\nmodel:" in text)
    assert [path.name for path in tmp_path.iterdir()] == ["new.yaml"]


ON_LEAF_SPINE = ("routing", "rail_optimized")  # refused on the single switch that is the default


def with_all_defaults(text):
    """The scenario with every value that stands in a comment set, and how many those are."""
    entry = re.compile(r"^( {0,10})(# )?(\w+):(?: (\S.*?))?(?: +# .*)?$")  # explanations stand further right
    kept, count, indent_of_kept = [], 0, 0
    for found in filter(None, map(entry.match, reversed(text.splitlines()))):
        indent, comment, _, value = len(found[1]), *found.groups()[1:]
        if found[3] in ON_LEAF_SPINE:
            continue
        if value or indent_of_kept > indent:  # a value, or a key above one
            kept.append(f"{found[1]}{found[3]}: {value or ''}")
            count += bool(comment and value)
            indent_of_kept = indent
    return "\n".join(reversed(kept)) + "\n", count


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"p2p"}))  # whose keys exclude each other, test by test
def test_the_values_in_comments_are_the_defaults(tmp_path, kind):
    """Setting all of them changes nothing."""
    plain, full = tmp_path / "plain.yaml", tmp_path / "full.yaml"
    assert new(plain, "plx_box", kind).returncode == 0
    text, count = with_all_defaults(plain.read_text())
    full.write_text(text)
    assert count >= 15
    for question in ("--explain", "--describe"):
        told = [json.loads(succeed("plx_box", path, question, "--json").stdout) for path in (plain, full)]
        assert told[0] == told[1]


def test_settings_appear_where_they_belong(tmp_path):
    done = new(tmp_path / "new.yaml", "plx_box", "disaggregated_prefill", "--set", "machine.overrides.plx_uplink.gb_per_s=60",
               "--set", "machine.groups.prefill.gpu=A40-48GB", "--set", "workload.placement=[1, 0]", "--set", "fabric.classes.kv.weight=3")
    assert done.returncode == 0, done.stderr
    import yaml

    scenario = yaml.safe_load((tmp_path / "new.yaml").read_text())
    assert scenario["machine"] == {"groups": {"prefill": {"gpu": "A40-48GB"}}, "overrides": {"plx_uplink": {"gb_per_s": 60}}}
    assert scenario["workload"]["placement"] == [1, 0] and scenario["fabric"] == {"classes": {"kv": {"weight": 3}}}
    assert (tmp_path / scenario["model"]["config"]).samefile(ROOT / "tests" / "models" / "tiny.json")


def test_a_trace_makes_another_form_of_requests(tmp_path):
    trace = ROOT / "scenarios" / "traces" / "synthetic_azure.csv"
    done = run("new", tmp_path / "new.yaml", "--platform", "plx_box", "--kind", "disaggregated_prefill", "--set", f"model.config={ROOT}/tests/models/tiny.json",
               "--set", "workload.requests.format=azure", "--set", f"workload.requests.file={trace}", "--set", "workload.prefill={tp: 2, pp: 1}")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "new.yaml").read_text()
    assert "    format: azure " in text and "# rate_scale: 1 " in text and "prompt_tokens" not in text and "  prefill: {tp: 2, pp: 1} " in text


def test_it_asks_where_somebody_can_answer(tmp_path):
    try:
        controller, terminal = pty.openpty()
    except OSError as missing:
        pytest.skip(f"no terminal to ask at: {missing}")
    os.write(controller, b"dgx_h200\ndgx_h100\ncollective\nall_reduce\n")  # the first answer is no platform, so it asks again
    done = run("new", tmp_path / "new.yaml", stdin=terminal)
    os.close(terminal)
    os.close(controller)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"([a-z.]+) \(", done.stdout)[:4] == ["platform", "platform", "workload.kind", "workload.op"]
    assert "\n  op: all_reduce " in (tmp_path / "new.yaml").read_text()


def test_bad_input_is_one_line_and_leaves_nothing(tmp_path):
    path = tmp_path / "new.yaml"
    assert "workload.op: missing; give --set workload.op=VALUE (the operation, " in refused("new", path, "--platform", "plx_box", "--kind", "collective")
    assert "platform: missing; give --platform NAME (" in refused("new", path)
    assert "'plx_bax' in " in refused("new", path, "--platform", "plx_bax") and "(did you mean 'plx_box'?)" in refused("new", path, "--platform", "plx_bax")
    assert "workload.kind: 'p2q' is unknown (did you mean 'p2p'?); accepted: " in refused("new", path, "--platform", "plx_box", "--kind", "p2q")
    assert "--set workload.oop=1: workload.oop: unknown key (did you mean 'op'?); accepted: " in refused("new", path, "--set", "workload.oop=1")
    assert "'seed' is not KEY=VALUE" in refused("new", path, "--set", "seed")
    done = new(path, "plx_box", "disaggregated_prefill", "--set", "workload.prefill.tp=3")
    assert (done.returncode, done.stderr) == (2, "scenario.py: error: workload.prefill.tp: 3 does not divide the 8 attention heads of tiny\n")
    assert refused("new", tmp_path / "none" / "new.yaml").endswith("none: no such directory\n")
    assert not list(tmp_path.iterdir())
    path.write_text("mine")
    assert refused("new", path).endswith("new.yaml: exists\n") and path.read_text() == "mine"


def test_shipped_scenarios_pass_the_check_of_their_platform(tmp_path):
    """Some of them: the tests of platforms check each."""
    some = SHIPPED[::6]
    assert len(some) >= 10
    done = run("check", *some)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout == "".join(f"{path}: ok\n" for path in some)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("platform: plx_box\nworkload: {kind: collective, op: none}\n")
    done = run("check", wrong, SHIPPED[0])
    assert done.returncode == 2 and done.stdout == f"{SHIPPED[0]}: ok\n" and done.stderr.startswith(f"{wrong}:2:")
    wrong.write_text("workload: {kind: collective, op: all_reduce}\n")
    assert f"{wrong}: error: platform: missing; one of: dgx_a100, " in refused("check", wrong)


def test_the_shipped_schema_is_every_executables(tmp_path):
    shipped = (ROOT / "scenarios" / "scenario.schema.json").read_text()
    assert run("schema").stdout == shipped
    for platform in PLATFORMS:
        assert run_platform(platform, "--schema").stdout == shipped

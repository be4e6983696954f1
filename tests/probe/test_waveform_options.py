"""The waveform as a user asks for it: how much, which names, which part, and the compressed form."""

import json
import os
import random
import re
import shutil
import subprocess
import time

import pytest

from platform_runs import BIN, ROOT, succeed, summary, tiny

SCENARIO = ROOT / "scenarios" / "disagg_llama3_70b_plx.yaml"
WINDOW_US = (200, 400)


def waveform(folder, *more):
    """({name: type}, timestamps in fs, text of the view) of a small run."""
    succeed("plx_box", tiny(folder), "--out", folder / "out", "--quiet", "--vcd", *more)
    signals, scopes, stamps = {}, [], []
    for line in (folder / "out" / "trace.vcd").read_text().splitlines():
        if line.startswith("$scope"):
            scopes.append(line.split()[2])
        elif line.startswith("$upscope"):
            scopes.pop()
        elif line.startswith("$var"):
            _, kind, _, _, name, *_ = line.split()
            signals[".".join(scopes[1:] + [name])] = kind
        elif line.startswith("#"):
            stamps.append(int(line[1:]))
    return signals, stamps, (folder / "out" / "trace.gtkw").read_text()


def test_each_level_holds_the_one_before(tmp_path):
    levels = [set(waveform(tmp_path, "--vcd-level", level)[0]) for level in ("summary", "links", "all")]
    assert levels[0] < levels[1] < levels[2]
    assert {"prefill0.gpu3.sm.active", "prefill0.gpu3.stream.compute.state", "prefill0.gpu3.stream.compute.ctas"} <= levels[0]
    for name in ["sm.clock_mhz", "hbm.used_bytes", "hbm.gb_per_s", "l2.gb_per_s", "outbound.kv_bytes", "pcie.tx.busy", "pcie.tx.queue_bytes"]:
        assert f"prefill0.gpu3.{name}" in levels[1] - levels[0]
    assert "prefill0.gpu3.pcie.tx.class" in levels[2] - levels[1]


def test_globs_and_the_window_narrow_it(tmp_path):
    signals, stamps, view = waveform(tmp_path, "--vcd-filter", "prefill0.gpu[01].sm", "--vcd-filter", "*.hbm.gb_per_s",
                                     "--vcd-window", f"{WINDOW_US[0]},{WINDOW_US[1]}us")
    assert {name for name in signals if ".hbm." not in name} == {
        f"prefill0.gpu{gpu}.sm.{what}" for gpu in (0, 1) for what in ("active", "clock_mhz")}
    assert {name for name in signals if ".hbm." in name} == {
        f"{group}0.gpu{gpu}.hbm.gb_per_s" for group in ("prefill", "decode") for gpu in range(8)}
    assert stamps[0] == WINDOW_US[0] * 10**9 and stamps[-1] == WINDOW_US[1] * 10**9
    assert len(stamps) > 2
    shown = {re.sub(r"\[\d+:0\]$", "", name) for name in re.findall(r"railyard\.(\S+)$", view, re.M)}
    assert shown == set(signals)


def test_collectives_outside_the_window_are_reused(tmp_path):
    scenario = ROOT / "scenarios" / "disagg_llama3_70b_dgx.yaml"
    model = json.loads((ROOT / "scenarios" / "models" / "llama-3.1-70b.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**model, "num_hidden_layers": 2}))
    small = ["--set", f"model.config={tmp_path / 'model.json'}", "--set", "workload.requests.prompt_tokens=2048"]
    waves, replayed = {}, {}
    begin, end = 10**12, 2 * 10**12
    for name, more in {"whole": [], "window": ["--vcd-window", "1ms,2ms"]}.items():
        succeed("dgx_h100", scenario, *small, "--out", tmp_path / name, "--quiet", "--vcd", "--vcd-level", "all", "--vcd-filter",
                "prefill0.*", *more)
        waves[name] = changes((tmp_path / name / "trace.vcd").read_text())
        replayed[name] = summary(tmp_path / name)["simulator"]["replayed_transactions"]
    assert replayed["whole"] == 0 < replayed["window"]
    assert len(waves["window"]) > 100
    for name, points in waves["window"].items():
        whole = waves["whole"][name]
        assert points[0][1] == [value for at, value in whole if at <= begin][-1], name
        assert points[1:] == [(at, value) for at, value in whole if begin < at <= end], name


def test_the_view_shows_what_is_there_and_names_units(tmp_path):
    signals, _, view = waveform(tmp_path, "--vcd-level", "all")
    shown = {re.sub(r"\[\d+:0\]$", "", name) for name in re.findall(r"railyard\.(\S+)$", view, re.M)}
    assert shown <= set(signals)
    # By device: a group a server, a group a GPU, and in it every signal of that GPU.
    assert "\n-prefill0\n" in view and "\n-GPUs\n" in view and "\n-gpu3\n" in view
    assert {name for name in signals if name.startswith("prefill0.gpu3.")} <= shown
    for alias in ["clock MHz", "HBM GB per s", "L2 GB per s", "stream compute CTAs", "outbound kv bytes"]:
        assert f"+{{{alias}}} railyard.prefill0.gpu3." in view
    # States are words, by a translate file beside the view.
    assert "^1 trace.states.txt" in view
    states = (tmp_path / "out" / "trace.states.txt").read_text().splitlines()
    assert [line.split("?")[-1].split()[-1] for line in states] == ["idle", "waiting", "kernel", "collective", "transfer", "host"]


def test_fst_holds_the_same_changes(tmp_path):
    for command in ("vcd2fst", "fst2vcd"):
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed (Debian package gtkwave)")
    waveform(tmp_path)
    plain = (tmp_path / "out" / "trace.vcd").read_text()
    succeed("plx_box", tmp_path / "tiny.yaml", "--out", tmp_path / "fst", "--quiet", "--vcd", "--fst")
    assert "trace.fst" in os.listdir(tmp_path / "fst") and "trace.vcd" not in os.listdir(tmp_path / "fst")
    assert (tmp_path / "fst" / "trace.fst").stat().st_size < len(plain) / 4
    assert "trace.fst\"\n" in (tmp_path / "fst" / "trace.gtkw").read_text()
    back = subprocess.run(["fst2vcd", str(tmp_path / "fst" / "trace.fst")], check=True, capture_output=True, text=True).stdout
    assert changes(back) == changes(plain)


def changes(vcd):
    """{full name: [(time, value)]}: codes, order within an instant and leading zeros are the writer's own affair."""
    names, scopes, seen, now = {}, [], {}, 0
    for line in vcd.splitlines():
        words = line.split()
        if line.startswith("$scope"):
            scopes.append(words[2])
        elif line.startswith("$upscope"):
            scopes.pop()
        elif line.startswith("$var"):
            names[words[3]] = ".".join(scopes + [words[4]])
        elif line.startswith("#"):
            now = int(line[1:])
        elif line and line[0] in "01":
            record(seen, names[line[1:]], now, line[0])
        elif line and line[0] in "brs" and len(words) == 2:
            value = words[0][1:]
            value = int(value, 2) if line[0] == "b" else f"{float(value):.12g}" if line[0] == "r" else value  # fst2vcd prints 16 digits
            record(seen, names[words[1]], now, value)
    return seen


def record(seen, name, now, value):
    """A value that is the one before is no change."""
    history = seen.setdefault(name, [])
    if not history or history[-1][1] != value:
        history.append((now, value))


def test_a_killed_run_leaves_a_waveform_of_whole_lines(tmp_path):
    """Killed while it writes, ten times: what is left opens, and is the beginning of the whole waveform."""
    draw = random.Random(1)
    command = [str(BIN / "plx_box"), str(SCENARIO), "--quiet", "--vcd", "--out"]
    for number in range(10):
        process = subprocess.Popen([*command, str(tmp_path / f"run{number}")])
        left = tmp_path / f"run{number}.partial-{process.pid}" / "trace.vcd"
        enough = draw.randrange(1_000_000, 5_000_000)
        while process.poll() is None and not (left.exists() and left.stat().st_size > enough):
            time.sleep(0.001)
        process.kill()
        process.wait()
        text = left.read_text()
        assert len(text) > enough and text.endswith("\n")
        assert changes(text)  # every line is of a known signal
        if shutil.which("vcd2fst"):
            subprocess.run(["vcd2fst", str(left), str(tmp_path / "left.fst")], check=True, capture_output=True)
            back = subprocess.run(["fst2vcd", str(tmp_path / "left.fst")], check=True, capture_output=True, text=True).stdout
            assert changes(back) == changes(text)


@pytest.mark.parametrize("options, why", [
    (["--fst"], "--fst requires --vcd"),
    (["--vcd", "--fst"], "--fst: vcd2fst is not installed (Debian package gtkwave); --vcd alone writes trace.vcd"),
])
def test_fst_that_cannot_be_is_refused_before_the_run(options, why, tmp_path):
    scenario = tiny(tmp_path)
    done = subprocess.run([str(BIN / "plx_box"), str(scenario), "--out", str(tmp_path / "out"), *options],
                          capture_output=True, text=True, check=False, env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"plx_box: error: {why} (--help lists the options)\n"
    assert sorted(os.listdir(tmp_path)) == ["tiny.yaml"]



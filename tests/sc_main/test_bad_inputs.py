"""Inputs that once crashed, hung or gave figures that mean nothing: each ends with a result or one line that says why not."""

import json
import os
import resource
import subprocess

import pytest

from platform_runs import BIN, TINY, run, tiny

COLLECTIVE = "workload: {kind: collective, op: all_reduce, ranks: 8, min_bytes: 1048576, max_bytes: 1048576}\n"
OVERLAP = "workload: {kind: overlap, op: gemm_all_reduce, gemm: {m: 512, n: 1024, k: 256}, collective_bytes: 65536, methods: [gemm, beside]}\n"
P2P = "workload: {kind: p2p, test: matrix, engine: copy_engine, copy_bytes: 100000, ranks: 4}\n"


def ended(platform, text, tmp_path, *sets, options=()):
    """Exit status and the line on stderr."""
    words = [word for key in sets for word in ("--set", key)]
    result = run(platform, tiny(tmp_path, text), "--out", tmp_path / "out", "--quiet", *options, *words)
    assert result.stderr.count("\n") == (0 if result.returncode == 0 else 1), result.stderr
    assert not list(tmp_path.glob("out.partial-*"))
    return result.returncode, result.stderr.rstrip("\n")


@pytest.mark.parametrize("platform, text, key", [
    ("dgx_h100", COLLECTIVE, "nvlink.gb_per_s=1e-9"),
    ("dgx_h100", COLLECTIVE, "gpu.c2c.gb_per_s=1e-300"),
    ("plx_box", P2P, "gpu_pcie.gb_per_s=1e-300"),
    ("plx_box", TINY, "pcie.gen4_lane_gb_per_s=1e-09"),
    ("plx_box", TINY, "gpu.l2.bytes_per_sm_clock=0"),
    ("dgx_a100", OVERLAP, "nic_pcie.gb_per_s=1e-300"),
])
def test_rates_that_divide_are_not_next_to_zero(platform, text, key, tmp_path):
    status, line = ended(platform, text, tmp_path, f"machine.overrides.{key}")
    assert status == 2 and "is out of range; accepted: " in line, line


@pytest.mark.parametrize("platform, text, key", [
    ("plx_box", TINY, "gpu.sm.threads=32"),  # blocks of row kernels are no larger than an SM
    ("plx_box", TINY, "gpu.sm.threads=161"),
    ("dgx_a100", OVERLAP, "gpu.kernel.launch_us=22245.6"),  # a host launches no faster than a graph
    ("dgx_a100", OVERLAP, "gpu.kernel.stream_launch_us=0"),
    ("dgx_h100", COLLECTIVE, "gpu.c2c.gb_per_s=0"),
])
def test_values_that_are_odd_but_right_run(platform, text, key, tmp_path):
    assert ended(platform, text, tmp_path, f"machine.overrides.{key}") == (0, "")


@pytest.mark.parametrize("platform, text, key, more", [
    ("dgx_h100", COLLECTIVE.replace("1048576", "17179869184"), "nvlink.gb_per_s=1e-6", "fabric.fidelity=fluid"),  # as trains in a minute
    ("plx_box", P2P, "gpu_pcie.gb_per_s=1e-6", "workload.copy_bytes=17179869184"),
    ("plx_box", TINY, "gpu.sm.clock_mhz=1e-6", "seed=1"),
])
def test_a_run_that_no_time_holds_is_refused(platform, text, key, more, tmp_path):
    status, line = ended(platform, text, tmp_path, f"machine.overrides.{key}", more)
    assert status == 2 and "after 18000 s, the limit of a run" in line, line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("fidelity", ["train", "fluid"])
def test_why_follows_a_message_whose_way_is_lost(fidelity, tmp_path):
    events = 'events=[{at_us: 1, link: "GPU_P[1][1]_PCI", fail: true}]'
    status, line = ended("plx_box", TINY, tmp_path, events, f"fabric.fidelity={fidelity}", options=["--why"])
    assert status == 3 and "cannot be delivered" in line, line
    assert json.loads((tmp_path / "out" / "why.json").read_text())["paths"]


@pytest.mark.parametrize("rate_ratio", [1e-6, 0.1])
def test_no_link_is_busy_for_longer_than_the_run(rate_ratio, tmp_path):
    events = f"events=[{{at_us: 700, link: decode0.plx0.port1, fail: true}}, {{at_us: 100, link: decode0.root0.socket, rate_ratio: {rate_ratio}}}]"
    text = TINY.replace("count: 1", "count: 4").replace("tp: 2, pp: 2, steps: 3", "tp: 8, pp: 1, steps: 3")
    ended("plx_box", text, tmp_path, events)
    links = json.loads((tmp_path / "out" / "summary.json").read_text())["links"]
    assert links and all(0 <= link["utilisation"] <= 1 for link in links)


@pytest.mark.parametrize("name", ["meta.yaml", "tp2", "tp2/dense.csv"])
def test_a_profile_with_a_link_to_itself_is_refused(name, tmp_path):
    looped = tmp_path / "bundle" / name
    looped.parent.mkdir(parents=True)
    (tmp_path / "bundle" / "tp2").mkdir(exist_ok=True) if name == "meta.yaml" else None
    looped.symlink_to(looped.name)
    status, line = ended("plx_box", TINY, tmp_path, f"compute.profile={tmp_path}/bundle")
    assert status == 2 and ": error: compute.profile: " in line, line


def test_output_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "loop").symlink_to("loop")
    result = run("plx_box", tiny(tmp_path), "--out", tmp_path / "folder" / "loop", "--quiet")
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and "error: " in result.stderr


def test_arguments_that_are_no_text_are_named(tmp_path):
    for words in [[b"\xff\n\x1b[31m.yaml"], [b"--vcd-level", b"\xfe\n"], [b"s.yaml", b"--set", b"a\xff\n=\xfd"]]:
        done = subprocess.run([str(BIN / "plx_box").encode(), *words], capture_output=True, cwd=tmp_path, timeout=60)
        assert done.returncode == 2
        assert done.stderr.decode().count("\n") == 1 and "\x1b" not in done.stderr.decode()


def test_words_that_are_no_options_are_named_with_the_nearest(tmp_path):
    for words, line in ((["--tiemline", "a=b"], "--tiemline: no such option (did you mean '--timeline'?)"), (["--sett=a=b"], "--sett: no such option (did you mean '--set'?)"),
                        (["--x"], "--x: no such option"), (["other.yaml"], "'other.yaml' is one word too many")):
        result = run("plx_box", tiny(tmp_path), *words)
        assert (result.returncode, result.stderr) == (2, f"plx_box: error: {line} (--help lists the options)\n")


def test_output_that_cannot_be_written_is_an_error(tmp_path):
    scenario = tiny(tmp_path, COLLECTIVE)
    lost = run("dgx_h100", scenario, "--dump-scenario", "/dev/full")
    assert lost.returncode == 2 and lost.stderr == "dgx_h100: error: cannot write /dev/full: No space left on device\n"
    with open("/dev/full", "w") as full:
        lost = subprocess.run([BIN / "dgx_h100", scenario], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert lost.returncode == 2 and lost.stderr == "dgx_h100: error: cannot write to stdout: No space left on device\n"
    nowhere = run("dgx_h100", scenario, "--out", "")
    assert nowhere.returncode == 2 and "--out: needs the name of a directory" in nowhere.stderr


def test_a_number_above_its_range_names_the_largest(tmp_path):
    status, line = ended("dgx_h100", COLLECTIVE, tmp_path, "workload.max_bytes=1e300")
    assert status == 2
    status, line = ended("dgx_h100", COLLECTIVE, tmp_path, "workload.sizes_bytes=[9007199254740991]")
    assert status == 2 and "is out of range; accepted: 1 to " in line


def test_a_waveform_filter_that_matches_nothing_is_refused(tmp_path):
    status, line = ended("dgx_h100", COLLECTIVE, tmp_path, options=("--vcd", "--vcd-filter", "zzz*"))
    assert status == 2 and line.startswith("--vcd-filter: error: 'zzz*' matches no signal")


def limited(command, largest_bytes, **options):
    """A run in which a file grows no larger: a write beyond that fails, as on a full disk."""
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest_bytes, largest_bytes)), **options)


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    options = ["--quiet", "--vcd", "--vcd-level", "summary", "--timeline", "--jobs", "all", "--why"]
    scenario = tiny(tmp_path)
    assert run("plx_box", scenario, "--out", tmp_path / "whole", *options).returncode == 0
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "whole").iterdir()}
    for size in sizes.values():
        done = limited([BIN / "plx_box", scenario, "--out", tmp_path / "new" / "out", *options], size - 1)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, (done.returncode, done.stderr)
        named = done.stderr.partition("cannot write ")[2].partition(": File too large")[0].rpartition("/")[2]
        assert sizes[named] >= size, done.stderr
        assert not (tmp_path / "new").exists()
    assert len(sizes) > 8


def test_a_failed_write_keeps_the_files_of_the_run_before(tmp_path):
    scenario = tiny(tmp_path, COLLECTIVE)
    outputs = ["--quiet", "--out", tmp_path / "out", "--export-et", tmp_path / "et"]
    assert run("dgx_h100", scenario, *outputs).returncode == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    traces = [len(text) for path, text in before.items() if path.name.startswith("et.")]
    for most in (max(traces) - 1, 10):
        done = limited([BIN / "dgx_h100", scenario, "--quiet", "--export-et", tmp_path / "et"], most)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "cannot write " in done.stderr, done.stderr
    done = limited([BIN / "dgx_h100", scenario, *outputs], 2000)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("block, status", [(r"\0\0\0\0\0\0\0\0\010", 0), (r"\0\0\0\0\0\0\0\0\011", 2), ("", 2)])
def test_a_converted_waveform_has_all_its_blocks(block, status, tmp_path):
    converter = tmp_path / "bin" / "vcd2fst"  # the real one ends with status 0, even when its writes fail
    converter.parent.mkdir()
    converter.write_text(f"#!/bin/sh\nprintf '{block}' >\"$2\"\n")
    converter.chmod(0o755)
    words = [BIN / "dgx_h100", tiny(tmp_path, COLLECTIVE), "--quiet", "--vcd", "--fst", "--out", tmp_path / "out"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=60,
                          env=os.environ | {"PATH": f"{converter.parent}:{os.environ['PATH']}"})
    assert done.returncode == status and done.stderr.count("\n") == (1 if status else 0), done.stderr
    assert (tmp_path / "out" / "trace.fst").exists() == (status == 0)

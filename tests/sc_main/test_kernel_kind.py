"""workload.kind: kernel from outside: table, file, arithmetic, repeatability."""

import json
import re

import pytest

from platform_runs import ROOT, rows, run, succeed, summary
from test_kinds import documented

SCENARIO = ROOT / "scenarios" / "kernels_h100_l40s.yaml"
GEMM = "workload.kernels=[{op: gemm, m: 4096, n: 8192, k: 8192}]"


def timed(folder, *sets, platform="plx_box"):
    options = [option for text in sets for option in ["--set", text]]
    succeed(platform, SCENARIO, "--out", folder, "--quiet", *options)
    return rows(folder / "kernels.csv")


def test_table_and_file(tmp_path):
    out = tmp_path / "out"
    table = succeed("plx_box", SCENARIO, "--out", out).stdout
    written = rows(out / "kernels.csv")
    assert len(written) == 2 * 35 and [row["group"] for row in written] == ["hopper"] * 35 + ["ada"] * 35
    printed = [line.split() for line in table.splitlines() if re.match(r" +\d+  [a-z_]+ ", line)]
    metrics = summary(out)["metrics"]
    for row, line in zip(written, printed, strict=True):
        seconds = float(row["time_us"]) * 1e-6
        assert float(row["tflops"]) == pytest.approx(float(row["flops"]) / seconds * 1e-12, rel=1e-4, abs=1e-5)
        assert float(row["gb_per_s"]) == pytest.approx(float(row["hbm_bytes"]) / seconds * 1e-9, rel=1e-4, abs=1e-5)
        assert line[0] == row["kernel"] and line[1] == row["op"] and line[-1] == row["limit"]
        if row["op"] == "gemm":
            assert float(row["flops"]) == 2 * int(row["m"]) * int(row["n"]) * int(row["k"])
            tiles = -(-int(row["m"]) // int(row["tile_m"])) * -(-int(row["n"]) // int(row["tile_n"]))
            assert int(row["ctas"]) == tiles * int(row["split_k"])
    for group in ["hopper", "ada"]:
        own = [row for row in written if row["group"] == group]
        assert metrics["time_s"][group] == pytest.approx(sum(float(row["time_us"]) for row in own) * 1e-6, rel=1e-9)
        assert sum(metrics["limited_by"][group].values()) == metrics["kernels"] == 35
    assert set(written[0]) == documented("Kernel tests")
    jobs = {job["name"]: job for job in rows(out / "jobs.csv")}
    assert len(jobs) == 70 and all(job["kind"] == "test" for job in jobs.values())


DECODE = "workload.kernels=[{op: attention_decode, batch: 256, heads: 8, head_dim: 128, context_tokens: 127}]"


@pytest.mark.parametrize("kernels", [GEMM, DECODE])
def test_explained_parts_make_the_time(kernels, tmp_path):
    found = timed(tmp_path / "out", kernels)
    numbers = json.loads(succeed("plx_box", SCENARIO, "--explain", "--json", "--set", kernels).stdout)
    for row, one in zip(found, numbers["arithmetic"], strict=True):
        p = one["overlap_exponent"]
        parts = [one["cta_s"], one["l2_s"], one["hbm_s"]]
        body = sum(part**p for part in parts) ** (1 / p) if p else max(parts)
        assert one["fixed_s"] + body + one["starts_s"] + one["after_s"] == pytest.approx(float(row["time_us"]) * 1e-6, rel=1e-6)
        assert one["limit"] == row["limit"] and one["ctas"] == int(row["ctas"]) and one["flops"] == float(row["flops"])
    text = succeed("plx_box", SCENARIO, "--explain").stdout
    assert "(the first of 35 kernels)" in text and text.count("limited by") == 2


def test_what_ifs_reach_the_kernels(tmp_path):
    long = "workload.kernels=[{op: copy, bytes: 4294967296, cold: true}]"
    plain = timed(tmp_path / "plain", GEMM)
    slow, fast = (timed(tmp_path / rate, long, f"machine.overrides={{gpu: {{hbm: {{gb_per_s: {rate}}}}}}}") for rate in ["500", "5000"])
    # A long copy is its bytes: beyond its few fixed microseconds, times go as one over the rate.
    assert [float(row["time_us"]) for row in slow] == pytest.approx([10 * float(row["time_us"]) for row in fast], rel=0.01)
    slower = timed(tmp_path / "clock", GEMM, "machine.overrides={gpu: {sm: {clock_mhz: 1000}}}")
    assert all(float(new["time_us"]) > float(old["time_us"]) for old, new in zip(plain, slower))
    twice = GEMM.replace("m: 4096", "m: [4096, 4096]")
    slowed = timed(tmp_path / "slow", twice, "events=[{at_us: 1, gpu: hopper0.gpu0, slow_ratio: 0.5}]")
    assert [float(row["time_us"]) / float(plain[0]["time_us"]) for row in slowed[:2]] == pytest.approx([1, 2], rel=1e-9)
    assert slowed[2]["time_us"] == slowed[3]["time_us"] == plain[1]["time_us"]


def test_a_launch_costs_what_its_way_costs(tmp_path):
    kernels = "workload.kernels=[{op: norm, tokens: 1, width: 64, launch: [graph, stream, host, synchronous], host_us: 30}]"
    times = [float(row["time_us"]) for row in timed(tmp_path / "out", kernels) if row["group"] == "hopper"]
    graph, stream, host, synchronous = times
    assert graph < stream < host
    # Call after call a kernel this short is hidden behind the host; waited for, it comes behind the call.
    assert host == pytest.approx(30, rel=1e-6) and synchronous == pytest.approx(30 + graph, rel=1e-6)


def test_looking_and_repeating(tmp_path):
    for look in ["--check", "--describe"]:
        assert succeed("plx_box", SCENARIO, look).stdout
    for folder in ["a", "b"]:
        succeed("plx_box", SCENARIO, "--out", tmp_path / folder, "--vcd", "--quiet")
    for file in ["kernels.csv", "jobs.csv", "links.csv", "machine.json"]:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert "gemm" in (tmp_path / "a" / "trace.vcd").read_text()


def test_bad_kernels_are_refused(tmp_path):
    result = run("plx_box", SCENARIO, "--set", "workload.kernels.0.dtype=fp4", "--out", tmp_path / "out")
    assert result.returncode == 2 and "workload.kernels.0.dtype" in result.stderr and not (tmp_path / "out").exists()
    long = "workload.kernels=[{op: attention_prefill, heads: 1, head_dim: 8, tokens: 300000000}]"
    result = run("plx_box", SCENARIO, "--set", long, "--out", tmp_path / "out")
    assert result.returncode == 2 and "a run lasts up to 18000 s" in result.stderr and not (tmp_path / "out").exists()


def test_rows_show_options_that_have_no_column(tmp_path):
    kernels = ("workload.kernels=[{op: gemm, m: 512, n: 7168, k: 16384, dtype: fp8, gemm_library: [cublas, deepgemm], l2_flushed: true}, "
               "{op: attention_decode, heads: 8, head_dim: 128, context_tokens: 1024, library: [flash, trtllm]}]")
    written = timed(tmp_path, kernels, "machine.groups={node: {gpu: H800-SXM5-80GB}}")
    assert [row["options"] for row in written] == ["l2_flushed=true", "gemm_library=deepgemm l2_flushed=true", "", "library=trtllm"]
    assert (written[1]["tile_m"], written[1]["tile_n"]) == ("256", "112")


def test_deepgemm_is_refused_where_it_has_no_kernel(tmp_path):
    for gpu, dtype in (("H100-SXM5-80GB", "bf16"), ("B200-SXM-180GB", "fp8")):
        kernel = f"workload.kernels=[{{op: gemm, m: 64, n: 128, k: 128, dtype: {dtype}, gemm_library: deepgemm}}]"
        refused = run("plx_box", SCENARIO, "--set", kernel, "--set", f"machine.groups={{node: {{gpu: {gpu}}}}}")
        assert refused.returncode == 2 and f"this is {dtype} on" in refused.stderr and "accepted here: cublas" in refused.stderr

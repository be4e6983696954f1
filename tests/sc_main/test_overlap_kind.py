"""workload.kind: overlap from outside: what must hold between methods whatever the machine."""

import pytest

from platform_runs import ROOT, rows, run, succeed, summary
from test_kinds import documented

SCENARIO = ROOT / "scenarios" / "overlap_tp8_a800.yaml"
SCATTER = ["workload.op=gemm_reduce_scatter", "workload.gemm={m: 4096, n: 12288, k: 49152}"]
BESIDE = ["workload.op=gemm_all_reduce", "workload.gemm={m: 4096, n: 12288, k: 6144}"]


def methods(folder, *sets, platform="dgx_a100"):
    options = [option for text in sets for option in ["--set", text]]
    succeed(platform, SCENARIO, "--out", folder, "--quiet", *options)
    return {row["method"]: {key: float(value) for key, value in row.items() if key != "method"} for row in rows(folder / "overlap.csv")}


@pytest.mark.parametrize("sets", [[], SCATTER])
def test_overlapped_is_between_the_longer_part_and_both(sets, tmp_path):
    found = methods(tmp_path / "out", *sets)
    time = {name: row["time_us"] for name, row in found.items()}
    assert list(time) == ["gemm", "collective", "serial", "decomposed", "fused"]
    assert time["serial"] == pytest.approx(time["gemm"] + time["collective"], rel=1e-6)
    assert max(time["gemm"], time["collective"]) < time["fused"] < time["decomposed"] < time["serial"]
    # A fused kernel does the same work once, and what copies take of HBM slows it by little.
    assert 1 <= found["fused"]["kernel_us"] / found["fused"]["kernel_alone_us"] < 1.02


@pytest.mark.parametrize("sets, method", [([], "ring"), (["workload.engine=sm", "workload.comm_sms=4"], "ring"), (SCATTER, "pipelined"),
                                          ([], "bulk"), (SCATTER, "bulk"), (BESIDE, "bulk")])
def test_a_method_takes_at_least_its_products_or_its_traffic_and_at_most_both(sets, method, tmp_path):
    found = methods(tmp_path / "out", *sets, f"workload.methods=[{method}]")[method]
    moves = [row for row in rows(tmp_path / "out" / "jobs.csv") if row["name"].startswith(("Shard", "Collective")) and row["rank"] == "0"]
    traffic = sum(float(row["end_s"]) - float(row["start_s"]) for row in moves) * 1e6
    assert found["kernel_us"] <= found["time_us"] < found["kernel_us"] + traffic


def test_a_ring_that_sends_after_the_product_hides_nothing(tmp_path):
    found = methods(tmp_path / "out", "workload.methods=[ring]", "workload.order=after_gemm")["ring"]
    shards = [row for row in rows(tmp_path / "out" / "jobs.csv") if row["name"].startswith("Shard_ring_Rank[0]")]
    assert len(shards) == 7
    copies = sum(float(row["end_s"]) - float(row["start_s"]) for row in shards) * 1e6
    assert found["time_us"] == pytest.approx(found["kernel_us"] + copies, rel=1e-6)


@pytest.mark.parametrize("platform, sets", [
    # The product is shorter than the copies of the shards, and all its tiles run at once.
    ("dgx_h100", ["workload.gemm={m: 512, n: 3072, k: 1024, dtype: bf16}", "machine.groups.node.gpu=H100-SXM5-80GB"]),
    # NCCL's collective is slower than the traffic of the methods.
    ("hgx_a100_4gpu", ["workload.op=gemm_reduce_scatter", "workload.ranks=2", "workload.gemm={m: 2048, n: 8192, k: 512}"])])
def test_hidden_shares_are_of_the_methods_own_traffic(platform, sets, tmp_path):
    found = methods(tmp_path / "out", *sets, "platform=" + platform, platform=platform)
    hidden = summary(tmp_path / "out")["metrics"]["hidden_ratio"]
    assert set(hidden) == set(found) - {"gemm", "collective"}
    for name, ratio in hidden.items():
        row = found[name]
        assert row["time_us"] >= 0.999 * max(row["kernel_alone_us"], row["traffic_alone_us"])
        parts = row["kernel_alone_us"], row["traffic_alone_us"]
        assert 0 <= ratio <= 1 and ratio == pytest.approx(max(0, min(1, (sum(parts) - row["time_us"]) / min(parts))), abs=1e-6)


def test_copies_by_copy_engines_cost_as_much_as_in_p2p(tmp_path):
    sets = ["workload.gemm={m: 512, n: 3072, k: 1024, dtype: bf16}", "machine.groups.node.gpu=H100-SXM5-80GB", "platform=dgx_h100",
            "workload.methods=[gemm, fused]"]
    times = [methods(tmp_path / str(us), *sets, f"machine.overrides.gpu.copy.engine_us={us}", platform="dgx_h100") for us in (0, 2.3)]
    shards = 7
    assert times[1]["fused"]["traffic_alone_us"] - times[0]["fused"]["traffic_alone_us"] == pytest.approx(shards * 2.3, rel=1e-3)
    for found in times:  # all tiles are one wave, so those of the last shard take the time of the product, less its launch and prologue
        assert found["fused"]["time_us"] > 0.3 * found["gemm"]["time_us"] + found["fused"]["bytes_there_us"]


def test_one_split_is_serial(tmp_path):
    found = methods(tmp_path / "out", *SCATTER, "workload.methods=[serial, pipelined]", "workload.splits=1", "workload.comm_sms=24")
    assert found["pipelined"]["time_us"] == pytest.approx(found["serial"]["time_us"], rel=1e-3)


def test_a_collective_beside_takes_its_sms_from_the_product(tmp_path):
    found = methods(tmp_path / "out", *BESIDE)
    assert found["beside"]["time_us"] < found["serial"]["time_us"]
    assert found["beside"]["kernel_us"] > found["beside"]["kernel_alone_us"]
    assert found["beside"]["bytes_there_us"] == pytest.approx(found["collective"]["time_us"], rel=0.01)


def test_bytes_of_hbm_are_kernels_and_messages(tmp_path):
    succeed("dgx_a100", SCENARIO, "--out", tmp_path / "out", "--quiet", "--set", "workload.methods=[decomposed]")
    shard, ranks = 4096 * 12288 * 2 // 8, 8
    for row in summary(tmp_path / "out")["memory"]["node"]:
        # Each rank reads its own for every peer, and writes theirs: beside the products, and before that alone.
        assert row["message_bytes"] == 2 * 2 * (ranks - 1) * shard
    succeed("dgx_a100", SCENARIO, "--out", tmp_path / "gemm", "--quiet", "--set", "workload.methods=[gemm]")
    product = (4096 * 12288 + 12288 * 6144 + 4096 * 6144) * 2
    for row in summary(tmp_path / "gemm")["memory"]["node"]:
        assert row["message_bytes"] == 0 and row["kernel_bytes"] >= product


def test_written_and_documented(tmp_path):
    out = tmp_path / "out"
    table = succeed("dgx_a100", SCENARIO, "--out", out).stdout
    written = rows(out / "overlap.csv")
    metrics = summary(out)["metrics"]
    assert [line.split()[0] for line in table.splitlines() if line.startswith(" ") and line.split()[0] in metrics["time_s"]] == [r["method"] for r in written]
    assert set(written[0]) == documented("Overlap tests")
    assert metrics["hidden_ratio"]["fused"] > metrics["hidden_ratio"]["decomposed"] > metrics["hidden_ratio"]["serial"] == pytest.approx(0, abs=1e-6)
    again = tmp_path / "again"
    succeed("dgx_a100", SCENARIO, "--out", again, "--quiet")
    assert (again / "overlap.csv").read_bytes() == (out / "overlap.csv").read_bytes()
    assert "4096 x 6144 x 12288" in succeed("dgx_a100", SCENARIO, "--explain").stdout


@pytest.mark.parametrize("sets, where, what", [
    (["workload.gemm.n=49153"], "workload.gemm.n", "not a multiple of the 8 ranks"),
    (["workload.methods=[gemm, beside]"], "workload.methods.1", "beside is not accepted with op: all_gather_gemm"),
    (["workload.collective_bytes=5"], "workload.collective_bytes", "is given by the matrix product"),
    (["workload.methods=[pipelined]"], "workload.methods.0", "pipelined is not accepted with op: all_gather_gemm"),
    (["workload.methods=[bulk]", "workload.comm_sms=108"], "workload.comm_sms", "expected less than the 108 SMs of A800-SXM4-80GB, got 108"),
    (["workload.methods=[ring]", "workload.engine=sm", "workload.comm_sms=54"], "workload.comm_sms", "expected less than the 108 SMs of A800-SXM4-80GB, got 108"),
    (SCATTER + ["workload.methods=[pipelined]", "workload.splits=3"], "workload.splits", "3 pieces for 8 ranks: gemm.m, 4096, is not a multiple"),
    (["workload.order=first"], "workload.order", "accepted: send_first, after_gemm"),
    (["workload.gemm.dtype=fp8"], "workload.gemm.dtype", "A800-SXM4-80GB has no tensor rate for fp8; accepted: fp16, bf16, tf32, int8"),
])
def test_refused(sets, where, what, tmp_path):
    options = [option for text in sets for option in ["--set", text]]
    result = run("dgx_a100", SCENARIO, "--out", tmp_path / "out", *options)
    assert result.returncode == 2 and where in result.stderr and what in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("sets", [["workload.methods=[bulk]"], SCATTER + ["workload.methods=[pipelined]"]])
def test_only_a_ring_takes_its_sms_twice(sets):
    options = [option for text in [*sets, "workload.comm_sms=107"] for option in ["--set", text]]
    assert run("dgx_a100", SCENARIO, "--check", *options).returncode == 0

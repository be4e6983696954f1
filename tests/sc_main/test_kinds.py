"""Collective and point-to-point tests from outside: tables, files, repeatability, interruption."""

import json
import re
import signal
import subprocess
import time

import pytest

from platform_runs import BIN, ROOT, rows, run, succeed, summary

COLLECTIVE = ROOT / "scenarios" / "nccl_tests_dgx_h100.yaml"
MATRIX = ROOT / "scenarios" / "p2p_plx.yaml"
WRITE = ROOT / "scenarios" / "ib_write.yaml"
FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n,
           "all_to_all": lambda n: (n - 1) / n, "broadcast": lambda n: 1, "send_recv": lambda n: 1}


def documented(section):
    """Columns and keys that a section of docs/results.md names; test_metrics.py checks the metrics."""
    page = (ROOT / "docs" / "results.md").read_text()
    part = page[page.index(f"## {section}"):]
    part = part[:part.index("\n## ", 4)]
    cells = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell) if not name.startswith("metrics.")}


@pytest.mark.parametrize("op", FACTORS)
@pytest.mark.parametrize("ranks", [2, 5])
def test_table_of_a_collective(op, ranks, tmp_path):
    out = tmp_path / "out"
    table = succeed("dgx_h100", COLLECTIVE, "--out", out, "--set", f"workload.op={op}", "--set", f"workload.ranks={ranks}",
                    "--set", "workload.min_bytes=1024", "--set", "workload.max_bytes=1048576", "--set", "workload.factor=32").stdout
    written = rows(out / "collectives.csv")
    metrics = summary(out)["metrics"]
    assert [int(row["bytes"]) for row in written] == [1024, 32768, 1048576]
    printed = [line.split() for line in table.splitlines() if re.match(r" +\d+ +\d+ +float", line)]
    for row, line in zip(written, printed, strict=True):
        algbw, busbw = float(row["algbw_gb_per_s"]), float(row["busbw_gb_per_s"])
        assert algbw == pytest.approx(int(row["bytes"]) / float(row["time_us"]) * 1e-3, rel=1e-6)
        assert busbw == pytest.approx(algbw * FACTORS[op](ranks), rel=1e-6)
        parts = ranks if op in ["all_gather", "reduce_scatter", "all_to_all"] else 1
        assert int(row["count"]) == int(row["bytes"]) // 4 // parts
        assert row["redop"] == ("sum" if op in ["all_reduce", "reduce_scatter"] else "none")
        assert line[:5] == [row["bytes"], row["count"], "float", row["redop"], row["root"]]
        assert float(line[5]) == pytest.approx(float(row["time_us"]), abs=0.006)
        assert line[8:] == [row["algorithm"], row["protocol"], row["channels"]]
        assert metrics["busbw_gb_per_s"][row["bytes"]] == pytest.approx(busbw, rel=1e-6)
        assert metrics["time_s"][row["bytes"]] == pytest.approx(float(row["time_us"]) * 1e-6, rel=1e-6)
    mean = sum(float(row["busbw_gb_per_s"]) for row in written) / len(written)
    assert metrics["avg_busbw_gb_per_s"] == pytest.approx(mean, rel=1e-6)
    jobs = {job["name"]: job for job in rows(out / "jobs.csv")}
    assert len(jobs) == len(written) and all(job["kind"] == "test" for job in jobs.values())
    assert set(written[0]) == documented("Collective tests")


def test_a_late_rank_is_waited_for(tmp_path):
    small = ["--set", "workload.sizes_bytes=[65536]", "--set", "workload.ranks=4", "--quiet"]
    succeed("dgx_h100", COLLECTIVE, "--out", tmp_path / "even", *small)
    succeed("dgx_h100", COLLECTIVE, "--out", tmp_path / "late", "--set", "workload.skew_us=[0, 0, 250, 0]", *small)
    even, late = rows(tmp_path / "even" / "collectives.csv")[0], rows(tmp_path / "late" / "collectives.csv")[0]
    assert float(late["last_entry_s"]) - float(late["first_entry_s"]) == pytest.approx(250e-6, abs=1e-15)
    assert float(even["last_entry_s"]) == float(even["first_entry_s"])
    # The others are in place when the last one comes, so it is not slower than all together, and takes more than nothing.
    assert 0 < float(late["time_us"]) <= float(even["time_us"])


def test_iterations_repeat_themselves(tmp_path):
    small = ["--set", "workload.sizes_bytes=[65536]", "--set", "workload.ranks=4", "--quiet"]
    succeed("dgx_h100", COLLECTIVE, "--out", tmp_path / "one", *small)
    succeed("dgx_h100", COLLECTIVE, "--out", tmp_path / "ten", "--set", "workload.iterations=10", *small)
    one, ten = rows(tmp_path / "one" / "collectives.csv")[0], rows(tmp_path / "ten" / "collectives.csv")[0]
    assert ten["iterations"] == "10" and len(rows(tmp_path / "ten" / "jobs.csv")) == 10
    # Ranks that are done early begin the next one: never slower than one alone.
    assert 0.5 * float(one["time_us"]) < float(ten["time_us"]) <= float(one["time_us"]) * 1.0001


def test_matrix(tmp_path):
    out = tmp_path / "out"
    table = succeed("plx_box", MATRIX, "--out", out, "--set", "workload.ranks=[0, 1, 4]", "--set", "workload.copy_bytes=4000000").stdout
    written = rows(out / "p2p.csv")
    metrics = summary(out)["metrics"]
    assert len(written) == 3 * 9
    by = {(row["measure"], row["from"], row["to"]): row for row in written}
    for (measure, a, b), row in by.items():
        if measure != "latency":
            read_and_written = 2 if a == b else 1
            assert float(row["gb_per_s"]) == pytest.approx(
                int(row["bytes"]) * int(row["messages"]) * read_and_written / float(row["time_s"]) * 1e-9, rel=1e-6)
    one_way = float(by["unidirectional", "0", "1"]["gb_per_s"])
    assert one_way == float(by["unidirectional", "1", "0"]["gb_per_s"])  # symmetric below one switch
    for name in ["unidirectional", "bidirectional"]:  # within a GPU the memory's bandwidth is all there is
        assert float(by[name, "0", "0"]["gb_per_s"]) == pytest.approx(float(by["unidirectional", "1", "1"]["gb_per_s"]), rel=1e-6)
    assert one_way < float(by["bidirectional", "0", "1"]["gb_per_s"]) <= 2 * one_way
    assert float(by["latency", "0", "2"]["latency_us"]) > float(by["latency", "0", "1"]["latency_us"])  # over the roots
    for name in ["unidirectional", "bidirectional"]:
        pairs = [float(row["gb_per_s"]) for row in written if row["measure"] == name and row["from"] != row["to"]]
        assert metrics[f"{name}_gb_per_s"] == pytest.approx(sum(pairs) / len(pairs), rel=1e-6)
    assert table.count("D\\D") == 3
    assert set(written[0]) == documented("Point-to-point tests")


def route(machine, what):
    found = [entry for entry in machine["routes"] if entry["what"] == what]
    return found[0]["payload_gb_per_s"] * 1e9, found[0]["latency_s"]


def test_a_copy_is_its_start_and_its_way(tmp_path):
    start = ["--set", "machine.overrides={gpu: {copy: {engine_us: 7}}}"]
    for ranks in ["[0, 1]", "[0, 5]"]:
        common = ["--set", f"workload.ranks={ranks}", *start]
        machine = json.loads(succeed("plx_box", MATRIX, "--describe", "--json", *common).stdout)
        rate, latency = route(machine, "0 to 1")
        times = {}
        for size in [1_000_000, 5_000_000]:
            succeed("plx_box", MATRIX, "--out", tmp_path / "out", "--quiet", "--set", f"workload.copy_bytes={size}", *common)
            pairs = {(row["measure"], row["from"], row["to"]): row for row in rows(tmp_path / "out" / "p2p.csv")}
            times[size] = float(pairs["unidirectional", "0", "1"]["time_s"])
        assert times[5_000_000] - times[1_000_000] == pytest.approx(4_000_000 / rate, rel=2e-3)
        assert times[1_000_000] == pytest.approx(7e-6 + latency + 1_000_000 / rate, rel=0.02)
        assert float(pairs["latency", "0", "1"]["latency_us"]) == pytest.approx(7 + latency * 1e6, abs=0.01)


def one_latency(tmp_path, size, *sets):
    options = [option for text in sets for option in ["--set", text]]
    succeed("dgx_a100", WRITE, "--out", tmp_path / "out", "--quiet", "--set", "workload.test=ib_write_lat", "--set", f"workload.sizes_bytes=[{size}]", *options)
    return float(rows(tmp_path / "out" / "p2p.csv")[0]["latency_us"])


def test_small_writes_of_a_host_go_with_the_work_request(tmp_path):
    inline, read = one_latency(tmp_path, 128), one_latency(tmp_path, 128, "machine.overrides={nic: {inline_bytes: 0}}")
    assert read > inline + 0.4  # a round trip to memory
    assert one_latency(tmp_path, 300) == one_latency(tmp_path, 300, "machine.overrides={nic: {inline_bytes: 0}}")
    # The memory of a GPU is always read, and answers more slowly than the host's.
    assert one_latency(tmp_path, 128, "workload.memory=gpu") > read
    # What posting takes is part of every write.
    assert one_latency(tmp_path, 128, "machine.overrides={nic: {post_ns: 1380}}") == pytest.approx(inline + 1, abs=1e-6)


def perftest(tmp_path, test, size, *sets, memory="host"):
    options = [option for text in (f"workload.test={test}", f"workload.sizes_bytes=[{size}]", f"workload.memory={memory}", *sets) for option in ["--set", text]]
    succeed("dgx_a100", WRITE, "--out", tmp_path / test, "--quiet", *options)
    return rows(tmp_path / test / "p2p.csv")[0]


@pytest.mark.parametrize("memory", ["host", "gpu"])
@pytest.mark.parametrize("pipeline_ns", [0, 250])
def test_a_read_takes_its_request_and_then_a_write(pipeline_ns, memory, tmp_path):
    nic = f"machine.overrides={{nic: {{inline_bytes: 0, post_ns: 0, doorbell_ns: 0, transmit_ns: {pipeline_ns}, receive_ns: {pipeline_ns}}}}}"
    links = json.loads(succeed("dgx_a100", WRITE, "--describe", "--json", "--set", nic).stdout)["links"]
    latency_ns = {(link["name"], link["direction"]): link["latency_ns"] for link in links}
    request_ns = pipeline_ns + latency_ns["IB_Cable_N[0]", "tx"] + latency_ns["IB_Cable_N[8]", "rx"] + 42 / 25  # bytes at 25 GB/s
    for size in (64, 65536):
        read, write = (float(perftest(tmp_path, test, size, nic, memory=memory)["latency_us"]) for test in ("ib_read_lat", "ib_write_lat"))
        assert read == pytest.approx(write + request_ns / 1e3, abs=1e-3)


@pytest.mark.parametrize("memory", ["host", "gpu"])
def test_reads_reach_the_bandwidth_of_writes(memory, tmp_path):
    read, write = (perftest(tmp_path, f"ib_{verb}_bw", 1 << 20, "workload.iterations=200", memory=memory) for verb in ("read", "write"))
    assert float(read["gb_per_s"]) == pytest.approx(float(write["gb_per_s"]), rel=2e-3)


def test_reads_in_flight_are_paced_by_their_round_trip(tmp_path):
    common = ("workload.iterations=400", "machine.overrides={nic: {post_ns: 0}}")
    latency = float(perftest(tmp_path, "ib_read_lat", 64, common[1])["latency_us"])
    for depth in (1, 4):
        rate = float(perftest(tmp_path, "ib_read_bw", 64, *common, f"workload.outstanding_reads={depth}")["messages_per_s"])
        assert rate == pytest.approx(depth * 1e6 / latency, rel=0.05 if depth > 1 else 1e-6)


def test_reads_over_fluid_links(tmp_path):
    for test, column in (("ib_read_lat", "latency_us"), ("ib_read_bw", "gb_per_s")):
        trains, fluid = (float(perftest(tmp_path, test, 1 << 20, "workload.iterations=20", *sets)[column]) for sets in ((), ("fabric.fidelity=fluid",)))
        assert fluid == pytest.approx(trains, rel=0.01)


def test_writes_of_a_window_are_paced_by_their_round_trip(tmp_path):
    succeed("dgx_a100", WRITE, "--out", tmp_path / "out", "--quiet", "--set", "workload.sizes_bytes=[64]", "--set", "workload.tx_depth=1",
            "--set", "machine.overrides={nic: {post_ns: 0}}", "--set", "workload.iterations=100")
    one = rows(tmp_path / "out" / "p2p.csv")[0]
    round_trip = float(one["time_s"]) / 100
    succeed("dgx_a100", WRITE, "--out", tmp_path / "out", "--quiet", "--set", "workload.sizes_bytes=[64]", "--set", "workload.tx_depth=4",
            "--set", "machine.overrides={nic: {post_ns: 0}}", "--set", "workload.iterations=400")
    four = rows(tmp_path / "out" / "p2p.csv")[0]
    assert float(four["messages_per_s"]) == pytest.approx(4 / round_trip, rel=0.05)


@pytest.mark.parametrize(
    "platform, workload",
    [
        ("dgx_a100", "{kind: p2p, test: h2d, ranks: 4, copy_bytes: 100000}"),  # acks of the first read requests cross an idle line
        ("plx_box", "{kind: p2p, test: ib_write_bw, sizes_bytes: [2], iterations: 20, memory: host}"),  # in the work request
        ("dgx_b200", "{kind: collective, op: all_gather, sizes_bytes: [1048576], ranks: 3, algorithm: ring, protocol: ll128}"),
    ],
)
def test_no_message_is_faster_than_alone(platform, workload, tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(f"schema_version: 1\nplatform: {platform}\nmachine: {{groups: {{node: {{servers: 2}}}}}}\nworkload: {workload}\n")
    succeed(platform, scenario, "--out", tmp_path / "out", "--quiet")
    sent = [row for row in summary(tmp_path / "out")["traffic"] if row["messages"]]
    assert sent
    for row in sent:
        assert row["mean_uncontended_s"] <= row["mean_actual_s"] < 1.01 * row["mean_uncontended_s"], row


def test_chunks_of_a_bounce_may_come_up_after_one_another_at_once(tmp_path):
    """With transactions as large as a chunk, room for a chunk came up after the last chunk had been read."""
    scenario = tmp_path / "s.yaml"
    scenario.write_text("""schema_version: 1
platform: plx_box
machine:
  groups: {node: {servers: 1, gpu: RTX-4090}}
  plx: {uplink: single_root, nics_per_plx: 1}
fabric: {transaction_bytes: 1048576}
workload: {kind: p2p, test: matrix, ranks: 2, copy_bytes: 1048576, engine: sm}
""")
    succeed("plx_box", scenario, "--out", tmp_path / "out", "--quiet")
    assert len(rows(tmp_path / "out" / "p2p.csv")) == 12


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_copies_between_a_gpu_and_its_host(direction, tmp_path):
    table = succeed("plx_box", MATRIX, "--out", tmp_path / "out", "--set", f"workload={{kind: p2p, test: {direction}, copy_bytes: 64000000}}").stdout
    written = rows(tmp_path / "out" / "p2p.csv")
    assert [row["measure"] for row in written] == [direction] * 8
    speeds = [float(row["gb_per_s"]) for row in written]
    assert all(0.75 * 31.5 < speed < 0.9 * 31.5 for speed in speeds)  # x16 of PCIe 4 behind its packets
    assert summary(tmp_path / "out")["metrics"][f"{direction}_gb_per_s"] == pytest.approx(sum(speeds) / 8, rel=1e-6)
    assert f"SUM {sum(speeds):.2f}" in table
    sent, received = ({row["name"]: int(row["bytes"]) for row in rows(tmp_path / "out" / "links.csv") if row["direction"] == way} for way in ["tx", "rx"])
    away = {"h2d": received, "d2h": sent}[direction]
    assert [away[f"GPU_N[{gpu}]_PCI"] for gpu in range(8)] == [64000000] * 8


def test_without_peer_access_bytes_bounce(tmp_path):
    small = ["--set", "workload.ranks=2", "--set", "workload.copy_bytes=8000000", "--quiet"]
    succeed("plx_box", MATRIX, "--out", tmp_path / "peer", *small)
    succeed("plx_box", MATRIX, "--out", tmp_path / "bounce", "--set", "workload.p2p=false", *small)
    peer, bounce = summary(tmp_path / "peer")["metrics"], summary(tmp_path / "bounce")["metrics"]
    assert bounce["latency_s"] > peer["latency_s"]
    assert bounce["unidirectional_gb_per_s"] < peer["unidirectional_gb_per_s"]


def test_write_sweeps(tmp_path):
    host = ["--set", "workload.factor=4"]
    succeed("dgx_a100", WRITE, "--out", tmp_path / "bw", "--set", "workload.iterations=200", *host)
    succeed("dgx_a100", WRITE, "--out", tmp_path / "lat", "--set", "workload.test=ib_write_lat", *host)
    bandwidth, latency = rows(tmp_path / "bw" / "p2p.csv"), rows(tmp_path / "lat" / "p2p.csv")
    gb_per_s = [float(row["gb_per_s"]) for row in bandwidth]
    assert gb_per_s == sorted(gb_per_s) and 20 < gb_per_s[-1] < 25  # HDR
    us = [float(row["latency_us"]) for row in latency]
    assert us == sorted(us)
    # One host thread posts them all: small writes are posted no faster than that.
    post = 380e-9
    assert float(bandwidth[0]["messages_per_s"]) == pytest.approx(1 / post, rel=0.1)


@pytest.mark.parametrize("platform, scenario, option", [("dgx_h100", COLLECTIVE, "workload.max_bytes=65536"),
                                                        ("plx_box", MATRIX, "workload.ranks=2"),
                                                        ("dgx_a100", WRITE, "workload.max_bytes=64")])
def test_looking_and_repeating(platform, scenario, option, tmp_path):
    for look in ["--check", "--describe", "--explain"]:
        assert succeed(platform, scenario, look, "--set", option).stdout
    first = succeed(platform, scenario, "--set", option, "--out", tmp_path / "a", "--vcd").stdout
    succeed(platform, scenario, "--set", option, "--out", tmp_path / "b")
    assert first
    one, two = summary(tmp_path / "a"), summary(tmp_path / "b")
    assert one.pop("simulator")["transactions"] == two.pop("simulator")["transactions"] and one == two
    for file in ["links.csv", "jobs.csv", "machine.json"]:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert (tmp_path / "a" / "trace.vcd").stat().st_size > 1000


def test_an_interrupted_test_keeps_what_was_finished(tmp_path):
    process = subprocess.Popen([str(BIN / "dgx_h100"), str(COLLECTIVE), "--out", str(tmp_path / "out"), "--set", "fabric.transaction_bytes=256"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not any(tmp_path.glob("**/machine.json")):  # written when the run begins; the small sizes take no time
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + signal.SIGINT and re.search(r"interrupted at [\d.]+ s: \d+ of 28 sizes done", error)
    left = summary(tmp_path / "out")
    assert not left["complete"] and left["simulator"]["interrupted"]
    assert 0 < len(rows(tmp_path / "out" / "collectives.csv")) == len(left["metrics"]["time_s"]) < 28


def test_what_does_not_fit_is_refused():
    result = run("dgx_h100", COLLECTIVE, "--set", "workload.algorithm=one_shot", "--set", "workload.op=broadcast")
    assert result.returncode == 2 and re.match(r".*nccl_tests_dgx_h100.yaml:\d+:\d+: error: workload.algorithm: ", result.stderr)

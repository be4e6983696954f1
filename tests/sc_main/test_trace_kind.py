"""workload.kind: trace from outside: Chakra execution traces and SimAI's text workloads take the times that their parts take elsewhere."""

import json
import random
import sys

import pytest

from platform_runs import ROOT, rows, run, succeed, summary

sys.path.insert(0, str(ROOT / "scripts"))

from lib import chakra  # noqa: E402
from lib.chakra import COLL, COMP, MEM_LOAD, MEM_STORE, METADATA, RECV, SEND, node  # noqa: E402


def scenario(folder, workload, machine=""):
    path = folder / "s.yaml"
    path.write_text(f"workload: {{kind: trace, {workload}}}\n{machine}")
    return path


def play(folder, workload, *options, platform="dgx_h100", machine=""):
    succeed(platform, scenario(folder, workload, machine), "--out", folder / "out", "--quiet", *options)
    return summary(folder / "out")["metrics"]


def play_chakra(folder, ranks, *options, groups=None, **how):
    prefix = chakra.write(folder, ranks)
    extra = ""
    if groups is not None:
        (folder / "groups.json").write_text(json.dumps(groups))
        extra = f", groups: {folder / 'groups.json'}"
    return play(folder, f"format: chakra, prefix: {prefix}{extra}", *options, **how)


def play_simai(folder, text, **how):
    (folder / "w.txt").write_text(text)
    return play(folder, f"format: simai, file: {folder / 'w.txt'}", **how)


def refused(folder, workload, status=2, **how):
    result = run("dgx_h100", scenario(folder, workload, **how), "--out", folder / "out", "--quiet")
    assert result.returncode == status, result.stderr
    assert not (folder / "out").exists() or status == 3
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


def refused_chakra(folder, ranks, groups=None):
    prefix = chakra.write(folder, ranks)
    extra = ""
    if groups is not None:
        (folder / "groups.json").write_text(json.dumps(groups))
        extra = f", groups: {folder / 'groups.json'}"
    return refused(folder, f"format: chakra, prefix: {prefix}{extra}")


def collective_s(folder, operation, size, ranks, platform="dgx_h100"):
    """The time of kind: collective."""
    path = folder / "collective.yaml"
    path.write_text(f"workload: {{kind: collective, op: {operation}, sizes_bytes: [{size}], ranks: {ranks}}}\n")
    succeed(platform, path, "--out", folder / "collective", "--quiet")
    return summary(folder / "collective")["metrics"]["time_s"][str(size)]


@pytest.mark.parametrize("number, operation, factor", [(0, "all_reduce", 1), (1, "reduce", 1), (2, "all_gather", 8), (6, "all_to_all", 1), (7, "reduce_scatter", 1)])
def test_a_collective_takes_its_time_with_the_size_of_astra_sim(number, operation, factor, tmp_path):
    metrics = play_chakra(tmp_path, [[node(1, COLL, comm_type=number, comm_size=1 << 20)] for _ in range(8)])
    assert metrics["makespan_s"] == pytest.approx(collective_s(tmp_path, operation, factor << 20, 8), rel=1e-9)
    assert metrics["traffic_bytes"] == {operation: factor << 20}


def test_durations_add_up_along_dependencies_of_both_kinds(tmp_path):
    nodes = [node(3, COMP, ctrl=[2], data=[1], micros=40), node(1, COMP, micros=10), node(2, COMP, micros=25), node(9, METADATA, data=[3]),
             node(10, COMP, ctrl=[9], micros=7)]
    metrics = play_chakra(tmp_path, [nodes])
    assert metrics["makespan_s"] == pytest.approx(82e-6, abs=1e-15)
    assert metrics["compute_s"] == pytest.approx(82e-6, abs=1e-15)


def test_compute_and_host_run_beside_each_other_and_meet_at_a_dependency(tmp_path):
    nodes = [node(1, COMP, micros=10), node(2, COMP, micros=30, is_cpu_op=True), node(3, COMP, data=[1, 2], micros=5)]
    metrics = play_chakra(tmp_path, [nodes])
    assert metrics["makespan_s"] == pytest.approx(35e-6, abs=1e-15)
    assert metrics["exposed_s"] == pytest.approx(20e-6, abs=1e-15)


def test_without_a_duration_the_roofline_gives_the_time(tmp_path):
    flops, size = 10**12, 10**8
    tensor = play_chakra(tmp_path, [[node(1, COMP, num_ops=flops, tensor_size=size)]])["makespan_s"]
    # 132 SMs x 4096 FLOP per clock at 1830 MHz; 3350 GB/s (NVIDIA H100 datasheet).
    assert tensor == pytest.approx(flops / (132 * 4096 * 1.83e9), rel=1e-3)
    memory = play_chakra(tmp_path, [[node(1, COMP, num_ops=10**9, tensor_size=size)]])["makespan_s"]
    assert memory == pytest.approx(size / 3.35e12, rel=1e-3)


def test_a_collective_waits_for_its_latest_member(tmp_path):
    ranks = [[node(1, COMP, micros=50 if rank == 2 else 1), node(2, COLL, data=[1], comm_type=0, comm_size=1 << 20)] for rank in range(4)]
    alone = play_chakra(tmp_path, [[node(2, COLL, comm_type=0, comm_size=1 << 20)] for _ in ranks])["makespan_s"]
    assert play_chakra(tmp_path, ranks)["makespan_s"] == pytest.approx(50e-6 + alone, rel=1e-3)


def test_groups_run_their_own_collectives(tmp_path):
    groups = {"0": [0, 1], "1": [2, 3]}
    ranks = [[node(1, COLL, comm_type=0, comm_size=1 << 20, pg_name=str(rank // 2))] for rank in range(4)]
    metrics = play_chakra(tmp_path, ranks, groups=groups)
    assert metrics["traffic_count"] == {"all_reduce": 2}
    assert metrics["makespan_s"] == pytest.approx(collective_s(tmp_path, "all_reduce", 1 << 20, 2), rel=1e-2)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_sends_meet_their_receives_in_either_order(order, tmp_path):
    """Two ranks that first send and then receive do not wait for each other."""
    first, second = order
    ranks = [[node(first, SEND, comm_dst=1 - rank, comm_size=1 << 22, comm_tag=7), node(second, RECV, comm_src=1 - rank, comm_size=1 << 22, comm_tag=7)]
             for rank in range(2)]
    metrics = play_chakra(tmp_path, ranks)
    assert metrics["traffic_count"] == {"send": 2}
    assert 4194304 / 450e9 < metrics["makespan_s"] < 4 * 4194304 / 450e9  # NVLink 4: 450 GB/s in each direction


def ring_of_sends(count, size=1 << 18):
    """Each rank sends to the next one, and then receives from the one before."""
    return [[node(1, SEND, comm_dst=(rank + 1) % count, comm_size=size), node(2, RECV, data=[1], comm_src=(rank - 1) % count, comm_size=size)]
            for rank in range(count)]


def test_a_send_does_not_wait_for_its_receive(tmp_path):
    """As in ASTRA-sim: a ring that sends before it receives takes the time of one hop."""
    hop = play_chakra(tmp_path, [[node(1, SEND, comm_dst=1, comm_size=1 << 18)], [node(1, RECV, comm_src=0, comm_size=1 << 18)]])["makespan_s"]
    # A receive ends when its bytes are there and the nodes before it are done.
    late = [[node(1, SEND, comm_dst=1, comm_size=1 << 18)], [node(1, COMP, micros=500), node(2, RECV, data=[1], comm_src=0, comm_size=1 << 18),
                                                             node(3, COMP, data=[2], micros=1)]]
    assert play_chakra(tmp_path, late)["makespan_s"] == pytest.approx(501e-6, abs=1e-12)
    early = [[node(1, COMP, micros=500), node(2, SEND, data=[1], comm_dst=1, comm_size=1 << 18)], [node(1, RECV, comm_src=0, comm_size=1 << 18)]]
    assert play_chakra(tmp_path, early)["makespan_s"] == pytest.approx(500e-6 + hop, rel=1e-3)
    assert play_chakra(tmp_path, ring_of_sends(4))["makespan_s"] == pytest.approx(hop, rel=0.3)


def test_both_ends_can_begin_together(tmp_path):
    """eager_sends: false, as ncclSend() and ncclRecv()."""
    prefix = chakra.write(tmp_path, ring_of_sends(2))
    line = refused(tmp_path, f"format: chakra, prefix: {prefix}, eager_sends: false")
    assert "ranks wait for each other" in line and "workload.eager_sends: true" in line
    late = [[node(1, SEND, comm_dst=1, comm_size=1 << 18)], [node(1, COMP, micros=500), node(2, RECV, data=[1], comm_src=0, comm_size=1 << 18)]]
    prefix = chakra.write(tmp_path, late)
    assert play(tmp_path, f"format: chakra, prefix: {prefix}, eager_sends: false")["makespan_s"] > 500e-6


def test_loads_and_stores_cross_pcie(tmp_path):
    size = 1 << 28
    for kind in (MEM_LOAD, MEM_STORE):
        metrics = play_chakra(tmp_path, [[node(1, kind, tensor_size=size)]])
        assert 40e9 < size / metrics["makespan_s"] < 64e9  # PCIe 5.0 x16


def test_observers_change_nothing_and_the_critical_path_covers_the_run(tmp_path):
    ranks = [[node(1, COMP, micros=10 + rank), node(2, COLL, data=[1], comm_type=0, comm_size=1 << 22), node(3, COMP, data=[2], micros=5)] for rank in range(4)]
    plain = play_chakra(tmp_path, ranks)
    jobs = (tmp_path / "out" / "jobs.csv").read_bytes()
    assert play_chakra(tmp_path, ranks, "--why", "--timeline", "--vcd") == plain
    assert (tmp_path / "out" / "jobs.csv").read_bytes() == jobs
    assert len(rows(tmp_path / "out" / "jobs.csv")) == 9


def random_trace(rng, count):
    """Ranks that agree: collectives and transfers are drawn for all ranks together, one after the other; each node waits for some before it."""
    groups = {str(g): sorted(rng.sample(range(count), rng.randint(2, count))) for g in range(3)}
    ranks = [[] for _ in range(count)]

    def add(rank, kind, **attributes):
        before = range(1, len(ranks[rank]) + 1)
        after = rng.sample(before, min(len(before), rng.randint(0, 2)))
        ranks[rank].append(node(len(ranks[rank]) + 1, kind, data=after, **attributes))

    for _ in range(40):
        what = rng.random()
        if what < 0.4:
            add(rng.randrange(count), COMP, micros=rng.randint(1, 50), is_cpu_op=rng.random() < 0.3)
        elif what < 0.6:
            name = rng.choice(sorted(groups))
            operation, size = rng.choice((0, 2, 6, 7)), rng.choice((512, 65536, 1 << 20))
            for rank in groups[name]:
                add(rank, COLL, comm_type=operation, comm_size=size, pg_name=name)
        elif what < 0.9:
            sender, receiver = rng.sample(range(count), 2)
            tag = rng.randint(0, 2)
            add(sender, SEND, comm_dst=receiver, comm_size=(64, 65536, 1 << 20)[tag], comm_tag=tag)
            add(receiver, RECV, comm_src=sender, comm_size=(64, 65536, 1 << 20)[tag], comm_tag=tag)
        else:
            add(rng.randrange(count), rng.choice((MEM_LOAD, MEM_STORE)), tensor_size=rng.choice((4096, 1 << 20)))
    return [nodes or [node(1, METADATA)] for nodes in ranks], groups


@pytest.mark.parametrize("seed", range(12))
def test_a_trace_whose_ranks_agree_runs_to_its_end(seed, tmp_path):
    ranks, groups = random_trace(random.Random(seed), 6)
    prefix = chakra.write(tmp_path, ranks)
    (tmp_path / "groups.json").write_text(json.dumps(groups))
    result = run("dgx_h100", scenario(tmp_path, f"format: chakra, prefix: {prefix}, groups: {tmp_path}/groups.json"), "--out", tmp_path / "out", "--quiet")
    assert result.returncode == 0, result.stderr
    done = summary(tmp_path / "out")
    assert done["complete"]
    jobs = rows(tmp_path / "out" / "jobs.csv")
    compute = {rank: sum(float(row["end_s"]) - float(row["start_s"]) for row in jobs if row["rank"] == str(rank) and row["kind"] == "compute")
               for rank in range(6)}
    assert done["metrics"]["makespan_s"] >= max(compute.values())
    assert done["metrics"]["compute_s"] == pytest.approx(sum(compute.values()) / 6, abs=1e-12)


@pytest.mark.parametrize("ranks, groups, words", [
    ([[node(1, 0)]], None, ["t.0.et", "node 1 ('n1')", "type is 0"]),
    ([[node(1, 12)]], None, ["type is 12"]),
    ([[node(1, COMP, data=[5])]], None, ["node 1", "depends on node 5, which is not in the file"]),
    ([[node(1, COMP), node(1, COMP)]], None, ["another node has the same id"]),
    ([[node(1, COMP, data=[2]), node(2, COMP, ctrl=[3]), node(3, COMP, data=[2])]], None, ["waits for itself", "cycle"]),
    ([[node(1, COLL, comm_size=4)], [node(1, COLL, comm_type=0, comm_size=4)]], None, ["needs the attribute comm_type"]),
    ([[node(1, COLL, comm_type=3, comm_size=4)] for _ in range(2)], None, ["GATHER is not modelled", "ALL_REDUCE"]),
    ([[node(1, COLL, comm_type=0, comm_size=4, pg_name="x")] for _ in range(2)], None, ["pg_name 'x'", "set workload.groups"]),
    ([[node(1, COLL, comm_type=0, comm_size=4, pg_name="dp1")] for _ in range(2)], {"dp0": [0, 1]}, ["pg_name 'dp1'", "dp0"]),
    ([[node(1, COLL, comm_type=0, comm_size=4, pg_name="a")] for _ in range(2)], {"a": [0, 2]}, ["groups.json:1:1", "accepted: 0 to 1"]),
    ([[node(1, COLL, comm_type=0, comm_size=4)], [node(1, COLL, comm_type=0, comm_size=8)]], None, ["t.1.et", "8 bytes", "of 4 bytes"]),
    ([[node(1, COLL, comm_type=0, comm_size=4)], [node(1, COLL, comm_type=7, comm_size=4)]], None, ["reduce_scatter", "all_reduce"]),
    ([[node(1, COLL, comm_type=0, comm_size=4), node(2, COLL, comm_type=0, comm_size=4)], [node(1, COLL, comm_type=0, comm_size=4)]], None,
     ["t.0.et", "number 2 in group all", "rank 1 has only 1"]),
    ([[node(1, SEND, comm_dst=1, comm_size=4)], [node(1, COMP)]], None, ["send number 1 to rank 1", "has no receive"]),
    ([[node(1, COMP)], [node(1, RECV, comm_src=0, comm_size=4)]], None, ["receive number 1 from rank 0", "has no send"]),
    ([[node(1, SEND, comm_dst=1, comm_size=4)], [node(1, RECV, comm_src=0, comm_size=8)]], None, ["receives 8 bytes", "sends 4"]),
    ([[node(1, SEND, comm_dst=0, comm_size=4)], [node(1, COMP)]], None, ["another rank"]),
    ([[node(1, COLL, comm_type=0, comm_size=4), node(2, SEND, data=[1], comm_dst=1, comm_size=4)],
      [node(1, COLL, data=[2], comm_type=0, comm_size=4), node(2, RECV, comm_src=0, comm_size=4)]], None, ["ranks wait for each other"]),
    ([[node(1, COMP)] for _ in range(9)], None, ["9 ranks; there are 8 GPUs"]),
])
def test_a_trace_that_cannot_run_is_one_line(ranks, groups, words, tmp_path):
    line = refused_chakra(tmp_path, ranks, groups)
    for word in words:
        assert word in line


def test_damaged_files_are_one_line(tmp_path):
    prefix = chakra.write(tmp_path, [[node(1, COMP, micros=3), node(2, COMP, micros=4)]] * 2)
    whole = (tmp_path / "t.1.et").read_bytes()
    key = f"format: chakra, prefix: {prefix}"
    (tmp_path / "t.1.et").write_bytes(whole[:-3])
    assert "t.1.et: error: is truncated" in refused(tmp_path, key)
    (tmp_path / "t.1.et").write_bytes(b"")
    assert "t.1.et: error: holds no nodes" in refused(tmp_path, key)
    (tmp_path / "t.1.et").rename(tmp_path / "t.2.et")
    assert "no file" in refused(tmp_path, key) and "t.1.et" in refused(tmp_path, key)
    assert "workload.prefix: no file" in refused(tmp_path, f"format: chakra, prefix: {tmp_path}/none")


def row(name, fwd="0 NONE 0", ig="0 NONE 0", wg="0 NONE 0", update=0):
    return f"{name} -1 {fwd} {ig} {wg} {update}"


def workload(head, lines):
    return "\n".join([head, str(len(lines)), *lines]) + "\n"


HEAD = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {tp} ep: {ep} pp: {pp} vpp: {vpp} ga: {ga} all_gpus: {gpus} checkpoints: 0 checkpoint_initiates: 0 pp_comm: {bytes}"


def head(tp=1, ep=1, pp=1, vpp=1, ga=1, gpus=8, size=0):
    return HEAD.format(tp=tp, ep=ep, pp=pp, vpp=vpp, ga=ga, gpus=gpus, bytes=size)


def test_a_row_takes_its_compute_times_its_collectives_and_updates(tmp_path):
    text = workload(head(tp=8), [row("a", "1000 ALLREDUCE 1048576", "2000 ALLREDUCE 1048576", "3000 NONE 0", 100)])
    collective = collective_s(tmp_path, "all_reduce", 1 << 20, 8)
    metrics = play_simai(tmp_path, text)
    assert metrics["makespan_s"] == pytest.approx(6.2e-6 + 2 * collective, rel=1e-4)
    assert metrics["traffic_count"] == {"all_reduce": 2}


def test_collectives_of_weight_gradients_run_beside_later_rows(tmp_path):
    lines = [row(f"l{i}", "100000 NONE 0", "100000 NONE 0", "100000 REDUCESCATTER 16777216") for i in range(4)]
    metrics = play_simai(tmp_path, workload(head(), lines))
    collective = collective_s(tmp_path, "reduce_scatter", 1 << 24, 8)
    # Only the last one is not hidden.
    assert metrics["makespan_s"] == pytest.approx(1200e-6 + collective, rel=0.01)


def test_a_checkpoint_repeats_the_rows_since(tmp_path):
    lines = [row(f"l{i}", f"{1000 * 10**i} NONE 0", "0 NONE 0") for i in range(4)]
    text = workload(head().replace("checkpoints: 0 checkpoint_initiates: 0", "checkpoints: 1 1 checkpoint_initiates: 1 3"), lines)
    assert play_simai(tmp_path, text)["makespan_s"] == pytest.approx((1111 + 10 + 100) * 1e-6, rel=1e-9)


def test_endings_choose_groups(tmp_path):
    text = workload(head(tp=2, ep=2), [row("a", "0 ALLTOALL_EP 4096", "0 ALLGATHER 4096", "0 ALLREDUCE_DP_EP 4096"),
                                       row("b", wg="0 ALLREDUCE 4096")])
    metrics = play_simai(tmp_path, text)
    # 8 GPUs: 4 groups of 2 for tp, for experts and for replicas of experts; 2 groups of 4 replicas.
    assert metrics["traffic_count"] == {"all_to_all": 4, "all_gather": 4, "all_reduce": 4 + 2}
    names = {line["name"] for line in rows(tmp_path / "out" / "jobs.csv")}
    assert any("Group[ep[" in name for name in names) and any("Group[dp_ep[" in name for name in names)


@pytest.mark.parametrize("pp, ga", [(2, 4), (4, 8)])
def test_stages_have_the_bubble_of_1f1b(pp, ga, tmp_path):
    block = [row("l0", "40000 NONE 0", "40000 NONE 0", "40000 NONE 0"), row("l1", "60000 NONE 0", "60000 NONE 0", "60000 NONE 0")]
    metrics = play_simai(tmp_path, workload(head(pp=pp, ga=ga, size=1024), block * ga))
    slot_s = 300e-6
    ideal = (ga + pp - 1) * slot_s
    transfers = 2 * (ga + pp) * 20e-6  # at most two a slot on the critical path, of less than 20 us
    assert ideal < metrics["makespan_s"] < ideal + transfers
    assert metrics["compute_s"] == pytest.approx(ga * slot_s, rel=1e-9)
    assert metrics["traffic_count"] == {"send": 8 // pp * 2 * (pp - 1) * ga}


def test_interleaving_divides_the_bubble(tmp_path):
    block = [row(f"l{i}", "100000 NONE 0", "100000 NONE 0", "100000 NONE 0") for i in range(4)]
    bubble = {}
    for vpp in (1, 2):
        metrics = play_simai(tmp_path, workload(head(pp=2, ga=4, vpp=vpp, size=1024), block * 4))
        bubble[vpp] = metrics["makespan_s"] - metrics["compute_s"]
    assert bubble[2] == pytest.approx(bubble[1] / 2, rel=0.15)


@pytest.mark.parametrize("text, words", [
    ("", ["w.txt:1:1", "the file is empty"]),
    ("HYBRID_TRANSFORMR pp: 1\n1\n", ["w.txt:1:1", "HYBRID_TRANSFORMER"]),
    ("HYBRID_DLRM x\n1\n", ["HYBRID_DLRM", "accepted"]),
    ("DATA\n", ["expected the number of rows"]),
    ("DATA\nx\n", ["w.txt:2:1", "expected a number"]),
    ("DATA\n2\n" + row("a") + "\n", ["ends after 1 of 2 rows"]),
    ("DATA\n1\n" + row("a") + "\n" + row("b") + "\n", ["w.txt:4:1", "more rows than the 1"]),
    ("DATA\n1\na -1 0 NONE\n", ["w.txt:3:1", "12 columns, got 4"]),
    (workload("DATA", [row("a", "0 ALLREDUSE 4")]), ["w.txt:3:8", "ALLREDUCE"]),
    (workload("DATA", [row("a", "-1 NONE 4")]), ["w.txt:3:6", "out of range"]),
    (workload(head(gpus=9216), [row("a")]), ["w.txt:1:1", "all_gpus is 9216", "8 GPUs"]),
    (workload(head(tp=3), [row("a")]), ["not a multiple", "3 x 1"]),
    (workload(head(tp=2, ep=3), [row("a")]), ["4 replicas", "ep, 3"]),
    (workload(head(pp=2, ga=1), [row("a")]), ["pp_comm must be above 0"]),
    (workload(head(pp=2, ga=3, size=8), [row("a"), row("b"), row("c")]), ["do not hold 3 equal blocks"]),
    (workload(head(pp=2, ga=3, vpp=2, size=8), [row("a"), row("a")] * 3), ["ga 3, pp 2, vpp 2"]),
    (workload(head().replace("ga:", "gaa:"), [row("a")]), ["unknown key", "ga"]),
    (workload(head().replace("checkpoint_initiates: 0", "checkpoint_initiates: 1 0"), [row("a")]), ["no checkpoint before row 0"]),
])
def test_a_bad_workload_is_one_line(text, words, tmp_path):
    (tmp_path / "w.txt").write_text(text)
    line = refused(tmp_path, f"format: simai, file: {tmp_path / 'w.txt'}")
    for word in words:
        assert word in line


@pytest.mark.parametrize("keys, words", [
    ("format: simai", ["simai needs file"]), ("format: chakra", ["chakra needs prefix"]),
    ("format: simai, file: w.txt, prefix: t", ["workload.prefix", "does not apply"]),
    ("format: chakra, prefix: t, file: w.txt", ["workload.file", "does not apply"]),
    ("format: simai, file: none.txt", ["cannot read"])])
def test_keys_belong_to_their_format(keys, words, tmp_path):
    line = refused(tmp_path, keys)
    for word in words:
        assert word in line

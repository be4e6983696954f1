"""Links that change during a run: both fidelities see each direction, and plans are those of the machine as it was built."""

import re

import pytest

from platform_runs import rows, run, succeed, summary

MIB = 1 << 20


def all_reduce(ranks, size, algorithm="auto"):
    return f"workload: {{kind: collective, op: all_reduce, ranks: {ranks}, sizes_bytes: [{size}], algorithm: {algorithm}}}\n"


def slow(link, ratio, direction="both"):
    return f"events: [{{at_us: 0, link: '{link}', direction: {direction}, rate_ratio: {ratio}}}]\n"


def end_s(folder, platform, text, *options):
    (folder / "s.yaml").write_text(text)
    succeed(platform, folder / "s.yaml", "--out", folder / "out", "--quiet", *options)
    return summary(folder / "out")["metrics"]["end_s"]


# Acknowledgements of the opposite direction alone can fill a line that is slow in one direction.
@pytest.mark.parametrize("platform, ranks, algorithm, link", [
    ("hgx_a100_4gpu", 4, "ring", "NVLink_N[0]_N[1]"),
    ("dgx_a100", 8, "ring", "NVLink_N[0]_Plane[1]"),
    ("dgx_h100", 8, "nvls", "NVLink_N[0]_Plane[1]"),
])
def test_fluid_sees_a_slow_direction_as_trains_do(platform, ranks, algorithm, link, tmp_path):
    text = all_reduce(ranks, 16 * MIB, algorithm)
    healthy = end_s(tmp_path, platform, text)
    for direction in ("tx", "rx", "both"):
        trains, fluid = (end_s(tmp_path, platform, text + slow(link, 0.1, direction), "--set", f"fabric.fidelity={fidelity}")
                         for fidelity in ("train", "fluid"))
        assert trains > 2 * healthy
        assert fluid == pytest.approx(trains, rel=0.05)


# Row of SimAI's format: name, dependency, then forward, input gradient and weight gradient with their collectives, update.
SIMAI = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 16 checkpoints: 0 checkpoint_initiates: 0 "
         "pp_comm: 0\n1\na -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE {size} 100\n")
TWO_SERVERS = "machine: {groups: {node: {servers: 2, gpu: RTX-4090}}}\n"


@pytest.mark.parametrize("kind", ["trace", "collective"])
@pytest.mark.parametrize("size", [64 * 1024, MIB, 16 * MIB])
def test_a_slow_cable_makes_nothing_faster(kind, size, tmp_path):
    """A library plans when it makes its communicator, from links as they were built: the algorithm stays, and takes longer."""
    (tmp_path / "t.txt").write_text(SIMAI.format(size=size))
    workload = f"workload: {{kind: trace, format: simai, file: {tmp_path}/t.txt}}\n" if kind == "trace" else all_reduce(16, size)
    took, chosen = [], []
    for events in ("", slow("IB_Cable_N[3]", 0.1)):
        took.append(end_s(tmp_path, "plx_box", TWO_SERVERS + workload + events))
        if kind == "collective":
            chosen.append([(row["algorithm"], row["protocol"], row["channels"]) for row in rows(tmp_path / "out" / "collectives.csv")])
    assert took[1] >= took[0]
    assert chosen == [] or chosen[0] == chosen[1]


@pytest.mark.parametrize("at_us, planes, parties", [
    (60, [0], r"from (the 8 GPUs from node0.gpu0 to node0.gpu7 to node0.gpu\d|node0.gpu\d to the 8 GPUs from node0.gpu0 to node0.gpu7)"),
    (20, [0, 1, 2, 3], r"from (the 8 GPUs from node0.gpu0 to node0.gpu7 to node0.gpu\d|node0.gpu\d to (the 8 GPUs|node0.gpu\d))"),
])
def test_a_lost_plane_ends_sums_in_switches_at_once(at_us, planes, parties, tmp_path):
    """Nobody can send a copy or an operand again that a switch has made."""
    events = ", ".join(f"{{at_us: {at_us}, link: 'NVLink_N[3]_Plane[{plane}]', fail: true}}" for plane in planes)
    (tmp_path / "s.yaml").write_text(all_reduce(8, 16 * MIB, "nvls") + f"events: [{events}]\n")
    result = run("dgx_h100", tmp_path / "s.yaml", "--out", tmp_path / "out", "--quiet")
    assert result.returncode == 3
    assert re.search(rf"\d+ bytes of tp {parties}, cannot be delivered: no working path is left; failed: ", result.stderr), result.stderr
    assert f"NVLink_N[3]_Plane[0] tx at {at_us * 1e-6:.9f} s" in result.stderr and "waits for" not in result.stderr
    assert not summary(tmp_path / "out")["complete"]

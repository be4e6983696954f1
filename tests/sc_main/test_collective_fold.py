"""simulation.fold of workload.kind: collective: one server runs for all that are alike. Against the whole machine; what cannot be folded."""

import json
import sys

import pytest

from platform_runs import ROOT, rows, run, succeed, summary

sys.path.insert(0, str(ROOT / "scripts"))

from fuzzing.folding import bounds  # noqa: E402

ONE_SWITCH = {"network": {"kind": "single_switch"}, "overrides": {"ib_switch": {"ports": 512}}}


def scenario(folder, servers, op="all_reduce", machine=ONE_SWITCH, groups=("node",), gpu="H100-SXM5-80GB", platform="dgx_h100", **keys):
    path = folder / "scenario.yaml"
    path.write_text(json.dumps({
        "schema_version": 1, "platform": platform, "fabric": {"fidelity": "fluid"},
        "machine": {"groups": {group: {"servers": servers, "gpu": gpu} for group in groups}} | machine,
        "workload": {"kind": "collective", "op": op, "sizes_bytes": [4096, 1 << 20, 1 << 26]} | keys}))
    return path


def both(folder, path, *options, platform="dgx_h100"):
    """Runs the whole machine and its part. Returns the folders of their results."""
    for fold in ("off", "require"):
        succeed(platform, path, "--out", folder / fold, "--quiet", "--set", f"simulation.fold={fold}", *options)
    return folder / "off", folder / "require"


def ratios(whole, part):
    """Of the times of each size."""
    pairs = list(zip(rows(whole / "collectives.csv"), rows(part / "collectives.csv"), strict=True))
    for a, b in pairs:
        for column in ("bytes", "count", "algorithm", "protocol", "channels", "iterations"):
            assert a[column] == b[column]
    return [float(b["time_us"]) / float(a["time_us"]) for a, b in pairs]


def refused(result, why):
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and why in result.stderr, result.stderr


@pytest.mark.parametrize("op, keys", [
    ("all_reduce", {"algorithm": "ring"}),
    ("all_reduce", {"algorithm": "hierarchical", "library": "trtllm"}),
    ("all_gather", {}),
    ("reduce_scatter", {"iterations": 2}),
    ("send_recv", {}),
    ("all_gather", {"ranks_per_server": 3, "sizes_bytes": [9 << 20]}),
    ("all_gather", {"ranks": 24, "sizes_bytes": [9 << 20]})])
def test_where_servers_do_the_same_results_are_equal(tmp_path, op, keys):
    whole, part = both(tmp_path, scenario(tmp_path, 4, op, **keys))
    assert ratios(whole, part) == pytest.approx([1] * len(rows(part / "collectives.csv")), rel=1e-8)
    told = summary(part)
    copies = 3 if keys.get("ranks") == 24 else 4
    assert told["simulation"] == {"fold": True, "why_not": "", "replicas": copies, "simulated_gpus": 8, "represented_gpus": 8 * copies,
                                  "exact": True, "bound": ""}
    assert told["setup"] == summary(whole)["setup"] and told["metrics"]["ranks"] == summary(whole)["metrics"]["ranks"]
    sent = {(row["name"], row["direction"]): row["bytes"] for row in rows(whole / "links.csv")}
    for row in rows(part / "links.csv"):
        assert int(row["bytes"]) == pytest.approx(int(sent[row["name"], row["direction"]]), rel=1e-4), row["name"]  # of uneven chunks, the longest


def test_the_bound_names_shared_pcie_links(tmp_path):
    path = scenario(tmp_path, 2, "reduce", gpu="L40S", platform="plx_box", machine={}, sizes_bytes=[1 << 20])
    _, part = both(tmp_path, path, platform="plx_box")
    assert "PCIe links that several of them share" in summary(part)["simulation"]["bound"]


def test_parts_of_unequal_size_are_not_exact(tmp_path):
    """Each rank counts as the one with most, and here one byte more is a packet more."""
    whole, part = both(tmp_path, scenario(tmp_path, 2, "all_gather", algorithm="ring", sizes_bytes=[65537]))
    assert 1 <= ratios(whole, part)[0] < 1.1
    told = summary(part)["simulation"]
    assert not told["exact"] and told["bound"].startswith("65537 bytes are not a multiple of ranks times channels")
    _, part = both(tmp_path, scenario(tmp_path, 2, "send_recv", sizes_bytes=[65537]))
    assert summary(part)["simulation"]["exact"]


@pytest.mark.parametrize("servers", [4, 8])
@pytest.mark.parametrize("op, keys, error", [
    ("broadcast", {}, 0.005),  # a chain through all ranks
    ("reduce", {}, 0.005),
    ("all_reduce", {"algorithm": "tree"}, 0.003),
    ("all_reduce", {"algorithm": "tree", "ranks_per_server": 3}, 0.006),  # few channels: NICs limit them
    ("all_reduce", {"algorithm": "nvls_tree"}, 0.01)])
def test_where_ranks_differ_all_servers_take_part(tmp_path, servers, op, keys, error):
    whole, part = both(tmp_path, scenario(tmp_path, servers, op, **keys))
    assert ratios(whole, part) == pytest.approx([1] * 3, rel=error)
    told = summary(part)["simulation"]
    assert told["fold"] and not told["exact"] and "share links of their own" in told["bound"]


@pytest.mark.parametrize("algorithm, size, transaction", [("nvls_tree", 1 << 30, 1 << 19), ("tree", 1 << 28, 1 << 16)])
def test_a_rank_that_runs_for_its_server_may_consume_before_others_send(tmp_path, algorithm, size, transaction):
    """With transactions of these sizes it does: room in a buffer must not be counted below zero."""
    path = scenario(tmp_path, 2, algorithm=algorithm, sizes_bytes=[size])
    whole, part = both(tmp_path, path, "--set", "fabric.fidelity=train", "--set", f"fabric.transaction_bytes={transaction}")
    assert ratios(whole, part) == pytest.approx([1], rel=0.04)  # whole trains take turns, also in the whole machine


@pytest.mark.parametrize("algorithm", ["direct", "pxn"])
def test_messages_to_several_servers_have_another_order(tmp_path, algorithm):
    whole, part = both(tmp_path, scenario(tmp_path, 4, "all_to_all", algorithm=algorithm))
    assert ratios(whole, part) == pytest.approx([1] * 3, rel=5e-3)
    told = summary(part)["simulation"]
    assert not told["exact"] and "another order" in told["bound"]


def test_several_nics_that_send_to_one_are_not_exact(tmp_path):
    """Two servers: each GPU sends to all of the other one, and pairs of GPUs share a NIC. In a ring each NIC has one sender."""
    machine = ONE_SWITCH | {"nic": {"per_server": 4}}
    for algorithm, exact in (("two_shot", False), ("ring", True)):
        folder = tmp_path / algorithm
        folder.mkdir()
        path = scenario(folder, 2, machine=machine if algorithm == "two_shot" else ONE_SWITCH, algorithm=algorithm, sizes_bytes=[3 << 20])
        succeed("dgx_h100", path, "--out", folder / "out", "--quiet", "--set", "simulation.fold=require")
        told = summary(folder / "out")["simulation"]
        assert told["exact"] == exact and ("share a NIC" in told["bound"]) != exact, told


@pytest.mark.parametrize("keys", [{"algorithm": "two_shot"}, {"algorithm": "tree", "ranks_per_server": 4}, {"op": "broadcast", "iterations": 2},
                                  {"op": "all_to_all"}])
def test_the_bound_has_a_figure_and_a_sign_and_holds(tmp_path, keys):
    machine = ONE_SWITCH | {"nic": {"per_server": 4}, "overrides": ONE_SWITCH["overrides"] | {"ib_cable": {"latency_ns": 500}}}
    whole, part = both(tmp_path, scenario(tmp_path, 3, machine=machine, **keys))
    least, most = bounds(summary(part)["simulation"]["bound"])
    assert least < 1 < most and all(least <= ratio <= most for ratio in ratios(whole, part))


def test_repeated_chains_take_at_most_as_long_as_one_alone(tmp_path):
    """In the whole machine the next broadcast begins while the last one still passes through other servers."""
    path = scenario(tmp_path, 4, "broadcast", algorithm="ring", sizes_bytes=[1024], in_graph=True)
    alone, _ = both(tmp_path, path)
    once = float(rows(alone / "collectives.csv")[0]["time_us"])
    whole, part = both(tmp_path, path, "--set", "workload.iterations=5")
    times = [float(rows(folder / "collectives.csv")[0]["time_us"]) for folder in (whole, part)]
    assert times[0] < times[1] <= once
    assert "iterations do not overlap" in summary(part)["simulation"]["bound"]


def test_gpus_without_multicast_agree(tmp_path):
    path = scenario(tmp_path, 8, gpu="A100-SXM4-80GB", platform="dgx_a100")
    assert ratios(*both(tmp_path, path, platform="dgx_a100")) == pytest.approx([1] * 3, rel=0.01)


def test_trains_agree(tmp_path):
    path = scenario(tmp_path, 4, "all_gather", sizes_bytes=[1 << 20])
    assert ratios(*both(tmp_path, path, "--set", "fabric.fidelity=train")) == pytest.approx([1], rel=1e-6)
    assert ratios(*both(tmp_path, path, "--set", "fabric.fidelity=auto")) == pytest.approx([1], rel=1e-6)


def test_the_longest_way_over_spines_stands_for_all(tmp_path):
    """Two servers on a leaf: every second step of a ring stays below it."""
    machine = {"network": {"kind": "leaf_spine"}, "overrides": {"ib_switch": {"ports": 32}}}
    whole, part = both(tmp_path, scenario(tmp_path, 8, "all_gather", machine))
    assert all(1 <= ratio < 1.05 for ratio in ratios(whole, part))
    assert summary(part)["simulation"]["bound"].startswith("messages cross spines")


def test_a_slow_server_runs_beside_the_others(tmp_path):
    path = scenario(tmp_path, 4, "all_gather", sizes_bytes=[1 << 26])
    text = json.loads(path.read_text()) | {"events": [{"at_us": 0, "link": "node2.gpu3.nvlink0", "rate_ratio": 0.25}]}
    path.write_text(json.dumps(text))
    whole, part = both(tmp_path, path)
    assert ratios(whole, part) == pytest.approx([1], rel=0.01)
    told = summary(part)["simulation"]
    assert told["simulated_gpus"] == 16 and told["bound"].startswith("servers that events slow, and the others, have rings of their own; ")


def test_thousands_of_ranks_run_as_one_server(tmp_path):
    """A step of a ring cannot be faster than the NICs."""
    path = scenario(tmp_path, 256, "all_gather", {"network": {"kind": "leaf_spine"}}, sizes_bytes=[1 << 34])
    succeed("dgx_h100", path, "--out", tmp_path / "out", "--quiet", "--set", "simulation.fold=require")
    told = summary(tmp_path / "out")
    assert told["setup"]["ranks"] == told["simulation"]["represented_gpus"] == 2048 and told["simulation"]["simulated_gpus"] == 8
    assert 0.7 * 400 < told["metrics"]["busbw_gb_per_s"][str(1 << 34)] < 400


def test_tables_and_descriptions_are_of_the_whole_test(tmp_path):
    path = scenario(tmp_path, 4, "all_gather")
    auto = ("--set", "simulation.fold=auto")
    table = succeed("dgx_h100", path, *auto).stdout
    assert "(32 x H100-SXM5-80GB): 32 ranks" in table and "folded: 8 GPUs run for 32; results are those of the whole machine" in table
    assert "all_gather over 32 ranks" in succeed("dgx_h100", path, *auto, "--explain").stdout
    assert "folded: these servers run for 4" in succeed("dgx_h100", path, *auto, "--describe").stdout


def test_one_rank_on_each_server_can_be_folded(tmp_path):
    path = scenario(tmp_path, 4, ranks_per_server=1)
    assert ratios(*both(tmp_path, path)) == pytest.approx([1] * 3, rel=0.01)
    folded = ("--set", "simulation.fold=require")
    assert "all_reduce over 4 ranks" in succeed("dgx_h100", path, *folded, "--explain").stdout
    assert "rank 0 to rank 1" in succeed("dgx_h100", path, *folded, "--describe").stdout


@pytest.mark.parametrize("algorithm", ["ring", "tree", "nvls_tree"])
def test_observers_change_nothing(tmp_path, algorithm):
    path = scenario(tmp_path, 4, algorithm=algorithm, sizes_bytes=[1 << 22])
    options = ("--quiet", "--jobs", "all", "--set", "simulation.fold=require")
    succeed("dgx_h100", path, "--out", tmp_path / "alone", *options)
    succeed("dgx_h100", path, "--out", tmp_path / "watched", *options, "--why", "--timeline", "--vcd")
    for file in ("jobs.csv", "collectives.csv", "links.csv"):
        assert (tmp_path / "alone" / file).read_bytes() == (tmp_path / "watched" / file).read_bytes(), file


def test_a_slow_nic_runs_whole(tmp_path):
    """Others send to it at their own rate, in trees."""
    path = scenario(tmp_path, 4)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"events": [{"at_us": 0, "link": "node2.nic1.network", "rate_ratio": 0.5}]}))
    refused(run("dgx_h100", path, "--set", "simulation.fold=require"), "'node2.nic1.network' is slow; of a replica's links, only NVLink may be")


@pytest.mark.parametrize("servers, keys, why", [
    (1, {}, "all ranks are on one server"),
    (2, {"skew_us": [0] * 15 + [5]}, "ranks enter at different times (workload.skew_us)"),
    (2, {"ranks": 12}, "servers have different ranks"),
    (2, {"ranks": [0, 8, 1, 9]}, "servers have different ranks, or ranks of a server do not follow each other"),
    (2, {"ranks": [0, 1, 8, 10]}, "servers have different ranks"),
    (2, {"groups": ("a", "b")}, "servers of different groups differ"),
    (2, {"machine": {"network": {"kind": "leaf_spine", "sharp": True}}}, "switches add over all servers (machine.network.sharp)")])
def test_what_cannot_be_folded_is_refused(tmp_path, servers, keys, why):
    path = scenario(tmp_path, servers, **({"sizes_bytes": [4096]} | keys))
    refused(run("dgx_h100", path, "--set", "simulation.fold=require"), "simulation.fold: " + why)
    succeed("dgx_h100", path, "--out", tmp_path / "auto", "--quiet", "--set", "simulation.fold=auto")
    told = summary(tmp_path / "auto")["simulation"]
    assert not told["fold"] and why in told["why_not"]


def test_other_kinds_have_no_parts_that_are_alike(tmp_path):
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps({"schema_version": 1, "platform": "dgx_h100", "machine": {"groups": {"node": {"servers": 2}}},
                                "simulation": {"fold": "require"}, "workload": {"kind": "p2p", "test": "ib_write_bw", "sizes_bytes": [1024]}}))
    refused(run("dgx_h100", path), "only workload.kind training and collective have parts that are alike")


def test_a_folded_test_has_no_traces_of_all_ranks(tmp_path):
    path = scenario(tmp_path, 4, "all_gather")
    refused(run("dgx_h100", path, "--set", "simulation.fold=require", "--export-et", tmp_path / "et"), "a folded machine has no jobs")

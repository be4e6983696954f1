"""simulation.fold: replicas that are alike run once. Results against those of the whole machine; what cannot be folded."""

import json

import pytest

from platform_runs import rows, run, succeed, summary

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 4096,
         "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "num_hidden_layers": 4,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
# Eight servers of eight GPUs. Without a norm of gradients, all that ranks do together is a ring.
WORKLOAD = {"kind": "training", "seq_tokens": 1024, "global_batch": 32, "tp": 8, "sequence_parallel": True, "pp": 2, "grad_norm": "none"}
TRAINS = ("--set", "fabric.fidelity=train", "--set", "fabric.transaction_bytes=65536")  # a fifth of the transactions of auto


def scenario(folder, servers=8, machine=None, **keys):
    (folder / "model.json").write_text(json.dumps(MODEL))
    path = folder / "scenario.yaml"
    path.write_text(json.dumps({
        "schema_version": 1, "platform": "dgx_h100", "model": {"config": "model.json"}, "fabric": {"fidelity": "fluid"},
        "machine": {"groups": {"node": {"servers": servers}}} | (machine or {}), "workload": WORKLOAD | keys}))
    return path


def both(folder, path, *options):
    """Runs the whole machine and its part. Returns the folders of their results."""
    for fold in ("off", "require"):
        succeed("dgx_h100", path, "--out", folder / fold, "--quiet", "--set", f"simulation.fold={fold}", *options)
    return folder / "off", folder / "require"


def refused(result, why):
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and why in result.stderr, result.stderr


def by(column, table, but=()):
    return {tuple(row[c] for c in column): {key: value for key, value in row.items() if key not in but} for row in table}


@pytest.mark.parametrize("keys, replicas", [
    ({}, 4),
    ({"zero_stage": 0}, 4),
    ({"zero_stage": 2}, 4),
    ({"zero_stage": 3, "software": "torchtitan", "pp": 1}, 8),
    ({"schedule": "zb_h1"}, 4),
    ({"schedule": "interleaved", "virtual_stages": 2}, 4),
    ({"schedule": "gpipe", "steps": 2}, 4),
    ({"tp": 4, "pp": 4}, 2),  # two replicas on each server
    ({"tp": 4, "pp": 2, "cp": 2}, 4),
    ({"tp": 2, "gtp": {"size": 4}}, 4),
    ({"rank_order": "tp-cp-ep-pp-dp"}, 4)])
def test_a_part_does_what_the_whole_does(tmp_path, keys, replicas):
    whole, part = both(tmp_path, scenario(tmp_path, **keys))
    told = summary(part)
    assert told["simulation"] == {"fold": True, "why_not": "", "replicas": replicas, "simulated_gpus": 64 // replicas,
                                  "represented_gpus": 64, "exact": True, "bound": ""}
    assert told["setup"] == summary(whole)["setup"] and told["memory"].keys() <= summary(whole)["memory"].keys()
    for metric in ("step_s", "tokens_per_s_per_gpu", "mfu", "hfu", "memory"):
        assert told["metrics"][metric] == summary(whole)["metrics"][metric], metric
    numbers = ("rank", "dp")
    all_ranks = by(["gpu"], rows(whole / "ranks.csv"), numbers)
    assert by(["gpu"], rows(part / "ranks.csv"), numbers).items() <= all_ranks.items()
    waits = ("waited_tp_s", "waited_pp_s", "waited_dp_s", "waited_weights_s", "waited_cp_s")  # of two busy links, either is named
    all_links = by(["name", "direction"], rows(whole / "links.csv"), waits)
    links = by(["name", "direction"], rows(part / "links.csv"), waits)
    assert len(links) == len(all_links) // replicas and links.items() <= all_links.items()


@pytest.mark.parametrize("keys", [{}, {"grad_norm": "post_validation"}, {"pp": 1, "zero_stage": 0}])
def test_trees_take_their_time_without_contention(tmp_path, keys):
    """The norm crosses a tree, in which members differ. All of them run; those that do not exist send at their best."""
    whole, part = both(tmp_path, scenario(tmp_path, **({"grad_norm": "before"} | keys)))
    assert summary(part)["metrics"]["step_s"] == pytest.approx(summary(whole)["metrics"]["step_s"], rel=1e-6)


# 16 of the 72 GPUs of a rack
RACK = {"tp": 2, "pp": 1, "dp": 8, "global_batch": 16, "grad_norm": "before", "dp_overlap": True}


@pytest.mark.parametrize("keys, fidelity", [
    ({}, "fluid"), ({"zero_stage": 0}, "fluid"), ({"pp": 2, "dp": 4}, "fluid"),
    ({"tp": 4, "dp": 4, "cp": 1, "rank_order": "tp-cp-pp-ep-dp"}, "fluid"), ({"global_batch": 8}, "train")])
def test_replicas_inside_a_rack_run_once(tmp_path, keys, fidelity):
    """NVSwitches join all GPUs alike: what a rank sends to the next replica comes back by its own links."""
    path = scenario(tmp_path, servers=1, **(RACK | keys))
    path.write_text(path.read_text().replace("dgx_h100", "gb200_nvl72"))
    results = {}
    for fold in ("off", "require"):
        succeed("gb200_nvl72", path, "--out", tmp_path / fold, "--quiet", "--set", f"simulation.fold={fold}", "--set", f"fabric.fidelity={fidelity}")
        results[fold] = summary(tmp_path / fold)
    whole, part = results["off"], results["require"]
    replicas = (RACK | keys)["dp"]
    assert part["simulation"] == {"fold": True, "why_not": "", "replicas": replicas, "simulated_gpus": 16 // replicas, "represented_gpus": 16,
                                  "exact": True, "bound": ""}
    error = 1e-9 if fidelity == "fluid" else 1e-5  # the last bytes of a message are on other planes
    for metric in ("step_s", "tokens_per_s_per_gpu", "mfu", "kernels_s"):
        assert part["metrics"][metric] == pytest.approx(whole["metrics"][metric], rel=error), metric
    assert part["metrics"]["memory"] == whole["metrics"]["memory"]
    # Each GPU that runs sends and receives what it does in the whole rack.
    assert "folded: GPUs of one replica run for 16\n" in succeed("gb200_nvl72", path, "--describe", "--set", "simulation.fold=auto").stdout
    sent = [of_gpus(rows(tmp_path / fold / "links.csv")) for fold in ("off", "require")]
    assert len(sent[1]) == 2 * 16 // replicas and all(bytes == pytest.approx(sent[0][key], rel=1e-5) for key, bytes in sent[1].items())


def of_gpus(links):
    """Bytes by GPU and direction, over all planes; of GPUs with any."""
    found = {}
    for row in links:
        if float(row["bytes"]) > 0:
            key = row["name"].split("_Plane")[0], row["direction"]
            found[key] = found.get(key, 0) + float(row["bytes"])
    return found


@pytest.mark.parametrize("keys, more, why", [
    ({"nvls": True}, {}, "NVSwitches add over replicas of one server (nvls of the software)"),
    ({"offload": {"optimizer": True}}, {}, "replicas share the memory of CPU sockets (offload)"),
    ({}, {"events": [{"at_us": 1, "gpu": "node0.gpu0", "slow_ratio": 0.9}]}, "events change a server that all replicas share")])
def test_a_rack_whose_replicas_meet_is_not_folded(tmp_path, keys, more, why):
    path = scenario(tmp_path, servers=1, **(RACK | keys))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"platform": "gb200_nvl72"} | more))
    refused(run("gb200_nvl72", path, "--set", "simulation.fold=require"), "simulation.fold: " + why)


def test_trains_agree(tmp_path):
    whole, part = both(tmp_path, scenario(tmp_path, global_batch=8), *TRAINS)
    assert summary(part)["metrics"]["step_s"] == pytest.approx(summary(whole)["metrics"]["step_s"], rel=1e-6)


def test_a_ring_of_uneven_chunks_is_as_slow_as_its_longest(tmp_path):
    """Gradients that 4 ranks do not divide evenly."""
    whole, part = both(tmp_path, scenario(tmp_path, bucket_parameters=1000003))
    assert summary(part)["metrics"]["step_s"] == pytest.approx(summary(whole)["metrics"]["step_s"], rel=1e-9)


def test_observers_change_nothing(tmp_path):
    """With trees, in which members run that do not exist."""
    path = scenario(tmp_path, global_batch=8, grad_norm="before")
    options = ("--quiet", "--jobs", "all", "--set", "simulation.fold=require")
    succeed("dgx_h100", path, "--out", tmp_path / "alone", *options)
    succeed("dgx_h100", path, "--out", tmp_path / "watched", *options, "--why", "--timeline", "--vcd")
    for file in ("jobs.csv", "ranks.csv", "links.csv", "memory.csv"):
        assert (tmp_path / "alone" / file).read_bytes() == (tmp_path / "watched" / file).read_bytes(), file
    assert summary(tmp_path / "watched")["metrics"] == summary(tmp_path / "alone")["metrics"]


def test_ways_over_spines_are_told(tmp_path):
    """Leaves of eight servers: some neighbours share a leaf, others do not, and the longer way stands for all."""
    path = scenario(tmp_path, machine={"network": {"kind": "rail_optimized"}, "overrides": {"ib_switch": {"ports": 16}}}, servers=16, pp=1)
    whole, part = both(tmp_path, path)
    told = summary(part)
    assert not told["simulation"]["exact"] and "spines" in told["simulation"]["bound"]
    ratio = told["metrics"]["step_s"] / summary(whole)["metrics"]["step_s"]
    assert 1 <= ratio < 1.02


def leaves(servers, spines, hop_ns=200, **network):
    """So many servers on a leaf."""
    return {"network": {"kind": "leaf_spine", "spines": spines} | network, "overrides": {"ib_switch": {"ports": 16 * servers, "hop_ns": hop_ns}}}


# Replicas of two stages, each a server. Stages are far apart, so activations leave all servers of a leaf at once; or near, so that gradients do.
@pytest.mark.parametrize("network, servers, keys, share, error", [
    (leaves(4, 32), 8, {}, None, 1e-6),  # each message has an uplink to itself, as in the part
    (leaves(4, 8), 8, {}, 0.25, 1e-4),  # activations of four servers on each uplink
    (leaves(2, 8, hop_ns=0), 8, {}, 0.5, 1e-4),  # ways over spines take as long as those below a leaf
    (leaves(2, 8), 4, {}, 0.5, 1e-4),
    (leaves(2, 8), 8, {"rank_order": "tp-cp-ep-pp-dp"}, None, 1e-6),  # gradients of both servers: of one replica
    (leaves(1, 2), 8, {"pp": 1}, None, 1e-6)])
def test_uplinks_have_the_share_of_the_whole_machine(tmp_path, network, servers, keys, share, error):
    path = scenario(tmp_path, machine=network, servers=servers, global_batch=2 * servers, **keys)
    whole, part = both(tmp_path, path)
    told, all_gpus = summary(part), summary(whole)
    bound = told["simulation"]["bound"]
    assert not told["simulation"]["exact"] and (f"down to {share} of their rate" in bound if share else "share" not in bound)
    assert told["metrics"]["step_s"] == pytest.approx(all_gpus["metrics"]["step_s"], rel=error)
    assert told["metrics"]["exposed_s"].get("pp", 0) == pytest.approx(all_gpus["metrics"]["exposed_s"].get("pp", 0), rel=0.01)


def test_gradients_between_neighbours_below_a_leaf_count_as_far(tmp_path):
    """Two more switches for each of them, and not one for others: what folding adds grows with a switch's time by an even number."""
    added_ns = []
    for hop_ns in (200, 2000):
        folder = tmp_path / str(hop_ns)
        folder.mkdir()
        whole, part = both(folder, scenario(folder, machine=leaves(2, 8, hop_ns), global_batch=16))
        added_ns.append((summary(part)["metrics"]["step_s"] - summary(whole)["metrics"]["step_s"]) * 1e9)
    hops = (added_ns[1] - added_ns[0]) / 1800
    assert hops == pytest.approx(2 * round(hops / 2), abs=1e-3) and 2 <= hops <= 2 * 2 * 2 * 3  # two collectives of each stage, three messages each


@pytest.mark.parametrize("routing, fidelity", [("deterministic", []), ("ecmp", TRAINS)], ids=["deterministic", "ecmp-train"])
def test_the_slowest_replica_stands_for_all(tmp_path, routing, fidelity):
    """Four replicas on two leaves: activations of all leave a leaf, gradients of one. By hash, some replica is slowest."""
    path = scenario(tmp_path, machine=leaves(2, 4, routing=routing), global_batch=8)
    whole, part = both(tmp_path, path, *fidelity)
    ratio = summary(part)["metrics"]["step_s"] / summary(whole)["metrics"]["step_s"]
    assert 1 < ratio < 1.07
    own, ring = (sum(float(row["wire_bytes"]) for row in rows(part / "links.csv") if row["name"].startswith(kind))
                 for kind in ("IB_Spine", "IB_Next_Spine"))
    cables = sum(float(row["wire_bytes"]) for row in rows(part / "links.csv") if row["name"].startswith("IB_Cable"))
    assert own > 0 and ring > 0 and own + ring == pytest.approx(cables)


def test_one_leaf_is_exact(tmp_path):
    path = scenario(tmp_path, machine={"network": {"kind": "rail_optimized"}}, pp=1)
    whole, part = both(tmp_path, path)
    assert summary(part)["simulation"]["exact"]
    assert summary(part)["metrics"]["step_s"] == summary(whole)["metrics"]["step_s"]


def with_events(path, events):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"events": events}))
    return path


SLOW_GPU = {"at_us": 0, "gpu": "node5.gpu3", "slow_ratio": 0.7}  # of the third replica, or the sixth
SLOW_NIC = {"at_us": 0, "link": "node5.nic3.network", "rate_ratio": 0.5}
SLOW_NVLINK = {"at_us": 0, "link": "node5.gpu3.nvlink0", "rate_ratio": 0.5}


def slow_and_whole(folder, path, events):
    """Metrics of the part and of the whole machine with events; they make the step longer."""
    succeed("dgx_h100", path, "--out", folder / "well", "--quiet", "--set", "simulation.fold=require")
    whole, part = both(folder, with_events(path, events))
    told = summary(part)["simulation"]
    assert told["fold"] and told["represented_gpus"] == 64 and told["simulated_gpus"] == 64 // told["replicas"] * (1 + len(events))
    slow_nic = SLOW_NIC in events
    assert told["exact"] != slow_nic and ("slowest" in told["bound"]) == slow_nic
    ours, theirs = summary(part)["metrics"], summary(whole)["metrics"]
    assert ours["step_s"] > 1.01 * summary(folder / "well")["metrics"]["step_s"]
    return ours, theirs


@pytest.mark.parametrize("keys, events", [
    ({"pp": 1}, [SLOW_GPU]), ({}, [SLOW_GPU]), ({"tp": 4, "pp": 2}, [SLOW_GPU]), ({"zero_stage": 0, "pp": 1, "grad_norm": "before"}, [SLOW_GPU]),
    ({"pp": 1}, [SLOW_GPU, {"at_us": 3000, "gpu": "node0.gpu0", "slow_ratio": 0.8}]), ({"pp": 1}, [SLOW_NVLINK])])
def test_a_slow_gpu_runs_beside_the_others(tmp_path, keys, events):
    """It changes no transfer between replicas, and all ranks of a collective begin together: the step is that of the whole machine."""
    ours, theirs = slow_and_whole(tmp_path, scenario(tmp_path, **keys), events)
    norm = keys.get("grad_norm") == "before"
    assert ours["step_s"] == pytest.approx(theirs["step_s"], rel=1e-6 if norm else 1e-12)
    assert ours["kernels_s"] == pytest.approx(theirs["kernels_s"], rel=1e-6 if norm else 1e-12)  # means of 64 ranks, not of those that run


def test_replicas_that_are_slow_alike_run_once(tmp_path):
    """All GPUs, and at a second time the third GPU of each replica."""
    slow = [{"at_us": 0, "gpu": f"node{gpu // 8}.gpu{gpu % 8}", "slow_ratio": 0.9} for gpu in range(64)]
    slow += [{"at_us": 300, "gpu": f"node{server}.gpu2", "slow_ratio": 0.8} for server in range(4)]
    whole, part = both(tmp_path, with_events(scenario(tmp_path), slow))
    assert summary(part)["simulation"]["exact"] and summary(part)["simulation"]["simulated_gpus"] == 16
    assert summary(part)["metrics"]["step_s"] == summary(whole)["metrics"]["step_s"]


@pytest.mark.parametrize("keys, error", [
    ({"pp": 1, "seq_tokens": 4096, "global_batch": 64}, 0.005), ({"pp": 1, "zero_stage": 3, "software": "torchtitan"}, 0.005), ({"pp": 1}, 0.01),
    ({"grad_norm": "before"}, 0.03)])  # the last two: half of the step is such rings
def test_a_slow_nic_delays_each_step_of_a_ring(tmp_path, keys, error):
    """In the whole machine, the slow NIC is never idle, because chunks wait for it. In the part, it waits for the latency of each step."""
    ours, theirs = slow_and_whole(tmp_path, scenario(tmp_path, **keys), [SLOW_NIC])
    assert 1 <= ours["step_s"] / theirs["step_s"] < 1 + error


def test_collectives_on_links_that_keep_their_rate_are_replayed(tmp_path):
    """With a slow NIC, those of tp; with a slow NVLink, those of the other servers."""
    path = scenario(tmp_path, pp=1, servers=2)
    found = {}
    for link in ("node1.nic0.network", "node1.gpu0.nvlink0"):
        with_events(path, [{"at_us": 0, "link": link, "rate_ratio": 0.5}])
        succeed("dgx_h100", path, "--out", tmp_path / link, "--quiet")
        simulator = summary(tmp_path / link)["simulator"]
        found[link] = simulator["replayed_transactions"] / simulator["transactions"]
    assert found["node1.nic0.network"] > 0.9 > found["node1.gpu0.nvlink0"] > 0.3


@pytest.mark.parametrize("keys, events, why", [
    ({"hsdp": 2, "pp": 1, "zero_stage": 3, "software": "torchtitan"}, None, "replicas of hsdp"),
    ({"dp": 1, "pp": 4, "tp": 8, "cp": 2}, None, "there is one replica"),
    ({"schedule": "dualpipe", "global_batch": 256}, None, "the halves of a pipeline of dualpipe are no replicas"),
    ({}, [{"at_us": 1, "link": "IB_Cable_N[0]", "rate_ratio": 0.9}], "events.0.link 'IB_Cable_N[0]' is not of one replica's server"),
    ({}, [{"at_us": 1, "link": "ib0.port0", "rate_ratio": 0.9}], "events.0.link 'ib0.port0' is not of one replica's server"),
    ({}, [{"at_us": 1e9, "link": "node0.nic0.network", "fail": True}], "events.0.link fails"),
    ({}, [{"at_us": 1, "link": "node0.nic0.pcie", "rate_ratio": 0.9}], "events.0.link 'node0.nic0.pcie' is slow; of a replica's links, only"),
    ({"pp": 4}, [{"at_us": 1, "gpu": "node0.gpu0", "slow_ratio": 0.9}], "events touch all replicas but one, or all"),
    # Each replica has one GPU of each server.
    ({"pp": 1, "placement": [r % 8 * 8 + r // 8 for r in range(64)]}, None, "replicas share servers")])
def test_what_cannot_be_folded_is_refused_or_runs_whole(tmp_path, keys, events, why):
    path = scenario(tmp_path, **keys)
    with_events(path, events or [])
    refused(run("dgx_h100", path, "--set", "simulation.fold=require"), "simulation.fold: " + why)
    # Links that fail run as trains; what runs does not depend on their size.
    succeed("dgx_h100", path, "--out", tmp_path / "auto", "--quiet", "--set", "simulation.fold=auto", "--set", "fabric.transaction_bytes=1048576")
    told = summary(tmp_path / "auto")["simulation"]
    assert not told["fold"] and why in told["why_not"] and told["simulated_gpus"] == told["represented_gpus"] == 64


def test_a_description_says_what_a_part_stands_for(tmp_path):
    path = scenario(tmp_path)
    text = succeed("dgx_h100", path, "--describe", "--set", "simulation.fold=auto").stdout
    assert "group node: 2 servers of" in text and "folded: these servers run for 8\n" in text and "node4.gpu0" in text and "node1.gpu0" not in text
    assert "folded" not in succeed("dgx_h100", path, "--describe").stdout


def test_every_link_of_three_tiers_has_one_name(tmp_path):
    """Two servers in each pod: the way to the next replica crosses a core."""
    network = {"kind": "leaf_spine", "tiers": 3, "pod_leaves": 2}
    path = scenario(tmp_path, servers=4, machine={"network": network, "overrides": {"ib_switch": {"ports": 16}}}, pp=1, global_batch=8)
    whole, part = both(tmp_path, path)
    for folder, pods in ((whole, 2), (part, 1)):
        names = [row["name"] for row in rows(folder / "links.csv") if row["direction"] == "tx"]
        assert len(set(names)) == len(names)
        # Eight spines in a pod; each reaches two cores.
        assert sum(name.startswith("IB_Core") for name in names) == 8 * 2 * pods
    assert not summary(part)["simulation"]["exact"]
    assert 1 <= summary(part)["metrics"]["step_s"] / summary(whole)["metrics"]["step_s"] < 1.02


def test_the_table_says_what_runs(tmp_path):
    path = scenario(tmp_path, global_batch=8)
    assert "\n  folded: 16 GPUs run for 64; results are those of the whole machine\n" in succeed(
        "dgx_h100", path, "--set", "simulation.fold=auto").stdout
    assert "\n  not folded: there is one replica\n" in succeed(
        "dgx_h100", path, "--set", "simulation.fold=auto", "--set", "workload.pp=4", "--set", "workload.cp=2", "--set", "workload.dp=1").stdout
    assert "folded" not in succeed("dgx_h100", path).stdout

"""An iteration of reinforcement learning: the composition against closed forms, the way of the weights byte by byte, and bad input."""

import csv
import json

import pytest

from platform_runs import BIN, ROOT, summary
from scripts_inside import call

from rl_iteration import iteration, transfer  # noqa: E402
from rl_iteration.layout import Layout, layout_of  # noqa: E402

FILE = f"""schema_version: 1
platform: dgx_h100
model: {{config: {ROOT}/tests/models/tiny.json}}
machine: {{groups: {{t: {{servers: 1}}, r: {{servers: 1}}}}}}
rollouts:
  kind: serving
  engine: vllm-0.19
  requests: {{count: 16, prompt_tokens: 64, output_tokens: {{uniform: {{min: 8, max: 64}}}}}}
  instances: [{{name: a, tp: 2, count: 2}}]
training:
  kind: training
  seq_tokens: 512
  global_batch: 16
  tp: 2
  pp: 2
rl:
  groups: {{training: [t], rollouts: [r]}}
  bucket_mib: 1
"""
SAME = FILE.replace("t: {servers: 1}, r: {servers: 1}", "node: {servers: 1}").replace("  groups: {training: [t], rollouts: [r]}\n", "")


def run(folder, *arguments, text=FILE):
    (folder / "i.yaml").write_text(text)
    return call("rl", "i.yaml", "--bin", BIN, *arguments, cwd=folder)


def made(folder, *arguments, text=FILE):
    done = run(folder, "--out", "out", "--json", *arguments, text=text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(name="apart", scope="module")
def fixture_apart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apart")
    return folder, made(folder, "--runs", 2)


@pytest.fixture(name="same", scope="module")
def fixture_same(tmp_path_factory):
    folder = tmp_path_factory.mktemp("same")
    return folder, made(folder, text=SAME)


def metrics(folder, name):
    return summary(folder / "out" / "phases" / name / "out")["metrics"]


# -- closed forms

def test_alternating_is_the_sum_of_the_phases_alone(apart):
    folder, found = apart
    rollouts = [max(int(row["end_time"]) for row in csv.DictReader(open(folder / "out" / "phases" / f"rollouts_seed_{seed}" / "out" / "requests.csv", encoding="utf-8"))) * 1e-9
                for seed in (1, 2)]
    assert found["rollouts_s"] == pytest.approx(rollouts, rel=1e-12) and rollouts[0] != rollouts[1]
    step, weights = metrics(folder, "training")["step_s"], metrics(folder, "weights")["makespan_s"]
    parts = found["parts_s"]
    assert (parts["updates"], parts["weights"]) == (step * found["updates"], weights)
    assert 0 < parts["logprobs"] < 2 * parts["updates"] and parts["load"] == parts["store"] == 0
    assert found["iteration_s"] == pytest.approx(sum(rollouts) / 2 + parts["logprobs"] + parts["updates"] + weights, rel=1e-12)
    assert found["updates"] == -(-found["tokens"] // (512 * 16))


@pytest.mark.parametrize("rollouts, updates", [((2.0, 4.0), 3.0), ((1.0, 2.0), 3.0), ((5.0,), 3.0)])
def test_asynchronous_waits_for_the_slower_side(rollouts, updates):
    times = iteration.Times(rollouts, 0.0, 0.5, updates, 0.25, 0.0)
    slower = sum(max(one, updates + 0.5) for one in rollouts) / len(rollouts)
    assert times.iteration("asynchronous") == pytest.approx(slower + 0.25)
    assert times.iteration("alternating") == pytest.approx(sum(rollouts) / len(rollouts) + 0.5 + updates + 0.25)
    idle = iteration.waits(times, "asynchronous", False)
    assert idle["training"] == pytest.approx((slower - updates - 0.5) / (slower + 0.25))


# -- the way of the weights

def test_the_service_gets_every_weight_once(apart):
    """A broadcast of all weights to 4 GPUs over one server's NIC: it takes at least their time on the NIC, and little more."""
    folder, found = apart
    traffic = metrics(folder, "weights")
    weights = found["weights_bytes"]
    assert traffic["traffic_bytes"] == {"all_gather": weights, "broadcast": weights}
    of_nic_s = weights / 50e9
    assert of_nic_s < found["parts_s"]["weights"] < 3 * of_nic_s
    network = [link for link in summary(folder / "out" / "phases" / "weights" / "out")["links"] if link["name"].startswith("IB") and link["bytes"]]
    assert 1 <= max(link["bytes"] for link in network) / weights < 128 / 119  # 120 of 128 bytes are data with LL128


def test_state_goes_to_host_memory_and_back(same):
    folder, found = same
    for part in ("store", "load"):
        assert found["parts_s"][part] > 0
    copied = metrics(folder, "state_to_host_memory")["traffic_bytes"]
    assert copied == {"store": metrics(folder, "state_from_host_memory")["traffic_bytes"]["load"]}
    assert found["shares_gpus"] and found["gpus"] == 8 and found["waits"] == {}
    assert found["iteration_s"] == pytest.approx(sum(found["parts_s"].values()), rel=1e-12)


@pytest.mark.parametrize("order", ["tp-cp-ep-dp-pp", "tp-pp-cp-ep-dp"])
@pytest.mark.parametrize("is_sharded", [False, True])
def test_every_rank_holds_a_share_of_one_copy(order, is_sharded):
    layout = Layout(tuple(order.split("-")), {"tp": 2, "gtp": 1, "cp": 2, "ep": 1, "dp": 3, "pp": 4}, is_sharded)
    held = sorted(rank for stage in range(4) for copy in layout.holders(stage) for rank in copy)
    assert held == list(range(48)) and len(layout.holders(0)) == (1 if is_sharded else 6)
    assert sorted(rank for column in layout.columns() for rank in column) == list(range(48))
    assert layout.holders(0)[0][:2] == [0, 1]


def test_all_nodes_of_a_collective_are_on_all_its_ranks():
    layout = Layout(("tp", "cp", "ep", "dp", "pp"), {"tp": 2, "gtp": 1, "cp": 1, "ep": 1, "dp": 2, "pp": 2}, False)
    trace = transfer.to_own(8, layout, list(range(8)), [transfer.Weights(5 << 20), transfer.Weights(3 << 20)], 2 << 20)
    # Buckets 2, 2, 1 and 2, 1 MiB: each rank broadcasts or gets its share and gathers both stages' weights.
    assert [len(nodes) for nodes in trace.nodes] == [5 * 2] * 8
    others = transfer.to_others(12, layout, list(range(8)), [8, 9, 10, 11], [transfer.Weights(5 << 20), transfer.Weights(3 << 20)], 2 << 20)
    assert [len(nodes) for nodes in others.nodes] == [3 + 3, 3, 0, 0, 2 + 2, 2, 0, 0] + [3 + 2] * 4


MIXTURE = (FILE.replace("tiny.json", "tiny_experts.json").replace("  tp: 2\n  pp: 2\n", "  tp: 2\n  ep: 4\n  sequence_parallel: true\n")
           .replace("bucket_mib: 1\n", "bucket_mib: 16\n"))
EXPERTS, COMMON = 2 * 8 * 3 * 1024 * 2048 * 2, 247506944 - 2 * 8 * 3 * 1024 * 2048 * 2  # bytes: 2 layers of 8 experts of 3 matrices in bf16


@pytest.mark.parametrize("settings, gathered", [
    ([], COMMON + EXPERTS + 2 * EXPERTS),  # each expert of two ranks, then those of all, at both places of a group
    (["--set", "training.expert_tp=1"], COMMON + EXPERTS),  # whole experts of tp x ep ranks
    (["--set", "training.ep=1"], COMMON + EXPERTS)])
def test_experts_of_several_ranks_are_gathered_and_broadcast_once(tmp_path, settings, gathered):
    """Results of all-gathers, over the groups that have one."""
    found = made(tmp_path, *settings, text=MIXTURE)
    assert found["weights_bytes"] == COMMON + EXPERTS
    assert metrics(tmp_path, "weights")["traffic_bytes"] == {"all_gather": gathered, "broadcast": COMMON + EXPERTS}
    assert (COMMON + EXPERTS) / 50e9 < found["parts_s"]["weights"] < 3 * (COMMON + EXPERTS) / 50e9


def test_experts_go_to_all_ranks_of_the_training(tmp_path):
    """On the same GPUs: each of two stages sends its shares to the other one, and all ranks gather both. A stage has two ranks for each expert."""
    text = MIXTURE.replace("t: {servers: 1}, r: {servers: 1}", "node: {servers: 1}").replace("  groups: {training: [t], rollouts: [r]}\n", "").replace("  ep: 4\n", "  ep: 2\n  pp: 2\n")
    found = made(tmp_path, text=text)
    weights = found["weights_bytes"]
    replicas = 2  # of all but experts
    traffic = metrics(tmp_path, "weights")["traffic_bytes"]
    assert weights == COMMON + EXPERTS
    # A share of common weights is on two ranks of a stage, one for each ep. Both stages' ranks gather: 2 x 2 groups of tp, then 2 of ep, for each stage.
    assert traffic["broadcast"] == replicas * COMMON + EXPERTS
    assert traffic["all_gather"] == 2 * (replicas * COMMON + EXPERTS + 2 * EXPERTS)


def test_weights_that_gtp_divides_are_gathered_from_all_its_ranks(apart, tmp_path):
    """The same bytes as without it, each once."""
    found = made(tmp_path, "--set", "training.gtp.size=2")
    weights = found["weights_bytes"]
    assert weights == apart[1]["weights_bytes"] and metrics(tmp_path, "weights")["traffic_bytes"] == {"all_gather": weights, "broadcast": weights}
    groups = json.loads((tmp_path / "out" / "phases" / "traces" / "weights" / "groups.json").read_text())
    assert sorted(groups.values())[0] == [0, 1, 2, 3] and layout_of({"tp": 2, "gtp": 2, "pp": 2}, "tp-cp-ep-dp-pp").rank(gtp=1) == 2


def test_experts_that_replicas_divide_are_refused(tmp_path):
    done = run(tmp_path, "--out", "out", "--set", "training.software=torchtitan", "--set", "training.zero_stage=3", text=MIXTURE)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "i.yaml:15:7: error: training.ep: experts that ZeRO stage 3 divides are not sent to rollouts; accepted: 1, or zero_stage of 0 to 2"), done.stderr


@pytest.mark.parametrize("order, whole", [("tp-cp-ep-dp-pp", False), ("tp-cp-pp-ep-dp", False), ("tp-cp-ep-pp-dp", True)])
def test_every_expert_is_in_each_copy(order, whole):
    """tp 2, ep 4, two replicas of the experts: after both gathers each rank has all of its copy."""
    layout = Layout(tuple(order.split("-")), {"tp": 2, "gtp": 1, "cp": 1, "ep": 4, "dp": 2, "pp": 2}, False, whole)
    ranks = []
    for stage in range(2):
        for parts, all_of in layout.expert_groups(stage):
            held = {rank: {rank} for groups in (parts, all_of) for group in groups for rank in group}
            for groups in (parts, all_of):
                for group in groups:
                    together = set().union(*(held[rank] for rank in group))
                    held.update((rank, together) for rank in group)
            assert all(has == set(held) for has in held.values()) and len(held) == layout.expert_shares == 8
            ranks += held
    assert sorted(ranks) == list(range(32))
    assert layout.expert_groups(0)[0][1][0][:2] == ([0, 1] if whole else [0, layout.rank(ep=1)])


# -- outputs

def test_the_same_file_gives_the_same_bytes(apart, tmp_path):
    folder, _ = apart
    made(tmp_path, "--runs", 2)
    for name in ("rl.json", "rl.html"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / "out" / name).read_bytes()


def test_the_text_names_the_parts(apart):
    folder, found = apart
    done = run(folder, "--runs", 2, "--out", "text", "--no-page", "--set", "rl.schedule=asynchronous")
    assert done.returncode == 0, done.stderr
    for words in ("rollouts on 4 of them; asynchronous", "side by side", "GPUs of training wait", "alternating in place of asynchronous"):
        assert words in done.stdout
    assert not (folder / "text" / "rl.html").exists()
    assert json.loads((folder / "text" / "rl.json").read_text())["iteration_s"] < found["iteration_s"]


# -- bad input

@pytest.mark.parametrize("words, said", [
    (["--set", "rl.shedule=x"], "rl.py: error: --set rl.shedule: unknown key (did you mean 'schedule'?); accepted: "),
    (["--set", "workload.tp=2"], "rl.py: error: --set workload.tp: an iteration has two workloads; accepted: rollouts.KEY, training.KEY"),
    (["--set", "rl.updates=0"], "rl.updates: expected an integer from 1 to "),
    (["--set", "training.tpp=2"], "--set training.tpp=2: error: training.tpp: unknown key (did you mean 'tp'?)"),
    (["--set", "rl.groups={training: [tt]}"], "the machine has no group 'tt' (did you mean 't'?); accepted: t, r"),
    (["--set", "rl.groups={training: []}"], "rl.groups.training: expected at least one group; accepted: t, r"),
    (["--set", "rollouts.requests.count=0"], "--set rollouts.requests.count=0: error: rollouts.requests.count: "),
    (["--runs", "0"], "rl.py: error: argument --runs: '0' is not an integer of at least 1"),
])
def test_bad_options_are_one_line(tmp_path, words, said):
    done = run(tmp_path, "--out", "out", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and said in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("old, new, said", [
    ("  tp: 2\n", "  tpp: 2\n", "i.yaml:14:3: error: training.tpp: unknown key (did you mean 'tp'?)"),
    ("  engine: vllm-0.19\n", "  engine: vlm-0.19\n", "i.yaml:7:11: error: "),
    ("rl:\n", "rl:\n  schedule: async\n", "i.yaml:17:13: error: rl.schedule: 'async' is unknown; accepted: alternating, asynchronous"),
    ("training:\n  kind: training\n", "training:\n  kind: layer\n", "i.yaml:11:9: error: training.kind is layer; accepted: training"),
    ("rollouts:\n", "workload:\n", "i.yaml:1:1: error: rollouts: is missing: a workload of kind serving"),
    ("platform: dgx_h100\n", "platform: dgx_h1000\n", "i.yaml:2:11: error: platform: no executable 'dgx_h1000'"),
])
def test_errors_name_the_place_in_the_file(tmp_path, old, new, said):
    done = run(tmp_path, "--out", "out", text=FILE.replace(old, new))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and done.stderr.startswith(said), done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words, said", [
    (["--set", "rl.schedule=asynchronous"], "rl.schedule: asynchronous needs rollouts on GPUs that do not train"),
    (["--set", "training.dp=1"], "GPUs train, too, and "),
])
def test_what_the_places_do_not_allow_is_refused(tmp_path, words, said):
    done = run(tmp_path, "--out", "out", *words, text=SAME.replace("count: 2}]", "count: 4}]"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and said in done.stderr, done.stderr


def test_rollouts_that_never_end_fail(tmp_path):
    """The engine refuses answers that cannot fit, and the training would wait for them."""
    done = run(tmp_path, "--out", "out", "--set", "rollouts.requests.output_tokens={lognormal: {mean: 60, cv_ratio: 0.8}}",
               "--set", "rollouts.scheduler={max_model_len: 128}")
    assert done.returncode == 1 and "samples are refused by the engine" in done.stderr, done.stderr

"""What a training step leaves, from outside: times of ranks, the schedule, metrics, and the bytes on the links."""

import decimal
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from platform_runs import BIN, ROOT, rows, run, succeed, summary

TINY = json.loads((ROOT / "tests" / "models" / "tiny.json").read_text())
HIDDEN, SEQ, BYTES = TINY["hidden_size"], 512, 2
SCHEDULES = [("naive", 1), ("gpipe", 1), ("1f1b", 1), ("interleaved", 3), ("zb_h1", 1), ("zb_h2", 1), ("zb_auto", 1), ("zbv", 2),
             ("dualpipe_v", 2)]


def train(folder, *sets, out="out", model=None, options=()):
    """Runs a step on one server of eight H100. Returns the folder of its results."""
    config = ROOT / "tests" / "models" / "tiny.json"
    if model is not None:
        config = folder / f"model{model['num_hidden_layers']}.json"
        config.write_text(json.dumps(model))
    scenario = folder / "s.yaml"
    scenario.write_text(f"model: {{config: {config}}}\nmachine: {{groups: {{node: {{servers: 1}}}}}}\n"
                        f"workload: {{kind: training, seq_tokens: {SEQ}, global_batch: 8, launch: graph}}\n")
    keys = [part for key in sets for part in ("--set", f"workload.{key}")]
    succeed("dgx_h100", scenario, "--out", folder / out, "--quiet", *keys, *options)
    return folder / out


def traffic(out):
    return {row["class"]: row["bytes"] for row in summary(out)["traffic"]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train(tmp_path_factory.mktemp("trained"), "tp=2", "pp=2", "sequence_parallel=true")


def test_the_parts_of_each_ranks_step_add_up(trained):
    metrics = summary(trained)["metrics"]
    ranks = rows(trained / "ranks.csv")
    assert [int(row["rank"]) for row in ranks] == list(range(8))
    parts = [name for name in ranks[0] if name.endswith("_s") and name != "step_s"]
    for row in ranks:
        # 15 digits behind the point are femtoseconds.
        assert sum(decimal.Decimal(row[part]) for part in parts) == decimal.Decimal(row["step_s"])
        assert float(row["step_s"]) == pytest.approx(metrics["step_s"], abs=1e-15)
    exposed = {f"exposed_{name}_s": value for name, value in metrics["exposed_s"].items()}
    for part in parts:
        mean = sum(float(row[part]) for row in ranks) / len(ranks)
        assert mean == pytest.approx(exposed[part] if part in exposed else metrics[part], abs=1e-15)


@pytest.mark.parametrize("keys", [["tp=2", "pp=2", "sequence_parallel=true"], ["pp=4", "schedule=zb_h1", "recompute=selective", "attention=unfused"],
                                  ["pp=2", "schedule=interleaved", "virtual_stages=3", "recompute=full", "steps=2"], ["dp=8", "zero_stage=3"]])
def test_memory_over_time_ends_where_it_begins_and_peaks_where_the_list_says(keys, tmp_path):
    out = train(tmp_path, *keys)
    events, parts = rows(out / "memory.csv"), rows(out / "memory_peak.csv")
    numbers = [name for name in events[0] if name.endswith("_bytes")]
    totals = {rank["rank"]: [] for rank in rows(out / "ranks.csv")}
    for row in events:
        held = {name: int(row[name]) for name in numbers}
        assert held["total_bytes"] == sum(value for name, value in held.items() if name != "total_bytes")
        totals[row["rank"]].append((float(row["time_s"]), held["total_bytes"]))
    slots = sum(row["kind"] == "compute" and row["name"][1] == "_" for row in rows(out / "jobs.csv"))
    assert len(events) == len(totals) + 2 * slots  # a claim and a release for each slot
    for rank, times in totals.items():
        assert times == sorted(times, key=lambda event: event[0])
        assert times[0][1] == times[-1][1] == min(total for _, total in times)
        peak = max(total for _, total in times)
        mine = [part for part in parts if part["rank"] == rank]
        assert sum(int(part["bytes"]) for part in mine) == peak
        assert {float(part["time_s"]) for part in mine} == {next(time for time, total in times if total == peak)}
    metrics = summary(out)["metrics"]["memory"]
    assert metrics["peak_bytes"] == max(total for times in totals.values() for _, total in times)


def wire(vcd, name):
    """[(instant in fs, value)] of a wire."""
    scopes, mark, now, changes = [], None, 0, []
    for line in vcd.read_text().splitlines():
        if line.startswith("$scope"):
            scopes.append(line.split()[2])
        elif line.startswith("$upscope"):
            scopes.pop()
        elif line.startswith("$var") and ".".join(scopes[1:] + [line.split()[4].split("[")[0]]) == name:
            mark = line.split()[3]
        elif line.startswith("#"):
            now = int(line[1:])
        elif line.startswith("b") and line.split()[1] == mark:
            changes.append((now, int(line.split()[0][1:], 2)))
    return changes


def test_the_waveform_shows_the_memory_of_each_gpu(tmp_path):
    out = train(tmp_path, "tp=2", "pp=2", options=["--vcd", "--vcd-filter", "*.hbm.used_bytes"])
    gpus = {row["rank"]: row["gpu"] for row in rows(out / "ranks.csv")}
    for rank, gpu in gpus.items():
        shown = dict(wire(out / "trace.vcd", f"{gpu}.hbm.used_bytes"))  # the last change of an instant holds
        held = {round(float(row["time_s"]) * 1e15): int(row["total_bytes"]) for row in rows(out / "memory.csv") if row["rank"] == rank}
        times, value = sorted(shown), 0
        for instant, total in held.items():
            value = shown[max(time for time in times if time <= instant)]
            assert value == total, (rank, instant)


def test_the_capacity_is_the_limit_of_the_ranks(tmp_path):
    out = train(tmp_path)
    for entry in summary(out)["memory"]["node"]:
        assert entry["peak_bytes"] <= entry["capacity_bytes"] == 84_900_000_000  # hbm.visible_gb of the H100


def test_describe_shows_the_groups_of_ranks(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(f"model: {{config: {ROOT / 'tests' / 'models' / 'tiny.json'}}}\nmachine: {{groups: {{node: {{servers: 2}}}}}}\n"
                        f"workload: {{kind: training, seq_tokens: {SEQ}, global_batch: 8, tp: 2, pp: 2, cp: 2}}\n")
    machine = json.loads(succeed("dgx_h100", scenario, "--describe", "--json").stdout)
    sets = {group["group"]: group["sets"] for group in machine["rank_groups"]}
    assert sets["tp"][:2] == [[0, 1], [2, 3]] and sets["cp"][:2] == [[0, 2], [1, 3]]
    assert sets["dp"][0] == [0, 4] and sets["pp"][0] == [0, 8] and sets["gradients"][0] == [0, 2, 4, 6]
    for group, all_sets in sets.items():
        assert sorted(rank for one in all_sets for rank in one) == list(range(16)), group
    assert [rank["gpu"] for rank in machine["ranks"]] == [f"node{server}.gpu{gpu}" for server in range(2) for gpu in range(8)]
    text = succeed("dgx_h100", scenario, "--describe").stdout
    assert "pp                8 of 2 ranks, the first: 0 8 (node0.gpu0 to node1.gpu0)" in text


def test_the_table_draws_the_slots_as_they_ran(tmp_path):
    out = train(tmp_path, "pp=4", "schedule=1f1b")
    scenario = tmp_path / "s.yaml"
    text = succeed("dgx_h100", scenario, "--set", "workload.pp=4").stdout
    chart = [line.split("|")[1] for line in text.splitlines() if line.startswith("rank ")]
    assert len(chart) == 4 and chart[0].startswith("F0") and all("B0" in line for line in chart)
    # Columns follow the times of the run: a rank's slots begin in the order of schedule.csv.
    of_rank = [row for row in rows(out / "schedule.csv") if row["rank"] == "3"]
    assert [row["kind"][0].upper() for row in of_rank] == [letter for letter in chart[3] if letter in "FB"]


def test_an_interrupted_step_has_no_time(tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen([str(BIN / "dgx_h100"), str(ROOT / "scenarios" / "training" / "llama3_70b_128.yaml"), "--out", str(out)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (out.exists() or any(tmp_path.glob("*.partial-*"))):
        time.sleep(0.05)
    ticks = 2 * os.sysconf("SC_CLK_TCK")  # of processor time, of about twelve seconds: slots run, however busy the machine is
    while sum(map(int, pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13])) < ticks:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    table, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT and "not finished: " in table and "tokens/s" not in table
    metrics = summary(out)["metrics"]
    assert not {"step_s", "tokens_per_s", "mfu", "bubble_fraction"} & set(metrics) and metrics["kernels_s"] > 0


def test_a_row_of_a_transfer_names_the_rank_that_sends(trained):
    rank_at = {(row["pp"], row["tp"], row["dp"]): row["rank"] for row in rows(trained / "ranks.csv")}
    sent = [row for row in rows(trained / "jobs.csv") if row["name"].startswith("PP_")]
    assert len(sent) == 2 * 8 * 2  # activations and gradients of the micro-batches of two replicas, on two ranks each
    for row in sent:
        place = tuple(row["name"].split(f"{what}[")[1].split("]")[0] for what in ("FromP", "TP", "DP"))
        assert row["rank"] == rank_at[place], row


def test_places_of_ranks_follow_the_order(trained):
    places = [(int(row["pp"]), int(row["dp"]), int(row["tp"])) for row in rows(trained / "ranks.csv")]
    assert places == [(p, d, t) for p in range(2) for d in range(2) for t in range(2)]


def test_throughputs_follow_from_the_step(trained):
    metrics = summary(trained)["metrics"]
    assert metrics["tokens_per_s"] == pytest.approx(8 * SEQ / metrics["step_s"])
    assert metrics["tokens_per_s_per_gpu"] == pytest.approx(metrics["tokens_per_s"] / 8)
    assert metrics["bubble_fraction"] == pytest.approx(metrics["bubble_s"] / metrics["step_s"])
    assert metrics["bubble_ideal_fraction"] == pytest.approx(1 / 5)  # (p - 1) / (m + p - 1)


def test_planned_bubbles_count_transfers(tmp_path):
    """Neither 1F1B's formula nor the slots depend on the links between stages; the schedule's own bubbles do."""
    inside, across = (summary(train(tmp_path, "pp=2", "micro_batch=1", "global_batch=64", f"rank_order={order}", out=order,
                                    options=["--set", "machine.groups.node.servers=2"]))["metrics"]
                      for order in ("tp-pp-cp-ep-dp", "tp-cp-ep-dp-pp"))
    assert inside["bubble_ideal_fraction"] == across["bubble_ideal_fraction"] == pytest.approx(1 / 9)
    assert 1 / 9 < inside["bubble_planned_fraction"] < across["bubble_planned_fraction"]


@pytest.mark.parametrize("recompute", ["none", "selective"])
def test_zb_auto_keeps_to_its_limit(recompute, tmp_path):
    """The limit counts what W still needs of a micro-batch, which is less than the whole."""
    keys = ["pp=4", "schedule=zb_auto", "memory_limit_stages=1.5", "micro_batch=1", "dp=1", f"recompute={recompute}"]
    train(tmp_path, *keys)
    explained = json.loads(succeed("dgx_h100", tmp_path / "s.yaml", "--explain", "--json", *(part for key in keys for part in ("--set", f"workload.{key}"))).stdout)
    assert 2 <= max(rank["micro_batches"] for rank in explained["memory"]) <= 1.5 * 4


def test_a_step_is_the_same_twice(trained, tmp_path):
    again = train(tmp_path, "tp=2", "pp=2", "sequence_parallel=true")
    for name in ["ranks.csv", "schedule.csv", "schedule.txt", "jobs.csv", "links.csv"]:
        assert (again / name).read_bytes() == (trained / name).read_bytes()


def test_results_do_not_depend_on_reuse_of_collectives(tmp_path):
    keys = ["tp=8", "sequence_parallel=true"]  # links that nothing else crosses
    reused = train(tmp_path, *keys)
    simulated = train(tmp_path, *keys, out="simulated", options=["--timeline"])
    assert summary(reused)["simulator"]["replayed_transactions"] > 0
    assert summary(simulated)["simulator"]["replayed_transactions"] == 0
    for name in ["ranks.csv", "jobs.csv", "links.csv"]:
        assert (reused / name).read_bytes() == (simulated / name).read_bytes()
    assert summary(reused)["metrics"] == summary(simulated)["metrics"]


@pytest.mark.parametrize("schedule, virtual_stages", SCHEDULES)
def test_a_table_gives_the_same_run_as_its_generator(schedule, virtual_stages, tmp_path):
    keys = ["pp=2", "dp=1", f"virtual_stages={virtual_stages}", "pp_overlap=true"]
    made = train(tmp_path, *keys, f"schedule={schedule}", out="made")
    read = train(tmp_path, *keys, f"schedule={made}/schedule.txt", out="read")
    for name in ["ranks.csv", "schedule.csv", "jobs.csv", "links.csv"]:
        assert (read / name).read_bytes() == (made / name).read_bytes()
    table = [line for line in (made / "schedule.txt").read_text().splitlines() if line.startswith("rank")]
    slots = rows(made / "schedule.csv")
    assert [len(line.split(":")[1].split()) for line in table] == [sum(int(row["rank"]) == r for row in slots) for r in range(2)]
    kinds = [("forward",), ("backward",)] if schedule in ("naive", "gpipe", "1f1b", "interleaved") else [
        ("forward",), ("backward_inputs", "backward"), ("backward_weights", "backward")]
    for names in kinds:  # each micro-batch once through each virtual stage
        done = sorted((int(row["virtual_stage"]), int(row["micro_batch"])) for row in slots if row["kind"] in names)
        assert done == [(stage, batch) for stage in range(2 * virtual_stages) for batch in range(8)]


@pytest.mark.parametrize("zero_stage", [0, 1])
def test_data_parallel_ranks_send_gradients_and_weights(zero_stage, tmp_path):
    ranks = 4
    out = train(tmp_path, f"dp={ranks}", "grad_norm=none", f"zero_stage={zero_stage}")
    parameters = summary(out)["metrics"]["memory"]["weights_peak_bytes"] // BYTES
    # Gradients of fp32 all-reduced, or reduce-scattered and weights of bf16 gathered.
    each = 2 * 4 if zero_stage == 0 else 4 + 2
    assert traffic(out)["dp"] == pytest.approx(ranks * (ranks - 1) / ranks * each * parameters, rel=1e-6)
    links = rows(out / "links.csv")
    sent = [sum(int(row["bytes"]) for row in links if row["port"].startswith(f"node0.gpu{g}.")) for g in range(8)]
    assert sent[:ranks] == pytest.approx([(ranks - 1) / ranks * each * parameters] * ranks, rel=1e-6)
    assert sent[ranks:] == [0] * (8 - ranks)


@pytest.mark.parametrize("keys, share", [
    (["tp=1"], 1),
    (["tp=2", "sequence_parallel=true"], 2),  # each rank sends its tokens
    (["tp=2", "pp_send=full"], 1),
])
@pytest.mark.parametrize("virtual_stages", [1, 2])
def test_each_boundary_is_crossed_twice_by_each_micro_batch(keys, share, virtual_stages, tmp_path):
    schedule = "1f1b" if virtual_stages == 1 else "interleaved"
    out = train(tmp_path, *keys, "pp=3", "dp=1", f"virtual_stages={virtual_stages}", f"schedule={schedule}",
                *(["global_batch=6"] if virtual_stages > 1 else []))
    batches = 6 if virtual_stages > 1 else 8
    tp = int(keys[0][-1])
    boundaries = 3 * virtual_stages - 1
    assert traffic(out)["pp"] == boundaries * batches * 2 * tp * (SEQ * HIDDEN * BYTES // share)


# Four all-reduces a layer, or with sequence parallelism as many pairs of a gather and a reduce-scatter; and with gathers
# of inputs again, two gathers. The difference of two models leaves out embedding and head. Collectives are so large that
# NCCL sends no flags with their data.
@pytest.mark.parametrize("keys, gathers_again", [
    ([], 0),
    (["sequence_parallel=true", "keep_gathered=true"], 0),
    (["sequence_parallel=true", "keep_gathered=false"], 2),
])
@pytest.mark.parametrize("tp", [2, 4])
def test_tensor_parallel_bytes_of_a_layer(keys, gathers_again, tp, tmp_path):
    seq, batches = 8192, 2
    sent = {}
    for layers in (1, 3):
        out = train(tmp_path, f"tp={tp}", "dp=1", "grad_norm=none", f"seq_tokens={seq}", f"global_batch={batches}", *keys,
                    out=str(layers), model={**TINY, "num_hidden_layers": layers})
        sent[layers] = traffic(out)["tp"]
    of_layer = (4 * 2 + gathers_again) * (tp - 1) * seq * HIDDEN * BYTES // tp
    # Norms of two layers, in fp32, once a step: a small all-reduce, whose protocol LL sends a flag with each four bytes.
    norms = 2 * 2 * HIDDEN * 4 * 2 * 2 * (tp - 1) if "sequence_parallel=true" in keys else 0
    assert sent[3] - sent[1] == 2 * batches * tp * of_layer + norms


@pytest.mark.parametrize("tp, dp, schedule", [(1, 1, "1f1b"), (2, 2, "1f1b"), (2, 1, "zbv")])
def test_first_and_last_stage_add_the_gradients_of_tied_embeddings(tp, dp, schedule, tmp_path):
    keys = [f"tp={tp}", f"dp={dp}", "pp=2", f"schedule={schedule}", f"virtual_stages={2 if schedule == 'zbv' else 1}"]
    tied, untied = (train(tmp_path, *keys, out=str(tie), model={**TINY, "tie_word_embeddings": tie}) for tie in (True, False))
    # A V-shaped schedule has both stages on the same rank. Two ranks that all-reduce send their gradients of 4 bytes once each.
    pairs = 0 if schedule == "zbv" else tp * dp
    assert traffic(tied)["pp"] - traffic(untied)["pp"] == pairs * 2 * TINY["vocab_size"] // tp * HIDDEN * 4
    reduced = {row["name"] for row in rows(tied / "jobs.csv") if "Embedding" in row["name"]}
    assert len(reduced) == pairs


def test_shares_of_activations_are_gathered_by_their_receivers(tmp_path):
    seq, batches, tp, pp = 8192, 2, 2, 3
    whole, shared = (traffic(train(tmp_path, f"tp={tp}", f"pp={pp}", "dp=1", f"seq_tokens={seq}", f"global_batch={batches}", f"pp_send={send}",
                                   out=send)) for send in ("full", "shard"))
    crossings = (pp - 1) * batches * 2
    assert whole["pp"] == tp * shared["pp"] == crossings * tp * seq * HIDDEN * BYTES
    assert shared["tp"] - whole["tp"] == crossings * (tp - 1) * seq * HIDDEN * BYTES


def test_two_steps_take_the_bytes_of_two(tmp_path):
    keys = ["pp=2", "dp=2", "global_batch=4"]
    one, two = (traffic(train(tmp_path, *keys, f"steps={n}", out=str(n))) for n in (1, 2))
    assert two == {name: 2 * bytes_ for name, bytes_ in one.items()}


def test_a_run_that_explains_runs_nothing(tmp_path):
    train(tmp_path, "pp=2")
    explained = run("dgx_h100", tmp_path / "s.yaml", "--explain", "--set", "workload.pp=2")
    assert explained.returncode == 0 and "rank 0 |F0" in explained.stdout and "memory of a rank at its peak" in explained.stdout

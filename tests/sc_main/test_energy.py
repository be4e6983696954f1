"""metrics.energy from outside: closed forms, sums over devices and over time, replicas that run once, servers and network, devices
without constants."""

import json
import math
import re

import pytest

from platform_runs import ROOT, rows, succeed, summary, tiny

CONSTANTS = "machine.overrides.gpu.energy={idle_w: 100, sm_w: 0.5, hbm_pj_per_byte: 50, tensor_pj_per_flop: {bf16: 2}}"
PARTS = ("idle_j", "sms_j", "tensor_j", "hbm_j")
SERVING = {"schema_version": 1, "platform": "dgx_h100", "model": {"config": f"{ROOT}/tests/models/tiny.json"},
           "workload": {"kind": "serving", "engine": "vllm-0.19", "instances": [{"name": "a", "tp": 2}],
                        "requests": {"count": 6, "prompt_tokens": 300, "output_tokens": 5}}}


def written(folder, scenario):
    path = folder / "s.yaml"
    path.write_text(json.dumps(scenario))
    return path


def sets(*texts):
    return [option for text in texts for option in ("--set", text)]


def test_a_product_by_hand(tmp_path):
    scenario = written(tmp_path, {"schema_version": 1, "workload": {"kind": "kernel", "kernels": [
        {"op": "gemm", "m": 512, "n": 1024, "k": 4096, "dtype": "bf16"}]}})
    succeed("dgx_h100", scenario, "--quiet", "--out", tmp_path / "out", *sets(CONSTANTS, "machine.overrides.gpu.sm.throttle_us=0"))
    [row], metrics = rows(tmp_path / "out" / "kernels.csv"), summary(tmp_path / "out")["metrics"]
    energy, seconds = metrics["energy"], metrics["end_s"]
    assert energy["gpus"] == 1 and float(row["flops"]) == 2 * 512 * 1024 * 4096
    assert energy["idle_j"] == pytest.approx(100 * seconds, rel=1e-12)
    assert energy["tensor_j"] == pytest.approx(2e-12 * float(row["flops"]), rel=1e-12)
    assert energy["hbm_j"] == pytest.approx(50e-12 * float(row["hbm_bytes"]), rel=1e-9)
    assert energy["sms_j"] == pytest.approx(0.5 * min(int(row["ctas"]), 132) * float(row["time_us"]) * 1e-6, rel=1e-6)
    assert energy["total_j"] == pytest.approx(math.fsum(energy[part] for part in PARTS), rel=1e-12)
    assert energy["mean_w"] == pytest.approx(energy["total_j"] / seconds, rel=1e-12)


def integral(vcd, end):
    """Joules of each GPU: power over time."""
    [names, joules, since, now] = [{}, {}, {}, 0.0]
    unit = {"fs": 1e-15, "ps": 1e-12, "ns": 1e-9}[re.search(r"\$timescale\s+1\s*(\w+)", vcd)[1]]
    for line in vcd.splitlines():
        words = line.split()
        if line.startswith("$var") and words[4] == "power_w":
            names[words[3]] = (0.0, 0.0)  # since when, and how much
        elif line.startswith("#"):
            now = int(line[1:]) * unit
        elif line.startswith("r") and words[1] in names:
            before, power = names[words[1]]
            joules[words[1]] = joules.get(words[1], 0.0) + power * (min(now, end) - min(before, end))
            names[words[1]] = (now, float(words[0][1:]))
    return [joules[name] + power * (end - min(before, end)) for name, (before, power) in names.items()]


def test_energy_is_the_sum_over_devices_and_over_time(tmp_path):
    path = written(tmp_path, SERVING)
    succeed("dgx_h100", path, "--quiet", "--out", tmp_path / "seen", "--vcd")
    succeed("dgx_h100", path, "--quiet", "--out", tmp_path / "unseen")
    metrics = summary(tmp_path / "seen")["metrics"]
    energy = metrics["energy"]
    drawn = sorted(integral((tmp_path / "seen" / "trace.vcd").read_text(), metrics["end_s"]))
    busy, idle = drawn[-2:], drawn[:-2]
    assert sum(busy) == pytest.approx(energy["total_j"], rel=1e-9)
    assert idle == pytest.approx([energy["idle_j"] / 2] * 6, rel=1e-9)  # without a rank
    assert metrics == summary(tmp_path / "unseen")["metrics"]
    served = 6 * energy["per_request_j"]
    assert served == pytest.approx(energy["total_j"], rel=1e-12) == pytest.approx(6 * 5 * energy["per_output_token_j"], rel=1e-12)
    assert energy["per_token_j"] == pytest.approx(energy["total_j"] / (6 * 305), rel=1e-12)


AROUND = ("machine.overrides.server_power={base_w: 1000, gpus_ratio: 0.25}", "machine.overrides.ib_switch.power_w=640")  # 64 ports


def test_servers_and_network_by_hand(tmp_path):
    path = written(tmp_path, SERVING)
    succeed("dgx_h100", path, "--quiet", "--out", tmp_path / "out", "--vcd", *sets(*AROUND))
    succeed("dgx_h100", path, "--quiet", "--out", tmp_path / "alone", *sets("machine.overrides.server_power.base_w=0"))
    metrics, alone = (summary(tmp_path / run)["metrics"] for run in ("out", "alone"))
    energy, end = metrics["energy"], metrics["end_s"]
    busy = sorted(integral((tmp_path / "out" / "trace.vcd").read_text(), end))[-2:]  # of eight GPUs, two have ranks
    assert energy["servers_j"] == pytest.approx(2 / 8 * 1000 * end + 0.25 * sum(busy), rel=1e-9)
    assert energy["network_j"] == pytest.approx(2 * 10 * end, rel=1e-12)  # each GPU has a NIC, and this NIC a port of 640 W / 64
    assert energy["all_j"] == pytest.approx(math.fsum(energy[part] for part in ("total_j", "servers_j", "network_j")), rel=1e-12)
    assert energy["all_mean_w"] == pytest.approx(energy["all_j"] / end / 2, rel=1e-12)
    assert energy["all_per_output_token_j"] == pytest.approx(energy["all_j"] / 30, rel=1e-12)
    boards = {key: value for key, value in energy.items() if not key.startswith(("servers", "network", "all"))}
    assert boards == {key: value for key, value in alone["energy"].items() if key != "network_j"}


NETWORKS = {  # servers of 8 GPUs with a NIC each, ports of a switch (half of a leaf's are to NICs), and ports with a cable
    "single_switch": (4, 64, "", 32),
    "leaf_spine": (4, 8, ", spines: 3", 32 + 2 * 8 * 3),
    "leaf_spine, tiers: 3": (16, 8, ", spines: 2, pod_leaves: 4, cores: 2", 128 + 2 * (32 * 2 + 8 * 2 * 2)),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_draws_for_its_ports_with_a_cable(network, tmp_path):
    servers, of_switch, more, ports = NETWORKS[network]
    machine = {"groups": {"node": {"servers": servers}}, "overrides": {"ib_switch": {"ports": of_switch, "power_w": 800}}}
    scenario = written(tmp_path, SERVING | {"machine": machine})
    succeed("dgx_h100", scenario, "--quiet", "--out", tmp_path / "out", *sets("fabric.fidelity=fluid", f"machine.network={{kind: {network}{more}}}"))
    metrics = summary(tmp_path / "out")["metrics"]
    assert metrics["energy"]["network_j"] == pytest.approx(2 * 800 / of_switch * ports / (8 * servers) * metrics["end_s"], rel=1e-12)
    machine = json.loads((tmp_path / "out" / "machine.json").read_text())
    assert sum(device["ports"] for device in machine["devices"] if device["kind"] == "network_switch") == ports


def test_composed_passes_have_the_energy_of_others(tmp_path):
    path = written(tmp_path, SERVING)
    for composed in ("true", "false"):
        succeed("dgx_h100", path, "--quiet", "--jobs", "none", "--out", tmp_path / composed, *sets(f"fabric.compose={composed}"))
    one, other = summary(tmp_path / "true"), summary(tmp_path / "false")
    assert one["simulator"]["composed_jobs"] > 0 == other["simulator"]["composed_jobs"]
    assert one["metrics"] == other["metrics"]


def test_replicas_that_run_once_count_as_often_as_they_are(tmp_path):
    config = json.loads((ROOT / "scenarios" / "models" / "llama-3.1-8b.json").read_text()) | {"num_hidden_layers": 2}
    (tmp_path / "model.json").write_text(json.dumps(config))
    path = written(tmp_path, {
        "schema_version": 1, "model": {"config": "model.json"}, "fabric": {"fidelity": "fluid"},
        "machine": {"groups": {"node": {"servers": 4}}},
        "workload": {"kind": "training", "seq_tokens": 1024, "global_batch": 16, "tp": 8, "sequence_parallel": True, "grad_norm": "none"}})
    for fold in ("off", "require"):
        succeed("dgx_h100", path, "--quiet", "--out", tmp_path / fold, *sets(f"simulation.fold={fold}"))
    whole, part = (summary(tmp_path / fold)["metrics"]["energy"] for fold in ("off", "require"))
    assert part["gpus"] == whole["gpus"] == 32
    assert part == pytest.approx(whole, rel=1e-9)
    assert part["per_step_j"] == part["total_j"] == pytest.approx(16 * 1024 * part["per_token_j"], rel=1e-12)


def test_a_gpu_without_constants_has_no_energy(tmp_path):
    told = succeed("plx_box", tiny(tmp_path), "--out", tmp_path / "out").stdout
    found = summary(tmp_path / "out")
    assert found["energy"] == {"why_not": "the datasheet of L40S has no constants of energy"}
    assert "energy" not in found["metrics"] and "energy" not in told


def test_a_switch_without_constants_leaves_out_the_sum(tmp_path):
    path = written(tmp_path, SERVING)
    told = succeed("dgx_h100", path, "--out", tmp_path / "out", *sets("machine.overrides.ib_switch.power_w=0")).stdout
    energy = summary(tmp_path / "out")["metrics"]["energy"]
    assert "servers_j" in energy and not {"network_j", "all_j", "all_mean_w", "all_per_output_token_j"} & energy.keys()
    assert "energy (estimate)" in told and "with servers" not in told

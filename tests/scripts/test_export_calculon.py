"""export_calculon.py: what import_calculon.py reads comes back as it was; what Calculon does not have is refused by name."""

import json
import random

import pytest
import yaml

from scripts_inside import ROOT, call
from test_import_calculon import APP, EXE, imported


def export(scenario, prefix):
    return call("export_calculon", scenario, "--out", prefix)


def written(folder, name):
    return json.loads((folder / f"e.{name}.json").read_text())


def random_exe(rng):
    tp, pp, dp = rng.choice(((1, 1, 8), (2, 2, 2), (4, 2, 1), (8, 2, 2), (4, 4, 2)))
    comm = rng.choice(("ar", "p2p_rs_ag", "rs_ag")) if tp > 1 else "ar"
    sequence_parallel = comm == "rs_ag"
    virtual = rng.choice((1, 2)) if pp > 1 else 1
    network = 0 if tp * pp * dp <= 8 else 1
    return EXE | {"num_procs": tp * pp * dp, "tensor_par": tp, "pipeline_par": pp, "data_par": dp, "pipeline_par_net": network, "data_par_net": network,
                  "batch_size": 8 * dp, "microbatch_size": rng.choice((1, 2)), "datatype": rng.choice(("float16", "bfloat16")),
                  "attention_type": rng.choice(("multihead", "multiquery")), "activation_recompute": rng.choice(("none", "attn_only", "full")),
                  "pipeline_interleaving": virtual, "optimizer_sharding": rng.choice((True, False)), "tensor_par_comm_type": comm,
                  "tensor_par_overlap": rng.choice(("none", "ring", "pipe")) if sequence_parallel else "none",
                  "seq_par_ag_redo": sequence_parallel and rng.choice((True, False)), "data_par_overlap": rng.choice((True, False))}


@pytest.mark.parametrize("seed", range(12))
def test_an_import_comes_back(seed, tmp_path):
    exe = random_exe(random.Random(seed))
    result, scenario = imported(tmp_path, exe=exe)
    assert result.returncode == 0, result.stderr
    done = export(scenario, tmp_path / "e")
    assert done.returncode == 0, done.stderr
    assert written(tmp_path, "app") == APP
    assert written(tmp_path, "exe") == exe


def test_the_system_has_the_facts_of_the_machine(tmp_path):
    _, scenario = imported(tmp_path)
    assert export(scenario, tmp_path / "e").returncode == 0
    system = written(tmp_path, "system")
    assert system["matrix"]["float16"]["tflops"] == pytest.approx(312, rel=1e-3)
    assert system["mem1"]["GBps"] == 2039
    assert [network["bandwidth"] for network in system["networks"]] == [300, 25]
    assert [network["size"] for network in system["networks"]] == [8, 65536]


@pytest.mark.parametrize("keys, word", [({"cp": 2}, "workload.cp"), ({"ep": 2}, "workload.ep"), ({"zero_stage": 2}, "ZeRO stage 2"),
                                        ({"schedule": "zb_h1", "virtual_stages": 1}, "zb_h1"), ({"tp_overlap": "bulk"}, "bulk"), ({"kind": "layer"}, "training"),
                                        ({"tp": 3}, "tp")])
def test_what_calculon_does_not_have_is_one_line(keys, word, tmp_path):
    _, scenario = imported(tmp_path)
    values = yaml.safe_load(scenario.read_text())
    values["workload"] |= keys
    scenario.write_text(yaml.safe_dump(values))
    done = export(scenario, tmp_path / "e")
    assert done.returncode == 2 and word in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not list(tmp_path.glob("e.*"))


def test_models_of_another_shape_are_refused(tmp_path):
    done = export(ROOT / "scenarios" / "training" / "llama3_8b_8.yaml", tmp_path / "e")
    assert done.returncode == 2 and "models of type llama" in done.stderr

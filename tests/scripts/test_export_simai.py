"""export_simai.py: the workload that it writes takes about the time of the scenario, and exactly its kernels."""

import json

import pytest

from platform_runs import BIN, ROOT, run, succeed, summary
from scripts_inside import call

TRAINING = ROOT / "scenarios" / "training"


def export(scenario, out):
    return call("export_simai", scenario, "--out", out)


def scenario(folder, workload, servers=1):
    path = folder / "s.yaml"
    path.write_text(json.dumps({"platform": "dgx_h100", "model": {"config": str(ROOT / "scenarios/models/llama-3.1-8b.json")},
                                "machine": {"groups": {"node": {"servers": servers}}}, "fabric": {"fidelity": "fluid"},
                                "workload": {"kind": "training", "seq_tokens": 4096, "micro_batch": 1} | workload}))
    return path


@pytest.mark.parametrize("workload, servers", [({"tp": 8, "sequence_parallel": True, "global_batch": 4}, 1), ({"tp": 4, "global_batch": 8}, 1),
                                               ({"tp": 8, "sequence_parallel": True, "pp": 2, "global_batch": 8}, 2)])
def test_the_workload_takes_the_time_of_the_scenario(workload, servers, tmp_path):
    path = scenario(tmp_path, workload, servers)
    done = export(path, tmp_path / "w.txt")
    assert done.returncode == 0, done.stderr
    explained = json.loads(run("dgx_h100", path, "--explain", "--json").stdout)
    (tmp_path / "trace.yaml").write_text(json.dumps({"machine": {"groups": {"node": {"servers": servers}}}, "fabric": {"fidelity": "fluid"},
                                                     "workload": {"kind": "trace", "format": "simai", "file": "w.txt"}}))
    succeed("dgx_h100", tmp_path / "trace.yaml", "--out", tmp_path / "trace", "--quiet")
    trace = summary(tmp_path / "trace")["metrics"]
    slowest = max(stage["forward_kernels_s"] + stage["backward_kernels_s"] for stage in explained["stages"])
    assert trace["compute_s"] == pytest.approx(explained["micro_batches"] * slowest, rel=1e-5)
    succeed("dgx_h100", path, "--out", tmp_path / "training", "--quiet")
    assert trace["makespan_s"] == pytest.approx(summary(tmp_path / "training")["metrics"]["step_s"], rel=0.1)


@pytest.mark.parametrize("workload, word", [({"kind": "layer"}, "accepted: training"), ({"cp": 2}, "workload.cp"), ({"ep": 2}, "workload.ep"),
                                            ({"gtp": {"size": 2}}, "workload.gtp"), ({"zero_stage": 3}, "zero_stage"), ({"tp": 3}, "tp")])
def test_what_the_format_cannot_say_is_one_line(workload, word, tmp_path):
    done = export(scenario(tmp_path, {"global_batch": 8} | workload), tmp_path / "w.txt")
    assert done.returncode == 2 and word in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "w.txt").exists()


def test_files_that_are_no_scenarios_are_one_line(tmp_path):
    for text in ("", "[1, 2]", "a: [", "\x00"):
        (tmp_path / "s.yaml").write_text(text)
        done = export(tmp_path / "s.yaml", tmp_path / "w.txt")
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert (BIN / "dgx_h100").exists()

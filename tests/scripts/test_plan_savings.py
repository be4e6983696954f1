"""plan.py --allow: what saves memory is tried where nothing fits without it."""

import itertools
import json

import pytest

from platform_runs import BIN
from scripts_inside import call
from test_plan import TINY

from planning import space  # noqa: E402
from planning.estimate import Estimator  # noqa: E402
from planning.explain import Explainer, Facts  # noqa: E402
from planning.host import Host, host_of  # noqa: E402
from planning.pipeline import Pipelines  # noqa: E402

ONE_SHAPE = [f"--fix={axis}" for axis in ("tp=1", "cp=1", "pp=1", "recompute=none", "zero_stage=1")]

def write_base(folder, platform="dgx_h100", **overrides):
    (folder / "tiny.json").write_text(json.dumps(TINY))
    base = {"schema_version": 1, "platform": platform, "fabric": {"fidelity": "fluid"}, "model": {"config": "tiny.json"},
            "machine": {"overrides": overrides}, "workload": {"kind": "training", "seq_tokens": 4096, "global_batch": 16}}
    (folder / "base.yaml").write_text(json.dumps(base))


def planned(folder, *words):
    return call("plan", "--base", folder / "base.yaml", "--out", folder / "out", "--jobs", "2", "--bin", BIN, *ONE_SHAPE, "--no-what-if", *words)



def test_savings_of_memory_are_the_least_that_fit(tmp_path):
    """Nothing fits in a tenth of the memory. Against brute force: of all savings, those that fit and of which no smaller one fits."""
    write_base(tmp_path)
    answer = planned(tmp_path, "--memory-limit", "0.1")
    assert answer.returncode == 2 and "no mapping fits in memory; " in answer.stderr and "--allow offload,narrow_states,loss_chunks tries" in answer.stderr
    done = planned(tmp_path, "--json", "--memory-limit", "0.1", "--allow", "offload,loss_chunks,narrow_states")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)

    every = {key: values for of_feature in space.SAVINGS.values() for key, values in of_feature.items()}
    sets = [{key: value for key, value in zip(every, values) if value} for values in itertools.product(*((None, *of_key) for of_key in every.values()))]
    mappings = [space.Mapping(1, 1, 1, 1, 1, "1f1b", size, 1, "none", saving=space.saving_of(keys)) for keys in sets for size in space.MICRO_BATCHES[:2]]
    asked = space.Question(8, 8, space.Model(4, 32, 4, 0), 16, 4096)
    explainer = Explainer(BIN / "dgx_h100", tmp_path / "out" / "base.yaml", tmp_path / "explained.json", 2)
    facts = explainer.ask([mapping.settings(asked) for mapping in mappings], lambda done, count: None)
    fit = [mapping for mapping, found in zip(mappings, facts) if found.fits(0.1)]

    def more(saving, other):
        more_of, less_of = space.saved(saving), space.saved(other)
        return saving != other and all(key in more_of and every[key].index(more_of[key]) >= every[key].index(value) for key, value in less_of.items())

    least = {mapping.label for mapping in fit if not any(more(mapping.saving, other.saving) for other in fit)}
    assert len({mapping.saving for mapping in fit}) > 2 * len(least) > 4
    assert {space.Mapping(**{key: value for key, value in run["mapping"].items() if key != "dp"}).label for run in answer["simulated"]} == least
    for run in answer["savings"]:
        assert run["mapping"]["saving"] in {mapping.saving for mapping in fit} and run["metrics"]["memory.peak_bytes"] <= 0.1 * 84.9e9
        assert run["estimate_s"] == pytest.approx(run["step_s"], rel=0.15)
    cost = {run["mapping"]["saving"]: run["step_s"] / run["step_without_s"] for run in answer["savings"]}
    assert all(ratio > 1.2 for saving, ratio in cost.items() if "offload.activations" in saving)
    page = (tmp_path / "out" / "decision.md").read_text()
    assert "## What makes mappings fit" in page and page.count(" loss_chunks=8 |") > 1


def test_where_all_shapes_fit_nothing_saves_memory(tmp_path):
    """The same bytes, and the same runs."""
    write_base(tmp_path)
    words = ["--memory-limit", "0.3"]
    assert planned(tmp_path, *words).returncode == 0
    names = ["decision.md", "decision.html", "plan.csv"]
    first = [(tmp_path / "out" / name).read_bytes() for name in names]
    allowed = planned(tmp_path, *words, "--allow", "offload,narrow_states,loss_chunks")
    assert allowed.returncode == 0 and "0 of " in allowed.stderr, allowed.stderr
    assert [(tmp_path / "out" / name).read_bytes() for name in names] == first


def test_offload_stays_within_the_memory_of_a_socket(tmp_path):
    """Four ranks of a socket have 4 x 18 bytes of state for an eighth of the parameters: the executable refuses it, and so does the plan."""
    answers = {}
    for gigabytes in (8.5, 8.7):
        write_base(tmp_path, host_memory={"bytes": 1e9 * gigabytes}, gpu={"hbm": {"visible_gb": 11}})
        done = planned(tmp_path, "--json", "--fix=micro_batch=1", "--allow", "offload")
        assert done.returncode == 0, done.stderr
        answers[gigabytes] = json.loads(done.stdout)
    savings = {gigabytes: {run["mapping"]["saving"] for run in answer["simulated"]} for gigabytes, answer in answers.items()}
    assert "offload.optimizer=true" in savings[8.7] and "offload.optimizer=true" not in savings[8.5]
    assert answers[8.5]["counts"]["refused"]["what is offloaded does not fit into the memory of a CPU socket"] >= 1


def test_a_board_that_does_not_say_its_memory_offloads_nothing(tmp_path):
    write_base(tmp_path, "plx_box")
    refused = planned(tmp_path, "--allow", "offload")
    assert refused.returncode == 2 and refused.stderr.splitlines()[-1].startswith(
        "plan.py: error: --allow offload: the board of plx_box does not say how much memory a CPU socket has; "), refused.stderr
    assert not (tmp_path / "out").exists()


def test_the_host_is_that_of_the_executable(tmp_path):
    """Two GPUs of a DGX share the uplink of a switch, four the memory of a socket. Each Blackwell GPU of a rack has its own C2C link."""
    for platform, gpus, memory, copy in (("dgx_h100", 4, 307.2, (63.0 / 2, 0.8)), ("gb200_nvl72", 2, 512, (512 / 2, 0.99))):
        write_base(tmp_path, platform)
        host = host_of(BIN / platform, tmp_path / "base.yaml")
        assert (host.gpus, host.memory_bytes_per_s) == (gpus, pytest.approx(1e9 * memory))
        assert copy[1] * copy[0] < 1e-9 * host.copy_bytes_per_s <= copy[0]


def test_estimates_of_offload_are_bound_by_copies_and_by_the_memory_of_the_host():
    """One stage, kernels that take no time: each slot of two layers is two copies, and the optimizer its bytes at the memory, in turns."""
    mapping = space.Mapping(1, 1, 1, 1, 1, "1f1b", 1, 0, "none", saving="offload.optimizer=true+offload.activations=1")
    host = Host(copy_bytes_per_s=10e9, memory_bytes_per_s=100e9, memory_bytes=1e12, gpus=4)
    memory = {"host_activations_bytes": 4e9, "host_state_bytes": 18e9, "weights_bytes": 0, "gradients_bytes": 0, "total_bytes": 0}
    stage = {"rank": 0, "layers": 2, "forward_products_s": 0.0} | {f"{part}_kernels_s": 0.0 for part in ("forward", "backward", "backward_weights")}
    facts = Facts({"micro_batches": 3, "stages": [stage], "memory": [memory], "sent": []})
    asked = space.Question(1, 8, space.Model(2, 32, 4, 0, 4096), 3, 4096)
    found = Estimator(asked, None, Pipelines(BIN / "dgx_h100"), host).estimate(mapping, facts)
    assert found.pipeline_s == pytest.approx(3 * 2 * 0.4) and found.host_s == pytest.approx(4 * 0.3 + 0.6 / 4)
    assert host.holds(facts) and not Host(1, 1, 87e9, 4).holds(facts)

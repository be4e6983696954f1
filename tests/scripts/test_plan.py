"""plan.py: which mappings there are, which fit, and which is the fastest."""

import itertools
import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from platform_runs import BIN, ROOT, run
from scripts_inside import call

import plan  # noqa: E402
from planning import space  # noqa: E402
from planning.candidates import Candidates  # noqa: E402
from planning.estimate import rank_correlation  # noqa: E402
from planning.explain import Explainer, Facts  # noqa: E402
from planning.references import references  # noqa: E402

TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "intermediate_size": 11008, "num_hidden_layers": 4,
        "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16"}


def planned(folder, *words, platform="dgx_h100"):
    (folder / "tiny.json").write_text(json.dumps(TINY))
    command = ["--model", folder / "tiny.json", "--platform", platform, "--nodes", "1", "--batch", "16", "--seq", "4096",
               "--out", folder / "out", "--jobs", "2", "--bin", BIN, *words]
    return call("plan", *command)


def planned_with_fluid_rates(folder, *words):
    """The same, for what holds at any fidelity: a run takes a tenth of the time."""
    (folder / "tiny.json").write_text(json.dumps(TINY))
    base = {"schema_version": 1, "platform": "dgx_h100", "fabric": {"fidelity": "fluid"}, "model": {"config": "tiny.json"},
            "workload": {"kind": "training", "seq_tokens": 4096, "global_batch": 16}}
    (folder / "base.yaml").write_text(json.dumps(base))
    command = ["--base", folder / "base.yaml", "--out", folder / "out", "--jobs", "2", "--bin", BIN, *words]
    return call("plan", *command)


def question(draw):
    model = space.Model(draw.randint(1, 8), draw.choice([4, 6, 8]), draw.choice([1, 2, 4]), draw.choice([0, 4, 6]))
    return space.Question(draw.choice([1, 2, 6, 8, 16]), draw.choice([2, 4, 8]), model, draw.randint(1, 24), draw.choice([8, 12, 512]),
                          head_layers=draw.randint(1, 3))


@pytest.mark.parametrize("seed", range(40))
def test_legal_and_refused_mappings_are_all_combinations(seed):
    draw = random.Random(seed)
    asked = question(draw)
    every = space.axes(asked, frozenset(space.ALLOWED if seed % 2 else ()))
    values = {axis: tuple(draw.sample(of_axis, min(len(of_axis), 2))) for axis, of_axis in every.items()}
    divided = space.divide(asked, values)
    everything = [space.Mapping(*combination) for combination in itertools.product(*values.values())]
    assert divided.total == len(everything) == len(divided.legal) + sum(divided.refused.values())
    legal = {mapping for mapping in everything if not any(is_wrong(mapping, asked) for _, is_wrong in space.RULES)}
    assert set(divided.legal) == legal and len(divided.legal) == len(legal)


@pytest.mark.parametrize("layers, pp, head, split, expected", [
    (126, 16, 1, "light_ends", (7, *[8] * 14, 7)),  # Llama 3 405B, arXiv 2407.21783, section 3.3.2
    (126, 4, 1, "even", (32, 32, 31, 31)),
    (61, 4, 1, "light_last", (15, 16, 16, 14)),
    (61, 4, 1, "light_ends", (15, 16, 16, 14)),
    (32, 4, 2, "light_last", (8, 9, 9, 6)),
    (30, 4, 2, "light_last", (8, 8, 8, 6)),
    (7, 4, 2, "light_last", (2, 2, 3, 0)),
])
def test_splits_of_layers(layers, pp, head, split, expected):
    """The layers of a stage and its ends, as layers, are the same on all stages, or one more."""
    asked = space.Question(pp, pp, space.Model(layers, 32, 4, 0), pp, 4096, head_layers=head)
    mapping = space.Mapping(1, 1, 1, pp, 1, "1f1b", 1, 0, "none", "none", split)
    assert mapping.layers(asked) == expected and sum(expected) == layers
    assert mapping.settings(asked).get("workload.stage_layers") == (None if split == "even" else list(expected))


def test_uneven_stages_are_those_of_the_executable(tmp_path):
    """Thirteen layers, which no pipeline divides: `even` is what the executable does without the key. The verdict on memory is that of the
    executable, also for the mappings about which it is not asked: of these, smaller micro-batches or even stages do not fit."""
    (tmp_path / "tiny.json").write_text(json.dumps(TINY | {"num_hidden_layers": 13, "vocab_size": 128000}))
    base = tmp_path / "s.yaml"
    workload = {"kind": "training", "seq_tokens": 4096, "global_batch": 16}
    base.write_text(json.dumps({"schema_version": 1, "platform": "dgx_h100", "fabric": {"fidelity": "fluid"}, "model": {"config": "tiny.json"}, "workload": workload}))
    explainer = Explainer(BIN / "dgx_h100", base, tmp_path / "explained.json", 2)
    asked = space.Question(8, 8, space.Model(13, 32, 4, 0), 16, 4096)
    asked = replace(asked, head_layers=explainer.head_layers(asked))
    assert asked.head_layers == 3  # 524 million weights; a layer has 173
    values = space.axes(asked) | {"tp": (2,), "cp": (1,), "pp": (2, 4), "virtual_stages": (1,), "schedule": ("1f1b",), "micro_batch": (1, 2, 4),
                                  "zero_stage": (0, 1), "recompute": ("none",)}
    legal = space.divide(asked, values).legal
    everything = dict(zip(legal, explainer.ask([mapping.settings(asked) for mapping in legal], lambda done, count: None)))
    layers = {mapping: tuple(stage["layers"] for stage in found.answer["stages"]) for mapping, found in everything.items()}
    assert layers == {mapping: mapping.layers(asked) for mapping in legal}
    assert set(layers.values()) == {(7, 6), (8, 5), (4, 3, 3, 3), (4, 4, 4, 1), (3, 4, 5, 1)}
    not_asked = 0
    for limit in (0.05, 0.1, 0.15, 0.2, 0.3):
        found = explainer.about(legal, asked, limit, lambda mapping, facts: 1.0, len(legal), lambda done, count: None)
        assert {mapping for mapping in legal if found[mapping].fits(limit)} == {mapping for mapping in legal if everything[mapping].fits(limit)}
        assert all(found[mapping].answer["stages"] == everything[mapping].answer["stages"] for mapping in legal if found[mapping].fits(limit))
        not_asked += sum(facts.of_another for facts in found.values())
    assert not_asked > 0

    def seconds(mapping, facts):  # 1F1B without transfers
        stages = [stage["forward_kernels_s"] + stage["backward_kernels_s"] for stage in facts.answer["stages"]]
        return sum(stages) + (facts.answer["micro_batches"] - 1) * max(stages)

    for top in (1, 2, 4, 8):
        found = explainer.about(legal, asked, 0.9, seconds, top, lambda done, count: None)
        fastest = [sorted((seconds(mapping, known[mapping]), mapping) for mapping in known if known[mapping].fits(0.9))[:top]
                   for known in (found, everything)]
        assert fastest[0] == fastest[1]
        assert len(found) < len(legal)


@pytest.mark.parametrize("count, chosen", [
    (1, ["1a", "4a", "2b"]), (3, ["1a", "4a", "2b"]), (5, ["1a", "1b", "2a", "4a", "2b"]), (6, ["1a", "1b", "2a", "4a", "2b", "2c"])])
def test_a_tp_that_is_slow_has_the_mapping_that_is_simulated_soonest(count, chosen):
    """tp, name, estimate and traffic of replicas. Of tp 2, 2b is nearly as fast as 2a, 2c is not."""
    known = [(1, "1a", 1.0, 9), (1, "1b", 1.01, 9), (2, "2a", 1.02, 9), (4, "4a", 1.03, 9), (2, "2b", 1.07, 1), (2, "2c", 1.08, 0)]
    named = {space.Mapping(tp, 1, 1, 1, 1, "1f1b", number, 0, "none", "none"): name for number, (tp, name, _, _) in enumerate(known)}
    facts = {mapping: Facts({"sent": [{"group": "dp", "bytes_per_rank": sent}]}) for mapping, (_, _, _, sent) in zip(named, known)}
    found = Candidates(None, 1.0, facts, list(named), [], Counter(), {mapping: seconds for mapping, (_, _, seconds, _) in zip(named, known)})
    assert [named[mapping] for mapping in found.best(count)] == chosen


def test_the_executable_agrees_with_the_rules(tmp_path):
    """What the rules call legal runs or lacks memory; what they refuse, the executable refuses. Some rules are choices of the plan."""
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    base = {"schema_version": 1, "platform": "dgx_h100", "model": {"config": "tiny.json"},
            "workload": {"kind": "training", "seq_tokens": 4096, "global_batch": 12}}
    (tmp_path / "s.yaml").write_text(json.dumps(base))
    asked = space.Question(8, 8, space.Model(4, 32, 4, 0), 12, 4096)
    everything = list(space.combinations(space.axes(asked)))
    random.Random(1).shuffle(everything)
    for mapping in everything[:40]:
        wrong = next((text for text, is_wrong in space.RULES if is_wrong(mapping, asked)), None)
        if wrong in ("state is divided without replicas", "tp x cp x pp does not divide the GPUs", "virtual stages without a pipeline"):
            continue
        sets = [word for key, value in mapping.settings(asked).items() for word in ("--set", f"{key}={json.dumps(value)}")]
        result = run("dgx_h100", tmp_path / "s.yaml", "--check", *sets)
        lacks_memory = "pipeline rank" in result.stderr and "needs weights" in result.stderr
        assert (result.returncode == 0 or lacks_memory) == (wrong is None), (mapping, wrong, result.stderr)


@pytest.mark.parametrize("gpus, expected", [
    (96, set()), (128, {"NVIDIA's recipe in bf16", "NVIDIA's recipe in fp8"}),
    (256, {"NVIDIA's recipe in bf16", "NVIDIA's recipe in fp8", "torchtitan's FSDP x TP, micro-batch tuned"})])
def test_published_mappings_are_simulated_where_their_gpus_divide_the_machine(gpus, expected):
    """The estimate prefers the micro-batch of 2."""
    asked = space.Question(gpus, 8, space.Model(80, 64, 8, 0, 8192), 4 * gpus, 8192, zero_stages=(1, 3))
    values = space.axes(asked) | {"stage_layers": ("even",)}
    found = dict(references(asked, space.divide(asked, values).legal, lambda mapping: True, lambda mapping: abs(mapping.micro_batch - 2), "llama-3.1-70b", "H100-SXM5-80GB"))
    assert {name for name in found if "recipe" in name or "torchtitan" in name} == expected
    assert all(mapping.micro_batch == (2 if "tuned" in name else 1) for name, mapping in found.items())


def test_the_winner_is_that_of_all_mappings(tmp_path):
    fixed = [f"--fix={axis}" for axis in ("cp=1", "recompute=none", "zero_stage=1", "micro_batch=1", "virtual_stages=1", "schedule=1f1b")]
    chosen, whole = (planned_with_fluid_rates(tmp_path, *fixed, "--no-what-if", "--json", "--price", "3.6", "--top", top) for top in (4, 100))
    assert chosen.returncode == whole.returncode == 0, whole.stderr
    chosen, whole = json.loads(chosen.stdout), json.loads(whole.stdout)
    assert whole["counts"]["simulated"] >= whole["counts"]["fit"] > 3
    assert chosen["winner"]["step_s"] <= 1.02 * whole["winner"]["step_s"]
    assert whole["rank_correlation"] >= 0.95
    assert {run["mapping"]["tp"] for run in chosen["simulated"]} == {run["mapping"]["tp"] for run in whole["simulated"]}
    assert chosen["winner"]["cost_per_million_tokens"] == pytest.approx(1000 / chosen["winner"]["metrics"]["tokens_per_s_per_gpu"])  # 0.001 a second
    assert chosen["winner"]["step_s"] == min(run["step_s"] for run in chosen["simulated"])
    for run_of_plan in whole["simulated"]:
        assert run_of_plan["estimate_s"] == pytest.approx(run_of_plan["step_s"], rel=0.06)


def test_the_same_command_gives_the_same_bytes_and_runs_nothing_again(tmp_path):
    words = ["--fix", "cp=1", "--fix", "recompute=none", "--fix", "pp=1", "--fix", "micro_batch=1", "--fix", "zero_stage=1", "--top", "2"]
    assert planned_with_fluid_rates(tmp_path, *words).returncode == 0
    names = ["decision.md", "decision.html", "plan.csv"]
    first = [(tmp_path / "out" / name).read_bytes() for name in names]
    again = planned_with_fluid_rates(tmp_path, *words)
    assert again.returncode == 0 and "0 of " in again.stderr
    assert [(tmp_path / "out" / name).read_bytes() for name in names] == first
    page = first[1].decode()
    assert "What would change it" in page and "http" not in page.replace("http-equiv", "")
    assert "SMs, dp on GPU_N[" in page or "SMs, tp on NVLink_N[" in page


@pytest.mark.parametrize("words, message", [
    (["--allow", "ofload"], "plan.py: error: argument --allow: 'ofload' is not a feature; nearest: offload; accepted: tp_across_servers, gtp, offload, "),
    (["--allow", "gtp,"], "plan.py: error: argument --allow: '' is not a feature; accepted: tp_across_servers, gtp, "),
    (["--fix", "saving=none"], "plan.py: error: argument --fix: 'saving' is not an axis"),
    (["--fix", "tpp=1"], "plan.py: error: argument --fix: 'tpp' is not an axis; nearest: tp; accepted: tp, cp, "),
    (["--fix", "stage_layer=even"], "plan.py: error: argument --fix: 'stage_layer' is not an axis; nearest: stage_layers; accepted: tp, cp, "),
    (["--fix", "stage_layers=light"], "plan.py: error: --fix stage_layers=light: not a value of stage_layers; nearest: light_last; accepted: even, light_last, light_ends"),
    (["--fix", "tp=x"], "plan.py: error: --fix tp=x: not a value of tp; accepted: 1, 2, 4, 8"),
    (["--fix", "tp=3"], "plan.py: error: no mapping is legal; refused: "),
    (["--batch", "7", "--fix", "tp=1", "--fix", "pp=1"], "plan.py: error: no mapping is legal; refused: "),
    (["--price", "0"], "plan.py: error: argument --price: '0' is not a number above 0"),
    (["--batch", "0"], "plan.py: error: argument --batch: '0' is not an integer of at least 1"),
    (["--seq", "4000000", "--fix", "micro_batch=1", "--fix", "cp=1", "--fix", "zero_stage=1"], "plan.py: error: no mapping fits in memory; "),
    (["--gpu", "H1000"], "plan.py: error: machine.groups.node.gpu: no datasheet 'H1000'; shipped: "),
    (["--memory-limit", "2"], "plan.py: error: argument --memory-limit: '2' is not a ratio above 0 and up to 1"),
    (["--base", "s.yaml"], "plan.py: error: --base already names model, machine and batch; "),
])
def test_bad_input_is_one_line(words, message, tmp_path):
    result = planned(tmp_path, *words)
    assert result.returncode == 2 and result.stderr.splitlines()[-1].startswith(message), result.stderr
    assert not (tmp_path / "out").exists()


def test_a_refused_plan_leaves_earlier_results_as_they_were(tmp_path):
    words = [f"--fix={axis}" for axis in ("tp=8", "cp=1", "recompute=none", "zero_stage=0", "micro_batch=1", "tp_overlap=none")]
    assert planned(tmp_path, *words, "--no-what-if").returncode == 0
    out = tmp_path / "out"
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for refused in (["--batch", "15", "--fix", "micro_batch=2"], ["--seq", "8000000"]):
        result = planned(tmp_path, *words, *refused)
        assert result.returncode == 2 and {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before, result.stderr


def test_a_datasheet_of_the_user_is_found_from_any_folder(tmp_path, monkeypatch):
    """Beside the caller, or beside the base scenario."""
    base = {"schema_version": 1, "platform": "plx_box", "model": {"config": "tiny.json"}, "machine": {"groups": {"node": {"gpu": "my.yaml"}, "spare": {}}},
            "workload": {"kind": "training", "seq_tokens": 4096, "global_batch": 16}}
    (tmp_path / "s.yaml").write_text(json.dumps(base))
    found = plan.base_scenario(plan.parse_options(["--base", str(tmp_path / "s.yaml")]))
    assert found["machine"]["groups"] == {"node": {"gpu": str(tmp_path / "my.yaml")}, "spare": {}}
    monkeypatch.chdir(tmp_path)
    words = ["--model", "tiny.json", "--platform", "plx_box", "--nodes", "1", "--batch", "16", "--seq", "4096", "--gpu"]
    for given, expected in (("my.yaml", str(tmp_path / "my.yaml")), ("L40S", "L40S")):
        assert plan.base_scenario(plan.parse_options([*words, given]))["machine"]["groups"]["node"]["gpu"] == expected


def test_a_batch_that_replicas_on_all_gpus_do_not_divide_is_planned(tmp_path):
    done = planned(tmp_path, "--batch", "7", "--fix", "tp=8", "--fix", "cp=1", "--fix", "recompute=none", "--top", "1", "--no-what-if", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["winner"]["mapping"]["dp"] == 1, done.stderr


def test_a_base_of_another_kind_is_refused(tmp_path):
    with pytest.raises(SystemExit) as stopped:
        plan.main(["--base", str(ROOT / "scenarios" / "disagg_llama3_70b_plx.yaml"), "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2


def test_fsdp_and_divided_matrices_of_a_base_scenario(tmp_path):
    """ZeRO stages come from the software, and gtp stays as it is, unless other values are allowed."""
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    for name, keys, words in (("fsdp", {"software": "torchtitan"}, ["--fix", "zero_stage=3"]), ("gtp", {"gtp": {"size": 2}}, ["--fix", "zero_stage=0"]),
                              ("allowed", {}, ["--fix", "zero_stage=0", "--allow", "gtp", "--top", "9"])):
        base = tmp_path / f"{name}.yaml"
        workload = {"kind": "training", "seq_tokens": 4096, "global_batch": 16} | keys
        base.write_text(json.dumps({"schema_version": 1, "platform": "dgx_h100", "fabric": {"fidelity": "fluid"}, "model": {"config": "tiny.json"}, "workload": workload}))
        command = ["--base", base, "--out", tmp_path / name, "--bin", BIN, "--jobs", "2", "--top", "2", "--json", "--no-what-if",
                   "--fix", "cp=1", "--fix", "recompute=none", "--fix", "micro_batch=1", "--fix", "pp=1", "--fix", "tp=2", *words]
        done = call("plan", *command)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        sizes = {run["mapping"]["gtp"] for run in answer["simulated"]}
        assert sizes == {"fsdp": {1}, "gtp": {2}, "allowed": {1, 2, 4}}[name]
        for run in answer["simulated"]:
            of_run = run["mapping"]
            assert of_run["tp"] * of_run["cp"] * of_run["pp"] * of_run["dp"] * of_run["gtp"] == 8 and of_run["zero_stage"] == (3 if name == "fsdp" else 0)


def test_what_would_change_it_asks_for_slower_kernels_and_less_memory(tmp_path):
    done = planned_with_fluid_rates(tmp_path, *[f"--fix={axis}" for axis in ("tp=4", "cp=1", "recompute=none", "pp=1", "micro_batch=1", "zero_stage=1", "tp_overlap=none")], "--top", "2", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    steps = {run["mapping"]["tp"]: run["step_s"] for run in answer["simulated"]}
    for run in answer["what_if"]["kernels + 10 %"]:
        assert steps[run["mapping"]["tp"]] < run["step_s"] <= 1.1001 * steps[run["mapping"]["tp"]]
    for run in answer["what_if"]["memory x 0.5"]:
        assert run["step_s"] == steps.get(run["mapping"]["tp"], run["step_s"])


def test_rank_correlation():
    assert rank_correlation([1, 2], [1, 2]) is None
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 2, 3], [4, 3, 3, 1]) == pytest.approx(-1)  # equal values share a rank
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)


def test_mappings_that_take_too_long_are_named(tmp_path):
    """A stand-in for the executable takes its time over one mapping."""
    slow = tmp_path / "bin" / "dgx_h100"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\ncase "$*" in *--explain*|*--describe*|*--schema*) ;; *tp=8*) exec sleep 30;; esac\nexec {BIN}/dgx_h100 "$@"\n')
    slow.chmod(0o755)
    axes = ("cp=1", "pp=1", "recompute=none", "zero_stage=0", "micro_batch=1", "tp_overlap=none")
    done = planned_with_fluid_rates(tmp_path, *[f"--fix={axis}" for axis in axes], "--limit-s", "5", "--no-what-if", "--json", "--bin", slow.parent)
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    assert {run["mapping"]["tp"] for run in answer["not_simulated"]} == {8} and answer["winner"]["mapping"]["tp"] < 8
    page = (tmp_path / "out" / "decision.md").read_text()
    assert "## Selected, but not simulated" in page and "longer than the limit of wall time, 5 s |" in page


TRAINING = "workload: {kind: training, seq_tokens: 128, global_batch: 8}\n"
CONFIG = "model: {config: tiny.json}\n"


@pytest.mark.parametrize("text, message", [
    (b"platform: dgx_h100\n# \xff\n", "s.yaml: error: not UTF-8 text"),
    (b"", "s.yaml: error: empty"),
    (b"[]", "s.yaml:1:1: error: a scenario: expected a mapping"),
    (b"a: [1", "s.yaml:1:6: error: not YAML: "),
    (b"platform: dgx_h100\nworkload:\n", "s.yaml:2:10: error: workload: expected a mapping"),
    (b"platform: dgx_h100\n", "s.yaml:1:1: error: workload: is missing"),
    (b"workload: {kind: training}\n", "s.yaml:1:1: error: platform: is missing"),
    (b"platform: dgx_h100\nworkload: {kind: serving}\n", "s.yaml:2:18: error: workload.kind is serving; accepted: training"),
    ((TRAINING + "platform: dgx_h100\n").encode(), "s.yaml:1:1: error: model: is missing"),
    ((TRAINING + "platform: dgx_h100\nmachine: 3\nmodel: 3\n").encode(), "s.yaml:4:8: error: model: expected a mapping"),
    ((TRAINING + "platform: dgx_h100\nmodel: {}\n").encode(), "s.yaml:3:8: error: model.config: is missing"),
    ((TRAINING + CONFIG + "platform: ../dgx_h100\n").encode(), "s.yaml:3:11: error: platform: expected the name of an executable"),
    ((CONFIG + "platform: dgx_h100\nworkload: {kind: training, global_batch: 8}\n").encode(), "s.yaml: workload.seq_tokens: is required"),
])
def test_a_base_that_is_no_scenario_is_refused_in_one_line(text, message, tmp_path, capsys):
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    (tmp_path / "s.yaml").write_bytes(text)
    with pytest.raises(SystemExit) as end:
        plan.main([str(word) for word in ("--base", tmp_path / "s.yaml", "--out", tmp_path / "out", "--bin", BIN)])
    said = capsys.readouterr().err
    assert end.value.code == 2 and message in said and said.count("\n") == 1, said
    assert not (tmp_path / "out").exists()


def test_kept_answers_that_are_damaged_are_named(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "explained.json").write_text("[1")
    done = planned(tmp_path, "--top", "1", "--no-what-if", "--fix", "tp=8", "--fix", "pp=1")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "explained.json: not answers of an executable" in done.stderr, done.stderr

"""Tables as they come: engines, models and networks by columns, odd rows, and the coverage."""

import csv
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from validation import CLASSES, comparison, load_rows, model_configs, report, rows, serving, serving_engines, training_steps  # noqa: E402

PAGE = {"id": "P-1", "category": "5-inference", "system": "8x H100", "model": "Llama 3.1 8B", "n_gpus": "1", "precision": "bf16",
        "framework": "vLLM 0.12.0", "tp": "1", "pp": "", "batch": "", "input_len": "512", "output_len": "128", "extra": "concurrency 8",
        "metric": "TTFT mean", "value": "50", "unit": "ms", "source": "a page"}
STEP = {"id": "T-1", "category": "4-training", "system": "8x H100 a node", "model": "meta-llama/Llama-3.1-8B", "n_gpus": "16", "precision": "bf16",
        "seq": "8192", "gbs": "", "mbs": "1", "tp": "", "pp": "", "cp": "", "ep": "", "vp": "", "extra": "PyTorch FSDP, full AC",
        "metric": "tokens/s", "value": "90000", "unit": "tok/s", "source": "a page"}


def row(columns, file="table.csv", line=2):
    return rows.Row(str(file), line, columns, float(columns["value"]))


def mapped(columns, name="serving", file="table.csv"):
    [outcome] = comparison.map_rows(CLASSES[name], [row(columns, file)])
    return outcome


def workload(columns, name="serving"):
    outcome = mapped(columns, name)
    assert not outcome.skipped, outcome.skipped
    return outcome.experiment.scenario["workload"]


@pytest.mark.parametrize("name, config", [
    ("Llama 3.1 8B", "llama-3.1-8b"), ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"), ("Llama-3.1-8B", "llama-3.1-8b"),
    ("Meta-Llama-3-8B", "llama-3.1-8b"), ("Llama-3.3-70B-Instruct-FP8", "llama-3.1-70b"), ("LLaMA 7B", "llama-2-7b"), ("Llama-2-7b-chat-hf", "llama-2-7b"),
    ("Qwen/Qwen3-32B-FP8", "qwen3-32b-fp8"), ("Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"), ("openai/gpt-oss-120b", "gpt-oss-120b"),
    ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
])
def test_names_of_one_model_are_one_configuration(name, config):
    assert model_configs.find(row(PAGE | {"model": name})).stem == config


@pytest.mark.parametrize("place", ["falcon-7b.json", "models/Falcon_7B.json", "falcon-7b/config.json", "tiiuae/falcon-7b/config.json"])
def test_a_configuration_beside_the_table_is_read(place, tmp_path):
    columns = PAGE | {"model": "tiiuae/Falcon-7B-Instruct"}
    assert mapped(columns).skipped == "no configuration of model 'tiiuae/Falcon-7B-Instruct', shipped or beside the table"
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((ROOT / "scenarios" / "models" / "llama-2-7b.json").read_text())
    assert mapped(columns, file=tmp_path / "table.csv").experiment.scenario["model"]["config"] == str(path)
    assert not mapped(STEP | {"model": columns["model"]}, "training", tmp_path / "table.csv").skipped


def test_engines_have_the_sheet_of_the_nearest_version():
    sheet = serving_engines.sheet_of
    assert sheet("vllm", "0.0.1") == sheet("vllm", "0.2.7") == "vllm-2023-eager"
    assert sheet("vllm", "0.7.2") == "vllm-0.6"
    assert sheet("vllm", "0.12.0") == sheet("vllm", "") == "vllm-0.12"
    assert sheet("vllm", "0.14.1") == sheet("vllm", "0.18") == "vllm-0.15"
    assert sheet("vllm", "0.19.0") == sheet("vllm", "0.26.1rc1") == "vllm-0.19"
    shipped = {path.stem for path in (ROOT / "platforms" / "datasheets" / "engines").glob("*.yaml")}
    assert {name for _, name in serving_engines.VLLM_SHEETS} | set(serving_engines.OTHER_SHEETS.values()) <= shipped
    names = {"vLLM 0.12.0": "0.12", "vLLM v0.15.1 (nightly)": "0.15", "vLLM V1 (April 2025)": "", "SGLang 43124cd + Mooncake 6e3a11b": "", "TRT-LLM 1.0": "1.0"}
    assert {name: serving_engines.version_of(name) for name in names} == names
    assert workload(PAGE)["engine"] == "vllm-0.12" and "host" not in workload(PAGE)


@pytest.mark.parametrize("columns, requests", [
    ({}, {"arrivals": "closed_loop", "concurrency": 8, "count": 80}),
    ({"extra": "", "concurrency": "4", "num_prompts": "20"}, {"arrivals": "closed_loop", "concurrency": 4, "count": 20}),
    ({"extra": "closed loop", "batch": "16"}, {"arrivals": "closed_loop", "concurrency": 16, "count": 160}),
    ({"extra": "4 q/s, 200 prompts"}, {"arrivals": "poisson", "rate_per_s": 4, "count": 200}),
    ({"extra": "2 instances; offered 5 q/s Poisson"}, {"arrivals": "poisson", "rate_per_s": 2.5, "count": 300}),
    ({"extra": "", "batch": "32"}, {"arrivals": "at_once", "count": 32}),
    ({"extra": "all requests at once; max batch 64"}, {"arrivals": "at_once", "count": 256}),
    ({"extra": "4 q/s, 200 prompts; 10 groups of 256 shared tokens, 5 users each"},
     {"arrivals": "poisson", "rate_per_s": 4, "count": 200, "prefix": {"groups": 10, "shared_tokens": 256, "users_per_group": 5}}),
])
def test_loads_are_read_from_columns_or_words(columns, requests):
    assert workload(PAGE | columns)["requests"] == requests | {"prompt_tokens": 512, "output_tokens": 128}


@pytest.mark.parametrize("extra, speculation", [
    ("concurrency 8, EAGLE, 2 draft tokens, 1.89 tokens a step", {"method": "eagle", "tokens": 2, "synthetic_length": 1.89}),
    ("concurrency 8; MTP 3 tokens, accept length 2.18", {"method": "mtp", "tokens": 3, "synthetic_length": 2.18}),
    ("concurrency 8, EAGLE MTP 5 steps top-1 6 draft tokens, acceptance length 3.5", {"method": "mtp", "tokens": 5, "synthetic_length": 3.5}),
    ("concurrency 8, no speculation", None),
    ("concurrency 8, overlap scheduler, no MTP", None),
])
def test_speculation_is_read_from_words(extra, speculation):
    assert workload(PAGE | {"extra": extra}).get("speculation") == speculation


@pytest.mark.parametrize("columns, reason", [
    ({"extra": ""}, "no load is printed"),
    ({"extra": "concurrency 8, EAGLE, 2 draft tokens"}, "speculative decoding without its method, drafts and mean tokens of a step"),
    ({"extra": "concurrency 8, Medusa"}, "speculative decoding with its kind of drafts is not modelled"),
    ({"extra": "concurrency 8, DP8 attention"}, "data-parallel attention is not modelled"),
    ({"cpu_kv_offload": "True"}, "KV cache in host memory is not modelled"),
    ({"metric": "KV cache size"}, "is no latency or rate"),
    ({"metric": "KV transfer time"}, "names no instances that prefill and that decode"),
    ({"extra": "3 to 60 q/s; routing: random"}, "steps that are not printed"),
    ({"extra": "concurrency 8, routing: random"}, "a router over one instance"),
    ({"extra": "concurrency 8, KV fp8 but for sliding-window layers"}, "a KV type for each layer"),
    ({"extra": "concurrency 8, 100 shared tokens"}, "sharing tokens among prompts"),
    ({"extra": "all requests at once"}, "no load is printed"),
    ({"input_len": "ShareGPT"}, "input_len 'ShareGPT' is no whole number"),
    ({"framework": ""}, "names no engine"),
    ({"framework": "LMDeploy 0.6"}, "no datasheet for engine"),
    ({"value": "nan"}, "is no number"),
])
def test_what_a_row_names_and_the_model_lacks_is_the_reason(columns, reason):
    assert reason in mapped(PAGE | columns).skipped


def test_tables_write_no_in_several_ways():
    for word in ("", "False", "no", "0", "off", "NA"):
        assert not mapped(PAGE | {"cpu_kv_offload": word}).skipped
    assert workload(PAGE | {"input_len": "1,024", "output_len": "294.4"})["requests"]["prompt_tokens"] == 1024


def test_instances_that_prefill_and_decode_apart_are_two():
    apart = PAGE | {"framework": "SGLang 0.5.2 + Mooncake, 1P1D", "tp": "4+2", "n_gpus": "6"}
    together = mapped(apart).experiment.scenario
    assert [(one["role"], one["gpus"]) for one in together["workload"]["instances"]] == [("prefill", [0, 1, 2, 3]), ("decode", [4, 5])]
    assert together["machine"]["groups"]["node"]["servers"] == 1
    outcome = mapped(apart | {"tp": "8+8", "n_gpus": "16"}).experiment
    assert outcome.scenario["workload"]["instances"][1]["gpus"] == list(range(8, 16)) and outcome.assumed == "network 8x connectx7_ndr"
    assert mapped(apart | {"system": "2x 8 H100, 8x 400G RoCE"}).experiment.scenario["machine"]["nic"]["datasheet"] == "connectx7_roce"
    outcome = mapped(apart | {"framework": "vLLM, 3P1D", "tp": "2", "n_gpus": "8"})
    assert "3prefill-1decode-tp2-pp1" in serving.point_name(outcome.row, outcome.experiment)
    several = outcome.experiment.scenario
    assert several["workload"]["instances"] == [{"name": "prefill", "role": "prefill", "tp": 2, "count": 3}, {"name": "decode", "role": "decode", "tp": 2}]
    assert several["machine"]["groups"]["node"]["servers"] == 1


@pytest.mark.parametrize("metric, unit, value", [("KV transfer time mean", "ms", 3), ("KV transfer time p50", "ms", 3), ("KV transfer post time", "ms", 1.5),
                                                 ("KV transfer size", "MB", 6), ("KV transfer bandwidth", "GB/s", 2), ("descriptors a transfer", "count", 30)])
def test_transfers_of_kv_are_those_of_the_run(metric, unit, value, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "transfers.csv").write_text("request,bytes,descriptors,begun_s,post_s,landed_s\n0,4000000,20,1,0.001,1.002\n1,8000000,40,2,0.002,2.004\n")
    experiment = mapped(PAGE | {"framework": "SGLang 0.5, 1P1D", "tp": "4+4", "n_gpus": "8", "metric": metric, "unit": unit}).experiment
    assert experiment.read(type("Result", (), {"directory": tmp_path})) == pytest.approx(value * experiment.unit)


@pytest.mark.parametrize("words, router", [("random", {"policy": "random"}), ("load only (queue and KV use)", {"policy": "scorers", "prefix_weight": 0, "kv_weight": 1}),
                                           ("precise prefix scorer (KV events)", {"policy": "scorers", "by_events": True, "kv_weight": 1})])
def test_instances_behind_a_router_run_together(words, router):
    outcome = mapped(PAGE | {"extra": f"24 q/s; routing: {words}", "tp": "2", "n_gpus": "16", "metric": "output throughput", "unit": "tok/s"}).experiment
    assert outcome.scenario["workload"]["router"] == router and outcome.scenario["workload"]["requests"]["rate_per_s"] == 24
    assert outcome.scenario["workload"]["instances"] == [{"name": "server", "tp": 2, "pp": 1, "count": 8}]
    assert outcome.scenario["machine"]["groups"]["node"]["servers"] == 2 and outcome.assumed == "network 8x connectx7_ndr"


def test_limits_of_the_scheduler_follow_from_words():
    asked = workload(PAGE | {"framework": "TensorRT-LLM 1.0", "extra": "concurrency 8; max batch 2048; max_num_tokens 1536; chunked context False; KV fp8"})
    assert asked["scheduler"] == {"max_seqs": 1536, "max_batched_tokens": 1536, "chunked_prefill": False}
    assert workload(PAGE | {"extra": "concurrency 8; policy max_util"})["scheduler"] == {"reserve": "sequence", "preemption": "recompute"}
    whole = workload(PAGE | {"extra": "concurrency 1; chunked prefill and radix cache off", "input_len": "16384"})
    assert whole["scheduler"] == {"chunked_prefill": False, "max_batched_tokens": 16384 + 128}
    eager = workload(PAGE | {"framework": "vLLM 0.2.7"})
    assert eager["engine"] == "vllm-2023-eager" and "scheduler" not in eager
    assert workload(PAGE | {"extra": "concurrency 8, enforce_eager"})["cudagraph"] == {"mode": "none"}


def test_rates_are_those_of_all_instances_or_of_a_gpu(tmp_path):
    result = type("Result", (), {"summary": {"metrics": {"output_tokens_per_s": 100.0}}})
    of_all = mapped(PAGE | {"extra": "4 instances, concurrency 32", "n_gpus": "4", "metric": "output throughput", "unit": "tok/s"})
    assert of_all.experiment.read(result) == pytest.approx(400) and of_all.experiment.assumed == "4 instances take equal shares of the load"
    of_gpu = mapped(PAGE | {"tp": "2", "n_gpus": "2", "metric": "output tokens/s/GPU", "unit": "tok/s/GPU"})
    assert of_gpu.experiment.read(result) == pytest.approx(50)


def test_a_rate_under_load_is_that_of_the_middle_of_the_run():
    middle = {"output_tokens_per_s": 100.0, "prompt_tokens_per_s": 300.0, "request_rate_per_s": 2.0}
    result = type("Result", (), {"summary": {"metrics": {"output_tokens_per_s": 80.0, "middle": middle}}})
    for metric, unit, value in (("output throughput", "tok/s", 200), ("total tokens/s", "tok/s", 800), ("requests/s", "1/s", 4)):
        assert mapped(PAGE | {"extra": "2 instances; 5 q/s", "metric": metric, "unit": unit}).experiment.read(result) == pytest.approx(value)


def test_a_stage_is_cut_only_where_caches_stay_as_warm():
    """Of the first requests of users, the share in a cut stage exceeds that in the whole one by at most 1 %."""
    columns = PAGE | {"duration_s": "1200"}
    for users, rates in ((44, [5.0, 10.0]), (4, [2.0]), (400, [1.0, 50.0])):
        whole = 1200 / len(rates)
        for rate, duration in zip(rates, load_rows.stages_of(row(columns), rates, users)):
            assert load_rows.SHORTEST_STAGE_S <= duration <= whole
            assert users / (rate * duration) <= users / (rate * whole) + load_rows.COLD_RATIO + 1e-9


def test_software_and_network_of_a_step_follow_from_its_words():
    outcome = mapped(STEP, "training")
    assert outcome.experiment.assumed == "network 8x connectx7_ndr" and "nic" not in outcome.experiment.scenario["machine"]
    step = outcome.experiment.scenario["workload"]
    assert (step["software"], step["zero_stage"], step["recompute"], step["global_batch"]) == ("torchtitan", 3, "full", 16)
    named = mapped(STEP | {"system": "8x H100, 8x 200G RoCE"}, "training")
    assert named.experiment.assumed == "" and named.experiment.scenario["machine"]["nic"]["datasheet"] == "connectx6_roce"
    cloud = mapped(STEP | {"system": "Oracle H100 (2xBM.GPU.H100.8)"}, "training").experiment
    assert cloud.assumed == "" and cloud.scenario["machine"]["nic"]["datasheet"] == "connectx7_roce"
    assert mapped(STEP | {"extra": "DeepSpeed ZeRO-2"}, "training").experiment.scenario["workload"]["zero_stage"] == 2
    assert mapped(STEP | {"extra": "our own trainer"}, "training").skipped.startswith("no rule for the software of ")
    for system, network in (("72-GPU racks of GB200 NVL72", "72x connectx7_ndr"), ("8x B300", "8x connectx8_xdr"), ("8x RTX 4090", "2x connectx7_ndr")):
        assert mapped(STEP | {"system": system, "n_gpus": "128", "gbs": "128"}, "training").experiment.assumed == "network " + network


def test_one_odd_row_is_skipped_alone(tmp_path, monkeypatch):
    torchtitan = STEP | {"source": "pytorch/torchtitan"}
    assert mapped(torchtitan | {"mbs": ""}, "training").skipped == "no micro-batch is printed"
    table = tmp_path / "table.csv"
    with open(table, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(STEP))
        writer.writeheader()
        writer.writerows([torchtitan, torchtitan | {"value": "n/a"}, torchtitan | {"model": "broken"}])
    step_of = CLASSES["training"].step_of
    monkeypatch.setattr(CLASSES["training"], "step_of", lambda row: step_of(row) if row["model"] != "broken" else None * 2)
    outcomes = comparison.map_rows(CLASSES["training"], rows.read(str(table)))
    assert [bool(one.experiment) for one in outcomes] == [True, False, False]
    assert outcomes[1].skipped == "value 'n/a' is no number"
    assert outcomes[2].skipped.startswith("the rule failed: TypeError in test_validate_tables.py, line ")
    assert report.coverage_lines(outcomes)[0] == "coverage: 1 of 3 rows, 33.3%"


def test_coverage_stands_beside_errors(tmp_path):
    table = tmp_path / "table.csv"
    with open(table, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(PAGE))
        writer.writeheader()
        writer.writerow(PAGE | {"framework": "LMDeploy"})
    command = [ROOT / "scripts" / "validate.py", "serving", "--rows", table, "--bin", tmp_path]
    assert "coverage: 0 of 1 rows, 0.0%\n     1  not: no datasheet for engine" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    told = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert told["coverage"] == {"rows": 1, "expressed": 0, "ratio": 0.0, "reasons": {"no datasheet for engine 'LMDeploy'": 1}, "assumed": {}}

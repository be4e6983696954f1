"""Validation class serving: which scenario a row of a serving engine becomes, and how its value is read from the run."""

import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from validation import CLASSES, closed_loop_rows, comparison, experiment, host_share, load_rows, published_rows, rows, serving, serving_targets  # noqa: E402

COMMON = {"id": "S-1", "category": "5-inference", "value": "18", "unit": "ms"}
LOAD = COMMON | {"system": "H100-SXM5-80GB", "model": "meta-llama/Llama-3.1-70B-Instruct", "tp": "4", "pp": "1", "precision": "bf16",
                 "framework": "vLLM 0.15.1", "max_num_batched_tokens": "2048", "max_num_seqs": "128", "kv_blocks": "30425",
                 "block_tokens": "16", "prefix_groups": "11", "users_per_group": "4", "shared_prefix_tokens": "100",
                 "question_tokens": "466", "output_tokens": "247", "rate_per_s": "5.0+10.0", "metric": "ITL Mean"}
LOOP = COMMON | {"system": "h100_sxm", "model": "Qwen3-32B", "mode": "agg", "backend": "vllm", "backend_version": "0.12.0",
                 "precision": "bf16?", "isl": "1024", "osl": "100", "concurrency": "8", "tp": "2", "pp": "1", "metric": "TPOT"}
APART = LOOP | {"mode": "disagg", "tp": "", "pp": "", "prefill_workers": "6", "prefill_tp": "1", "decode_workers": "1", "decode_tp": "2"}
BATCH = COMMON | {"system": "DGX-a100-80gb", "model": "llama2-70b", "tp": "4", "precision": "fp16", "framework": "vLLM (2023)",
                  "input_len": "512", "batch": "8", "output_len": "128", "n_repeats": "5", "metric": "token_time(TBT)"}
OFFLINE = COMMON | {"system": "H100", "model": "Llama3.3-70B", "precision": "fp8", "framework": "TRT-LLM 1.0 (max throughput, trtllm-bench)",
                    "tp": "2", "pp": "1", "input_len": "1000", "output_len": "1000", "metric": "output throughput", "unit": "tok/s"}
TRACE = COMMON | {"system": "RTX 4090", "model": "meta-llama/Llama-3.1-8B", "precision": "bf16", "framework": "vLLM 0.19.0", "tp": "1",
                  "metric": "TTFT P90", "source": "casys-kaist/LLMServingSim bench/examples/RTX4090/Llama-3.1-8B"}


def mapped(row, clone=None):
    return serving.map_row(rows.Row("table.csv", 2, row, float(row["value"])), clone)


def workload(row):
    return mapped(row).scenario["workload"]


def test_a_user_under_load_sends_his_prompt_again():
    asked = workload(LOAD)
    assert asked["requests"]["prefix"] == {"groups": 44, "users_per_group": 1, "shared_tokens": 566}
    assert asked["requests"]["prompt_tokens"] == 566
    assert [stage["rate_per_s"] for stage in asked["requests"]["stages"]] == [5, 10]
    assert asked["kv_blocks"] == 30425 and asked["scheduler"]["max_seqs"] == 128 and asked["instances"][0]["tp"] == 4


def test_gaps_and_latencies_are_means_or_percentiles():
    served = [{"TTFT": "3000000", "latency": "9000000", "ITL": "[1000000, 2000000]"}, {"TTFT": "5000000", "latency": "9000000", "ITL": "[9000000]"}]
    assert load_rows.value(served, "ITL", None) == pytest.approx(4e-3)  # of all gaps, not of requests
    assert load_rows.value(served, "TTFT", None) == pytest.approx(4e-3)
    assert load_rows.value(served, "TTFT", 0.9) == pytest.approx(4.8e-3)
    assert load_rows.value(served, "E2E", None) == pytest.approx(9e-3)


@pytest.mark.parametrize("source", ["ai-dynamo/aiconfigurator, InferenceX", "silicon_sample.csv id=dsr1_h200 [db-dump/2026-04-27]",
                                    "silicon_sample.csv [source_file=2026-04-06.csv]"])
@pytest.mark.parametrize("backend", ["vllm", "sglang", "trtllm"])
def test_inferencex_sends_the_same_lengths_to_every_engine(backend, source):
    asked = workload(LOOP | {"backend": backend, "source": source})
    assert asked["requests"]["prompt_tokens"] == {"uniform": {"min": 819, "max": 1024}}
    assert asked["requests"]["output_tokens"] == {"uniform": {"min": 80, "max": 100}}
    assert asked["client_us"] == load_rows.CLIENT_US


def test_servers_that_hold_requests_back_do_so_or_are_skipped():
    row = LOOP | {"system": "b200_sxm", "backend": "sglang", "source": "InferenceX"}
    assert workload(row)["scheduler"] == {"max_batched_tokens": 32768, "receive_interval": 10}
    assert workload(row | {"concurrency": "16"})["scheduler"]["receive_interval"] == 30
    trtllm = row | {"backend": "trtllm", "backend_version": "", "metric": "TTFT"}
    assert workload(trtllm | {"concurrency": "32"})["requests"]["concurrency"] == 32
    with pytest.raises(rows.Unmapped, match="waits up to 40 steps"):
        workload(trtllm | {"concurrency": "64"})


def test_aiconfigurators_own_loops_are_spread_unless_the_engine_keeps_them_in_step():
    asked = workload(LOOP | {"source": "silicon_sample.csv [source_file=/data/h100_sxm/vllm/0.12.0/Qwen_Qwen3-32B.csv]"})
    assert asked["requests"]["output_tokens"] == {"uniform": {"min": 80, "max": 120}} and asked["client_us"] > 0
    assert (asked["requests"]["concurrency"], asked["requests"]["count"]) == (8, 32)
    assert workload(LOOP | {"backend": "sglang"})["requests"]["output_tokens"] == 100


def test_the_source_of_the_loops_limits_tensorrt_llm():
    loop = LOOP | {"backend": "trtllm", "backend_version": "1.0.0rc3"}
    assert workload(loop)["scheduler"] == {"max_seqs": 8, "max_batched_tokens": 8 + 1024 + 1500, "chunked_prefill": False}
    assert "scheduler" not in workload(LOOP)


def test_a_precision_may_mean_the_one_public_checkpoint():
    model = mapped(LOOP | {"backend": "trtllm", "backend_version": "1.0.0rc3", "precision": "fp8"}).scenario["model"]
    assert (pathlib.Path(model["config"]).name, model["dtype"], model["kv_dtype"]) == ("qwen3-32b-fp8.json", "bf16", "fp8")
    model = mapped(LOOP | {"model": "Llama-3.1-70B", "precision": "fp8"}).scenario["model"]
    assert (pathlib.Path(model["config"]).name, model["dtype"], model["kv_dtype"]) == ("llama-3.1-70b.json", "fp8", "bf16")


def test_the_first_wave_of_a_loop_counts_a_tenth_and_the_last_nothing():
    served = [{"arrival": str(wave), "TTFT": str(time)} for wave, time in enumerate([100, 10, 10, 10**9]) for _ in range(2)]
    assert closed_loop_rows.value(served[::-1], "TTFT", 2) == pytest.approx(19e-9)


def test_hosts_follow_the_version_of_vllm():
    def engine(**columns):
        return workload(LOOP | columns)["engine"]

    assert engine(backend_version="0.7.2") == "vllm-0.6"
    assert engine(backend_version="0.12.0") == engine(backend_version="") == "vllm-0.12"
    assert engine(backend_version="0.14.1") == "vllm-0.15"
    assert engine(backend="sglang", backend_version="0.5.1") == "sglang-0.5"
    assert engine(backend="trtllm", backend_version="0.8") == "trtllm-1.0"


def test_engines_by_name():
    assert mapped(OFFLINE).scenario["model"] | {"config": ""} == {"config": "", "dtype": "fp8", "kv_dtype": "fp8"}
    assert mapped(LOOP | {"precision": "fp8"}).scenario["model"]["kv_dtype"] == "bf16"
    assert "bf16?" in mapped(LOOP).operation and "bf16?" not in mapped(LOOP | {"precision": "bf16"}).operation


def test_a_batch_on_vllm_of_2023_is_eager_and_prefills_at_once():
    asked = workload(BATCH)
    assert asked["engine"] == "vllm-2023-eager" and "cudagraph" not in asked  # the sheet has none
    assert asked["scheduler"] == {"max_batched_tokens": 8 * 512 + 128}
    assert workload(BATCH | {"system": "DGX-h100-80gb"})["engine"] == asked["engine"]


def test_offline_runs_have_as_many_requests_as_the_pages():
    assert [published_rows.offline_requests(tokens) for tokens in (256, 2176, 2500, 4096, 5500, 22000)] == [30000, 3000, 3000, 1500, 1500, 1000]
    assert workload(OFFLINE)["requests"]["count"] == 3000


def test_instances_apart_have_the_numbers_of_the_row():
    experiment = mapped(APART)
    assert experiment.scenario["workload"]["instances"] == [{"name": "prefill", "role": "prefill", "tp": 1, "count": 6},
                                                            {"name": "decode", "role": "decode", "tp": 2}]
    assert experiment.scenario["machine"]["groups"]["node"]["servers"] == 1
    assert mapped(APART | {"decode_workers": "2"}).scenario["machine"]["groups"]["node"]["servers"] == 2


def test_instances_apart_have_replicas_or_whole_experts_by_tp_and_ep():
    row = APART | {"model": "DeepSeek-V3", "precision": "fp8", "prefill_workers": "1", "prefill_ep": "8", "decode_workers": "2"}
    prefill = {"name": "prefill", "role": "prefill", "tp": 1, "dp": 8, "ep": 8}
    replicas = mapped(row | {"decode_tp": "1", "decode_ep": "16"}).scenario
    assert replicas["workload"]["instances"] == [prefill, {"name": "decode", "role": "decode", "tp": 1, "dp": 16, "ep": 16, "count": 2}]
    assert replicas["machine"]["groups"]["node"]["servers"] == 5
    ranks = mapped(row | {"decode_workers": "1", "decode_tp": "8", "decode_ep": "8"}).scenario["workload"]["instances"]
    assert ranks == [prefill | {"gpus": list(range(8))}, {"name": "decode", "role": "decode", "tp": 8, "ep": 8, "gpus": list(range(8, 16))}]


# InferenceX prints tp and ep; the columns have tp x ep ranks of attention. Other rows mean what they say.
@pytest.mark.parametrize("columns, source, instance", [
    ({"tp": "64", "moe_tp": "8", "moe_ep": "8"}, "id=c4 [db-dump/2026-04-27]", {"tp": 8, "ep": 8}),
    ({"tp": "1", "attn_dp": "64", "moe_tp": "8", "moe_ep": "8"}, "id=c4 [source_file=2026-04-06.csv]", {"tp": 1, "dp": 8, "ep": 8}),
    ({"tp": "1", "attn_dp": "8", "moe_tp": "1", "moe_ep": "8"}, "", {"tp": 1, "dp": 8, "ep": 8}),
    ({"tp": "2", "attn_dp": "4", "moe_tp": "1", "moe_ep": "8"}, "", {"tp": 2, "dp": 4, "ep": 8}),
])
def test_ranks_of_attention_and_experts(columns, source, instance):
    row = LOOP | {"system": "h200_sxm", "model": "DeepSeek-V3", "backend": "sglang", "precision": "fp8", "source": source} | columns
    asked = mapped(row).scenario
    assert asked["workload"]["instances"] == [{"name": "server", "pp": 1} | instance]
    assert asked["machine"]["groups"]["node"]["servers"] == 1


def test_a_trace_takes_its_settings_from_the_clone(tmp_path):
    folder = tmp_path / "bench" / "examples" / "RTX4090" / "Llama-3.1-8B" / "vllm"
    folder.mkdir(parents=True)
    run = {"model": "meta-llama/Llama-3.1-8B", "vllm_version": "0.19.0", "engine_kwargs": {"max_num_seqs": 256, "max_num_batched_tokens": 2048},
           "dataset_path": "workloads/trace.jsonl", "kv_cache": {"num_gpu_blocks": 2588}}
    (folder / "meta.json").write_text(json.dumps(run), encoding="utf-8")
    experiment = mapped(TRACE, tmp_path)
    assert experiment.scenario["workload"]["kv_blocks"] == 2588 and "compute" not in experiment.scenario
    assert experiment.scenario["workload"]["requests"]["file"] == str(tmp_path / "workloads" / "trace.jsonl")
    profile = tmp_path / "profiler" / "perf" / "RTX4090" / "meta-llama" / "Llama-3.1-8B" / "bf16"
    profile.mkdir(parents=True)
    assert mapped(TRACE, tmp_path).scenario["compute"] == {"profile": str(profile)}


@pytest.mark.parametrize("row, reason", [
    (LOAD | {"metric": "TPOT"}, "none of E2E, TTFT, ITL"),
    (LOAD | {"rate_per_s": "5,10"}, "no list of numbers"),
    (LOAD | {"cpu_kv_offload": "yes"}, "host memory"),
    (APART | {"prefill_workers": ""}, "has no prefill_workers"),
    (APART | {"decode_ep": "4"}, "dealt to another number of ranks"),
    (LOOP | {"tp": "4", "moe_tp": "2", "moe_ep": "2"}, "dealt to ranks and cut"),
    (LOOP | {"tp": "2", "attn_dp": "4", "moe_ep": "4"}, "some of the ranks"),
    (LOOP | {"tp": "1", "attn_dp": "4", "moe_tp": "4", "moe_ep": "1"}, "experts that are cut"),
    (APART | {"model": "DeepSeek-V3", "precision": "fp8", "decode_tp": "8"}, "latent attention|no configuration"),
    (LOOP | {"model": "DeepSeek-V3"}, "no configuration of model"),
    (LOOP | {"backend": "lmdeploy"}, "no datasheet for engine"),
    (BATCH | {"metric": "e2e_time", "output_len": "1024"}, "end early"),
    (OFFLINE | {"input_len": "64000"}, "performance pages"),
    (OFFLINE | {"precision": "not stated (fp8 likely)"}, "is none of"),
    (OFFLINE | {"system": "A100"}, "no tensor rate"),
    (TRACE, "--llmservingsim"),
    (COMMON | {"category": "3-compute"}, "another class"),
])
def test_what_cannot_be_mapped_says_why(row, reason):
    with pytest.raises(rows.Unmapped, match=reason):
        mapped(row)


def test_of_the_shipped_tables_only_traces_and_requests_held_back_are_skipped():
    files = [str(ROOT / "validation" / table) for table in serving.TABLES]
    outcomes = comparison.map_rows(CLASSES["serving"], [row for file in files for row in rows.read(file)])
    assert {outcome.skipped for outcome in outcomes} == {"", "needs a clone of casys-kaist/LLMServingSim: --llmservingsim DIR",
                                                         closed_loop_rows.HELD_BACK}
    for table in serving.TABLES:
        assert any(not outcome.skipped and outcome.row.file.endswith(table) for outcome in outcomes)


def test_every_target_but_those_of_the_clone_has_rows_of_its_own():
    files = [str(ROOT / "validation" / table) for table in serving.TABLES]
    outcomes = [one for one in comparison.map_rows(CLASSES["serving"], [row for file in files for row in rows.read(file)]) if not one.skipped]
    for one in outcomes:
        assert sum(target.belongs(one) for target in serving_targets.TARGETS) <= 1
    assert {target.name for target in serving_targets.TARGETS if not any(target.belongs(one) for one in outcomes)} == {
        f"ShareGPT-300 on an RTX 4090, kernel profile, {name}" for name in ("TPOT", "TTFT", "Latency")}
    for one in outcomes:
        one.predicted = 1.25 * one.row.value
    table = serving.targets(outcomes)
    assert len(table) == len(serving_targets.TARGETS) - 3 + 7 and all("| 25.0 % |" in line for line in table[6:-1])


def test_host_constants_that_are_most_of_a_ttft_are_named():
    def outcome(ttft_s, host_s, engine, **workload):
        one = experiment.Experiment("closed loop TTFT", "plx_box", {"workload": {"engine": engine} | workload}, None, lambda result: ttft_s, 1e-3)
        columns = {"metric": "TTFT"}
        return comparison.Outcome(rows.Row("t.csv", 2, columns, 1.0), experiment=one, predicted=ttft_s * 1e3, host_s=host_s)

    assert host_share.request_us("vllm-0.15") == host_share.request_us("vllm-0.19") > 0 == host_share.request_us("none")
    little = [outcome(0.2, 0.01, "vllm-0.19")] * 3
    assert not host_share.lines(little)
    loop = [outcome(0.15, 0.105, "vllm-0.15", client_us=40000), outcome(0.1, 0.095, "vllm-0.15", client_us=40000)]
    loop += [outcome(1.0, 0.105, "vllm-0.15", client_us=40000)]  # not mostly host
    [line] = [line for line in host_share.lines(little + loop) if line.startswith("| closed")]
    sheet = 1e-3 * host_share.request_us("vllm-0.15")
    assert line == f"| closed loop TTFT, vllm-0.15 | 2 of 3 | 125 | 100 | {40 + sheet:.4g} (load generator 40, engine sheet {sheet:.4g}) |"
    [line] = [line for line in host_share.lines([outcome(0.1, 0.09, "vllm-0.15", host={"request_us": 5000})]) if line.startswith("| closed")]
    assert line.endswith("5 (scenario 5) |")

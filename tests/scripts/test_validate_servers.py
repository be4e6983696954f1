"""Validation class servers: which scenario a row of a whole server becomes, and how TTFT and TPOT are read from its run."""

import csv
import pathlib
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from validation import CLASSES, comparison, host_share, load_rows, rows, servers  # noqa: E402

ROW = {"id": "S-1", "category": "5-inference", "system": "H100 SXM", "model": "Llama-3.1-70B", "n_gpus": "2", "precision": "fp8",
       "framework": "vLLM 0.15.1", "tp": "2", "input_len": "1024", "output_len": "8192", "concurrency": "4", "metric": "TPOT", "value": "18",
       "unit": "ms"}


def mapped(name="servers", **columns):
    row = rows.Row("servers.csv", 2, ROW | columns, 18.0)
    return CLASSES[name].map_row(row)


def test_a_row_becomes_two_groups_of_its_gpus():
    experiment = mapped()
    assert experiment.platform == "dgx_h100" and experiment.operation == "TPOT vLLM" and experiment.size_class == "TP2"
    scenario = experiment.scenario
    assert {group["gpu"] for group in scenario["machine"]["groups"].values()} == {"H100-SXM5-80GB"}
    workload = scenario["workload"]
    assert "host" not in workload and workload["prefill"] == {"tp": 2, "pp": 1}
    assert workload["requests"] == {"count": 4, "prompt_tokens": 1024 + 4096}  # in the middle of the answer
    assert workload["decode"] == {"steps": 64 + 4 * 5120 // 256, "max_batch": 4}
    assert mapped("servers_no_host").scenario["workload"]["host"] == "none"
    engines = [mapped(framework=name).scenario["workload"]["engine"] for name in ("vLLM 0.12.0", "SGLang 0.5", "NIM 1.8.0", "TensorRT-LLM 0.9.0")]
    assert engines == ["vllm-0.12", "sglang-0.5", "trtllm-1.0", "trtllm-1.0"]


def test_a_client_takes_the_same_time_with_all_engines_and_none_where_there_is_no_server():
    """Only rows under load tell the client's time from the server's."""
    def of(framework):
        one = mapped(metric="TTFT", framework=framework)
        result = types.SimpleNamespace(summary={"metrics": {"ttft_s": 0.05}})
        return one.read(result) - 0.05, one.scenario["workload"].get("host")

    client_s = load_rows.CLIENT_US * 1e-6
    for framework in ("vLLM 0.12.0", "SGLang 0.5", "NIM 1.8.0", "TensorRT-LLM 1.0"):
        assert of(framework) == (pytest.approx(client_s), None)
    assert of("TensorRT-LLM 0.9.0") == (0, {"request_us": 0})


def test_a_ttft_that_is_mostly_host_time_is_named(tmp_path):
    """Client, API server, and what GPUs wait for launches: 4.7 + 1.5 + 0.5 ms of 9.7 are named, the same of 50 are not."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "requests.csv").write_text("arrival,queued_ns\n1000000,2500000\n")
    made = []
    for ttft_s in (0.005, 0.05):
        one = mapped(metric="TTFT", framework="NIM 1.8.0")
        result = types.SimpleNamespace(directory=tmp_path, summary={"metrics": {"ttft_s": ttft_s, "exposed_s": {"host": 0.0005}}})
        made.append(comparison.Outcome(rows.Row("t.csv", 2, ROW | {"metric": "TTFT"}, 9.0), experiment=one, predicted=one.read(result) * 1e3,
                                       host_s=one.host_s(result)))
    client_ms = load_rows.CLIENT_US * 1e-3
    assert [one.host_s * 1e3 for one in made] == [pytest.approx(client_ms + 2)] * 2
    [line] = [line for line in CLASSES["servers"].targets(made) if line.startswith("| TTFT NIM")]
    request_ms = 1e-3 * host_share.request_us("trtllm-1.0")
    assert line == (f"| TTFT NIM, trtllm-1.0 | 1 of 2 | {client_ms + 5:.4g} | {client_ms + 2:.4g} | {client_ms + request_ms:.4g} "
                    f"(load generator {client_ms:.4g}, engine sheet {request_ms:.4g}) |")


def test_a_first_token_is_one_request_without_decode():
    workload = mapped(metric="TTFT").scenario["workload"]
    assert workload["requests"] == {"count": 1, "prompt_tokens": 1024} and workload["decode"]["steps"] == 0


@pytest.mark.parametrize("columns, reason", [
    ({"metric": "TTFT", "output_len": "1024", "input_len": "8192"}, "prompts wait for each other"),
    ({"concurrency": "64"}, "the scheduler's"),
    ({"metric": "tokens/s"}, "neither TTFT nor TPOT"),
    ({"model": "Falcon-180B"}, "no configuration of model"),
    ({"precision": "fp4"}, "is none of"),
    ({"framework": "LMDeploy"}, "no datasheet for engine 'LMDeploy'"),
    ({"tp": "4+8"}, "two sizes"),
    ({"input_len": ""}, "has no input_len"),
])
def test_what_cannot_be_mapped_says_why(columns, reason):
    with pytest.raises(rows.Unmapped, match=reason):
        mapped(**columns)


def test_other_columns_for_the_same_are_read():
    loop = {"framework": "", "backend": "trtllm", "input_len": "", "output_len": "", "isl": "1024", "osl": "8192", "mode": "agg"}
    assert mapped(**loop).scenario["workload"]["requests"] == mapped().scenario["workload"]["requests"]
    assert mapped(**loop).scenario["workload"]["engine"] == "trtllm-1.0"
    apart = loop | {"mode": "disagg", "tp": "", "prefill_workers": "1", "prefill_tp": "4", "decode_workers": "1", "decode_tp": "4"}
    assert mapped(**apart).scenario["workload"]["prefill"] == {"tp": 4, "pp": 1}
    for changes, reason in (({"decode_tp": "2"}, "two sizes"), ({"decode_workers": "3"}, "more than one server"), ({"decode_ep": "4"}, "expert parallelism")):
        with pytest.raises(rows.Unmapped, match=reason):
            mapped(**apart | changes)


def test_tpot_is_the_gap_while_all_decode_and_the_others_prompts(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    header = ["decode_begin_ns", "end_time", "first_token_ns", "ITL"]
    ms = 1_000_000
    written = [(100 * ms, 300 * ms, 50 * ms, [60 * ms] + [10 * ms] * 5 + [14 * ms] * 10),   # alone, then both
               (160 * ms, 340 * ms, 150 * ms, [24 * ms] + [14 * ms] * 9 + [10 * ms] * 4)]
    with open(out / "requests.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(written)
    result = types.SimpleNamespace(directory=tmp_path, summary={"metrics": {"prefill_window_s": 0.4}})
    assert servers.tpot(result, 1, 128) == pytest.approx(14e-3)
    assert servers.tpot(result, 2, 101) == pytest.approx(14e-3 + 0.2 / 100)  # the other's prompt, over a hundred gaps


def test_the_shipped_rows_are_forty_and_more_of_both_metrics_and_all_engines():
    outcomes = comparison.map_rows(CLASSES["servers"], rows.read(str(ROOT / "validation" / "servers.csv")))
    operations = [outcome.experiment.operation for outcome in outcomes if not outcome.skipped]
    assert sum(name.startswith("TTFT") for name in operations) >= 40 and sum(name.startswith("TPOT") for name in operations) >= 40
    assert {name.split(" ")[1] for name in operations} == {"vLLM", "TensorRT-LLM", "SGLang", "NIM"}

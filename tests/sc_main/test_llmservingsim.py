"""Files of LLMServingSim on the command line, from its cluster configuration and dataset to its columns."""

import json
import shutil

import pytest

from platform_runs import ROOT, rows, run, succeed, summary

MEMORY = {"mem_size": 1, "mem_bw": 1008, "mem_latency": 0}
INSTANCE = {"model_name": "org/tiny", "hardware": "RTX4090", "npu_mem": MEMORY, "pd_type": None, "tp_size": 2, "pp_size": 2}
CLUSTER = {"num_nodes": 1, "link_bw": 16, "link_latency": 1000,
           "nodes": [{"num_instances": 1, "cpu_mem": {"mem_size": 64, "mem_bw": 50, "mem_latency": 0}, "instances": [INSTANCE]}]}
DATASET = [{"input_toks": 300, "output_toks": 5, "arrival_time_ns": 0}, {"input_toks": 200, "output_toks": 1, "arrival_time_ns": 400_000},
           {"input_toks": 100, "output_toks": 9, "arrival_time_ns": 900_000}]
COLUMNS = "instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL".split(",")
OPTIONS = ["--cluster-config", "c.json", "--dataset", "d.jsonl", "--models", "models"]


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps(CLUSTER))
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DATASET))
    (tmp_path / "models").mkdir()
    shutil.copy(ROOT / "tests" / "models" / "tiny.json", tmp_path / "models" / "org_tiny.json")
    return tmp_path


def results(folder):
    """What a run wrote, without the command and the simulator's own figures."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "command.txt"}
    files["summary.json"] = {key: value for key, value in summary(folder).items() if key != "simulator"}
    return files


def refusal(*arguments, cwd):
    result = run("plx_box", *arguments, cwd=cwd)
    assert result.returncode == 2 and result.stdout == "" and result.stderr.count("\n") == 1, result.stderr
    return result.stderr.rstrip("\n")


def test_requests_have_the_columns_of_llmservingsim(folder):
    succeed("plx_box", *OPTIONS, "--out", "out", "--quiet", cwd=folder)
    table = rows(folder / "out" / "requests.csv")
    assert list(table[0])[:12] == COLUMNS
    assert sorted(int(row["request id"]) for row in table) == [0, 1, 2]
    for row in table:
        asked = DATASET[int(row["request id"])]
        gaps = json.loads(row["ITL"])
        ns = {key: int(row[key]) for key in ("input", "output", "arrival", "end_time", "latency", "queuing_delay", "TTFT", "TPOT")}
        assert row["model"] == "org/tiny" and row["instance id"] == "0"
        assert (ns["input"], ns["output"], ns["arrival"]) == (asked["input_toks"], asked["output_toks"], asked["arrival_time_ns"])
        assert ns["latency"] == ns["end_time"] - ns["arrival"] == ns["TTFT"] + sum(gaps)
        assert len(gaps) == ns["output"] - 1 and 0 <= ns["queuing_delay"] < ns["TTFT"]
        assert ns["TPOT"] == (sum(gaps) // len(gaps) if gaps else 0)


@pytest.mark.parametrize("platform", ["plx_box", "dgx_h100"])
def test_the_scenario_that_it_becomes_gives_the_same_bytes(platform, folder):
    if platform == "dgx_h100":
        (folder / "c.json").write_text(json.dumps(CLUSTER).replace("RTX4090", "H100"))
    told = succeed(platform, *OPTIONS, "--num-reqs", 2, "--max-num-seqs", 4, "--dump-scenario", "s.yaml", "--out", "a", cwd=folder).stderr
    assert told.count("c.json: link_bw, link_latency: not used; ") == 1
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    succeed(platform, folder / "s.yaml", "--out", "../b", cwd=elsewhere)
    assert (folder / "s.yaml").read_bytes() == (folder / "a" / "scenario.yaml").read_bytes()
    assert results(folder / "a") == results(folder / "b")
    assert len(rows(folder / "a" / "requests.csv")) == 2


def as_given(folder, platform, cluster, workload):
    """The metrics of another workload on the machine that --links as-given makes."""
    (folder / "c.json").write_text(json.dumps(cluster))
    told = succeed(platform, *OPTIONS, "--links", "as-given", "--check", "--dump-scenario", "s.yaml", cwd=folder).stderr
    assert "c.json: link_bw, link_latency: as given" in told
    written = (folder / "s.yaml").read_text()
    (folder / "p.yaml").write_text(f"{written[written.index('machine:'):written.index('workload:')]}workload: {workload}\n")
    succeed(platform, "p.yaml", "--out", "p", "--quiet", cwd=folder)
    return summary(folder / "p")["metrics"]


# Two GPUs of a PCIe box: below one switch, and below different sockets.
@pytest.mark.parametrize("platform, hardware, other", [("plx_box", "RTX4090", 1), ("plx_box", "RTX4090", 7), ("dgx_h100", "H100", 7), ("hgx_a100_4gpu", "A100", 3)])
def test_links_as_given_are_alike_between_all_gpus(platform, hardware, other, folder):
    given = json.loads(json.dumps(CLUSTER).replace("RTX4090", hardware)) | {"link_bw": 21.5, "link_latency": [3000, 3000]}
    copies = as_given(folder, platform, given, f"{{kind: p2p, test: matrix, engine: sm, ranks: [0, {other}], copy_bytes: 50000000}}")
    assert copies["unidirectional_gb_per_s"] == pytest.approx(21.5, rel=0.01)
    one_hop = f"{{kind: collective, op: send_recv, sizes_bytes: [4], ranks: [0, {other}]}}"
    times = [as_given(folder, platform, given | {"link_latency": ns}, one_hop)["time_s"]["4"] for ns in (3000, 23000)]
    assert times[1] - times[0] == pytest.approx(20e-6, rel=1e-3)


def test_a_run_says_which_gpus_it_took_and_what_lies_between_them(folder):
    command = [*OPTIONS, "--check", "--dump-scenario", "s.yaml"]
    told = succeed("plx_box", *command, cwd=folder).stderr
    assert "c.json: instance0: GPUs 0 to 3, below one PCIe switch, without peer access: their bytes cross host memory" in told
    wide = json.dumps(CLUSTER).replace('"tp_size": 2', '"tp_size": 4').replace("RTX4090", "L40S")
    (folder / "c.json").write_text(wide)
    assert "instance0: GPUs 0 to 7, below different sockets; " in succeed("plx_box", *command, cwd=folder).stderr
    (folder / "c.json").write_text(wide.replace("L40S", "H100"))
    assert "instance0: GPUs 0 to 7, joined by NVSwitches; " in succeed("dgx_h100", *command, cwd=folder).stderr


def test_links_as_given_need_one_server_and_one_value(folder):
    command = [*OPTIONS, "--links", "as-given"]
    (folder / "c.json").write_text(json.dumps(CLUSTER | {"link_bw": [16, 32]}))
    line = refusal(*command, cwd=folder)
    assert line.startswith("c.json:1:") and "link_bw: '32' differs from the first dimension" in line
    (folder / "c.json").write_text(json.dumps(CLUSTER).replace('"tp_size": 2, "pp_size": 2', '"tp_size": 4, "pp_size": 4'))
    assert "--links as-given: error: needs all GPUs in one server; these instances take 2 servers" in refusal(*command, cwd=folder)
    assert "accepted: platform, as-given" in refusal(*OPTIONS, "--links", "mine", cwd=folder)


def test_files_and_options_must_fit_together(folder):
    scenario = folder / "s.yaml"
    succeed("plx_box", *OPTIONS, "--check", "--dump-scenario", scenario, cwd=folder)
    assert refusal("--dataset", "d.jsonl", cwd=folder).startswith("plx_box: error: --dataset requires --cluster-config")
    assert refusal("--cluster-config", "c.json", cwd=folder).startswith("plx_box: error: --cluster-config requires --dataset")
    assert refusal(scenario, *OPTIONS, cwd=folder).startswith("plx_box: error: --cluster-config: is not accepted with a scenario")
    assert refusal(scenario, "--max-num-seqs", 4, cwd=folder).startswith("plx_box: error: --max-num-seqs requires --cluster-config")
    assert refusal(*OPTIONS, "--block-size", 0, cwd=folder) == "--block-size 0: error: block_size: '0' is out of range; accepted: 1 to 4096"
    assert refusal(*OPTIONS, "--dtype", "bf16", cwd=folder).startswith("--dtype bf16: error: dtype: unknown value 'bf16'; accepted: float16, ")
    assert refusal(*OPTIONS, "--dump-scenario", "none/s.yaml", cwd=folder).startswith("plx_box: error: ")


def test_rows_of_the_dataset_are_checked(folder):
    (folder / "d.jsonl").write_text('{"input_toks": 3, "output_toks": 1, "arrival_time_ns": 0}\n{"input_toks": 0}\n')
    assert refusal(*OPTIONS, cwd=folder).startswith("d.jsonl:2:1: error: arrival_time_ns: is required")


def test_the_help_has_a_section_for_the_options(folder):
    text = succeed("plx_box", "--help", "llmservingsim", cwd=folder).stdout
    for option in ["--dataset", "--dtype", "--kv-cache-dtype", "--block-size", "--max-num-seqs", "--max-num-batched-tokens", "--num-reqs",
                   "--no-enable-prefix-caching", "--profile-root", "--models"]:
        assert option + " " in text

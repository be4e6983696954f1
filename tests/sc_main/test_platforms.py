"""The command line of the platform executables: options, refusals, exit statuses, what is left behind."""

import csv
import json
import os
import re
import signal
import subprocess
import time

import pytest
import yaml

from platform_runs import BIN, PLATFORMS, ROOT, TINY, rows, run, succeed, summary, tiny

SCENARIOS = sorted(set((ROOT / "scenarios").glob("**/*.yaml")) - set((ROOT / "scenarios" / "sweeps").iterdir()))


def platform_of(scenario):
    return re.search(r"^platform: (\w+)", scenario.read_text(), re.M).group(1)


def refusal(platform, *arguments, cwd=None):
    """The one line with which it refuses."""
    result = run(platform, *arguments, cwd=cwd)
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert result.stderr.endswith("\n") and result.stderr.count("\n") == 1, result.stderr
    return result.stderr.rstrip("\n")


# -- what it says of itself

@pytest.mark.parametrize("platform", PLATFORMS)
def test_version_and_help(platform):
    assert re.fullmatch(platform + r" \d+\.\d+\.\d+(\+\d+)? \(\w+(-dirty)?\)\n", succeed(platform, "--version").stdout)
    text = succeed(platform, "--help").stdout
    options = [line for line in text.splitlines() if line.startswith("  -")]
    assert text.count("\n") == len(options) + 9 and max(map(len, options)) <= 125  # a line each
    for option in ["--out", "--set", "--vcd", "--vcd-level", "--vcd-filter", "--vcd-window", "--fst", "--jobs", "--describe", "--explain",
                   "--json", "--check", "--schema", "--quiet", "--version"]:
        assert option in text
    assert "workload.chunk_tokens" not in text
    for section in ["disaggregated_prefill", "workload", "workload.chunk_tokens"]:
        assert "workload.chunk_tokens  (integer" in succeed(platform, "--help", section).stdout
    everything = succeed(platform, "--help-all").stdout
    assert everything.startswith(text) and "fabric.classes.kv.vc" in everything and "workload.chunk_tokens" in everything
    assert refusal(platform, "--help", "machin") == "--help machin: error: no such section (did you mean 'machine'?)"


def test_schema_is_a_schema_and_says_what_the_loader_says(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    yaml = pytest.importorskip("yaml")
    schema = json.loads(succeed("plx_box", "--schema").stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    assert len(SCENARIOS) >= 6
    for scenario in SCENARIOS:
        validator.validate(yaml.safe_load(scenario.read_text()))
    for wrong in [{"workload": {"chunk_tokens": 0}}, {"workload": {"chunk_token": 256}}, {"seed": "one"}, {"platform": "dgx_h200"}]:
        document = yaml.safe_load(TINY)
        for key, value in wrong.items():
            document[key] = dict(document[key], **value) if isinstance(value, dict) else value
        assert list(validator.iter_errors(document)), wrong
        (tmp_path / "s.yaml").write_text(yaml.safe_dump(document))
        refusal("plx_box", "s.yaml", "--check", cwd=tmp_path)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_shipped_scenarios_are_right(scenario):
    assert succeed(platform_of(scenario), scenario, "--check").stdout == f"{scenario}: ok\n"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_quiet_check_says_nothing(platform, tmp_path):
    assert succeed(platform, tiny(tmp_path), "--check", "--quiet").stdout == ""


@pytest.mark.parametrize("platform", PLATFORMS)
def test_describe_is_the_machine_that_runs(platform, tmp_path):
    scenario = tiny(tmp_path)
    machine = json.loads(succeed(platform, scenario, "--describe", "--json").stdout)
    succeed(platform, scenario, "--out", tmp_path / "out", "--quiet")
    assert json.loads((tmp_path / "out" / "machine.json").read_text()) == machine
    kinds = [device["kind"] for device in machine["devices"]]
    gpus, nics, nvswitches = {"plx_box": (8, 2, 0), "hgx_a100_4gpu": (4, 4, 0), "hgx_h100_4gpu": (4, 4, 0), "dgx_a100": (8, 8, 6), "dgx_h100": (8, 8, 4), "dgx_b200": (8, 8, 2),
                              "gb200_nvl72": (72, 72, 18)}[platform]
    assert [kinds.count(kind) for kind in ("gpu", "nic", "nvswitch")] == [2 * gpus, 2 * nics, 2 * nvswitches]
    for group in machine["groups"]:
        assert group["peak"]["hbm_gb_per_s"] > 0 and group["peak"]["tflops"]["fp16"] > 0
    # Every device's ports appear as links, once.
    names = {device["name"] for device in machine["devices"]}
    links = [link for link in machine["links"] if link["direction"] != "both"]
    assert len({link["from"] for link in links}) == len(links) == sum(device["ports"] for device in machine["devices"])
    for link in links:
        assert link["from"].rsplit(".", 1)[0] in names and link["to"] in names
        assert link["gb_per_s"] > 0 and (link["latency_ns"] > 0 or link["name"].startswith("Host_Memory"))
    far = [link for link in machine["links"] if link["direction"] == "both"]
    assert len(far) == (2 * 4 * 4 if platform == "plx_box" else 0)
    assert all(end.rsplit(".", 1)[0] in names for link in far for end in link["from"].split())
    assert len({(link["name"], link["direction"]) for link in machine["links"]}) == len(machine["links"])
    for gpu in range(min(gpus, 8)):
        assert f"prefill0.gpu{gpu}.pcie" in {link["from"] for link in machine["links"]}
    # What is decoded hop by hop begins at its source and ends beside its destination.
    for route in machine["routes"]:
        for lane in route["lanes"]:
            assert lane[0].startswith(route["from"] + ".")
    text = succeed(platform, scenario, "--describe").stdout
    assert all(name in text for name in names)


def test_explain_gives_the_published_numbers(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(TINY.replace(f"{ROOT}/tests/models/tiny.json", f"{ROOT}/scenarios/models/llama-3.1-8b.json"))
    numbers = json.loads(succeed("plx_box", scenario, "--explain", "--json").stdout)
    assert numbers["parameters"]["total"] == 8_030_261_248
    assert numbers["parameters"]["kv_bytes_per_token"] == 2 * 32 * 8 * 128 * 2
    assert numbers["first_request"]["chunks"] == 3
    per_rank = sum(stage["parameters_per_rank"] for stage in numbers["instances"][0]["stages"]) * 2
    assert per_rank == pytest.approx(8_030_261_248, rel=1e-3)
    # Without contention and latency no run is faster.
    succeed("plx_box", scenario, "--out", tmp_path / "out", "--quiet")
    assert summary(tmp_path / "out")["metrics"]["ttft_s"] > 0.95 * numbers["first_request"]["ideal_ttft_s"]
    text = succeed("plx_box", scenario, "--explain").stdout
    assert "8030261248 parameters" in text


def test_many_questions_have_the_answers_of_one_each(tmp_path):
    scenario = tiny(tmp_path)
    every = [["workload.prefill.tp=2"], ["workload.prefill.tp=3"], ["workload.prefill.tp=4", "workload.chunk_tokens=256"], [],
             ["workload.prefill.tp=2", "machine.groups.prefill.servers=4000000"]]
    (tmp_path / "questions").write_text("".join("\t".join(settings) + "\n" for settings in every))
    answers = [json.loads(line) for line in succeed("plx_box", scenario, "--explain-each", tmp_path / "questions").stdout.splitlines()]
    assert len(answers) == len(every)
    for settings, answer in zip(every, answers):
        alone = run("plx_box", scenario, "--explain", "--json", *(word for setting in settings for word in ("--set", setting)))
        assert answer == (json.loads(alone.stdout) if alone.returncode == 0 else {"error": alone.stderr.rstrip("\n")})
    assert ["error" in answer for answer in answers] == [False, True, False, False, True]


# -- what it refuses

BAD_FILES = {
    "unknown key": (TINY.replace("chunk_tokens", "chunk_tokns"), 
                    r"s\.yaml:5:3: error: workload\.chunk_tokns: unknown key \(did you mean 'chunk_tokens'\?\)"),
    "wrong unit": (TINY.replace("chunk_tokens", "chunk_bytes"), r"s\.yaml:5:3: error: workload\.chunk_bytes: .*'chunk_tokens'"),
    "wrong type": (TINY.replace("tp: 2, pp: 2}\n  decode", "tp: two, pp: 2}\n  decode"),
                   r"s\.yaml:7:\d+: error: workload\.prefill\.tp: "),
    "out of range": (TINY.replace("chunk_tokens: 256", "chunk_tokens: 0"), r"s\.yaml:5:\d+: error: workload\.chunk_tokens: "),
    "a unit in the value": (TINY.replace("chunk_tokens: 256", "chunk_tokens: 256us"),
                            r"s\.yaml:5:\d+: error: workload\.chunk_tokens: "),
    "a duplicate key": (TINY + "  chunk_tokens: 128\n", r"s\.yaml:9:\d+: error: .*chunk_tokens.*"),
    "nothing": ("", r"s\.yaml:1:1: error: "),
    "no YAML": ("{[\n", r"s\.yaml:\d+:\d+: error: "),
    "a bomb": ("a: &a [x, x, x, x, x, x, x, x, x]\n"
               + "".join(f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi")),
               r"s\.yaml:\d+:\d+: error: "),
    "no model": (TINY.replace("tests/models/tiny.json", "tests/models/none.json"), r"s\.yaml:1:\d+: error: .*none\.json"),
    "the wrong platform": ("platform: dgx_h100\n" + TINY, r"s\.yaml:1:\d+: error: platform: .*dgx_h100"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_wrong_file_is_refused_with_its_place(what, tmp_path):
    text, pattern = BAD_FILES[what]
    (tmp_path / "s.yaml").write_text(text)
    assert re.match(pattern, refusal("plx_box", "s.yaml", "--out", "out", cwd=tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["s.yaml"]


def test_a_missing_file(tmp_path):
    assert refusal("plx_box", "none.yaml", cwd=tmp_path).startswith("none.yaml:1:1: error: cannot read 'none.yaml'")


BAD_SETS = {
    "workload.prefil.tp=2": r"unknown key \(did you mean 'prefill'\?\)",
    "workload.prefill.tp=3": r"workload\.prefill\.tp: 3 does not divide the 8 attention heads of tiny",
    "workload.prefill.pp=7": r"workload\.prefill\.pp: 7 is more than the 6 layers of tiny",
    "workload.prefill={tp: 4, pp: 3}": r"12",
    "workload.prefill.tp": r".",
    "machine.groups.prefill.gpu=L40": r"L40S",
    "fabric.transaction_bytes=big": r"fabric\.transaction_bytes: ",
}


@pytest.mark.parametrize("option", BAD_SETS)
def test_a_wrong_option_is_cited(option, tmp_path):
    line = refusal("plx_box", tiny(tmp_path), "--set", option)
    assert line.startswith(f"--set {option}") or option.split("=")[0] in line
    assert re.search(BAD_SETS[option], line), line


@pytest.mark.parametrize("arguments", [
    [], ["--bogus"], ["s.yaml", "--vcd"], ["s.yaml", "--jobs", "some"], ["s.yaml", "--vcd-level", "all"],
    ["s.yaml", "--vcd", "--out", "o", "--vcd-window", "5,1"], ["s.yaml", "--vcd", "--out", "o", "--vcd-window", "x"]])
def test_a_wrong_command_line(arguments, tmp_path):
    tiny(tmp_path).rename(tmp_path / "s.yaml")
    assert refusal("plx_box", *arguments, cwd=tmp_path).startswith("plx_box: error: ")
    assert sorted(os.listdir(tmp_path)) == ["s.yaml"]


def test_a_choice_names_its_words(tmp_path):
    assert "'some' is unknown; accepted: all, stage, none" in refusal("plx_box", tiny(tmp_path), "--jobs", "some")


def test_memory_exceeded_says_by_how_much_and_what_fits(tmp_path):
    scenario = ROOT / "scenarios" / "disagg_llama3_70b_plx.yaml"
    line = refusal("plx_box", scenario, "--set", "workload.prefill={tp: 1, pp: 1}", "--check")
    need, limit, excess = (float(re.search(pattern, line).group(1)) for pattern in
                           [r"needs ([\d.]+) GB", r"of ([\d.]+) GB \(", r"([\d.]+) GB too much"])
    assert need - limit == pytest.approx(excess, abs=0.02)
    tp, pp = re.search(r"\(tp (\d+), pp (\d+)\)", line).groups()
    succeed("plx_box", scenario, "--set", f"workload.prefill={{tp: {tp}, pp: {pp}}}", "--check")
    # A cache that is too long for what is left beside the weights.
    line = refusal("plx_box", tiny(tmp_path), "--set", "workload.requests.prompt_tokens=16000000", "--check")
    assert "too much" in line
    fits = int(re.search(r"(\d+) tokens", line).group(1))
    assert 0 < fits < 16_000_000


@pytest.mark.parametrize("sets, why", [
    ({"machine.network": "{kind: single_switch}"}, "2048 NICs need more than the 64 ports of one qm9700; use kind: leaf_spine"),
    ({"machine.groups.prefill.servers": 129}, "2056 NICs need 72 leaf switches of type qm9700, but a spine has 64 ports; two tiers connect at most 2048 NICs; use tiers: 3"),
    ({"machine.network.spines": 40}, "40 spines are too many; a leaf of type qm9700 has 32 ports to spines")])
def test_a_network_that_cannot_be_cabled_is_refused(sets, why):
    refused = refusal("dgx_h100", *largest_network(sets), "--check")
    assert refused.endswith("machine.network: " + why)


def test_the_largest_network_of_two_tiers_can_be_cabled():
    succeed("dgx_h100", *largest_network({}), "--check")


@pytest.mark.parametrize("platform, gpu, nics", [
    ("dgx_a100", None, "8 x connectx6_hdr in each server, 200 Gb/s"), ("dgx_h100", None, "8 x connectx7_ndr in each server, 400 Gb/s"),
    ("dgx_b200", "B300-SXM-270GB", "8 x connectx8_xdr in each server, 800 Gb/s"), ("gb200_nvl72", None, "72 x connectx7_ndr in each server, 400 Gb/s"),
    ("gb200_nvl72", "GB300-278GB", "72 x connectx8_xdr in each server, 800 Gb/s")])
def test_a_network_that_is_not_named_is_shown_as_assumed(platform, gpu, nics, tmp_path):
    path = tmp_path / "scenario.yaml"
    group = {"servers": 2} | ({"gpu": gpu} if gpu else {})
    path.write_text(json.dumps({"schema_version": 1, "platform": platform, "machine": {"groups": {"node": group}},
                                "workload": {"kind": "collective", "op": "all_reduce", "ranks": 2, "sizes_bytes": [4096]}}))
    text = succeed(platform, path, "--out", tmp_path / "out").stdout
    assumed = summary(tmp_path / "out")["assumed"]
    assert [each["key"] for each in assumed] == ["machine.nic"] and assumed[0]["value"].startswith(nics) and assumed[0]["source"]
    assert f"  assumed machine.nic: {nics}" in text and "assumed machine.nic" in succeed(platform, path, "--describe").stdout
    for named in ("machine.nic.datasheet=connectx6_hdr", "machine.groups.node.servers=1"):
        succeed(platform, path, "--out", tmp_path / "named", "--quiet", "--set", named)
        assert "assumed" not in summary(tmp_path / "named")


def largest_network(sets):
    keys = {"machine.groups.prefill.servers": 128, "machine.groups.decode.servers": 128} | sets
    return ROOT / "scenarios" / "dgx_h100_rail_optimized.yaml", *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))


def test_a_trace_error_cites_the_traces_line(tmp_path):
    (tmp_path / "t.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
                                    "2023-11-16 18:15:50.9951690,many,109\n")
    scenario = tiny(tmp_path, TINY.replace("{count: 1, prompt_tokens: 700}", "{format: azure, file: t.csv}"))
    assert re.match(r".*t\.csv:3:\d+: error: ", refusal("plx_box", scenario))


# -- every model and GPU that is shipped

@pytest.mark.parametrize("model", sorted(path.stem for path in (ROOT / "scenarios" / "models").glob("*.json")))
def test_every_shipped_model_runs(model, tmp_path):
    config = json.loads((ROOT / "scenarios" / "models" / f"{model}.json").read_text())
    heads = next(config[key] for key in ("num_attention_heads", "n_heads", "n_head") if key in config)
    dtype = "bf16" if "quantization_config" in config else "fp8"  # narrow in either case
    text = f"""\
model: {{config: {ROOT}/scenarios/models/{model}.json, dtype: {dtype}}}
machine: {{groups: {{prefill: {{servers: 2}}, decode: {{servers: 2}}}}}}
fabric: {{transaction_bytes: 65536}}
workload:
  kind: disaggregated_prefill
  requests: {{prompt_tokens: 256}}
  prefill: {{tp: {8 if heads % 8 == 0 else 4}, pp: 2}}
  decode: {{tp: 4, pp: 4, steps: 1}}
"""
    succeed("dgx_h100", tiny(tmp_path, text), "--out", tmp_path / "out", "--quiet", "--jobs", "none")
    result = summary(tmp_path / "out")
    assert result["model"] == model and result["complete"] is True
    assert result["metrics"]["ttft_s"] > 0


SHEETS = ROOT / "platforms" / "datasheets"
MACHINES = {"pcie": "plx_box", "sxm2": "dgx_a100", "sxm4": "dgx_a100", "sxm5": "dgx_h100", "sxm6": "dgx_b200", "grace_blackwell": "gb200_nvl72"}


@pytest.mark.parametrize("gpu", sorted(path.stem for path in (SHEETS / "gpus").glob("*.yaml")))
def test_every_shipped_gpu_runs_on_a_machine_that_holds_it_and_its_kernels_anywhere(gpu, tmp_path):
    form = yaml.safe_load((SHEETS / "gpus" / f"{gpu}.yaml").read_text())["form"]
    kernels = tmp_path / "kernels.yaml"
    kernels.write_text(f"machine: {{groups: {{node: {{gpu: {gpu}}}}}}}\nworkload: {{kind: kernel, kernels: [{{op: gemm, m: 16, n: 512, k: 512, dtype: fp16}}]}}\n")
    succeed("plx_box", kernels, "--quiet")
    if form not in MACHINES:
        return
    options = [option for group in ("prefill", "decode") for option in ("--set", f"machine.groups.{group}.gpu={gpu}")]
    succeed(MACHINES[form], tiny(tmp_path), "--out", tmp_path / "out", "--quiet", "--set", "model.dtype=fp16", *options)  # which all of them know
    result = summary(tmp_path / "out")
    assert set(result["calibration"]) == {gpu} and result["complete"] is True


# -- what it leaves

def test_out_replaces_a_run_and_nothing_else(tmp_path):
    scenario, out = tiny(tmp_path), tmp_path / "deep" / "out"
    succeed("plx_box", scenario, "--out", out, "--quiet")
    (out / "old").write_text("of the run before")
    succeed("plx_box", scenario, "--out", f"{out}/", "--quiet", "--jobs", "none")
    assert sorted(os.listdir(out)) == ["command.txt", "links.csv", "machine.json", "requests.csv", "scenario.yaml", "summary.json"]
    assert os.listdir(out.parent) == ["out"]  # no working directory is left
    # A scenario that is refused leaves what was there.
    before = summary(out)
    refusal("plx_box", scenario, "--out", out, "--set", "workload.prefill.tp=3")
    assert summary(out) == before
    refusal("plx_box", scenario, "--out", out, "--set", "workload.requests.prompt_tokens=16000000")
    assert summary(out) == before and os.listdir(out.parent) == ["out"]


def test_out_refuses_what_is_not_a_run(tmp_path):
    scenario = tiny(tmp_path)
    foreign = tmp_path / "home"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    assert "not the output of a run" in refusal("plx_box", scenario, "--out", foreign)
    assert os.listdir(foreign) == ["thesis.tex"]
    assert "is not a directory" in refusal("plx_box", scenario, "--out", foreign / "thesis.tex")
    empty = tmp_path / "empty"
    empty.mkdir()
    succeed("plx_box", scenario, "--out", empty, "--quiet")
    assert (empty / "summary.json").exists()


def test_without_out_it_prints_only(tmp_path):
    scenario = tiny(tmp_path)
    result = succeed("plx_box", "tiny.yaml", cwd=tmp_path)
    assert result.stderr == ""
    for word in ["TTFT", "time to decode start", "TPOT", "tokens/s", "utilisation", "bubble fraction", "exposed",
                 "peak memory", "busiest links"]:
        assert word in result.stdout
    assert succeed("plx_box", "tiny.yaml", "--quiet", cwd=tmp_path).stdout == ""
    assert os.listdir(tmp_path) == [scenario.name]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_what_it_had(number, tmp_path):
    scenario = tiny(tmp_path, TINY.replace("count: 1", "count: 200000"))
    out = tmp_path / "out"
    process = subprocess.Popen([str(BIN / "plx_box"), str(scenario), "--out", str(out), "--jobs", "all"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    working = tmp_path / f"out.partial-{process.pid}"
    give_up = time.monotonic() + 60
    while not ((working / "jobs.csv").exists() and (working / "jobs.csv").stat().st_size > 200_000):
        assert process.poll() is None and time.monotonic() < give_up
        time.sleep(0.01)
    assert not out.exists()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert re.fullmatch(r"interrupted at [\d.]+ s: \d+ of 200000 requests done\n", errors)
    assert sorted(os.listdir(tmp_path)) == ["out", scenario.name]
    result = summary(out)
    assert result["complete"] is False and result["simulator"]["interrupted"] is True
    done = result["metrics"]["requests"]
    assert 0 < done < 200_000
    assert len((out / "requests.csv").read_text().splitlines()) == 1 + done
    jobs = (out / "jobs.csv").read_text()
    assert jobs.endswith("\n") and all(line.count(",") == 6 for line in jobs.splitlines())
    # It may be run again in place.
    succeed("plx_box", scenario, "--out", out, "--set", "workload.requests.count=1", "--quiet")
    assert summary(out)["complete"] is True


def test_a_reader_of_the_table_that_goes_leaves_the_files_whole(tmp_path):
    scenario = tiny(tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run([str(BIN / "plx_box"), str(scenario), "--out", str(tmp_path / "out")], stdout=writer, stderr=subprocess.PIPE, timeout=120)
    finally:
        os.close(writer)
    assert result.returncode == 0, result.stderr
    assert sorted(os.listdir(tmp_path)) == ["out", scenario.name]
    assert summary(tmp_path / "out")["complete"] is True


# -- events

def test_an_event_of_an_unknown_link_is_refused(tmp_path):
    wrong = 'events=[{at_us: 1, link: "IB_Cable_P[9]", fail: true}]'
    for more in [[], ["--check"]]:
        line = refusal("plx_box", tiny(tmp_path), "--set", wrong, *more)
        assert "events.0.link: no link 'IB_Cable_P[9]'" in line and "(did you mean 'IB_Cable_P[" in line


def test_what_cannot_be_delivered_ends_the_run_and_is_named(tmp_path):
    events = 'events=[{at_us: 1, link: "IB_Cable_P[0]", fail: true}, {at_us: 2, link: "IB_Cable_P[1]", fail: true}]'
    result = run("plx_box", tiny(tmp_path), "--set", events, "--out", tmp_path / "out")
    assert result.returncode == 3
    assert re.search(r"Handoff_PP\[\d\]_TP\[\d\]_Chunk\[0\], \d+ bytes of kv from prefill0.gpu\d to decode0.gpu\d, cannot be delivered",
                     result.stderr)
    assert "IB_Cable_P[0] tx at 0.000001000 s" in result.stderr
    assert not summary(tmp_path / "out")["complete"]


# -- what the shipped comparisons show

def test_a_lane_of_its_own_for_the_handoff_frees_the_activations(tmp_path):
    runs = {}
    for name in ["shared", "own"]:
        succeed("dgx_h100", ROOT / "scenarios" / "kv_lane_comparison" / f"{name}.yaml", "--out", tmp_path / name, "--quiet")
        runs[name] = summary(tmp_path / name)
    traffic = {name: {row["class"]: row for row in run["traffic"]} for name, run in runs.items()}
    for traffic_class in ["tp", "pp", "kv"]:
        for key in ["messages", "bytes"]:
            assert traffic["own"][traffic_class][key] == traffic["shared"][traffic_class][key]
    alone = traffic["own"]["pp"]["mean_uncontended_s"]
    assert traffic["shared"]["pp"]["mean_actual_s"] > 1.5 * alone  # they wait behind the KV cache
    assert traffic["own"]["pp"]["mean_actual_s"] < 1.05 * alone    # for one packet of it at most
    assert runs["own"]["metrics"]["exposed_s"]["pp"] < runs["shared"]["metrics"]["exposed_s"]["pp"]
    assert runs["own"]["metrics"]["ttft_s"] < runs["shared"]["metrics"]["ttft_s"]


def test_gpus_of_different_trays_without_peer_access_use_their_nics(tmp_path):
    """A host memory serves the GPUs of its own tray."""
    (tmp_path / "s.yaml").write_text("workload: {kind: p2p, test: matrix, ranks: [0, 1, 4], p2p: false, copy_bytes: 1048576}\n")
    succeed("gb200_nvl72", tmp_path / "s.yaml", "--quiet", "--out", tmp_path / "out")
    carried = {row["name"]: int(row["bytes"]) for row in rows(tmp_path / "out" / "links.csv") if row["direction"] == "tx"}
    assert carried["IB_Cable_N[0]"] > 1048576 and carried["Host_Memory_N[0]"] > 1048576
    assert not any(carried[name] for name in carried if name.startswith("NVLink"))


@pytest.mark.parametrize("network, switches", [("{sharp: true}", ["ib0"]), ("{sharp: true, kind: leaf_spine, spines: 1}", ["leaf0", "spine0"])])
def test_switches_that_add_have_a_link_to_their_node(network, switches, tmp_path):
    text = f"machine: {{groups: {{node: {{servers: 2}}}}, network: {network}}}\nworkload: {{kind: collective, op: all_reduce, sizes_bytes: [1048576]}}\n"
    machine = json.loads(succeed("dgx_h100", tiny(tmp_path, text), "--describe", "--json").stdout)
    nodes = sorted(device["name"] for device in machine["devices"] if device["kind"] == "aggregation_node")
    assert nodes == [f"sharp_{name}" for name in switches]
    for name in switches:
        ends = {(link["direction"], link["from"], link["to"]) for link in machine["links"] if link["name"] == f"SHARP_{name}"}
        assert ends == {("tx", f"sharp_{name}.network", name), ("rx", f"{name}.sharp", f"sharp_{name}")}
    succeed("dgx_h100", tmp_path / "tiny.yaml", "--out", tmp_path / "out", "--quiet")
    with (tmp_path / "out" / "links.csv").open(newline="") as file:
        sums = [int(row["bytes"]) for row in csv.DictReader(file) if row["name"] == f"SHARP_{switches[0]}"]
    assert sums == [2 * 1048576] * 2  # of two servers, in and out


@pytest.mark.parametrize("platform, planes", [("dgx_a100", 6), ("dgx_h100", 4), ("dgx_b200", 2), ("gb200_nvl72", 18)])
def test_no_slowed_nvlink_carries_more_than_its_rate_in_fluid(platform, planes, tmp_path):
    """One plane stands in for all in fluid rates, unless a link of one is slower. Trains are the reference."""
    scenario = tmp_path / "s.yaml"
    scenario.write_text("workload: {kind: collective, op: all_to_all, algorithm: direct, ranks: 8, sizes_bytes: [8388608]}\n")
    slow = 'events=[{{at_us: 0, link: "NVLink_N[5]_Plane[{}]", rate_ratio: 0.1}}]'
    times = {}
    for fidelity, plane in (("train", planes - 1), ("fluid", planes - 1), ("fluid", 0)):
        out = tmp_path / f"{fidelity}{plane}"
        succeed(platform, scenario, "--out", out, "--quiet", "--set", f"fabric.fidelity={fidelity}", "--set", slow.format(plane))
        times[fidelity, plane] = float(rows(out / "collectives.csv")[0]["time_us"])
        assert all(float(link["utilisation"]) <= 1.0001 for link in rows(out / "links.csv"))
    assert times["fluid", planes - 1] == pytest.approx(times["train", planes - 1], rel=0.05)
    assert times["fluid", planes - 1] == pytest.approx(times["fluid", 0], rel=0.05)


@pytest.mark.parametrize("routing, fidelity, says", [("ecmp", "fluid", True), ("adaptive", "fluid", True), ("ecmp", "train", False),
                                                     ("deterministic", "fluid", False)])
def test_a_run_says_where_routing_has_no_effect(tmp_path, routing, fidelity, says):
    (tmp_path / "s.yaml").write_text("machine: {groups: {node: {servers: 4}}, nic: {per_server: 8}, network: {kind: leaf_spine, "
                                     f"routing: {routing}}}}}\nfabric: {{fidelity: {fidelity}}}\n"
                                     "workload: {kind: collective, op: all_gather, sizes_bytes: [65536]}\n")
    told = run("dgx_a100", tmp_path / "s.yaml", "--out", tmp_path / "out")
    assert told.returncode == 0 and ("machine.network.routing: messages on fluid links" in told.stderr) == says

"""The Python package: results are those of the command, errors are exceptions."""

import subprocess
import sys
import zipfile

import pytest

from platform_runs import BIN, ROOT, TINY, summary, tiny, run as run_platform

pytest.importorskip("yaml")
sys.path.insert(0, str(ROOT / "python"))
railyard = pytest.importorskip("railyard")

LAYER = {"platform": "dgx_h100", "model": {"config": f"{ROOT}/tests/models/tiny.json"}, "workload": {"kind": "layer", "phase": "prefill", "tp": 2, "tokens": 512}}


@pytest.fixture(autouse=True)
def of_this_build(monkeypatch, tmp_path):
    """The command with the executables under test."""
    script = tmp_path / "railyard-of-tests"
    script.write_text(f'#!/bin/sh\ncase $1 in run) shift; set -- run --bin "{BIN}" "$@" ;; load | plan) set -- "$@" --bin "{BIN}" ;; esac\nexec "{ROOT}/scripts/railyard" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("RAILYARD", str(script))


def test_a_run_has_the_results_of_the_executable(tmp_path):
    scenario = tiny(tmp_path, f"platform: dgx_a100\n{TINY}")
    assert run_platform("dgx_a100", scenario, "--quiet", "--out", tmp_path / "a", "--set", "workload.prefill.tp=4").returncode == 0
    result = railyard.run(scenario, out=tmp_path / "b", workload__prefill__tp=4)
    assert result.metrics == summary(tmp_path / "a")["metrics"] == railyard.read(tmp_path / "a").metrics
    assert "jobs" in result.tables and set(result.tables) == {path.stem for path in (tmp_path / "a").glob("*.csv")}
    rows = result.tables["links"]
    assert {"name", "bytes"} <= set(rows[0] if isinstance(rows, list) else rows.columns)


def test_a_result_keeps_its_directory_as_long_as_it_lives():
    result = railyard.run(LAYER, options=["--why"])
    folder = result.directory
    assert (folder / "why.json").exists() and result.metrics["layer_s"] > 0
    del result
    assert not folder.exists()


def test_a_sweep_runs_all_combinations_in_order():
    results = railyard.sweep(LAYER, {"workload.tp": [1, 2], "workload.tokens": [256, 512]}, workers=2, workload__phase="prefill")
    assert [tuple(result.sets.values()) for result in results] == [(1, 256), (1, 512), (2, 256), (2, 512)]
    assert results[1].metrics["kernels_s"] > results[0].metrics["kernels_s"] > results[2].metrics["kernels_s"]
    rows = railyard.table(results)
    rows = rows if isinstance(rows, list) else rows.to_dict("records")
    assert [row["workload.tp"] for row in rows] == [1, 1, 2, 2] and rows[0]["layer_s"] == results[0].metrics["layer_s"]
    assert any(name.startswith("time_s.") for name in rows[0])


def test_a_sweep_keeps_its_runs_in_numbered_folders(tmp_path):
    results = railyard.sweep(LAYER, {"workload.tokens": [256, 512]}, out=tmp_path, options=["--why"])
    assert [result.directory for result in results] == [tmp_path / "1", tmp_path / "2"]
    assert all((result.directory / "why.json").exists() for result in results)


def test_a_comparison_has_the_metrics_of_both_runs():
    short, long = (railyard.run(LAYER, workload__tokens=tokens) for tokens in (256, 512))
    rows = railyard.compare(short, long)
    rows = rows if isinstance(rows, list) else rows.to_dict("records")
    found = next(list(row.values())[1:] for row in rows if row["quantity"] == "layer_s")
    assert found == pytest.approx([short.metrics["layer_s"], long.metrics["layer_s"]])


def test_a_load_says_which_rates_keep_the_objectives(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(f"platform: dgx_h100\nmodel: {{config: {ROOT}/tests/models/tiny.json}}\nworkload: {{kind: serving, engine: vllm-0.19, instances: [{{name: a, tp: 1}}],"
                        " requests: {count: 100, arrivals: poisson, rate_per_s: 1, prompt_tokens: 100, output_tokens: 5}}\n")
    found = railyard.load(scenario, {"ttft_s": 10}, rates=[2], options=["--seeds", "1", "--workers", "1"])
    assert [(load["rate_per_s"], load["verdict"]) for load in found["loads"]] == [(2, "holds")]


def test_a_plan_lists_its_mappings(tmp_path):
    options = ["--model", ROOT / "tests" / "models" / "tiny.json", "--platform", "dgx_h100", "--nodes", 1, "--batch", 8, "--seq", 512, "--top", 1,
               "--fix", "tp=2", "--fix", "pp=1", "--fix", "micro_batch=1", "--no-what-if"]
    rows = railyard.plan(options, out=tmp_path / "plan")
    rows = rows if isinstance(rows, list) else rows.to_dict("records")
    assert rows and (tmp_path / "plan" / "decision.md").exists()


def test_errors_are_exceptions_with_the_line_of_the_command():
    with pytest.raises(railyard.InputError, match=r"workload\.tp: .*"):
        railyard.run(LAYER, workload__tp=3)
    with pytest.raises(railyard.InputError, match="did you mean 'layers/decode'"):
        railyard.run("layers/decod")


def test_shipped_files_are_found_by_name(monkeypatch):
    monkeypatch.setenv("RAILYARD", str(ROOT / "scripts" / "railyard"))
    assert railyard.shipped("models/llama-3.1-8b.json").is_file()
    with pytest.raises(FileNotFoundError, match="did you mean 'models/llama-3.1-8b.json'"):
        railyard.shipped("models/llama-3.1-8x.json")


def test_the_wheel_has_the_package_and_needs_nothing(tmp_path):
    """Built as pip builds it, without pip."""
    command = [sys.executable, "-B", "-c", f"import backend; print(backend.build_wheel({str(tmp_path)!r}))"]
    name = subprocess.run(command, cwd=ROOT / "python", capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run([sys.executable, "-m", "zipfile", "-t", tmp_path / name], check=True, capture_output=True)
    with zipfile.ZipFile(tmp_path / name) as wheel:
        names = wheel.namelist()
        record = wheel.read(next(entry for entry in names if entry.endswith("/RECORD"))).decode()
    assert {f"railyard/{path.name}" for path in (ROOT / "python" / "railyard").glob("*.py")} <= set(names)
    assert [line.split(",")[0] for line in record.splitlines()] == names

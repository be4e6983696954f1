"""The trace generator: its two formats, its statistics, its determinism, and the traces that are shipped."""

import csv
import datetime
import json
import pathlib
import re
import statistics
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = PROJECT / "scripts" / "make_trace.py"


def run(*options):
    return subprocess.run([str(SCRIPT), *map(str, options)], capture_output=True, text=True, check=False)


def make(path, trace_format, count, **options):
    arguments = ["--format", trace_format, "--count", count, "--out", path]
    for name, value in options.items():
        arguments += ["--" + name.replace("_", "-"), value]
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return path.read_text()


def azure_rows(text):
    """(arrival in units of 100 ns, prompt tokens, output tokens) of each row."""
    rows = []
    for row in csv.DictReader(text.splitlines()):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{7}", row["TIMESTAMP"])
        whole, ticks = row["TIMESTAMP"].split(".")
        since = datetime.datetime.strptime(whole, "%Y-%m-%d %H:%M:%S") - datetime.datetime(2024, 1, 1)
        assert since.microseconds == 0
        seconds = since.days * 86400 + since.seconds
        rows.append((seconds * 10_000_000 + int(ticks), int(row["ContextTokens"]), int(row["GeneratedTokens"])))
    return rows


def gaps(rows):
    return [later[0] - sooner[0] for sooner, later in zip(rows, rows[1:])]


def test_azure_rows_are_well_formed_and_in_order(tmp_path):
    text = make(tmp_path / "t.csv", "azure", 500)
    assert text.splitlines()[0] == "TIMESTAMP,ContextTokens,GeneratedTokens"
    rows = azure_rows(text)
    assert len(rows) == 500
    assert rows[0][0] == 0
    assert min(gaps(rows)) >= 0
    assert all(prompt >= 1 and output >= 1 for _, prompt, output in rows)


def test_mooncake_rows_name_each_block_of_512_tokens_once(tmp_path):
    text = make(tmp_path / "t.jsonl", "mooncake", 300, prompt_mean_tokens=3000)
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) == 300
    assert all(list(row) == ["timestamp", "input_length", "output_length", "hash_ids"] for row in rows)
    assert all(row["input_length"] <= 512 * len(row["hash_ids"]) < row["input_length"] + 512 for row in rows)
    blocks = [block for row in rows for block in row["hash_ids"]]
    assert len(blocks) == len(set(blocks))
    assert rows[0]["timestamp"] == 0
    times = [row["timestamp"] for row in rows]
    assert times == sorted(times)


def test_both_formats_tell_of_the_same_requests(tmp_path):
    azure = azure_rows(make(tmp_path / "t.csv", "azure", 50, seed=5))
    mooncake = [json.loads(line) for line in make(tmp_path / "t.jsonl", "mooncake", 50, seed=5).splitlines()]
    assert [row[1:] for row in azure] == [(row["input_length"], row["output_length"]) for row in mooncake]
    assert all(abs(a[0] / 10_000 - m["timestamp"]) <= 0.5001 for a, m in zip(azure, mooncake))


@pytest.mark.parametrize("arrival_cv", [0.5, 1.0, 3.0])
def test_statistics_are_those_asked_for(tmp_path, arrival_cv):
    rows = azure_rows(
        make(
            tmp_path / "t.csv",
            "azure",
            20000,
            rate_per_s=4,
            arrival_cv=arrival_cv,
            prompt_mean_tokens=2000,
            output_mean_tokens=150,
            length_cv=0.5,
        )
    )
    # Standard errors at 20000 rows: 2.1 % of the mean gap at a spread of 3, 0.4 % of the mean length.
    between = gaps(rows)
    assert statistics.fmean(between) == pytest.approx(10_000_000 / 4, rel=0.07)
    assert statistics.pstdev(between) / statistics.fmean(between) == pytest.approx(arrival_cv, rel=0.1)
    prompts = [prompt for _, prompt, _ in rows]
    outputs = [output for _, _, output in rows]
    assert statistics.fmean(prompts) == pytest.approx(2000, rel=0.02)
    assert statistics.pstdev(prompts) / 2000 == pytest.approx(0.5, rel=0.05)
    assert statistics.fmean(outputs) == pytest.approx(150, rel=0.02)


def test_the_seed_decides_the_bytes(tmp_path):
    first = make(tmp_path / "a.csv", "azure", 100, seed=3)
    assert make(tmp_path / "b.csv", "azure", 100, seed=3) == first
    assert make(tmp_path / "c.csv", "azure", 100, seed=4) != first


@pytest.mark.parametrize(
    "option, value, wanted",
    [
        ("--count", "0", "from 1 to"),
        ("--rate-per-s", "nan", "from 0.001 to"),
        ("--rate-per-s", "fast", "from 0.001 to"),
        ("--prompt-mean-tokens", "-5", "from 1 to"),
        ("--format", "vidur", "choose from 'azure', 'mooncake'"),
        ("--burst", "1", "unrecognized arguments: --burst 1"),
        ("--promt-mean-tokens", "1", "--promt-mean-tokens 1 (did you mean '--prompt-mean-tokens'?)"),
    ],
)
def test_bad_options_are_refused_in_one_line_and_write_nothing(tmp_path, option, value, wanted):
    path = tmp_path / "t.csv"
    done = run("--format", "azure", "--count", "5", "--out", path, option, value)
    assert done.returncode == 2
    assert done.stderr.startswith("make_trace.py: error: ")
    assert done.stderr.count("\n") == 1
    assert wanted in done.stderr
    assert not path.exists()


def test_an_unwritable_file_is_named(tmp_path):
    path = tmp_path / "none" / "t.csv"
    done = run("--format", "azure", "--count", "5", "--out", path)
    assert (done.returncode, done.stderr) == (2, f"make_trace.py: error: {path}: No such file or directory\n")


@pytest.mark.parametrize(
    "name, trace_format, options",
    [
        ("synthetic_azure.csv", "azure", {"count": 200, "rate_per_s": 1, "prompt_mean_tokens": 1024, "output_mean_tokens": 200}),
        (
            "synthetic_mooncake.jsonl",
            "mooncake",
            {"count": 100, "rate_per_s": 0.5, "prompt_mean_tokens": 8192, "output_mean_tokens": 350},
        ),
    ],
)
def test_shipped_traces_are_what_the_script_makes(tmp_path, name, trace_format, options):
    assert make(tmp_path / name, trace_format, **options) == (PROJECT / "scenarios" / "traces" / name).read_text()

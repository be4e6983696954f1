"""Validation: the figures, the tables it reads, how every row is accounted for, and what it prints and writes."""

import csv
import json
import math
import signal
import stat
import subprocess
import time
import xml.etree.ElementTree

import pytest

from scripts_inside import ROOT, call

from validation import CLASSES, comparison, experiment, figures, report, rows  # noqa: E402

FABRIC = CLASSES["fabric"]
SCRIPT = ROOT / "scripts" / "validate.py"

COLLECTIVE = {"id": "X-1", "category": "1-collectives", "system": "h100_sxm", "device": "NVIDIA H100 80GB HBM3", "n_gpus": "8",
              "nodes": "1", "fabric": "NVSwitch3/NVLink4 900GB/s", "op": "all_reduce", "bytes": "1048576", "library": "NCCL 2.29.2",
              "metric": "time", "value": "25.4", "unit": "us"}


# --- figures

def test_figures_by_hand():
    # errors: +0.1, -0.2, +1.0, 0; |error| sorted: 0, 0.1, 0.2, 1.0
    values = figures.figures([(110, 100), (8, 10), (2, 1), (5, 5)])
    assert values["median_abs_err"] == pytest.approx(0.15)
    assert values["p90_abs_err"] == pytest.approx(0.2 + 0.7 * 0.8)
    assert values["mean_abs_ln_err"] == pytest.approx((math.log(1.1) + math.log(1.25) + math.log(2)) / 4)
    assert values["bias"] == pytest.approx(0.225)
    assert figures.figures([(3, 4)]) == pytest.approx({"median_abs_err": 0.25, "p90_abs_err": 0.25, "mean_abs_ln_err": math.log(4 / 3), "bias": -0.25})
    assert set(figures.figures([]).values()) == {None}


@pytest.mark.parametrize("size, name", [(65536, "<=64KiB"), (65537, "<=4MiB"), (4 << 20, "<=4MiB"), ((4 << 20) + 1, ">4MiB"), (None, "no size")])
def test_size_classes(size, name):
    assert experiment.size_class(size) == name


# --- tables

def write_table(path, *records):
    columns = list(dict.fromkeys(key for record in records for key in record))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return path


@pytest.mark.parametrize("content, message", [
    ("", ":1:1: error: no header"),
    ("id,system,metric,value,unit\n", ":1:1: error: no column 'category'"),
    ("id,category,system,metric,value,unit,id\n", ":1:1: error: column 'id' twice"),
    ("id,category,system,metric,value,unit\na,b,c,d,1\n", ":2:5: error: 5 cells; expected 6"),
    ('id,category,system,metric,value,unit\n"a"b,b,c,d,1,us\n', ":2:1: error: ',' expected after '\"'"),
])
def test_malformed_tables_are_one_line(tmp_path, content, message):
    table = tmp_path / "table.csv"
    table.write_text(content)
    result = validate("--rows", table)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"{table}{message}")


def test_unreadable_tables(tmp_path):
    for path, what in ((tmp_path / "none.csv", "No such file"), (tmp_path / "latin.csv", "is not UTF-8")):
        if path.name == "latin.csv":
            path.write_bytes(b"id,category\n\xff\n")
        result = validate("--rows", path)
        assert (result.returncode, result.stderr.count("\n")) == (2, 1)
        assert what in result.stderr


def test_shipped_tables_are_accounted_for():
    for table in FABRIC.TABLES:
        read = rows.read(str(ROOT / "validation" / table))
        outcomes = comparison.map_rows(FABRIC, read)
        comparison.assign_points(FABRIC, outcomes)
        assert all(bool(one.skipped) != bool(one.point) for one in outcomes), table
        assert not [one.skipped for one in outcomes if one.skipped.startswith("the rule failed")], table
        assert all(one.row["source"] for one in outcomes), table
        assert sum(not one.skipped for one in outcomes) > sum(not one.set_aside for one in outcomes) / 3, table


# --- whole runs, of an executable whose collectives take a microsecond and a nanosecond a byte

EXECUTABLE = """#!/usr/bin/python3
import json, os, sys
scenario = json.load(open(sys.argv[1]))
workload = scenario["workload"]
if workload["op"] == "broadcast":
    sys.exit(print(f"{os.path.abspath(sys.argv[1])}:1:1: error: no broadcast; give another op", file=sys.stderr) or 2)
os.mkdir("out")
times = {size: 1e-6 + size * 1e-9 for size in workload["sizes_bytes"]}
json.dump({"metrics": {"time_s": times}}, open("out/summary.json", "w"))
with open("out/collectives.csv", "w") as table:
    for line in ["bytes,algorithm,protocol,channels"] + [f"{size},ring,ll,24" for size in times]:
        print(line, file=table)
"""


@pytest.fixture(name="binaries")
def fixture_binaries(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    executable = folder / "dgx_h100"
    executable.write_text(EXECUTABLE)
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return folder


def records():
    return [
        COLLECTIVE | {"id": "right", "bytes": "1000", "value": "2"},
        COLLECTIVE | {"id": "slow", "bytes": "3000", "value": "2"},  # predicted 4 us: error +1
        COLLECTIVE | {"id": "large", "bytes": "7000000", "value": "14002"},  # predicted 7001 us: error -0.5
        COLLECTIVE | {"id": "refused", "op": "broadcast"},
        COLLECTIVE | {"id": "alien", "system": "tpu", "device": ""},
        COLLECTIVE | {"id": "else", "category": "4-training"},
        COLLECTIVE | {"id": "zero", "value": "0"},
        COLLECTIVE | {"id": "board", "system": "a100_sxm", "device": ""},
        COLLECTIVE | {"id": "wire", "bytes": "8000000", "value": "1"},  # 8 TB/s
    ]


def validate(*arguments, cwd=None):
    return call("validate", "fabric", *arguments, cwd=cwd)


def test_json_counts_every_row(tmp_path, binaries):
    table = write_table(tmp_path / "table.csv", *records())
    result = validate("--rows", table, "--json", "--bin", binaries)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert list(told) == ["class", "rows", "set_aside", "skipped", "coverage", "median_abs_err", "p90_abs_err", "mean_abs_ln_err", "bias", "groups"]
    assert (told["class"], told["rows"], told["set_aside"], told["skipped"]) == ("fabric", 3, 1, 5)
    assert told["median_abs_err"] == pytest.approx(0.5)
    assert told["bias"] == pytest.approx(0.5 / 3)
    assert [(group["name"], group["rows"]) for group in told["groups"]] == [("h100_sxm/all_reduce/<=64KiB", 2), ("h100_sxm/all_reduce/>4MiB", 1)]
    assert list(told["groups"][0]) == ["name", "rows", "median_abs_err", "p90_abs_err", "mean_abs_ln_err", "bias"]
    assert told["groups"][0]["median_abs_err"] == pytest.approx(0.5)


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_out_holds_rows_plot_digest_and_runs(tmp_path, binaries):
    table = write_table(tmp_path / "table.csv", *records())
    out = tmp_path / "out"
    assert validate("--rows", table, "--out", out, "--bin", binaries).returncode == 0
    written = {line["id"]: line for line in read_csv(out / "rows.csv")}
    assert len(written) == len(records())
    assert {name: float(written[name]["error"]) for name in ("right", "slow", "large")} == pytest.approx({"right": 0, "slow": 1, "large": -0.5})
    assert json.loads((out / written["slow"]["scenario"]).read_text())["workload"]["sizes_bytes"] == [1000, 3000, 7000000]
    assert (written["slow"]["n_gpus"], written["slow"]["bytes"], written["slow"]["chosen"]) == ("8", "3000", "ring ll x24")
    assert written["refused"]["skip_reason"] == "the run failed: scenario.yaml:1:1: error: no broadcast; give another op"
    assert written["board"]["skip_reason"].startswith("the run failed: ") and "no such executable" in written["board"]["skip_reason"]
    assert written["else"]["skip_reason"] == "belongs to another class: category '4-training'"
    assert written["zero"]["skip_reason"] == "measured value 0 is not positive"
    assert written["wire"]["skip_reason"].startswith("set aside: beyond the wire: ")
    digest = (out / "digest.md").read_text()
    assert "9 measured rows: 3 compared, 1 set aside, 5 skipped" in digest
    assert "](digest/fabric_errors.csv)" in digest and "](digest/fabric_reasons.csv)" in digest
    reasons = read_csv(out / "digest" / "fabric_reasons.csv")
    assert [(line["what"], line["rows"]) for line in reasons if line["reason"].startswith("beyond the wire: ")] == [("set aside", "1")]
    assert sum(int(line["rows"]) for line in reasons if line["what"] == "skipped") == 5
    errors = {(line["by"], line["name"]): line for line in read_csv(out / "digest" / "fabric_errors.csv")}
    assert errors["system, operation and size", "h100_sxm/all_reduce/<=64KiB"]["median_percent"] == "50.0"
    assert [errors["size", size]["rows"] for size in ("<=64KiB", ">4MiB")] == ["2", "1"]
    assert errors["system and operation", "h100_sxm/all_reduce"]["bias_percent"] == "16.7"
    assert sum(int(line["rows"]) for (by, _), line in errors.items() if by == "operation") == 3
    assert sum(int(line["rows"]) for (by, _), line in errors.items() if by == "system and GPUs") == 3
    figure = xml.etree.ElementTree.parse(out / "digest_fabric.svg").getroot()
    points = [part.get("d") for part in figure.iter("{http://www.w3.org/2000/svg}path") if part.get("class", "").startswith("points ")]
    assert "".join(points).count("M") == 3
    assert [text.text for text in figure.iterfind(".//*[@class='legend']/{http://www.w3.org/2000/svg}text")] == ["H100-SXM5-80GB"]


COUNTED = EXECUTABLE.replace("workload =", "open(os.environ['COUNT'], 'a').write('x'); workload =", 1)


def test_a_second_call_runs_only_what_is_missing(tmp_path, binaries, monkeypatch):
    (binaries / "dgx_h100").write_text(COUNTED)
    count = tmp_path / "count"
    monkeypatch.setenv("COUNT", str(count))
    table, out = write_table(tmp_path / "table.csv", *records()), tmp_path / "out"

    def rows_after(*options):
        assert validate("--rows", table, "--out", out, "--bin", binaries, *options).returncode == 0
        return (out / "rows.csv").read_text()

    first = rows_after()
    assert count.read_text() == "xx"  # all_reduce in one run, broadcast
    assert rows_after() == first and count.read_text() == "xx"
    assert rows_after("--retry-failed") == first and count.read_text() == "xxx"
    (binaries / "dgx_h100").write_text(COUNTED + "\n")
    assert rows_after() != first and count.read_text() == "xxxxx"  # the same figures below other ids


def test_rows_that_take_too_long_are_skipped(tmp_path, binaries):
    (binaries / "dgx_h100").write_text(EXECUTABLE.replace("import json", "import time, json").replace("os.mkdir", "time.sleep(60); os.mkdir"))
    table = write_table(tmp_path / "table.csv", records()[0], records()[3])
    result = validate("--rows", table, "--out", tmp_path / "out", "--bin", binaries, "--limit-s", 1)
    assert result.returncode == 0
    with open(tmp_path / "out" / "rows.csv", newline="", encoding="utf-8") as file:
        reasons = {line["id"]: line["skip_reason"] for line in csv.DictReader(file)}
    assert reasons["right"] == "longer than the limit of wall time, 1 s" and reasons["refused"].startswith("the run failed")


def test_only_the_rows_of_a_call_are_tried_again(tmp_path, binaries):
    table, out = write_table(tmp_path / "table.csv", records()[0], records()[3]), tmp_path / "out"
    (binaries / "dgx_h100").write_text(EXECUTABLE.replace("import json", "import sys; sys.exit('no')\nimport json"))
    call = ("--rows", table, "--out", out, "--bin", binaries)
    assert validate(*call).returncode == 0
    failed = {error.parent: error.stat().st_mtime_ns for error in out.glob("points/*/error.txt")}
    assert len(failed) > 1
    assert validate(*call, "--retry-failed", "--only", "*/broadcast*").returncode == 0
    again = {error.parent: error.stat().st_mtime_ns for error in out.glob("points/*/error.txt")}
    assert sum(again[folder] == when for folder, when in failed.items()) == len(failed) - 1


def test_an_interrupted_validation_keeps_rows_and_goes_on(tmp_path, binaries):
    slow, table, out = tmp_path / "slow", write_table(tmp_path / "table.csv", *records()[:1], COLLECTIVE | {"id": "two", "n_gpus": "4"}), tmp_path / "out"
    wait = f"while any(name[0] != '.' for name in os.listdir('..')) and os.path.exists({str(slow)!r}): time.sleep(0.05)\n"
    (binaries / "dgx_h100").write_text(EXECUTABLE.replace("import json", "import time, json").replace("os.mkdir", wait + "os.mkdir"))
    slow.touch()
    command = [SCRIPT, "fabric", "--rows", table, "--out", out, "--bin", binaries, "--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(out.glob("points/[!.]*/out")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "1 of 2 runs are missing; the same command goes on" in told
    with open(out / "rows.csv", newline="", encoding="utf-8") as file:
        assert sorted(line["skip_reason"] for line in csv.DictReader(file)) == ["", "not run: interrupted"]
    slow.unlink()
    again = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["rows"] == 2 and again.stderr.count("[") == 1


def test_digest_replaces_its_own_section(tmp_path, binaries):
    table = write_table(tmp_path / "table.csv", *records())
    page = tmp_path / "page.md"
    page.write_text("# Validation\n\nBefore.\n\n" + "<!-- fabric: generated by scripts/validate.py -->\nold\n<!-- fabric: end -->\n\nAfter.\n")
    assert validate("--rows", table, "--digest", page, "--bin", binaries).returncode == 0
    text = page.read_text()
    assert "old" not in text and text.startswith("# Validation\n\nBefore.\n") and text.endswith("After.\n")
    assert report.put_section(text, "gpu", "new").endswith("<!-- gpu: generated by scripts/validate.py -->\nnew\n<!-- gpu: end -->\n")


def test_filters(tmp_path, binaries):
    table = write_table(tmp_path / "table.csv", *records())
    told = json.loads(validate("--rows", table, "--json", "--bin", binaries, "--only", "h100_sxm/all_reduce/>").stdout)
    assert (told["rows"], told["skipped"]) == (1, 0)
    told = json.loads(validate("--rows", table, "--json", "--bin", binaries, "--where", "bytes=1000").stdout)
    assert (told["rows"], told["skipped"], told["bias"]) == (1, 0, pytest.approx(0))


def test_without_executables_nothing_is_compared(tmp_path):
    table = write_table(tmp_path / "table.csv", *records())
    result = validate("--rows", table, "--bin", tmp_path)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert f"no platform executables in {tmp_path}" in result.stderr


def test_usage_errors():
    for arguments in (["fabrics"], ["fabric", "--llmservingsim", "clone"], ["fabric", "--where", "n_gpus"], ["fabric", "--workers", "0"]):
        result = call("validate", *arguments)
        assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr

"""scripts/calibrate.py and the measuring scripts: families, a fit that finds known constants again, tables that fit reads."""

import csv
import importlib.util
import subprocess
import sys
from unittest import mock

import pytest

from scripts_inside import ROOT, call

BIN = ROOT / "build" / "bin"
SHEETS = ROOT / "platforms" / "datasheets" / "gpus"

numpy = pytest.importorskip("numpy")
pytest.importorskip("scipy")
from calibration import collectives, fit, kernels, left_out  # noqa: E402
from calibration.datasheet import CONSTANTS, Datasheet  # noqa: E402
from calibration.evaluate import Evaluator, Table  # noqa: E402
from lib import run_files  # noqa: E402
from validation import CLASSES, rows  # noqa: E402

needs_executable = pytest.mark.skipif(not (BIN / "plx_box").exists(), reason="no executables in build/bin")
COLUMNS = ("id", "category", "system", "phase", "dtype", "batch", "seq", "kv_len", "heads", "kv_heads", "head_dim", "library", "metric",
           "value", "unit")


def calibrate(*arguments):
    return call("calibrate", *arguments)


def decode_rows():
    """Kernels of decode attention over the sizes that tell its constants apart."""
    for batch in (1, 8, 64):
        for length in (256, 1024, 4096, 16384):
            for kv_heads in (1, 8):
                yield batch, length, kv_heads


def write_table(path, seconds, system="lab"):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for number, ((batch, length, kv_heads), value) in enumerate(zip(decode_rows(), seconds)):
            writer.writerow((f"T-{number}", "3-compute", system, "decode", "bf16", batch, 1, length, 8, kv_heads, 128, "torch", "time",
                             value * 1e6, "us"))


def test_followers_say_facts_and_what_is_their_own():
    sheets = {path.stem: Datasheet(path) for path in SHEETS.glob("*.yaml")}
    followers = [sheet for sheet in sheets.values() if "family" in sheet.values]
    assert len(followers) >= 15
    for sheet in followers:
        for key in filter(sheet.says, CONSTANTS):
            line = next(line for line in sheet.text.splitlines() if line.startswith(f"  {key.split('.')[1]}:"))
            assert len(line.partition("#")[2].strip()) > 5, f"{sheet.path.name}: {key}: why not the family's?"
    for sheet in sheets.values():
        assert ("family" in sheet.values) == (sheet.values["calibration"] != "measured"), sheet.path.name


def test_constants_of_measured_sheets_name_their_source_or_fit():
    """In the comment of the value, of its section, or of the sheet, which then names the fit and its rows."""
    unnamed = []
    for path in sorted(SHEETS.glob("*.yaml")):
        sheet = Datasheet(path)
        if sheet.values["calibration"] != "measured":
            continue
        lines = sheet.text.splitlines()
        head = " ".join(line for line in lines[:lines.index(next(line for line in lines if line.startswith("architecture:")))])
        named = "Calibrated constants" in head and "fit" in head
        for key in filter(sheet.says, CONSTANTS):
            section, name = key.split(".")
            own = next(line for line in lines if line.startswith(f"  {name}:"))
            of_section = next(line for line in lines if line.startswith(f"{section}:"))
            if not (own.partition("#")[2].strip() or of_section.partition("#")[2].strip() or named and section != "collective"):
                unnamed.append(f"{path.stem}: {key}")
    assert not unnamed


@needs_executable
def test_every_constant_comes_from_the_family(tmp_path):
    """The executable reads a sheet that says none of them, as it reads its family's."""
    base = Datasheet(SHEETS / "H100-SXM5-80GB.yaml")
    facts = base.copy(tmp_path / "facts.yaml")
    for key in CONSTANTS:
        facts.remove(key)
    facts.set_family("H100-SXM5-80GB")
    assert facts.get("kernel.split_k_us") == base.get("kernel.split_k_us") and not facts.says("kernel.split_k_us")
    kernels = [{"op": "gemm", "m": m, "n": 4096, "k": 4096, "dtype": "fp8"} for m in (1, 4096)]
    kernels += [{"op": "attention_prefill", "tokens": 512, "heads": 8, "kv_heads": 8, "head_dim": 128}, {"op": "copy", "bytes": 65536}]
    assert (Evaluator(facts, kernels, BIN, tmp_path).times([{}]) == Evaluator(base, kernels, BIN, tmp_path).times([{}])).all()


def test_a_family_beside_a_sheet_is_found_from_elsewhere(tmp_path):
    (tmp_path / "lab.yaml").write_text((SHEETS / "L40S.yaml").read_text())
    follower = Datasheet(SHEETS / "L20-48GB.yaml").copy(tmp_path / "follower.yaml")
    follower.set_family("lab.yaml")
    follower.write()
    read = Datasheet(tmp_path / "follower.yaml")
    assert read.values["family"] == str(tmp_path / "lab.yaml") and read.get("kernel.split_k_us") == read.family().get("kernel.split_k_us")


def test_editing_keeps_comments_and_order(tmp_path):
    sheet = Datasheet(SHEETS / "L40S.yaml").copy(tmp_path / "sheet.yaml")
    lines = sheet.text.splitlines()
    sheet.set("hbm.gemm_ratio", 0.70004)
    changed = [(a, b) for a, b in zip(lines, sheet.text.splitlines()) if a != b]
    assert len(lines) == len(sheet.text.splitlines()) and len(changed) == 1
    assert changed[0][1] == "  gemm_ratio: 0.7  # GEMM fit"


@needs_executable
def test_fit_finds_known_constants_again(tmp_path):
    truth = {"kernel.decode_attention_ratio": 0.7, "kernel.decode_attention_fixed_us": 5}
    kernels = [{"op": "attention_decode", "batch": batch, "context_tokens": length - 1, "heads": 8, "kv_heads": kv_heads,
                "head_dim": 128, "dtype": "bf16"} for batch, length, kv_heads in decode_rows()]
    start = Datasheet(SHEETS / "H100-SXM5-80GB.yaml")
    write_table(tmp_path / "rows.csv", Evaluator(start, kernels, BIN, tmp_path).times([truth])[0])
    out = tmp_path / "lab.yaml"
    done = calibrate("fit", tmp_path / "rows.csv", "--datasheet", "H100-SXM5-80GB", "--out", out)
    assert done.returncode == 0, done.stderr
    fitted = Datasheet(out)
    assert "# Calibrated constants: scripts/calibrate.py fit, rows.csv" in fitted.text
    for key in ("kernel.decode_attention_ratio", "kernel.decode_attention_fixed_us"):
        assert fitted.get(key) == pytest.approx(truth[key], rel=0.05), key
    pairs = fit.measured(rows.read(str(tmp_path / "rows.csv")), "lab", "H100-SXM5-80GB")["attention decode"]
    assert fit.mean_error("attention decode", start, pairs, BIN) > 0.1
    assert fit.mean_error("attention decode", fitted, pairs, BIN) < 0.02


@needs_executable
def test_fit_finds_the_constants_of_kernels_again(tmp_path):
    """Rows of a GPU with the shipped sheet of its kernels; the fit starts elsewhere."""
    table = [{"op": "attention_decode", "batch": batch, "context_tokens": length - 1, "heads": 8, "kv_heads": kv_heads, "head_dim": 128,
              "dtype": "bf16"} for batch, length, kv_heads in decode_rows()]
    seconds = Evaluator(Datasheet(SHEETS / "H100-SXM5-80GB.yaml"), table, BIN, tmp_path).times([{}])[0]
    write_table(tmp_path / "rows.csv", seconds, "h100_sxm")
    shipped = kernels.KernelSheet(kernels.SHEETS / "hopper.yaml")
    start = shipped.copy(tmp_path / "start.yaml")
    moved = {"decode.flash.read_ratio": 0.7, "decode.flash.block_us": 5, "decode.flash.fixed_ratio": 1.3}
    for key, value in moved.items():
        start.set(key, value)
    found, = kernels.fit(start, rows.read(str(tmp_path / "rows.csv")), ".*", 0, 1, BIN, evaluations=1)
    assert (found.group, found.rows, found.kept) == ("decode, flash", len(table), 0)
    assert found.before > 0.1 and found.after < 0.002
    for key in moved:
        assert start.get(key) == pytest.approx(shipped.get(key), rel=0.05), key


def test_every_gpu_has_a_sheet_of_kernels():
    sheets = {path.stem: kernels.sheet_of(path.stem) for path in SHEETS.glob("*.yaml")}
    assert set(sheets.values()) == {"warp", "hopper", "blackwell"}
    assert {sheets["V100-SXM2-32GB"], sheets["L40S"], sheets["RTX-5090"], sheets["MI300X"]} == {"warp"}
    assert sheets["GH200-96GB"] == "hopper" and sheets["GB300-278GB"] == "blackwell"


def test_a_sheet_of_kernels_is_edited_in_place(tmp_path):
    sheet = kernels.KernelSheet(kernels.SHEETS / "hopper.yaml").copy(tmp_path / "own.yaml")
    lines = sheet.text.splitlines()
    sheet.set("decode.masked.block_us", 0.70004)
    assert [b for a, b in zip(lines, sheet.text.splitlines(), strict=True) if a != b] == ["    block_us: 0.7"]
    assert sheet.constants_of("decode", sheet.kernels_of("decode", "cudnn")).keys() == {f"decode.cudnn.{name}" for name in kernels.FITTED["decode"]} - {"decode.cudnn.block_us"}
    with pytest.raises(run_files.Error, match=r"own.yaml: base: names no shipped sheet; accepted: [^\n]*hopper"):
        sheet.stands_for = "hooper"
        kernels.shipped_name(sheet)


def test_kept_out_shapes_are_whole_and_repeatable():
    pairs = [([{"op": "gemm", "m": m}], second) for m in range(50) for second in (1.0, 2.0)]
    fitted, kept = fit.split("attention decode", pairs, 0.4, 7)
    assert len(kept) == 40 and len(fitted) == 60
    assert not {str(k) for k, _ in fitted} & {str(k) for k, _ in kept}
    assert (fitted, kept) == fit.split("attention decode", pairs, 0.4, 7) != fit.split("attention decode", pairs, 0.4, 8)


def test_rows_tell_how_many_gpus_take_part():
    table = [row for row in rows.read(str(ROOT / "validation" / "nccl.csv")) if row["system"] == "a100_sxm" and row["op"] == "all_reduce"]
    pairs = collectives.measured(table, "a100_sxm")["nccl"]
    assert [left_out.gpus_of(pair) for pair in pairs] == [int(row["n_gpus"]) for row in table]


def test_a_row_is_the_sum_of_its_kernels():
    table = Table([([{"a": 1}, {"b": 1}], 3.0), ([{"b": 1}], 2.0)])
    assert table.errors(numpy.array([[1.0, 2.0]])) == pytest.approx(numpy.zeros((1, 2)))


def test_bad_input_is_one_line(tmp_path):
    done = calibrate("fit", tmp_path / "none.csv", "--datasheet", "H101", "--out", tmp_path / "x.yaml")
    assert done.returncode == 2 and "'H101' is neither a file nor one of A100" in done.stderr and len(done.stderr.splitlines()) == 1
    write_table(tmp_path / "few.csv", [1e-5] * 3)
    done = calibrate("fit", tmp_path / "few.csv", "--datasheet", "L40S", "--out", tmp_path / "x.yaml")
    assert done.returncode == 2 and "no 20 rows" in done.stderr and len(done.stderr.splitlines()) == 1
    for text in (b"\xff\xfe", b"[1]", b"a: [1", b"family: 3", b"sm: 3", b""):
        (tmp_path / "bad.yaml").write_bytes(text)
        with pytest.raises(run_files.Error, match=r"bad.yaml: [^\n]+$"):
            Datasheet(tmp_path / "bad.yaml")
    assert not (tmp_path / "x.yaml").exists()


def load_measure_gpu():
    spec = importlib.util.spec_from_file_location("measure_gpu", ROOT / "scripts" / "measure_gpu.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_measure_gpu_writes_is_what_the_fit_reads(tmp_path):
    module = load_measure_gpu()
    module.EXPERT_TOKENS = (1, 16)  # more takes seconds
    measurement = module.Measurement(mock.MagicMock(), 1)
    measurement.tensor = lambda *shape, dtype=None: mock.MagicMock()
    measurement.timed = lambda run: 1e-5
    measurement.in_graph = lambda work: work
    with mock.patch.dict(sys.modules, {"triton": mock.MagicMock(), "triton.language": mock.MagicMock()}):
        lines = list(module.lines_of(measurement, lambda tensor: None, mock.MagicMock(system="my_h100", parts=module.PARTS), "test"))
    with open(tmp_path / "gpu.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, module.COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({"id": f"G-{i}"} | line for i, line in enumerate(lines))
    table = rows.read(str(tmp_path / "gpu.csv"))
    for row in table:
        if not row["kind"].startswith(("matrix product beside", "copy by few blocks")) and not row["kind"].endswith("one scale a row"):
            CLASSES["gpu"].map_row(row)
    found = fit.measured(table, "my_h100", "H100-SXM5-80GB")
    assert set(found) == set(fit.GROUPS)
    assert found["gemm"][0][0][0]["weight_copies"] == module.ROTATED


@pytest.mark.parametrize("script, options", [("measure_gpu.py", ["--system", "x"]), ("measure_step_clock.py", [])])
def test_measuring_scripts_say_what_they_lack(tmp_path, script, options):
    done = subprocess.run([sys.executable, ROOT / "scripts" / script, *options, "--out", tmp_path / "x.csv"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:  # elsewhere there is a GPU
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "x.csv").exists()

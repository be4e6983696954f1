#!/usr/bin/python3
"""Fits a GPU datasheet's constants to measured kernels.

  scripts/calibrate.py fit ROWS.csv --datasheet H100-SXM5-80GB --system my_h100 --out my-h100.yaml
  scripts/calibrate.py fit validation/attention.csv --kernels hopper --out my-hopper.yaml
  scripts/calibrate.py step-clock --datasheet H100-SXM5-80GB --steps 'dgxc-benchmarking.*llama3.1 8b.*bf16'
  scripts/calibrate.py energy --datasheet H100-SXM5-80GB --models Llama --keep idle_w=120 hbm_pj_per_byte=115
  scripts/calibrate.py report docs/calibration.md
  scripts/calibrate.py left-out docs/fidelity.md

fit       ROWS are tables as in validation/ (gemm.csv, attention.csv, nccl.csv, custom_all_reduce.csv) or from scripts/measure_gpu.py. --system (a regular
          expression) selects the rows of one device. The fit starts from the constants of --datasheet, which is the name of a
          shipped datasheet or a file. Some shapes are held out to test the fit. --out is the new datasheet. Use it in a scenario:
          machine: {groups: {node: {gpu: my-h100.yaml}}}.
          With --kernels instead of --datasheet, the constants of attention kernels are fitted, to the rows of all GPUs that run them. A
          GPU's datasheet names the new sheet: kernels: my-hopper.yaml.
step-clock  Fits sm.step_clock_ratio, the clock in a whole training step, to published steps: those whose source, model and number format
          match --steps. Prints the errors of these and of all other steps on this GPU.
energy    Fits the constants of a GPU's energy to the power of full servers (validation/energy.csv) whose model matches --models. Prints the
          errors of these and of all other models on this GPU. --keep names constants that are known.
report    Fits the measured devices to 60 % of their shapes, predicts devices only by the family rule, and writes the errors of both.
left-out  Errors on devices and on numbers of GPUs that a fit has not seen, as sections of a page.
"""

import argparse
import math
import pathlib
import re
import statistics
import sys
from collections.abc import Sequence

from lib import run_files, written
from lib.command_line import BAD_INPUT, ROOT, Parser, reason_of

PROVENANCE = "# Calibrated constants: scripts/calibrate.py fit"

try:
    from calibration import energy, fit, kernels, left_out, report, step_clock
    from calibration.datasheet import SHEETS, Datasheet
    from calibration.evaluate import EvaluationError
    from validation import rows
    from validation.report import put_section
except ImportError as missing:
    sys.exit(f"calibrate.py: error: {missing}; it needs the Debian packages python3-yaml, python3-numpy and python3-scipy")


def ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number; accepted: 0 to less than 1")
    return value


def pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is not a regular expression: {error}") from error
    return text


def constant(text: str) -> tuple[str, float]:
    key, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = -1
    if key not in energy.KEYS or not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE; accepted: a number, 0 or more, for one of {', '.join(energy.KEYS)}")
    return key, value


def sheet_path(text: str, folder: pathlib.Path = SHEETS) -> pathlib.Path:
    for path in (folder / f"{text}.yaml", pathlib.Path(text)):
        if path.is_file():
            return path
    shipped = ", ".join(sorted(path.stem for path in folder.glob("*.yaml")))
    raise argparse.ArgumentTypeError(f"'{text}' is neither a file nor one of {shipped}")


def kernels_path(text: str) -> pathlib.Path:
    return sheet_path(text, kernels.SHEETS)


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    one = commands.add_parser("fit", help="fit a datasheet to measured rows")
    one.add_argument("rows", nargs="+", metavar="ROWS.csv", help="tables of measured rows")
    start = one.add_mutually_exclusive_group(required=True)
    start.add_argument("--datasheet", type=sheet_path, metavar="NAME|FILE", help="datasheet of a GPU with the initial constants")
    start.add_argument("--kernels", type=kernels_path, metavar="NAME|FILE",
                       help="sheet of kernels with the initial constants; a file stands for the shipped sheet that it names as its base")
    one.add_argument("--system", default=".*", type=pattern, metavar="REGEX", help="use only rows of matching systems (default: all)")
    one.add_argument("--out", required=True, type=pathlib.Path, metavar="FILE", help="file for the fitted datasheet")
    one.add_argument("--keep-out", default=0.4, type=ratio, metavar="RATIO", help="share of shapes held out for the test (default 0.4)")
    one.add_argument("--seed", default=1, type=int, metavar="N", help="seed for the choice of held-out shapes (default 1)")
    clock = commands.add_parser("step-clock", help="fit the clock in a whole training step")
    clock.add_argument("--datasheet", required=True, metavar="NAME", help="GPU of the steps")
    clock.add_argument("--steps", required=True, type=pattern, metavar="REGEX", help="fit to steps whose source, model and number format match")
    clock.add_argument("--limit-s", default=60, type=float, metavar="S", help="skip steps whose run takes longer (default 60)")
    power = commands.add_parser("energy", help="fit the constants of a GPU's energy")
    power.add_argument("--datasheet", required=True, type=sheet_path, metavar="NAME|FILE", help="GPU of the servers")
    power.add_argument("--models", required=True, type=pattern, metavar="REGEX", help="fit to servers whose model matches")
    power.add_argument("--keep", nargs="*", default=[], type=constant, metavar="KEY=VALUE", help="constants that are known")
    page = commands.add_parser("report", help="write a page with the errors of all fits")
    page.add_argument("page", type=pathlib.Path, metavar="FILE")
    left_out_page = commands.add_parser("left-out", help="write the errors on devices without a fit into a page")
    left_out_page.add_argument("page", type=pathlib.Path, metavar="FILE")
    for command in (one, clock, power, page, left_out_page):
        command.add_executables()
    return parser.parse_args(arguments)


def with_provenance(text: str, lines: list[str]) -> str:
    """The datasheet with a new head comment that tells to which rows its constants were fitted."""
    head, body = re.split(r"(?m)^(?=[a-z])", text, maxsplit=1)
    head = re.sub(rf"(?m)^{re.escape(PROVENANCE)}(.*\n)(#   .*\n)*", "", head)
    body = re.sub(r"(?m)^calibration:.*\n", "", body)
    body = re.sub(r"(?m)^(architecture:.*\n)", r"\1calibration: measured\n", body)
    return head + "".join(f"{line}\n" for line in lines) + body


def run_fit(options: argparse.Namespace) -> None:
    table = [row for file in options.rows for row in rows.read(file)]
    split = (options.system, options.keep_out, options.seed, options.bin)
    if options.kernels:
        sheet = kernels.KernelSheet(options.kernels)
        fits = kernels.fit(sheet, table, *split)
    else:
        sheet = Datasheet(options.datasheet)
        fits = fit.fit(sheet, table, *split)
    if not fits:
        raise rows.InputError(f"calibrate.py: error: {', '.join(options.rows)}: no {fit.LEAST_ROWS} rows of matrix products or attention "
                              f"with a time, of a system that matches '{options.system}'")
    tables = ", ".join(pathlib.Path(file).name for file in options.rows)
    lines = [f"{PROVENANCE}, {tables}, system {options.system}; mean |ln(model/measured)|:"]
    print(f"{'constants of':<20} {'rows':>5} {'before':>8} {'after':>8}   {'kept out':>8} {'before':>8} {'after':>8}")
    for one in fits:
        print(f"{one.group:<20} {one.rows:>5} {one.before:>8.3f} {one.after:>8.3f}   "
              f"{one.kept:>8} {one.kept_before:>8.3f} {one.kept_after:>8.3f}")
        lines.append(f"#   {one.group}: {one.after:.3f} of {one.rows} rows, {one.kept_after:.3f} of {one.kept} kept out")
        for key, value in one.constants.items():
            print(f"    {key} {value:.4g}")
    written.text(options.out, with_provenance(sheet.text, lines))
    print(f"wrote {options.out}")


def run_step_clock(options: argparse.Namespace) -> None:
    table = rows.read(str(ROOT / "validation" / "training.csv"))
    found = step_clock.fit(table, options.datasheet, options.steps, options.bin.resolve(), options.limit_s)
    if found is None:
        raise rows.InputError(f"calibrate.py: error: no step on {options.datasheet} that matches '{options.steps}' has a run within {options.limit_s:g} s")
    print(f"step_clock_ratio: {found.ratio:g}")
    print(f"{'rows':>5} {'median':>8} {'median of absolute values':>26}   error of the step's time, by source")
    for name, errors in {"(fit)": found.fitted, **found.kept_out}.items():
        print(f"{len(errors):>5} {statistics.median(errors):>+8.1%} {statistics.median(map(abs, errors)):>26.1%}   {name}")


def run_energy(options: argparse.Namespace) -> None:
    table = rows.read(str(ROOT / "validation" / "energy.csv"))
    found = energy.fit(table, options.datasheet, options.models, dict(options.keep), options.bin.resolve())
    if found is None:
        raise rows.InputError(f"calibrate.py: error: no server with {options.datasheet.stem} below its power limit has a model that matches '{options.models}'")
    print(", ".join(f"{key}: {value:.4g}" for key, value in found.constants.items()))
    print(f"{'rows':>5} {'median':>8} {'median of absolute values':>26} {'largest':>8}   error of the power, by model")
    for name, errors in {"(fit)": found.fitted, **found.kept_out}.items():
        absolute = [abs(error) for error in errors]
        print(f"{len(errors):>5} {statistics.median(errors):>+8.1%} {statistics.median(absolute):>26.1%} {max(absolute):>8.1%}   {name}")


def write_left_out(options: argparse.Namespace) -> None:
    page = options.page.read_text(encoding="utf-8")
    for name, table in (("left out", left_out.devices), ("counts left out", left_out.counts)):
        page = put_section(page, name, "\n".join(table(SHEETS, ROOT / "validation", options.bin)), "calibrate.py")
    written.text(options.page, page)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(arguments)
    try:
        if options.command == "fit":
            run_fit(options)
        elif options.command == "step-clock":
            run_step_clock(options)
        elif options.command == "energy":
            run_energy(options)
        elif options.command == "left-out":
            write_left_out(options)
        else:
            written.text(options.page, report.page(SHEETS, ROOT / "validation", options.bin))
    except (rows.InputError, EvaluationError, run_files.Error) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        print(f"calibrate.py: error: {reason_of(error)}", file=sys.stderr)
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Compares the model with measurements.

  scripts/validate.py fabric
  scripts/validate.py gpu
  scripts/validate.py fabric --rows table.csv other.csv --json
  scripts/validate.py fabric --out out/validation --digest docs/validation.md
  scripts/validate.py fabric --only 'a100_sxm/all_reduce' --where n_gpus=8

Rules turn every row of the tables (by default those of validation/) into a scenario. Rows that differ only in size run together. Errors
are reported by system, operation and size: <=64KiB, <=4MiB, >4MiB; rows M of matrix products; tokens S or bytes of KV cache of
attention. error = predicted/measured - 1 in the row's own metric; bias is its mean. A row without a rule is skipped, and a row whose
measurement cannot be compared with a model is set aside, both with the reason in rows.csv. The coverage, the share of the rows that have a
scenario, stands beside the errors, with the reasons of the others. --list shows each row's scenario, or the reason, and runs nothing.

--out DIR keeps each run as soon as it is over. Ctrl-C ends the validation and writes the rows that are over; the same command goes on. A run
is done again only if its scenario, an input or the executable has changed.
"""

import argparse
import contextlib
import fnmatch
import json
import pathlib
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType

from lib import runner, written
from lib.command_line import INTERRUPTED, ROOT, Parser, one_line, positive

try:
    from lib.yaml_source import InputError
    from reporting import figures
    from sweeping import kept
    from validation import CLASSES, comparison, orderings, report, rows, serving
except ImportError as missing:
    sys.exit(f"validate.py: error: {missing}; it needs the Debian package python3-yaml")

TABLES = ROOT / "validation"


def condition(text: str) -> tuple[str, str]:
    column, equals, value = text.partition("=")
    if not column or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not COLUMN=VALUE")
    return column, value


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("validation_class", choices=list(CLASSES), metavar="CLASS", help="class of rows: " + ", ".join(CLASSES))
    parser.add_argument("--rows", nargs="+", action="extend", metavar="FILE", help="tables of rows (default: those of validation/)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON; with --list, the coverage")
    parser.add_argument("--orderings", action="store_true",
                        help="class training: print how often the model says which of two mappings of a step is faster, in place of errors")
    parser.add_argument("--list", action="store_true", help="print each row's group and scenario, or why it is skipped; run nothing")
    parser.add_argument("--out", metavar="DIR", help="folder for rows.csv, the scatter plot, the digest and all runs; keeps runs for the next call")
    parser.add_argument("--digest", metavar="FILE", help="write the section of CLASS into this page, its figure next to the page, and its longer tables into a folder there")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="only rows whose group SYSTEM/OP/SIZE begins with the pattern (with * and ?); repeatable: any pattern")
    parser.add_argument("--where", action="append", default=[], type=condition, metavar="COLUMN=VALUE",
                        help="only rows with this value in the column; repeatable: all conditions")
    parser.add_argument("--llmservingsim", type=pathlib.Path, metavar="DIR",
                        help="class serving: a clone of casys-kaist/LLMServingSim, for rows of its traces")
    parser.add_executables()
    parser.add_argument("--workers", type=positive, default=runner.WORKERS, metavar="N", help="parallel runs (default: number of processors)")
    parser.add_argument("--limit-s", type=positive, metavar="S",
                        help="skip rows whose run takes longer than this wall time, in seconds; runs that should be fast go first")
    parser.add_argument("--retry-failed", action="store_true", help="run again what failed, or took too long, in --out DIR")
    options = parser.parse_args(arguments)
    if options.llmservingsim and options.validation_class != "serving":
        parser.error("--llmservingsim is for class serving")
    if options.orderings and options.validation_class != "training":
        parser.error("--orderings is for class training")
    if options.list and (options.out or options.digest):
        parser.error("--list runs nothing; it goes without --out and --digest")
    return options


def chosen(options: argparse.Namespace, outcomes: list[comparison.Outcome]) -> list[comparison.Outcome]:
    def wanted(outcome):
        if any(outcome.row[column] != value for column, value in options.where):
            return False
        return not options.only or any(fnmatch.fnmatchcase(outcome.group, pattern + "*") for pattern in options.only)

    return [outcome for outcome in outcomes if wanted(outcome)]


def show_progress(result: runner.Result, over: int, count: int) -> None:
    print(f"[{over}/{count}] {result.point.name}" + (f": {result.error}" if result.failed else ""), file=sys.stderr)


def print_table(name: str, outcomes: Sequence[comparison.Outcome]) -> None:
    figures = report.as_json(name, outcomes)
    aside = f"{figures['set_aside']} set aside, " if figures["set_aside"] else ""
    print(f"{figures['rows']} rows compared, {aside}{figures['skipped']} skipped")
    lines = [("group", "rows", "median", "p90", "mean |ln|", "bias")]
    for group in figures["groups"] + [{"name": "all"} | figures]:
        if group["rows"]:
            lines.append((group["name"], str(group["rows"]), f"{group['median_abs_err']:.1%}", f"{group['p90_abs_err']:.1%}",
                          f"{group['mean_abs_ln_err']:.3f}", f"{group['bias']:+.1%}"))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print(f"{line[0]:<{widths[0]}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(line[1:], widths[1:])))
    print("\n".join(report.coverage_lines(outcomes)))


def print_list(outcomes: Sequence[comparison.Outcome]) -> None:
    """A line for each row: its group, the platform and the scenario of each candidate; or the reason why it is skipped. Then the coverage."""
    for outcome in outcomes:
        if outcome.skipped:
            print(f"{outcome.row['id']}  {'set aside' if outcome.set_aside else 'skipped'}: {outcome.skipped}")
            continue
        for one in outcome.experiment.candidates:
            print(f"{outcome.row['id']}  {outcome.group}  {one.platform}  {json.dumps(one.scenario)}")
    print("\n".join(report.coverage_lines(outcomes)))


def draw(path: pathlib.Path, name: str, validation_class: ModuleType, outcomes: Sequence[comparison.Outcome]) -> list[tuple[str, str]]:
    """The pictures of the class beside the page: its own, or the scatter plot. @return their texts and links"""
    if hasattr(validation_class, "charts"):
        charts = validation_class.charts(outcomes)
        figures.draw_all(charts, path.with_suffix(""))
        return [(chart.title, f"{path.stem}/{chart.name}.svg") for chart in charts]
    if all(outcome.skipped for outcome in outcomes):
        return []
    figure = path.with_name(f"{path.stem}_{name}.svg")
    report.draw(figure, validation_class.TITLE, outcomes)
    return [("Predicted against measured", figure.name)]


def write_page(path: pathlib.Path, name: str, validation_class: ModuleType, outcomes: Sequence[comparison.Outcome]) -> None:
    pictures = draw(path, name, validation_class, outcomes)
    page = path.read_text(encoding="utf-8") if path.exists() else "# Validation\n"
    first = validation_class.targets(outcomes) if hasattr(validation_class, "targets") else []
    errors, reasons = (path.with_suffix("") / f"{name}_{table}.csv" for table in ("errors", "reasons"))
    report.write_errors(errors, outcomes)
    report.write_reasons(reasons, outcomes)
    links = (str(table.relative_to(path.parent)) for table in (errors, reasons))
    section = report.digest(validation_class.TITLE, outcomes, pictures, *links, first)
    written.text(path, report.put_section(page, name, section))


@contextlib.contextmanager
def folder(wanted: str | None) -> Iterator[pathlib.Path]:
    """The folder of the runs: the one that is wanted, or one for this call only."""
    if wanted:
        yield pathlib.Path(wanted).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="validate.") as scratch:
        yield pathlib.Path(scratch)


def validate(options: argparse.Namespace) -> None:
    name = options.validation_class
    validation_class = serving.with_clone(options.llmservingsim.resolve()) if options.llmservingsim else CLASSES[name]
    files = options.rows or [str(TABLES / table) for table in validation_class.TABLES]
    every = [row for file in files for row in rows.read(file)]
    if hasattr(validation_class, "of_class"):
        every = validation_class.of_class(every)
    outcomes = chosen(options, comparison.map_rows(validation_class, every))
    if options.list:
        if options.json:
            print(json.dumps(comparison.coverage(outcomes), indent=2))
        else:
            print_list(outcomes)
        return
    points = comparison.assign_points(validation_class, outcomes)
    if points and not any((pathlib.Path(options.bin) / point.platform).exists() for point in points):
        raise rows.InputError(f"validate.py: error: no platform executables in {options.bin}; build them, or say where with --bin")
    if options.limit_s:
        points = [replace(point, limit_s=options.limit_s) for point in reversed(points)]
    with folder(options.out) as directory:
        done = kept.run(points, directory, options.bin.resolve(), options.workers, options.retry_failed, show_progress)
        comparison.compare(outcomes, done.results)
        if options.out:
            report.write_rows(directory / "rows.csv", outcomes)
            write_page(directory / "digest.md", name, validation_class, outcomes)
        if options.digest and done.complete:
            write_page(pathlib.Path(options.digest), name, validation_class, outcomes)
    if not done.complete:
        missing = sum(result.interrupted for result in done.results)
        goes_on = "the same command goes on" if options.out else "nothing kept without --out"
        sys.exit(print(f"validate.py: interrupted: {missing} of {len(points)} runs are missing; {goes_on}", file=sys.stderr) or INTERRUPTED)
    if options.orderings:
        print(json.dumps(orderings.as_json(outcomes), indent=2) if options.json else "\n".join(orderings.lines(outcomes) or ["no pairs"]))
    elif options.json:
        print(json.dumps(report.as_json(name, outcomes), indent=2))
    else:
        print_table(name, outcomes)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with one_line("validate.py", rows.InputError, InputError, complete=True):
            validate(options)
    except KeyboardInterrupt:
        sys.exit(print("validate.py: interrupted; nothing written", file=sys.stderr) or INTERRUPTED)


if __name__ == "__main__":
    main()

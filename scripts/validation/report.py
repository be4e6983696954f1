"""The outputs of a validation: JSON figures, rows.csv, the scatter plot, and the digest for the documentation with its tables in CSV."""

import collections
import csv
import pathlib
import re
from collections.abc import Sequence

from reporting import figures as reporting_figures
from reporting import scatter

from lib import written

from .comparison import Outcome, coverage, figures_of, grouped
from .figures import FIGURES
from .rows import BYTES_PER_SECOND, SECONDS

COLUMNS = ("id", "scenario", "predicted", "measured", "error", "skip_reason", "unit", "metric", "n_gpus", "bytes", "chosen", "group", "file")
# Axes of the scatter plot: units of rows, and the unit that is shown
PLOTS = (
    ("time, us", SECONDS, 1e-6),
    ("bandwidth, GB/s", BYTES_PER_SECOND, 1e9),
    ("tokens/s per GPU", {"tok/s/GPU": 1}, 1),
    ("TFLOP/s per GPU", {"TFLOP/s": 1}, 1),
)
# Tables of the digest that are CSV files beside the page
ERROR_COLUMNS = ("by", "name", "rows", "median_percent", "p90_percent", "mean_abs_ln", "bias_percent")
REASON_COLUMNS = ("what", "reason", "rows", "systems")


def as_json(name: str, outcomes: Sequence[Outcome]) -> dict:
    aside = sum(outcome.set_aside for outcome in outcomes)
    skipped = sum(bool(outcome.skipped) for outcome in outcomes) - aside
    total = figures_of(outcomes)
    groups = [{"name": group} | figures_of(members) for group, members in grouped(outcomes, lambda one: one.group).items()]
    return {"class": name, "rows": total.pop("rows"), "set_aside": aside, "skipped": skipped, "coverage": coverage(outcomes)} | total | {"groups": groups}


def coverage_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Which share of the rows has a scenario, and why the others have none."""
    found = coverage(outcomes)
    if not found["rows"]:
        return ["no rows"]
    lines = [f"coverage: {found['expressed']} of {found['rows']} rows, {found['ratio']:.1%}"]
    lines += [f"{count:6}  not: {reason}" for reason, count in found["reasons"].items()]
    return lines + [f"{count:6}  with an assumption: {what}" for what, count in found["assumed"].items()]


def write_rows(path: pathlib.Path, outcomes: Sequence[Outcome]) -> None:
    """All rows, compared or skipped; `scenario` is relative to the file."""
    with written.table(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for one in outcomes:
            scenario = f"{one.directory.relative_to(path.parent)}/scenario.yaml" if one.directory else ""
            numbers = ["", one.row["value"], ""] if one.skipped else [f"{one.predicted:.6g}", _measured(one), f"{one.error:.6g}"]
            group = one.group if one.experiment else ""
            reason = f"set aside: {one.skipped}" if one.set_aside else one.skipped
            writer.writerow([one.row["id"], scenario, *numbers, reason, one.row["unit"], one.row["metric"], one.row["n_gpus"], one.row["bytes"], one.chosen, group, pathlib.Path(one.row.file).name])


def _measured(one: Outcome) -> str:
    """As printed, if this is what is compared."""
    return one.row["value"] if one.measured == one.row.value else f"{one.measured:.6g}"


def draw(path: pathlib.Path, title: str, outcomes: Sequence[Outcome]) -> None:
    """Predicted over measured, with separate plots for times and bandwidths. A GPU has one color, whatever rows call its system; GPUs with few
    rows share the last color."""
    compared = [one for one in outcomes if not one.skipped]
    gpus = [gpu for gpu, _ in collections.Counter(map(_gpu, compared)).most_common()]
    last = scatter.COLORS - 1
    color = {gpu: min(i, last) for i, gpu in enumerate(gpus)}
    clouds = []
    for unit, factors, shown in PLOTS:
        groups = collections.defaultdict(list)
        for one in compared:
            if one.row["unit"] in factors:
                factor = factors[one.row["unit"]] / shown
                groups[color[_gpu(one)]].append((one.measured * factor, one.predicted * factor))
        if groups:
            clouds.append(scatter.Cloud(unit, sorted(groups.items())))
    names = gpus[:last] + ["others"] * (len(gpus) > last)
    reporting_figures.write(path, title, scatter.draw(names, clouds))


def _gpu(one: Outcome) -> str:
    """The datasheet of the scenario's GPUs; of a board that has one kind of GPU, the board."""
    group = next(iter(one.experiment.scenario["machine"]["groups"].values()))
    return group.get("gpu", one.experiment.platform)


def _errors(outcomes: Sequence[Outcome]) -> str:
    """In one sentence."""
    values = figures_of(outcomes)
    return (f"|error|: median {100 * values['median_abs_err']:.1f} %, 90th percentile {100 * values['p90_abs_err']:.1f} %; "
            f"mean of abs ln {values['mean_abs_ln_err']:.3f}, bias {100 * values['bias']:+.1f} %.")


def write_errors(path: pathlib.Path, outcomes: Sequence[Outcome]) -> None:
    """Errors by machine, by operation, by system and operation, by size, and by all three."""
    groups = {"system and GPUs": _machine, "operation": _operation,
              "system and operation": lambda one: one.group.rsplit("/", 1)[0], "size": lambda one: one.group.rsplit("/", 1)[-1],
              "system, operation and size": lambda one: one.group}
    lines = []
    for by, name in groups.items():
        for group, members in grouped(outcomes, name).items():
            values = figures_of(members)
            cells = ["" if values[key] is None else f"{values[key]:.3f}" if "ln" in key else f"{100 * values[key]:.1f}" for key in FIGURES]
            lines.append([by, group, values["rows"], *cells])
    _write_csv(path, ERROR_COLUMNS, lines)


def write_reasons(path: pathlib.Path, outcomes: Sequence[Outcome]) -> None:
    """Rows that are not compared, by reason."""
    reasons: dict[tuple[str, str], list[Outcome]] = {}
    for one in outcomes:
        if one.skipped:
            reasons.setdefault(("set aside" if one.set_aside else "skipped", one.skipped), []).append(one)
    lines = []
    for (what, reason), members in sorted(reasons.items(), key=lambda item: (item[0][0], -len(item[1]))):
        systems = collections.Counter(one.row["system"] for one in members)
        lines.append([what, reason, len(members), ", ".join(systems)])
    _write_csv(path, REASON_COLUMNS, lines)


def _write_csv(path: pathlib.Path, columns: Sequence[str], lines: Sequence[Sequence]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with written.table(path) as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *lines])


def digest(title: str, outcomes: Sequence[Outcome], pictures: Sequence[tuple[str, str]], errors: str, reasons: str, first: Sequence[str] = ()) -> str:
    """The class's section of docs/validation.md.

    @param pictures         texts and links
    @param errors, reasons  links to the files of write_errors() and write_reasons()
    @param first            lines of the class's own, before the tables
    """
    compared = sum(not one.skipped for one in outcomes)
    aside = [one for one in outcomes if one.set_aside]
    skipped = [one for one in outcomes if one.skipped and not one.set_aside]
    counts = [f"{compared} compared"] + ([f"{len(aside)} set aside"] if aside else []) + [f"{len(skipped)} skipped"]
    lines = [f"## {title}", "", f"{len(outcomes)} measured rows: {', '.join(counts)}." + (f" {_errors(outcomes)}" if compared else ""), ""]
    for text, link in pictures:
        lines += [f"![{text}]({link})", ""]
    lines += first
    lines += [f"Tables: [errors by system and GPUs, operation and size]({errors})" +
              (f", [reasons of rows that are set aside or skipped]({reasons})." if aside or skipped else "."), ""]
    return "\n".join(lines)


def _machine(one: Outcome) -> str:
    servers = one.experiment.scenario["machine"]["groups"].get("node", {"servers": 1})["servers"]
    ranks = one.row["n_gpus"] or one.row["ep_ranks"]
    return one.row["system"] + (f", {ranks}" if ranks else "") + (f" in {servers} servers" if servers > 1 else "")


def _operation(one: Outcome) -> str:
    workload = one.experiment.scenario["workload"]
    library = workload.get("library")
    return one.experiment.operation + (f", {library}" if library else "") + (" in a graph" if workload.get("in_graph") else "")


def put_section(page: str, name: str, section: str, script: str = "validate.py") -> str:
    """The page with the class's section replaced, or added at its end."""
    begin, end = f"<!-- {name}: generated by scripts/{script} -->", f"<!-- {name}: end -->"
    block = f"{begin}\n{section.strip()}\n{end}"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    if pattern.search(page):
        return pattern.sub(lambda _: block, page)
    return page.rstrip("\n") + ("\n\n" if page.strip() else "") + block + "\n"

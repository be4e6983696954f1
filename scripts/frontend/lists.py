"""Tables of what is shipped: models, GPUs, machines, engines, kinds of workload, metrics, scenarios."""

import functools
import json
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import yaml
from lib.command_line import ROOT
from lib.words import nearest
from lib.yaml_source import InputError, read

from .executables import SCENARIOS, scenarios

SHEETS = ROOT / "platforms" / "datasheets"
MODELS = SCENARIOS / "models"
WIDTH = 100  # of a line's text


class Table(NamedTuple):
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


@functools.cache
def _sheet(kind: str, name: str) -> dict:
    return yaml.safe_load((SHEETS / kind / f"{name}.yaml").read_text(encoding="utf-8"))


def names(kind: str) -> list[str]:
    """Of the shipped datasheets of a kind."""
    return sorted(path.stem for path in (SHEETS / kind).glob("*.yaml"))


def _comment(text: str) -> str:
    """The first sentence of the comment with which a file begins."""
    lines = [line[1:].strip() for line in re.match(r"(?:#.*\n|\s*\n)*", text)[0].splitlines() if line.strip()]
    words = " ".join(line for line in lines if not line.startswith("yaml-language-server"))
    return re.split(r"(?<=[^.\s]{2}\.)\s(?=[A-Z])", words)[0].removesuffix(".")


def _comment_of(kind: str, name: str) -> str:
    return _comment((SHEETS / kind / f"{name}.yaml").read_text(encoding="utf-8"))


def holders(form: str) -> list[str]:
    """The machines whose boards hold GPUs of a form factor."""
    return [name for name in names("boards") if form in _sheet("boards", name)["gpu_forms"]]


def models() -> Table:
    rows = []
    for path in sorted(MODELS.glob("*.json"), key=lambda path: path.stem):
        config = json.loads(path.read_text(encoding="utf-8"))
        config |= config.get("text_config", {})
        layers, width = (next((str(config[key]) for key in keys if key in config), "") for keys in (
            ("num_hidden_layers", "n_layers", "n_layer"), ("hidden_size", "d_model", "n_embd")))
        rows.append((path.stem, config["model_type"], layers, width))
    return Table(("model", "type", "layers", "hidden"), rows)


def gpus() -> Table:
    rows = []
    for name in names("gpus"):
        sheet = _sheet("gpus", name)
        rows.append((name, sheet["form"], f"{sheet['hbm']['capacity_gb']:g} GB", ", ".join(holders(sheet["form"])) or "none: workload.kind kernel only"))
    return Table(("GPU", "form", "memory", "machines that hold it"), rows)


def machines() -> Table:
    return Table(("machine", "GPU", "one server"), [(name, _sheet("boards", name)["board"]["gpu"], _comment_of("boards", name)) for name in names("boards")])


def engines() -> Table:
    return Table(("engine", "what it is"), [(name, _comment_of("engines", name)) for name in names("engines")])


def _plain(cell: str) -> str:
    """A cell of a page's table without its links and marks."""
    return re.sub(r"\[(.+?)\]\(.*?\)", r"\1", cell).replace("`", "").replace("\\|", "|").strip()


def _cells(text: str) -> Iterable[list[str]]:
    for line in re.findall(r"^\| (?!---)(.*) \|$", text, re.MULTILINE):
        yield [_plain(cell) for cell in re.split(r"(?<!\\)\|", line)]


def kinds() -> Table:
    """From the table of the page on workloads."""
    page = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
    rows = list(_cells(re.search(r"^\| kind \|(?:.*\n\|)*.*", page, re.MULTILINE)[0]))
    return Table(tuple(rows[0]), [tuple(row) for row in rows[1:]])


def metrics() -> Table:
    """From the tables that results_reference writes."""
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    found = []
    for kind, table in re.findall(r"<!-- metrics of (\S+) -->\n(.*?)<!-- end of metrics -->", page, re.DOTALL):
        found += [(key.removeprefix("metrics."), kind, unit, text) for key, unit, text in list(_cells(table))[1:]]
    return Table(("metric", "kind", "unit", "meaning"), found)


def shipped_scenarios() -> Table:
    """From the scenarios' own first sentences."""
    rows = []
    for path in scenarios():
        fields = {key: value for key, _, value in read(path).items("scenario")}
        kind = fields["workload"].plain()["kind"]
        name = path.relative_to(SCENARIOS).with_suffix("").as_posix()
        rows.append((name, fields["platform"].plain(), kind, _comment(path.read_text(encoding="utf-8"))))
    return Table(("scenario", "machine", "kind", "what it shows"), rows)


LISTS: dict[str, Callable[[], Table]] = {"models": models, "gpus": gpus, "machines": machines, "engines": engines, "kinds": kinds, "metrics": metrics,
                                         "scenarios": shipped_scenarios}


def text(what: str, word: str = "") -> str:
    """A list, or its rows with a cell that contains the word.

    @throws InputError with the nearest name if there is no such list, or no such row
    """
    if what not in LISTS:
        raise InputError(f"railyard list: error: '{what}' is unknown{nearest(what, LISTS)}; accepted: {', '.join(LISTS)}")
    head, rows = LISTS[what]()
    found = [row for row in rows if any(word.lower() in cell.lower() for cell in row)]
    if not found:
        near = nearest(word.lower(), {name: None for row in rows for name in (row[0].lower(), *re.split(r"[-_./]", row[0].lower()))})
        raise InputError(f"railyard list: error: no {what} with '{word}'{near}; railyard list {what} shows all")
    widths = [max(len(row[column]) for row in (head, *found)) for column in range(len(head) - 1)]
    lines = []
    for row in (head, *found):
        last = row[-1] if len(row[-1]) <= WIDTH else row[-1][: WIDTH - 3].rstrip() + "..."
        lines.append("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), last]).rstrip())
    return "\n".join(lines) + "\n"

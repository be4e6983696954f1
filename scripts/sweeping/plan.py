"""The sweep file, and the points that follow from it.

  scenario: ../base.yaml        # base of every point; paths are relative to the sweep file
  set: {KEY: VALUE}             # on every point
  options: [--jobs, none]       # of the executable, on every point
  let: {gpus: 8, ranks: tp * pp}      # names for expressions
  axes:                         # all combinations of
    workload.prefill.tp: [1, 2, 4, 8]                           # a key and its values
    workload.prefill.pp: {from: 1, to: 8, factor: 2}            # or a range by step or factor
    workload.chunk_tokens: {values: [256, 512], name: chunk}    # named `chunk`, not `chunk_tokens`
    workload.requests.prompt_tokens: {values: [512], also: [KEY]}    # the same value for more keys
    box:                                                        # or named choices of several settings
      choices:
        plx: {scenario: ../plx.yaml, set: {KEY: VALUE}, options: [--why], let: {gpus: 8}}
  where: tp * pp == gpus        # an expression or a list of them; points run only if it is true
  repeats: 3                    # with consecutive seeds, starting from the scenario's
  objective: {minimise: ttft_s}       # or maximise; an expression over metrics, axes and names
                                      # subject_to: ttft_p99_s <= 1     only points for which this is true count

The name of an axis is the last word of its key.
"""

import itertools
import math
import pathlib
import re
from dataclasses import dataclass, field, replace

from lib import metrics, old_names, request_times
from lib.keys import names_input
from lib.words import nearest
from lib.yaml_source import Value, leaves, read

from .expressions import Expression, ExpressionError

KEYS = ("schema_version", "scenario", "set", "options", "let", "axes", "where", "repeats", "objective")
AXIS_KEYS = ("values", "from", "to", "step", "factor", "name", "also", "choices")
OPTIONS = {"--jobs": ("all", "stage", "none"), "--iterations": (), "--why": (), "--timeline": ()}  # of an executable, and their words
SCHEMA_VERSION = 1
RESERVED = ("position", "id", "status", "error", "directory", "kind", "model", "objective")  # columns of every run
MOST_RUNS = 1_000_000


@dataclass
class Choice:
    """One value of an axis: its name and its settings."""

    label: object
    settings: dict[str, object]
    scenario: pathlib.Path | None = None
    let: dict[str, object] = field(default_factory=dict)
    options: tuple[str, ...] = ()


@dataclass
class Axis:
    name: str
    keys: list[str]  # none: named choices
    choices: list[Choice]

    @property
    def chooses_scenario(self) -> bool:
        return any(choice.scenario for choice in self.choices)


@dataclass
class Scenario:
    """The text of a base file, and its keys that name input files, as absolute paths."""

    path: pathlib.Path
    text: str
    inputs: dict[str, str]
    platform: str | None
    seed: int
    kind: str | None = None  # of the workload


@dataclass
class SweepPoint:
    """A planned run."""

    position: int
    values: dict[str, object]  # of each axis
    platform: str
    seed: int
    scenario: Scenario
    settings: dict[str, object]
    names: dict[str, object]  # what an expression may use
    options: tuple[str, ...] = ()  # of the executable

    @property
    def label(self) -> str:
        return f"{settings_text(self.values)}, seed={self.seed}"


def settings_text(values: dict[str, object]) -> str:
    """Values of axes in readable form, in the notation of the sweep file."""
    return ", ".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in values.items())


class Sweep:
    """A sweep file, read and checked. `points` makes its points. The executables check the keys of scenarios."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.root = read(path)
        fields = self.root.fields("sweep", KEYS)
        for required in ("scenario", "axes"):
            if required not in fields:
                raise self.root.wrong(f"{required}: missing; a sweep has a base scenario and axes")
        if "schema_version" in fields and fields["schema_version"].plain() != SCHEMA_VERSION:
            raise fields["schema_version"].wrong(f"schema_version: expected {SCHEMA_VERSION}")
        self._scenarios: dict[pathlib.Path, Scenario] = {}
        self.of_metrics: list[tuple[Expression, Value, str]] = []  # expressions that may name metrics, and where they are
        self.keys: dict[str, Value] = {}  # every key that is set, and where
        self.scenario = self._scenario(fields["scenario"], "scenario")
        self.settings = self._settings(fields.get("set"), "set")
        self.options = _options(fields.get("options"), "options")
        self.axes = self._axes(fields["axes"])
        self.let = self._let(fields.get("let"), "let")
        self.repeats = fields["repeats"].count("repeats", MOST_RUNS) if "repeats" in fields else 1
        if self.repeats > 1 and any("seed" in axis.keys for axis in self.axes):
            raise fields["repeats"].wrong("repeats: cannot be combined with the axis 'seed', because both set the seed")
        known = {axis.name for axis in self.axes} | {"platform", "seed"}
        for choice in (choice for axis in self.axes for choice in axis.choices):
            known |= set(choice.let)
        for name, (expression, value) in self.let.items():
            _expect_names(value, f"let.{name}", expression, known)
            known.add(name)
        self.where = [(_expression(value, "where"), value) for value in self._one_or_more(fields.get("where"))]
        for expression, value in self.where:
            _expect_names(value, "where", expression, known)
        self.objective, self.largest_is_best = self._objective(fields.get("objective"))
        self.limits = self._limits(fields.get("objective"))

    # -- reading

    @staticmethod
    def _one_or_more(value: Value | None, what: str = "where") -> list[Value]:
        if value is None:
            return []
        return value.list(what) if value.is_list else [value]

    def _scenario(self, value: Value, what: str) -> Scenario:
        path = (self.path.parent / value.text(what)).resolve()
        if path in self._scenarios:
            return self._scenarios[path]
        if not path.is_file():
            raise value.wrong(f"{what}: {value.text(what)}: no such file")
        found = scenario_at(path)
        self._scenarios[path] = found
        return found

    def _setting(self, value: Value, key: str) -> object:
        """A value for a key; a relative path of an input becomes absolute."""
        plain = value.plain()
        if names_input(key, plain):
            path = (self.path.parent / plain).resolve()
            if not path.exists():
                raise value.wrong(f"{key}: {plain}: no such file or folder; paths are relative to the sweep file")
            return str(path)
        return plain

    def _settings(self, value: Value | None, what: str) -> dict[str, object]:
        settings = {}
        for key, where, entry in value.items(what) if value else ():
            self.keys.setdefault(key, where)
            settings[key] = self._setting(entry, key)
        return settings

    def _let(self, value: Value | None, what: str) -> dict[str, tuple[Expression, Value]]:
        names = {}
        for name, where, entry in value.items(what) if value else ():
            if not name.isidentifier() or name in ("platform", "seed") or name in {axis.name for axis in self.axes}:
                raise where.wrong(f"{what}: '{name}' is not a name, or names an axis, platform or seed")
            names[name] = (_expression(entry, f"{what}.{name}"), entry)
        return names

    def _axes(self, value: Value) -> list[Axis]:
        axes: list[Axis] = []
        setters: dict[str, str] = {}
        for key, where, entry in value.items("axes"):
            axis = self._axis(key, where, entry)
            if not re.fullmatch(r"[A-Za-z_]\w*", axis.name):
                raise where.wrong(f"axes.{key}: '{axis.name}' is not a valid name; give the axis a name with name:")
            if axis.name in RESERVED or (axis.name in ("platform", "seed") and axis.keys[:1] != [axis.name]):
                raise where.wrong(f"axes.{key}: '{axis.name}' has another meaning in the results; give the axis another name with name:")
            if axis.name in {other.name for other in axes}:
                raise where.wrong(f"axes.{key}: another axis has the name '{axis.name}'; give this axis another name with name:")
            for settings in {setting for choice in axis.choices for setting in choice.settings}:
                if settings in setters:
                    raise where.wrong(f"axes.{key}: sets {settings}, which the axis '{setters[settings]}' also sets")
            setters |= {setting: axis.name for choice in axis.choices for setting in choice.settings}
            if axis.chooses_scenario and any(other.chooses_scenario for other in axes):
                raise where.wrong(f"axes.{key}: another axis also chooses the scenario")
            axes.append(axis)
        if not axes:
            raise value.wrong("axes: expected at least one")
        return axes

    def _axis(self, key: str, where: Value, value: Value) -> Axis:
        what = f"axes.{key}"
        short = key.rsplit(".", 1)[-1]
        if value.is_mapping and "choices" in value.fields(what, AXIS_KEYS):
            return self._named_choices(key, value)
        self.keys.setdefault(key, where)
        keys = [key]
        if value.is_list:
            name, entries = short, value
        else:
            fields = value.fields(what, AXIS_KEYS)
            name = fields["name"].text(f"{what}.name") if "name" in fields else short
            for also in fields["also"].list(f"{what}.also") if "also" in fields else ():
                self.keys.setdefault(also.text(f"{what}.also"), also)
                keys.append(also.text(f"{what}.also"))
            entries = fields.get("values")
            if entries is None:
                return Axis(name, keys, [Choice(number, dict.fromkeys(keys, number)) for number in _range(what, value, fields)])
            if extra := {"from", "to", "step", "factor"} & set(fields):
                raise fields[min(extra)].wrong(f"{what}: values, or from, to and step or factor; not both")
        choices = []
        for entry in entries.list(what):
            label = entry.plain()
            if any(label == other.label and type(label) is type(other.label) for other in choices):
                raise entry.wrong(f"{what}: {label} is given twice")
            choices.append(Choice(label, dict.fromkeys(keys, self._setting(entry, key))))
        if not choices:
            raise entries.wrong(f"{what}: no values")
        return Axis(name, keys, choices)

    def _named_choices(self, name: str, value: Value) -> Axis:
        what = f"axes.{name}"
        choices = []
        for label, _, entry in value.fields(what, ("choices",))["choices"].items(f"{what}.choices"):
            fields = entry.fields(f"{what}.{label}", ("scenario", "set", "options", "let"))
            let = {}
            for word, where, number in fields["let"].items(f"{what}.{label}.let") if "let" in fields else ():
                if not word.isidentifier():
                    raise where.wrong(f"{what}.{label}.let: '{word}' is not a name")
                let[word] = number.number(f"{what}.{label}.let.{word}")
            scenario = self._scenario(fields["scenario"], f"{what}.{label}.scenario").path if "scenario" in fields else None
            choices.append(Choice(label, self._settings(fields.get("set"), f"{what}.{label}.set"), scenario, let,
                                  _options(fields.get("options"), f"{what}.{label}.options")))
        if not choices:
            raise value.wrong(f"{what}.choices: is empty; accepted: at least one")
        return Axis(name, [], choices)

    def _objective(self, value: Value | None) -> tuple[Expression | None, bool]:
        if value is None:
            return None, False
        goals = {goal: metric for goal, metric in value.fields("objective", ("minimise", "maximise", "subject_to")).items() if goal != "subject_to"}
        if len(goals) != 1:
            raise value.wrong("objective: expected minimise or maximise")
        (goal, metric), = goals.items()
        self.of_metrics = [(_expression(metric, f"objective.{goal}", names_metrics=True), metric, f"objective.{goal}")]
        return self.of_metrics[0][0], goal == "maximise"

    def _limits(self, value: Value | None) -> list[Expression]:
        entries = self._one_or_more(value.fields("objective", ("minimise", "maximise", "subject_to")).get("subject_to"), "objective.subject_to") if value else []
        found = [(_expression(entry, "objective.subject_to", names_metrics=True), entry, "objective.subject_to") for entry in entries]
        self.of_metrics += found
        return [expression for expression, _, _ in found]

    def check_metrics(self, points: list["SweepPoint"]) -> None:
        """Before a run: whether runs of these points can have what the objective names. @throws InputError"""
        kinds = {point.settings.get("workload.kind", point.scenario.kind) for point in points}
        there = list(metrics.of_kinds()) if None in kinds else [metrics.kind_of(kind) for kind in kinds]
        known = {name for point in points for name in point.names}
        for expression, value, what in self.of_metrics:
            for name in sorted(expression.names - known):
                try:
                    of_requests = request_times.quantity_of(name)
                except ValueError as error:
                    raise value.wrong(f"{what}: {expression.text}: {error}") from error
                if of_requests is None and not metrics.is_metric(name, there):
                    raise value.wrong(f"{what}: {expression.text}: '{name}' is neither a metric nor a name of the sweep"
                                      f"{metrics.nearest(name, there, [*request_times.examples(), *known])}")

    # -- points

    def points(self) -> list[SweepPoint]:
        """All points in the order of the axes; the last axis varies fastest. Repeats are adjacent."""
        combinations = math.prod(len(axis.choices) for axis in self.axes)
        if combinations * self.repeats > MOST_RUNS:
            raise self.root.wrong(f"axes: {combinations} combinations, {self.repeats} times: more than {MOST_RUNS} runs")
        points = []
        for choices in itertools.product(*(axis.choices for axis in self.axes)):
            point = self._point(choices)
            if all(_true(point, expression, value) for expression, value in self.where):
                for repeat in range(self.repeats):
                    points.append(_repeated(point, len(points), repeat))
        if not points:
            raise self.root.wrong(f"where: true for none of {combinations} combinations")
        return points

    def _point(self, choices: tuple[Choice, ...]) -> SweepPoint:
        scenario = self._scenarios[next((choice.scenario for choice in choices if choice.scenario), self.scenario.path)]
        settings: dict[str, object] = {}
        for part in (scenario.inputs, self.settings, *(choice.settings for choice in choices)):
            for key, value in part.items():
                settings.pop(key, None)  # the last one that sets it, in its place
                settings[key] = value
        platform = settings.get("platform", scenario.platform)
        if not isinstance(platform, str):
            raise self.root.wrong(f"platform: neither an axis, nor set, nor in {scenario.path.name}")
        seed = settings.get("seed", scenario.seed)
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise self.root.wrong(f"seed: {seed} is not an integer")
        values = {axis.name: choice.label for axis, choice in zip(self.axes, choices)}
        names = values | {"platform": platform, "seed": seed}
        for choice in choices:
            names |= choice.let
        for name, (expression, value) in self.let.items():
            names[name] = _value(value, f"let.{name}", expression, names)
        options = (*self.options, *(word for choice in choices for word in choice.options))
        return SweepPoint(0, values, platform, seed, scenario, settings, names, options)


def scenario_at(path: pathlib.Path) -> Scenario:
    """@param path  absolute"""
    inputs, scalars = {}, {}
    for key, leaf in leaves(read(path)):
        scalars[key] = leaf
        if names_input(key, leaf) and (path.parent / leaf).exists():
            inputs[key] = str((path.parent / leaf).resolve())
    platform, seed, kind = scalars.get("platform"), scalars.get("seed", 1), scalars.get("workload.kind")
    return Scenario(path, path.read_text(encoding="utf-8"), inputs, platform if isinstance(platform, str) else None,
                    seed if isinstance(seed, int) else 1, kind if isinstance(kind, str) else None)


def _repeated(point: SweepPoint, position: int, repeat: int) -> SweepPoint:
    seed = point.seed + repeat
    settings = point.settings | {"seed": seed} if repeat or "seed" in point.settings else point.settings
    return replace(point, position=position, seed=seed, settings=settings, names=point.names | {"seed": seed})


def _options(value: Value | None, what: str) -> tuple[str, ...]:
    """Options that add to the outputs of a run, or leave some out."""
    found: list[str] = []
    entries = iter(value.list(what) if value else ())
    for entry in entries:
        word = entry.text(what)
        if word not in OPTIONS:
            raise entry.wrong(f"{what}: '{word}' is unknown{nearest(word, OPTIONS)}; accepted: {', '.join(OPTIONS)}")
        found.append(word)
        if OPTIONS[word]:
            argument = next(entries, None)
            if argument is None or argument.text(what) not in OPTIONS[word]:
                raise (argument or entry).wrong(f"{what}: {word} needs one of {', '.join(OPTIONS[word])} behind it")
            found.append(argument.text(what))
    return tuple(found)


def _range(what: str, value: Value, fields: dict[str, Value]) -> list[int | float]:
    missing = [word for word in ("from", "to") if word not in fields]
    if missing or ("step" in fields) == ("factor" in fields):
        raise value.wrong(f"{what}: expected a list, values, choices, or from, to and one of step and factor")
    first, last = fields["from"].number(f"{what}.from"), fields["to"].number(f"{what}.to")
    by = "step" if "step" in fields else "factor"
    stride = fields[by].number(f"{what}.{by}")
    if (by == "step" and stride <= 0) or (by == "factor" and (stride <= 1 or first <= 0)) or last < first:
        raise value.wrong(f"{what}: expected from <= to and a step above 0, or a factor above 1 from above 0")
    slack = 1e-9 * abs(last)  # 0.1 + 2 * 0.1 is not to miss 0.3
    numbers = []
    while (number := first + len(numbers) * stride if by == "step" else first * stride ** len(numbers)) <= last + slack:
        numbers.append(number if isinstance(number, int) else float(f"{number:.12g}"))
        if len(numbers) > MOST_RUNS:
            raise value.wrong(f"{what}: more than {MOST_RUNS} values")
    return numbers


def _expression(value: Value, what: str, names_metrics: bool = False) -> Expression:
    text = value.text(what)
    try:
        return Expression(old_names.current(text, f"{value.file}: {what}") if names_metrics else text)
    except ExpressionError as error:
        raise value.wrong(f"{what}: {value.text(what)}: {error}") from error


def _expect_names(value: Value, what: str, expression: Expression, known: set[str]) -> None:
    try:
        expression.check_names(known)
    except ExpressionError as error:
        raise value.wrong(f"{what}: {expression.text}: {error}") from error


def _value(value: Value, what: str, expression: Expression, names: dict[str, object]) -> object:
    try:
        return expression.value(names)
    except ExpressionError as error:
        raise value.wrong(f"{what}: {expression.text}: {error}") from error


def _true(point: SweepPoint, expression: Expression, value: Value) -> bool:
    result = _value(value, "where", expression, point.names)
    if not isinstance(result, bool):
        raise value.wrong(f"where: {expression.text} is {result}, neither true nor false")
    return result

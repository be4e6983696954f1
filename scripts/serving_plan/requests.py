"""The requests of a plan: drawn from lengths and a rate, or those of a trace.

A load of a trace takes its first rows, with their times scaled so that their mean rate is that of the load: bursts, lengths and shared
prefixes stay. What a plan asks beside the traffic itself (prompts alone, prompts of twice the length) is a trace with changed lengths.
"""

import abc
import csv
import datetime
import io
import json
import math
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lib import written, yaml_source
from lib.yaml_source import InputError

MOST_TOKENS = 1 << 24  # of a prompt or an answer, as in a scenario
FOLDER = "traffic"  # of the plan, with changed traces


class Requests(abc.ABC):
    """Requests at any rate, as keys of `workload.requests`."""

    most: float = math.inf  # requests that there are

    @property
    def is_endless(self) -> bool:
        return math.isinf(self.most)

    def prepare(self) -> None:
        """Writes what runs read."""

    @abc.abstractmethod
    def keys(self, rate: float, count: int, every: float = 1.0) -> dict:
        """@param rate  requests per second. @param every  these are every n-th request of drawn ones"""

    @property
    @abc.abstractmethod
    def text(self) -> str:
        """Lengths, in words."""

    @abc.abstractmethod
    def of_prompts(self) -> "Requests":
        """The same with answers of one token."""

    @abc.abstractmethod
    def with_doubled_prompts(self) -> "Requests":
        """The same with prompts of twice the length."""


def doubled(lengths: object) -> object:
    """A number or a distribution of lengths, all of them twice as long."""
    if isinstance(lengths, dict):
        return {key: value if key == "cv_ratio" else doubled(value) for key, value in lengths.items()}
    return 2 * lengths if isinstance(lengths, (int, float)) else lengths


def _lengths(lengths: object) -> str:
    """`1180`, or `lognormal mean 1180 cv_ratio 0.86`."""
    return " ".join(f"{key} {_lengths(value)}" for key, value in lengths.items()) if isinstance(lengths, dict) else str(lengths)


@dataclass(frozen=True)
class Drawn(Requests):
    """Poisson arrivals, and lengths that are numbers or distributions as in a scenario. Every n-th of them has gamma intervals of shape n."""

    prompt: object
    output: object

    def keys(self, rate: float, count: int, every: float = 1.0) -> dict:
        arrivals = {"arrivals": "gamma", "burstiness_ratio": float(f"{every:.4g}")} if every > 1 else {"arrivals": "poisson"}
        return {"count": count, **arrivals, "rate_per_s": rate, "prompt_tokens": self.prompt, "output_tokens": self.output}

    @property
    def text(self) -> str:
        return f"prompts {_lengths(self.prompt)}, answers {_lengths(self.output)} tokens"

    def of_prompts(self) -> "Drawn":
        return replace(self, output=1)

    def with_doubled_prompts(self) -> "Drawn":
        return replace(self, prompt=doubled(self.prompt))


@dataclass(frozen=True)
class _Format:
    """The names of a row's arrival, prompt and answer, and how its arrival is read, in seconds."""

    names: tuple[str, str, str]
    seconds: Callable[[object], float]
    block_tokens: int = 0  # of an id of the prompt's content, where a row does not say it; 0: the format is CSV, without ids


def _instant(text: object) -> float:
    return datetime.datetime.fromisoformat(str(text)).replace(tzinfo=datetime.timezone.utc).timestamp()


FORMATS = {
    "azure": _Format(("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _instant),
    "vidur": _Format(("arrived_at", "num_prefill_tokens", "num_decode_tokens"), float),
    "bailian": _Format(("timestamp", "input_length", "output_length"), float, 16),
    "mooncake": _Format(("timestamp", "input_length", "output_length"), lambda ms: float(ms) * 1e-3, 512),
    "llmservingsim": _Format(("arrival_time_ns", "input_toks", "output_toks"), lambda ns: float(ns) * 1e-9, 1),
}
OF_LISTS = "vidur"  # the format in which a list is written
LIST = ("arrival_s", "prompt_tokens", "output_tokens")  # of a list in YAML or JSON
_SESSION, _IDS, _OF_ANSWER = "sub_requests", {"hash_ids", "input_tok_ids"}, "output_tok_ids"  # rows inside a row; ids of the content
_ACCEPTED = "; ".join(f"{name}: {', '.join(form.names)}" for name, form in FORMATS.items()) + f"; a list of {', '.join(LIST)}"


@dataclass(frozen=True)
class Trace(Requests):
    path: pathlib.Path
    form: str  # of FORMATS
    arrivals_s: tuple[float, ...]
    prompt_mean: float
    output_mean: float
    folder: pathlib.Path  # where changed traces are written
    rows: int
    text_of_list: str = ""  # of a list: what `path` is to hold

    def prepare(self) -> None:
        """Writes the trace of a list."""
        if self.text_of_list:
            self.folder.mkdir(parents=True, exist_ok=True)
            written.text(self.path, self.text_of_list)

    @property
    def most(self) -> int:
        return self.rows

    @property
    def rate_per_s(self) -> float:
        return self._rate(self.rows)

    def _rate(self, count: int) -> float:
        """Of the first rows; of all of them if those come at once."""
        first = self.arrivals_s[:max(2, min(count, len(self.arrivals_s)))]
        span = max(first) - min(first)
        return (len(first) - 1) / span if span > 0 else self._rate(self.rows)

    def keys(self, rate: float, count: int, every: float = 1.0) -> dict:
        return {"format": self.form, "file": str(self.path), "max_count": min(count, self.rows), "rate_scale": float(f"{rate / self._rate(count):.9g}")}

    @property
    def text(self) -> str:
        return f"{self.rows} rows of {self.path.name}, prompts {self.prompt_mean:.0f}, answers {self.output_mean:.0f} tokens on average"

    def of_prompts(self) -> "Trace":
        return self._changed("prompts", 1, lambda _: 1)

    def with_doubled_prompts(self) -> "Trace":
        return self._changed("doubled", 2, lambda tokens: tokens)

    def _changed(self, name: str, factor: int, output: Callable[[int], int]) -> "Trace":
        """@param factor  of prompts"""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.path.stem}-{name}{self.path.suffix}"
        form = FORMATS[self.form]
        _, prompt, answer = form.names

        def change(row: dict) -> dict:
            if _SESSION in row:
                return row | {_SESSION: [change(inner) for inner in row[_SESSION]]}
            lengths = {prompt: factor * int(row[prompt]), answer: output(int(row[answer]))}
            found = row | lengths
            for key in _IDS & set(row):  # prompts with n equal blocks at first have 2 n then
                block = 1 if key == "input_tok_ids" else row.get("hash_block_tokens", form.block_tokens)
                found[key] = [factor * value + i for value in row[key] for i in range(factor)][:-(-lengths[prompt] // block)]
            if _OF_ANSWER in row:
                found[_OF_ANSWER] = row[_OF_ANSWER][:lengths[answer]]
            return found

        text = self.path.read_text(encoding="utf-8")
        if not form.block_tokens:
            table = io.StringIO()
            rows = csv.DictReader(io.StringIO(text))
            writer = csv.DictWriter(table, rows.fieldnames, lineterminator="\n")
            writer.writeheader()
            writer.writerows(map(change, rows))
            text = table.getvalue()
        else:
            text = "".join(json.dumps(change(json.loads(line))) + "\n" for line in text.splitlines() if line.strip())
        written.text(path, text)
        return replace(self, path=path)


def _rows_of_csv(text: str) -> Iterator[tuple[int, dict]]:
    return ((number, row) for number, row in enumerate(csv.DictReader(io.StringIO(text)), 2))


def _rows_of_json(path: pathlib.Path, text: str) -> Iterator[tuple[int, dict]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}:{number}:1: error: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise InputError(f"{path}:{number}:1: error: expected an object on each line")
            yield number, row


def _form_of(path: pathlib.Path, text: str) -> str | None:
    """None: a list. @throws InputError"""
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.lstrip().startswith("{"):
        _, keys = next(_rows_of_json(path, first))
        form = "llmservingsim" if {"input_toks", _SESSION} & set(keys) else "bailian" if "chat_id" in keys else "mooncake" if "timestamp" in keys else ""
    elif first.lstrip().startswith(("-", "[")):
        return None
    else:
        keys = next(csv.reader([first]), [])
        form = next((name for name, known in FORMATS.items() if not known.block_tokens and known.names[0] in keys), "")
    if not form:
        raise InputError(f"{path}:1:1: error: no trace that is known; accepted: {_ACCEPTED}")
    return form


def _tokens(path: pathlib.Path, number: int, row: dict, name: str) -> int:
    if row.get(name) in (None, ""):
        raise InputError(f"{path}:{number}:1: error: {name}: is missing; a plan needs the lengths of all requests")
    try:
        value = int(row[name])
    except (TypeError, ValueError):
        value = 0
    if not 1 <= value <= MOST_TOKENS:
        raise InputError(f"{path}:{number}:1: error: {name}: expected an integer from 1 to {MOST_TOKENS}, got '{row[name]}'")
    return value


def _list(path: pathlib.Path) -> list[tuple[float, int, int]]:
    found = []
    for entry in yaml_source.read(path).list("the traffic"):
        fields = entry.fields("a request", LIST)
        for name in LIST[1:]:
            if name not in fields:
                raise entry.wrong(f"{name}: is missing; a plan needs the lengths of all requests")
        arrival = fields["arrival_s"].number("arrival_s") if "arrival_s" in fields else 0.0
        found.append((float(arrival), *(fields[name].count(name, MOST_TOKENS) for name in LIST[1:])))
    return sorted(found)


def trace_of(path: pathlib.Path, out: pathlib.Path) -> Trace:
    """@param out  folder of the plan. @throws InputError with file, line and column"""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: error: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from error
    form, rows = _form_of(path, text), []
    if form is None:
        rows = _list(path)
    else:
        known = FORMATS[form]
        arrival, prompt, output = known.names
        for number, row in _rows_of_csv(text) if not known.block_tokens else _rows_of_json(path, text):
            for i, inner in enumerate(row.get(_SESSION) or [row]):
                lengths = _tokens(path, number, inner, prompt), _tokens(path, number, inner, output)
                try:
                    at = known.seconds(row[arrival]) if i == 0 and row.get(arrival) is not None else math.nan
                except (TypeError, ValueError) as error:
                    raise InputError(f"{path}:{number}:1: error: {arrival}: '{row[arrival]}' is no time of {form}") from error
                rows.append((at, *lengths))
    arrivals = tuple(at for at, _, _ in rows if not math.isnan(at))
    if len(arrivals) < 2 or max(arrivals) == min(arrivals):
        raise InputError(f"{path}: error: a plan needs requests that arrive at different times")
    means = (sum(row[i] for row in rows) / len(rows) for i in (1, 2))
    folder = (out / FOLDER).resolve()
    if form:
        return Trace(path.resolve(), form, arrivals, *means, folder, len(rows))
    lines = [",".join(FORMATS[OF_LISTS].names), *(f"{arrival!r},{prompt},{output}" for arrival, prompt, output in rows)]
    return Trace(folder / f"{path.stem}.csv", OF_LISTS, arrivals, *means, folder, len(rows), "\n".join(lines) + "\n")

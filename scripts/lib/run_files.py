"""Reads and checks the output files of runs and sweeps. All scripts read these files through this module.

Files may be damaged, truncated, of another version, or of another kind. Each problem raises an Error that names the file in one
line. A shape describes the expected JSON value:

  str, bool, int      of that type
  float               a number, finite
  Maybe(SHAPE)        also null
  Any                 anything
  [SHAPE]             a list of values of this shape
  {"key": SHAPE}      a mapping with at least these keys; "key?" may be missing; {None: SHAPE}: any keys with values of this shape
  a function          called with the value; raises ValueError with the expected form
"""

import csv
import gzip
import json
import math
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any as Anything

LONGEST = 120  # of what is quoted
LARGEST = 1e300  # numbers beyond are no times, rates or sizes; sums of them would overflow
FIELD_BYTES = 1 << 24  # of a CSV table's widest cell


class Error(Exception):
    """A file that cannot be read as what it is to be, in one line."""

    def __init__(self, path: str | os.PathLike, what: str) -> None:
        super().__init__(f"{printable(os.fspath(path))}: {printable(what)}")


class Any:
    """Shape of what is not looked into."""


class Maybe:
    def __init__(self, shape: Anything) -> None:
        self.shape = shape


def printable(text: str) -> str:
    """On one line, without what a terminal would obey or an encoding refuse."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(value: Anything) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


# -- opening

class _Reading:
    """Turns what goes wrong while a file is read into an Error."""

    def __init__(self, path: str | os.PathLike, what: str) -> None:
        self.path = path
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, gzip.BadGzipFile):
            raise Error(self.path, f"not {self.what}: {error}") from error
        if isinstance(error, OSError):
            raise Error(self.path, f"{error.strerror or error}; expected {self.what}") from error
        if isinstance(error, RecursionError):
            raise Error(self.path, "values nested too deeply") from error
        if isinstance(error, (ValueError, EOFError, csv.Error, zlib.error)):
            raise Error(self.path, f"not {self.what}: {error}") from error


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


_JSON = json.JSONDecoder(parse_constant=_refuse_constant)


def json_text(text: str) -> Anything:
    return _JSON.decode(text)


def json_text_of(path: str | os.PathLike, text: str, shape: Anything, where: str) -> Anything:
    """JSON inside of a file."""
    with _Reading(path, where):
        value = json_text(text)
        check(path, value, shape, where)
    return value


def json_file(path: str | os.PathLike, shape: Anything, what: str) -> Anything:
    """@param what  the file is, for messages: "summary of a run" """
    with _Reading(path, what), open(path, encoding="utf-8") as file:
        value = json_text(file.read())
        check(path, value, shape)
    return value


def json_lines(path: str | os.PathLike, shape: Anything, what: str) -> Iterator[Anything]:
    """The values of a file that has one in each line."""
    with _Reading(path, what), open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            yield json_text_of(path, line, shape, f"line {number}")


def lines(path: str | os.PathLike, what: str) -> Iterator[str]:
    """Of a text file packed by gzip."""
    with _Reading(path, what), gzip.open(path, "rt", encoding="utf-8") as file:
        yield from file


def table(path: str | os.PathLike, columns: dict[str, Callable[[str], Anything]], what: str) -> Iterator[dict]:
    """The rows of a CSV table. `columns` are there in every row, and their cells are what the functions make of them; a name that
    ends in * stands for all columns that begin so."""
    csv.field_size_limit(FIELD_BYTES)
    with _Reading(path, what), open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        names = list(reader.fieldnames or ())
        converted = {}
        for wanted, convert in columns.items():
            found = [name for name in names if name == wanted or wanted.endswith("*") and name.startswith(wanted[:-1])]
            if not found and not wanted.endswith("*"):
                raise Error(path, f"no column {wanted}; expected {what}")
            converted |= dict.fromkeys(found, convert)
        for row in reader:
            if None in row or None in row.values():
                raise Error(path, f"line {reader.line_num}: not as many cells as columns")
            for name, convert in converted.items():
                try:
                    row[name] = convert(row[name])
                except ValueError as error:
                    raise Error(path, f"line {reader.line_num}: {name}: {error}") from error
            yield row


# -- cells of tables

def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) < LARGEST:
        raise ValueError(f"{shown(text)} is no number")
    return value


def whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > LONGEST:
        raise ValueError(f"{shown(text)} is no whole number")
    return int(text)


def maybe(convert: Callable[[str], Anything]) -> Callable[[str], Anything]:
    """None for an empty cell."""
    return lambda text: convert(text) if text else None


# -- shapes

NAMES = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


class _Misfit(Exception):
    """What is wrong with a value, and the keys and places that lead to it, innermost first."""

    def __init__(self, what: str, name: str = "") -> None:
        super().__init__()
        self.what = what
        self.name = name  # of the value, if no key leads to it
        self.way: list[str | int] = []


def check(path: str | os.PathLike, value: Anything, shape: Anything, where: str = "") -> None:
    """@throws Error that says where in the file"""
    try:
        _fit(value, shape)
    except _Misfit as misfit:
        for step in reversed(misfit.way):
            where = f"{where}[{step}]" if isinstance(step, int) else f"{where}.{step}".lstrip(".")
        place = where or misfit.name
        raise Error(path, f"{place + ': ' if place else ''}{misfit.what}; written by another version of Railyard?") from misfit.__cause__


def _fit(value: Anything, shape: Anything) -> None:
    if shape is float or shape is int:
        right = isinstance(value, int if shape is int else (int, float)) and not isinstance(value, bool)
        if not right or not abs(value) < LARGEST:
            raise _expected(NAMES[shape], value)
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            raise _expected("a mapping", value)
        for key, of_key in shape.items():
            if key is None:
                for name, item in value.items():
                    _fit_member(name, item, of_key)
                continue
            name = key.removesuffix("?")
            if name in value:
                _fit_member(name, value[name], of_key)
            elif not key.endswith("?"):
                raise _Misfit(f"has no {key}")
    elif isinstance(shape, type):
        if shape is not Any and not isinstance(value, shape):
            raise _expected(NAMES[shape], value)
    elif isinstance(shape, Maybe):
        if value is not None:
            _fit(value, shape.shape)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise _expected("a list", value)
        for index, item in enumerate(value):
            _fit_member(index, item, shape[0])
    else:
        try:
            shape(value)
        except ValueError as error:
            raise _expected(str(error), value) from error


def _fit_member(place: str | int, value: Anything, shape: Anything) -> None:
    try:
        _fit(value, shape)
    except _Misfit as misfit:
        misfit.way.append(place)
        raise


def _expected(what: str, value: Anything) -> _Misfit:
    return _Misfit(f"expected {what}, got {shown(value)}", "the file")

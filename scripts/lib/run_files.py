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


def json_text(text: str) -> Anything:
    return json.loads(text, parse_constant=_refuse_constant)


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


def check(path: str | os.PathLike, value: Anything, shape: Anything, where: str = "") -> None:
    """@throws Error that says where in the file"""
    if shape is Any or isinstance(shape, Maybe) and value is None:
        return

    def expected(what: str) -> Error:
        return Error(path, f"{where or 'the file'}: expected {what}, got {shown(value)}; written by another version of Railyard?")

    if isinstance(shape, Maybe):
        check(path, value, shape.shape, where)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise expected("a list")
        for index, item in enumerate(value):
            check(path, item, shape[0], f"{where}[{index}]")
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            raise expected("a mapping")
        for key, of_key in shape.items():
            if key is None:
                for name, item in value.items():
                    check(path, item, of_key, f"{where}.{name}".lstrip("."))
            elif key.rstrip("?") in value:
                check(path, value[key.rstrip("?")], of_key, f"{where}.{key.rstrip('?')}".lstrip("."))
            elif not key.endswith("?"):
                raise Error(path, f"{f'{where}: ' if where else ''}has no {key}; written by another version of Railyard?")
    elif shape in (int, float):
        right = isinstance(value, int if shape is int else (int, float)) and not isinstance(value, bool)
        if not right or not abs(value) < LARGEST:
            raise expected(NAMES[shape])
    elif isinstance(shape, type):
        if not isinstance(value, shape):
            raise expected(NAMES[shape])
    else:
        try:
            shape(value)
        except ValueError as error:
            raise expected(str(error)) from error

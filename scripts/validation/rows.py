"""Tables of measured rows: CSV files with the columns of one of the collections under validation/.

Required columns are `id category system metric value unit`. Further columns describe the measurement; each kind of measurement has its
own. `value` is the number as printed in its source, in `unit`.
"""

import csv
import math
import re
from dataclasses import dataclass

REQUIRED = ("id", "category", "system", "metric", "value", "unit")

ABSENT = ("", "na", "n/a", "-", "none")
NO = (*ABSENT, "false", "no", "off", "0", "disabled")

# One of each unit in seconds, or in bytes per second. perftest prints MB/s but means MiB/s; everywhere else a GB is 1e9 bytes.
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
BYTES_PER_SECOND = {
    "GB/s": 1e9,
    "MB/s": 1e6,
    "TB/s": 1e12,
    "GiB/s": 2.0**30,
    "MiB/s": 2.0**20,
    "MB/s(perftest MiB/s)": 2.0**20,
    "Gb/s": 1e9 / 8,
    "Mb/s": 1e6 / 8,
}


class InputError(Exception):
    """A table that cannot be read; the message is one line."""


class Unmapped(Exception):
    """A row that cannot become an experiment; the message is the reason."""


class Incomparable(Unmapped):
    """A row that no model can be compared with, for a reason of its measurement (set_aside.py)."""


@dataclass(frozen=True)
class Row:
    """One measured value, with its columns as text; a column that its table lacks is empty."""

    file: str
    line: int
    columns: dict
    value: float  # nan: the table has no number there

    def __getitem__(self, column: str) -> str:
        return self.columns.get(column, "")

    def text(self, *columns: str) -> str:
        """The named columns, for rules that look for words."""
        return " | ".join(filter(None, (self[column] for column in columns)))

    def integer(self, column: str) -> int | None:
        """@return the integer in the column, None if it is empty; @throws Unmapped for anything else"""
        text = self[column].strip()
        if text.lower() in ABSENT:
            return None
        try:
            number = float(text.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", text) else text)
        except ValueError:
            number = 0.5
        if not number.is_integer() or number < 0:
            raise Unmapped(f"{column} '{text}' is no whole number")
        return int(number)

    def mean(self, column: str) -> int | None:
        """A mean as the nearest whole number, None if the column is empty; @throws Unmapped for anything else"""
        text = self[column].strip()
        if re.fullmatch(r"\d+\.\d+", text):
            return round(float(text))
        return self.integer(column)

    def flag(self, column: str) -> bool:
        """Whether the column says yes: tables write False, 0, no, off, or nothing for the opposite."""
        return self[column].strip().lower() not in NO

    def scale(self, units: dict) -> float:
        """The value of one unit of the row; @throws Unmapped if `units` lacks the unit"""
        if self["unit"] not in units:
            raise Unmapped(f"unit '{self['unit']}' of {self['metric']}: expected one of " + ", ".join(units))
        return units[self["unit"]]


def read(path: str) -> list[Row]:
    """The rows of a table. @throws InputError naming file, line and column"""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return list(_rows(path, csv.reader(file, strict=True)))
    except OSError as error:
        raise InputError(f"{path}: error: {error.strerror}; expected a CSV file of measured rows") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: error: byte {error.start} is not UTF-8; expected a CSV file of measured rows") from error


def _rows(path, reader):
    try:
        header = next(reader, None)
        if not header:
            raise InputError(f"{path}:1:1: error: no header; expected columns " + ", ".join(REQUIRED) + " and others")
        for column in REQUIRED:
            if column not in header:
                raise InputError(f"{path}:1:1: error: no column '{column}'; expected {', '.join(REQUIRED)} and others")
        twice = next((column for i, column in enumerate(header) if column in header[:i]), None)
        if twice is not None:
            raise InputError(f"{path}:1:1: error: column '{twice}' twice")
        for cells in reader:
            if cells:
                yield _row(path, reader.line_num, header, cells)
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}:1: error: {error}; expected comma-separated values") from error


def _row(path, line, header, cells):
    if len(cells) != len(header):
        raise InputError(f"{path}:{line}:{min(len(cells), len(header))}: error: {len(cells)} cells; expected {len(header)}, as in the header")
    columns = dict(zip(header, cells))
    try:
        value = float(columns["value"])
    except ValueError:
        value = math.nan  # this row is skipped alone
    return Row(path, line, columns, value)

"""The database of a sweep, for those who only read it; store.py says what is in it."""

import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator

DATABASE = "results.sqlite"
SCHEMA_VERSION = 1
FIRST_COLUMNS = ("position", "id", "platform", "seed", "status", "error", "directory", "kind", "model", "objective")


class DatabaseError(Exception):
    """A database that cannot be read, in one line."""


def is_sweep(directory: pathlib.Path) -> bool:
    return (directory / DATABASE).exists()


@contextlib.contextmanager
def opened(directory: pathlib.Path) -> Iterator[sqlite3.Connection]:
    """Of the sweep in this directory. @throws DatabaseError, also for what goes wrong inside"""
    path = directory / DATABASE
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            version = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
            if version != (str(SCHEMA_VERSION),):
                raise DatabaseError(f"{path}: schema_version is not {SCHEMA_VERSION}; written by another version of Railyard?")
            yield connection
    except sqlite3.Error as error:
        raise DatabaseError(f"{path}: {error}") from error

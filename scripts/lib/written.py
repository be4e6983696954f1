"""Writes the output files of scripts. An error names the file, which the system does not tell when a disk is full, and nothing half-written stays."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Errors of files inside say this path."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


@contextlib.contextmanager
def table(path: str | os.PathLike) -> Iterator[TextIO]:
    """A text file that appears when it is whole, and replaces one of that name. What is no file, as /dev/stdout, is written directly."""
    final = pathlib.Path(path).resolve()
    direct = final.exists() and not final.is_file()
    scratch = final if direct else final.with_name(f".{final.name}")
    with naming(path):
        try:
            with open(scratch, "w", encoding="utf-8", newline="") as file:
                yield file
            if not direct:
                scratch.replace(final)
        except BaseException:
            if not direct:
                scratch.unlink(missing_ok=True)
            raise


def text(path: str | os.PathLike, content: str) -> None:
    with table(path) as file:
        file.write(content)


@contextlib.contextmanager
def folder(path: pathlib.Path) -> Iterator[None]:
    """The folder is there. After an error, it and its new parents are gone again unless something was kept in them."""
    new = [place for place in (path, *path.parents) if not place.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for place in new:
                place.rmdir()
        raise

"""A YAML file in which every value has its position, for one-line errors.

Scalars are read by the rules of YAML 1.2, as in the executables: `1e6` is a number, `on` and `2020-01-01` are text.
"""

import math
import os
import pathlib
import re
from collections.abc import Iterable, Iterator

import yaml

from .words import nearest


class InputError(Exception):
    """A one-line error about the input."""


class _Loader(yaml.SafeLoader):  # pylint: disable=too-many-ancestors
    yaml_implicit_resolvers: dict = {}


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
     list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})\\Z"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value, 16 if node.value.startswith("0x") else 10))
_Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: float(re.sub(r"\.(inf|nan)", r"\1", node.value.lower())))


class Value:
    """A value of a file: a scalar, a list or a mapping."""

    def __init__(self, file: str, node: yaml.Node) -> None:
        self.file = file
        self.node = node

    def wrong(self, message: str) -> InputError:
        mark = self.node.start_mark
        return InputError(f"{self.file}:{mark.line + 1}:{mark.column + 1}: error: {message}")

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    def plain(self) -> object:
        """The value as Python's None, bool, int, float, str, list and dict."""
        try:
            return _Loader("").construct_object(self.node, deep=True)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise self.wrong(f"not a value: {str(error).splitlines()[0]}") from error

    def items(self, what: str) -> Iterator[tuple[str, "Value", "Value"]]:
        """The entries of a mapping: key, position of the key, value."""
        if not self.is_mapping:
            raise self.wrong(f"{what}: expected a mapping")
        seen = set()
        for key, value in self.node.value:
            where = Value(self.file, key)
            if not isinstance(key, yaml.ScalarNode):
                raise where.wrong(f"{what}: a key must be text")
            if key.value in seen:
                raise where.wrong(f"{what}: '{key.value}' is given twice")
            seen.add(key.value)
            yield key.value, where, Value(self.file, value)

    def fields(self, what: str, accepted: Iterable[str]) -> dict[str, "Value"]:
        """The entries of a mapping with a fixed set of keys."""
        fields = {}
        for key, where, value in self.items(what):
            if key not in accepted:
                raise where.wrong(f"{what}: unknown key '{key}'{nearest(key, accepted)}; accepted: {', '.join(accepted)}")
            fields[key] = value
        return fields

    def list(self, what: str) -> list["Value"]:
        if not self.is_list:
            raise self.wrong(f"{what}: expected a list")
        return [Value(self.file, node) for node in self.node.value]

    def text(self, what: str) -> str:
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value:
            raise self.wrong(f"{what}: expected text")
        return self.node.value

    def number(self, what: str) -> int | float:
        value = None if self.is_mapping or self.is_list else self.plain()
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.wrong(f"{what}: expected a number")
        return value

    def count(self, what: str, most: int) -> int:
        value = self.number(what)
        if not isinstance(value, int) or not 1 <= value <= most:
            raise self.wrong(f"{what}: expected an integer from 1 to {most}")
        return value


def read(path: str | os.PathLike) -> Value:
    """@throws InputError if the file cannot be read, or is not YAML"""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: error: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: error: not UTF-8 text") from error
    return parse(text, str(path))


def parse(text: str, file: str) -> Value:
    try:
        node = yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"{where}: error: not YAML: {what}") from error
    except RecursionError as error:
        raise InputError(f"{file}: error: nested too deeply") from error
    if node is None:
        raise InputError(f"{file}: error: empty")
    return Value(file, node)


def leaves(value: Value, prefix: str = "") -> Iterator[tuple[str, object]]:
    """The scalars of a scenario, by key in the format of --set."""
    if value.is_mapping:
        for key, _, entry in value.items(prefix or "scenario"):
            yield from leaves(entry, f"{prefix}.{key}" if prefix else key)
    elif value.is_list:
        for index, entry in enumerate(value.list(prefix)):
            yield from leaves(entry, f"{prefix}.{index}")
    else:
        yield prefix, value.plain()


def settings_of(program: str, texts: Iterable[str]) -> dict[str, object]:
    """KEY=VALUE, as an executable's --set takes it. @throws InputError"""
    found = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InputError(f"{program}: error: --set {text}: not KEY=VALUE")
        found[key] = parse(value, "--set").plain() if value else ""
    return found

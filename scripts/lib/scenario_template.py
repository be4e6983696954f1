"""Makes a commented scenario from the JSON Schema: given keys are set; all other keys are comments with their defaults.

`given` maps keys, written as for --set, to the text of their values.
"""

import json
import pathlib
import re
import textwrap
from collections.abc import Iterator

from .keys import alternatives

COMMENT_COLUMN = 40
WIDTH = 128
WITHOUT_MODEL = ("collective", "p2p", "kernel")  # kinds that run no model
HIDDEN = ("overrides",)  # too many to list: docs/scenario-reference.md has them


def platforms(schema_file: pathlib.Path) -> list[str]:
    return json.loads(schema_file.read_text(encoding="utf-8"))["properties"]["platform"]["enum"]


def _fits(node: dict, path: str, given: dict[str, str]) -> bool:
    """Whether an alternative has all the keys that are given below it, and the workload's kind."""
    below = {key[len(path) + 1 :].split(".")[0] for key in given if key.startswith(path + ".")}
    kind = node.get("properties", {}).get("kind", {}).get("enum")
    if path == "workload" and kind and "workload.kind" in given and given["workload.kind"] not in kind:
        return False
    return below <= set(node.get("properties", {})) or isinstance(node.get("additionalProperties"), dict)


def _mapping(node: dict, path: str, given: dict[str, str]) -> dict | None:
    """The alternative to describe, where it is a mapping; None for a plain value."""
    if path in given:
        return None
    mappings = [part for part in alternatives(node) if part.get("type") == "object"]
    if len(mappings) < len(list(alternatives(node))) and not any(key.startswith(path + ".") for key in given):
        return None  # a value, or now and then a mapping
    return next((part for part in mappings if _fits(part, path, given)), None)


def _find(schema: dict, key: str, given: dict[str, str]) -> dict:
    node, path = schema, ""
    for word in key.split("."):
        part = _mapping(node, path, given) if path else node
        node = (part or {}).get("properties", {}).get(word, {})
        path = f"{path}.{word}" if path else word
    return node


def accepted(schema: dict, key: str, given: dict[str, str] | None = None) -> list[str]:
    """The words that a key may have; none where it has other values."""
    if key == "workload.kind":
        return [part["properties"]["kind"]["enum"][0] for part in alternatives(schema["properties"]["workload"])]
    return [str(value) for value in _find(schema, key, given or {}).get("enum", [])]


def description(schema: dict, key: str, given: dict[str, str] | None = None) -> str:
    return _find(schema, key, given or {}).get("description", "")


def required(schema: dict, given: dict[str, str]) -> Iterator[str]:
    """Keys that are missing, with those that become required by the ones given."""
    def look(node: dict, path: str) -> Iterator[str]:
        part = _mapping(node, path, given) if path else node
        if part is None:
            return
        for word in part.get("required", ()):
            below = f"{path}.{word}" if path else word
            child = part["properties"][word]
            if below in given:
                continue
            if _mapping(child, below, given) is not None:
                yield from look(child, below)
            else:
                yield below

    if given["workload.kind"] not in WITHOUT_MODEL:
        yield from look(schema["properties"]["model"], "model")
    yield from look(schema["properties"]["workload"], "workload")


def _literal(default: str, node: dict) -> bool:
    """Whether a default is a value, not words about one."""
    words = [value for part in alternatives(node) for value in part.get("enum", [])]
    return bool(re.fullmatch(r"-?\d+(\.\d+)?|true|false|null", default)) or default in words


class _Writer:
    def __init__(self, given: dict[str, str]) -> None:
        self.given = given

    def entry(self, key: str, node: dict, path: str, indent: int) -> tuple[list[str], bool]:
        """The lines of a key, and whether any of them is set."""
        part = _mapping(node, path, self.given)
        doc, _, default = node.get("description", "").partition("; default ")
        default, _, source = default.partition("; ")
        if part is not None:
            lines, active = self.mapping(part, path, indent + 2)
            if not lines and default:
                doc += f"; default {default}"
            return self._line(f"{key}:", doc, indent, active) + lines, active
        words = [str(value) for value in node.get("enum", [])]
        if len(words) > 1:
            doc += f": {' | '.join(words)}"
        if path in self.given:
            return self._line(f"{key}: {self.given[path]}", doc, indent, True), True
        if _literal(default, node):
            key += f": {default}"
        else:
            key += ":"
            doc += f"; default {default}" if default else ""
        return self._line(key, f"{doc}; {source}" if source else doc, indent, False), False

    def mapping(self, part: dict, path: str, indent: int) -> tuple[list[str], bool]:
        lines, active = [], False
        properties = dict(part.get("properties", {}))
        if isinstance(part.get("additionalProperties"), dict):  # names that the user chooses
            names = dict.fromkeys(key[len(path) + 1 :].split(".")[0] for key in self.given if key.startswith(path + "."))
            properties |= {name: part["additionalProperties"] for name in names}
        first = ["kind", *part.get("required", ())]
        for key in sorted(properties, key=lambda key: (first.index(key) if key in first else len(first), key)):
            below = f"{path}.{key}"
            added, is_set = self.entry(key, properties[key], below, indent)
            if is_set or not any(word in HIDDEN for word in below.split(".")):
                lines += added
            active |= is_set
        return lines, active

    @staticmethod
    def _line(text: str, doc: str, indent: int, active: bool) -> list[str]:
        text = " " * indent + ("" if active else "# ") + text
        if not doc:
            return [text]
        margin = max(COMMENT_COLUMN, len(text) + 2)
        first, *more = textwrap.wrap(doc, max(40, WIDTH - margin - 2))
        return [f"{text:<{margin}}# {first}"] + [f"{'':<{margin}}# {line}" for line in more]


def scenario(schema: dict, given: dict[str, str], schema_path: str) -> str:
    given = {"schema_version": "1"} | given
    writer = _Writer(given)
    lines = [f"# yaml-language-server: $schema={schema_path}", "#",
             "# Lines that begin with # are not set; the value they show is the default."]
    order = ["schema_version", "platform", "seed", "model", "machine", "workload"]
    properties = schema["properties"]
    for key in order + [key for key in properties if key not in order]:
        if key == "model" and given["workload.kind"] in WITHOUT_MODEL:
            continue
        added, _ = writer.entry(key, properties[key], key, 0)
        lines += ([""] if len(added) > 1 else []) + added
    return "\n".join(lines) + "\n"

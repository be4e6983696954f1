"""Keys of scenarios, from the JSON Schema that the executables print; and the keys whose values are input files or folders."""

import json
import pathlib
import re
import subprocess
from collections.abc import Iterator

from .words import nearest
from .yaml_source import InputError


FOLDERS = ("compute.profile",)  # keys whose value is a folder
_FILE = re.compile(r"\.(json|jsonl|csv|txt|yaml|yml)$")


def names_input(key: str, value: object) -> bool:
    """Whether the value of a key is a path."""
    return isinstance(value, str) and (key in FOLDERS or _FILE.search(value) is not None)


def schema(executable: pathlib.Path) -> dict:
    done = subprocess.run([str(executable), "--schema"], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise InputError(f"{executable}: error: prints no schema; is this a platform executable?") from error


def alternatives(node: dict) -> Iterator[dict]:
    """The alternatives of a schema, or the schema if it has none."""
    choices = node.get("oneOf") or node.get("anyOf")
    for choice in choices or ():
        yield from alternatives(choice)
    if not choices:
        yield node


def unknown(node: dict, key: str) -> str | None:
    """The error in a key in the format of --set (a.b.c, a.0.b); None if a scenario can have this key."""
    level = [node]
    words = key.split(".")
    for depth, word in enumerate(words):
        known: dict[str, None] = {}
        below = []
        for part in (part for node in level for part in alternatives(node)):
            properties = part.get("properties", {})
            known |= dict.fromkeys(properties)
            if word in properties:
                below.append(properties[word])
            elif isinstance(part.get("additionalProperties"), dict):
                below.append(part["additionalProperties"])
            elif word.isdigit() and "items" in part:
                below.append(part["items"])
        if not below:
            accepted = f"; accepted: {', '.join(known)}" if known else ""
            return f"{'.'.join(words[:depth + 1])}: unknown key{nearest(word, known)}{accepted}"
        level = below
    return None

"""Mutations of trees (by the grammar of each key), of text (byte by byte), and of whole files."""

import copy
import json
import math
import pathlib
import random
from collections.abc import Iterator

Key = tuple[str, ...]

NUMBERS = (0, -0.0, 1, -1, 2, 3, 7, 63, 64, 65, 100, 255, 1023, 4097, 65535, 2**16, 2**24, 2**31, 2**32, 2**53, 2**63, 2**64, 10**30, -(2**63),
           0.1, 0.5, 1.5, 1e-3, 1e-6, 1e-9, 1e-12, 1e-30, 1e-300, 5e-324, 1e3, 1e6, 1e9, 1e12, 1e18, 1e30, 1e300, 1.7976931348623157e308)
WORDS = ("", "auto", "none", "null", "~", "true", "nan", ".nan", "inf", "-.inf", "0x10", "1_000", "1e", "..", "/", "a/../b", "tp", "café",
         "\u4e2d\u6587", "\u202e", "\u2028", "x" * 70, "y" * 3000, "a b", "'", '"', "{", "}", "%s%n", "\\", "--set", "*x", "&x", "!!int 3", "<<")
TELLING = b"{}[]:,-?*&!|>'\"%@#~ \n\t0123456789.e+\\"
BYTES = (b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x1b[31m", b"\x7f", b"\r", b"\x85", b"\xf4\x90\x80\x80")


class Grammar:
    """The keys of scenarios, from the JSON Schema that an executable prints."""

    def __init__(self, schema: dict) -> None:
        self.leaves = list(_leaves(schema, ()))

    def setting(self, rng: random.Random) -> tuple[Key, object]:
        """A key and a value. Most values have the right type and are at or near the bounds of the key."""
        key, leaf = rng.choice(self.leaves)
        names = ("node", "prefill", "decode")
        return tuple(rng.choice(names) if word == "*" else word for word in key), value_of(leaf, rng)


def _alternatives(node: dict) -> Iterator[dict]:
    choices = node.get("oneOf") or node.get("anyOf")
    for choice in choices or ():
        yield from _alternatives(choice)
    if not choices:
        yield node


def _leaves(node: dict, key: Key) -> Iterator[tuple[Key, dict]]:
    for part in _alternatives(node):
        below = dict(part.get("properties", {}))
        if isinstance(part.get("additionalProperties"), dict):
            below["*"] = part["additionalProperties"]
        if isinstance(part.get("items"), dict) and "properties" in part["items"]:
            below["0"] = part["items"]
        for word, child in below.items():
            yield from _leaves(child, (*key, word))
        if not below and key:
            yield key, part


def value_of(leaf: dict, rng: random.Random) -> object:
    if rng.random() < 0.15:
        return anything(rng)
    if "enum" in leaf:
        return rng.choice(leaf["enum"])
    if "const" in leaf:
        return leaf["const"]
    kind = leaf.get("type")
    if kind in ("number", "integer"):
        least, most = leaf.get("minimum", leaf.get("exclusiveMinimum", 0)), leaf.get("maximum", 1e15)
        if least > 0 and rng.random() < 0.5:
            number = least * (most / least) ** rng.random()
        else:
            number = rng.choice([least, most, least + (most - least) * rng.random() ** 8, min(most, max(least, rng.choice(NUMBERS)))])
        if rng.random() < 0.1:
            number = rng.choice([math.nextafter(least, -math.inf), most * 1.01 + 1, rng.choice(NUMBERS)])
        return round(number) if kind == "integer" and abs(number) < 1e300 else number
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "array":
        return [value_of(leaf.get("items", {}), rng) for _ in range(rng.choice((0, 1, 2, 3, 8)))]
    return anything(rng)


def anything(rng: random.Random) -> object:
    return rng.choice([rng.choice(NUMBERS), rng.choice(NUMBERS), rng.choice(WORDS), rng.choice(WORDS), None, True, False, [], {}, [[]], [1, 2], {"a": 1}])


def with_key(tree: object, key: Key, value: object) -> object:
    """A copy in which the key has this value, as after --set."""
    if not key:
        return value
    if isinstance(tree, list):
        index = int(key[0]) if key[0].isdigit() else 0
        items = list(tree) or [{}]
        items[index % len(items)] = with_key(items[index % len(items)], key[1:], value)
        return items
    if key[0] == "0" and not isinstance(tree, dict):
        return [with_key({}, key[1:], value)]
    level = dict(tree) if isinstance(tree, dict) else {}
    level[key[0]] = with_key(level.get(key[0]), key[1:], value)
    return level


def places(tree: object, at: tuple = ()) -> Iterator[tuple]:
    """The paths of all values in a tree."""
    yield at
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield from places(child, (*at, key))


def at(tree: object, place: tuple) -> object:
    for key in place:
        tree = tree[key]
    return tree


def tree(rng: random.Random, value: object) -> object:
    """A copy in which one value is replaced, removed, doubled, renamed or moved."""
    made = copy.deepcopy(value)
    found = [place for place in places(made) if place]
    if not found:
        return anything(rng)
    place = rng.choice(found)
    parent, key = at(made, place[:-1]), place[-1]
    match rng.randrange(6):
        case 0:
            parent[key] = anything(rng)
        case 1 if isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
            parent[key] = parent[key] * rng.choice((0, -1, 0.5, 2, 10, 1000, 1e-9)) + rng.choice((0, 0, 1, -1))
        case 2:
            del parent[key]
        case 3:
            parent[key] = copy.deepcopy(at(made, rng.choice(found)))
        case 4 if isinstance(parent, dict):
            word = str(key)
            cut = rng.randrange(len(word) + 1)
            parent[word[:cut] + rng.choice(("", "_", "s", "x" * 80, "\n", "é")) + word[cut + 1:]] = parent.pop(key)
        case _:
            if isinstance(parent, list):
                parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[key]))
            else:
                parent[rng.choice(WORDS) or "k"] = copy.deepcopy(parent[key])
    return made


def text(rng: random.Random, content: bytes) -> bytes:
    """A few edits: bytes changed, inserted or removed, spans copied from other places, numbers replaced, the end cut off."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        here = rng.randrange(len(content) + 1)
        match rng.randrange(8):
            case 0:
                content = content[:here] + bytes([rng.choice(TELLING)]) + content[here:]
            case 1:
                content = content[:here] + rng.choice(BYTES) + content[here + rng.randrange(3):]
            case 2:
                content = content[:here] + content[here + rng.randrange(12):]
            case 3:
                start = rng.randrange(len(content) + 1)
                content = content[:here] + content[start : start + rng.randrange(60)] + content[here:]
            case 4:
                content = content[:here]
            case 5:
                content = content[:here] + bytes([rng.randrange(256)]) + content[here + 1:]
            case 6:
                content = content[:here] + repr(rng.choice(NUMBERS)).encode() + content[here:]
            case _:
                lines = content.split(b"\n")
                line = rng.randrange(len(lines))
                lines.insert(rng.randrange(len(lines) + 1), lines[line] if rng.random() < 0.5 else lines.pop(line))
                content = b"\n".join(lines)
    return content


def whole_file(rng: random.Random, path: pathlib.Path) -> str:
    """Replaces the file: by a folder, a link, or other content, for example. @return a description of the replacement"""
    content = path.read_bytes()
    path.unlink()
    what = rng.choice(("missing", "empty", "folder", "loop", "dangling", "noise", "long line", "nul", "unreadable words", "twice", "deep"))
    match what:
        case "empty":
            path.touch()
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
        case "dangling":
            path.symlink_to("nowhere")
        case "noise":
            path.write_bytes(rng.randbytes(rng.randrange(1, 400)))
        case "long line":
            path.write_bytes(content.replace(b"\n", b" ") + b"x" * (1 << 20))
        case "nul":
            path.write_bytes(content[: len(content) // 2] + b"\0" + content[len(content) // 2 :])
        case "unreadable words":
            path.write_bytes(content.replace(b"e", b"\xe9"))
        case "twice":
            path.write_bytes(content + content)
        case "deep":
            path.write_bytes(b"[" * 5000 + b"]" * 5000)
    return what


def dumped(rng: random.Random, value: object) -> bytes:
    """A tree as JSON text, compact or indented, with keys in the same or another order."""
    if isinstance(value, dict) and rng.random() < 0.2:
        items = list(value.items())
        rng.shuffle(items)
        value = dict(items)
    return json.dumps(value, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")

"""Includes point downwards: from a folder to those above it in the table of docs/architecture.md, and inside transport, inference and training by
their layers. Python's commands import rooms, and rooms import scripts/lib.

Then an edit of a header rebuilds what stands on it and nothing else."""

import ast
import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^#include "(.+)"', re.MULTILINE)
ROOMS = {"inference": ["requests", "kv", "routing", "scheduler", "engine", "service"], "training": ["schedule", "plan", "memory", "run"]}
TRANSPORT = [{"link"}, {"device"}, {"fluid", "study"}, {"faults", "recovery"}, {"quiet_watch", "horizon"}, {"fabric"}, {"assembly"}, {"edge"}]


def folders():
    """The folders of the architecture page, lowest first, as includes name them."""
    rows = re.findall(r"^\| (`(?:models/|platforms|sc_main).*?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    return [name.removeprefix("models/") for row in rows for name in re.findall(r"`(.+?)`", row)]


FOLDERS = folders()


def sources(folder):
    """The C++ files of a folder, by the path that includes have."""
    top = ROOT / "models" if (ROOT / "models" / folder).is_dir() else ROOT
    files = [path for path in sorted((top / folder).rglob("*")) if path.suffix in (".h", ".cpp")]
    return {path.relative_to(top).as_posix(): INCLUDE.findall(path.read_text()) for path in files}


def layer(path):
    """The layer of a file of transport, and its part of the layer."""
    part = path.split("/")[1].split(".")[0]
    return next(number for number, parts in enumerate(TRANSPORT) if part in parts), part


def test_page_names_every_folder():
    names = {path.name for path in (ROOT / "models").iterdir() if path.is_dir()}
    assert set(FOLDERS) == names | {"platforms", "sc_main"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_include_those_above_them(folder):
    later = FOLDERS[FOLDERS.index(folder) + 1 :]
    upwards = [(path, name) for path, names in sources(folder).items() for name in names if name.split("/")[0] in later]
    assert not upwards


def test_layers_of_transport_include_lower_ones():
    upwards = []
    for path, names in sources("transport").items():
        number, part = layer(path)
        for name in names:
            if name.startswith("transport/"):
                other, other_part = layer(name)
                if other > number or (other == number and other_part != part):
                    upwards.append((path, name))
    assert not upwards


@pytest.mark.parametrize("part", ROOMS)
def test_rooms_of_a_workload_include_earlier_ones(part):
    upwards = []
    for path, names in sources(f"workload/{part}").items():
        room = ROOMS[part].index(path.split("/")[2])
        for name in names:
            if name.startswith(f"workload/{part}/") and ROOMS[part].index(name.split("/")[2]) > room:
                upwards.append((path, name))
    assert not upwards


def test_architectures_are_named_in_one_table():
    """The rooms ask for what an architecture has."""
    table = ROOT / "models" / "gpu" / "architecture.h"
    names = re.search(r"kArchitectureNames\{(.+?)\}", table.read_text(), re.DOTALL).group(1)
    named = re.compile("|".join(re.findall(r'"\w+"', names)))
    rooms = [path for room in ("models", "platforms", "sc_main") for path in (ROOT / room).rglob("*") if path.suffix in (".h", ".cpp")]
    assert [path.name for path in rooms if named.search(path.read_text())] == [table.name]


def imports(path):
    """Modules that a Python file imports, with dots; a relative import begins with one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def test_files_of_scripts_are_commands():
    for path in sorted((ROOT / "scripts").iterdir()):
        assert path.is_dir() or (os.access(path, os.X_OK) and path.read_bytes().startswith(b"#!")), path


def test_rooms_of_scripts_import_no_command_and_lib_no_room():
    scripts = ROOT / "scripts"
    commands = {path.stem for path in scripts.iterdir() if path.suffix == ".py"}
    rooms = {path.name for path in scripts.iterdir() if path.is_dir()} - {"lib"}
    wrong = []
    for path in sorted(scripts.rglob("*.py")):
        refused = commands | (rooms if path.parent.name == "lib" else set())
        wrong += [(path.name, name) for name in imports(path) if name.split(".")[0] in refused]
    assert not wrong


def rooms():
    """The folders with C++ headers."""
    return sorted({path.parent for top in ("models", "platforms", "sc_main") for path in (ROOT / top).rglob("*.h")})


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.relative_to(ROOT).as_posix())
def test_a_room_has_an_opening_header(room):
    """One header begins with what the room is, its classes and who calls whom. Headers that it names exist."""
    opening = re.compile(rf"^// The room `{room.name}` (?:.+\n)+?(?=//\n|#pragma)", re.MULTILINE)
    openings = [opening.search(path.read_text().partition("#pragma once")[0] + "#pragma once") for path in sorted(room.glob("*.h"))]
    texts = [found[0] for found in openings if found]
    assert len(texts) == 1 and 2 <= texts[0].count("\n") <= 12
    for name in re.findall(r"\b[\w/]+\.h\b", texts[0]):
        assert any((folder / name).exists() for folder in (room, ROOT, ROOT / "models", room.parent, *room.iterdir())), name


def names_of_a_unit(text):
    """What a unit's unnamed namespaces define and its `using` declarations name, each with the namespace around it."""
    around = ", ".join(re.findall(r"^namespace (\S+) \{", text, re.MULTILINE))
    for word, name in re.findall(r"^using ([\w:]*?)(\w+);", text, re.MULTILINE):
        yield around, "using", name, word
    for name, type_ in re.findall(r"^using (\w+) = ([^;]+);", re.sub(r"^namespace \{\n.*?^\}  // namespace$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE):
        yield around, "using", name, f"{type_} as "
    for block in re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.MULTILINE | re.DOTALL):
        for line in re.findall(r"^(?:inline )?(?:constexpr|const|static) [^;({]*?;", block, re.MULTILINE):
            for name in re.findall(r"(\w+) =", line):
                yield around, "constant", name, ""
        for enumerators in re.findall(r"^enum (?!class)[^{;]*\{([^}]*)\}", block, re.MULTILINE):
            for name in re.findall(r"(\w+)(?: = [^,]*)?(?:,|$|\s)", re.sub(r"//.*", "", enumerators)):
                yield around, "constant", name, ""
        for name in re.findall(r"^(?:struct|class|enum class|enum|using) (\w+)(?: final)?(?: : [^{;]*)?(?: \{| =)", block, re.MULTILINE):
            yield around, "type", name, ""
        for name, parameters in re.findall(r"^(?:\[\[\w+\]\] )?[\w:][\w:<>,&* ]*?[ &*](\w+)\(([^()]*)\)[^;{]*\{", block, re.MULTILINE):
            types = [re.sub(r"\s+", " ", re.sub(r"(\w+)$", "", each.split("=")[0].strip())).strip() for each in parameters.split(",")]
            yield around, "function", name, ", ".join(types)


def libraries():
    """Units that scripts/build compiles together without a compiler cache: those of a library; in sc_main/scenario, of a group."""
    units = [path for top in ("models", "platforms", "sc_main") for path in sorted((ROOT / top).rglob("*.cpp")) if not path.stem.endswith("_main")]
    found = {}
    for path in units:
        parts = path.relative_to(ROOT).parts
        is_scenario = parts[:2] == ("sc_main", "scenario")
        name = "/".join(parts[:-1] if is_scenario else parts[:2] if parts[0] == "models" else parts[:1])
        found.setdefault(name, []).append(path)
    alone = re.search(r"# alone: (.+)", (ROOT / "sc_main" / "scenario" / "CMakeLists.txt").read_text())[1].split()
    return {name: paths for name, paths in found.items() if name.removeprefix("sc_main/scenario/") not in alone}


@pytest.mark.parametrize("library", libraries())
def test_units_of_a_library_can_be_compiled_together(library):
    """A name that two units give to different things would be defined twice."""
    units = libraries()[library]
    first, using, twice = {}, {}, []
    for path in units:
        for around, kind, name, detail in set(names_of_a_unit(path.read_text())):
            if kind == "using":
                if using.setdefault((around, name), (detail, path))[0] != detail:
                    twice.append(f"using {detail}{name}: {path.name}, {using[around, name][1].name}")
            elif first.setdefault((around, name, detail), path) != path:
                twice.append(f"{kind} {name}: {path.name}, {first[around, name, detail].name}")
    assert not twice

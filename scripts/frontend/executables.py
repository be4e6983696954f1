"""The platform executables: their options, and which of them runs a command line."""

import functools
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lib.command_line import ROOT
from lib.words import nearest, nearest_word
from lib.yaml_source import InputError, read

BOARDS = ROOT / "platforms" / "datasheets" / "boards"
SCENARIOS = ROOT / "scenarios"
_COLUMN = 32  # of the texts in a help page
SERVER = "railyard_serve"  # beside the platform executables; it runs all machines
_OWN = {"--bin": "DIR", "--platform": "NAME"}  # options that only the front has, with their values


@dataclass(frozen=True)
class Option:
    names: tuple[str, ...]
    value: str  # as the help page shows it; empty: none
    text: str


@dataclass(frozen=True)
class Call:
    """An executable and its words."""

    executable: pathlib.Path
    words: list[str]


def platforms() -> list[str]:
    return sorted(path.stem for path in BOARDS.glob("*.yaml"))


def executable(folder: pathlib.Path, platform: str) -> pathlib.Path:
    """@throws InputError if there is none"""
    known = platforms()
    if platform not in known:
        raise InputError(f"railyard: error: platform '{platform}' is unknown{nearest(platform, known)}; accepted: {', '.join(known)}")
    return _there(folder / platform)


def server(folder: pathlib.Path) -> pathlib.Path:
    """@throws InputError if there is none"""
    return _there(folder / SERVER)


def _there(path: pathlib.Path) -> pathlib.Path:
    if not os.access(path, os.X_OK):
        raise InputError(f"railyard: error: {path}: no such executable; --bin DIR names the folder of the platform executables")
    return pathlib.Path(min(os.path.relpath(path), str(path), key=len))


def any_executable(folder: pathlib.Path) -> pathlib.Path:
    """All have the same options and the same keys."""
    return executable(folder, next((name for name in platforms() if os.access(folder / name, os.X_OK)), platforms()[0]))


def output(command: Sequence[str | pathlib.Path]) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


@functools.cache
def options(of: pathlib.Path) -> list[Option]:
    """The options of the platform executables, or of the server, from their help pages."""
    found = []
    for page in ((of, "--help"),) if of.name == SERVER else ((of, "--help"), (of, "--help", "llmservingsim")):
        for line in output(page).splitlines():
            head, text = line[:_COLUMN], line[_COLUMN:].strip()
            if words := re.fullmatch(r"  (-\S+)(?: (\S+))? *", head):
                found.append(Option(tuple(words[1].split(",")), words[2] or "", text))
    return found


def all_options(of: pathlib.Path) -> list[Option]:
    """With those of the front."""
    return [Option(("--platform",), "NAME", "The machine, for a scenario that names none"),
            Option(("--bin",), "DIR", "Folder of the platform executables"), *(option for option in options(of) if "--platform" not in option.names)]


def server_options(folder: pathlib.Path) -> list[Option]:
    """None if the server is not built."""
    return all_options(server(folder)) if os.access(folder / SERVER, os.X_OK) else []


def _parts(words: Sequence[str], valued: set[str]) -> Iterator[tuple[str, str]]:
    """The options of a command line with their values, and its other words with an empty option."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            yield "", word
        elif equals:
            yield name, value
        else:
            yield word, next(rest, "") if word in valued else ""


def shipped(word: str) -> pathlib.Path | None:
    """A scenario by its name below scenarios/, with or without .yaml."""
    found = next((path for path in (SCENARIOS / word, SCENARIOS / f"{word}.yaml") if path.is_file() and path.suffix == ".yaml"), None)
    return found and min(pathlib.Path(os.path.relpath(found)), found, key=lambda path: len(str(path)))


def scenarios() -> list[pathlib.Path]:
    """The shipped scenarios."""
    return sorted(path for path in SCENARIOS.rglob("*.yaml") if path.parent.name != "sweeps")


def scenario_file(word: str) -> str:
    """@throws InputError if there is neither a file nor a shipped scenario of this name"""
    if os.path.exists(word) and not os.path.isdir(word):
        return word
    if found := shipped(word):
        return str(found)
    names = [path.relative_to(SCENARIOS).with_suffix("").as_posix() for path in scenarios()]
    near = nearest(word.removesuffix(".yaml").removeprefix("scenarios/"), names)
    raise InputError(f"railyard: error: {word}: no such file, and no shipped scenario{near}; railyard list scenarios")


def with_shipped(words: Sequence[str]) -> list[str]:
    """The words of a script's command line; the first is replaced by the path of the shipped scenario or sweep of this name."""
    found = shipped(words[0]) if words and not words[0].startswith("-") and not os.path.exists(words[0]) else None
    return [str(found), *words[1:]] if found else list(words)


def platform_of(scenario: str) -> str:
    """@throws InputError if the scenario names none"""
    for key, _, value in read(scenario).items("scenario"):
        if key == "platform":
            return value.text("platform")
    raise InputError(f"{scenario}: error: platform: missing; add it, or give --platform NAME; one of: {', '.join(platforms())}")


def _folder(folder: pathlib.Path, words: Sequence[str]) -> pathlib.Path:
    """That of --bin, or this one."""
    bins = [value for name, value in _parts(words, set(_OWN)) if name == "--bin" and value]
    return pathlib.Path(bins[-1]) if bins else folder


def _valued(of: pathlib.Path) -> set[str]:
    """Options that take the next word as their value."""
    return {name for option in options(of) if option.value and not option.value.startswith("[") for name in option.names}


def one_scenario_each(folder: pathlib.Path, words: Sequence[str]) -> list[list[str]]:
    """A command line with several scenarios, as one command line for each; all have its options."""
    parts = list(_parts(words, _valued(any_executable(_folder(folder, words))) | set(_OWN)))
    shared = [word for name, value in parts if name for word in (name, value) if word]
    return [[value, *shared] for name, value in parts if not name] or [shared]


def call(folder: pathlib.Path, words: Sequence[str], added: Sequence[str] = (), serves: bool = False) -> Call:
    """The executable for these words of a command line: that of the scenario's platform, of --set platform=NAME, or of --platform NAME.

    @param added   words for the executable, besides those
    @param serves  the server, which is told the platform
    @throws InputError
    """
    folder = _folder(folder, words)
    of = server(folder) if serves else any_executable(folder)
    valued, known = _valued(of), [name for option in options(of) for name in option.names]
    kept, platform, scenario, is_asked = list(added), None, None, False
    for name, value in _parts(words, valued | set(_OWN)):
        if name in _OWN:
            if not value:
                raise InputError(f"railyard: error: {name}: {_OWN[name]} is missing")
            platform = value if name == "--platform" else platform
            continue
        if name.startswith("--") and name not in known and nearest_word(name, [*known, *_OWN]) in _OWN:
            raise InputError(f"railyard: error: {name}: no such option{nearest(name, _OWN)}; railyard --help")
        if not name and scenario is None and not is_asked:
            value = scenario = scenario_file(value)
        if name == "--set" and value.startswith("platform="):
            platform = value.partition("=")[2]
        is_asked = is_asked or name in ("-h", "--help", "--help-all", "--version", "--schema")
        kept += [word for word in (name, value) if word]
    if is_asked and serves:
        return Call(server(folder), kept)
    if is_asked:
        return Call(executable(folder, platform) if platform else any_executable(folder), kept)
    if platform is None:
        if scenario is None:
            has_import = any(name == "--cluster-config" for name, _ in _parts(words, valued))
            raise InputError("railyard: error: " + ("--cluster-config needs --platform NAME, one of: " + ", ".join(platforms()) if has_import else
                                                    "no scenario; railyard list scenarios shows the shipped ones"))
        platform = platform_of(scenario)
    elif scenario is not None and f"platform={platform}" not in kept:
        kept += ["--set", f"platform={platform}"]
    machine = executable(folder, platform)
    return Call(server(folder), ["--platform", platform, *kept]) if serves else Call(machine, kept)

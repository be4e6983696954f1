"""Configurations of models by the names that tables print.

Names are compared without organisation, blanks, dashes, case, size in brackets, and without the words of a release whose shape is
that of its base: "Llama 3.1 8B", "meta-llama/Llama-3.1-8B-Instruct" and "llama-3.1-8b" are one. A configuration beside the table
comes before a shipped one: NAME.json, models/NAME.json, NAME/config.json or ORGANISATION/NAME/config.json.
"""

import functools
import pathlib
import re

from . import systems
from .rows import Row, Unmapped

SHIPPED = systems.ROOT / "scenarios" / "models"
BESIDE = ("*.json", "models/*.json", "*/config.json", "*/*/config.json")
# Words of a release that do not change shapes; those of number formats do not either, as far as a row's precision says the same
RELEASE = r"[-_ ](?:instruct|chat|hf|base|it|preview|thinking|v0\.\d|\d{4})$"
FORMATS = r"[-_ ](?:fp8|bf16|fp16|nvfp4|fp4|mxfp4|fp8-dynamic)$"
# Other names of shipped shapes
ALIASES = {"llama7b": "llama-2-7b", "llama13b": "llama-2-13b", "llama70b": "llama-2-70b", "llama38b": "llama-3.1-8b", "llama370b": "llama-3.1-70b",
           "llama3.370b": "llama-3.1-70b", "mistralnemo": "mistral-nemo-12b", "nemotron8b": "nemotron-3-8b", "deepseekr1": "deepseek-v3"}


def find(row: Row) -> pathlib.Path:
    """The configuration of the row's model. @throws Unmapped if there is none"""
    beside, shipped = _configs(pathlib.Path(row.file).parent, BESIDE), _configs(SHIPPED, ("*.json",))
    for name in _shorter(row["model"].rsplit("/", 1)[-1].lower().strip()):
        key = _key(name)
        found = beside.get(key) or shipped.get(key) or shipped.get(_key(ALIASES.get(key, "")))
        if found:
            return found
    raise Unmapped(f"no configuration of model '{row['model']}', shipped or beside the table")


def _shorter(name: str) -> list[str]:
    """The name as it is, then without more and more of its release and format."""
    names = [name]
    name = re.sub(r"\s*\([^)]*\)$", "", name)
    names.append(name)
    for words in (RELEASE, FORMATS):
        while (shorter := re.sub(words, "", name)) != name:
            name = shorter
            names.append(name)
        names.append(re.sub(RELEASE, "", name))
    return [*names, *(re.sub(r"^meta[-_ ]", "", shorter) for shorter in names)]


def _key(name: str) -> str:
    return re.sub(r"[-_\s]+", "", name.lower())


@functools.cache
def _configs(folder: pathlib.Path, patterns: tuple[str, ...]) -> dict[str, pathlib.Path]:
    found: dict[str, pathlib.Path] = {}
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            name = path.parent.name if path.name == "config.json" else path.stem
            found.setdefault(_key(name), path.resolve())
    return found

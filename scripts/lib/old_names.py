"""Names that metrics had in earlier versions of summary.json. docs/results.md lists them, too."""

import re
import sys

# Of version 1, all of workload.kind disaggregated_prefill.
OLD_NAMES = {
    "decode.steps": "iterations.count",
    "decode.tokens": "iterations.tokens",
    "decode.step_s": "iterations.mean_s",
    "decode.batch": "iterations.mean_batch",
    "decode.capacity_tokens_per_s": "iterations.tokens_per_s",
}
_IN_TEXT = re.compile(r"(?<![\w.])(?:" + "|".join(map(re.escape, OLD_NAMES)) + r")(?![\w.])")


def today(name: str) -> str:
    """@param name  of a metric, with dots"""
    return OLD_NAMES.get(name, name)


def current(text: str, where: str) -> str:
    """An expression over metrics, with the names of today. Each old one is named on stderr.
    @param where  file and key of the expression"""

    def new(found: re.Match) -> str:
        print(f"{where}: {found[0]} is now {OLD_NAMES[found[0]]}", file=sys.stderr)
        return OLD_NAMES[found[0]]

    return _IN_TEXT.sub(new, text)

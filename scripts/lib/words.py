"""Wording of errors."""

import difflib
from collections.abc import Iterable


def nearest_word(word: str, known: Iterable[str]) -> str:
    """The known word that is most like it; empty if none is."""
    return next(iter(difflib.get_close_matches(word, list(known), 1)), "")


def nearest(word: str, known: Iterable[str]) -> str:
    """The hint " (did you mean 'X'?)", or nothing."""
    close = nearest_word(word, known)
    return f" (did you mean '{close}'?)" if close else ""

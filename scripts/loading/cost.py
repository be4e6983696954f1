"""Prices of GPUs, which the user gives, and what tokens cost at a load."""

import json
import math
import pathlib
import subprocess
from dataclasses import dataclass

from lib.runner import set_options
from lib.words import nearest

from .judgement import Load
from .scenario import Loaded

MILLION = 1e6
HOUR_S = 3600.0


class PriceError(Exception):
    """A price that cannot be used, in one line."""


@dataclass(frozen=True)
class Cost:
    """Of a load. Both kinds of tokens pay for all of the machine: a request's cost divided by its input, and by its output."""

    per_hour: float
    per_request: float
    per_million_input: float
    per_million_output: float


def price_of(text: str) -> tuple[str, float]:
    gpu, _, value = text.partition("=")
    try:
        amount = float(value)
    except ValueError:
        amount = math.nan
    if not gpu or not 0 < amount < math.inf:
        raise PriceError(f"'{text}' is not GPU=PER_HOUR, as H100-SXM5-80GB=2.5")
    return gpu, amount


def gpus_of(loaded: Loaded, executable: pathlib.Path) -> list[str]:
    """The names of the machine's GPUs, by group."""
    words = [str(executable), str(loaded.path), "--describe", "--json", *set_options({k: v for k, v in loaded.settings.items() if k != "platform"})]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        return [group["gpu"] for group in json.loads(done.stdout)["groups"]]
    except (ValueError, KeyError, TypeError) as error:
        raise PriceError(f"--price: the executable does not name the GPUs: {done.stderr.strip() or error}") from error


def checked(prices: dict[str, float], loaded: Loaded, executable: pathlib.Path) -> dict[str, float]:
    """@throws PriceError where a price is of no GPU of the machine, or a GPU has no price"""
    if not prices:
        return {}
    there = dict.fromkeys(gpus_of(loaded, executable))
    for gpu in prices:
        if gpu not in there:
            raise PriceError(f"--price {gpu}: the machine has no such GPU{nearest(gpu, there)}; accepted: {', '.join(there)}")
    for gpu in there:
        if gpu not in prices:
            raise PriceError(f"--price: {gpu} has no price; accepted: --price {gpu}=PER_HOUR")
    return prices


def per_hour(summary: dict, prices: dict[str, float]) -> float:
    """Of the GPUs that have ranks."""
    groups = summary["setup"]["groups"]
    used = {rank["gpu"] for ranks in summary["memory"].values() for rank in ranks}
    total = 0.0
    for name in used:
        group = max((group for group in groups if name.startswith(group)), key=len)
        total += prices[groups[group]["gpu"]]
    return total


def of_load(load: Load, prices: dict[str, float]) -> Cost | None:
    """At the rates that the middle of the runs reaches; None where they reach none."""
    requests, prompts, answers = (load.mean(f"middle.{name}_per_s") for name in ("request_rate", "prompt_tokens", "output_tokens"))
    if not prices or not requests or not prompts or not answers:
        return None
    hourly = per_hour(load.runs[0].summary, prices)
    each_s = hourly / HOUR_S
    return Cost(hourly, each_s / requests, each_s / prompts * MILLION, each_s / answers * MILLION)

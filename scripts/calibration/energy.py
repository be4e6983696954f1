"""Constants of a GPU's energy (section `energy` of its datasheet), fitted to the measured power of full servers.

A run with one constant of 1 at a time says what a GPU does for a token: SM-seconds, FLOPs by type, bytes at memory. Times the measured
tokens per second, this is what the measured GPU did in a second, so that errors of the model's times do not enter. The power is a sum of
these rates, each times a constant that is not negative. Rows near the power limit are left out, because the clock falls there. The sum of
squared relative errors is least.
"""

import copy
import pathlib
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import yaml
from scipy.optimize import nnls

from lib import runner
from validation import comparison, energy, rows
from validation.comparison import Outcome
from validation.experiment import Experiment

BELOW_LIMIT = 0.95  # of power_w
KEYS = ("idle_w", "sm_w", "hbm_pj_per_byte", "bf16", "fp8")
# Constants with which a run says what it has of each
ONE_W, ONE_PJ, HBM_PJ, NO_PJ = 1, 1, 1000, 1e-6  # no pJ per FLOP: 0 would be read as not known


@dataclass(frozen=True)
class Server:
    """A measured server."""

    model: str
    watts: float  # of a GPU
    uses: dict[str, float]  # factor of each constant in this power


@dataclass(frozen=True)
class Fit:
    constants: dict[str, float]
    fitted: list[float]  # predicted / measured - 1
    kept_out: dict[str, list[float]]  # the same, by model


def _with_units(experiment: Experiment, counted: str) -> dict:
    """The scenario with constants that show its parts. @param counted  the type whose FLOPs count"""
    scenario = copy.deepcopy(experiment.scenario)
    per_flop = dict.fromkeys(("bf16", "fp8"), NO_PJ) | {counted: ONE_PJ}
    units = {"sm_w": ONE_W, "hbm_pj_per_byte": HBM_PJ, "tensor_pj_per_flop": per_flop}
    scenario["machine"].setdefault("overrides", {}).setdefault("gpu", {})["energy"] = units
    return scenario


def _servers(pairs: Sequence[tuple[Outcome, Outcome]], executables: pathlib.Path) -> list[Server]:
    """@param pairs  the power and the joules of a token of each server"""
    points, places = [], []
    for number, (power, _) in enumerate(pairs):
        for counted in ("bf16", "fp8") if power.row["precision"] == "fp8" else ("bf16",):
            points.append(runner.Point(f"{number}-{counted}", power.experiment.platform, _with_units(power.experiment, counted)))
            places.append((number, counted))
    uses: list[dict[str, float]] = [dict.fromkeys(KEYS, 0.0) | {"idle_w": 1.0} for _ in pairs]
    with tempfile.TemporaryDirectory() as directory:
        for (number, counted), result in zip(places, runner.run(points, directory, executables)):
            if result.failed:
                raise rows.InputError(f"calibrate.py: error: {result.error}")
            metrics = result.summary["metrics"]
            used, (power, joules) = metrics["energy"], pairs[number]
            gpu_seconds = used["gpus"] * metrics["end_s"]
            rate = power.row.value * used["gpus"] / joules.row.value / metrics["middle"]["output_tokens_per_s"] / gpu_seconds
            uses[number] |= {"sm_w": rate * used["sms_j"] / ONE_W, "hbm_pj_per_byte": rate * used["hbm_j"] / HBM_PJ,
                             counted: rate * used["tensor_j"] / ONE_PJ}
    return [Server(power.row["model"], power.row.value, one) for (power, _), one in zip(pairs, uses)]


def fit(table: Sequence[rows.Row], datasheet: pathlib.Path, chosen: str, kept: dict[str, float], executables: pathlib.Path) -> Fit | None:
    """@param chosen  regular expression: models of the fit  @param kept  constants that stay. @return None without rows"""
    power_w = yaml.safe_load(datasheet.read_text(encoding="utf-8"))["sm"]["power_w"]
    mapped = [one for one in comparison.map_rows(energy, table)
              if one.experiment and one.experiment.scenario["machine"]["groups"]["node"]["gpu"] == datasheet.stem]
    joules = {one.experiment.key: one for one in mapped if one.row["metric"] == "energy"}
    pairs = [(one, joules[one.experiment.key]) for one in mapped
             if one.row["metric"] == "power" and one.row.value < BELOW_LIMIT * power_w and one.experiment.key in joules]
    servers = _servers(pairs, executables)
    of_fit = [server for server in servers if re.search(chosen, server.model)]
    if not of_fit:
        return None
    free = [key for key in KEYS if key not in kept and any(server.uses[key] > 0 for server in of_fit)]
    factors = numpy.array([[server.uses[key] / server.watts for key in free] for server in of_fit])
    rest = numpy.array([1 - sum(server.uses[key] * value for key, value in kept.items()) / server.watts for server in of_fit])
    constants = kept | dict(zip(free, nnls(factors, rest)[0]))

    def error(server: Server) -> float:
        return sum(server.uses[key] * value for key, value in constants.items()) / server.watts - 1

    kept_out: dict[str, list[float]] = {}
    for server in servers:
        if server not in of_fit:
            kept_out.setdefault(server.model, []).append(error(server))
    return Fit(constants, [error(server) for server in of_fit], kept_out)

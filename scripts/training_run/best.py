"""The checkpoint interval with the largest goodput, by simulation: many times between failures, the same ones for all intervals."""

import math

import numpy as np

from . import formulas

TIMES = 1_000_000  # between failures
SPAN = math.log(2.5)  # intervals around the first one, logarithm of the ratio
PLACES = 61
DEGREE = 4  # of the polynomial through the losses, whose minimum is taken


def kept_s(times_s: np.ndarray, training_s: float, pause_s: float, extra_s: float, writing_s: float) -> float:
    """Training that is safe at the end of the times, which are sorted: whole segments, of which the first has no write beside it."""
    first, later = training_s + pause_s, training_s + pause_s + extra_s
    if times_s[-1] > len(times_s) * later:  # fewer times than segments
        return training_s * float(np.sum(np.floor(np.maximum(0.0, (times_s - writing_s - first) / later + 1))))
    ends = np.arange(first + writing_s, times_s[-1] + later, later)  # of segments, safe
    return training_s * float(np.sum(len(times_s) - np.searchsorted(times_s, ends)))


def goodputs(intervals_s: np.ndarray, mtbf_s: float, pause_s: float, extra_s: float | np.ndarray, writing_s: float, restart_s: float, seed: int,
             times: int = TIMES) -> np.ndarray:
    """The share of the time that is training and stays done, for each interval.

    @param extra_s  what the steps of a segment take longer beside a write; of all intervals, or of each
    """
    times_s = np.random.default_rng([seed, 2]).exponential(mtbf_s, times)
    times_s.sort()
    down_s = mtbf_s * math.expm1(restart_s / mtbf_s)  # with failures on the way
    all_s = times_s.sum() + times * down_s
    segments = zip(intervals_s.tolist(), np.broadcast_to(extra_s, intervals_s.shape).tolist())
    return np.array([kept_s(times_s, interval, pause_s, extra, writing_s) for interval, extra in segments]) / all_s


def interval_s(mtbf_s: float, pause_s: float, extra_s: float, writing_s: float, restart_s: float, seed: int) -> float:
    """Training between two checkpoints."""
    middle = formulas.best_s(pause_s + extra_s, mtbf_s)
    places = np.linspace(-SPAN, SPAN, PLACES)
    found = goodputs(middle * np.exp(places), mtbf_s, pause_s, extra_s, writing_s, restart_s, seed)
    curve = np.polynomial.Polynomial.fit(places, found, DEGREE)
    fine = np.linspace(-SPAN, SPAN, 4001)
    return middle * math.exp(float(fine[np.argmax(curve(fine))]))

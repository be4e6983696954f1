"""What a scenario needs to be loaded at any rate: requests of workload.kind serving that are generated from a rate."""

import pathlib
import subprocess
from dataclasses import dataclass

from lib import yaml_source
from lib.runner import set_options

RATE, COUNT, SEED = "workload.requests.rate_per_s", "workload.requests.count", "seed"
ARRIVALS = ("poisson", "gamma", "constant")  # that have a rate
REQUESTS = "workload.requests: expected generated requests, with arrivals and rate_per_s"


@dataclass(frozen=True)
class Loaded:
    """A scenario, and the settings of all loads."""

    path: pathlib.Path
    platform: str
    settings: dict[str, object]
    rate_per_s: float  # of the scenario
    seed: int

    def at(self, rate: float, count: int, seed: int) -> dict[str, object]:
        return self.settings | {RATE: rate, COUNT: count, SEED: seed}


def setting_of(text: str) -> tuple[str, object]:
    """KEY=VALUE, as an executable's --set takes it. @throws ValueError"""
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise ValueError(f"'{text}' is not KEY=VALUE")
    return key, yaml_source.parse(value, "--set").plain() if value else ""


def read(path: pathlib.Path, settings: dict[str, object]) -> Loaded:
    """@throws InputError naming file, line and column"""
    top = yaml_source.read(path)
    fields = {key: value for key, _, value in top.items("a scenario")}
    for name in ("platform", "workload"):
        if name not in fields:
            raise top.wrong(f"{name}: is missing")
    workload = {key: value for key, _, value in fields["workload"].items("workload")}
    kind = workload["kind"].text("workload.kind") if "kind" in workload else None
    if kind != "serving":
        raise workload.get("kind", fields["workload"]).wrong(f"workload.kind is {kind}; accepted: serving")
    if "requests" not in workload:
        raise fields["workload"].wrong("workload.requests: is missing")
    requests = {key: value for key, _, value in workload["requests"].items("workload.requests")}
    arrivals = settings.get("workload.requests.arrivals") or (requests["arrivals"].text("arrivals") if "arrivals" in requests else "")
    if arrivals not in ARRIVALS or {"list", "file", "stages"} & set(requests):
        raise workload["requests"].wrong(f"{REQUESTS}; arrivals: one of {', '.join(ARRIVALS)}, without list, file and stages")
    rate = settings.get(RATE) or (requests["rate_per_s"].number("rate_per_s") if "rate_per_s" in requests else 1.0)
    seed = settings.get(SEED) or (fields["seed"].count("seed", 2**31) if "seed" in fields else 1)
    return Loaded(path.resolve(), fields["platform"].text("platform"), settings, float(rate), int(seed))


def check(loaded: Loaded, executable: pathlib.Path) -> None:
    """Asks the executable about the scenario, before anything is written. @throws InputError with its line"""
    settings = {key: value for key, value in loaded.at(loaded.rate_per_s, 2, loaded.seed).items() if key != "platform"}
    try:
        done = subprocess.run([str(executable), str(loaded.path), "--check", *set_options(settings)], capture_output=True, text=True, check=False)
    except OSError as error:
        raise yaml_source.InputError(f"{executable}: error: {error.strerror}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or [f"exit status {done.returncode}"]
        raise yaml_source.InputError(lines[0])

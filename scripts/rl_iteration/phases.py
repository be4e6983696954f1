"""The phases of an iteration, simulated through the one runner."""

import json
import math
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from lib import run_files, runner, summaries

from . import transfer
from .layout import Layout, layout_of
from .scenario import Phase, Scenario

RANK_ORDER = "tp-cp-ep-dp-pp"  # default of workload.rank_order
EXPLAINED = {
    "memory": [{"weights_bytes": float, "optimizer_bytes": float}],
    "checkpoint": [{"weights_bytes": float}],
    "stages": [{"rank": int, "parameters_per_rank": float, "forward_kernels_s": float, "backward_kernels_s": float}],
}
PREFIX, GROUPS = "weights", "groups.json"  # of a trace
NS = 1e-9


class Failed(Exception):
    """A phase could not run, in one line."""


@dataclass(frozen=True)
class Rollouts:
    """A run of the service."""

    summary: dict
    ends_s: tuple[float, ...]  # of the samples, sorted
    prompt_tokens: int
    answer_tokens: int

    @property
    def seconds(self) -> float:
        return self.ends_s[-1]

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.answer_tokens

    def done_s(self, share: float) -> float:
        """When this share of the samples is done."""
        return self.ends_s[math.ceil(share * len(self.ends_s)) - 1]


@dataclass(frozen=True)
class Training:
    """A step of the training."""

    summary: dict
    forward_share: float  # of the kernels' time
    layout: Layout
    weights: tuple[transfer.Weights, ...]  # by pipeline rank
    state_bytes: tuple[int, ...]  # weights and optimizer on a GPU, by pipeline rank

    @property
    def weights_bytes(self) -> int:
        return sum(of_stage.total for of_stage in self.weights)

    @property
    def step_s(self) -> float:
        return self.summary["metrics"]["step_s"]

    @property
    def tokens(self) -> int:
        return self.summary["setup"]["seq_tokens"] * self.summary["setup"]["global_batch"]


@dataclass(frozen=True)
class Phases:
    """All that an iteration is made of. GPUs are counted over all groups of the machine in order."""

    scenario: Scenario
    rollouts: tuple[Rollouts, ...]  # with consecutive seeds
    training: Training
    updates: int
    trainers: tuple[int, ...]
    service: tuple[int, ...]
    weights_s: float
    store_s: float  # of the training's state to host memory, and back
    load_s: float

    @property
    def shares_gpus(self) -> bool:
        return bool(set(self.trainers) & set(self.service))

    @property
    def logprobs_s(self) -> float:
        """Forward passes over the samples, as the forward part of the steps."""
        return self.scenario.iteration.logprob_passes * self.updates * self.training.step_s * self.training.forward_share

    @property
    def updates_s(self) -> float:
        return self.updates * self.training.step_s


def _weights(explained: dict, layout: Layout) -> tuple[transfer.Weights, ...]:
    """Of all ranks of a stage, tp have different weights but for experts, and expert_shares have different experts. So what one rank has, and
    what they have together, say how many bytes are experts."""
    found = []
    for rank, saved in enumerate(explained["checkpoint"]):
        total, experts = int(saved["weights_bytes"]), 0
        if layout.size["ep"] > 1:
            parameters = sum(int(stage["parameters_per_rank"]) for stage in explained["stages"] if stage["rank"] == rank)
            of_parameter = 4 if explained["memory"][rank]["weights_bytes"] >= 4 * parameters else 2  # with narrow copies, or only these, of less than 2 more
            shares, divided = layout.expert_shares, layout.size["tp"]
            experts = (total - divided * of_parameter * parameters) // (shares - divided) * shares
        found.append(transfer.Weights(total - experts, experts))
    return tuple(found)


class Simulator:
    """Runs the phases of a scenario into `folder`."""

    def __init__(self, scenario: Scenario, folder: pathlib.Path, executables: pathlib.Path) -> None:
        self.scenario, self.folder, self.executables = scenario, folder, executables

    def check(self) -> None:
        """@throws InputError"""
        for name in ("rollouts", "training"):
            self.scenario.said(self.scenario.phase(name), "--check")

    def phases(self, runs: int) -> Phases:
        """@param runs  of the rollouts, with consecutive seeds. @throws InputError, Failed, run_files.Error"""
        training = self._training()
        layout = training.layout
        first = self.scenario.seed
        made = [self._rollouts(seed) for seed in range(first, first + runs)]
        rollouts = tuple(found for found, _ in made)
        updates = self._updates(training, rollouts)
        numbers = self._numbers([training.summary, rollouts[0].summary])
        trainers = [gpu for group, gpus in numbers.items() if group in training.summary["setup"]["groups"] for gpu in gpus][: layout.ranks]
        service = sorted(numbers[group][server * per_server + slot] for group, server, slot, per_server in made[0][1])
        shares = self._check_places(training, rollouts[0], trainers, service)
        gpus, of_stages, bucket = sum(map(len, numbers.values())), list(training.weights), self.scenario.iteration.bucket_bytes
        weights = transfer.to_own(gpus, layout, trainers, of_stages, bucket) if shares else transfer.to_others(gpus, layout, trainers, service, of_stages, bucket)
        away = shares and self.scenario.iteration.offload
        copies = [transfer.state(gpus, layout, trainers, list(training.state_bytes), to_host) for to_host in (True, False)] if away else []
        store_s, load_s = [self._trace(name, trace) for name, trace in zip(("state to host memory", "state from host memory"), copies)] or (0.0, 0.0)
        return Phases(self.scenario, rollouts, training, updates, tuple(trainers), tuple(service), self._trace("weights", weights), store_s, load_s)

    def _run(self, name: str, phase: Phase, seed: int | None = None) -> pathlib.Path:
        """The outputs of a run. @throws Failed"""
        settings = phase.settings | ({} if seed is None else {"seed": seed})
        point = runner.Point(name, self.scenario.platform, phase.text, settings, options=("--jobs", "none"))
        result, = runner.run([point], self.folder, self.executables, 1)
        if result.failed:
            raise Failed(f"{name}: {self.scenario.of_file(phase, result.error)}")
        return result.directory / "out"

    def _training(self) -> Training:
        phase = self.scenario.phase("training")
        explained = run_files.json_text_of(self.scenario.executable, self.scenario.said(phase, "--explain", "--json"), EXPLAINED, "what --explain says")
        summary = summaries.read(self._run("training", phase) / "summary.json")
        forward, backward = (sum(stage[f"{part}_kernels_s"] for stage in explained["stages"]) for part in ("forward", "backward"))
        layout = self._layout(summary["setup"])
        state = tuple(int(rank["weights_bytes"] + rank["optimizer_bytes"]) for rank in explained["memory"])
        return Training(summary, forward / (forward + backward), layout, _weights(explained, layout), state)

    def _layout(self, setup: dict) -> Layout:
        if setup.get("ep", 1) > 1 and setup.get("gtp", 1) > 1:
            raise self.scenario.wrong("training.ep", "experts that GTP divides are not sent to rollouts; accepted: 1, or gtp: none")
        if setup.get("ep", 1) > 1 and setup.get("zero_stage") == 3:
            raise self.scenario.wrong("training.ep", "experts that ZeRO stage 3 divides are not sent to rollouts; accepted: 1, or zero_stage of 0 to 2")
        return layout_of(setup, str(self.scenario.given("training.rank_order") or RANK_ORDER))

    def _rollouts(self, seed: int) -> tuple[Rollouts, list[tuple[str, int, int, int]]]:
        """A run, and the places of its GPUs: group, server, slot, GPUs of a server."""
        out = self._run(f"rollouts seed {seed}", self.scenario.phase("rollouts"), seed)
        summary = summaries.read(out / "summary.json")
        if refused := summary["metrics"]["refused"]:
            raise Failed(f"rollouts: {refused} of {summary['metrics']['requests'] + refused} samples are refused by the engine; training would wait for them without end")
        rows = list(run_files.table(out / "requests.csv", {"input": run_files.whole, "output": run_files.whole, "end_time": run_files.whole}, "requests.csv of a run"))
        groups = summary["setup"]["groups"]
        places = []
        for ranks in summary["memory"].values():
            for rank in ranks:
                server, slot = rank["gpu"].split(".gpu")
                group = server.rstrip("0123456789")
                places.append((group, int(server[len(group):]), int(slot), groups[group]["gpus"] // groups[group]["servers"]))
        ends = tuple(sorted(row["end_time"] * NS for row in rows))
        return Rollouts(summary, ends, sum(row["input"] for row in rows), sum(row["output"] for row in rows)), places

    def _updates(self, training: Training, rollouts: Sequence[Rollouts]) -> int:
        tokens = sum(one.tokens for one in rollouts) / len(rollouts)
        needed, given = math.ceil(tokens / training.tokens), self.scenario.iteration.updates
        if given is not None and given < needed:
            raise self.scenario.wrong("rl.updates", f"{given} steps of {training.tokens} tokens do not hold the {tokens:.0f} tokens of the rollouts; accepted: at least {needed}, or training.global_batch of more sequences")
        return given or needed

    def _numbers(self, summaries_: Sequence[dict]) -> dict[str, list[int]]:
        """The GPUs of each group, counted over all groups in order."""
        groups: dict[str, dict] = {}
        for summary in summaries_:
            groups |= summary["setup"]["groups"]
        found, first = {}, 0
        for name in self.scenario.machine_groups() or groups:
            found[name] = list(range(first, first + groups[name]["gpus"]))
            first += groups[name]["gpus"]
        return found

    def _check_places(self, training: Training, rollouts: Rollouts, trainers: list[int], service: list[int]) -> bool:
        """Whether the phases share GPUs. @throws InputError"""
        shared, other = set(service) & set(trainers), set(service) - set(trainers)
        if shared and other:
            raise self.scenario.wrong("rollouts.instances", f"{len(shared)} GPUs train, too, and {len(other)} do not; accepted: all of them, or none")
        if shared and self.scenario.iteration.schedule == "asynchronous":
            raise self.scenario.wrong("rl.schedule", "asynchronous needs rollouts on GPUs that do not train; accepted: rl.groups with different groups, or alternating")
        if shared and not self.scenario.iteration.offload:
            of_training, of_service = (max((rank["peak_bytes"] for ranks in one.summary["memory"].values() for rank in ranks)) for one in (training, rollouts))
            capacity = min(rank["capacity_bytes"] for ranks in training.summary["memory"].values() for rank in ranks)
            if of_training + of_service > capacity:
                raise self.scenario.wrong("rl.offload", f"training takes {of_training * 1e-9:.1f} GB of a GPU and the service {of_service * 1e-9:.1f} GB, together more than {capacity * 1e-9:.1f} GB; "
                                                        "accepted: true, or a smaller rollouts.instances.kv_memory_ratio")
        return bool(shared)

    def _trace(self, name: str, trace: transfer.Trace) -> float:
        """Seconds that a trace takes on the machine."""
        if trace.is_empty:
            return 0.0
        folder = self.folder / "traces" / name.replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        for rank, content in enumerate(trace.files()):
            (folder / f"{PREFIX}.{rank}.et").write_bytes(content)
        (folder / GROUPS).write_text(json.dumps(trace.groups), encoding="utf-8")
        out = self._run(name, self.scenario.of_trace({"kind": "trace", "format": "chakra", "prefix": str((folder / PREFIX).resolve()), "groups": str((folder / GROUPS).resolve())}))
        return summaries.read(out / "summary.json")["metrics"]["makespan_s"]

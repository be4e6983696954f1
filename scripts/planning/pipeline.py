"""The time of a pipeline's slots: a forward slot and a backward slot, or its two parts, of each stage and micro-batch.

The platform executable makes the schedule and runs it (`--schedule-times`), as it does for a training step."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from .questions import Answers


@dataclass(frozen=True)
class Stage:
    """Seconds of a slot of each kind, and of the transfers of activations and gradients."""

    forward: float
    inputs: float
    weights: float
    transfer: float


class PipelineError(Exception):
    """The executable's message."""


class Pipelines:
    """Asks a platform executable about schedules, one after another."""

    def __init__(self, executable: pathlib.Path) -> None:
        self.answers = Answers([str(executable), "--schedule-times", "-"])

    def seconds(self, schedule: str, ranks: int, stages: Sequence[Stage], micro_batches: int, blocking: bool) -> float:
        """Of all slots of a step.

        @param stages    by virtual stage, in the order of the model
        @param blocking  a rank does nothing else while it sends: a transfer is a part of its sender's slot
        """
        last = len(stages) - 1
        times = [[stage.forward + stage.transfer * (number < last), stage.inputs + stage.transfer * (number > 0), stage.weights, 0.0, 0.0] if blocking
                 else [stage.forward, stage.inputs, stage.weights, stage.transfer, stage.transfer] for number, stage in enumerate(stages)]
        answer = self.answers.to({"schedule": schedule, "pp": ranks, "virtual_stages": len(stages) // ranks, "micro_batches": micro_batches, "stages": times})
        if "error" in answer:
            raise PipelineError(answer["error"])
        return answer["time_s"]

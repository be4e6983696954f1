"""The mappings of a training step onto GPUs: all combinations of the axes, and the rules that a mapping must satisfy.

Rules are applied in their order, and a mapping is counted under the first rule that refuses it. So legal and refused mappings together
are all combinations.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import yaml

FIXED = ("tp", "cp", "ep", "pp", "virtual_stages", "schedule", "micro_batch", "zero_stage", "recompute", "tp_overlap", "stage_layers", "gtp")  # --fix
AXES = (*FIXED, "saving")
MOST_CP = 4
VIRTUAL_STAGES = (1, 2, 4, 5)
SCHEDULES = ("1f1b", "interleaved", "zb_h1", "zbv")
MICRO_BATCHES = (1, 2, 4)
RECOMPUTE = ("none", "selective", "full")
TP_OVERLAP = ("none", "userbuffers")
OPTIMIZER_AWAY, ACTIVATIONS_AWAY = "offload.optimizer", "offload.activations"
# How layers are divided among stages: evenly; the last stage has fewer, by the time of the head; the first has one fewer, too, as it has the
# embedding.
EVEN, LIGHT_LAST, LIGHT_ENDS = STAGE_LAYERS = ("even", "light_last", "light_ends")
NO_SAVING, OFFLOAD = "none", "offload"
# What saves memory, by feature: keys of the workload, and their values from the least to the most. savings.py says when they are tried.
SAVINGS: dict[str, dict[str, tuple]] = {
    OFFLOAD: {OPTIMIZER_AWAY: (True,), ACTIVATIONS_AWAY: (0.25, 0.5, 1)},
    "narrow_states": {"precision.gradients": ("as_parameters",), "precision.moments": ("bf16",)},
    "loss_chunks": {"loss_chunks": (8,)},  # torchtitan's number
}
# The terms of a mapping's memory (explain.TERMS) that a key may make smaller.
SAVED_TERMS = {OPTIMIZER_AWAY: ("optimizer",), ACTIVATIONS_AWAY: ("activations",), "precision.gradients": ("gradients", "gathered", "optimizer"),
               "precision.moments": ("optimizer",), "loss_chunks": ("activations", "recomputed")}
ACROSS_SERVERS, DIVIDED_WEIGHTS = "tp_across_servers", "gtp"
ALLOWED = (ACROSS_SERVERS, DIVIDED_WEIGHTS, *SAVINGS)  # what is tried only if asked for


@dataclass(frozen=True)
class Model:
    """What rules need of a model."""

    layers: int
    heads: int
    kv_heads: int
    experts: int  # 0: dense
    hidden: int = 0


@dataclass(frozen=True)
class Question:
    """What is given: the machine, the model and the batch."""

    gpus: int
    nvlink_gpus: int  # of a domain in which all GPUs have NVLink to each other, or of a server
    model: Model
    batch: int  # sequences of a step
    seq_tokens: int
    zero_stages: tuple[int, ...] = (0, 1)  # that the software has
    gtp: int = 1  # ranks that divide each matrix, in the base scenario
    dp_overlap: bool = False  # gradients are reduced beside the last backward slot
    gather_overlap: bool = False  # zero_stage 1 and 2: weights are gathered beside the first forward slots
    persistent: bool = False  # matrix products keep their SMs from begin to end
    head_layers: int = 1  # layers that take as long as the head


def _split(layers: int, stages: int, first: int = 0, last: int = 0) -> tuple[int, ...]:
    """The ends count as `first` and `last` layers. What is left over goes to the stages before the last one: the first ones have the most
    activations."""
    each, more = divmod(layers + first + last, stages)
    found = [each + (stages - 1 - more <= stage < stages - 1) for stage in range(stages)]
    found[0] -= first
    found[-1] -= last
    return tuple(found)


def saving_of(settings: dict[str, object]) -> str:
    """The word of a saving: its keys as --set has them."""
    return "+".join(f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items()) or NO_SAVING


def saved(saving: str) -> dict[str, object]:
    """The keys of a saving."""
    pairs = (part.partition("=") for part in saving.split("+")) if saving != NO_SAVING else ()
    return {key: yaml.safe_load(value) for key, _, value in pairs}


@dataclass(frozen=True, order=True)
class Mapping:
    tp: int
    cp: int
    ep: int
    pp: int
    virtual_stages: int
    schedule: str
    micro_batch: int
    zero_stage: int
    recompute: str
    tp_overlap: str = TP_OVERLAP[0]
    stage_layers: str = EVEN
    gtp: int = 1
    saving: str = NO_SAVING

    @property
    def shape(self) -> tuple:
        return self.tp, self.gtp, self.cp, self.pp, self.recompute

    def saves(self, key: str) -> object:
        """The value of a key, None if it is not in the saving."""
        return saved(self.saving).get(key)

    def dp(self, question: Question) -> int:
        return question.gpus // (self.tp * self.cp * self.pp * self.gtp)

    def micro_batches(self, question: Question) -> int:
        return question.batch // (self.micro_batch * self.dp(question) * self.gtp)

    def layers(self, question: Question) -> tuple[int, ...]:
        """Of each virtual stage, in the order of the model."""
        layers, stages = question.model.layers, self.pp * self.virtual_stages
        if self.stage_layers == EVEN:  # as the executable divides them
            each, more = divmod(layers, stages)
            return (each + 1,) * more + (each,) * (stages - more)
        return _split(layers, stages, 1 if self.stage_layers == LIGHT_ENDS else 0, question.head_layers)

    @property
    def label(self) -> str:
        """Axes that are not at their simplest value: `tp 8 pp 4 v 2 zero 1`."""
        words = [("tp", self.tp, 0), ("gtp", self.gtp, 1), ("cp", self.cp, 1), ("ep", self.ep, 1), ("pp", self.pp, 0), ("v", self.virtual_stages, 1),
                 ("", self.schedule, "1f1b" if self.virtual_stages == 1 else "interleaved"), ("mb", self.micro_batch, 0), ("zero", self.zero_stage, None), ("recompute", self.recompute, "none"),
                 ("", self.tp_overlap, "none"), ("", self.stage_layers, EVEN), ("", self.saving.replace("+", " "), NO_SAVING)]
        return " ".join(f"{name} {value}".strip() for name, value, simplest in words if value != simplest)

    def settings(self, question: Question) -> dict[str, object]:
        """Keys of a scenario."""
        keys = {axis: getattr(self, axis) for axis in AXES if axis not in ("stage_layers", "gtp", "saving")} | saved(self.saving)
        if max(self.gtp, question.gtp) > 1:
            keys["gtp.size"] = self.gtp
        if self.stage_layers != EVEN:
            keys["stage_layers"] = list(self.layers(question))
        keys |= {"dp": self.dp(question), "sequence_parallel": self.tp > 1}
        return {f"workload.{key}": value for key, value in keys.items()}


def _powers(limit: int) -> tuple[int, ...]:
    return tuple(1 << n for n in range(limit.bit_length()) if 1 << n <= limit)


def axes(question: Question, allowed: frozenset[str] = frozenset()) -> dict[str, tuple]:
    """The values of each axis."""
    model = question.model
    return {
        "tp": _powers(min(question.gpus, model.heads) if ACROSS_SERVERS in allowed else min(question.gpus, question.nvlink_gpus)),
        "cp": _powers(min(MOST_CP, question.gpus)),
        "ep": _powers(model.experts) if model.experts else (1,),
        "pp": _powers(min(model.layers, question.gpus)),
        "virtual_stages": VIRTUAL_STAGES,
        "schedule": SCHEDULES,
        "micro_batch": MICRO_BATCHES,
        "zero_stage": question.zero_stages,
        "recompute": RECOMPUTE,
        "tp_overlap": TP_OVERLAP,
        "stage_layers": STAGE_LAYERS,
        "gtp": _powers(question.nvlink_gpus) if DIVIDED_WEIGHTS in allowed else (question.gtp,),
        "saving": (NO_SAVING,),
    }


VIRTUAL_STAGES_OF: dict[str, Callable[[int], bool]] = {
    "1f1b": lambda v: v == 1, "interleaved": lambda v: v > 1, "zb_h1": lambda v: v == 1, "zbv": lambda v: v == 2}


def _is_like_another(mapping: Mapping, question: Question) -> bool:
    before = STAGE_LAYERS[:STAGE_LAYERS.index(mapping.stage_layers)]
    return mapping.layers(question) in [replace(mapping, stage_layers=other).layers(question) for other in before]


def _has_empty_stage(mapping: Mapping, question: Question) -> bool:
    """The ends may have the embedding or the head alone; zero bubble has gradients of inputs to compute in all stages."""
    first, *middle, last = mapping.layers(question)
    return first < (1 if mapping.schedule.startswith("zb") else 0) or min(middle, default=1) < 1 or last < 0


Rule = tuple[str, Callable[[Mapping, Question], bool]]  # what is wrong, and whether it is

RULES: tuple[Rule, ...] = (
    ("tp x cp x pp x gtp does not divide the GPUs", lambda m, q: q.gpus % (m.tp * m.cp * m.pp * m.gtp) != 0),
    ("tp does not divide the attention heads", lambda m, q: q.model.heads % m.tp != 0),
    ("tp and the KV heads do not divide each other", lambda m, q: q.model.kv_heads % m.tp != 0 and m.tp % q.model.kv_heads != 0),
    ("virtual stages without a pipeline", lambda m, q: m.virtual_stages > 1 and m.pp == 1),
    ("the schedule needs another number of virtual stages", lambda m, q: not VIRTUAL_STAGES_OF[m.schedule](m.virtual_stages)),
    ("zero bubble without a pipeline", lambda m, q: m.schedule == "zb_h1" and m.pp == 1),
    ("more virtual stages than layers", lambda m, q: m.pp * m.virtual_stages > q.model.layers),
    ("uneven stages without a pipeline", lambda m, q: m.stage_layers != EVEN and m.pp == 1),
    ("a stage would have no layers", lambda m, q: m.stage_layers != EVEN and _has_empty_stage(m, q)),
    ("the stages are those of another split of the layers", _is_like_another),
    ("cp does not divide half a sequence", lambda m, q: m.cp > 1 and q.seq_tokens % (2 * m.cp) != 0),
    ("tp does not divide the tokens of a micro-batch", lambda m, q: m.micro_batch * q.seq_tokens // m.cp % m.tp != 0),
    ("ep does not divide the experts", lambda m, q: m.ep > 1 and q.model.experts % m.ep != 0),
    ("ep does not divide the data-parallel ranks", lambda m, q: m.dp(q) % m.ep != 0),
    ("micro_batch x dp does not divide the batch", lambda m, q: q.batch % (m.micro_batch * m.dp(q) * m.gtp) != 0),
    ("interleaving needs a multiple of pp micro-batches", lambda m, q: m.schedule == "interleaved" and m.micro_batches(q) % m.pp != 0),
    ("products overlap without tensor parallelism", lambda m, q: m.tp == 1 and m.tp_overlap != "none"),
    ("userbuffers need one server", lambda m, q: m.tp > q.nvlink_gpus and m.tp_overlap == "userbuffers"),
    ("weights are divided by gtp and by ZeRO 3", lambda m, q: m.gtp > 1 and m.zero_stage == 3),
    ("activations leave in whole backward slots", lambda m, q: m.schedule.startswith("zb") and m.saves(ACTIVATIONS_AWAY) is not None),
    ("offload and gtp", lambda m, q: m.gtp > 1 and OFFLOAD in m.saving),
    ("state is divided without replicas", lambda m, q: m.zero_stage > 0 and m.dp(q) * m.cp == 1),
)


@dataclass
class Space:
    """All mappings, divided by the rules."""

    total: int = 0
    legal: list[Mapping] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)  # by rule, in the order of the rules


def combinations(values: dict[str, tuple]) -> Iterator[Mapping]:
    for combination in itertools.product(*(values[axis] for axis in AXES)):
        yield Mapping(*combination)


def divide(question: Question, values: dict[str, tuple]) -> Space:
    space = Space()
    counts = dict.fromkeys((text for text, _ in RULES), 0)
    for mapping in combinations(values):
        space.total += 1
        wrong = next((text for text, is_wrong in RULES if is_wrong(mapping, question)), None)
        if wrong is None:
            space.legal.append(mapping)
        else:
            counts[wrong] += 1
    space.refused = Counter({text: count for text, count in counts.items() if count})
    return space

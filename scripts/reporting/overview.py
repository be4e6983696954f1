"""The head of a run's page: what ran, and its main results in human units."""

from lib import summaries

from .markup import Element, brief, duration_text
from .source import Point

GIGA = 1e9
LEAST_SHARE = 5e-5  # less is no part of a result
JOULES = ((1e6, "MJ"), (1e3, "kJ"), (1, "J"), (1e-3, "mJ"))


def _per_user(seconds: float) -> str:
    return brief(1 / seconds) if seconds > 0 else "no limit"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.3g} %" if ratio >= LEAST_SHARE else "0 %"


def _joules(joules: float) -> str:
    return next(f"{joules / size:.3g} {unit}" for size, unit in JOULES if joules >= size or size == JOULES[-1][0])


def _gigabytes(size: float) -> str:
    return f"{size / GIGA:.3g} GB"


TILES = {  # by kind: metric, name, text
    "serving": (
        ("ttft_p50_s", "TTFT, median", duration_text), ("ttft_p99_s", "TTFT, p99", duration_text),
        ("tpot_p50_s", "tokens/s for a user, median", _per_user), ("tpot_p99_s", "TPOT, p99", duration_text),
        ("request_rate_per_s", "requests/s", brief), ("output_tokens_per_s", "output tokens/s", brief),
        ("energy.per_output_token_j", "an output token, GPUs, estimate", _joules),
        ("energy.all_per_output_token_j", "with servers and network, estimate", _joules),
    ),
    "disaggregated_prefill": (
        ("ttft_s", "TTFT, mean", duration_text), ("tpot_s", "TPOT, mean", duration_text),
        ("prefill_capacity_tokens_per_s", "prompt tokens/s", brief), ("iterations.tokens_per_s", "output tokens/s", brief),
        ("bubble_fraction", "of prefill is bubble", _percent),
    ),
    "training": (
        ("step_s", "a step", duration_text), ("mfu", "MFU", _percent), ("tokens_per_s_per_gpu", "tokens/s for a GPU", brief),
        ("bubble_fraction", "of the step is bubble", _percent), ("memory.peak_bytes", "memory of the fullest GPU", _gigabytes),
        ("energy.mean_w", "W for a GPU, estimate", brief), ("energy.per_step_j", "a step, GPUs, estimate", _joules),
        ("energy.all_per_step_j", "with servers and network, estimate", _joules),
    ),
    "layer": (("layer_s", "a layer", duration_text), ("pass_s", "a pass", duration_text), ("tokens_per_s", "tokens/s", brief)),
    "collective": (("avg_busbw_gb_per_s", "GB/s bus bandwidth, mean of sizes", brief),),
}
# Numbers of the mapping that are 1 are left out; those of a step are words for themselves.
MAPPING = ("tp", "pp", "cp", "dp", "ep", "virtual_stages")
STEP = (("global_batch", "{} sequences"), ("seq_tokens", "of {} tokens"), ("micro_batches", "{} micro-batches"), ("schedule", "schedule {}"),
        ("zero_stage", "ZeRO {}"), ("recompute", "recompute {}"))


def tiles_of(point: Point) -> list[tuple[str, str]]:
    """Name and text of each."""
    found = ((name, point.metrics.get(metric), text) for metric, name, text in TILES.get(point.kind, ()))
    return [(name, text(value)) for name, value, text in found if isinstance(value, (int, float))]


def _sizes(part: dict) -> str:
    return " ".join(f"{name} {part[name]}" for name in MAPPING if part.get(name, 1) != 1) or "one GPU"


def _machine(summary: dict) -> str:
    groups = summary.get("setup", {}).get("groups", {}).values()
    return ", ".join(f"{group.get('servers', 1)} x {summary['platform']}, {group['gpu']}" for group in groups if "gpu" in group) or summary["platform"]


def _mapping(setup: dict) -> str:
    instances = setup.get("instances")
    if isinstance(instances, list):
        return "; ".join(f"{one.get('name', '')} ({one.get('role', '')}): {_sizes(one)}, {one.get('engine', '')}" for one in instances)
    return _sizes(setup) if any(name in setup for name in MAPPING) else ""


def _work(setup: dict) -> str:
    if "global_batch" in setup:
        return ", ".join(form.format(setup[name]) for name, form in STEP if setup.get(name) is not None).replace(" sequences, of", " sequences of")
    return f"{setup['requests']} requests" if isinstance(setup.get("requests"), int) else ""


def facts_of(point: Point) -> list[tuple[str, str | Element | None]]:
    """Names and texts; "" where a run does not say it."""
    if point.files is None:
        return []
    summary = summaries.read(point.files / "summary.json")
    setup, simulator = summary.get("setup", {}), summary.get("simulator", {})
    command = point.files / "command.txt"
    first = command.read_text(encoding="utf-8", errors="replace").splitlines()[:1] if command.exists() else []
    return [("kind", point.kind), ("model", point.model), ("machine", _machine(summary)), ("mapping", _mapping(setup)), ("work", _work(setup)),
            ("links", {"train": "as trains of packets", "fluid": "as fluid rates"}.get(summary.get("fidelity", ""), summary.get("fidelity", ""))),
            ("command", first[0] if first else ""), ("Railyard", f"{simulator.get('version', '')} {simulator.get('commit', '')}".strip())]

#!/usr/bin/python3
"""The textbook on tensor and pipeline parallelism, checked on Llama-3.1-70B and 16 servers of 8 H100: a table for each claim.

  scripts/studies/topology_70b.py                                  # prints the tables
  scripts/studies/topology_70b.py --out out/topology_70b

The study takes about four minutes of processor time. Replicas are folded. Each run leaves its scenario, command and results in a folder
below --out. docs/topology_70b.md has the tables with what they mean. Exit status: 0 all runs done, 1 some failed, 2 bad input.
"""

import argparse
import json
import pathlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib import runner  # noqa: E402
from lib.command_line import ROOT, Parser, one_line  # noqa: E402
from planning.explain import TERMS, Explainer  # noqa: E402

MODEL = {"config": str(ROOT / "scenarios" / "models" / "llama-3.1-70b.json")}
LAYERS, HIDDEN, GATE_UP, SEQ, BATCH = 80, 8192, 2 * 28672, 8192, 128
SERVERS, SERVER_GPUS = 16, 8
BYTES = 2  # of an activation
VECTOR = SEQ * HIDDEN * BYTES  # activations of a sequence between layers
RULE = {"tp": 8, "sequence_parallel": True, "pp": 4}
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
SMALL = 4096  # bytes of a collective that shows its latency

Runs = dict[str, runner.Point]
Found = dict[str, runner.Result]


def scenario(workload: dict, servers: int, **more: object) -> dict:
    return {"schema_version": 1, "platform": "dgx_h100", "machine": {"groups": {"node": {"servers": servers}}}, "workload": workload, **more}


def step(**workload: object) -> runner.Point:
    settings = {"kind": "training", "seq_tokens": SEQ, "global_batch": BATCH, **RULE, **workload}
    name = "step " + ", ".join(f"{key} {value}" for key, value in settings.items() if key not in ("kind", "seq_tokens"))
    return runner.Point(name, "dgx_h100", scenario(settings, SERVERS, model=MODEL, simulation={"fold": "auto"}))


def layer(tp: int, tokens: int = SEQ, phase: str = "training", sequence_parallel: bool = True) -> runner.Point:
    workload = {"kind": "layer", "phase": phase, "tp": tp, "tokens": tokens, "sequence_parallel": sequence_parallel and tp > 1}
    name = f"layer tp {tp}, {tokens} tokens, {phase}{', sequence parallel' if sequence_parallel else ''}"
    return runner.Point(name, "dgx_h100", scenario(workload, -(-tp // SERVER_GPUS), model=MODEL, fabric={"fidelity": "fluid"}))


def collective(op: str, size: int, ranks: int) -> runner.Point:
    workload = {"kind": "collective", "op": op, "sizes_bytes": [size], "ranks": ranks}
    return runner.Point(f"{op} {size} over {ranks}", "dgx_h100", scenario(workload, -(-ranks // SERVER_GPUS), fabric={"fidelity": "fluid"}))


class Study:
    """Collects the runs that tables ask for, and then prints the tables. A table asks for the same runs both times."""

    def __init__(self) -> None:
        self.points: dict[str, runner.Point] = {}
        self.found: Found | None = None

    def of(self, point: runner.Point) -> runner.Result | None:
        """The result; none while runs are collected."""
        self.points.setdefault(point.name, point)
        return self.found[point.name] if self.found else None

    def metrics(self, point: runner.Point) -> dict | None:
        result = self.of(point)
        return result.summary["metrics"] if result else None


def ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms"


def percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %"


def gb(size: float) -> str:
    return f"{1e-9 * size:.1f} GB"


def print_table(columns: list[str], rows: Iterable[list[str]]) -> None:
    print(f"| {' | '.join(columns)} |\n| --- |" + " ---: |" * (len(columns) - 1))
    for row in rows:
        print(f"| {' | '.join(row)} |")


def time_of(study: Study, op: str, size: int, ranks: int = SERVER_GPUS) -> float:
    metrics = study.metrics(collective(op, size, ranks))
    return metrics["time_s"][str(size)] if metrics else 0.0


def splits(study: Study) -> None:
    """What a layer's products need if they are split by columns, by rows, or in pairs."""
    cases = [("MLP: columns, then rows", [("all_reduce", VECTOR)]),
             ("MLP: both by columns", [("all_gather", VECTOR * GATE_UP // 2 // HIDDEN), ("all_gather", VECTOR)]),
             ("MLP: both by rows", [("all_reduce", VECTOR * GATE_UP // HIDDEN), ("all_reduce", VECTOR)]),
             ("attention: heads, output by rows", [("all_reduce", VECTOR)]),
             ("attention: heads, output by columns", [("all_gather", VECTOR), ("all_gather", VECTOR)])]
    rows = [[name, " + ".join(f"{op.replace('_', '-')} of {1e-6 * size:.0f} MB" for op, size in parts),
             ms(sum(time_of(study, op, size) for op, size in parts))] for name, parts in cases]
    if study.found:
        print_table(["split, forward, 8192 tokens on 8 GPUs", "collectives", "time"], rows)


def signature(study: Study) -> None:
    rows = []
    for case, sequence_parallel in (("tensor parallel", False), ("with sequence parallelism", True)):
        result = study.of(layer(8, sequence_parallel=sequence_parallel))
        if not result:
            continue
        counts = Counter(name.rpartition(".")[2] for name in result.summary["metrics"]["time_s"])
        metrics = result.summary["metrics"]
        rows.append([case, ", ".join(f"{counts[op]} {op.replace('_', '-')}s" for op in OPERATIONS if counts[op]), f"{1e-6 * VECTOR:.0f} MB",
                     ms(metrics["collectives_s"]), ms(metrics["layer_s"]), percent(metrics["collectives_s"] / metrics["layer_s"])])
    if study.found:
        print_table(["one layer, forward and backward, tp 8", "collectives", "each", "their time", "layer", "share"], rows)


def degrees(study: Study) -> None:
    rows, base = [], None
    for tp in (4, 8, 16, 32):
        metrics = study.metrics(layer(tp))
        latency = sum(time_of(study, op, SMALL, tp) for op in ("all_gather", "reduce_scatter"))
        if not metrics:
            continue
        count = 4  # of each of the two, forward and backward
        base = base or metrics["layer_s"] * tp
        rows.append([f"tp {tp}", str(-(-tp // SERVER_GPUS)), ms(metrics["kernels_s"]), ms(metrics["collectives_s"]), ms(count * latency),
                     ms(metrics["layer_s"]), percent(base / (metrics["layer_s"] * tp))])
    if study.found:
        print_table(["one layer of 8192 tokens", "servers", "kernels", "collectives", "of it latency", "layer", "work per GPU, of tp 4"], rows)


def schedules(study: Study) -> None:
    full = {"recompute": "full"}
    cases = [("naive, full recomputation", {"schedule": "naive"} | full), ("GPipe, full recomputation", {"schedule": "gpipe"} | full),
             ("1F1B, full recomputation", {"schedule": "1f1b"} | full), ("1F1B", {"schedule": "1f1b"})]
    cases += [(f"interleaved, {v} stages a rank", {"schedule": "interleaved", "virtual_stages": v}) for v in (2, 4, 5)]
    cases += [("ZB-H1", {"schedule": "zb_h1"}), ("ZBV", {"schedule": "zbv", "virtual_stages": 2})]
    rows = []
    for name, settings in cases:
        result = study.of(step(**settings))
        if not result:
            continue
        metrics = result.summary["metrics"]
        messages = next(c["messages"] for c in result.summary["traffic"] if c["class"] == "pp")
        rows.append([name, f"{metrics['step_s']:.3f} s", percent(metrics["bubble_fraction"]), percent(metrics["bubble_ideal_fraction"]),
                     str(messages), ms(metrics["exposed_s"]["pp"]), gb(metrics["memory"]["activations_peak_bytes"])])
    if study.found:
        print_table(["tp 8, pp 4, dp 4, 32 micro-batches", "step", "bubble", "by formula", "pp messages", "exposed pp", "activations"], rows)


def micro_batches(study: Study) -> None:
    rows = []
    for count in (4, 8, 16, 32):
        metrics = study.metrics(step(recompute="full", schedule="gpipe", global_batch=4 * count))
        if metrics:
            rows.append([str(count), percent(metrics["bubble_fraction"]), percent(3 / (count + 3)), f"{metrics['tokens_per_s_per_gpu']:.0f}",
                         gb(metrics["memory"]["activations_peak_bytes"])])
    if study.found:
        print_table(["micro-batches, GPipe, pp 4", "bubble", "3 / (m + 3)", "tokens/s per GPU", "activations"], rows)


def places(study: Study) -> None:
    rows = []
    for name, order in (("stages in other servers", "tp-cp-ep-dp-pp"), ("two stages in a server", "tp-pp-cp-ep-dp")):
        metrics = study.metrics(step(tp=4, recompute="full", rank_order=order))
        if metrics:
            rows.append([name, f"{metrics['step_s']:.3f} s", ms(metrics["exposed_s"]["pp"]), ms(metrics["exposed_s"]["dp"])])
    if study.found:
        print_table(["tp 4, pp 4, dp 8", "step", "exposed pp", "exposed dp"], rows)


def replicas(study: Study) -> None:
    rows = []
    for stage in (0, 1):
        for overlap in (False, True):
            metrics = study.metrics(step(zero_stage=stage, dp_overlap=overlap, param_gather_overlap=overlap))
            if metrics:
                rows.append([f"{'all-reduce' if stage == 0 else 'distributed optimizer'}, {'beside backward' if overlap else 'after the last slot'}",
                             f"{metrics['step_s']:.3f} s", ms(metrics["exposed_s"]["dp"]), percent(metrics["exposed_s"]["dp"] / metrics["step_s"])])
    if study.found:
        print_table(["tp 8, pp 4, dp 4", "step", "exposed dp", "of the step"], rows)


def memory(options: argparse.Namespace, folder: pathlib.Path) -> None:
    base = folder / "memory.yaml"
    base.write_text(json.dumps(step().scenario), encoding="utf-8")
    cases = [(pp, stage, recompute) for pp in (1, 2, 4, 8) for stage, recompute in ((0, "none"), (1, "none"), (1, "full"), (3, "full"))]
    settings = [{"workload.pp": pp, "workload.zero_stage": stage, "workload.recompute": recompute} for pp, stage, recompute in cases]
    facts = Explainer(options.bin.resolve() / "dgx_h100", base, folder / "explained.json", options.workers).ask(settings, lambda done, count: None)
    rows = []
    for (pp, stage, recompute), found in zip(cases, facts, strict=True):
        largest = found.largest
        terms = " + ".join(f"{1e-9 * largest[f'{term}_bytes']:.1f}" for term in TERMS if largest[f"{term}_bytes"])
        rows.append([f"pp {pp}, dp {16 // pp}, zero {stage}, recompute {recompute}", terms, gb(largest["total_bytes"]), "yes" if found.fits(1) else "no"])
    print_table(["tp 8", "weights + gradients + optimizer + gathered + activations + recomputed + software, GB", "in all", "fits in 84.9 GB"], rows)


def answers(study: Study) -> None:
    cases = [("rule, plain data parallelism: tp 8, pp 4, dp 4", {"zero_stage": 0}),
             ("the same mapping, distributed optimizer", {}),
             ("rule, distributed optimizer: tp 8, pp 2, dp 8", {"pp": 2}),
             ("tp 8, dp 16, distributed optimizer", {"pp": 1}),
             ("published: tp 4, pp 4, cp 2, dp 4, 5 stages a rank", {"tp": 4, "cp": 2, "schedule": "interleaved", "virtual_stages": 5}),
             ("rule, plain data parallelism, products overlap", {"zero_stage": 0, "tp_overlap": "userbuffers"}),
             ("published, products overlap", {"tp": 4, "cp": 2, "schedule": "interleaved", "virtual_stages": 5, "tp_overlap": "userbuffers"}),
             ("tp 4, pp 8, dp 4, 5 stages a rank", {"tp": 4, "pp": 8, "schedule": "interleaved", "virtual_stages": 5}),
             ("tp 2, cp 2, dp 32, weights divided (zero 3)", {"tp": 2, "cp": 2, "pp": 1, "zero_stage": 3}),
             ("search: tp 4, pp 2, dp 16, 5 stages a rank, zero 2, products overlap",
              {"tp": 4, "pp": 2, "schedule": "interleaved", "virtual_stages": 5, "zero_stage": 2, "tp_overlap": "userbuffers",
               "stage_layers": [8, 8, 8, 8, 8, 8, 8, 8, 9, 7]})]
    rows = []
    for name, settings in cases:
        result = study.of(step(**settings))
        if not result:
            continue
        metrics = result.summary["metrics"]
        exposed = metrics["exposed_s"]
        rows.append([name, f"{metrics['step_s']:.3f} s", f"{metrics['tokens_per_s_per_gpu']:.0f}", f"{metrics['kernels_s']:.3f} s",
                     f"{metrics['bubble_s']:.3f} s", f"{exposed['tp']:.3f} s", f"{exposed['pp'] + exposed.get('cp', 0):.3f} s",
                     f"{exposed['dp']:.3f} s", gb(metrics["memory"]["peak_bytes"])])
    if study.found:
        print_table(["mapping", "step", "tokens/s per GPU", "kernels", "bubble", "exposed tp", "exposed pp, cp", "exposed dp", "memory"], rows)


def laboratory(study: Study) -> None:
    rows = []
    for tokens in (512, 2048, 8192, 32768):
        times = []
        for tp in (1, 4):
            metrics = study.metrics(layer(tp, tokens, "prefill", False))
            if metrics:
                times.append(sum(time for name, time in metrics["time_s"].items() if "attention" in name))
        if times:
            rows.append([str(tokens), ms(times[0]), ms(times[1]), f"{times[0] / times[1]:.2f}", percent(times[0] / times[1] / 4)])
    if study.found:
        print_table(["tokens, attention of one layer, forward", "1 GPU", "4 GPUs", "speed-up", "efficiency"], rows)


TABLES: list[Callable[[Study], None]] = [splits, signature, degrees, schedules, micro_batches, places, replicas, answers, laboratory]


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_runs()
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    study = Study()
    for table in TABLES:
        table(study)
    with one_line("topology_70b.py"), tempfile.TemporaryDirectory() as scratch:
        results = runner.run(study.points.values(), options.out or scratch, options.bin, options.workers)
        failed = [result for result in results if result.failed]
        for result in failed:
            print(f"topology_70b.py: {result.point.name}: {result.error}", file=sys.stderr)
        if failed:
            return 1
        study.found = dict(zip(study.points, results, strict=True))
        for table in TABLES:
            table(study)
            print()
        memory(options, pathlib.Path(scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())

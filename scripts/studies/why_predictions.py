#!/usr/bin/python3
"""How exact the predictions of --why are: small runs of every kind of workload, and each run again with one cost taken away.

  scripts/studies/why_predictions.py                      # prints the table
  scripts/studies/why_predictions.py --kind serving --each   # and every what-if of a kind
  scripts/studies/why_predictions.py --write docs/why.md  # and puts it into the page
  scripts/studies/why_predictions.py --out out/why_predictions

A what-if sets a cost to nothing, or a rate to nearly infinite, with machine.overrides. The cost has at least one percent of a metric's path.
The error is |predicted - simulated| / simulated, for each metric with a path. The study takes about four minutes of processor time. Exit status:
0 all runs done, 1 some failed, 2 bad input.
"""

import argparse
import itertools
import json
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib import runner  # noqa: E402
from lib.command_line import ROOT, Parser, one_line  # noqa: E402

FREE_RATE = 100000.0
AMPLE_BYTES = 1e9
LEAST_SHARE = 0.01


def link(*roles: str, **more: float) -> dict:
    """Links that take no time, and whose credits never run out."""
    every = {f"{role}.{key}": value for role in roles for key, value in {"gb_per_s": FREE_RATE, "buffer_bytes": 0}.items()}
    return {f"machine.overrides.{key}": value for key, value in (every | more).items()}


def gpu(**values: float) -> dict:
    return {f"machine.overrides.gpu.{key.replace('__', '.')}": value for key, value in values.items()}


def buffers(*roles: str) -> dict:
    """Of the devices at the links: a link that takes no time gives its credits back at once."""
    return {f"{role}.buffer_bytes": AMPLE_BYTES for role in roles}


def pcie(role: str) -> dict:
    headers = {f"{role}.{key}": 0 for key in ("posted_headers", "non_posted_headers", "completion_headers")}
    return link(role, **headers | buffers("plx", "root_complex"))


# The row of a path, and what takes its cost away.
WHAT_IFS = {
    "HBM": ("kernels", "hbm", gpu(hbm__gb_per_s=1e6)),
    "tensor": ("kernels", "tensor", gpu(sm__flop_per_clock__fp16=1e9, sm__flop_per_clock__bf16=1e9, sm__flop_per_clock__fp8=1e9, sm__feed_bytes_per_clock=1e6,
                                        sm__epilogue_bytes_per_clock=1e6, kernel__gemm_step_clocks=0, kernel__attention_block_us=0, sm__fp32_lanes=65536)),
    "launch": ("kernels", "launch", gpu(kernel__launch_us=0, kernel__stream_launch_us=0, kernel__gemm_fixed_us=0, kernel__dynamic_scale_us=0,
                                        kernel__attention_fixed_us=0, kernel__decode_attention_fixed_us=0)),
    "protocol steps": ("costs", "step", gpu(**{f"collective__{key}": 0 for key in (
        "launch_us", "wide_launch_us", "graph_launch_us", "p2p_launch_us", "simple_step_ns", "ll_step_ns", "ll_wide_step_ns", "ll_line_ns", "ll128_step_ns",
        "nvls_step_ns", "custom_step_ns", "custom_fence_ns")})),
    "host": ("costs", "host", {}),
    "posts": ("hosts", "posts", {"workload.kv_transfer.descriptor_us": 0}),
    "router": ("hosts", "router", {"workload.router.router_us": 0}),
    "handshakes": ("hosts", "handshakes", {"workload.kv_transfer.metadata_us": 0, "workload.kv_transfer.prepare_us": 0}),
    "NVLink": ("links", "NVLink", link("nvlink", **buffers("nvswitch"))),
    "GPU_PCI": ("links", "GPU_PCI", pcie("gpu_pcie")),
    "PLX_Uplink": ("links", "PLX_Uplink", pcie("plx_uplink")),
    "IB_NIC_PCI": ("links", "IB_NIC_PCI", pcie("nic_pcie")),
    "IB_Cable": ("links", "IB_Cable", link("ib_cable", **{"nic.gb_per_s": FREE_RATE, "ib_switch.gb_per_s": FREE_RATE} | buffers("nic", "ib_switch"))),
}
# What takes the host's time away, by kind of workload.
NO_TIME = {f"workload.host.{key}": 0 for key in ("step_us", "sequence_us", "layer_us", "request_us", "token_us")}
HOST = {"serving": NO_TIME, "disaggregated_prefill": NO_TIME,
        "p2p": {"machine.overrides.nic.post_ns": 0}}


@dataclass(frozen=True)
class Base:
    """A run to which what-ifs are compared."""

    kind: str
    name: str
    platform: str
    scenario: dict

    @property
    def without_host(self) -> dict | None:
        """What takes the host's time away."""
        changes = HOST.get(self.kind)
        workload = self.scenario["workload"]
        for key, what in (("kv_transfer", "posts"), ("kv_transfer", "handshakes"), ("router", "router")):
            if changes is not None and key in workload:
                changes = changes | WHAT_IFS[what][2]
        return changes

    @property
    def servers(self) -> int:
        groups = self.scenario.get("machine", {}).get("groups", {})
        return groups.get("node", {}).get("servers", 1)


def model(name: str) -> dict:
    return {"config": str(ROOT / "scenarios" / "models" / f"{name}.json")}


def simai_trace(size: int, gpus: int) -> str:
    """Four layers with a collective of some bytes among eight GPUs beside each product, and an all-reduce of gradients."""
    layer = f"product\t-1\t40000\tALLGATHER\t{size}\t80000\tREDUCESCATTER\t{size}\t20000\tNONE\t0\t100"
    gradients = f"gradients\t-1\t0\tNONE\t0\t0\tNONE\t0\t0\tALLREDUCE\t{4 * size}\t100"
    header = f"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 1 ga: 2 all_gpus: {gpus} checkpoints: 0 checkpoint_initiates: 0"
    return "\n".join([header, "5", gradients, *[layer] * 4, ""])


def bases(folder: pathlib.Path) -> list[Base]:
    """@param folder  for traces"""
    all_bases = []

    def add(kind: str, platform: str, workload: dict, **rest: object) -> None:
        name = f"{kind} {sum(base.kind == kind for base in all_bases)}"
        scenario = {"schema_version": 1, "platform": platform, "workload": {"kind": kind} | workload} | rest
        all_bases.append(Base(kind, name, platform, scenario))

    small, large = model("llama-3.1-8b"), model("llama-3.1-70b")
    for platform, prompt, handoff in itertools.product(("plx_box", "dgx_h100"), (512, 2048), ("per_layer", "at_end")):
        size = {"tp": 2, "pp": 2} if platform == "plx_box" else {"tp": 4, "pp": 1}
        add("disaggregated_prefill", platform, {
            "requests": {"count": 2, "prompt_tokens": prompt}, "chunk_tokens": 2048, "prefill": size, "decode": size | {"steps": 8},
            "handoff": handoff, "engine": "vllm-0.19"}, model=small)
    for platform, tp, (arrivals, rate) in itertools.product(("plx_box", "dgx_h100"), (1, 2), (
            ("at_once", {}), ("poisson", {"rate_per_s": 4}), ("poisson", {"rate_per_s": 30}), ("closed_loop", {"concurrency": 8}))):
        requests = {"count": 24, "arrivals": arrivals, "prompt_tokens": 500, "output_tokens": {"uniform": {"min": 20, "max": 60}}} | rate
        add("serving", platform, {"requests": requests, "instances": [{"name": "a", "tp": tp}]}, model=small, machine={"groups": {"gpus": {"servers": 1}}})
    fleets = ({"instances": [{"name": "p", "role": "prefill"}, {"name": "d", "role": "decode"}], "kv_transfer": {"merges_adjacent": False}},
              {"instances": [{"name": "a", "count": 2}], "router": {"policy": "least_load", "router_us": 2000, "queue_threshold": 0.5},
               "scheduler": {"max_batched_tokens": 512, "max_seqs": 256}})
    for platform, fleet, (arrivals, rate) in itertools.product(("plx_box", "dgx_h100"), fleets, (("poisson", {"rate_per_s": 4}), ("poisson", {"rate_per_s": 30}))):
        requests = {"count": 24, "arrivals": arrivals, "prompt_tokens": 500, "output_tokens": {"uniform": {"min": 20, "max": 60}}} | rate
        add("serving", platform, {"requests": requests} | fleet, model=small, machine={"groups": {"gpus": {"servers": 1}}})
    for platform, (tp, pp, more) in itertools.product(("plx_box", "dgx_h100"), (
            (1, 1, {}), (2, 1, {"sequence_parallel": True}), (2, 2, {}), (1, 4, {}), (4, 1, {}))):
        add("training", platform, {"seq_tokens": 1024, "global_batch": 16, "tp": tp, "pp": pp} | more, model=model("gpt-126m"),
            machine={"groups": {"node": {"servers": 1}}})
    for platform, op, (servers, size) in itertools.product(("plx_box", "dgx_h100"), ("all_reduce", "all_gather", "all_to_all"),
                                                ((1, 65536), (1, 1 << 20), (1, 1 << 24), (2, 65536), (2, 1 << 22))):
        add("collective", platform, {"op": op, "sizes_bytes": [size]}, machine={"groups": {"node": {"servers": servers}}})
    for platform, engine, size in itertools.product(("plx_box", "dgx_h100"), ("copy_engine", "sm"), (65536, 1 << 24)):
        add("p2p", platform, {"test": "matrix", "ranks": 4, "engine": engine, "copy_bytes": size}, machine={"groups": {"node": {"servers": 1}}})
    for platform, test, size in itertools.product(("plx_box", "dgx_h100"), ("ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat"), (4096, 65536, 1 << 20)):
        add("p2p", platform, {"test": test, "sizes_bytes": [size], "iterations": 20}, machine={"groups": {"node": {"servers": 2}}})
    for platform, tp, layer in itertools.product(("plx_box", "dgx_h100"), (2, 4, 8), (
            {"phase": "prefill", "tokens": 512}, {"phase": "decode", "batch": 16, "context_tokens": 2048}, {"phase": "training", "tokens": 2048})):
        add("layer", platform, layer | {"tp": tp}, model=large, machine={"groups": {"node": {"servers": 1}}})
    for platform, op, size, method in itertools.product(("plx_box", "dgx_h100"), ("all_gather_gemm", "gemm_reduce_scatter"), (1024, 8192),
                                                        ("serial", "decomposed", "ring")):
        if (op, method) != ("gemm_reduce_scatter", "ring"):
            add("overlap", platform, {"op": op, "gemm": {"m": size, "n": 8192, "k": 8192}, "methods": [method]}, machine={"groups": {"node": {"servers": 1}}})
    gemms = [{"op": "gemm", "m": m, "n": n, "k": 8192, "dtype": dtype} for m, n, dtype in itertools.product((16, 512, 2048), (4096, 8192), ("bf16", "fp8"))]
    heads = {"heads": 64, "kv_heads": 8, "head_dim": 128}
    others = [{"op": "norm", "tokens": 4096, "width": 8192}, {"op": "norm", "tokens": 64, "width": 4096},
              {"op": "attention_decode", **heads, "batch": 16, "context_tokens": 4095}, {"op": "attention_decode", **heads, "batch": 1, "context_tokens": 1023}]
    for platform, kernel in itertools.product(("plx_box", "dgx_h100"), gemms + others):
        add("kernel", platform, {"kernels": [kernel]}, machine={"groups": {"node": {"servers": 1}}})
    for platform, servers, size in itertools.product(("plx_box", "dgx_h100", "dgx_a100"), (1, 2), (1 << 18, 1 << 20, 1 << 22)):
        traced = folder / f"{8 * servers}_gpus_{size}_bytes.txt"
        traced.write_text(simai_trace(size, 8 * servers))
        for fidelity in ("fluid", "train"):
            add("trace", platform, {"format": "simai", "file": str(traced)}, machine={"groups": {"node": {"servers": servers}}}, fabric={"fidelity": fidelity})
    return all_bases


def row_of(path: dict, what: str) -> dict | None:
    view, name, _ = WHAT_IFS[what]
    key = {"kernels": "limit", "costs": "cost", "hosts": "work", "links": "links"}[view]
    return next((row for row in path[view] if row[key] == name), None)


def paths_of(result: runner.Result) -> dict[str, dict]:
    return {path["metric"]: path for path in json.loads((result.directory / "out" / "why.json").read_text())["paths"]}


@dataclass(frozen=True)
class Error:
    """Of a prediction for a metric; none: not predicted."""

    point: str
    metric: str
    before_s: float
    predicted_s: float | None
    simulated_s: float

    @property
    def ratio(self) -> float:
        return abs(self.predicted_s - self.simulated_s) / self.simulated_s


def what_ifs(base: Base, paths: dict[str, dict]) -> dict[str, runner.Point]:
    """The what-ifs whose cost is a part of a path."""
    points = {}
    for what, (_, _, changes) in WHAT_IFS.items():
        rows = [(row_of(path, what), path["mean_s"]) for path in paths.values()]
        if not any(row is not None and row["path_s"] > LEAST_SHARE * mean for row, mean in rows):
            continue
        if what == "host":
            changes = base.without_host
        if WHAT_IFS[what][0] == "hosts" and base.kind != "serving":
            changes = None  # these keys are of instances
        if what == "protocol steps" and (base.platform == "plx_box" or base.servers > 1):
            changes = None  # no key takes away the time of lines through a host, and of proxies between servers
        if changes is not None:
            points[what] = runner.Point(f"{base.name}, {what}", base.platform, base.scenario, changes, options=("--why",))
    return points


def errors(name: str, what: str, before: dict[str, dict], after: dict[str, dict]) -> list[Error]:
    found = []
    for metric, path in before.items():
        row = row_of(path, what)
        if row is not None and row["path_s"] > LEAST_SHARE * path["mean_s"] and metric in after:
            found.append(Error(name, metric, path["mean_s"], row["without_s"], after[metric]["mean_s"]))
    return found


def percentile(values: list[float], share: float) -> str:
    return f"{100 * sorted(values)[min(len(values) - 1, int(share * len(values)))]:.1f}" if values else ""


def table_lines(found: dict[tuple[str, str], list[list[Error]]]) -> Iterator[str]:
    yield from ("| kind | without | what-ifs | not predicted | error in percent, p50 | p90 |", "| --- | --- | ---: | ---: | ---: | ---: |")
    kinds = dict.fromkeys(kind for kind, _ in found)
    for kind in kinds:
        whats = [what for its, what in found if its == kind]
        for what in [*whats, "all"]:
            runs = [run for key, its in found.items() if key[0] == kind and what in (key[1], "all") for run in its]
            predicted = [error.ratio for run in runs for error in run if error.predicted_s is not None]
            lacking = sum(all(error.predicted_s is None for error in run) for run in runs)
            yield (f"| {kind} | {what} | {len(runs)} | {lacking} | {percentile(predicted, 0.5)} | {percentile(predicted, 0.9)} |")


def write_table(page: pathlib.Path, lines: list[str]) -> None:
    begin, end = "<!-- table of scripts/studies/why_predictions.py -->\n", "<!-- end of table -->\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    page.write_text("".join([before, begin, *(f"{line}\n" for line in lines), end, after]), encoding="utf-8")


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("--kind", action="append", metavar="KIND", help="only this kind of workload; can be repeated")
    parser.add_argument("--each", action="store_true", help="print every what-if")
    parser.add_argument("--write", type=pathlib.Path, metavar="PAGE.md", help="replace the table in this page")
    parser.add_runs()
    return parser.parse_args(arguments)


Study = dict[tuple[str, str], list[list[Error]]]  # of each what-if, by kind and what


def evenly(items: list, most: int | None) -> list:
    """@return at most so many of them, far apart"""
    return items if most is None else items[:: max(1, len(items) // most)][:most]


def study(chosen: list[Base], folder: pathlib.Path, executables: pathlib.Path, workers: int, most: int | None = None) -> tuple[Study, list[runner.Result]]:
    """@param most  what-ifs of each kind; None: all. @return also the runs that failed"""
    before = runner.run([runner.Point(base.name, base.platform, base.scenario, options=("--why",)) for base in chosen], folder, executables, workers)
    points: dict[str, list] = {}
    for base, result in zip(chosen, before, strict=True):
        if not result.failed:
            points.setdefault(base.kind, []).extend((base.kind, what, result, point) for what, point in what_ifs(base, paths_of(result)).items())
    kept = [point for of_kind in points.values() for point in evenly(of_kind, most)]
    after = runner.run([point for *_, point in kept], folder, executables, workers)
    found: Study = {}
    for (kind, what, base, point), result in zip(kept, after, strict=True):
        if not result.failed:
            found.setdefault((kind, what), []).append(errors(point.name, what, paths_of(base), paths_of(result)))
    return found, [result for result in before + after if result.failed]


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    with one_line("why_predictions.py"), tempfile.TemporaryDirectory() as scratch:
        chosen = [base for base in bases(pathlib.Path(scratch)) if not options.kind or base.kind in options.kind]
        found, failed = study(chosen, options.out or pathlib.Path(scratch), options.bin, options.workers)
        for result in failed:
            print(f"why_predictions.py: {result.point.name}: {result.error}", file=sys.stderr)
        if options.each:
            for error in (error for runs in found.values() for run in runs for error in run):
                text = "not predicted" if error.predicted_s is None else f"{error.predicted_s:.4g} ({100 * error.ratio:.1f} %)"
                print(f"{error.point}: {error.metric} {error.before_s:.4g}, predicted {text}, simulated {error.simulated_s:.4g}")
        lines = list(table_lines(found))
        print("\n".join(lines))
        if options.write:
            write_table(options.write, lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

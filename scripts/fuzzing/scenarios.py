"""Mutated scenarios and tables for the scripts that begin with one: plan.py, the exporters, validate.py. The scripts run in this process.
They must end with a result, or with status 1 or 2 and a one-line error."""

import csv
import io
import pathlib
import random

from . import bases, mutate, outputs
from .cases import Failure

MODEL = {"model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 4, "n_positions": 128, "vocab_size": 1000}
BASE = {"platform": "dgx_h100", "model": {"config": "m.json", "dtype": "bf16"}, "machine": {"groups": {"node": {"servers": 1, "gpu": "H100-SXM5-80GB"}}},
        "workload": {"kind": "training", "software": "megatron_core", "seq_tokens": 128, "global_batch": 8, "micro_batch": 1, "tp": 2, "dp": 4, "zero_stage": 1}}
ONE_MAPPING = {"tp": 2, "cp": 1, "ep": 1, "pp": 1, "virtual_stages": 1, "schedule": "1f1b", "micro_batch": 1, "zero_stage": 1, "recompute": "none",
               "tp_overlap": "none", "stage_layers": "even"}
ROWS = {
    "serving": {"system": "8x H100", "model": "Llama 3.1 8B", "n_gpus": "1", "precision": "bf16", "framework": "vLLM 0.12.0", "tp": "1", "batch": "8",
                "input_len": "512", "output_len": "128", "extra": "concurrency 8", "metric": "TTFT mean", "unit": "ms", "category": "5-inference",
                "source": "somebody's page"},
    "servers": {"system": "h100_sxm", "model": "Qwen3-32B", "precision": "bf16", "framework": "vLLM", "tp": "2", "input_len": "512", "output_len": "128",
                "concurrency": "4", "metric": "TPOT", "unit": "ms", "category": "5-inference", "source": ""},
    "training": {"system": "DGX H100", "model": "Llama3.1 8B", "n_gpus": "16", "precision": "bf16", "seq": "8192", "gbs": "128", "mbs": "1", "tp": "2",
                 "pp": "2", "cp": "", "vp": "", "extra": "FSDP", "metric": "step_time", "unit": "s", "category": "4-training",
                 "source": "pytorch/torchtitan"},
}
CELLS = ("", "NA", "False", "1,024", "294.4", "-1", "0", "1e9", "8+8", "nan", "inf", "8x", "concurrency 4", "\u0663", "\x00", "x" * 300, "FP8", "Falcon-7B")


def table(rng: random.Random, name: str) -> bytes:
    """A table of a class of the validation with a few odd cells."""
    columns = {"id": "R-1"} | ROWS[name] | {"value": "10"}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for number in range(3):
        row = columns | {"id": f"R-{number}"}
        for _ in range(rng.choice((0, 1, 2, 5))):
            row[rng.choice(list(row))] = rng.choice((*CELLS, rng.choice(list(columns.values()))))
        writer.writerow(row.values())
    content = text.getvalue().encode("utf-8", "surrogatepass")
    return mutate.text(rng, content) if rng.random() < 0.2 else content


def attempt(rng: random.Random, folder: pathlib.Path, executables: pathlib.Path) -> tuple[str, list[list[str]], Failure | None]:
    """Runs one case. @return its outcome, its command, and its fault"""
    if rng.random() < 0.5:
        name = rng.choice(list(ROWS))
        (folder / "rows.csv").write_bytes(table(rng, name))
        return outputs.called("validate", [name, "--rows", str(folder / "rows.csv"), "--list"])
    bases.write(folder, {"m.json": MODEL})
    path = folder / "s.yaml"
    content = mutate.dumped(rng, mutate.tree(rng, BASE) if rng.random() < 0.8 else BASE)
    path.write_bytes(mutate.text(rng, content) if rng.random() < 0.4 else content)
    if rng.random() < 0.05:
        mutate.whole_file(rng, path)
    script = rng.choice(("plan", "export_calculon", "export_simai"))
    places = ["--out", str(folder / "out"), "--bin", str(executables)]
    if script != "plan":
        return outputs.called(script, [str(path), *places])
    fixed = [word for axis, value in ONE_MAPPING.items() for word in ("--fix", f"{axis}={value}")]
    return outputs.called("plan", ["--base", str(path), "--top", "1", "--no-what-if", "--jobs", "1", *fixed, *places])

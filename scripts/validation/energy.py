"""Class `energy`: power of GPUs, and energy of a token, while a server is full.

Rules, by column:
  concurrency       requests that the server runs at once (max_num_seqs). The client sends all requests at the start, so a new one follows
                    each answer
  osl               mean of the answers. The run draws them uniformly from one token to twice the mean
  isl               empty: the source prints no lengths of prompts. They are conversations, of which a part is in the prefix cache. The
                    run computes 250 tokens of each (`PROMPT_TOKENS`); 100 and 400 change the power by a few per cent (docs/energy.md)
  options           the host of that time is the sheet's, although the servers ran with async-scheduling: with a host that is hidden as
                    since v0.14, ITL is 22 % too short in the mean (closed_loop_rows.py has the same for InferenceX)
  metric            power: mean of a GPU over the run. energy: this power of all GPUs, divided by the output tokens per second of the
                    second and third quarter of the run. ITL: median
  model             Llama 3.1 405B in fp8 is Meta's checkpoint, which leaves attention and two of the MLPs in bf16
"""

from collections.abc import Callable

from lib.runner import Result

from . import load_rows, model_configs
from .experiment import Experiment
from .rows import SECONDS, Row, Unmapped
from .served_models import number
from .serving_engines import serve

TITLE = "Power and energy of serving engines"
TABLES = ("energy.csv",)
PROMPT_TOKENS = 250
WAVES = 4
META_FP8 = "Llama-3.1-405B-Instruct-FP8"
UNITS = {"power": {"W": 1.0}, "energy": {"J": 1.0}, "ITL": SECONDS}


def _power(result: Result) -> float:
    return result.summary["metrics"]["energy"]["mean_w"]


def _joules_per_token(result: Result) -> float:
    metrics = result.summary["metrics"]
    return metrics["energy"]["mean_w"] * metrics["energy"]["gpus"] / metrics["middle"]["output_tokens_per_s"]


READ: dict[str, Callable[[Result], float]] = {
    "power": _power, "energy": _joules_per_token, "ITL": lambda result: result.summary["metrics"]["itl_p50_s"]}


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    metric = row["metric"]
    if metric not in READ:
        raise Unmapped(f"metric '{metric}' is none of {', '.join(READ)}")
    served = serve(row, row["backend"], row["backend_version"])
    concurrency, answer = number(row, "concurrency"), number(row, "osl")
    requests = {"count": WAVES * concurrency, "arrivals": "closed_loop", "concurrency": concurrency,
                "prompt_tokens": row.mean("isl") or PROMPT_TOKENS, "output_tokens": {"uniform": {"min": 1, "max": 2 * answer - 1}}}
    options = {"scheduler": {"max_seqs": concurrency, "max_batched_tokens": number(row, "max_num_batched_tokens")}}
    if row["model"].endswith(META_FP8):
        served.scenario["model"] |= {"config": str(model_configs.SHIPPED / "llama-3.1-405b-fp8.json"), "dtype": "bf16"}
    scenario = served.with_requests(requests, client_us=load_rows.CLIENT_US, **options)
    return Experiment(f"{metric} {row['model'].rpartition('/')[2]}", served.platform, scenario, None, READ[metric],
                      row.scale(UNITS[metric]), cost=concurrency * answer * served.tp, size_class=f"TP{served.tp}",
                      assumed="" if row["isl"] else f"prompts of {PROMPT_TOKENS} tokens")


def point_name(row: Row, _experiment: Experiment) -> str:
    """The name of the run for such rows."""
    return f"{row['model'].rpartition('/')[2]}-{row['precision']}-{row['system']}-tp{row['tp']}-c{row['concurrency']}"

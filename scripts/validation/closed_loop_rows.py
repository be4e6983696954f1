"""Rows of servers in a closed loop (aiconfigurator's measurements) as scenarios of `workload.kind: serving`.

Rules, by column:
  mode              aggregated servers only
  isl, osl          lengths of all requests
  concurrency       of the closed loop: all start at once, and a new request follows each answer. How many requests were sent is not
                    recorded. The run has WAVES requests for each place; the mean is over all but the last of each place, which see
                    others leave
  backend           engine
  metric TTFT, TPOT means over requests
"""

from .experiment import Experiment, table_of
from .rows import SECONDS, Row, Unmapped
from .served_models import number
from .serving_engines import serve

WAVES = 3


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["metric"] not in ("TTFT", "TPOT"):
        raise Unmapped(f"metric '{row['metric']}' is neither TTFT nor TPOT")
    if row["mode"] != "agg":
        raise Unmapped(f"mode '{row['mode']}': disaggregated servers are not of this class")
    served = serve(row, row["backend"], row["backend_version"])
    concurrency, prompt, answer = number(row, "concurrency"), number(row, "isl"), number(row, "osl")
    requests = {"count": WAVES * concurrency, "arrivals": "closed_loop", "concurrency": concurrency, "prompt_tokens": prompt,
                "output_tokens": answer}
    guessed = " bf16?" if row["precision"] == "bf16?" else ""
    return Experiment(f"closed loop {row['metric']} {row['backend']}{guessed}", served.platform, served.with_requests(requests), None,
                      lambda result: value(table_of(result, "requests.csv"), row["metric"], concurrency), row.scale(SECONDS),
                      cost=WAVES * answer * served.tp, size_class=f"TP{served.tp}")


def value(requests: list[dict], metric: str, concurrency: int) -> float:
    """Seconds, the mean over all requests but the last `concurrency` that arrive."""
    counted = sorted(requests, key=lambda request: int(request["arrival"]))[:-concurrency]
    return 1e-9 * sum(int(request[metric]) for request in counted) / len(counted)

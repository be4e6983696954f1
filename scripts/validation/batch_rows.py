"""Rows of one batch of equal requests on vLLM of 2023 (Splitwise) as scenarios of `workload.kind: serving`.

Rules, by column:
  batch             requests that all arrive at once
  input_len, output_len   of each request. At most 512 tokens of an answer are simulated; time to a token hardly depends on it. Longer
                    answers than 256 tokens end early at the source, so their end-to-end time is skipped
  framework         vLLM of 2023, the sheet vllm-2023-eager; all prompts of a batch at once
  memory            a batch that does not fit is skipped, because that engine swaps
  metric            prompt_time: mean TTFT; token_time: mean TPOT; e2e_time: mean of a request
"""

from .experiment import Experiment
from .rows import SECONDS, Row, Unmapped
from .served_models import number
from .serving_engines import serve

METRICS = {"prompt_time(TTFT)": "ttft_s", "token_time(TBT)": "tpot_s", "e2e_time": "e2e_s"}
LONGEST_ANSWER, LONGEST_COMPLETE_ANSWER = 512, 256
LEAST_BUDGET = 2560  # default of vLLM 0.2
BLOCK = 16  # tokens


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["metric"] not in METRICS:
        raise Unmapped(f"metric '{row['metric']}' is none of {', '.join(METRICS)}")
    batch, prompt, answer = number(row, "batch"), number(row, "input_len"), number(row, "output_len")
    if row["metric"] == "e2e_time" and answer > LONGEST_COMPLETE_ANSWER:
        raise Unmapped(f"answers of {answer} tokens end early")
    served = serve(row, row["framework"], "0.2")
    requests = {"count": batch, "prompt_tokens": prompt, "output_tokens": min(answer, LONGEST_ANSWER)}
    scheduler = {"max_batched_tokens": max(LEAST_BUDGET, batch * prompt + requests["output_tokens"])}
    scenario = served.with_requests(requests, scheduler=scheduler)
    blocks = batch * -(-(prompt + requests["output_tokens"]) // BLOCK)
    metric = METRICS[row["metric"]]
    return Experiment(f"batch {row['metric'].partition('(')[0]}", served.platform, scenario, None,
                      lambda result: value(result.summary["metrics"], metric, blocks), row.scale(SECONDS), cost=answer * served.tp,
                      size_class=f"TP{served.tp}")


def value(metrics: dict, name: str, blocks: int) -> float:
    """Seconds. @throws Unmapped if memory has fewer blocks than the batch needs"""
    if blocks >= metrics["kv_blocks"]["total"]:
        raise Unmapped(f"a batch of {blocks} blocks does not fit in {metrics['kv_blocks']['total']}")
    return metrics[name]

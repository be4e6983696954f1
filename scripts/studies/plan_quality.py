#!/usr/bin/python3
"""Compares plans of serving with brute force in small spaces.

  scripts/studies/plan_quality.py                      # prints a table
  scripts/studies/plan_quality.py --only chat,agents --out out/plan_quality

Each space is planned as by plan.py serving. Then every fleet that costs less than the winner is simulated at the rate, of every shape that fits
into memory, colocated and divided: the cheapest one that keeps the objectives is the best that brute force finds.

  rank          rank correlation of estimated and simulated largest rates, for the price, over the simulated fleets
  cheaper       fleets that cost less than the winner; all were simulated
  worse by      the winner's price over that of brute force

Exit status: 0 done, 1 a plan has no answer, 2 bad input.
"""

import contextlib
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib.command_line import ROOT, Parser, one_line  # noqa: E402
from serving_plan import command, options as plan_options  # noqa: E402
from serving_plan.decision import Decision  # noqa: E402
from serving_plan.fleet import Fleet  # noqa: E402
from serving_plan.space import PlanError  # noqa: E402

PRICES = {"A100-SXM4-80GB": 1.4, "H100-SXM5-80GB": 2.5, "H200-SXM-141GB": 3.2, "B200-SXM-180GB": 5.0, "L40S": 0.9}  # examples, for an hour


def _space(model: str, gpus: str, prompt: object, output: object, rate: float, slo: str, *more: str) -> list[str]:
    prices = [word for gpu in gpus.split(",") for word in ("--price", f"{gpu}={PRICES[gpu]}")]
    return ["--model", str(ROOT / "scenarios" / "models" / f"{model}.json"), "--gpus", gpus, "--prompt", str(prompt), "--output", str(output),
            "--rate", str(rate), "--slo", slo, *prices, *more]


VARIED = "{lognormal: {mean: 800, cv_ratio: 0.8}}"
SPACES = {
    "chat": _space("llama-3.1-8b", "H100-SXM5-80GB,L40S", VARIED, 60, 40, "ttft_p90_s=0.3,tpot_p90_s=0.03", "--tp", "1,2"),
    "documents": _space("llama-3.1-8b", "A100-SXM4-80GB,H100-SXM5-80GB", 4000, 20, 14, "ttft_p90_s=0.9,tpot_p90_s=0.06", "--tp", "1,2"),
    "writing": _space("llama-3.1-8b", "H100-SXM5-80GB,L40S", 100, 150, 40, "ttft_p90_s=0.3,tpot_p90_s=0.02", "--tp", "1,2"),
    "fast": _space("llama-3.1-8b", "H100-SXM5-80GB,H200-SXM-141GB", 500, 60, 50, "ttft_p90_s=0.1,tpot_p90_s=0.008", "--tp", "1,2,4"),
    "13b": _space("llama-2-13b", "A100-SXM4-80GB,H100-SXM5-80GB", VARIED, 40, 20, "ttft_p90_s=0.4,tpot_p90_s=0.04", "--tp", "1,2"),
    "gpus": _space("qwen2.5-7b", ",".join(PRICES), 1000, 40, 60, "ttft_p90_s=0.3,tpot_p90_s=0.03", "--tp", "1"),
    "32b": _space("qwen3-32b", "H100-SXM5-80GB,H200-SXM-141GB", VARIED, 40, 14, "ttft_p90_s=0.6,tpot_p90_s=0.05", "--tp", "1,2,4"),
    "experts": _space("qwen3-30b-a3b", "H100-SXM5-80GB", 1000, 40, 30, "ttft_p90_s=0.4,tpot_p90_s=0.03", "--tp", "1,2,4", "--ep", "1,2,4"),
    "chunks": _space("mistral-nemo-12b", "H100-SXM5-80GB,L40S", VARIED, 40, 25, "ttft_p90_s=0.4,tpot_p90_s=0.03", "--tp", "1", "--chunk", "default,1024"),
    "routers": _space("llama-3.1-8b", "L40S", VARIED, 40, 20, "ttft_p90_s=0.4,tpot_p90_s=0.04", "--tp", "1,2", "--router", "round_robin,least_requests"),
}
COMMON = ("--seeds", "1", "--most-requests", "2400", "--no-what-if")


def fleets_below(decision: Decision, most: float) -> Iterator[Fleet]:
    """All that cost less."""
    for kind, shape in decision.space.fit:
        each, count = shape.gpus * decision.worth(kind), 1
        while count * each < most - 1e-9:
            yield Fleet(kind, shape, count)
            for prefill in range(1, count):
                yield Fleet(kind, shape, 0, prefill, count - prefill)
            count += 1


def row(name: str, words: list[str], out: pathlib.Path, executables: pathlib.Path) -> list[str]:
    decision = command.decide(plan_options.parse([*words, *COMMON, "--bin", str(executables), "--out", str(out / name)], ""))
    winner = decision.winner
    if not winner:
        raise PlanError(f"{name}: {decision.sentence()}")
    cost = winner.gpus * decision.worth(winner.kind)
    sizes, cheaper = decision.sizes, list(fleets_below(decision, cost))
    sizes.at_rate([fleet for fleet in cheaper if fleet not in sizes.loads], f"{name}, brute force", sizes.most_requests)
    best = min((fleet.gpus * decision.worth(fleet.kind) for fleet in cheaper if sizes.loads[fleet].holds), default=cost)
    rank = decision.correlation()
    return [name, str(len(decision.space.fit)), winner.label, f"{cost:.2f}", str(len(cheaper)), f"{best:.2f}", f"{100 * (cost / best - 1):.1f} %",
            "" if rank is None else f"{rank:.2f}"]


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--only", metavar="SPACE,...", help=f"of {', '.join(SPACES)}")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="keeps the runs")
    parser.add_executables()
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(SPACES)
    if unknown := [name for name in names if name not in SPACES]:
        parser.error(f"--only {unknown[0]}: no such space; accepted: {', '.join(SPACES)}")
    with contextlib.ExitStack() as stack, one_line("plan_quality.py", PlanError):
        out = options.out or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plan_quality.")))
        rows = [["space", "shapes", "winner", "an hour", "cheaper", "best an hour", "worse by", "rank"]]
        for name in names:
            rows.append(row(name, SPACES[name], out, options.bin))
            print("| " + " | ".join(rows[-1]) + " |", file=sys.stderr, flush=True)
        print("\n".join("| " + " | ".join(cells) + " |" for cells in [rows[0], ["---"] * len(rows[0]), *rows[1:]]))
        ranks = [float(cells[-1]) for cells in rows[1:] if cells[-1]]
        if ranks:
            print(f"\nmedian rank correlation {statistics.median(ranks):.2f}")


if __name__ == "__main__":
    main()

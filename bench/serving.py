#!/usr/bin/python3
"""What serving costs on this computer, by mapping and fidelity.

  bench/serving.py [--bin build/bin] [--requests 200]

Requests as in Azure's trace of conversations (means of 1180 and 250 tokens), 6 a second, vLLM. "real time" is simulated
time by processor time; "trains / fluid" the ratio of processor time; "TTFT" what trains add to the mean TTFT of fluid links;
"composed" the share of jobs that were added up in composed passes, and "not / composed" the ratio of processor time without to with them.
Meant, with 10 000 requests: 70B on TP8 in 10 s of processor time, on TP4 x PP2 in 20 s, on TP16 over two servers at 10 times real time.
"""

import argparse
import os
import tempfile

from scenarios import PROJECT, measure

MAPPINGS = [  # model, GPU, ranks, servers, fidelities
    ("llama-3.1-8b", "H100-SXM5-80GB", "tp: 1", 1, ("fluid", "train")),
    ("llama-3.1-70b", "H100-SXM5-80GB", "tp: 8", 1, ("fluid", "train")),
    ("llama-3.1-70b", "H100-SXM5-80GB", "tp: 4, pp: 2", 1, ("fluid", "train")),
    ("llama-3.1-70b", "H100-SXM5-80GB", "tp: 2, pp: 4", 1, ("fluid", "train")),
    ("llama-3.1-70b", "H100-SXM5-80GB", "tp: 16", 2, ("fluid",)),
    ("deepseek-v3", "H200-SXM-141GB", "tp: 1, dp: 16, ep: 16", 2, ("fluid",)),
]
SCENARIO = """\
model: {{config: {models}/{model}.json}}
machine: {{groups: {{node: {{servers: {servers}, gpu: {gpu}}}}}}}
fabric: {{fidelity: {fidelity}}}
workload:
  kind: serving
  engine: vllm-0.19
  requests:
    count: {requests}
    arrivals: poisson
    rate_per_s: 6
    prompt_tokens: {{lognormal: {{mean: 1180, cv_ratio: 0.86}}}}
    output_tokens: {{lognormal: {{mean: 250, cv_ratio: 0.68}}}}
  instances: [{{name: a, {ranks}}}]
"""


def run(options, scratch, model, gpu, ranks, servers, fidelity, *sets):
    scenario = os.path.join(scratch, "scenario.yaml")
    with open(scenario, "w", encoding="utf-8") as file:
        models = os.path.join(PROJECT, "scenarios", "models")
        file.write(
            SCENARIO.format(models=models, model=model, gpu=gpu, servers=servers, fidelity=fidelity, requests=options.requests, ranks=ranks)
        )
    command = [os.path.join(options.bin, "dgx_h100"), scenario, "--jobs", "none"]
    for each in sets:
        command += ["--set", each]
    return measure(command, os.path.join(scratch, "out"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(PROJECT, "build", "bin"), help="where the executables are (default build/bin)")
    parser.add_argument("--requests", type=int, default=200, metavar="N", help="of each run (default 200)")
    options = parser.parse_args()
    print("| mapping | fidelity | processor | iteration | jobs | replayed | composed | not / composed | real time | trains / fluid | TTFT | memory |")
    print("| --- | --- |" + " ---: |" * 10)
    with tempfile.TemporaryDirectory() as scratch:
        for model, gpu, ranks, servers, fidelities in MAPPINGS:
            fluid = None
            for fidelity in fidelities:
                cpu_s, _, summary = run(options, scratch, model, gpu, ranks, servers, fidelity)
                simulator, metrics = summary["simulator"], summary["metrics"]
                without_s, _, _ = run(options, scratch, model, gpu, ranks, servers, fidelity, "fabric.compose=false")
                iterations = metrics["iterations"]["count"]
                composed = simulator["composed_jobs"]
                ratio = ttft = ""
                if fluid:
                    ratio = f"{cpu_s / fluid[0]:.2f}"
                    ttft = f"{100 * (metrics['ttft_s'] / fluid[1] - 1):+.2f} %"
                fluid = fluid or (cpu_s, metrics["ttft_s"])
                replayed = simulator["replayed_transactions"] / max(1, simulator["transactions"])
                print(
                    f"| {model}, {ranks} | {fidelity} | {cpu_s:.2f} s | {cpu_s / iterations * 1e3:.3f} ms"
                    f" | {simulator['jobs'] / iterations:.0f} | {100 * replayed:.1f} % | {100 * composed / (composed + simulator['jobs']):.1f} %"
                    f" | {without_s / cpu_s:.1f} | {metrics['end_s'] / cpu_s:.1f} | {ratio} | {ttft}"
                    f" | {simulator['peak_rss_bytes'] * 1e-6:.0f} MB |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""Stand-in platforms for load.py: queues whose distributions are known."""

import math
import stat

import pytest

from scripts_inside import call

pytest.importorskip("yaml")

# One queue, `servers` servers, a service time of service_s without any spread; answers have two tokens, tpot_s apart.
EXECUTABLE = r"""#!/usr/bin/python3 -S
import heapq, json, os, random, sys
if "--schema" in sys.argv:
    leaf = {}
    requests = {"properties": {"rate_per_s": leaf, "count": leaf, "arrivals": leaf}}
    print(json.dumps({"properties": {name: leaf for name in ("platform", "seed", "log", "service_s", "servers", "tpot_s")} |
                      {"workload": {"properties": {"kind": leaf, "requests": requests}}}}))
    sys.exit()
if "--describe" in sys.argv:
    sys.exit(print(json.dumps({"groups": [{"name": "node", "gpu": "H100-SXM5-80GB"}]})))
values = dict(line.strip().split(": ", 1) for line in open(sys.argv[1]).read().splitlines() if ": " in line)
values.update(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
if values["log"]:
    with open(values["log"], "a") as log:
        print(" ".join(sys.argv[1:]), file=log)
if "--check" in sys.argv:
    sys.exit()
rate, count, seed = float(values["workload.requests.rate_per_s"]), int(values["workload.requests.count"]), int(values["seed"])
service, tpot = float(values["service_s"]), float(values["tpot_s"])
random_of = random.Random(seed)
free, now, rows, sums = [0.0] * int(values["servers"]), 0.0, [], 0.0
for i in range(count):
    now += random_of.expovariate(1.0) / rate
    begin = max(now, heapq.heappop(free))
    heapq.heappush(free, begin + service)
    ttft = begin + service - now
    rows.append((now, begin - now, ttft, ttft + tpot))
out = sys.argv[sys.argv.index("--out") + 1]
os.mkdir(out)
ns = lambda seconds: round(1e9 * seconds)
with open(os.path.join(out, "requests.csv"), "w") as file:
    print("request id,input,output,arrival,latency,queuing_delay,TTFT,TPOT,ITL", file=file)
    for i, (arrival, wait, ttft, latency) in enumerate(rows):
        print(f'{i},100,2,{ns(arrival)},{ns(latency)},{ns(wait)},{ns(ttft)},{ns(tpot)},"[{ns(tpot)}, 0]"', file=file)
if "--iterations" in sys.argv:
    with open(os.path.join(out, "iterations.csv"), "w") as file:
        print("instance,iteration,start_s,end_s,tokens,prompts,decodes,running,waiting,blocks", file=file)
        for i, (arrival, wait, ttft, latency) in enumerate(rows):
            print(f"0,{i},{arrival + wait},{arrival + ttft},100,1,0,1,{int(wait / service)},7", file=file)
grows = rate * service > int(values["servers"]) and count > 50
served = min(rate, int(values["servers"]) / service)
summary = {"schema_version": 2, "kind": "serving", "platform": os.path.basename(sys.argv[0]), "model": "none", "seed": seed, "complete": True,
           "setup": {"groups": {"node": {"gpu": "H100-SXM5-80GB", "servers": 1, "gpus": 8}}, "instances": []},
           "metrics": {"end_s": now, "requests": count, "ttft_s": sum(row[2] for row in rows) / count, "slo_attainment_ratio": min(1.0, 10 / rate),
                       "growth": {"is_certain": int(grows)}, "ttft_parts_s": {"queue_slots": sum(row[1] for row in rows) / count, "prefill_kernels": service},
                       "middle": {"request_rate_per_s": served, "prompt_tokens_per_s": 100 * served, "output_tokens_per_s": 2 * served}},
           "traffic": [], "links": [], "memory": {"node": [{"gpu": "node0.gpu0"}, {"gpu": "node0.gpu1"}]}, "simulator": {"wall_s": 0.05}}
with open(os.path.join(out, "summary.json"), "w") as file:
    json.dump(summary, file)
"""


class Queue:
    """A folder with an executable `queue` and a scenario."""

    def __init__(self, path, service_s=0.1, servers=1, tpot_s=0.01, **requests):
        self.path, self.service_s, self.servers = path, service_s, servers
        self.bin, self.log, self.scenario = path / "bin", path / "log", path / "scenario.yaml"
        self.bin.mkdir()
        self.executable = self.bin / "queue"
        self.executable.write_text(EXECUTABLE)
        self.executable.chmod(stat.S_IRWXU)
        of_requests = {"count": 100, "arrivals": "poisson", "rate_per_s": 5} | requests
        self.scenario.write_text(f"platform: queue\nseed: 1\nlog: {self.log}\nservice_s: {service_s}\nservers: {servers}\ntpot_s: {tpot_s}\n"
                                 "workload:\n  kind: serving\n  requests:\n" + "".join(f"    {key}: {value}\n" for key, value in of_requests.items()))

    def run(self, *arguments, out="out"):
        return call("load", self.scenario, "--bin", self.bin, "--out", self.path / out, *arguments)

    def runs(self):
        """Number of runs of the executable, without questions."""
        return sum("--out" in line for line in self.log.read_text().splitlines()) if self.log.exists() else 0


def wait_above(rate, service_s, servers, services):
    """The share of requests of an M/D/c queue that wait longer than so many services. Then at least (services + 1) * c requests are in the system:
    each server ends one of them in each service time (Crommelin 1932)."""
    mean = rate * service_s
    size = (services + 1) * servers + 30 * servers
    arrivals = [math.exp(-mean + n * math.log(mean) - math.lgamma(n + 1)) for n in range(size)]
    states = [1.0] + [0.0] * (size - 1)
    for _ in range(4000):
        left = [sum(states[:servers + 1]), *states[servers + 1:]]
        new = [sum(left[j] * arrivals[n - j] for j in range(min(n + 1, len(left)))) for n in range(size)]
        change = max(abs(a - b) for a, b in zip(states, new))
        states = new
        if change < 1e-9:
            break
    return 1 - sum(states[:(services + 1) * servers])


def largest_rate(service_s, servers, services, allowed):
    """The rate at which this share of the requests of an M/D/c queue waits longer than so many services."""
    low, high = 0.0, servers / service_s
    for _ in range(10):
        rate = (low + high) / 2
        low, high = (rate, high) if wait_above(rate, service_s, servers, services) <= allowed else (low, rate)
    return low

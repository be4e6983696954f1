"""import_simai.py: topologies of SimAI become machines of the same rates, or are refused with the line."""

import random

import pytest
import yaml

from platform_runs import run
from scripts_inside import call

WORKLOAD = "DATA\n1\na -1 10 NONE 0 10 NONE 0 10 ALLREDUCE 4096 0\n"


def topology(servers=2, rails=True, spines=2, gpu="H100", nvlink="2880Gbps", nic="400Gbps"):
    """As SimAI's generator writes it: GPUs, an NVSwitch for each server, leaves, spines."""
    gpus = 8 * servers
    leaves = 8 if rails else 1
    first = gpus + servers
    links = []
    for g in range(gpus):
        links.append(f"{g} {gpus + g // 8} {nvlink} 0.000025ms 0")
        links.append(f"{g} {first + (g % 8 if rails else 0)} {nic} 0.0005ms 0")
    links += [f"{first + leaf} {first + leaves + spine} {nic} 0.0005ms 0" for leaf in range(leaves) for spine in range(spines)]
    switches = servers + leaves + spines
    return [f"{gpus + switches} 8 {servers} {leaves + spines} {len(links)} {gpu}", " ".join(str(gpus + s) for s in range(switches)), *links]


def convert(folder, lines):
    (folder / "topology").write_text("\n".join(lines) + "\n")
    (folder / "w.txt").write_text(WORKLOAD)
    return call("import_simai", folder / "topology", folder / "w.txt", "--out", folder / "s.yaml")


@pytest.mark.parametrize("gpu, platform, links", [("H100", "dgx_h100", 18), ("H800", "dgx_h100", 8), ("H20", "dgx_h100", 18), ("A100", "dgx_a100", 12),
                                                  ("A800", "dgx_a100", 8)])
def test_a_machine_has_the_rates_of_the_topology(gpu, platform, links, tmp_path):
    done = convert(tmp_path, topology(servers=3, gpu=gpu, nvlink="2400Gbps", nic="200Gbps"))
    assert done.returncode == 0, done.stderr
    scenario = yaml.safe_load((tmp_path / "s.yaml").read_text())
    machine = scenario["machine"]
    assert scenario["platform"] == platform and machine["groups"]["node"]["servers"] == 3
    assert machine["network"] == {"kind": "rail_optimized", "spines": 2}
    assert machine["overrides"]["gpu"]["nvlink"]["gb_per_s"] * links == pytest.approx(300, rel=1e-5)
    assert machine["overrides"]["nic"]["gb_per_s"] == 25 and machine["overrides"]["ib_cable"]["gb_per_s"] == 25
    assert run(platform, tmp_path / "s.yaml", "--quiet").returncode == 0


def test_one_switch_and_one_server(tmp_path):
    assert convert(tmp_path, topology(rails=False, spines=0)).returncode == 0
    assert yaml.safe_load((tmp_path / "s.yaml").read_text())["machine"]["network"] == {"kind": "single_switch"}
    assert run("dgx_h100", tmp_path / "s.yaml", "--quiet").returncode == 0


def changed(line, **replaced):
    lines = topology()
    words = lines[line].split()
    for place, word in replaced.items():
        words[int(place[1:])] = word
    return [*lines[:line], " ".join(words), *lines[line + 1:]]


@pytest.mark.parametrize("lines, words", [
    ([], ["topology:1", "expected counts"]), (changed(0, w5="B300"), ["topology:1", "B300", "accepted: A100"]),
    (changed(0, w1="4"), ["topology:1", "servers of 8"]), (changed(0, w4="7"), ["the first line says 7"]), (changed(0, w0="x"), ["'x' is not a number"]),
    (changed(1, w0="3"), ["topology:2", "numbers of all switches"]), (changed(2, w2="fast"), ["topology:3", "not a rate"]),
    (changed(2, w2="100Gbps"), ["same rate"]), (changed(2, w1="17"), ["topology:", "NVSwitch"]), (changed(3, w1="99"), ["topology:4", "no node 99"]),
    (changed(3, w1="1"), ["topology:4", "GPUs 0 and 1"]), (changed(5, w0="0"), ["topology:6", "second NIC"]),
    (changed(21, w1="18"), ["topology:22", "one leaf for each rail"]), (changed(34, w1="19"), ["topology:35", "leaf"]),
    (changed(2, w4="0 0"), ["topology:3", "got 6 words"]), (topology()[:-1], ["the first line says"])])
def test_a_topology_that_railyard_does_not_have_is_one_line(lines, words, tmp_path):
    done = convert(tmp_path, lines)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr
    assert not (tmp_path / "s.yaml").exists()


def test_damaged_topologies_end_with_one_line(tmp_path):
    rng = random.Random(5)
    whole = "\n".join(topology()) + "\n"
    for _ in range(60):
        damaged = list(whole)
        for _ in range(rng.choice((1, 2, 5))):
            damaged[rng.randrange(len(damaged))] = rng.choice("0 9x\n-\x00é")
        done = convert(tmp_path, ["".join(damaged)])
        assert done.returncode in (0, 2) and len(done.stderr.splitlines()) == 1, done.stderr

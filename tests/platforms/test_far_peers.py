"""SMs of two GPUs below different sockets of a PCIe box share one rate: it has a row among the links, and paths name it."""

import collections
import json

import pytest

from platform_runs import ROOT, rows, run, succeed, summary, tiny

LAYER = f"""\
model: {{config: {ROOT}/tests/models/tiny.json}}
workload: {{kind: layer, phase: prefill, tp: 8, batch: 4, tokens: 256}}
"""
RATE = 24e9  # root_complex.far_peer_gb_per_s


def made(folder, *options, out="out", text=LAYER):
    succeed("plx_box", tiny(folder, text), "--quiet", "--out", folder / out, *options)
    return {(row["name"], row["direction"]): row for row in rows(folder / out / "links.csv")}


@pytest.mark.parametrize("fidelity", ["train", "fluid"])
def test_what_crosses_the_sockets_is_counted_by_pairs(tmp_path, fidelity):
    links = made(tmp_path, "--set", f"fabric.fidelity={fidelity}")
    far = {name: row for (name, direction), row in links.items() if direction == "both"}
    assert len(far) == 16 and all(name.startswith("Far_Peers_N[") for name in far)
    assert {row["port"] for row in far.values()} == {f"node0.gpu{a}.pcie node0.gpu{b}.pcie" for a in range(4) for b in range(4, 8)}
    crossed = sum(int(row["bytes"]) for (name, _), row in links.items() if name.startswith("Socket"))
    assert sum(int(row["bytes"]) for row in far.values()) == crossed > 0
    for row in far.values():
        assert float(row["busy_s"]) == pytest.approx(int(row["bytes"]) / RATE, rel=1e-6)
        assert 0 <= float(row["utilisation"]) <= 1 and float(row["gb_per_s"]) == 24


def test_both_ways_share_the_rate_in_either_fidelity(tmp_path):
    text = "workload: {kind: p2p, test: matrix, engine: sm, copy_bytes: 64000000}\n"
    for fidelity in ("train", "fluid"):
        made(tmp_path, "--set", f"fabric.fidelity={fidelity}", out=fidelity, text=text)
        by = collections.defaultdict(dict)
        for row in rows(tmp_path / fidelity / "p2p.csv"):
            by[row["measure"]][row["from"], row["to"]] = row["gb_per_s"]
        assert float(by["unidirectional"]["0", "7"]) == pytest.approx(24, rel=0.01)
        assert float(by["bidirectional"]["0", "7"]) == pytest.approx(24, rel=0.02)


def test_who_waits_for_a_pair_waits_for_its_row(tmp_path):
    """In an all-to-all the two ways of a pair meet; over a slow limit it is what messages wait for."""
    text = "workload: {kind: collective, op: all_to_all, min_bytes: 4194304, max_bytes: 4194304}\n"
    links = made(tmp_path, "--set", "machine.overrides.root_complex.far_peer_gb_per_s=1", text=text)
    [tp] = [row for row in summary(tmp_path / "out")["traffic"] if row["class"] == "tp"]
    assert tp["worst_link"].startswith("Far_Peers_N[") and tp["worst_link_direction"] == "both"
    far = sum(float(row["waited_tp_s"]) for (name, _), row in links.items() if name.startswith("Far_Peers"))
    assert far > 0.5 * tp["waited_s"] > 0


def test_paths_and_tables_name_the_pair(tmp_path):
    slow = ["--set", "machine.overrides.root_complex.far_peer_gb_per_s=2"]
    links = made(tmp_path, "--why", *slow)
    [path] = json.loads((tmp_path / "out" / "why.json").read_text())["paths"]
    [far] = [row for row in path["links"] if row["links"] == "Far_Peers"]
    assert far["path_s"] > 0.5 * path["mean_s"] and far["directions"] == 16
    assert links[far["worst_link"], far["worst_link_direction"]]["transactions"] != "0"
    text = succeed("plx_box", tmp_path / "tiny.yaml", "--why", *slow).stdout
    assert "Far_Peers_N[" in text.split("busiest links")[1]
    # With the limit gone, the run takes what was predicted.
    gone = ["--set", "machine.overrides.root_complex.far_peer_gb_per_s=100000"]
    made(tmp_path, "--why", *gone, out="gone")
    truly = json.loads((tmp_path / "gone" / "why.json").read_text())["paths"][0]["mean_s"]
    assert far["without_s"] == pytest.approx(truly, abs=0.05 * (path["mean_s"] - truly))


def test_events_refuse_what_is_no_link(tmp_path):
    path = tiny(tmp_path, LAYER + "events: [{at_us: 1, link: 'Far_Peers_N[0]_N[4]', fail: true}]\n")
    result = run("plx_box", path, "--quiet")
    assert result.returncode == 2 and "no link 'Far_Peers_N[0]_N[4]'" in result.stderr

"""--list-parameters: each parameter of the elaborated machine, with its value and where this comes from."""

import json

import pytest

from platform_runs import BIN, ROOT, refuse, succeed

DECODE = ROOT / "scenarios" / "layers" / "decode.yaml"


def listed(platform, *arguments):
    rows = json.loads(succeed(platform, *arguments, "--list-parameters", "--json").stdout)
    assert len({row["name"] for row in rows}) == len(rows)
    return {row["name"]: row for row in rows}


def test_each_origin_is_named():
    rows = listed("dgx_h100", DECODE, "--set", "machine.overrides.nic.read_tags=64", "--set", "machine.network.routing=ecmp",
                  "--set", "machine.network.kind=leaf_spine")
    def fact(name):
        row = rows[name]
        return row["value"], row["unit"], row["origin"].rpartition("/")[2]

    assert fact("node0.nic7.read_tags") == ("64", "", "override --set machine.overrides.nic.read_tags=64")
    assert fact("machine.network.routing") == ("ecmp", "", "scenario --set machine.network.routing=ecmp")
    value, unit, origin = fact("node0.gpu3.hbm.capacity_gb")
    assert float(value) == 80 and unit
    assert origin.startswith("H100-SXM5-80GB.yaml:")
    assert fact("node0.nic0.pcie.gb_per_s") == ("63.01536", "GB/s", "derived")  # 16 lanes of PCIe 5
    assert fact("node0.nic0.post_ns") == ("380", "nanoseconds", "default")
    assert fact("machine.nic.per_server")[::2] == ("8", "derived")
    assert rows["leaf0.ports"]["value"] == "64"


def test_values_are_those_of_the_machine():
    """Rates, latencies and buffers of links are those that --describe finds at the ports."""
    rows = listed("plx_box", ROOT / "scenarios" / "disagg_llama3_70b_plx.yaml")
    machine = json.loads(succeed("plx_box", ROOT / "scenarios" / "disagg_llama3_70b_plx.yaml", "--describe", "--json").stdout)
    seen = 0
    for link in machine["links"]:
        if f"{link['from']}.gb_per_s" not in rows:
            continue
        seen += 1
        assert float(rows[f"{link['from']}.gb_per_s"]["value"]) == pytest.approx(link["gb_per_s"], rel=1e-6), link
    assert seen > 20


def test_a_group_has_the_parameters_of_its_gpu():
    rows = listed("plx_box", ROOT / "scenarios" / "disagg_llama3_70b_plx.yaml", "--set", "machine.groups.decode.gpu=RTX-4090")
    assert "RTX-4090" in rows["decode0.gpu0.sm.count"]["origin"] and "RTX-4090" not in rows["prefill0.gpu0.sm.count"]["origin"]


def test_modules_are_in_the_list(tmp_path):
    library = BIN.parent / "modules" / "libdma.so"
    if not library.exists():
        pytest.skip(f"no library {library}")
    path = tmp_path / "s.yaml"
    path.write_text(f"platform: dgx_h100\nmodel: {{config: {ROOT}/tests/models/tiny.json}}\nmachine:\n  modules:\n"
                    f"    - {{name: dma, library: {library}, at: node0.plx0, parameters: {{to: node0.gpu0}}}}\n"
                    "workload: {kind: layer, phase: decode, tp: 2, batch: 8, context_tokens: 2000}\n")
    rows = listed("dgx_h100", path)
    assert (rows["dma.to"]["value"], rows["dma.to"]["origin"]) == ("node0.gpu0", f"scenario {path}:5:{path.read_text().splitlines()[4].index('node0.gpu0') + 1}")
    assert (rows["dma.block_bytes"]["value"], rows["dma.block_bytes"]["unit"], rows["dma.block_bytes"]["origin"]) == ("1048576", "bytes", "default")


def test_lines_can_be_searched():
    lines = succeed("dgx_h100", DECODE, "--list-parameters").stdout.splitlines()
    assert all(" = " in line and "  # " in line for line in lines)
    assert "needs a scenario" in refuse("dgx_h100", "--cluster-config", "x.json", "--dataset", "y.jsonl", "--list-parameters")

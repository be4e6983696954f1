"""SystemC modules in shared libraries that a scenario names (machine.modules)."""

import csv
import gzip
import json
import re

import pytest

from platform_runs import BIN, ROOT, refuse, run, succeed

MODULES = BIN.parent / "modules"
EXAMPLE = ROOT / "examples" / "modules" / "scenario.yaml"

if not (MODULES / "libdma.so").exists():
    pytest.skip(f"no libraries in {MODULES}", allow_module_level=True)

LAYER = f"""\
model: {{config: {ROOT}/tests/models/tiny.json}}
workload: {{kind: layer, phase: decode, tp: 2, batch: 8, context_tokens: 2000, library: nccl}}
"""
SERVING = f"""\
model: {{config: {ROOT}/tests/models/tiny.json}}
workload: {{kind: serving, engine: vllm-0.19, instances: [{{name: all, tp: 2}}], requests: {{count: 3, prompt_tokens: 100, output_tokens: 12}}}}
"""


def module(library, at="node0.plx0", name="mine", **parameters):
    return {"name": name, "library": str(MODULES / f"lib{library}.so"), "at": at, "parameters": parameters}


def scenario(folder, *modules, text=LAYER, servers=1):
    """A scenario with these modules. Line 1 is that of machine."""
    path = folder / "s.yaml"
    path.write_text("machine: " + json.dumps({"modules": list(modules), "groups": {"node": {"servers": servers}}}) + "\n" + text)
    return path


def rows(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def libraries():
    """Options that give the example the libraries of the build."""
    return [f"--set=machine.modules.{i}.library={MODULES}/lib{name}.so" for i, name in enumerate(["dma", "dma", "memory", "dma", "dma", "two_headed"])]


def test_modules_of_the_example_send_at_the_rate_of_their_links_and_of_the_memory(tmp_path):
    succeed("dgx_h100", EXAMPLE, *libraries(), "--out", tmp_path / "out", "--quiet")
    links = {(row["name"], row["direction"]): row for row in rows(tmp_path / "out" / "links.csv")}
    end = max(float(row["end_s"]) for row in rows(tmp_path / "out" / "jobs.csv"))
    to_gpu = int(links["Module_dma.socket", "tx"]["bytes"])
    assert 40 < to_gpu / end / 1e9 < 64  # PCIe 5 x16, less packets
    # The memory takes 6.6 us for a block of 64 KiB, and the next block comes within 0.7 us; the last one may be on its way.
    to_memory = int(links["Module_expander.socket", "rx"]["bytes"])
    assert 0.9 * 10 * end * 1e9 < to_memory < 10 * end * 1e9 + (64 << 10)
    # Heads at two switches share the rate of one memory: half of it each.
    heads = [int(links[f"Module_pool.{head}", "rx"]["bytes"]) for head in ("left", "right")]
    assert 0.9 * 20 * end * 1e9 < sum(heads) < 20 * end * 1e9 + 2 * (64 << 10)
    assert abs(heads[0] - heads[1]) <= 64 << 10
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    other = next(row for row in summary["traffic"] if row["class"] == "other")
    assert other["messages"] > 10 and other["bytes"] >= to_gpu


def test_a_module_shares_links_with_the_scenario(tmp_path):
    """Two GPUs of a plx_box exchange over PCIe, and a DMA engine writes to one of them over the same link."""
    text = "model: {config: %s/tests/models/tiny.json}\nworkload: {kind: layer, phase: prefill, tp: 2, tokens: 4096, library: nccl}\n" % ROOT
    ends = []
    for modules in [], [module("dma", to="node0.gpu0")]:
        out = tmp_path / str(len(modules))
        succeed("plx_box", scenario(tmp_path, *modules, text=text), "--set", "fabric.fidelity=train", "--out", out, "--quiet")
        ends.append(max(float(row["end_s"]) for row in rows(out / "jobs.csv")))
    assert ends[1] > 1.1 * ends[0]


def test_traces_follow_modules_as_other_devices(tmp_path):
    path = scenario(tmp_path, module("dma", to="node0.gpu0"))
    succeed("dgx_h100", path, "--out", tmp_path / "out", "--quiet", "--vcd", "--timeline", "--why")
    wave = (tmp_path / "out" / "trace.vcd").read_text()
    assert re.search(r"\$scope module mine\.socket|\$scope module mine ", wave), wave[:2000]
    timeline = gzip.decompress((tmp_path / "out" / "timeline.json.gz").read_bytes()).decode()
    assert "Module_mine.socket tx" in timeline


def test_describe_lists_modules_and_check_makes_them(tmp_path):
    path = scenario(tmp_path, module("right", at="node0.plx3", label="a", gb_per_s=2))
    machine = json.loads(succeed("dgx_h100", path, "--describe", "--json").stdout)
    kinds = {device["name"]: device["kind"] for device in machine["devices"]}
    assert kinds["mine.socket"] == "initiator" and kinds["mine.configuration"] == "target"
    assert switches(machine) == {"Module_mine.socket": "node0.plx3", "Module_mine.configuration": "node0.plx3"}
    assert succeed("dgx_h100", path, "--check").stdout.endswith(": ok\n")


def switches(machine):
    """Where each socket of modules is connected."""
    return {link["name"]: link["to"] for link in machine["links"] if link["name"].startswith("Module_") and link["direction"] == "tx"}


def test_each_socket_has_a_place_of_its_own(tmp_path):
    """Also at another server, whose memories alone an initiator there reaches."""
    places = {"socket": "node1.plx3", "configuration": "node0.plx1"}
    path = scenario(tmp_path, module("right", at=places), servers=2)
    machine = json.loads(succeed("dgx_h100", path, "--describe", "--json").stdout)
    assert switches(machine) == {f"Module_mine.{socket}": place for socket, place in places.items()}
    moved = succeed("dgx_h100", path, "--describe", "--json", "--set", "machine.modules.0.at.socket=node0.plx0")
    assert switches(json.loads(moved.stdout))["Module_mine.socket"] == "node0.plx0"


def test_nothing_is_composed_or_replayed_beside_a_module(tmp_path):
    """A module has no horizon: it may send at any time."""
    found = []
    for modules in [], [module("right")]:
        out = tmp_path / str(len(modules))
        succeed("dgx_h100", scenario(tmp_path, *modules, text=SERVING), "--out", out, "--quiet", "--jobs", "none", "--set", "fabric.fidelity=train")
        found.append((json.loads((out / "summary.json").read_text())["simulator"], (out / "requests.csv").read_bytes()))
    (alone, requests), (beside, same_requests) = found
    assert alone["passes"]["composed"] > 0 and alone["replayed_transactions"] > 0
    assert beside["passes"]["composed"] == 0 and beside["replayed_transactions"] == 0
    assert [row["reason"] for row in beside["passes"]["not_composed"]] == ["modules of the user may send at any time"]
    assert requests == same_requests  # a module that does nothing


def test_a_run_with_modules_repeats_byte_by_byte(tmp_path):
    path = scenario(tmp_path, module("dma", to="node0.gpu1"))
    files = []
    for again in "ab":
        succeed("dgx_h100", path, "--out", tmp_path / again, "--quiet")
        files.append([(tmp_path / again / name).read_bytes() for name in ("jobs.csv", "links.csv")])
    assert files[0] == files[1]


def test_a_module_whose_access_is_refused_ends_the_run(tmp_path):
    path = scenario(tmp_path, module("dma", to="node0.gpu0", block_bytes=1 << 20), module("dma", name="lost", to="node1.gpu0"), servers=2)
    result = run("dgx_h100", path, "--quiet")  # a memory of another server
    assert result.returncode == 3 and ": error: lost.device: TLM_ADDRESS_ERROR_RESPONSE\n" in result.stderr


@pytest.mark.parametrize("change, line", [
    ({"library": "/nowhere/libmine.so"}, "machine.modules.0.library: there is no file '/nowhere/libmine.so'"),
    ({"library": str(EXAMPLE)}, "machine.modules.0.library: cannot be loaded: "),
    ({"library": str(MODULES / "libhas_no_entry.so")}, "does not export railyard_module()"),
    ({"library": str(MODULES / "libhas_another_version.so")}, "was built for version 8 of module_library.h; accepted: version 2"),
    ({"at": "node0.plxx0"}, "machine.modules.0.at: dgx_h100 has no place for devices 'node0.plxx0'; accepted: node0.plx0 to node0.plx3 (did you mean 'node0.plx0'?)"),
    ({"at": "decode0.plx0"}, "accepted: node0.plx0 to node0.plx3"),
    ({"at": ["node0.plx0"]}, "machine.modules.0.at: expected a text, or a mapping of socket to text, got a list"),
    ({"at": {"socket": "node0.plx0", "configuratoin": "node0.plx1"}}, "machine.modules.0.at.configuratoin: the module has no such socket (did you mean 'configuration'?)"),
    ({"at": {"socket": "node0.plx0"}}, "machine.modules.0.at.configuration: is required: a place for each socket of the module (socket, configuration)"),
    ({"at": {"socket": "node0.plx0", "configuration": "node0.plxx1"}}, "machine.modules.0.at.configuration: dgx_h100 has no place for devices 'node0.plxx1'; accepted: node0.plx0 to node0.plx3 (did you mean"),
    ({"parameters": {"gb_per_a": 3}}, "machine.modules.0.parameters.gb_per_a: the module has no such parameter (did you mean 'gb_per_s'?)"),
    ({"parameters": {"gb_per_s": 300}}, "machine.modules.0.parameters.gb_per_s: expected a number from 0.5 to 100, got '300'"),
    ({"parameters": {"gb_per_s": "fast"}}, "machine.modules.0.parameters.gb_per_s: expected a number from 0.5 to 100, got 'fast'"),
    ({"parameters": {"gb_per_s": [1]}}, "machine.modules.0.parameters.gb_per_s: expected a number or a text, got a list"),
    ({"library": str(MODULES / "libdma.so")}, "machine.modules.0.parameters.to: is required by the module"),
    ({"library": str(MODULES / "libdma.so"), "parameters": {"to": "node0.gpu9"}}, "there is no memory 'node0.gpu9'; accepted: names of GPUs, CPU sockets and target sockets of modules, as node0.gpu"),
    ({"library": str(MODULES / "libleaves_unbound.so")}, "machine.modules.0: the module leaves mine.device.configuration unbound"),
    ({"library": str(MODULES / "libhands_over_nothing.so")}, "machine.modules.0: the module does not hand over its socket 'socket'"),
    ({"library": str(MODULES / "libstates_nothing.so")}, "libstates_nothing.so' states no socket"),
    ({"library": str(MODULES / "libstates_another.so")}, "machine.modules.0: the module hands over a target socket 'configuration', which its library does not state (did you mean 'configuratio'?)"),
    ({"library": str(MODULES / "librefuses.so")}, "machine.modules.0: the module has a mind of its own"),
    ({"library": str(MODULES / "libreports.so")}, "configuration: of no use"),
    ({"name": "mine1"}, "machine.modules.0.name: 'mine1' is not a valid name"),
])
def test_bad_modules_are_refused_in_one_line(tmp_path, change, line):
    path = scenario(tmp_path, module("right") | change)
    error = refuse("dgx_h100", path, "--check")
    assert error.startswith(f"{path}:1:") and line in error, error


def test_two_modules_of_one_name_are_refused(tmp_path):
    path = scenario(tmp_path, module("right"), module("dma", to="node0.gpu0"))
    assert "machine.modules.1.name: 'mine' is taken; accepted: a name of its own" in refuse("dgx_h100", path)


def test_modules_need_trains_and_the_whole_machine(tmp_path):
    path = scenario(tmp_path, module("right"))
    assert "links of modules are trains; fabric.fidelity is fluid; accepted: train, auto" in refuse("dgx_h100", path, "--set", "fabric.fidelity=fluid")
    assert "machine.modules: a module is at one server" in refuse("dgx_h100", path, "--set", "simulation.fold=require")

"""Maps the names of machines in measured rows to a GPU datasheet, a platform executable and a network.

Rules look for words, not for known rows. A GPU is named by its family (A100, H20, RTX 4090, ...). Every datasheet under
platforms/datasheets/gpus belongs to a family, so a new datasheet needs no new rule. If a family has several members, words of the row
decide: PCIe, bridge, pair and the like mean cards; a memory size selects a variant. The platform follows from the GPU's links. A
network is named by protocol and rate, which select the NIC datasheet.
"""

import functools
import math
import pathlib
import re
from dataclasses import dataclass

import yaml

from .rows import Row, Unmapped

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATASHEETS = ROOT / "platforms" / "datasheets"

# NVLink generation -> the board with NVSwitches of this generation. GB GPUs are in racks, not on boards of eight.
SWITCHED = {3: "dgx_a100", 4: "dgx_h100", 5: "dgx_b200"}
MESHES = {3: "hgx_a100_4gpu", 4: "hgx_h100_4gpu"}  # NVLink generation -> the board whose GPUs are joined without NVSwitches
RACK = "gb200_nvl72"
CARDS = "plx_box"
FIFTH_GENERATION, OLDEST_CPU_WITH_FIFTH_GENERATION = 5, "xeon_sapphire_rapids"  # of PCIe; older than that is the CPU of plx_box
GPUS_PER_SERVER = {RACK: 72} | dict.fromkeys(MESHES.values(), 4)
GPUS_PER_TRAY = 4  # of a rack
USUAL_GPUS_PER_SERVER = 8
PCIE_SWITCHES = {3: "pex8796", 4: "pex88096", 5: "pex89144", 6: "pex90144"}  # of a box, by the generation of its GPUs
BOARDS = ((r"G493.?ZB0", "g493_zb0"), (r"ESC8000A.?E13P", "esc8000a_e13p"), (r"WRX90", "wrx90_ws_evo"))  # of cards
UPLINKS = ((r"single.?root", "single_root"), (r"cascade", "cascaded"))  # otherwise each switch is below its own socket

# Cloud instances whose names do not tell their parts: GPU, and network of each server as (protocol, Gb/s, NICs).
# Sources: AWS EC2 p4d, p5, p5e, p5en, p6 and p6e pages (EFAv4: 3.2 Tb/s of a p6-b200, 6.4 of a p6-b300, 400 Gb/s for each GPU of a
# p6e-gb200); Azure ND A100 v4, ND H100 v5, ND H200 v5 pages; Google Cloud A3 Ultra and A4 pages; Oracle BM.GPU shapes.
INSTANCES = (
    (r"\bp4de\b", "A100 SXM 80GB", ("efa", 100, 4)),
    (r"\bp4d\b", "A100 SXM 40GB", ("efa", 100, 4)),
    (r"\bp5en\b", "H200", ("efa", 200, 16)),
    (r"\bp5e\b", "H200", ("efa", 100, 32)),
    (r"\bp5\b", "H100 SXM", ("efa", 100, 32)),
    (r"\bp6[ -]b200\b", "B200", ("efa", 400, 8)),
    (r"\bp6[ -]b300\b", "B300", ("efa", 400, 16)),
    (r"\bp6e[ -]gb200", "GB200", ("efa", 400, None)),
    (r"\bp6e[ -]gb300", "GB300", ("efa", 400, None)),
    (r"\bND[ -]?A100\b", "A100 SXM", ("infiniband", 200, 8)),
    (r"\bND[ -]?H[12]00\b", "SXM", ("infiniband", 400, 8)),
    (r"\bA3[ -]?Ultra\b", "H200", ("roce", 400, 8)),
    (r"(?:\b|(?<=\dx))BM\.GPU4\.8\b", "A100 SXM 40GB", ("roce", 200, 8)),
    (r"(?:\b|(?<=\dx))BM\.GPU\.A100-v2\.8\b", "A100 SXM 80GB", ("roce", 200, 8)),
    (r"(?:\b|(?<=\dx))BM\.GPU\.(H100|H200)\.8\b", "SXM", ("roce", 400, 8)),
    (r"(?:\b|(?<=\dx))BM\.GPU\.B200\.8\b", "", ("roce", 400, 8)),
)

AMD_P5 = r"\bp5e?\b"  # 3rd generation EPYC (AWS EC2 p5 page); the others have CPUs like those of the boards

CARD_WORDS = r"pcie|bridge|pairwise|\bplx\b|\bnvl\b"
BOARD_WORDS = r"sxm|nvswitch|hgx|dgx|hbm3\b"
BRIDGE_WORDS = r"bridge|pairwise|(?<!no )nvlink"
BOUNCE_WORDS = r"no.?p2p|no.?peer.?access|p2p (?:off|disabled)|host.staged"  # GPUs reach each other through host memory
DIRECT_WORDS = r"fully.connected|\bFC\b|direct|/pair|cube.mesh"  # NVLinks from GPU to GPU
SHARP_WORDS = r"(?<!NVLink )(?<!NVLink-)sharp|collnet"  # network switches add
RATE_NAMES = {"FDR": 56, "EDR": 100, "HDR": 200, "NDR": 400, "XDR": 800}
PROTOCOLS = (  # the first match counts
    (r"\bEFA(?:v\d)?\b", "efa"),
    (r"(?i)RoCE|ethernet|spectrum", "roce"),
    (r"\bIB\b|(?i:infiniband|connectx)|[FEHNX]DR\d*\b|\bCX-?\d", "infiniband"),
)
H20_3E = {"capacity_gb": 141, "gb_per_s": 4800}  # NVIDIA's H20 with the HBM3e of the H200
USUAL_RATE = {3: 100, 4: 200, 5: 400}  # Gb/s of an InfiniBand NIC of the same PCIe generation, for rows without a NIC


@dataclass(frozen=True)
class Gpu:
    """The part of a datasheet that the rules use."""

    name: str
    family: str
    card: bool  # a PCIe card, alone or in bridged pairs
    memory_gb: int | None
    nvlink: int  # generation, 0: none
    pcie: int  # generation
    mesh: bool  # joined by xGMI
    tensor_types: frozenset = frozenset()  # number formats with a tensor rate


@dataclass(frozen=True)
class Network:
    """A NIC datasheet, and the number of NICs of a server if the row has it."""

    nic: str
    per_server: int | None
    pcie: int  # generation of the NIC


def _normal(text: str) -> str:
    """Separates words: h100_sxm and H100-SXM5 become H100 SXM5."""
    return re.sub(r"[\s_()\[\],;/-]+", " ", text).strip()


@functools.cache
def datasheet(folder: str, name: str) -> dict:
    """A shipped one, by its folder of platforms/datasheets; not to be changed."""
    return yaml.safe_load((DATASHEETS / folder / f"{name}.yaml").read_text(encoding="utf-8"))


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """The shipped datasheets."""
    found = []
    for path in sorted((DATASHEETS / "gpus").glob("*.yaml")):
        sheet = datasheet("gpus", path.stem)
        words = path.stem.split("-")
        family = " ".join(word for word in words if not re.fullmatch(r"SXM\d*|PCIe|\d+GB|Blackwell|Server", word))
        memory = next((int(word[:-2]) for word in words if re.fullmatch(r"\d+GB", word)), None)
        nvlink = sheet.get("nvlink", {})
        generation = nvlink.get("generation", 0) if nvlink.get("links", 0) else 0
        card = generation == 0 or bool(nvlink.get("bridge", False))
        found.append(Gpu(path.stem, family, card, memory, generation, sheet.get("pcie", {}).get("generation", 5),
                         sheet["architecture"].startswith("cdna"),
                         frozenset(name for name, rate in sheet["sm"]["flop_per_clock"].items() if rate > 0)))
    return tuple(found)


@functools.cache
def nics() -> dict:
    """(protocol, Gb/s) -> datasheet and its PCIe generation."""
    found = {}
    for path in sorted((DATASHEETS / "nics").glob("*.yaml")):
        sheet = datasheet("nics", path.stem)
        found.setdefault((sheet["protocol"], round(8 * sheet["gb_per_s"])), (path.stem, sheet["pcie_generation"]))
    return found


def most_nics_of_two_tiers(nic: str) -> int:
    """That the switches to which this NIC belongs connect without a third tier."""
    ports = datasheet("network_switches", datasheet("nics", nic)["network"])["ports"]
    return ports * ports // 2


def _families(text: str) -> list[str]:
    """The families that a text names, in this order; RTX 4090 also as RTX4090, A100 also as 8xA100 or A100SXM4."""
    names = []
    for family in sorted({gpu.family for gpu in gpus()}, key=len, reverse=True):
        pattern = r"(?<![A-Za-z0-9.])(?:\d+\s?x\s?)?" + family.replace(" ", r"\s?") + r"(?=x\d|SXM|PCIe|[^A-Za-z0-9.]|\.\D|$)"
        match = re.search(pattern, text, re.IGNORECASE)
        if match:
            names.append((match.start(), family))
    return [family for _, family in sorted(names)]


def instance_of(row: Row) -> tuple:
    """The parts of the row's cloud instance; ("", None) if the row names none."""
    text = row.text("system", "device", "fabric", "link").replace("_", " ")
    return next(((gpu, network) for pattern, gpu, network in INSTANCES if re.search(pattern, text, re.IGNORECASE)), ("", None))


def gpu_of(row: Row) -> Gpu:
    """@throws Unmapped if the row names no GPU with a datasheet"""
    text = _normal(f"{row['system']} {row['device']} {instance_of(row)[0]}")
    families = _families(_normal(row["device"])) or _families(text)
    if not families:
        raise Unmapped(f"no GPU datasheet for '{row['device'] or row['system']}'")
    card = _is_card(text, row["fabric"])
    family = [gpu for gpu in gpus() if gpu.family == families[0]]
    members = [gpu for gpu in family if gpu.card == card] if len(family) > 1 or re.search(r"\bpcie\b|\bnvl\b", text, re.IGNORECASE) else family
    if not members:
        raise Unmapped(f"no datasheet for the {'PCIe card' if card else 'SXM module'} {families[0]}")
    memories = [int(size) for size in re.findall(r"\b(\d+)\s?GB?\b", text, re.IGNORECASE)]
    return min(members, key=lambda gpu: (gpu.memory_gb not in memories, -(gpu.memory_gb or 0)))


def _is_card(name: str, fabric: str) -> bool:
    """Whether a GPU is a PCIe card. The fabric decides only if the name does not tell, because boards with modules also have PCIe."""
    if re.search(BOARD_WORDS, name, re.IGNORECASE):
        return False
    if re.search(CARD_WORDS, name, re.IGNORECASE):
        return True
    return bool(re.search(CARD_WORDS, fabric, re.IGNORECASE)) and not re.search("nvlink|nvswitch", fabric, re.IGNORECASE)


def platform_of(row: Row, gpu: Gpu) -> str:
    """@throws Unmapped if no platform connects such GPUs in this way"""
    if gpu.mesh:
        raise Unmapped(f"no platform has the xGMI mesh of {gpu.family}")
    if gpu.card:
        return CARDS
    if re.search(DIRECT_WORDS, row.text("system", "fabric", "link"), re.IGNORECASE):
        if gpu.nvlink not in MESHES or re.match(r"GH\d", gpu.family):
            raise Unmapped(f"no platform has NVLinks from {gpu.family} to {gpu.family} without switches")
        return MESHES[gpu.nvlink]
    if re.match(r"GB\d", gpu.family):
        return RACK
    if gpu.nvlink not in SWITCHED or re.match(r"GH\d", gpu.family):
        raise Unmapped(f"no platform has {gpu.family} GPUs")
    return SWITCHED[gpu.nvlink]


def gpus_per_server(platform: str) -> int:
    return GPUS_PER_SERVER.get(platform, USUAL_GPUS_PER_SERVER)


def servers_of(platform: str, ranks: int, nodes: int | None) -> int:
    """Servers that hold the ranks of a row. A rack is a server, and a row's nodes are its trays, unless they hold more GPUs than a tray."""
    fewest = math.ceil(ranks / gpus_per_server(platform))
    if platform == RACK and nodes and nodes * GPUS_PER_TRAY >= ranks:
        return fewest
    return nodes or fewest


def machine(row: Row, platform: str, gpu: Gpu | None, servers: int, may_assume: bool = False) -> dict:
    """The scenario's `machine`. @throws Unmapped if the row does not name the network between servers, unless rules may assume
    that of the platform: then the scenario does not name it either (assumption())"""
    group = {"servers": servers} | ({"gpu": gpu.name} if gpu else {})
    result: dict = {"groups": {"node": group}}
    if gpu and platform == CARDS:
        names = row.text("system", "fabric", "link", "config")
        uplink = next((way for pattern, way in UPLINKS if re.search(pattern, names, re.IGNORECASE)), None)
        board = board_of(row)
        switches = {"board": board} if board else {"datasheet": PCIE_SWITCHES[min(gpu.pcie, max(PCIE_SWITCHES))]}
        result["plx"] = switches | ({"uplink": uplink} if uplink else {})
        if not board and gpu.pcie >= FIFTH_GENERATION:
            result["cpu"] = OLDEST_CPU_WITH_FIFTH_GENERATION
        if gpu.nvlink and re.search(BRIDGE_WORDS, names, re.IGNORECASE):
            result["nvlink_bridge"] = "pairs"
    elif gpu and platform in SWITCHED.values() and gpu.pcie > FIFTH_GENERATION:
        result["plx"] = {"datasheet": PCIE_SWITCHES[gpu.pcie]}  # those of the ConnectX-8 beside its GPUs
    if re.search(AMD_P5, row.text("system", "fabric", "link", "config"), re.IGNORECASE):
        result["cpu"] = "epyc_milan"
    changes = variant_of(row)
    if re.search(BOUNCE_WORDS, row.text("system", "fabric", "link", "config", "metric"), re.IGNORECASE):
        changes["pcie"] = {"p2p": False}
    if changes:
        result["overrides"] = {"gpu": changes}
    if servers > 1:
        try:
            network = network_of(row, gpu.pcie if gpu else None)
            result["nic"] = {"datasheet": network.nic} | ({"per_server": network.per_server} if network.per_server else {})
        except Unmapped:
            if not may_assume or gpu is None:
                raise
            network = usual_network(platform, gpu.name)
        if re.search(SHARP_WORDS, row.text("system", "fabric", "link", "library", "algo"), re.IGNORECASE):
            result["network"] = {"sharp": True}
        if servers * (network.per_server or gpus_per_server(platform)) > most_nics_of_two_tiers(network.nic):
            result.setdefault("network", {})["tiers"] = 3
    return result


def board_of(row: Row) -> str | None:
    """The PCIe board that the row's system names, if it has a datasheet."""
    return next((board for pattern, board in BOARDS if re.search(pattern, row["system"], re.IGNORECASE)), None)


def gpus_of_a_root_port(row: Row) -> int:
    """GPUs of a PCIe box that share a root port: those of a PCIe switch, or one."""
    named = board_of(row)
    board = (datasheet("pcie_boards", named) if named else datasheet("boards", CARDS))["board"]
    return gpus_per_server(CARDS) // (board["pcie_switches"] or gpus_per_server(CARDS))


def variant_of(row: Row) -> dict:
    """What the row's system says of its GPUs beyond their name, as overrides of the datasheet: "96GB HBM2e 2.4TB/s 500W"."""
    changes: dict = {"hbm": dict(H20_3E)} if re.search(r"\bH20.3e\b", row["system"]) else {}
    memory = re.search(r"(\d+)\s?GB HBM\w*(?: (\d+(?:\.\d+)?)\s?TB/s)?", row["system"])
    if memory and memory[2]:
        changes["hbm"] = {"capacity_gb": int(memory[1]), "gb_per_s": round(1000 * float(memory[2]))}
    limit = re.search(r"\b(\d{3,4})\s?W\b", row["system"])
    if limit:
        changes["sm"] = {"power_limit_w": int(limit[1])}
    return changes


def network_of(row: Row, pcie_generation: int | None = None) -> Network:
    """The NICs of the row's servers; @throws Unmapped if the row names none, or one without datasheet"""
    text = row.text("system", "fabric", "link", "kind", "config")
    usual_protocol, usual_rate, usual_count = instance_of(row)[1] or (None, None, None)
    protocol = next((name for pattern, name in PROTOCOLS if re.search(pattern, text)), usual_protocol)
    if protocol is None:
        raise Unmapped("no network named")
    of_instance = protocol == usual_protocol
    rate = _rate(text) or (usual_rate if of_instance else None)
    if rate is None and protocol == "infiniband":
        rate = USUAL_RATE.get(pcie_generation)
    if rate is None:
        raise Unmapped(f"{protocol} of a rate that is not named")
    if (protocol, rate) not in nics():
        raise Unmapped(f"no NIC datasheet for {protocol} at {rate} Gb/s")
    counted = re.search(r"(\d+)\s?[x×]\s?(?:ConnectX|CX|[EHNX]DR|EFA|InfiniBand|IB\b|RoCE|\d+\s?G(?!B))|\b(\d+)\s+EFA(?:v\d)?\b", text)
    count = int(counted.group(1) or counted.group(2)) if counted else usual_count if of_instance else None
    nic, generation = nics()[protocol, rate]
    return Network(nic, count, generation)


def usual_network(platform: str, gpu: str) -> Network:
    """That of a scenario which names none: of the board, or of the vendor's server with this GPU."""
    board = datasheet("boards", platform)["board"]
    nic = datasheet("gpus", gpu).get("server", {}).get("nic", board["nic"])
    return Network(nic, board["nics"], datasheet("nics", nic)["pcie_generation"])


def assumption(platform: str, machine: dict) -> str:
    """What a scenario leaves to the platform's default; "": nothing"""
    group = machine["groups"]["node"]
    if group["servers"] == 1 or "nic" in machine:
        return ""
    network = usual_network(platform, group["gpu"])
    return f"network {network.per_server}x {network.nic}"


def _rate(text: str) -> int | None:
    """Gb/s of a NIC: of HDR, HDR100, 400G, 200 Gbps, but not of 300 GB/s, 80GB or A100-40G."""
    named = re.search(r"([FEHNX]DR)(\d{3})?\b", text)
    if named:
        return int(named.group(2) or RATE_NAMES[named.group(1)])
    printed = re.search(r"(?<![-\d])(\d{2,3})\s?G(?:b(?:ps|/s|it)?|E)?\b", text)
    return int(printed.group(1)) if printed else None

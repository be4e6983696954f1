"""GPU datasheets, edited in place: a value changes, comments and order stay. The family rule is here.

A GPU without measurements takes its constants from a measured GPU, its family. Its own datasheet holds facts; constants missing there
are those of the family. A constant carries over unchanged, because it is a time or a share of a fact:

  a share of                          constants
  the memory bandwidth                rates of operands, copies and decode attention
  the tensor peak of each type        efficiency of matrix products, in a burst and under the power limit
  its attention kernel's rate         prefill attention (platforms/datasheets/kernels)
  SMs x clock                         L2 rate
  the listed clock                    the clock in a whole training step
  the clock of an SM                  operand feed, write-out; fixed times of products and of decode attention
  the highest clock of an SM          launches, steps and channel rates of collectives
  the capacity of L2                  the working set

If the family is of another architecture and both have a power limit (`sm.power_w`), efficiency under the power limit is the family's times
the ratio of watts per peak FLOP, times the root of the ratio of tensor FLOP per SM and clock: larger tensor units use each operand more
often, so the energy of a FLOP falls with their side. A family whose bursts are not throttled has that headroom for its bursts. In a burst,
0.4 of the loss by the power limit has set in already. From H100 this gives 0.707 on B200 (measured 0.711), from A100 0.533 on L40S (0.548)
and 0.78 on H100 (0.796). Within an architecture efficiency carries over, unless the datasheet has its own.

SMs execute the steps of collectives, so another GPU needs the same number of clocks for a step and moves the same bytes per clock. These
kernels draw little power, so they run at the highest clock (`sm.boost_mhz`). If one of the two datasheets does not name it, the clock of the
listed peak counts for both. The number of channels follows the links.

A constant in a GPU's own datasheet replaces the family's: it was measured on this GPU or follows from its power limit. A comment
in the datasheet gives the reason.
"""

import copy
import pathlib
import re

import yaml
from lib import run_files

SHEETS = pathlib.Path(__file__).resolve().parents[2] / "platforms" / "datasheets" / "gpus"

# Constants that a datasheet takes from its family (models/gpu/datasheet.h). Its section copy is taken whole.
CONSTANTS = (
    "sm.feed_bytes_per_clock", "sm.epilogue_bytes_per_clock", "sm.burst_efficiency_ratio", "sm.sustained_efficiency_ratio",
    "sm.low_precision_sustained_ratio", "sm.throttle_us", "sm.step_clock_ratio", "l2.bytes_per_sm_clock", "l2.working_ratio", "hbm.gemm_ratio",
    "hbm.stream_ratio", "hbm.read_latency_ns", "kernel.launch_us", "kernel.stream_launch_us",
    "kernel.dynamic_scale_us", "kernel.scale_search_per_clock", "kernel.gemm_fixed_us", "kernel.split_k_us", "kernel.gemm_step_clocks", "kernel.overlap_exponent", "kernel.attention_ratio",
    "kernel.attention_block_us", "kernel.attention_fixed_us", "kernel.decode_attention_ratio", "kernel.decode_attention_fixed_us",
    "collective.launch_us", "collective.wide_launch_us", "collective.graph_launch_us", "collective.p2p_launch_us", "collective.ll_step_ns",
    "collective.ll_wide_step_ns", "collective.ll_line_ns", "collective.ll128_step_ns", "collective.ll128_gb_per_s",
    "collective.simple_step_ns", "collective.simple_gb_per_s", "collective.p2p_gb_per_s", "collective.p2p_copy_gb_per_s",
    "collective.nvls_step_ns", "collective.nvls_gb_per_s", "collective.custom_step_ns", "collective.custom_fence_ns",
    "collective.custom_pull_ns", "collective.custom_gb_per_s",
)

# The rule of power: the most efficiency, the share of the loss by the power limit in a burst, and when it sets in.
POWER_LIMITED = ("sm.sustained_efficiency_ratio", "sm.low_precision_sustained_ratio", "sm.burst_efficiency_ratio", "sm.throttle_us")
MOST_EFFICIENT, BURST_LOSS, THROTTLE_US = 0.98, 0.4, 1000
# Times and rates that follow the clock of an SM.
TIMES_BY_CLOCK = ("kernel.gemm_fixed_us", "kernel.decode_attention_fixed_us",
                  *(key for key in CONSTANTS if key.startswith("collective.") and key.endswith(("launch_us", "_ns"))))
RATES_BY_CLOCK = tuple(key for key in CONSTANTS if key.startswith("collective.") and key.endswith("gb_per_s"))


SECTIONS = frozenset(key.partition(".")[0] for key in CONSTANTS)


def number(value):
    """The number with four significant digits, in its shortest form."""
    text = f"{value:.4g}"
    return f"{float(text):.0f}" if "e" in text else text


class Datasheet:
    def __init__(self, path):
        """@throws run_files.Error for a file that is no datasheet; the executable checks its values"""
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
            self.values = yaml.safe_load(self.text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise run_files.Error(path, f"no datasheet of a GPU: {str(error).splitlines()[0]}") from error
        if not isinstance(self.values, dict) or not isinstance(self.values.get("family", ""), str):
            raise run_files.Error(path, "no datasheet of a GPU: expected a mapping, with a name as its family if it has one")
        for name in SECTIONS & self.values.keys():
            if not isinstance(self.values[name], dict | None):
                raise run_files.Error(path, f"{name}: expected a mapping")
        family = self.values.get("family", "")
        if "/" in family or family.endswith(".yaml"):  # a file in the same folder: its path must also work from elsewhere
            self.set_family(str((path.parent / family).resolve()))

    def copy(self, path):
        """The same text, to be written elsewhere."""
        other = Datasheet.__new__(Datasheet)
        other.path, other.text, other.values = path, self.text, copy.deepcopy(self.values)
        return other

    def family(self):
        """The datasheet whose constants this one follows, or None."""
        name = self.values.get("family")
        if name is None:
            return None
        return Datasheet(pathlib.Path(name) if name.endswith(".yaml") else SHEETS / f"{name}.yaml")

    def says(self, key):
        section, name = key.split(".")
        return name in (self.values.get(section) or {})

    def get(self, key, default=None):
        section, name = key.split(".")
        if self.says(key):
            return self.values[section][name]
        family = self.family() if key in CONSTANTS else None
        if not family:
            return default
        if key in (*TIMES_BY_CLOCK, *RATES_BY_CLOCK) and family.get(key):
            clocks = family.clock_over(self, key)
            return float(family.get(key)) * (clocks if key in TIMES_BY_CLOCK else 1 / clocks)
        limited = self._power_limited(key, family) if family.values["architecture"] != self.values["architecture"] else None
        return family.get(key, default) if limited is None else limited

    def clock_over(self, other, key):
        """The clock that a time or rate follows, relative to that of another GPU."""
        both = [sheet.values["sm"] for sheet in (self, other)]
        name = "boost_mhz" if key.startswith("collective.") and all(sm.get("boost_mhz") for sm in both) else "clock_mhz"
        return both[0][name] / both[1][name]

    def _power_limited(self, key, family):
        """The constant by the rule of power (sc_main/scenario/datasheets/datasheets.cpp), or None if the rule does not apply."""
        headrooms = [sheet.power_headroom() for sheet in (self, family)]
        if not all(headrooms) or key not in POWER_LIMITED:
            return None
        if key in ("sm.sustained_efficiency_ratio", "sm.low_precision_sustained_ratio"):
            in_burst = key == "sm.sustained_efficiency_ratio" and not family.get("sm.throttle_us")
            theirs = family.get("sm.burst_efficiency_ratio" if in_burst else key)
            return min(MOST_EFFICIENT, float(theirs) * headrooms[0] / headrooms[1])
        if self.says("sm.sustained_efficiency_ratio"):
            return None
        if key == "sm.throttle_us":
            return float(family.get(key)) or THROTTLE_US
        return 1 - BURST_LOSS * (1 - float(self.get("sm.sustained_efficiency_ratio")))

    def power_headroom(self):
        """Power per tensor FLOP of the peak, times the root of the FLOP per clock; 0 without a power limit."""
        sm = self.values["sm"]
        rate = sm["flop_per_clock"]["fp16"]
        return sm.get("power_w", 0) * rate**0.5 / (rate * sm["count"] * sm["clock_mhz"])

    def set_family(self, name):
        """Makes another device the source of all constants that the datasheet does not have."""
        self.text = re.sub(r"(?m)^family:.*\n", "", self.text)
        self.text = re.sub(r"(?m)^(architecture:.*\n)", rf"\1family: {name}\n", self.text)
        self.values["family"] = name

    def remove(self, key):
        section, name = key.split(".")
        self.text = re.sub(rf"(?m)(^{section}:[^\n]*\n(?:  [^\n]*\n)*?)  {name}:[^\n]*\n", r"\1", self.text)
        del self.values[section][name]
        if not self.values[section]:
            self.text = re.sub(rf"(?m)^{section}:[^\n]*\n\n?", "", self.text)
            del self.values[section]

    def set(self, key, value, comment=None):
        """Keeps the comment of the line unless a new one is given. A missing key is added at the end of its section."""
        section, name = key.split(".")
        shown = number(value)
        if section not in self.values:
            self.text += f"\n{section}:\n"
            self.values[section] = {}
        head = re.search(rf"^{section}:[^\n]*\n((?:  [^\n]*\n)*)", self.text, re.M)
        body = head.group(1)
        line = re.search(rf"^  {name}:[^#\n]*?(\s*#[^\n]*)?$", body, re.M)
        tail = f"  # {comment}" if comment else (line.group(1) or "") if line else ""
        new = f"  {name}: {shown}{tail}"
        body = body[:line.start()] + new + body[line.end():] if line else body + new + "\n"
        self.text = self.text[:head.start(1)] + body + self.text[head.end(1):]
        self.values[section][name] = float(shown)

    def write(self):
        self.path.write_text(self.text)

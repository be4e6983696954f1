"""GPU datasheets, edited in place: a value changes, comments and order stay. The family rule is here.

A GPU without measurements takes its constants from a measured GPU, its family. Its own datasheet holds facts; constants missing there
are those of the family. A constant carries over unchanged, because it is a time or a share of a fact:

  a share of                          constants
  the memory bandwidth                rates of operands, copies and decode attention
  the tensor peak of each type        efficiency of matrix products, in a burst and under the power limit
  the fp16 tensor peak                attention, with its exponentials
  SMs x clock                         L2 rate
  the clock of an SM                  operand feed, write-out; fixed cost of a query row of attention
  the capacity of L2                  the working set

Steps, launches and channel rates of collectives carry over as times and rates; the number of channels follows the links.

A constant in a GPU's own datasheet replaces the family's: it was measured on this GPU or follows from its power limit. A comment
in the datasheet gives the reason.
"""

import copy
import pathlib
import re

import yaml

SHEETS = pathlib.Path(__file__).resolve().parents[2] / "platforms" / "datasheets" / "gpus"

# Constants that a datasheet takes from its family (models/gpu/datasheet.h). Its section copy is taken whole.
CONSTANTS = (
    "sm.feed_bytes_per_clock", "sm.epilogue_bytes_per_clock", "sm.burst_efficiency_ratio", "sm.sustained_efficiency_ratio",
    "sm.low_precision_sustained_ratio", "sm.throttle_us", "l2.bytes_per_sm_clock", "l2.working_ratio", "hbm.gemm_ratio",
    "hbm.stream_ratio", "hbm.half_saturation_mb", "hbm.read_latency_ns", "kernel.launch_us", "kernel.stream_launch_us",
    "kernel.dynamic_scale_us", "kernel.gemm_fixed_us", "kernel.split_k_us", "kernel.gemm_step_clocks", "kernel.overlap_exponent", "kernel.attention_ratio",
    "kernel.attention_row_clocks", "kernel.attention_fixed_us", "kernel.decode_attention_ratio", "kernel.decode_attention_fixed_us",
    "kernel.decode_flight_kib", "kernel.decode_split_us",
    "collective.launch_us", "collective.wide_launch_us", "collective.graph_launch_us", "collective.p2p_launch_us", "collective.ll_step_ns",
    "collective.ll_wide_step_ns", "collective.ll_line_ns", "collective.ll128_step_ns", "collective.ll128_gb_per_s",
    "collective.simple_step_ns", "collective.simple_gb_per_s", "collective.p2p_gb_per_s", "collective.p2p_copy_gb_per_s",
    "collective.nvls_step_ns", "collective.nvls_gb_per_s", "collective.custom_step_ns", "collective.custom_fence_ns",
    "collective.custom_pull_ns", "collective.custom_gb_per_s", "collective.vllm_call_us", "collective.sglang_call_us",
)


def number(value):
    """The number with four significant digits, in its shortest form."""
    text = f"{value:.4g}"
    return f"{float(text):.0f}" if "e" in text else text


class Datasheet:
    def __init__(self, path):
        self.path = path
        self.text = path.read_text()
        self.values = yaml.safe_load(self.text)
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
        return family.get(key, default) if family else default

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

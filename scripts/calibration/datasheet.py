"""GPU datasheets, edited in place: a value changes, comments and order stay. The family rule is here.

A device without measurements follows a measured one, its family. Its calibrated constants are that device's:

  unchanged                       times, ratios, exponents, bytes in flight
  by tensor FLOP per SM per clock operand feed and write-out per clock; keys that attention's overheads cost, being time
  by memory bandwidth             HBM rate of matrix products
  by SMs x clock                  L2 rate
  by 16-bit tensor peak           attention rate

A line whose comment begins with "own" keeps its value: it was measured on the device or follows from its power limit, as the
comment says.
"""

import copy
import re

import yaml

CONSTANTS = {
    "sm.feed_bytes_per_clock": "tensor", "sm.epilogue_bytes_per_clock": "tensor", "sm.burst_efficiency_ratio": "",
    "sm.sustained_efficiency_ratio": "", "sm.low_precision_sustained_ratio": "", "sm.throttle_us": "",
    "l2.gb_per_s": "l2", "l2.working_ratio": "", "hbm.gemm_gb_per_s": "hbm", "hbm.stream_ratio": "",
    "hbm.half_saturation_mb": "", "kernel.launch_us": "", "kernel.stream_launch_us": "", "kernel.dynamic_scale_us": "",
    "kernel.gemm_fixed_us": "", "kernel.split_k_us": "", "kernel.overlap_exponent": "", "kernel.attention_tflops": "peak",
    "kernel.attention_half_tokens": "tensor", "kernel.attention_fixed_us": "", "kernel.decode_attention_ratio": "",
    "kernel.decode_attention_fixed_us": "", "kernel.decode_flight_kib": "", "kernel.decode_split_us": "",
}


def number(value):
    """Four digits, as short as they can be written."""
    text = f"{value:.4g}"
    return f"{float(text):.0f}" if "e" in text else text


class Datasheet:
    def __init__(self, path):
        self.path = path
        self.text = path.read_text()
        self.values = yaml.safe_load(self.text)

    def copy(self, path):
        """The same text, to be written elsewhere."""
        other = Datasheet.__new__(Datasheet)
        other.path, other.text, other.values = path, self.text, copy.deepcopy(self.values)
        return other

    def get(self, key, default=None):
        section, name = key.split(".")
        return self.values.get(section, {}).get(name, default)

    def is_own(self, key):
        section, name = key.split(".")
        found = re.search(rf"^{section}:.*?^  {name}:[^#\n]*(#[^\n]*)?$", self.text, re.M | re.S)
        return bool(found and found.group(1) and re.match(r"#\s*own\b", found.group(1)))

    def set(self, key, value, comment=None):
        """Keeps the line's comment unless there is a new one; a key that is not there goes to the section's end."""
        section, name = key.split(".")
        shown = number(value)
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


def scale(quantity, sheet):
    sm = sheet.values["sm"]
    tensor = sm["flop_per_clock"]["fp16"]
    return {"": 1.0, "tensor": tensor, "hbm": sheet.values["hbm"]["gb_per_s"], "l2": sm["count"] * sm["clock_mhz"],
            "peak": sm["count"] * sm["clock_mhz"] * tensor}[quantity]


def follow(target, family):
    """Sets the constants of `target` by the family rule."""
    for key, quantity in CONSTANTS.items():
        if family.get(key) is not None and not target.is_own(key):
            target.set(key, family.get(key) * scale(quantity, target) / scale(quantity, family))

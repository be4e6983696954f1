"""How far kernels may be from the measurements of their GPU: the mean of |ln(predicted/measured)| over the shipped rows of validation/."""

import json
import re
import subprocess

import pytest

from platform_runs import BIN, ROOT

# System, operation, fewest rows, most mean |ln|. Vidur's profiles were used in no fit, but for the A40's tensor rate and, on the A100,
# kernels with a block for each row.
TARGETS = [
    ("a100_sxm", "gemm", 280, 0.07), ("h100_sxm", "gemm", 330, 0.07), ("b200_sxm", "gemm", 330, 0.07), ("l40s", "gemm", 270, 0.07),
    ("a100_sxm", "attention", 220, 0.12), ("h100_sxm", "attention", 520, 0.12), ("b200_sxm", "attention", 280, 0.12),
    ("l40s", "attention", 240, 0.12), ("H800", "attention", 240, 0.10),
    ("a100 (vidur)", "gemm", 430, 0.10), ("h100 (vidur)", "gemm", 140, 0.12), ("a40 (vidur)", "gemm", 190, 0.08),
    ("a100 (vidur)", "norm", 100, 0.08), ("a40 (vidur)", "norm", 48, 0.11), ("h100 (vidur)", "norm", 36, 0.14),
    ("a100 (vidur)", "activation", 90, 0.11), ("a40 (vidur)", "activation", 40, 0.10), ("h100 (vidur)", "activation", 30, 0.16),
]


@pytest.fixture(name="groups", scope="module")
def fixture_groups():
    command = [str(ROOT / "scripts" / "validate.py"), "gpu", "--json", "--bin", str(BIN)]
    for system in dict.fromkeys(target[0] for target in TARGETS):
        command += ["--only", f"{system}/"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(told.stdout)["groups"]


@pytest.mark.parametrize("system, operation, least, most", TARGETS)
def test_mean_error_of_a_gpu(system, operation, least, most, groups):
    own = [group for group in groups if re.match(re.escape(f"{system}/{operation}") + "[ /]", group["name"])]
    rows = sum(group["rows"] for group in own)
    assert rows >= least
    assert sum(group["mean_abs_ln_err"] * group["rows"] for group in own) / rows <= most

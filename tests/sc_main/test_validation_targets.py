"""How far kernels may be from the measurements of their GPU: the mean of |ln(predicted/measured)| over the shipped rows."""

import json
import subprocess

import pytest

from platform_runs import BIN, ROOT

MOST_LN = {"gemm": 0.07, "attention": 0.12}


@pytest.fixture(name="groups", scope="module")
def fixture_groups():
    command = [str(ROOT / "scripts" / "validate.py"), "gpu", "--json", "--bin", str(BIN)]
    for system in ["a100_sxm", "h100_sxm", "b200_sxm", "l40s"]:
        command += ["--only", f"{system}/"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(told.stdout)["groups"]


@pytest.mark.parametrize("operation", MOST_LN)
@pytest.mark.parametrize("system, least", [("a100_sxm", 200), ("h100_sxm", 300), ("b200_sxm", 250), ("l40s", 200)])
def test_mean_error_of_a_gpu(system, least, operation, groups):
    own = [group for group in groups if group["name"].startswith(f"{system}/{operation} ")]
    rows = sum(group["rows"] for group in own)
    assert rows >= least
    assert sum(group["mean_abs_ln_err"] * group["rows"] for group in own) / rows <= MOST_LN[operation]

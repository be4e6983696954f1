"""Rows of power and energy: which run a row becomes, and what is read from it."""

import pathlib
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from validation import comparison, energy, rows  # noqa: E402

TABLE = rows.read(str(ROOT / "validation" / "energy.csv"))
MAPPED = comparison.map_rows(energy, TABLE)


def test_all_rows_have_a_run_and_three_figures_share_it():
    assert [outcome.skipped for outcome in MAPPED if outcome.skipped] == []
    assert len({outcome.experiment.key for outcome in MAPPED}) * 3 == len(MAPPED)
    assert all(outcome.experiment.assumed == "prompts of 250 tokens" for outcome in MAPPED)


def test_a_server_is_full_and_its_checkpoint_is_metas():
    narrow = next(one for one in MAPPED if one.row["precision"] == "fp8" and one.row["concurrency"] == "64")
    workload = narrow.experiment.scenario["workload"]
    assert workload["scheduler"]["max_seqs"] == workload["requests"]["concurrency"] == 64
    assert pathlib.Path(narrow.experiment.scenario["model"]["config"]).name == "llama-3.1-405b-fp8.json"


def test_joules_of_a_token_are_power_over_the_rate_of_the_middle():
    result = types.SimpleNamespace(summary={"metrics": {"energy": {"mean_w": 500.0, "gpus": 4.0}, "itl_p50_s": 0.02,
                                                        "middle": {"output_tokens_per_s": 1000.0}}})
    assert [energy.READ[metric](result) for metric in ("power", "energy", "ITL")] == [500.0, pytest.approx(2.0), 0.02]

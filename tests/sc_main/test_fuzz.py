"""A bounded, seeded run of each fuzzer. scripts/fuzz runs them for longer."""

import argparse
import importlib.machinery
import importlib.util
import random
import sys

import pytest

from platform_runs import BIN, ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from fuzzing import bases, inputs, machines, mutate, properties, targets  # noqa: E402

_loader = importlib.machinery.SourceFileLoader("fuzz", str(ROOT / "scripts" / "fuzz"))
fuzz = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz", _loader))
_loader.exec_module(fuzz)


def tried(target, tmp_path, count, first=0, seed=1):
    options = argparse.Namespace(target=target, seconds=None, cases=count, seed=seed, first=first, only=None, jobs=2, out=tmp_path / "kept", bin=BIN)
    keeper = fuzz.run(options)
    assert sum(keeper.ends.values()) == count
    return keeper


def kept(keeper):
    return {path.name: (path / "FAILURE").read_text() for path in keeper.folder.glob("*/")}


def test_mutated_inputs_end_with_a_result_or_a_line(tmp_path):
    keeper = tried("inputs", tmp_path, 200)
    assert not keeper.failures, kept(keeper)
    assert keeper.ends["status 0"] > 30 and keeper.ends["status 2"] > 60, keeper.ends


def test_mutated_files_of_runs_end_with_a_page_or_a_line(tmp_path):
    keeper = tried("outputs", tmp_path, 150)
    assert not keeper.failures, kept(keeper)
    assert keeper.ends["status 0"] > 30 and keeper.ends["status 2"] > 30, keeper.ends


def test_mutated_imports_end_with_a_scenario_or_a_line(tmp_path):
    keeper = tried("importers", tmp_path, 600)
    assert not keeper.failures, kept(keeper)
    for script in ("import_calculon", "import_simai"):
        assert keeper.ends[f"{script} status 0"] > 5 and keeper.ends[f"{script} status 2"] > 100, keeper.ends


def test_mutated_scenarios_of_scripts_end_with_a_result_or_a_line(tmp_path):
    keeper = tried("scenarios", tmp_path, 60)
    assert not keeper.failures, kept(keeper)
    assert keeper.ends["status 0"] > 15 and keeper.ends["status 2"] > 15, keeper.ends


def test_random_machines_have_the_properties(tmp_path):
    keeper = tried("machines", tmp_path, 12, first=8)
    assert not keeper.failures, kept(keeper)
    assert keeper.ends["status 0"] >= 8, keeper.ends


def test_cases_follow_from_seed_and_number(tmp_path):
    grammar = mutate.Grammar({"type": "object", "properties": {"a": {"type": "number", "minimum": 0, "maximum": 9}}})
    made = []
    for name in ("one", "two"):
        case = inputs.make(random.Random(5), tmp_path / name, BIN, grammar, bases.bases())
        made.append((case.command, {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}))
    assert made[0] == made[1]
    assert machines.machine(random.Random(6)) == machines.machine(random.Random(6))


@pytest.mark.parametrize("summary, wrong", [
    ({"metrics": {"end_s": 1.0, "x": [1, None, "a"]}, "links": [{"utilisation": 1.0}]}, None),
    ({"metrics": {"end_s": 18000.5}}, ".metrics.end_s is longer than a run"),
    ({"metrics": {"ttft_s": -1e-9}}, ".metrics.ttft_s is negative"),
    ({"metrics": {"ttft_s": float("nan")}}, ".metrics.ttft_s is not finite"),
    ({"links": [{"utilisation": 1.01}]}, ".links[].utilisation is no share"),
])
def test_figures_that_no_run_has_are_found(summary, wrong):
    assert inputs.figures(summary) == wrong


@pytest.mark.parametrize("stderr, status, wrong", [
    (b"s.yaml:1:1: error: no\n", 2, None),
    (b"s.yaml:1:1: error: \xff\n", 2, "a message that is not UTF-8"),
    (b"s.yaml:1:1: error: a\x1b[1m\n", 2, "a message with control characters"),
    (b"s.yaml:1:1: error: a\nb\n", 2, "a refusal of no line, or several"),
    (b"", 2, "a refusal of no line, or several"),
    (b"odd\n", 0, "a message beside a result"),
])
def test_messages_that_are_no_line_are_found(stderr, status, wrong):
    assert inputs.line_of(stderr, status) == wrong


def test_a_failure_is_kept_with_all_that_makes_it_again(tmp_path):
    class Fails(targets.Target):
        def tried(self, number, folder):
            bases.write(folder, {"s.yaml": {"a": number}})
            return targets.Attempt("status 1", [["box", "s.yaml"]], targets.cases.Failure("odd", "why"), folder)

    keeper = targets.keeper(argparse.Namespace(out=tmp_path / "kept", target="inputs", seed=9), lambda line: None)
    (tmp_path / "scratch").mkdir()
    for number in range(5):
        targets.note(keeper, number, Fails(tmp_path / "scratch", BIN, 9).attempt(number), False)
    assert keeper.failures == {"odd": 5} and len(kept(keeper)) == targets.cases.SAME
    folder = tmp_path / "kept" / "inputs-9-0"
    assert (folder / "COMMANDS").read_text() == "# scripts/fuzz inputs --seed 9 --only 0\nbox s.yaml\n"
    assert (folder / "s.yaml").read_text() == '{\n "a": 0\n}\n' and not list((tmp_path / "scratch").iterdir())


def test_the_checker_finds_what_is_wrong():
    checked = properties.Checked(None, BIN / "plx_box", "collective", 1, True)
    path = {"metric": "end_s", "mean_s": 1.0, "costs": [{"path_s": 0.5, "without_s": 0.5}], "kernels": [], "stragglers": [], "hosts": [], "classes": [], "links": []}
    assert [failure.signature for failure in checked.why({"paths": [path]})] == ["costs do not add up"]
    path["costs"] = [{"path_s": 1.0, "without_s": 1.1}]
    assert [failure.signature for failure in checked.why({"paths": [path]})] == ["a metric without one of its costs is not between nothing and itself"]
    slow, quick = {"class": "tp", "messages": 1, "mean_actual_s": 2e-6, "mean_uncontended_s": 1e-6}, {"class": "kv", "messages": 1, "mean_actual_s": 1e-6, "mean_uncontended_s": 2e-6}
    assert [failure.signature for failure in checked.alone({"traffic": [slow, quick]})] == ["messages of kv faster than alone"]


def test_folded_runs_that_say_exact_are(tmp_path):
    keeper = tried("folding", tmp_path, 24)
    assert not keeper.failures, kept(keeper)
    assert keeper.ends["exact, equal"] > 2 and sum(count for how, count in keeper.ends.items() if how.startswith("bounded")) > 3, keeper.ends


# That a change stops composing or replaying would fail the second line.
def test_replayed_collectives_of_training_change_no_byte(tmp_path):
    keeper = tried("replays", tmp_path, 12)
    assert not keeper.failures, kept(keeper)
    replayed = {how: count for how, count in keeper.ends.items() if how.startswith(("equal, much replayed", "equal, some replayed"))}
    assert sum(replayed.values()) >= 5 and sum(count for how, count in replayed.items() if how.endswith("slots composed")) >= 3, keeper.ends


def test_composed_passes_change_no_byte(tmp_path):
    keeper = tried("passes", tmp_path, 12)
    assert not keeper.failures, kept(keeper)
    assert keeper.ends["equal, some passes composed"] >= 9, keeper.ends

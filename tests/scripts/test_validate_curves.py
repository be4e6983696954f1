"""Published curves beside ours: throughput from times, interpolation, fronts, leaders; and the shipped rows."""

import pytest

from scripts_inside import ROOT, call

from validation import CLASSES, comparison, curves, rows  # noqa: E402
from validation.curves import Curve, Place  # noqa: E402

COLUMNS = {"id": "C-1", "category": "5-inference", "system": "h100_sxm", "model": "Llama-3.1-70B", "mode": "agg", "backend": "vllm", "backend_version": "0.12.0",
           "precision": "fp8", "isl": "1024", "osl": "1024", "pp": "1", "unit": "ms", "source": "a table"}


def table_of(folder, places):
    """Times in ms by tp and concurrency."""
    lines = [COLUMNS | {"id": f"C-{i}", "tp": tp, "concurrency": concurrency, "metric": metric, "value": value}
             for i, ((tp, concurrency), times) in enumerate(places.items()) for metric, value in zip(("TTFT", "TPOT"), times)]
    path = folder / "table.csv"
    path.write_text("\n".join([",".join(lines[0]), *(",".join(map(str, line.values())) for line in lines)]) + "\n")
    return path


# Of TP2 and TP4; a token on four GPUs takes three quarters as long.
PLACES = {(tp, concurrency): (100, {2: 20, 4: 15}[tp] * (1 + concurrency / 64)) for tp in (2, 4) for concurrency in (4, 16, 64)}


def outcomes_of(table, ratio):
    """Simulated times are the measured ones times ratio(tp)."""
    outcomes = comparison.map_rows(curves, curves.of_class(rows.read(str(table))))
    for one in outcomes:
        one.predicted = one.measured * ratio(int(one.row["tp"]))
    return outcomes


def test_throughput_is_that_of_littles_law():
    """Eight places, each with 100 tokens in 0.2 s + 99 x 10 ms, on two GPUs."""
    assert curves.place_of(0.2, 0.010, 8, 100, 2) == Place(pytest.approx(100), pytest.approx(8 * 100 / 1.19 / 2))


def test_between_two_concurrencies_logarithms_are_interpolated():
    line = [Place(50, 400), Place(200, 100), Place(100, 200)]
    assert [curves.at(line, user) for user in (50, 70.710678, 100, 200)] == [400, pytest.approx(400 / 2**0.5), 200, 100]
    assert curves.at(line, 49) is None and curves.at(line, 201) is None


def test_the_front_leaves_out_what_is_beaten_in_both():
    one, two = (Place(50, 400), Place(100, 100)), (Place(60, 300), Place(120, 150))
    made = [Curve("TP1", one, one, (8, 4)), Curve("TP2", two, two, (8, 4))]
    assert curves.order(made, "ours") == ["TP1", "TP2"]
    assert [place for _, place in curves.front([("TP1", place) for place in one] + [("TP2", place) for place in two])] == [one[0], two[0], two[1]]


@pytest.mark.parametrize("factor, right", [(1.0, 2), (0.4, 0)])
def test_the_leader_is_compared_where_both_sides_have_two_mappings(factor, right):
    """At 60 and 100 tokens/s; at 60 the second mapping leads by a quarter, at 100 it leads more."""
    one, two = (Place(50, 400), Place(100, 100)), (Place(60, 400), Place(120, 150))
    other = tuple(Place(place.user, place.gpu * factor) for place in two)
    assert curves.leaders([Curve("TP1", one, one, (8, 4)), Curve("TP2", two, other, (8, 4))]) == (right, 2)


def test_a_model_that_is_right_has_no_error(tmp_path):
    for question, found in curves.curves_of(outcomes_of(table_of(tmp_path, PLACES), lambda _: 1)).items():
        assert question.title == "Llama-3.1-70B, fp8, H100 SXM, vLLM 0.12.0, 1024 + 1024" and [curve.mapping for curve in found] == ["TP2", "TP4"]
        assert curves.errors(found) == pytest.approx([0] * 6) and curves.leaders(found)[0] == curves.leaders(found)[1] > 0


def test_times_that_are_all_longer_move_a_place_along_its_ray(tmp_path):
    """Both quantities fall by the same factor, so a curve through the places falls by more where it is steep."""
    outcomes = outcomes_of(table_of(tmp_path, PLACES), lambda _: 1.1)
    for found in curves.curves_of(outcomes).values():
        for curve in found:
            assert [(ours.user * 1.1, ours.gpu * 1.1) for ours in curve.ours] == [pytest.approx((place.user, place.gpu)) for place in curve.measured]
        assert all(error < 1 / 1.1 - 1 for error in curves.errors(found))
    drawn, = curves.charts(outcomes)
    assert [(line.label, line.look) for line in drawn.lines] == [("TP2, measured", 0), ("TP4, measured", 1), ("TP2, simulated", 6), ("TP4, simulated", 7)]
    text = "\n".join(curves.targets(outcomes))
    assert "| 6 | 9.1 %, -9.1 % | 9.1 %, -9.1 % |" in text and "| TP2, TP4 | TP2, TP4 |" in text


def test_rows_of_a_single_place_are_of_no_curve(tmp_path):
    lone = {(2, 4): (1, 1), (2, 16): (1, 1), (2, 64): (1, 1), (4, 4): (1, 1)}
    assert not curves.of_class(rows.read(str(table_of(tmp_path, lone))))


def test_shipped_rows_have_scenarios_and_are_stated_once():
    every = [row for table in curves.TABLES for row in rows.read(str(ROOT / "validation" / table))]
    assert len({row["id"] for row in every}) == len(every)
    chosen = curves.of_class(every)
    outcomes = comparison.map_rows(CLASSES["curves"], chosen)
    assert len(chosen) >= 180 and not [one.skipped for one in outcomes if one.skipped]


def test_the_page_has_a_picture_of_each_curve():
    """Of the rows as they are: the section was written with them."""
    page = (ROOT / "docs" / "curves.md").read_text(encoding="utf-8")
    questions = {curves._question(row) for row in curves.of_class(row for table in curves.TABLES for row in rows.read(str(ROOT / "validation" / table)))}  # pylint: disable=protected-access
    assert {f"curves/{question.name}.svg" for question in questions} == {word for word in page.replace("(", " ").replace(")", " ").split() if word.endswith(".svg")}
    listed = call("validate", "curves", "--list")
    assert listed.returncode == 0 and listed.stdout.splitlines()[-1] == "coverage: 202 of 202 rows, 100.0%"


def test_divided_services_have_the_gpus_of_all_instances():
    chosen = [row for row in rows.read(str(ROOT / "validation" / "serving_curves.csv")) if row["mode"] == "disagg"]
    found = {(curves._mapping(one.row), curves._gpus(one)) for one in comparison.map_rows(CLASSES["curves"], chosen)}  # pylint: disable=protected-access
    assert found == {("1P1D TP8", 16), ("5P1D DEP8+DEP32", 5 * 8 + 32)}

"""The pages of load curves and of plans of serving in a browser: they fit, complain about nothing, and no two entries of a legend look alike."""

import pytest

import browsers
from browsers import DESKTOP, LOOKS, PHONE, fixture_browser  # noqa: F401  pylint: disable=unused-import
from queues import Queue
from test_load import measure_of
from test_plan_serving import KIND, ONE, OTHER, TRAFFIC, TWO, planned

from loading.objectives import objectives_of  # noqa: E402
from serving_plan import page as plan_page  # noqa: E402
from serving_plan.decision import Decision  # noqa: E402
from serving_plan.estimate import Rates  # noqa: E402
from serving_plan.fleet import Fleet  # noqa: E402
from serving_plan.sizes import changes  # noqa: E402
from serving_plan.space import Memory, Space  # noqa: E402

pytestmark = browsers.needed


@pytest.fixture(name="page", scope="module")
def fixture_page(tmp_path_factory):
    queue = Queue(tmp_path_factory.mktemp("queue"))
    done = queue.run("--slo", "ttft_p90_s=0.3", "--rates", "2,6,8", "--seeds", 2, "--most-requests", 400, "--price", "H100-SXM5-80GB=2")
    assert done.returncode == 0, done.stderr
    return queue.path / "out" / "load.html"


@pytest.fixture(name="decision", scope="module")
def fixture_decision(tmp_path_factory):
    objectives = objectives_of("ttft_p90_s=0.3")
    loads = measure_of(0.1, 1, objectives, 1)([(rate, 200) for rate in (1.0, 2.0, 4.0)])
    for load in loads:
        load.middles = [type(middle)(middle.arrivals_s, middle.times_s | {"tpot": [0.002 * load.rate_per_s] * len(middle.arrivals_s)}) for middle in load.middles]
        load.runs[0].summary["metrics"]["middle"]["output_tokens_per_s"] = 200 * load.rate_per_s
    rates = Rates(colocated={(KIND, ONE): 8.0, (OTHER, TWO): 14.0}, loads={(KIND, ONE): loads, (OTHER, TWO): loads})
    sizes = planned(objectives, rates, [Fleet(KIND, ONE, 3), Fleet(OTHER, TWO, 2)])
    space = Space({(KIND, ONE): Memory(16, 1, 1, 70, 1000)}, {(OTHER, ONE): 20 * "has no memory for KV cache "})
    sizes.find_largest()
    found = Decision(TRAFFIC, objectives, space, rates, sizes, {}, None, rates.fleets(25.0, 64))
    found.changes = changes(sizes, found.winner, [])
    path = tmp_path_factory.mktemp("plan") / "decision.html"
    path.write_text(plan_page.text(found), encoding="utf-8")
    return path


def test_pages_are_quiet_and_fit_the_screen(browser, page, decision):
    for shown in (page, decision):
        browsers.expect_quiet(browser, shown)
        for size in (PHONE, DESKTOP):
            for scheme in ("light", "dark"):
                browsers.expect_readable(browser, shown, size, scheme)


def test_no_two_entries_of_a_legend_look_alike(browser, page, decision):
    browser.open(decision)
    legends = browser.run(LOOKS)
    browser.open(page)
    legends += browser.run(LOOKS)
    assert len(legends) > 9
    assert [legend for legend in legends if len(set(legend)) < len(legend)] == []

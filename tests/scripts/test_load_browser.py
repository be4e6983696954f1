"""The page of a load curve in a browser: it fits, complains about nothing, and no two entries of a legend look alike."""

import pytest

import browsers
from browsers import DESKTOP, PHONE, fixture_browser  # noqa: F401  pylint: disable=unused-import
from queues import Queue

pytestmark = browsers.needed
LOOKS = """
return [...document.querySelectorAll(".legend")].map((legend) => [...legend.children].filter((part) => part.tagName != "text").map((part) => {
  const drawn = part.matches("g") ? part.lastChild : part, line = part.matches("g") ? part.firstChild : part;
  return [getComputedStyle(drawn).fill, drawn.getAttribute("d"), getComputedStyle(line).strokeDasharray].join(" ");
}));
"""


@pytest.fixture(name="page", scope="module")
def fixture_page(tmp_path_factory):
    queue = Queue(tmp_path_factory.mktemp("queue"))
    done = queue.run("--slo", "ttft_p90_s=0.3", "--rates", "2,6,8", "--seeds", 2, "--most-requests", 400, "--price", "H100-SXM5-80GB=2")
    assert done.returncode == 0, done.stderr
    return queue.path / "out" / "load.html"


def test_the_page_is_quiet_and_fits_the_screen(browser, page):
    browsers.expect_quiet(browser, page)
    for size in (PHONE, DESKTOP):
        for scheme in ("light", "dark"):
            browsers.expect_readable(browser, page, size, scheme)


def test_no_two_entries_of_a_legend_look_alike(browser, page):
    browser.open(page)
    legends = browser.run(LOOKS)
    assert len(legends) > 8
    assert [legend for legend in legends if len(set(legend)) < len(legend)] == []

"""The page of a training run in a browser: it fits, complains about nothing, and each entry of its legend has a look of its own."""

import pytest

import browsers
from browsers import DESKTOP, PHONE, fixture_browser  # noqa: F401  pylint: disable=unused-import
from test_load_browser import LOOKS
from test_train_run import run

pytestmark = browsers.needed


@pytest.fixture(name="page", scope="module")
def fixture_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    done = run(folder, "--out", "out", "--runs", 2)
    assert done.returncode == 0, done.stderr
    return folder / "out" / "run.html"


def test_the_page_is_quiet_and_fits_the_screen(browser, page):
    browsers.expect_quiet(browser, page)
    for size in (PHONE, DESKTOP):
        for scheme in ("light", "dark"):
            browsers.expect_readable(browser, page, size, scheme)


def test_no_two_entries_of_a_legend_look_alike(browser, page):
    browser.open(page)
    for looks in browser.run(LOOKS):
        assert len(looks) == len(set(looks)), looks

"""The pages of the documentation: their links resolve, README.md is short, and the index names every page."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "bench" / "README.md", ROOT / "scenarios" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MOST_LINES = 200
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page):
    """The text of a page without its blocks and inline code, in which brackets mean other things."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))


def anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = []
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        earlier = sum(re.fullmatch(rf"{re.escape(name)}(-\d+)?", other) is not None for other in found)
        found.append(f"{name}-{earlier}" if earlier else name)
    return found


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page):
    for link in LINK.findall(prose(page)):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{name(page)} links to {link}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= MOST_LINES


def test_the_index_names_every_page():
    index = ROOT / "docs" / "README.md"
    named = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(index))}
    assert {page for page in (ROOT / "docs").glob("*.md") if page != index} <= named


def test_the_index_of_scenarios_names_every_scenario():
    index = ROOT / "scenarios" / "README.md"
    named = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(index))}
    assert set((ROOT / "scenarios").rglob("*.yaml")) == {path for path in named if path.suffix == ".yaml"}


def test_every_picture_is_on_a_page():
    shown = {(page.parent / link).resolve() for page in PAGES for link in LINK.findall(prose(page))}
    pictures = {path for kind in ("svg", "png") for path in (ROOT / "docs").rglob(f"*.{kind}")}
    assert pictures <= shown


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_rows_of_a_table_have_the_cells_of_its_head(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = [len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()]
        assert len(set(cells)) == 1, f"{name(page)}: {table.splitlines()[0]}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_files_exist(page):
    for named in re.findall(r"`((?:\w+/)+[\w.-]+\.(?:cpp|h|py))`", page.read_text()):
        assert any((folder / named).exists() for folder in (ROOT, ROOT / "models")), f"{name(page)} names {named}"


def test_the_changelog_begins_with_the_version():
    version = re.search(r"^project\(railyard VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    assert re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version

"""The pages of the documentation show what their commands print now, and scripts/pages.py finds a page that does not."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "pages.py"
COMMANDS = re.compile("\n```console\n|\n<!-- figures from ")
LONG = "<!-- commands take minutes -->"  # such pages are checked by hand
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
         if COMMANDS.search(page.read_text()) and LONG not in page.read_text()]
ECHO = "$ echo 291.941 ms, 22.47 %, 2.473, 28.81 GB/s\n291.941 ms, 22.47 %, 2.473, 28.81 GB/s\n"


def run(*arguments):
    return subprocess.run([str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(name="page")
def fixture_page(tmp_path):
    def write(text):
        path = tmp_path / "page.md"
        path.write_text(text)
        return path

    return write


@pytest.mark.skipif(not (ROOT / "build" / "bin" / "dgx_h100").exists(), reason="the pages run what is in build/bin")
@pytest.mark.parametrize("shown", PAGES, ids=lambda page: page.stem)
def test_a_page_is_current(shown):
    done = run(shown)
    assert done.returncode == 0, done.stderr


def test_a_stale_output_is_shown_and_written(page):
    path = page("# A page\n```console\n$ echo 4 ms\n3 ms\n$ seq 2 \\\n    | tail -1\n```\n```\n$ not run\n```\n")
    done = run(path)
    assert done.returncode == 1
    assert "\n-3 ms\n+4 ms\n" in done.stderr and "\n+2\n" in done.stderr
    assert run(path, "--write").returncode == 0
    assert "$ echo 4 ms\n4 ms\n$ seq 2 \\\n    | tail -1\n2\n```\n```\n$ not run" in path.read_text()
    assert (run(path).returncode, run(path).stderr) == (0, "")


def test_what_depends_on_the_computer_may_differ_and_stays(page):
    shown = "  simulated 5 ms in {} s: 1.00 million transactions over links (0.00 million replayed), {} million/s, 14 MB"
    text = f"```console\n$ echo '{shown.format(2, 3)}'\n{shown.format(4, 5)}\n```\n"
    path = page(text)
    assert run(path).returncode == 0
    assert run(path, "--write").returncode == 0
    assert path.read_text() == text
    path.write_text(text.replace("simulated 5 ms in 4", "simulated 6 ms in 4"))
    assert run(path).returncode == 1


@pytest.mark.parametrize("said", ["291.941 ms", "292 ms", "0.29 s", "22.5 %", "2.47 times", "28.8 GB/s", "7 words", "`99 ms`"])
def test_a_number_of_the_text_may_be_rounded(page, said):
    done = run(page(f"So {said}.\n```console\n{ECHO}```\n"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("said", ["291.94 us", "291 ms", "0.30 s", "22.4 %", "2.48 times", "28.9 GB/s", "28.81 %"])
def test_a_number_that_no_output_has_is_named(page, said):
    done = run(page(f"So {said}.\n```console\n{ECHO}```\n"))
    assert done.returncode == 1
    assert f"'{said}' in the text is in no output" in done.stderr


def test_a_number_may_come_from_a_command_that_is_not_shown(page):
    done = run(page(f"<!-- figures from echo 7 ms -->\nSo 7 ms, not 8 ms.\n```console\n{ECHO}```\n"))
    assert done.returncode == 1
    assert "'8 ms'" in done.stderr and "'7 ms'" not in done.stderr


def test_commands_run_in_a_copy_of_the_project(page):
    mark = ROOT / "out" / f"test_{page('').parent.name}"
    done = run(page(f"```console\n$ touch out/{mark.name} && ls out\n{mark.name}\n$ ls README.md\nREADME.md\n```\n"))
    assert (done.returncode, done.stderr) == (0, "")
    assert not mark.exists()


def test_a_command_that_fails_ends_it_and_writes_nothing(page):
    text = "```console\n$ echo new\n$ echo why >&2; exit 3\n```\n"
    path = page(text)
    done = run(path, "--write")
    assert done.returncode == 1
    assert "exit status 3 of: echo why" in done.stderr and "\nwhy\n" in done.stderr
    assert path.read_text() == text


@pytest.mark.parametrize(("text", "said"), [("```console\nls\n```\n", "begins with a command"), ("```console\n$ ls\n", "no end")])
def test_a_page_without_sense_is_refused(page, text, said):
    done = run(page(text))
    assert (done.returncode, said in done.stderr) == (1, True)


def test_a_missing_page_is_bad_input(tmp_path):
    done = run(tmp_path / "none.md")
    assert (done.returncode, done.stderr) == (2, f"pages.py: error: {tmp_path}/none.md: No such file or directory\n")


@pytest.mark.parametrize(("made", "status"), [("<svg>4</svg>", 0), ("<svg>3</svg>", 1)])
def test_a_figure_is_the_one_of_today(page, tmp_path, made, status):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "a.svg").write_text("<svg>4</svg>")
    (tmp_path / "made.svg").write_text(made)
    folder = "out/page/figures"
    path = page(f"```console\n$ mkdir -p {folder} && cp {tmp_path}/made.svg {folder}/a.svg\n```\n![a](page/a.svg)\n")
    done = run(path)
    assert done.returncode == status, done.stderr
    assert ("a.svg differs from" in done.stderr) == bool(status)
    assert run(path, "--write").returncode == 0
    assert (tmp_path / "page" / "a.svg").read_text() == made


def test_a_figure_that_needs_a_display_is_drawn_on_demand(page):
    command = "mkdir -p out/page/figures && echo drawn >out/page/figures/b.png"
    path = page(f"<!-- drawn by {command} -->\n![b](page/b.png)\n")
    assert "no figure b.png" in run(path).stderr
    assert run(path, "--write").returncode == 0
    assert (path.parent / "page" / "b.png").read_text() == "drawn\n"
    assert run(path).returncode == 0

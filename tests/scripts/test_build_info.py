"""The version and commit that a build states, from a git checkout, from an archive of one, and from neither."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "sc_main" / "build_info.cmake"


def stated(source):
    """What a build of this folder would print."""
    subprocess.run(["cmake", "-DVERSION=1.2.3", f"-DSOURCE={source}", f"-DOUTPUT={source}/info.cpp", "-P", SCRIPT], check=True, capture_output=True)
    text = (source / "info.cpp").read_text()
    (source / "info.cpp").unlink()
    return tuple(re.search(rf'{name} = "(.*)"', text)[1] for name in ("kVersion", "kCommit"))


@pytest.fixture(name="git")
def repository(tmp_path):
    def git(*words):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / ".gitattributes").write_text((ROOT / ".gitattributes").read_text())
    (tmp_path / ".git_archival.txt").write_text("$Format:%h$\n")  # of the project itself, an archive has its commit here
    git("add", ".")
    git("commit", "-qm", "first")
    return git


def test_commits_after_the_tag_count(tmp_path, git):
    head = git("rev-parse", "--short=12", "HEAD")
    assert stated(tmp_path) == ("1.2.3", head)
    git("tag", "v1.2.3")
    assert stated(tmp_path) == ("1.2.3", head)
    git("commit", "-q", "--allow-empty", "-m", "second")
    assert stated(tmp_path) == ("1.2.3+1", git("rev-parse", "--short=12", "HEAD"))
    (tmp_path / ".git_archival.txt").write_text("changed")
    assert stated(tmp_path)[1].endswith("-dirty")


def test_an_archive_has_its_commit(tmp_path, git):
    git("archive", "-o", tmp_path / "a.tar", "HEAD")
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "xf", tmp_path / "a.tar", "-C", tmp_path / "unpacked"], check=True)
    version, commit = stated(tmp_path / "unpacked")
    assert version == "1.2.3" and len(commit) >= 7 and git("rev-parse", "HEAD").startswith(commit)


def test_neither_is_unknown(tmp_path):
    assert stated(tmp_path) == ("1.2.3", "unknown")


def test_all_files_state_the_version_of_the_project():
    version = re.search(r"^project\(railyard VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'\nversion = "{version}"\n' in (ROOT / "python" / "pyproject.toml").read_text()

"""An installed Railyard: its command, data and pages work from any folder, and programs of users build against it."""

import csv
import shutil
import subprocess

import pytest

from platform_runs import BIN, PLATFORMS, ROOT

pytest.importorskip("yaml")
BUILD = BIN.parent


def succeed(*command, cwd):
    """The output of a command, in an environment that does not know the project."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", name="prefix")
def installed(tmp_path_factory):
    if not (BUILD / "cmake_install.cmake").exists() or not all((BIN / name).exists() for name in PLATFORMS):
        pytest.skip(f"no complete build in {BUILD}")
    prefix = tmp_path_factory.mktemp("installed") / "usr"
    succeed("cmake", "--install", BUILD, "--prefix", prefix, cwd="/")
    return prefix


def test_the_command_works_from_any_folder(prefix, tmp_path):
    command = prefix / "bin" / "railyard"
    assert succeed(command, "check", "layers/decode", cwd=tmp_path).endswith("layers/decode.yaml: ok\n")
    assert "H100-SXM5-80GB" in succeed(command, "list", "gpus", cwd=tmp_path)
    succeed(command, "run", "layers/decode", "--quiet", "--out", "out", cwd=tmp_path)
    assert (tmp_path / "out" / "summary.json").exists()


def test_nothing_installed_leads_to_the_build(prefix):
    assert not [path for path in prefix.rglob("*") if path.is_file() and str(BUILD).encode() in path.read_bytes()]


def test_pages_for_man_and_shells_are_there(prefix):
    share = prefix / "share"
    assert (share / "man" / "man1" / "railyard.1").read_text().startswith(".TH RAILYARD 1")
    assert "complete -o filenames -F _railyard" in (share / "bash-completion" / "completions" / "railyard").read_text()
    assert (share / "zsh" / "site-functions" / "_railyard").read_text().startswith("#compdef railyard")


def test_the_server_is_there_for_the_command_and_its_pages(prefix, tmp_path):
    assert "OpenAI's API" in succeed(prefix / "bin" / "railyard", "serve", "--help", cwd=tmp_path)
    share = prefix / "share"
    for page in (share / "man" / "man1" / "railyard.1", share / "bash-completion" / "completions" / "railyard", share / "zsh" / "site-functions" / "_railyard"):
        assert "--listen" in page.read_text().replace("\\-", "-"), page


def built(prefix, folder, name):
    """The executable of an example, built in an empty folder."""
    # Ninja builds the project, so it is there; make may not be.
    succeed("cmake", "-G", "Ninja", "-S", ROOT / "examples" / name, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-O0", cwd=folder)
    succeed("cmake", "--build", folder, cwd=folder)
    return folder / name


def test_a_scenario_names_modules_that_are_built_against_the_installed_header(prefix, tmp_path):
    folder = tmp_path / "modules"
    shutil.copytree(ROOT / "examples" / "modules", folder)
    (folder / "build").mkdir()
    built(prefix, folder / "build", "modules")
    sets = f"--set=model.config={prefix / 'libexec' / 'railyard' / 'scenarios' / 'models' / 'llama-3.1-70b.json'}"
    succeed(prefix / "bin" / "railyard", "run", folder / "scenario.yaml", sets, "--quiet", "--out", "out", cwd=tmp_path)
    with open(tmp_path / "out" / "links.csv", encoding="utf-8") as table:
        carried = {row["name"]: int(row["bytes"]) for row in csv.DictReader(table) if row["bytes"] != "0"}
    assert carried["Module_dma.socket"] > carried["Module_copier.socket"] == carried["Module_expander.socket"] > 0


def figures(text):
    return {name: float(value) for name, _, value in (line.partition(" ") for line in text.splitlines()) if "_" in name}


SCENARIO = ROOT / "scenarios" / "layers" / "decode.yaml"


def test_an_initiator_of_a_user_shares_the_link_of_its_gpu(prefix, tmp_path):
    dma = built(prefix, tmp_path, "dma_below_plx")
    alone, beside = (figures(succeed(dma, SCENARIO, "dgx_h100", blocks, cwd=tmp_path)) for blocks in (0, 8))
    assert 40 < beside["dma_gb_per_s"] < 64  # PCIe 5 x16, less packets
    assert beside["jobs_end_s"] >= alone["jobs_end_s"] > 0


def test_a_memory_of_a_user_is_as_fast_as_it_says(prefix, tmp_path):
    memory = built(prefix, tmp_path, "cxl_memory")
    for rate in (1, 10):
        found = figures(succeed(memory, SCENARIO, "dgx_h100", rate, cwd=tmp_path))
        assert found["write_gb_per_s"] == pytest.approx(rate, rel=0.01) and found["read_gb_per_s"] == pytest.approx(rate, rel=0.01)
        assert found["memory_bytes"] == 2 * (64 << 20)

"""The script that installs packages, on a pretended machine: the system commands it calls are replaced by stand-ins."""

import os
import pathlib
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
INSTALLED = {"g++", "cmake"}


@pytest.fixture(name="machine")
def fixture_machine(tmp_path):
    """A function that runs install_packages as a user (0 is root), and returns its result and the commands it gave."""
    commands = tmp_path / "bin"
    commands.mkdir()
    log = tmp_path / "log"
    log.touch()

    def stand_in(name, body):
        path = commands / name
        path.write_text("#!/bin/bash\n" + body)
        path.chmod(0o755)

    for real in ("bash", "env", "cat", "mktemp", "rm"):
        (commands / real).symlink_to(f"/usr/bin/{real}")
    stand_in("dpkg-query", f'case ${{@: -1}} in {"|".join(INSTALLED)}) echo -n installed ;; *) exit 1 ;; esac\n')
    stand_in("apt-get", f'echo "$DEBIAN_FRONTEND apt-get $*" >>{log}; [ ! -e {tmp_path}/broken ] || {{ echo no mirror; exit 100; }}\n')

    def run(*packages, user=0, sudo=False, debian=True, apt_works=True):
        stand_in("id", f"echo {user}\n")
        if sudo:
            stand_in("sudo", f'echo "sudo $*" >>{log}; [ "$1" != -n ] || shift; exec "$@"\n')
        if not debian:
            (commands / "dpkg-query").unlink()
        if not apt_works:
            (tmp_path / "broken").touch()
        done = subprocess.run(
            ["/bin/bash", str(PROJECT / "scripts" / "install_packages"), *packages],
            env={"PATH": str(commands), "TMPDIR": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done, log.read_text().splitlines()

    return run


def test_nothing_happens_when_nothing_is_missing(machine):
    done, commands = machine("g++", "cmake")
    assert (done.returncode, done.stdout, done.stderr, commands) == (0, "", "", [])


def test_root_installs_only_what_is_missing_and_is_asked_nothing(machine):
    done, commands = machine("g++", "ninja-build", "cmake", "libfmt-dev")
    assert done.returncode == 0
    update, install = commands
    assert update.startswith("noninteractive apt-get ") and update.endswith(" update")
    assert install.startswith("noninteractive apt-get ")
    assert install.endswith(" install -y --no-install-recommends ninja-build libfmt-dev")


def test_a_user_goes_through_sudo_without_a_password_prompt(machine):
    done, commands = machine("ninja-build", user=1000, sudo=True)
    assert done.returncode == 0
    assert commands[0].startswith("sudo -n env DEBIAN_FRONTEND=noninteractive apt-get ")
    assert commands[-1].endswith(" ninja-build")


def test_a_user_without_sudo_is_told_what_to_run(machine):
    done, commands = machine("g++", "ninja-build", "libfmt-dev", user=1000)
    assert done.returncode == 1
    assert commands == []
    assert "apt-get install --no-install-recommends ninja-build libfmt-dev\n" in done.stderr


def test_another_distribution_is_told_what_is_needed(machine):
    done, commands = machine("g++", "ninja-build", debian=False)
    assert (done.returncode, commands) == (1, [])
    assert "install the equivalents of: g++ ninja-build" in done.stderr


def test_a_failure_of_apt_is_shown(machine):
    done, commands = machine("ninja-build", apt_works=False)
    assert done.returncode == 1
    assert len(commands) == 1
    assert "no mirror" in done.stderr
    assert "apt-get" in done.stderr.splitlines()[-1] and done.stderr.splitlines()[-1].endswith("failed")


def commands():
    files = (path for path in (PROJECT / "scripts").iterdir() if path.is_file())
    return sorted(path.name for path in files if path.read_bytes().startswith(b"#!"))


@pytest.mark.parametrize("script", commands())
def test_scripts_are_executable_and_say_what_they_are(script):
    path = PROJECT / "scripts" / script
    assert os.access(path, os.X_OK)
    lines = path.read_text().splitlines()
    assert lines[0] in ("#!/usr/bin/env bash", "#!/usr/bin/python3")
    assert lines[1].startswith(("# ", '"""'))
    if lines[0].endswith("bash"):
        assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0


def test_a_leg_that_cannot_run_is_one_line():
    for name, words in (("debian-21", "invalid choice: 'debian-21'"), ("arm64", "arm64 has no command: never tried")):
        done = subprocess.run([str(PROJECT / ".ci" / "leg"), name], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and words in done.stderr

"""Sweeps in a real Slurm: the same results as here, also when jobs or the caller are ended in the middle."""

import re
import signal
import subprocess
import time

import pytest

import slurm
from sweeps import contents, fixture_folder  # noqa: F401  pylint: disable=unused-import


@pytest.fixture(name="slurm_conf", scope="module")
def fixture_slurm_conf(tmp_path_factory):
    if slurm.missing():
        pytest.skip(f"no {', '.join(slurm.missing())}: the packages slurmctld, slurmd, slurm-client and munge bring them")
    try:
        with slurm.running(tmp_path_factory.mktemp("slurm")) as configuration:
            yield configuration
    except slurm.NotUp as why:
        pytest.skip(f"Slurm cannot run here: {why}")


@pytest.fixture(name="sweep")
def fixture_sweep(folder, slurm_conf, monkeypatch):
    """A sweep of ten points, two of which fail, and what its database is to hold."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))
    folder.base(refuse=4, pause_s=0.02)
    assert folder.run(out="whole").returncode == 1
    folder.whole = contents(folder.path / "whole" / "results.sqlite")
    folder.log.unlink()
    return folder


SLURM = ("--backend", "slurm", "--workers", 2)


def queue():
    return subprocess.run(["squeue", "--noheader", "--format=%i"], capture_output=True, text=True, check=True).stdout.split()


def until(condition, process=None):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end and (process is None or process.poll() is None)
        time.sleep(0.05)


def interrupt(sweep, how):
    """Starts a sweep of two tasks at a time, lets `how` interrupt it when three points are there. @return exit status, stderr"""
    sweep.base(refuse=4, pause_s=0.4)
    assert sweep.run("--workers", 10, out="slow").returncode == 1
    sweep.whole = contents(sweep.path / "slow" / "results.sqlite")
    sweep.log.unlink()
    points = sweep.path / "out" / "points"
    with subprocess.Popen(sweep.command(*SLURM, "--task-s", 1), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        until(lambda: points.exists() and len(list(points.glob("[!.]*"))) >= 3, process)
        how(process)
        _, stderr = process.communicate(timeout=60)
    return process.returncode, stderr


def finish(sweep, arguments=SLURM):
    done = sweep.run(*arguments)
    assert done.returncode == 1, done.stderr
    assert contents(sweep.path / "out" / "results.sqlite") == sweep.whole
    assert not list((sweep.path / "out" / "points").glob(".*"))
    return done.stderr


def test_an_array_gives_the_same_as_this_computer(sweep):
    done = sweep.run(*SLURM, "--task-s", 0.15, "--sbatch=--partition=all")
    said = re.search(r"Slurm job \d+: 9 points in (\d) tasks, at most 2 at a time", done.stderr)  # one was timed here
    assert done.returncode == 1 and said and 2 <= int(said[1]) <= 9, done.stderr
    assert contents(sweep.path / "out" / "results.sqlite") == sweep.whole
    assert sweep.runs() == 10 and finish(sweep) == "0 of 10 points to run\n"


def test_a_refusal_of_slurm_is_said(sweep):
    done = sweep.run(*SLURM, "--sbatch=--partition=none")
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith("sbatch: ") and "invalid partition" in done.stderr


def test_a_cancelled_job_leaves_what_it_did(sweep):
    status, _ = interrupt(sweep, lambda process: subprocess.run(["scancel", "--name=railyard"], check=True))
    assert status == 1
    missing = [state for state, in sweep.rows("status")].count("missing")
    assert 0 < missing <= 7
    assert finish(sweep).startswith(f"{missing} of 10 points to run\n")


def test_ctrl_c_cancels_the_job(sweep):
    status, stderr = interrupt(sweep, lambda process: process.send_signal(signal.SIGINT))
    assert status == 130 and "points are missing; the same command goes on" in stderr
    until(lambda: not queue())
    finish(sweep, ())


def test_the_job_of_a_killed_call_is_waited_for(sweep):
    interrupt(sweep, lambda process: process.kill())
    assert re.search(r"\nwaiting for Slurm job \d+ of an earlier call\n", finish(sweep))
    assert sweep.runs() == 10

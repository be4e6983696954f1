"""Runs a script in the process of the test: most of what a call of a script takes is the start of Python and its imports."""

import contextlib
import importlib
import io
import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))


def call(name, *arguments, cwd=None):
    """As subprocess.run() of scripts/NAME.py with captured text."""
    words, before = [str(word) for word in arguments], (sys.argv, signal.getsignal(signal.SIGTERM))
    script, out, err = importlib.import_module(name), io.StringIO(), io.StringIO()
    if identity := sys.modules.get("sweeping.identity"):
        identity.contents.cache_clear()  # a process reads each input once; the next one may find others
    sys.argv = [f"{name}.py", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(cwd or "."):
            status = script.main(words) or 0
    except SystemExit as end:
        status = end.code or 0
    finally:
        sys.argv = before[0]
        signal.signal(signal.SIGTERM, before[1])
    return subprocess.CompletedProcess([name, *words], status, out.getvalue(), err.getvalue())

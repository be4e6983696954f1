"""A test case of a fuzzer: files and commands in a separate folder, made from a seed and a number. Failed cases are kept."""

import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field

PATIENCE_S = 20.0  # until a run is asked to end,
GRACE_S = 20.0     # and until one that does not is killed
MEMORY_BYTES = 4 << 30
SAME = 3  # failures of one signature that are kept
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_stack_use_after_return=0:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


@dataclass
class Done:
    """The outcome of a command."""

    command: list[str]
    status: int
    stdout: bytes
    stderr: bytes
    cut_short: bool = False  # ended when it was asked to
    hung: bool = False       # and did not


@dataclass
class Failure:
    """A failed case. Failures with the same message, except for numbers and names, have the same `signature`."""

    signature: str
    detail: str
    files: dict[str, bytes] = field(default_factory=dict)  # to be kept beside what the folder holds


def generator(target: str, seed: int, number: int) -> random.Random:
    """A random generator that depends only on the case, not on earlier cases."""
    return random.Random(f"{target}/{seed}/{number}")


def run(command: list[str | bytes], folder: pathlib.Path, patience_s: float = PATIENCE_S, limit_memory: bool = True) -> Done:
    limits = (lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))) if limit_memory else None
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT,
                          preexec_fn=limits) as process:
        words = [os.fsdecode(word) for word in command]
        try:
            stdout, stderr = process.communicate(timeout=patience_s)
            return Done(words, process.returncode, stdout, stderr)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
        try:
            stdout, stderr = process.communicate(timeout=GRACE_S)
            return Done(words, process.returncode, stdout, stderr, cut_short=True)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            return Done(words, process.returncode, stdout, stderr, hung=True)


def sanitized(executable: pathlib.Path) -> bool:
    """Whether the executable was built with a sanitizer. Sanitizers reserve more address space than the machine has memory."""
    return b"__asan_init" in executable.read_bytes()


def signature(text: str) -> str:
    """The text without the parts that differ between cases with the same cause."""
    return re.sub(r"'[^']*'|0x[0-9a-f]+|[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?|\S*/", "#", text)[:160]


class Keeper:
    """Counts cases and keeps failures. Each kept failure has a folder with its command, files and seed. A few failures of each signature are kept."""

    def __init__(self, folder: pathlib.Path, target: str, seed: int, tell: Callable[[str], None] = print) -> None:
        self.folder = folder
        self.target = target
        self.seed = seed
        self.tell = tell
        self.failures: dict[str, int] = {}
        self.ends: dict[str, int] = {}

    def ended(self, how: str) -> None:
        self.ends[how] = self.ends.get(how, 0) + 1

    def failed(self, number: int, scratch: pathlib.Path, commands: list[list[str]], failure: Failure) -> None:
        count = self.failures[failure.signature] = self.failures.get(failure.signature, 0) + 1
        if count > SAME:
            return
        kept = self.folder / f"{self.target}-{self.seed}-{number}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(scratch, kept, symlinks=True, ignore_dangling_symlinks=True)
        lines = [f"# scripts/fuzz {self.target} --seed {self.seed} --only {number}", *(shlex.join(command) for command in commands)]
        (kept / "COMMANDS").write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
        (kept / "FAILURE").write_text(f"{failure.signature}\n{failure.detail}\n", encoding="utf-8", errors="backslashreplace")
        for name, content in failure.files.items():
            (kept / name).write_bytes(content)
        self.tell(f"{kept}: {failure.signature}")

    def summary(self) -> str:
        ends = ", ".join(f"{count} {how}" for how, count in sorted(self.ends.items(), key=lambda end: -end[1]))
        return f"{sum(self.ends.values())} cases: {ends}; {sum(self.failures.values())} failures, {len(self.failures)} of them unlike"

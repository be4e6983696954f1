"""A process of a platform executable that answers one question after another: a line to its stdin, a line of JSON from its stdout."""

import contextlib
import json
import os
import subprocess
from collections.abc import Sequence

HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}  # a third of the time of a question with many GPUs is page faults


class Answers:
    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | HUGE_PAGES,
                                        start_new_session=True)

    def to_line(self, question: str) -> dict:
        """@return {"error": MESSAGE} if the process has ended, or if it refuses the question"""
        line = ""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"{self.process.args[0]} ended with status {self.process.wait()}"}

    def to(self, question: dict) -> dict:
        return self.to_line(json.dumps(question))

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

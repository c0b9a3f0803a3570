"""Runs commands of robustboard in one process, since HF_* variables are read once, at import.

Reads one JSON list of words a line and answers each with one JSON line: [exit code, stdout, stderr].
Nobody waits between the client's tries.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time

from robustboard import cli
from robustboard.runners.hub import client


def run(words: list[str]) -> tuple[int, str, str]:
    """What `robustboard WORDS` gives."""
    client.forget_failures()  # each command is a process of its own
    out, told = io.StringIO(), io.StringIO()
    sys.argv = ["robustboard", *words]
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return code, out.getvalue(), told.getvalue()


def main() -> None:
    """Answer until the input ends."""
    time.sleep = lambda *_: None
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()

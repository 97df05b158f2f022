"""Commands that stay: started, waited for by the line they print, and ended with the test."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.cli.program import Program


@contextmanager
def started(bpc: Program, *arguments: str) -> "Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]":
    """A command with --json from its one line on; whatever happens, it does not outlive the test.

    Its coverage is kept only if the test ends it kindly. `up` is several processes, with which others are tested.
    """
    process = replace(bpc, measured=bpc.measured and arguments[0] != "up").start(*arguments, "--json")
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()

"""Run the tests that failed once more, alone: `python -m tools.second_try CODE COMMAND…`.

CODE is what pytest ended with. With 1 (tests failed) and at most MOST of them, COMMAND runs them again, without others
beside them. A test that passes then is named, so that somebody looks at it: it depends on how busy the machine is. A
test that fails twice, and every other CODE, ends the check.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TESTS_FAILED = 1
MOST = 3
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def run_second_try(code: int, command: Sequence[str]) -> int:
    """What the check ends with."""
    if code != TESTS_FAILED:
        return code
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if not 0 < len(failed) <= MOST:
        return code
    print(f"== {len(failed)} failed; once more, alone", flush=True)
    second = subprocess.run([*command, *failed], check=False).returncode
    if second == 0:
        print("== passed only in a second try, alone; find out why:", *failed, sep="\n     ")
    return second


if __name__ == "__main__":
    sys.exit(run_second_try(int(sys.argv[1]), sys.argv[2:]))

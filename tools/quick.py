"""Check what changed, in a minute: `make quick`.

    files that differ from the last commit ─► format, lint, types ─► their tests ─► the tests of the core

In a working copy without changes, the last commit is what changed. Tests that take long, or do the same thing over and
over, are left to `make check`; so are the tests of changed modules beyond the first few. What is left out is printed.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
BIN: Final = Path(sys.executable).parent
MAX_TEST_FILES: Final = 8
# Where the tests of a source folder are.
TEST_ROOTS: Final = {
    "src/bpc": "tests",
    "packages/service-jobs/src/service_jobs": "packages/service-jobs/tests/jobs",
    "packages/bpc-client/src/bpc_client": "packages/bpc-client/tests/client",
}


def main() -> int:
    changed = list_changed()
    modules = [path for path in changed if path.suffix == ".py"]
    tests = find_tests(modules)
    chosen, left = tests[:MAX_TEST_FILES], tests[MAX_TEST_FILES:]
    print(f"changed: {len(changed)} files, {len(modules)} of them Python", flush=True)
    steps: list[list[str | Path]] = [[BIN / "mypy"], [*build_pytest_command(), *chosen, "tests/core"]]
    if modules:
        steps = [[BIN / "ruff", "format", "--quiet", *modules], [BIN / "ruff", "check", *modules], *steps]
    if left:
        print(f"left to `make check`: {', '.join(map(str, left))}", flush=True)
    return next((code for step in steps if (code := run(step))), 0)


def list_changed() -> list[Path]:
    """Return the files that differ from the last commit; if none does, those that the last commit changed."""
    changed = [*read_git("diff", "--name-only", "HEAD"), *read_git("ls-files", "--others", "--exclude-standard")]
    paths = changed or read_git("diff", "--name-only", "HEAD~1", "HEAD")
    return [Path(name) for name in sorted(set(paths)) if (ROOT / name).is_file()]


def read_git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def find_tests(modules: Sequence[Path]) -> list[Path]:
    """Return the test files of `modules`, found by name: `facts/units.py` has `facts/test_units*.py` or `facts/units/`.

    Those of the core are left out: all of them run anyway.
    """
    tests = dict.fromkeys(test for module in modules for test in _list_tests_of(module))
    return [test for test in tests if test.parts[:2] != ("tests", "core")]


def _list_tests_of(module: Path) -> Iterator[Path]:
    if module.name.startswith("test_"):
        yield module
        return
    for source, tests in TEST_ROOTS.items():
        if module.is_relative_to(source):
            folder = ROOT / tests / module.relative_to(source).parent
            patterns = (f"test_{module.stem}.py", f"test_{module.stem}_*.py", f"{module.stem}/test_*.py")
            names = {path for pattern in patterns for path in folder.glob(pattern)}
            yield from sorted(path.relative_to(ROOT) for path in names)


def build_pytest_command() -> list[str | Path]:
    return [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        "--quiet",
        "-m",
        "not slow and not repeats",
    ]


def run(command: Sequence[str | Path]) -> int:
    """Run one step; say how long it took, and return its exit code (a run without tests passes)."""
    text = " ".join(str(part) for part in command[:12]).replace(f"{BIN}/", "")
    print(f"== {text}{' …' if len(command) > 12 else ''}", flush=True)
    begin = time.monotonic()
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    print(f"   {time.monotonic() - begin:.1f} s", flush=True)
    return 0 if code == 5 and "pytest" in command else code


if __name__ == "__main__":
    sys.exit(main())

"""Asks which pinned packages have known holes: `audit.py [--if-reachable] FILE…`, with the environment of `make audit`.

    0    every package is known to the service, and none has a hole
    1    one has, or the service does not know one of them
    69   the service could not be asked; with --if-reachable that is said and is no failure

A service that knows none of the packages was not asked: something else answered in its place.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

UNREACHABLE: Final = 69
PIP_AUDIT: Final = Path(sys.executable).with_name("pip-audit")
AUDIT_COMMAND: Final = (
    str(PIP_AUDIT),
    "--require-hashes",
    "--disable-pip",
    "--progress-spinner",
    "off",
    "--format",
    "json",
)


class ServiceUnavailable(Exception):
    """The service gave no answer that is one."""


def list_problems(packages: list[dict[str, Any]]) -> list[str]:
    """What is wrong, a line for each, from what pip-audit says of every package."""
    skipped = [package for package in packages if "skip_reason" in package]
    if len(skipped) == len(packages):
        raise ServiceUnavailable(skipped[0]["skip_reason"] if skipped else "it named no package")
    lines = [f"{package['name']}: {package['skip_reason']}" for package in skipped]
    for package in packages:
        for hole in package.get("vulns", []):
            fixed = ", ".join(hole["fix_versions"]) or "nowhere yet"
            lines.append(f"{package['name']} {package['version']}: {hole['id']}, fixed in {fixed}")
    return lines


def run_pip_audit(file: str) -> list[dict[str, Any]]:
    completed = subprocess.run([*AUDIT_COMMAND, "--requirement", file], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(completed.stdout)["dependencies"]
    except ValueError:
        error_lines = completed.stderr.strip().splitlines() or [f"exit code {completed.returncode}"]
        raise ServiceUnavailable(error_lines[-1][:300]) from None
    assert isinstance(packages, list)
    return packages


def main() -> int:
    files = [name for name in sys.argv[1:] if name != "--if-reachable"]
    problem_count = 0
    for file in files:
        try:
            packages = run_pip_audit(file)
            lines = list_problems(packages)
        except ServiceUnavailable as why:
            print(f"NOT AUDITED: {file}: the service that knows of holes could not be asked: {why}")
            return 0 if "--if-reachable" in sys.argv else UNREACHABLE
        print(*lines, f"{file}: {len(packages)} packages, {len(lines)} problems", sep="\n")
        problem_count += len(lines)
    return 1 if problem_count or not files else 0


if __name__ == "__main__":
    sys.exit(main())

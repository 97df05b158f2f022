"""The one version number: `version.py` prints every place that names it, `version.py 0.2.0` writes it to all of them.

The API's document has it too, but is made from the code: run `make cases` after a change.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
# A file, and what stands before the number there.
PLACES: Final = (
    ("src/bpc/__init__.py", r'^__version__ = "'),
    ("packages/service-jobs/src/service_jobs/__init__.py", r'^__version__ = "'),
    ("packages/bpc-client/src/bpc_client/__init__.py", r'^__version__ = "'),
    ("pyproject.toml", r'^    "bpc-client=='),
    ("pyproject.toml", r'^    "service-jobs\[[a-z,]+\]=='),
    ("deploy/helm/bpc/Chart.yaml", r"^version: "),
    ("deploy/helm/bpc/Chart.yaml", r"^appVersion: "),
)


class PlaceMissing(Exception):
    """A file has no version, or more than one, where it should have one."""


def match_place(root: Path, file: str, before: str) -> re.Match[str]:
    text = (root / file).read_text()
    matches = list(re.finditer(rf"(?P<before>{before})(?P<version>[0-9][^\s\"]*)", text, re.MULTILINE))
    if len(matches) != 1:
        raise PlaceMissing(f"{file} has {len(matches)} places like `{before}`, and should have one")
    return matches[0]


def list_versions(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Each place and the version it names."""
    for file, before in PLACES:
        yield f"{file} {before}", match_place(root, file, before)["version"]


def set_version(version: str, root: Path = ROOT) -> None:
    for file, before in PLACES:
        match = match_place(root, file, before)
        text = match.string[: match.start("version")] + version + match.string[match.end("version") :]
        (root / file).write_text(text)


def main() -> int:
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and not VERSION.fullmatch(sys.argv[1])):
        print("write a version as 1.2.3: `version.py 1.2.3`", file=sys.stderr)
        return 2
    if len(sys.argv) == 2:
        set_version(sys.argv[1])
    versions = dict(list_versions())
    for place, version in versions.items():
        print(f"{version:10} {place}")
    return 0 if len(set(versions.values())) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())

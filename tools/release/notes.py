"""Release notes: what CHANGELOG.md says about one version, `notes.py VERSION`; `Unreleased` for what comes next."""

import re
import sys
from pathlib import Path
from typing import Final

CHANGELOG: Final = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
# Links of the changelog are relative to the repository; a release page is elsewhere.
LINK: Final = re.compile(r"\[([^\]]+)\]\((?!https?://)([^)]+)\)")


class SectionMissing(Exception):
    """The changelog has no section of this name."""


def extract_notes(changelog: str, version: str) -> str:
    """What the changelog says about `version`, without its heading; links into the repository become plain words."""
    heading = re.compile(rf"^## \[?{re.escape(version)}\]?(?: .*)?$", re.MULTILINE)
    start = heading.search(changelog)
    if start is None:
        raise SectionMissing(f"CHANGELOG.md has no section `## [{version}]`")
    end = re.search(r"^## ", changelog[start.end() :], re.MULTILINE)
    section = changelog[start.end() :][: end.start() if end else None]
    return LINK.sub(r"\1 (`\2`)", section).strip() + "\n"


def main() -> int:
    if len(sys.argv) != 2:
        print("name a version: `notes.py 0.2.0`, or `notes.py Unreleased`", file=sys.stderr)
        return 2
    try:
        print(extract_notes(CHANGELOG.read_text(), sys.argv[1]), end="")
    except SectionMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

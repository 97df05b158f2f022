"""The map in docs/architecture.md is the tree: every folder two levels deep, each with a description, and no more."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
TOPS = ("packages/", "src/bpc/")
MAX_LINES = 90

BLOCK = re.compile(rf"^```[a-z]*\n({re.escape(TOPS[0])}.*?)^```$", re.MULTILINE | re.DOTALL)
# A row of the table of questions, and the paths that it names.
QUESTION = re.compile(r"^\| [^|]+\? \| (.+) \|$", re.MULTILINE)
NAMED_PATH = re.compile(r"`([\w/.-]+)`")
ENTRY = re.compile(r"(?P<indent> *)(?P<name>\S+/)(?:  +(?P<description>\S.*))?")


def parse_map(block: str) -> dict[str, str | None]:
    """Return each folder of the map with its description; a line without indentation begins a tree."""
    entries: dict[str, str | None] = {}
    folders: list[str] = []
    for line in block.splitlines():
        entry = ENTRY.fullmatch(line.rstrip())
        assert entry, f"not a line of the map (a folder, two spaces, its description): `{line}`"
        depth, odd = divmod(len(entry["indent"]), 2)
        is_nested = not odd and depth <= len(folders)
        assert is_nested, f"the map is nested by two spaces, below a folder: `{line}`"
        folders = [*folders[:depth], entry["name"]]
        if depth:
            entries["".join(folders)] = entry["description"]
    return entries


def read_map() -> dict[str, str | None]:
    blocks: list[str] = BLOCK.findall(PAGE.read_text())
    assert len(blocks) == 1, f"docs/architecture.md has {len(blocks)} fenced blocks starting with `{TOPS[0]}`, not one"
    assert len(blocks[0].splitlines()) <= MAX_LINES
    return parse_map(blocks[0])


def list_folders() -> set[str]:
    """Return the folders of what git has or would have: packages, and two levels of `src/bpc`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *TOPS]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    folders = {parent for path in tracked if path and (ROOT / path).exists() for parent in Path(path).parents}
    return {f"{folder}/" for folder in folders if is_on_map(folder)}


def is_on_map(folder: Path) -> bool:
    parts = folder.parts
    return (parts[:1] == ("packages",) and len(parts) == 2) or (parts[:2] == ("src", "bpc") and 3 <= len(parts) <= 4)


def test_the_map_shows_the_tree() -> None:
    tree = {folder for folder in list_folders() if not folder.endswith("/demo_battery/")}
    folders_on_map = read_map().keys()

    assert {"not on the map": tree - folders_on_map, "not in the tree": folders_on_map - tree} == {
        "not on the map": set(),
        "not in the tree": set(),
    }


def test_the_map_describes_each_folder() -> None:
    assert [folder for folder, description in read_map().items() if not description] == []


def test_the_page_answers_where_to_look_first_with_what_exists() -> None:
    answers: list[str] = QUESTION.findall(PAGE.read_text())

    missing = [name for answer in answers for name in list_missing_paths(answer)]

    assert len(answers) >= 10
    assert missing == []


def list_missing_paths(answer: str) -> list[str]:
    """Return the paths of an answer that do not exist. A file without a folder is in the folder named before it."""
    folders = [ROOT / "src" / "bpc", ROOT, *ROOT.glob("packages/*/src")]
    missing = []
    for name in NAMED_PATH.findall(answer):
        place = next((folder / name for folder in reversed(folders) if (folder / name).exists()), None)
        if place is None:
            missing.append(name)
        else:
            folders.append(place if place.is_dir() else place.parent)
    return missing


def test_the_map_is_read_by_its_indentation() -> None:
    block = """\
packages/
  engine/           runs jobs
src/bpc/
  core/             what is true
    language/       the language
  settings/
"""

    assert parse_map(block) == {
        "packages/engine/": "runs jobs",
        "src/bpc/core/": "what is true",
        "src/bpc/core/language/": "the language",
        "src/bpc/settings/": None,
    }

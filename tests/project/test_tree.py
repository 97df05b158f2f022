"""The map in docs/architecture.md is the tree: `src/bpc`, two levels deep, each file with a description."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
TOP = "src/bpc/"

NEED_NOT_BE_LISTED = {"__init__.py", "__main__.py", "py.typed"}
BLOCK = re.compile(rf"^```[a-z]*\n({re.escape(TOP)}.*?)^```$", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"(?P<indent> *)(?P<name>\S+)(?:  +(?P<says>\S.*))?")


def mapped(block: str) -> dict[str, str | None]:
    """Return each path of the map, folders with a trailing slash, and what the map says of it."""
    entries: dict[str, str | None] = {}
    folders: list[str] = []
    for line in block.splitlines()[1:]:
        if not line.strip():
            continue
        entry = ENTRY.fullmatch(line.rstrip())
        assert entry, f"not a line of the map (name, two spaces, description): `{line}`"
        depth, odd = divmod(len(entry["indent"]), 2)
        nested = not odd and 1 <= depth <= len(folders) + 1
        assert nested, f"the map is nested by two spaces, below a folder: `{line}`"
        folders = folders[: depth - 1]
        entries["".join(folders) + entry["name"]] = entry["says"]
        if entry["name"].endswith("/"):
            folders.append(entry["name"])
    return entries


def the_map() -> dict[str, str | None]:
    assert PAGE.exists(), "docs/architecture.md, with the map of src/bpc, is missing"
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) == 1, f"docs/architecture.md has {len(blocks)} fenced blocks starting with `{TOP}`, not one"
    return mapped(blocks[0])


def the_tree() -> set[str]:
    """Return the files git has or would have, and their folders, from `src/bpc`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", TOP]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    files = {Path(path).relative_to(TOP) for path in listed if path and (ROOT / path).exists()}
    folders = {parent for file in files for parent in file.parents} - {Path()}
    return {str(file) for file in files} | {f"{folder}/" for folder in folders}


def needs_listing(path: str) -> bool:
    parts = Path(path).parts
    return len(parts) <= 2 and parts[-1] not in NEED_NOT_BE_LISTED


def test_the_map_shows_the_tree() -> None:
    tree, shown = the_tree(), the_map().keys()

    not_on_the_map = sorted(path for path in tree - shown if needs_listing(path))
    not_in_the_tree = sorted(shown - tree)

    assert {"not on the map": not_on_the_map, "on the map but not in the tree": not_in_the_tree} == {
        "not on the map": [],
        "on the map but not in the tree": [],
    }


def test_the_map_says_what_each_file_is_for() -> None:
    silent = [path for path, says in the_map().items() if not says and not path.endswith("/")]

    assert silent == []


def test_the_map_is_read_by_its_indentation() -> None:
    block = """\
src/bpc/
  core/             what is true
    canon.py        canonical JSON
    rules/          the language
      lex.py        words
  settings/
    env.py          the environment
"""

    assert mapped(block) == {
        "core/": "what is true",
        "core/canon.py": "canonical JSON",
        "core/rules/": "the language",
        "core/rules/lex.py": "words",
        "settings/": None,
        "settings/env.py": "the environment",
    }

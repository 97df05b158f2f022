"""The site's navigation, read from docs/README.md: headings are its sections, links in lists below them its pages.

So the page that people see first, on GitHub and on the site, and the list beside every page of the site are the same.
A page named README.md stands for its folder, whose other pages come below it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from typing import Final

INDEX: Final = "docs/README.md"
HEADING: Final = re.compile(r"## (?P<title>.+)")
ENTRY: Final = re.compile(r"[-*] \[[^\]]+\]\((?P<target>[^)#\s]+\.md)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, and the pages below it as paths from the repository's root."""

    title: str
    pages: tuple[str, ...]


def read_sections(index: str) -> list[Section]:
    """The sections of the index page `index` that list pages."""
    headings: list[tuple[str, list[str]]] = []
    for line in index.splitlines():
        if heading := HEADING.fullmatch(line):
            headings.append((heading["title"], []))
        elif headings and (entry := ENTRY.match(line)):
            headings[-1][1].append(normpath(f"docs/{entry['target']}"))
    return [Section(title=title, pages=tuple(pages)) for title, pages in headings if pages]


def list_folder_pages(root: Path, page: str) -> list[str]:
    """The pages that a folder's README.md stands for; none for any other page."""
    path = root / page
    if path.name != "README.md" or page == INDEX:
        return []
    return [str(sibling.relative_to(root)) for sibling in sorted(path.parent.glob("*.md")) if sibling != path]


def iterate_pages(root: Path) -> Iterator[str]:
    """Every page of the navigation, as often as it is in it."""
    yield INDEX
    for section in read_sections((root / INDEX).read_text(encoding="utf-8")):
        for page in section.pages:
            yield page
            yield from list_folder_pages(root, page)

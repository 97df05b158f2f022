"""The documentation's commands work, and print what it says they print (tests.project.documented_pages says how)."""

from pathlib import Path

import pytest

from tests.project.documented_pages import (
    ROOT,
    find_page_before,
    follow_page,
    list_pages,
    name_page,
    open_terminal,
    read_blocks,
)

PAGES = [page for page in list_pages() if find_page_before(page) is None]
# What a newcomer reads first, and every sixth of the other pages; `make shown` follows all.
FIRST_READ = ("README.md", "CONTRIBUTING.md", "docs/quickstart.md", "docs/tutorial.md")
RUN = [
    pytest.param(
        page,
        id=name_page(page),
        marks=() if name_page(page) in FIRST_READ or place % 6 == 0 else pytest.mark.long,
    )
    for place, page in enumerate(PAGES)
]
LISTED = [
    pytest.param(
        page,
        id=f"{name_page(page)}:{block.line}",
        marks=pytest.mark.skip(f"{name_page(page)}:{block.line}: {block.not_run}"),
    )
    for page in list_pages()
    for block in read_blocks(page.read_text())
    if block.not_run
]


@pytest.mark.parametrize("page", RUN + LISTED)
@pytest.mark.every_case
def test_the_commands_on_the_page_work_as_shown(page: Path) -> None:
    with open_terminal() as shell:
        follow_page(page, shell)
        for after in list_pages():
            if find_page_before(after) == page:
                follow_page(after, shell)


def test_a_page_is_read_after_one_that_is_run() -> None:
    before = {name_page(page): find_page_before(page) for page in list_pages()}

    assert {page: first for page, first in before.items() if first and before.get(name_page(first), first)} == {}


def test_the_readme_shows_of_the_demo_what_the_quickstart_does() -> None:
    first, quickstart = (
        [line for block in read_blocks(page.read_text()) for command in block.commands for line in command.output]
        for page in (ROOT / "README.md", ROOT / "docs" / "quickstart.md")
    )

    of_the_demo = [line for line in first if "✓" in line or line.startswith(("8 checks", "caught:"))]
    assert len(of_the_demo) > 5
    assert [line for line in of_the_demo if line not in quickstart] == []

"""The sections of the console and their order. A section is shown once a page has its path, to those who may see it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from bpc.api.console.translations import N_


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    """A section: the path of its first page, and the permission that shows it; empty if everybody may."""

    path: str
    label: str
    permission: str = ""
    key: str = ""  # what to press after `g`


MENU: Final[Sequence[MenuEntry]] = (
    MenuEntry(path="/console", label=N_("Home"), key="h"),
    MenuEntry(path="/console/products", label=N_("Products"), permission="passport:read", key="p"),
    MenuEntry(path="/console/gaps", label=N_("Gaps"), permission="passport:compile", key="g"),
    MenuEntry(path="/console/evidence", label=N_("Evidence"), permission="docs:read", key="e"),
    MenuEntry(path="/console/conflicts", label=N_("Conflicts"), permission="docs:read"),
    MenuEntry(path="/console/passports", label=N_("Passports"), permission="passport:read", key="v"),
    MenuEntry(path="/console/batteries", label=N_("Batteries"), permission="passport:read", key="b"),
    MenuEntry(path="/console/runs", label=N_("Runs"), permission="passport:read"),
    MenuEntry(path="/console/rules", label=N_("Rules"), permission="rules:read", key="r"),
    MenuEntry(path="/console/jobs", label=N_("Jobs"), permission="jobs:read", key="j"),
    MenuEntry(path="/console/audit", label=N_("Audit and trust"), permission="audit:read", key="a"),
    MenuEntry(path="/console/approvals", label=N_("Approvals"), permission="approval:decide"),
    MenuEntry(path="/console/administration", label=N_("Administration"), permission="access:admin"),
    MenuEntry(path="/console/sessions", label=N_("Sessions"), key="s"),
)


def list_menu(paths: Collection[str], may: Callable[[str], bool]) -> list[MenuEntry]:
    """The sections whose page exists, as far as the caller may see them."""
    return [entry for entry in MENU if entry.path in paths and (not entry.permission or may(entry.permission))]


def find_section(path: str) -> str:
    """The section that a page belongs to: the longest path of the menu that begins its own."""
    matches = [entry.path for entry in MENU if path == entry.path or path.startswith(entry.path + "/")]
    return max(matches, key=len, default="")

"""All families of pages. A new one is one more line."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily, PageRoute, list_paths
from bpc.api.console.pages import (
    administration,
    approvals,
    audit,
    batteries,
    battery_runs,
    conflicts,
    evidence,
    gaps,
    home,
    job_board,
    jobs,
    openid,
    passports,
    products,
    proofs,
    rule_versions,
    rules,
    search,
    sessions,
    sign_in,
)
from bpc.core.catalogue.number_format import Language
from bpc.core.errors import NotFound

_others = PageFamily("errors")


@_others.open("/console/{rest:path}")
async def refuse_unknown_page(request: Request, language: Language) -> Response:  # noqa: ARG001 (of the protocol)
    raise NotFound("there is no such page", fix="choose one from the menu")


PAGE_FAMILIES: Final[Sequence[PageFamily]] = (
    sign_in.pages,
    openid.pages,
    home.pages,
    products.pages,
    gaps.pages,
    evidence.pages,
    conflicts.pages,
    proofs.pages,  # before the passports: `versions` is no id of one
    passports.pages,
    batteries.pages,
    battery_runs.pages,
    rule_versions.pages,  # before the packages: `versions` is no id of one
    rules.pages,
    job_board.pages,  # before the jobs: `schedules` is no id of one
    jobs.pages,
    audit.pages,
    approvals.pages,
    administration.pages,
    search.pages,
    sessions.pages,
    _others,  # last: it answers what no other page does
)
CONSOLE_PATHS: Final = list_paths(PAGE_FAMILIES)


def list_console_routes() -> list[PageRoute]:
    return [route for family in PAGE_FAMILIES for route in family.routes]

"""/console/rules: packages of rules and their versions; a new package, and a new version from a text."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.api.console.workbench import LARGEST_TEXTS_BYTES, make_workbench, read_texts, translate_phrases
from bpc.core.errors import Refusal

pages = PageFamily(
    "rules",
    notices={
        "created": N_("The package is there. Now it needs a first version."),
        "saved": N_("Saved as a new version. Run its tests next."),
    },
)
# How a status reads, and its tone.
STATUSES: Final = {
    "DRAFT": (N_("draft"), "plain"),
    "VALIDATED": (N_("tested"), "info"),
    "PUBLISHED": (N_("published"), "good"),
    "DEPRECATED": (N_("deprecated"), "warn"),
    "RETIRED": (N_("retired"), "bad"),
}
FIRST_RULES: Final = """language 2;

-- What the battery is made of, as its passport says it.
field battery.chemistry @public: Text = "LFP";
"""
FIRST_TESTS: Final = """example it_is_lfp: {} =>
  expect(battery.chemistry, == "LFP");
;
"""


@pages.show("/console/rules", title=N_("Rules"), permission="rules:read", command="bpc get /v1/rule-packages")
async def show_packages(visit: Visit) -> Response:
    """The packages of the tenant, newest first."""
    answer = await visit.api.get(
        "/v1/rule-packages",
        q=visit.query.get("q"),
        status=visit.query.get("status"),
        cursor=visit.query.get("cursor"),
    )
    return visit.render("rules/list.html.jinja", packages=answer["items"], next_cursor=answer["next_cursor"])


@pages.submit("/console/rules", permission="rules:write")
async def create_package(visit: Visit) -> Response:
    body = {"name": visit.form.get("name"), "description": visit.form.get("description")}
    package = (await visit.submit("POST", "/v1/rule-packages", body)).body
    return visit.go_to(f"/console/rules/{package['rule_package_id']}/new", done="created")


@pages.show(
    "/console/rules/{rule_package_id}",
    title=N_("Rule package"),
    permission="rules:read",
    command="bpc get /v1/rule-packages/PACKAGE",
)
async def show_package(visit: Visit) -> Response:
    """One package with its versions, newest first."""
    package, versions = await _load_package(visit)
    return visit.render(
        "rules/package.html.jinja",
        command=f"bpc get /v1/rule-packages/{package['rule_package_id']}",
        package=package,
        versions=versions["items"],
        next_cursor=versions["next_cursor"],
        statuses=STATUSES,
    )


@pages.show("/console/rules/{rule_package_id}/new", title=N_("New version"), permission="rules:read")
async def show_new_version(visit: Visit) -> Response:
    """The workbench with a small text to begin with."""
    package, _ = await _load_package(visit)
    workbench = make_workbench(FIRST_RULES, FIRST_TESTS)
    return _render_draft(visit, package, workbench)


@pages.submit("/console/rules/{rule_package_id}/check", permission="rules:read", most_bytes=LARGEST_TEXTS_BYTES)
async def check_texts(visit: Visit) -> Response:
    """The texts of a form with what is wrong in them: for a browser without scripts."""
    package, _ = await _load_package(visit)
    rules, tests = read_texts(visit)
    result = await visit.api.ask("/v1/rules:check", {"dsl_source": rules, "tests_source": tests})
    return _render_draft(
        visit, package, make_workbench(rules, tests, diagnostics=result["diagnostics"], is_checked=True)
    )


@pages.submit("/console/rules/{rule_package_id}/versions", permission="rules:write", most_bytes=LARGEST_TEXTS_BYTES)
async def save_version(visit: Visit) -> Response:
    """Save the texts as a new draft; with mistakes, the texts come back with what is wrong."""
    path = f"/v1/rule-packages/{visit.path['rule_package_id']}"
    rules, tests = read_texts(visit)
    try:
        answer = await visit.submit("POST", f"{path}/versions", {"dsl_source": rules, "tests_source": tests})
    except Refusal as refusal:
        diagnostics: Any = refusal.details.get("diagnostics")
        if diagnostics is None:
            raise
        package, _ = await _load_package(visit)
        workbench = make_workbench(rules, tests, diagnostics=diagnostics, is_checked=True)
        return _render_draft(visit, package, workbench, problem=refusal.says, status=422)
    return visit.go_to(f"/console/rules/versions/{answer.body['rule_package_version_id']}", done="saved")


async def _load_package(visit: Visit) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    path = f"/v1/rule-packages/{visit.path['rule_package_id']}"
    return await visit.api.get(path), await visit.api.get(f"{path}/versions", cursor=visit.query.get("cursor"))


def _render_draft(
    visit: Visit, package: Mapping[str, Any], workbench: Mapping[str, Any], *, problem: str = "", status: int = 200
) -> Response:
    return visit.render(
        "rules/draft.html.jinja",
        status=status,
        command="bpc rules check rules.bpc tests.bpc",
        package=package,
        workbench=workbench,
        phrases=translate_phrases(visit),
        problem=problem,
    )

"""/console/rules/versions: one version of rules in the workbench: edit, test, see what changes, publish."""

import asyncio
import difflib
from collections.abc import Sequence
from typing import Final, NamedTuple

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.pages.rules import STATUSES
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.api.console.workbench import make_workbench, translate_phrases
from bpc.core.errors import Invalid

pages = PageFamily(
    "rule_versions",
    notices={
        "saved": N_("Saved as a new version. Run its tests next."),
        "testing": N_("The tests run. This page follows them."),
        "published": N_("The version is published: passports can be compiled with it."),
        "waits": N_("A second person has to confirm this."),
        "deprecated": N_("The version is deprecated: it compiles no more passports."),
        "retired": N_("The version is retired. Its passports can still be verified."),
    },
)
VERSION: Final = "/v1/rule-package-versions"
PAGE: Final = "/console/rules/versions"
CONTEXT_LINES: Final = 3
MOST_COMPARED_LINES: Final = 40_000


class DifferentLine(NamedTuple):
    """A line of a comparison: `kind` is same, old, new or gap."""

    kind: str
    old_number: int | None
    new_number: int | None
    text: str


@pages.show(
    f"{PAGE}/{{rule_package_version_id}}",
    title=N_("Rule workbench"),
    permission="rules:read",
    command="bpc get /v1/rule-package-versions/VERSION",
)
async def show_version(visit: Visit) -> Response:
    """The texts of a version in the editor, with the result of its newest test run."""
    version_id = visit.path["rule_package_version_id"]
    version = await visit.api.get(f"{VERSION}/{version_id}")
    rules, tests = [await _load_text(visit, version_id, name) for name in ("rules.bpc", "tests.bpc")]
    run = version["newest_run"]
    if run is not None:
        run = await visit.api.get(f"{VERSION}/{version_id}/test-runs/{run['run_id']}")
    unreached_places = [] if run is None or run["coverage"] is None else run["coverage"]["unreached"]
    package = await visit.api.get(f"/v1/rule-packages/{version['rule_package_id']}")
    return visit.render(
        "rule_versions/version.html.jinja",
        command=f"bpc get /v1/rule-package-versions/{version['rule_package_version_id']}",
        package=package,
        version=version,
        run=run,
        unreached=unreached_places,
        workbench=make_workbench(rules, tests, unreached=unreached_places),
        phrases=translate_phrases(visit),
        statuses=STATUSES,
        job_id=visit.find_id("job"),
    )


@pages.submit(f"{PAGE}/{{rule_package_version_id}}/test", permission="rules:test")
async def run_tests(visit: Visit) -> Response:
    version = visit.path["rule_package_version_id"]
    answer = await visit.submit("POST", f"{VERSION}/{version}/tests:run", {})
    return visit.go_to(f"{PAGE}/{version}", done="testing", job=answer.body["job_id"])


@pages.show(f"{PAGE}/{{rule_package_version_id}}/test-state", title=N_("Test run"), permission="rules:read")
async def show_test_state(visit: Visit) -> Response:
    """How far the tests are: a part of a page that asks again until they have ended."""
    version = await visit.api.get(f"{VERSION}/{visit.path['rule_package_version_id']}")
    job_id, job = visit.find_id("job"), None
    if job_id is not None and visit.may("jobs:read"):
        job = await visit.api.get(f"/v1/jobs/{job_id}")
    return visit.render("rule_versions/test_state.html.jinja", version=version, job=job, job_id=job_id)


@pages.submit(f"{PAGE}/{{rule_package_version_id}}/publish", permission="rules:publish")
async def publish_version(visit: Visit) -> Response:
    return await _decide(visit, "POST", ":publish", "published")


@pages.submit(f"{PAGE}/{{rule_package_version_id}}/deprecate", permission="rules:publish")
async def deprecate_version(visit: Visit) -> Response:
    return await _decide(visit, "POST", ":deprecate", "deprecated")


@pages.submit(f"{PAGE}/{{rule_package_version_id}}/retire", permission="rules:publish")
async def retire_version(visit: Visit) -> Response:
    return await _decide(visit, "DELETE", "", "retired")


async def _decide(visit: Visit, method: str, action: str, done: str) -> Response:
    """Do this with the version. 202 says that a second person has to confirm."""
    version = visit.path["rule_package_version_id"]
    answer = await visit.submit(method, f"{VERSION}/{version}{action}")
    return visit.go_to(f"{PAGE}/{version}", done="waits" if answer.status == 202 else done)


@pages.show(
    f"{PAGE}/{{rule_package_version_id}}/what-if",
    title=N_("What would change"),
    permission="passport:compile",
    command="bpc passports what-if --rules VERSION --all",
)
async def show_what_if(visit: Visit) -> Response:
    """Which active passports this version would change, field by field. Nothing is stored."""
    version = await visit.api.get(f"{VERSION}/{visit.path['rule_package_version_id']}")
    question = {"rule_package_version_id": version["rule_package_version_id"], "all": True}
    after = visit.query.get("after")
    report = await visit.api.ask("/v1/passports:what-if", {**question, **({"after": after} if after else {})})
    return visit.render("rule_versions/what_if.html.jinja", version=version, report=report)


@pages.show(f"{PAGE}/{{rule_package_version_id}}/differences", title=N_("Differences"), permission="rules:read")
async def show_differences(visit: Visit) -> Response:
    """What this version changed in the texts, compared with another version of its package; with the one before."""
    version = await visit.api.get(f"{VERSION}/{visit.path['rule_package_version_id']}")
    versions = (await visit.api.get(f"/v1/rule-packages/{version['rule_package_id']}/versions", limit=100))["items"]
    earlier = [each for each in versions if each["version"] < version["version"]]
    other_id = visit.find_id("with")
    other = next((each for each in versions if each["rule_package_version_id"] == str(other_id)), None)
    if other_id is not None and other is None:
        raise Invalid("this is not a version of the same package", fix="choose one from the list")
    other = other or (earlier[0] if earlier else None)
    files: list[tuple[str, Sequence[DifferentLine]]] = []
    if other is not None:
        for name in ("rules.bpc", "tests.bpc"):
            old, new = [await _load_text(visit, each["rule_package_version_id"], name) for each in (other, version)]
            files.append((name, await asyncio.to_thread(compare_texts, old, new)))
    return visit.render(
        "rule_versions/differences.html.jinja", version=version, other=other, versions=versions, files=files
    )


async def _load_text(visit: Visit, version: str, name: str) -> str:
    return (await visit.api.send("GET", f"{VERSION}/{version}/{name}")).content.decode()


def compare_texts(old: str, new: str) -> list[DifferentLine]:
    """The lines that differ, with some around them. Raises `Invalid` for texts that are too long to compare."""
    old_lines, new_lines = old.splitlines(), new.splitlines()
    if len(old_lines) + len(new_lines) > MOST_COMPARED_LINES:
        raise Invalid("these texts are too long to be compared here", fix="download both and compare them")
    matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    lines: list[DifferentLine] = []
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        if lines:
            lines.append(DifferentLine("gap", None, None, "…"))
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                lines += [
                    DifferentLine("same", old_start + at + 1, new_start + at + 1, text)
                    for at, text in enumerate(new_lines[new_start:new_end])
                ]
                continue
            old_numbers = enumerate(old_lines[old_start:old_end], old_start + 1)
            new_numbers = enumerate(new_lines[new_start:new_end], new_start + 1)
            lines += [DifferentLine("old", number, None, text) for number, text in old_numbers]
            lines += [DifferentLine("new", None, number, text) for number, text in new_numbers]
    return lines

"""Rule packages over HTTP: texts are checked before they are stored, stored as they were sent, and stored once."""

import asyncio
from pathlib import Path
from typing import Any

from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.package import read_package
from bpc.core.language.source import MAX_SOURCE_BYTES, diagnostic_to_json
from bpc.runtime import clock
from tests.api.conftest import Api

RULES = 'field battery.chemistry @public: Text = "LFP";\n'
TESTS = 'example it_is_lfp: {} =>\n  expect(battery.chemistry, == "LFP");\n;\n'
UNNAMED = {"label": None, "point": None, "citation": None}
MISTAKEN = 'field a.b: Int = "one";\nfield a.c: Text = 2;\n'


def make_sources(dsl: str = RULES, tests: str = TESTS) -> dict[str, str]:
    """A version to send."""
    return {"dsl_source": dsl, "tests_source": tests}


async def create_package(admin: Api, name: str | None = None) -> str:
    rule_package = await admin.post_json(
        "/v1/rule-packages", {"name": name or f"rules {clock.new_id()}", "description": "All."}
    )
    return str(rule_package["rule_package_id"])


async def read_events(superuser: Any, aggregate: str) -> list[str]:
    """What is on record of a package or a version."""
    rows = await superuser.fetch(
        "SELECT event_type FROM events WHERE aggregate_id = $1::text::uuid ORDER BY aggregate_version", aggregate
    )
    return [row["event_type"] for row in rows]


async def test_a_package_is_created_listed_and_found_with_its_versions(admin: Api, superuser: Any) -> None:
    package = await create_package(admin, "Industrial batteries")
    first = await admin.post_json(f"/v1/rule-packages/{package}/versions", make_sources())
    second = await admin.post_json(f"/v1/rule-packages/{package}/versions", make_sources(RULES + "-- more\n"))

    listed = await admin.get_json("/v1/rule-packages")
    rule_package = await admin.get_json(f"/v1/rule-packages/{package}")

    assert [(item["rule_package_id"], item["name"]) for item in listed["items"]] == [(package, "Industrial batteries")]
    assert (first["version"], second["version"]) == (1, 2)
    assert rule_package["newest_version"]["rule_package_version_id"] == second["rule_package_version_id"]
    assert rule_package["versions_by_status"] == {"DRAFT": 2}
    assert await read_events(superuser, package) == ["RULE_PACKAGE_CREATED"]
    assert await read_events(superuser, first["rule_package_version_id"]) == ["RULE_VERSION_CREATED"]


async def test_a_package_without_versions_says_so(admin: Api) -> None:
    rule_package = await admin.get_json(f"/v1/rule-packages/{await create_package(admin)}")

    assert (rule_package["newest_version"], rule_package["versions_by_status"]) == (None, {})


async def test_two_packages_do_not_share_a_name(admin: Api, other_admin: Api) -> None:
    await create_package(admin, "Industrial batteries")

    again = await admin.post("/v1/rule-packages", {"name": "Industrial batteries"})

    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    await create_package(other_admin, "Industrial batteries")


async def test_texts_are_kept_byte_for_byte(admin: Api) -> None:
    dsl = 'field battery.name @public: Text = "Ünïcödé 電池 🔋";\r\n\t-- no newline at the end'
    package = await create_package(admin)

    new_version = await admin.post_json(f"/v1/rule-packages/{package}/versions", make_sources(dsl, ""))

    version = f"/v1/rule-package-versions/{new_version['rule_package_version_id']}"
    got = await admin.get(f"{version}/rules.bpc")
    assert got.content == dsl.encode()
    assert got.headers["content-type"] == "text/plain; charset=utf-8"
    assert got.headers["etag"] == f'"{to_hex(sha256(dsl.encode()))}"' == f'"{new_version["dsl_sha256"]}"'
    assert (await admin.get(f"{version}/tests.bpc")).content == b""
    assert new_version["tests_sha256"] == to_hex(sha256(b""))
    again = await admin.get(f"{version}/rules.bpc", headers={"If-None-Match": got.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_a_version_lists_its_fields_as_its_rules_declare_them(admin: Api) -> None:
    dsl = """
    field z.hidden: Int = 1;
    field a.maybe @public @authority: Opt(Dec(6)) = none;
    field a.always @interest: List(Text) = ["x"];
    """
    package = await create_package(admin)

    version = await admin.post_json(f"/v1/rule-packages/{package}/versions", make_sources(dsl, ""))

    rule_version = await admin.get_json(f"/v1/rule-package-versions/{version['rule_package_version_id']}")
    assert (rule_version["status"], rule_version["compiler_min_build"], rule_version["newest_run"]) == (
        "DRAFT",
        "1",
        None,
    )
    assert rule_version["fields"] == [
        {"field_path": "a.always", "field_type": "List(Text)", "audiences": ["interest"], "required": True, **UNNAMED},
        {
            "field_path": "a.maybe",
            "field_type": "Opt(Dec(6))",
            "audiences": ["authority", "public"],
            "required": False,
            **UNNAMED,
        },
        {"field_path": "z.hidden", "field_type": "Int", "audiences": [], "required": True, **UNNAMED},
    ]


async def test_a_version_says_what_its_fields_are_for_people(admin: Api) -> None:
    dsl = """language 2;
    field a.mass @public: Int = 12 about DP10 "Mass of the battery" cite "Annex VI, Part A, point 5";
    field a.waste @public: Int = 1 about DP43.2 "Separate collection";
    """
    package = await create_package(admin)

    version = await admin.post_json(f"/v1/rule-packages/{package}/versions", make_sources(dsl, ""))

    rule_version = await admin.get_json(f"/v1/rule-package-versions/{version['rule_package_version_id']}")
    checked = (await admin.post("/v1/rules:check", {"dsl_source": dsl})).json()
    assert rule_version["fields"] == checked["fields"]
    assert [(field["point"], field["label"], field["citation"]) for field in checked["fields"]] == [
        ("10", "Mass of the battery", "Annex VI, Part A, point 5"),
        ("43.2", "Separate collection", None),
    ]


async def test_rules_with_mistakes_are_refused_with_all_of_them(admin: Api) -> None:
    package = await create_package(admin)

    refused = await admin.post(f"/v1/rule-packages/{package}/versions", make_sources(MISTAKEN, "example x"))

    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (422, "RULE_TYPE_ERROR")
    places = [
        (diagnostic["file"], diagnostic["line"], diagnostic["code"]) for diagnostic in error["details"]["diagnostics"]
    ]
    assert places[:2] == [("rules.bpc", 1, "RULE_TYPE_ERROR"), ("rules.bpc", 2, "RULE_TYPE_ERROR")]
    assert places[2][0] == "tests.bpc"
    assert (await admin.get_json(f"/v1/rule-packages/{package}"))["newest_version"] is None


async def test_a_text_of_more_than_a_mebibyte_is_refused_and_one_of_exactly_that_is_not(admin: Api) -> None:
    package = await create_package(admin)
    full = RULES + "-" * (MAX_SOURCE_BYTES - len(RULES))

    refused = await admin.post(f"/v1/rule-packages/{package}/versions", make_sources(full + "-", ""))

    [diagnostic] = refused.json()["error"]["details"]["diagnostics"]
    assert (refused.status_code, diagnostic["kind"]) == (422, "source-too-large")
    await admin.post_json(f"/v1/rule-packages/{package}/versions", make_sources(full, ""))


async def test_the_same_texts_again_are_a_conflict_that_names_the_first(admin: Api, other_admin: Api) -> None:
    version = await admin.post_json(f"/v1/rule-packages/{await create_package(admin)}/versions", make_sources())

    again = await admin.post(f"/v1/rule-packages/{await create_package(admin)}/versions", make_sources())

    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert again.json()["error"]["details"]["rule_package_version_id"] == version["rule_package_version_id"]
    await admin.post_json(f"/v1/rule-packages/{await create_package(admin)}/versions", make_sources(tests=""))
    await other_admin.post_json(f"/v1/rule-packages/{await create_package(other_admin)}/versions", make_sources())


async def test_the_same_texts_sent_at_once_become_one_version(admin: Api) -> None:
    packages = [await create_package(admin) for _ in range(3)]

    answers = await asyncio.gather(
        *(admin.post(f"/v1/rule-packages/{package}/versions", make_sources()) for package in packages)
    )

    assert sorted(answer.status_code for answer in answers) == [201, 409, 409]
    [body] = [answer.json() for answer in answers if answer.status_code == 201]
    for answer in answers:
        if answer.status_code == 409:
            details = answer.json()["error"]["details"]
            assert details["rule_package_version_id"] == body["rule_package_version_id"]


async def test_versions_sent_at_once_are_numbered_without_a_gap(admin: Api) -> None:
    package = await create_package(admin)

    versions = await asyncio.gather(
        *(admin.post_json(f"/v1/rule-packages/{package}/versions", make_sources(f"{RULES}-- {n}\n")) for n in range(4))
    )

    assert sorted(version["version"] for version in versions) == [1, 2, 3, 4]


async def test_versions_are_listed_page_by_page_newest_first(admin: Api) -> None:
    package = await create_package(admin)
    for number in range(3):
        await admin.post_json(f"/v1/rule-packages/{package}/versions", make_sources(f"{RULES}-- {number}\n"))

    first = await admin.get_json(f"/v1/rule-packages/{package}/versions", params={"limit": 2})
    rest = await admin.get_json(
        f"/v1/rule-packages/{package}/versions", params={"limit": 2, "cursor": first["next_cursor"]}
    )

    assert [item["version"] for item in first["items"] + rest["items"]] == [3, 2, 1]
    assert rest["next_cursor"] is None


async def test_a_check_tells_editors_what_the_command_line_tells(admin: Api, auditor: Api) -> None:
    checked = await auditor.send("POST", "/v1/rules:check", make_sources(MISTAKEN, ""), headers={"Idempotency-Key": ""})

    package = read_package(MISTAKEN.encode())
    assert checked.status_code == 200
    assert checked.json() == {
        "diagnostics": [dict(diagnostic_to_json(each.source, each.diagnostic)) for each in package.diagnostics],
        "fields": [],
    }


async def test_rules_without_mistakes_are_checked_to_their_fields_and_nothing_is_kept(auditor: Api) -> None:
    checked = await auditor.post("/v1/rules:check", {"dsl_source": RULES})

    assert checked.json() == {
        "diagnostics": [],
        "fields": [
            {
                "field_path": "battery.chemistry",
                "field_type": "Text",
                "audiences": ["public"],
                "required": True,
                **UNNAMED,
            }
        ],
    }
    assert (await auditor.get_json("/v1/rule-packages"))["items"] == []


async def test_the_first_example_is_accepted(admin: Api) -> None:
    folder = Path("examples/first")
    package = await create_package(admin)

    answer = await admin.post_json(
        f"/v1/rule-packages/{package}/versions",
        make_sources((folder / "rules.bpc").read_text(), (folder / "tests.bpc").read_text()),
    )

    assert answer["dsl_sha256"] == to_hex(sha256((folder / "rules.bpc").read_bytes()))


async def test_who_may_only_read_rules_writes_none(admin: Api, officer: Api, auditor: Api) -> None:
    package = await create_package(admin)

    for reader in (officer, auditor):
        assert (await reader.get(f"/v1/rule-packages/{package}")).status_code == 200
        assert (await reader.post("/v1/rule-packages", {"name": "Mine"})).status_code == 403
        assert (await reader.post(f"/v1/rule-packages/{package}/versions", make_sources())).status_code == 403


async def test_a_package_of_another_tenant_is_like_one_that_does_not_exist(admin: Api, other_admin: Api) -> None:
    package, unknown = await create_package(admin), str(clock.new_id())

    for method, path, body in (
        ("GET", "", None),
        ("GET", "/versions", None),
        ("POST", "/versions", make_sources()),
        ("POST", "/versions", make_sources(MISTAKEN)),
    ):
        same = {"X-Correlation-Id": package}
        foreign = await other_admin.send(method, f"/v1/rule-packages/{package}{path}", body, headers=same)
        missing = await other_admin.send(method, f"/v1/rule-packages/{unknown}{path}", body, headers=same)
        assert foreign.status_code == missing.status_code == 404
        assert foreign.text.replace(package, "…") == missing.text.replace(package, "…").replace(unknown, "…")

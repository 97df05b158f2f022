"""Policies over HTTP: in force for the very next request, versioned, explained, and never a lock without a key."""

from datetime import timedelta
from typing import Any

from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.timestamps import format_time
from bpc.core.policies import MAX_POLICIES_IN_FORCE, encode_policy
from bpc.runtime import clock
from tests.api.conftest import Api


async def _create_policy(admin: Api, effect: str = "DENY", target: str = "docs:*", **more: Any) -> dict[str, Any]:
    name = more.pop("name", f"{effect} {target} {clock.new_id()}")
    policy: dict[str, Any] = await admin.post_json(
        "/v1/policies", {"name": name, "effect": effect, "target": target, **more}
    )
    return policy


async def _create_actor(admin: Api, role: str = "ComplianceOfficer") -> tuple[str, Api]:
    actor = await admin.post_json("/v1/actors", {"type": "USER", "display_name": "Ada", "roles": [role]})
    key = await admin.post_json("/v1/api-keys", {"actor_id": actor["actor_id"]})
    return actor["actor_id"], Api(admin.http, key["api_key"])


async def test_a_policy_is_created_listed_and_found_with_its_version_1(admin: Api, superuser: Any) -> None:
    conditions = {"roles": ["Intern"], "resource": {"type": "Document"}}

    policy = await _create_policy(admin, "DENY", "docs:*", name="No interns", priority=7, policy_json=conditions)

    version = policy["active"]
    assert (version["version"], version["is_active"], version["policy_json"]) == (1, True, conditions)
    assert version["policy_hash"] == to_hex(sha256(encode_policy("DENY", conditions, 7, "docs:*")))
    assert await admin.get_json(f"/v1/policies/{policy['policy_id']}") == policy
    assert (await admin.get_json("/v1/policies"))["items"] == [policy]
    row = await superuser.fetchrow(
        "SELECT event_type, payload FROM events WHERE aggregate_id = $1", policy["policy_id"]
    )
    assert row["event_type"] == "POLICY_CREATED"
    assert version["policy_hash"] in row["payload"]


async def test_a_policy_is_in_force_for_the_very_next_request_and_so_is_its_end(admin: Api, officer: Api) -> None:
    before = await officer.get("/v1/documents")
    policy = await _create_policy(admin, "DENY", "docs:read")
    denied = await officer.get("/v1/documents")
    await admin.post_json(f"/v1/policies/{policy['policy_id']}:deactivate", status=200)
    after = await officer.get("/v1/documents")

    assert [before.status_code, denied.status_code, after.status_code] == [200, 403, 200]
    details = denied.json()["error"]["details"]
    assert (details["policy_id"], details["policy_version"]) == (policy["policy_id"], 1)
    assert details["reason"] == "a policy denies `docs:read`"


async def test_allow_grants_what_no_role_gives(admin: Api, auditor: Api) -> None:
    assert (await auditor.get("/v1/documents")).status_code == 403

    await _create_policy(admin, "ALLOW", "docs:read", policy_json={"roles": ["Auditor"]})

    assert (await auditor.get("/v1/documents")).status_code == 200


async def test_allow_never_grants_the_right_to_hand_out_rights(admin: Api, auditor: Api) -> None:
    await _create_policy(admin, "ALLOW", "*", priority=0)

    answer = await auditor.post("/v1/actors", {"type": "USER", "display_name": "Eve", "roles": ["Admin"]})

    assert answer.status_code == 403
    assert answer.json()["error"]["details"]["reason"] == "no role of the actor has `access:admin`"


async def test_the_lower_priority_decides_and_deny_beats_allow_where_they_are_equal(admin: Api, officer: Api) -> None:
    await _create_policy(admin, "ALLOW", "docs:*", priority=10)
    await _create_policy(admin, "DENY", "docs:*", priority=20)
    assert (await officer.get("/v1/documents")).status_code == 200

    await _create_policy(admin, "DENY", "*", priority=10, policy_json={"roles": ["ComplianceOfficer"]})

    assert (await officer.get("/v1/documents")).status_code == 403


async def test_a_policy_may_speak_of_one_resource(admin: Api, officer: Api) -> None:
    documents = [(await admin.post_json("/v1/documents", {"kind": "OTHER"}))["document_id"] for _ in range(2)]

    await _create_policy(
        admin, "DENY", "docs:read", policy_json={"resource": {"type": "Document", "ids": [documents[0]]}}
    )

    answers = [await officer.get(f"/v1/documents/{document}") for document in documents]
    assert [answer.status_code for answer in answers] == [403, 200]
    assert (await officer.get("/v1/documents")).status_code == 200


async def test_a_policy_has_its_time(admin: Api, officer: Api) -> None:
    hour = timedelta(hours=1)
    await _create_policy(admin, "DENY", "docs:*", policy_json={"not_after": format_time(clock.now() - hour)})
    await _create_policy(admin, "DENY", "docs:*", policy_json={"not_before": format_time(clock.now() + hour)})
    assert (await officer.get("/v1/documents")).status_code == 200

    window = {"not_before": format_time(clock.now() - hour), "not_after": format_time(clock.now() + hour)}
    await _create_policy(admin, "DENY", "docs:*", policy_json=window)

    assert (await officer.get("/v1/documents")).status_code == 403


async def test_a_new_version_is_in_force_instead_of_the_one_before(admin: Api, officer: Api, superuser: Any) -> None:
    policy = await _create_policy(admin, "DENY", "docs:*")
    path = f"/v1/policies/{policy['policy_id']}"

    second = await admin.post_json(f"{path}/versions", {"effect": "DENY", "target": "rules:*"})

    assert (second["version"], second["is_active"], second["priority"], second["policy_json"]) == (2, True, 100, {})
    assert (await officer.get("/v1/documents")).status_code == 200
    assert (await admin.get_json(path))["active"] == second
    listed = (await admin.get_json(f"{path}/versions"))["items"]
    assert [(version["version"], version["is_active"]) for version in listed] == [(2, True), (1, False)]
    assert listed[1] == {**policy["active"], "is_active": False}
    events = await superuser.fetch(
        "SELECT event_type FROM events WHERE aggregate_id = $1 ORDER BY aggregate_version", policy["policy_id"]
    )
    assert [event["event_type"] for event in events] == ["POLICY_CREATED", "POLICY_CHANGED"]


async def test_a_deactivated_policy_has_no_version_in_force_until_it_gets_a_new_one(admin: Api) -> None:
    path = f"/v1/policies/{(await _create_policy(admin))['policy_id']}"

    ended = await admin.post_json(f"{path}:deactivate", status=200)
    again = await admin.post(f"{path}:deactivate")
    third = await admin.post_json(f"{path}/versions", {"effect": "ALLOW", "target": "docs:read"})

    assert ended["active"] is None
    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert third["version"] == 2
    assert (await admin.get_json(path))["active"] == third


UNDECIDABLE: list[tuple[dict[str, Any], str]] = [
    ({"target": "passport:fly"}, "is not a permission, nor the start of one"),
    ({"target": "*:read"}, "is not a permission"),
    ({"effect": "MAYBE"}, "effect"),
    ({"priority": -1}, "priority"),
    ({"priority": True}, "priority"),
    ({"policy_json": {"actor": "x"}}, "policy_json.actor"),
    ({"policy_json": {"resource": {"type": "Car"}}}, "`Car` is not a type of resource"),
    ({"policy_json": {"resource": {"type": "Document", "sku": "S"}}}, "`resource.sku` is a text, for products"),
    ({"policy_json": {"roles": []}}, "policy_json.roles"),
    ({"policy_json": {"not_before": "today"}}, "it is not a time of RFC 3339"),
    ({"policy_json": []}, "policy_json"),
]


async def test_a_policy_that_says_nothing_that_could_be_decided_by_is_refused(admin: Api) -> None:
    for wrong, says in UNDECIDABLE:
        answer = await admin.post("/v1/policies", {"name": "x", "effect": "DENY", "target": "docs:*", **wrong})

        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR"), wrong
        assert says in answer.json()["error"]["message"], wrong
    assert (await admin.get_json("/v1/policies"))["items"] == []


async def test_null_is_the_same_as_left_out_and_hashed_so(admin: Api) -> None:
    policy = await _create_policy(admin, policy_json={"roles": None, "resource": {"type": "Document", "ids": None}})

    assert policy["active"]["policy_json"] == {"resource": {"type": "Document"}}
    assert policy["active"]["policy_hash"] == to_hex(
        sha256(encode_policy("DENY", {"resource": {"type": "Document"}}, 100, "docs:*"))
    )


LOCKS_WITHOUT_A_KEY: list[dict[str, Any]] = [
    {},
    {"roles": ["Admin"]},
    {"actor_types": ["API_CLIENT"]},
    {"not_before": "2999-01-01T00:00:00.000000Z"},
    {"resource": {"type": "Policy"}},
]


async def test_a_policy_that_nobody_could_take_back_is_refused(admin: Api) -> None:
    for conditions in LOCKS_WITHOUT_A_KEY:
        body = {"name": "Out", "effect": "DENY", "target": "*", "policy_json": conditions}

        answer = await admin.post("/v1/policies", body)

        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT"), conditions
        assert "no active actor that can administer access" in answer.json()["error"]["message"]
    assert (await admin.get_json("/v1/policies"))["items"] == []


async def test_an_administrator_may_be_denied_as_long_as_another_is_not(admin: Api) -> None:
    actor, other = await _create_actor(admin, "Admin")
    policy = await _create_policy(admin, "DENY", "access:admin", policy_json={"actor_ids": [actor]})
    assert (await other.get("/v1/policies")).status_code == 403

    # From here on everybody but `actor` has to stay an administrator, by whatever change.
    keys = (await admin.get_json("/v1/api-keys"))["items"]
    me = next(key["actor_id"] for key in keys if admin.key and key["key_prefix"] == admin.key.split("_")[1])
    taken = await admin.send("PUT", f"/v1/actors/{me}/roles", {"roles": []})
    wider = await admin.post(
        f"/v1/policies/{policy['policy_id']}/versions", {"effect": "DENY", "target": "access:admin"}
    )

    assert [taken.status_code, wider.status_code] == [409, 409]


async def test_who_is_exempt_stays_exempt(admin: Api) -> None:
    exempt = await _create_policy(admin, "ALLOW", "access:admin", priority=1, policy_json={"roles": ["Admin"]})
    await _create_policy(admin, "DENY", "*", priority=2)

    ended = await admin.post(f"/v1/policies/{exempt['policy_id']}:deactivate")

    assert ended.status_code == 409
    assert (await admin.get("/v1/policies")).status_code == 200
    assert (await admin.get("/v1/documents")).status_code == 403


async def test_so_many_policies_are_in_force_and_no_more(admin: Api, superuser: Any) -> None:
    policy = await _create_policy(admin, "ALLOW", "docs:read")
    await superuser.execute(
        """INSERT INTO policy_versions (tenant_id, policy_version_id, policy_id, version, effect, target, policy_json,
                                        policy_canonical, policy_hash)
           SELECT tenant_id, gen_random_uuid(), policy_id, n, effect, target, policy_json, policy_canonical, policy_hash
             FROM policy_versions, generate_series(2, $1::int) n""",
        MAX_POLICIES_IN_FORCE,
    )

    answer = await admin.post("/v1/policies", {"name": "More", "effect": "ALLOW", "target": "docs:read"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")
    assert (await admin.post(f"/v1/policies/{policy['policy_id']}:deactivate")).status_code == 200


async def test_a_name_is_given_once(admin: Api) -> None:
    await _create_policy(admin, name="One")

    answer = await admin.post("/v1/policies", {"name": "One", "effect": "DENY", "target": "docs:*"})

    assert answer.status_code == 409


async def test_a_dry_run_says_which_policy_would_decide_and_why(admin: Api, superuser: Any) -> None:
    actor, _ = await _create_actor(admin)
    other = await _create_policy(admin, "DENY", "docs:*", name="Others", priority=1, policy_json={"roles": ["Intern"]})
    decides = await _create_policy(admin, "DENY", "docs:*", name="All", priority=2)
    later = await _create_policy(admin, "ALLOW", "*", name="Later", priority=3)
    events = await superuser.fetchval("SELECT count(*) FROM events")

    answer = await admin.post_json("/v1/policies:dry-run", {"actor_id": actor, "permission": "docs:read"}, status=200)

    assert (answer["allowed"], answer["reason"]) == (False, "a policy denies `docs:*`")
    assert answer["decided_by"] == {
        "policy_id": decides["policy_id"],
        "policy_version_id": decides["active"]["policy_version_id"],
        "name": "All",
        "version": 1,
        "effect": "DENY",
        "priority": 2,
    }
    assert [(one["policy_id"], one["matches"], one["why_not"]) for one in answer["considered"]] == [
        (other["policy_id"], False, "the actor has none of its roles"),
        (decides["policy_id"], True, None),
        (later["policy_id"], True, None),
    ]
    assert await superuser.fetchval("SELECT count(*) FROM events") == events


async def test_a_dry_run_without_a_policy_that_matches_tells_what_the_roles_say(admin: Api) -> None:
    actor, _ = await _create_actor(admin)

    may, may_not = [
        await admin.post_json("/v1/policies:dry-run", {"actor_id": actor, "permission": permission}, status=200)
        for permission in ("docs:read", "docs:upload")
    ]

    assert (may["allowed"], may["decided_by"], may["reason"]) == (True, None, "a role of the actor has `docs:read`")
    assert (may_not["allowed"], may_not["reason"]) == (False, "no role of the actor has `docs:upload`")


async def test_a_dry_run_is_about_a_resource_and_a_time(admin: Api) -> None:
    actor, _ = await _create_actor(admin)
    await _create_policy(
        admin,
        "DENY",
        "passport:*",
        policy_json={
            "resource": {"type": "Passport", "sku": "SKU-1*"},
            "not_before": "2030-01-01T00:00:00.000000Z",
        },
    )

    async def is_allowed(sku: str, year: int) -> bool:
        body = {
            "actor_id": actor,
            "permission": "passport:read",
            "resource": {"type": "Passport", "sku": sku},
            "at": f"{year}-06-01T00:00:00.000000Z",
        }
        return bool((await admin.post_json("/v1/policies:dry-run", body, status=200))["allowed"])

    assert [await is_allowed("SKU-17", 2031), await is_allowed("SKU-2", 2031), await is_allowed("SKU-17", 2029)] == [
        False,
        True,
        True,
    ]


async def test_a_dry_run_decides_as_a_request_does(admin: Api) -> None:
    actor, ada = await _create_actor(admin)
    for effect, target, priority in (("DENY", "docs:*", 5), ("ALLOW", "docs:read", 4), ("DENY", "rules:*", 1)):
        await _create_policy(admin, effect, target, priority=priority)

    for path, permission in (("/v1/documents", "docs:read"), ("/v1/actors", "access:admin")):
        dry_run = await admin.post_json(
            "/v1/policies:dry-run", {"actor_id": actor, "permission": permission}, status=200
        )

        assert ((await ada.get(path)).status_code == 200) is dry_run["allowed"]


async def test_a_dry_run_takes_no_idempotency_key_and_needs_the_right(admin: Api, officer: Api) -> None:
    body = {"actor_id": str(clock.new_id()), "permission": "docs:read"}

    without = await admin.http.post("/v1/policies:dry-run", json=body, headers={"Authorization": f"Bearer {admin.key}"})

    assert without.status_code == 404, "the actor is not there; the key is not asked for"
    assert (await officer.post("/v1/policies:dry-run", body)).status_code == 403


async def test_a_policy_of_another_tenant_is_like_one_that_does_not_exist_and_decides_nothing(
    admin: Api, other_admin: Api
) -> None:
    foreign, unknown = (await _create_policy(admin, "DENY", "docs:*"))["policy_id"], str(clock.new_id())
    named = {"X-Correlation-Id": unknown}

    for method, suffix, body in (
        ("GET", "", None),
        ("GET", "/versions", None),
        ("POST", "/versions", {"effect": "ALLOW", "target": "*"}),
        ("POST", ":deactivate", None),
    ):
        answers = [
            await other_admin.send(method, f"/v1/policies/{policy}{suffix}", body, headers=named)
            for policy in (foreign, unknown)
        ]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text.replace(foreign, unknown) == answers[1].text
    assert (await other_admin.get("/v1/documents")).status_code == 200
    assert (await other_admin.get_json("/v1/policies"))["items"] == []


async def test_the_lists_are_paged(admin: Api) -> None:
    policy_ids = [(await _create_policy(admin, name=f"Policy {number}"))["policy_id"] for number in range(3)]
    path = f"/v1/policies/{policy_ids[0]}/versions"
    for _ in range(2):
        await admin.post_json(path, {"effect": "DENY", "target": "rules:*"})

    first = await admin.get_json("/v1/policies", params={"limit": 2})
    rest = await admin.get_json("/v1/policies", params={"cursor": first["next_cursor"]})
    versions = await admin.get_json(path, params={"limit": 2})
    oldest = await admin.get_json(path, params={"cursor": versions["next_cursor"]})

    assert [policy["policy_id"] for policy in first["items"] + rest["items"]] == policy_ids[::-1]
    assert [version["version"] for version in versions["items"] + oldest["items"]] == [3, 2, 1]

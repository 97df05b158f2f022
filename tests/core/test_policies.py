"""Specification of policies: the first that matches decides, in one order that nothing else can change."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import ActorId
from bpc.core.policies import (
    MAX_LISTED,
    PERMISSIONS,
    ROLE_ONLY_PERMISSIONS,
    ROLES,
    AccessRequest,
    BadPolicy,
    PolicyConditions,
    PolicyInForce,
    Resource,
    decide_access,
    depends_on_sku,
    encode_policy,
    is_always_allowed,
    parse_conditions,
    parse_target,
)

NOW = datetime(2027, 2, 18, tzinfo=UTC)
ME, OTHER = ActorId(UUID(int=1)), ActorId(UUID(int=2))
THING, ANOTHER = UUID(int=10), UUID(int=11)
REQUEST = AccessRequest(
    actor_id=ME,
    actor_type="API_CLIENT",
    roles=("Auditor",),
    permission="passport:read",
    resource=Resource(type="Passport", id=THING, sku="SKU-17"),
    now=NOW,
)


def make_policy(
    number: int, effect: Any = "DENY", target: str = "*", priority: int = 100, **conditions: Any
) -> PolicyInForce:
    return PolicyInForce(
        policy_id=UUID(int=number),
        policy_version_id=UUID(int=1000 + number),
        version=1,
        effect=effect,
        target=target,
        priority=priority,
        conditions=parse_conditions(conditions),
    )


def _moments() -> st.SearchStrategy[str | None]:
    days = st.integers(-2, 2).map(lambda day: f"2027-02-{18 + day}T00:00:00.000000Z")
    return st.none() | days


@st.composite
def _conditions(draw: st.DrawFn) -> PolicyConditions:
    document: dict[str, Any] = {
        "actor_ids": draw(st.none() | st.lists(st.sampled_from([str(ME), str(OTHER)]), min_size=1, max_size=2)),
        "actor_types": draw(st.none() | st.lists(st.sampled_from(["USER", "API_CLIENT"]), min_size=1, max_size=2)),
        "roles": draw(st.none() | st.lists(st.sampled_from(["Auditor", "Admin"]), min_size=1, max_size=2)),
        "resource": draw(
            st.none()
            | st.fixed_dictionaries(
                {"type": st.sampled_from(["Passport", "Policy"])},
                optional={"ids": st.lists(st.sampled_from([str(THING), str(ANOTHER)]), min_size=1, max_size=2)},
            )
        ),
    }
    first, last = draw(_moments()), draw(_moments())
    if first is not None and last is not None and first > last:
        first, last = last, first
    return parse_conditions({**document, "not_before": first, "not_after": last})


@st.composite
def _policies(draw: st.DrawFn) -> list[PolicyInForce]:
    """Some policies that often match, with priorities that often are equal."""
    ids = draw(st.lists(st.integers(1, 50), unique=True, max_size=6))
    return [
        replace(
            make_policy(
                number,
                draw(st.sampled_from(["ALLOW", "DENY"])),
                draw(st.sampled_from(["*", "passport:*", "passport:read", "access:admin", "docs:*"])),
                draw(st.integers(0, 2)),
            ),
            conditions=draw(_conditions()),
        )
        for number in ids
    ]


@st.composite
def _requests(draw: st.DrawFn) -> AccessRequest:
    return AccessRequest(
        actor_id=draw(st.sampled_from([ME, OTHER])),
        actor_type=draw(st.sampled_from(["USER", "API_CLIENT"])),
        roles=draw(st.lists(st.sampled_from(["Auditor", "Admin"]), max_size=2, unique=True)),
        permission=draw(st.sampled_from(["passport:read", "access:admin", "docs:read"])),
        resource=draw(
            st.none()
            | st.builds(
                Resource, type=st.sampled_from(["Passport", "Policy"]), id=st.sampled_from([THING, ANOTHER, None])
            )
        ),
        now=NOW + timedelta(days=draw(st.integers(-3, 3))),
    )


@given(_requests(), _policies(), st.sets(st.sampled_from(PERMISSIONS)), st.randoms())
def test_the_order_in_which_policies_are_given_does_not_matter(
    request: AccessRequest, policies: list[PolicyInForce], permissions: set[str], random: Any
) -> None:
    shuffled = list(policies)
    random.shuffle(shuffled)

    assert decide_access(request, permissions, shuffled) == decide_access(request, permissions, policies)


@given(_requests(), _policies(), st.sets(st.sampled_from(PERMISSIONS)))
def test_the_first_that_matches_decides_and_where_none_does_the_roles_do(
    request: AccessRequest, policies: list[PolicyInForce], permissions: set[str]
) -> None:
    decision = decide_access(request, permissions, policies)

    matching = [one for one in policies if one.explain_mismatch(request) is None]
    first = min(matching, key=lambda one: (one.priority, one.effect != "DENY", one.policy_id), default=None)
    if first is None or (first.effect == "ALLOW" and request.permission in ROLE_ONLY_PERMISSIONS):
        assert (decision.policy, decision.allowed) == (None, request.permission in permissions)
    else:
        assert (decision.policy, decision.allowed) == (first, first.effect == "ALLOW")


@given(_requests(), _policies(), st.sets(st.sampled_from(PERMISSIONS)))
def test_no_policy_grants_what_would_let_somebody_hand_out_rights(
    request: AccessRequest, policies: list[PolicyInForce], permissions: set[str]
) -> None:
    for permission in ROLE_ONLY_PERMISSIONS:
        request = replace(request, permission=permission)

        assert not decide_access(request, permissions - ROLE_ONLY_PERMISSIONS, policies).allowed


@given(_requests(), _policies(), st.integers(0, 2), st.sets(st.sampled_from(PERMISSIONS)))
def test_deny_beats_allow_at_equal_priority_whatever_their_ids(
    request: AccessRequest, policies: list[PolicyInForce], priority: int, permissions: set[str]
) -> None:
    later = [one for one in policies if one.priority >= priority]
    everywhere = replace(make_policy(99, "DENY", "*"), priority=priority)

    decision = decide_access(request, permissions, [*later, everywhere])

    assert not decision.allowed
    assert decision.policy is not None
    assert decision.policy.priority == priority


@given(_requests(), _policies(), st.integers(0, 5))
def test_what_is_always_allowed_is_never_denied_by_a_policy(
    request: AccessRequest, policies: list[PolicyInForce], days: int
) -> None:
    request = replace(request, permission="access:admin", resource=Resource(type="Policy"))
    if not is_always_allowed(request, policies):
        return

    for resource in (None, THING, ANOTHER):
        later = replace(request, resource=Resource(type="Policy", id=resource), now=request.now + timedelta(days=days))
        assert decide_access(later, {"access:admin"}, policies).allowed


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([], True),
        ([make_policy(1, "DENY", "access:*")], False),
        ([make_policy(1, "DENY", "*", actor_ids=[str(OTHER)])], True),
        ([make_policy(1, "DENY", "docs:*")], True),
        ([make_policy(1, "DENY", "*", resource={"type": "Document"})], True),
        ([make_policy(1, "DENY", "*", resource={"type": "Policy", "ids": [str(THING)]})], False),
        ([make_policy(1, "DENY", "*", not_after="2027-02-17T00:00:00.000000Z")], True),
        ([make_policy(1, "DENY", "*", not_before="2028-01-01T00:00:00.000000Z")], False),
        ([make_policy(1, "DENY", "*", 9), make_policy(2, "ALLOW", "access:admin", 1, actor_ids=[str(ME)])], True),
        (
            [make_policy(1, "DENY", "*", 9), make_policy(2, "ALLOW", "*", 1, not_after="2028-01-01T00:00:00.000000Z")],
            False,
        ),
        ([make_policy(1, "DENY", "*", 9), make_policy(2, "ALLOW", "*", 1, resource={"type": "Policy"})], False),
    ],
)
def test_always_allowed_looks_at_every_time_from_now_on(policies: Sequence[PolicyInForce], *, expected: bool) -> None:
    request = replace(REQUEST, permission="access:admin", resource=Resource(type="Policy"))

    assert is_always_allowed(request, policies) is expected


@pytest.mark.parametrize(
    ("conditions", "why_not"),
    [
        ({}, None),
        ({"actor_ids": [str(ME)], "actor_types": ["API_CLIENT"], "roles": ["Intern", "Auditor"]}, None),
        ({"resource": {"type": "Passport", "ids": [str(THING)], "sku": "SKU-17"}}, None),
        ({"resource": {"type": "Passport", "sku": "SKU-*"}}, None),
        ({"not_before": "2027-02-18T00:00:00.000000Z", "not_after": "2027-02-18T00:00:00.000000Z"}, None),
        ({"actor_ids": [str(OTHER)]}, "it does not name this actor"),
        ({"actor_types": ["USER", "SERVICE"]}, "it is about another type of actor"),
        ({"roles": ["Admin", "auditor"]}, "the actor has none of its roles"),
        ({"resource": {"type": "Document"}}, "it is about another type of resource"),
        ({"resource": {"type": "Passport", "ids": [str(ANOTHER)]}}, "it does not name this resource"),
        ({"resource": {"type": "Passport", "sku": "SKU-1"}}, "it is about another SKU"),
        ({"resource": {"type": "Passport", "sku": "SKU-2*"}}, "it is about another SKU"),
        ({"not_before": "2027-02-18T00:00:00.000001Z"}, "its time has not come"),
        ({"not_after": "2027-02-17T23:59:59.999999Z"}, "its time is over"),
    ],
)
def test_all_conditions_that_are_there_must_hold_and_the_first_that_does_not_is_told(
    conditions: dict[str, Any], why_not: str | None
) -> None:
    assert make_policy(1, **conditions).explain_mismatch(REQUEST) == why_not


def test_what_names_ids_or_a_sku_does_not_speak_of_a_list() -> None:
    listed = replace(REQUEST, resource=Resource(type="Passport"))

    assert make_policy(1, resource={"type": "Passport"}).explain_mismatch(listed) is None
    assert make_policy(1, resource={"type": "Passport", "ids": [str(THING)]}).explain_mismatch(listed) is not None
    assert make_policy(1, resource={"type": "Passport", "sku": "*"}).explain_mismatch(listed) is not None
    assert make_policy(1, resource={"type": "Passport"}).explain_mismatch(replace(REQUEST, resource=None)) is not None


@pytest.mark.parametrize(
    ("target", "permission", "fits"),
    [
        ("passport:read", "passport:read", True),
        ("passport:read", "passport:replay", False),
        ("passport:re*", "passport:replay", True),
        ("passport:*", "passport:sign", True),
        ("passport:*", "rules:read", False),
        ("*", "tenant:admin", True),
    ],
)
def test_a_target_is_a_permission_or_the_start_of_some(target: str, permission: str, *, fits: bool) -> None:
    request = replace(REQUEST, permission=permission)

    assert (make_policy(1, target=parse_target(target)).explain_mismatch(request) is None) is fits


@pytest.mark.parametrize(
    "target", ["", "passport", "passport:fly", "x*", "**", "*:read", "Passport:*", "passport:read "]
)
def test_a_target_that_could_never_match_is_refused(target: str) -> None:
    with pytest.raises(BadPolicy, match="is not a permission"):
        parse_target(target)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"actor": []}, "`actor` is not a member"),
        ({"resource": {"type": "Passport", "id": "x"}}, "`resource.id` is not a member"),
        ({"resource": "Passport"}, "`resource` is not an object"),
        ([], "`policy_json` is not an object"),
        ({"resource": {}}, "`resource.type` is not a type of resource"),
        ({"resource": {"type": "Car"}}, "`resource.type` is not a type of resource"),
        ({"resource": {"type": "Document", "sku": "S"}}, "`resource.sku` is a text, for products"),
        ({"resource": {"type": "Passport", "sku": ""}}, "`resource.sku` is a text, for products"),
        ({"actor_ids": []}, "`actor_ids` is not a list of 1 to"),
        ({"actor_ids": ["me"]}, "`actor_ids`: `me` is not an id"),
        ({"roles": "Admin"}, "`roles` is not a list"),
        ({"roles": ["A"] * (MAX_LISTED + 1)}, "`roles` is not a list of 1 to 200 texts"),
        ({"roles": ["a\0b"]}, "`roles` is not a list"),
        ({"actor_types": ["ROBOT"]}, "`ROBOT` in `actor_types` is not known"),
        ({"not_before": 5}, "`not_before` is not a time"),
        ({"not_after": "tomorrow"}, "`not_after`: `tomorrow` is not a time"),
        (
            {"not_before": "2027-02-19T00:00:00.000000Z", "not_after": "2027-02-18T00:00:00.000000Z"},
            "`not_before` is later than `not_after`",
        ),
    ],
)
def test_conditions_that_are_wrong_are_refused_by_name(document: Any, says: str) -> None:
    with pytest.raises(BadPolicy) as error:
        parse_conditions(document)

    assert error.value.says.startswith(says)
    assert error.value.code == "VALIDATION_ERROR"


def test_the_hash_is_of_the_canonical_words_and_nothing_else() -> None:
    def hash_policy(*words: Any) -> Digest:
        return sha256(encode_policy(*words))

    one = hash_policy("DENY", {"roles": ["Intern"], "actor_types": ["USER"]}, 10, "docs:*")
    same = hash_policy("DENY", {"actor_types": ["USER"], "roles": ["Intern"]}, 10, "docs:*")

    assert one == same
    assert encode_policy("DENY", {"roles": ["Intern"], "actor_types": ["USER"]}, 10, "docs:*") == (
        b'{"effect":"DENY","policy_json":{"actor_types":["USER"],"roles":["Intern"]},"priority":10,"target":"docs:*"}'
    )
    assert to_hex(one) == "dff7dca33584596fecee7594e14ffa82e4a34528464080b3af6ac37df85ddd56"
    others = [
        hash_policy("ALLOW", {"roles": ["Intern"], "actor_types": ["USER"]}, 10, "docs:*"),
        hash_policy("DENY", {"roles": ["Intern"]}, 10, "docs:*"),
        hash_policy("DENY", {"roles": ["Intern"], "actor_types": ["USER"]}, 11, "docs:*"),
        hash_policy("DENY", {"roles": ["Intern"], "actor_types": ["USER"]}, 10, "*"),
    ]
    assert len({one, *others}) == 5


def test_the_sku_is_looked_up_only_where_a_policy_asks_for_it() -> None:
    assert not depends_on_sku([])
    assert not depends_on_sku([make_policy(1), make_policy(2, resource={"type": "Passport"})])
    assert depends_on_sku([make_policy(1), make_policy(2, resource={"type": "Passport", "sku": "S*"})])


# Who may do what: the permissions matrix, written out.


# permission: Admin, ComplianceOfficer, Auditor
MATRIX = {
    "passport:read": (True, True, True),
    "passport:compile": (True, True, False),
    "passport:sign": (True, False, False),
    "passport:replay": (True, True, False),
    "passport:revoke": (True, False, False),
    # Whoever compiles does not decide alone that a failed check does not count.
    "passport:waive": (True, False, False),
    "rules:read": (True, True, True),
    "rules:write": (True, False, False),
    "rules:publish": (True, False, False),
    "rules:test": (True, False, False),
    "docs:upload": (True, False, False),
    "docs:read": (True, True, False),
    "snapshot:build": (True, True, False),
    "snapshot:seal": (True, True, False),
    "audit:read": (True, False, True),
    "access:admin": (True, False, False),
    "tenant:admin": (True, False, False),
    # Whoever may ask for a job may see what became of it; stopping other people's jobs is for the Admin.
    "jobs:read": (True, True, False),
    "jobs:admin": (True, False, False),
    # A bundle holds every fact and rule of a passport.
    "passport:bundle": (True, True, True),
    # Everybody sees what waits for a second person; confirming it needs the permission of the request as well.
    "approval:decide": (True, True, True),
    "battery:register": (True, True, False),
    "battery:readings": (True, True, False),
    "battery:status": (True, True, False),
    "battery:transfer": (True, True, False),
    "view:interest": (True, False, False),
    "view:authority": (True, False, False),
}


@pytest.mark.parametrize("permission", sorted(MATRIX))
def test_a_role_may_do_what_the_matrix_says_and_nothing_else(permission: str) -> None:
    assert tuple(permission in ROLES[role] for role in ("Admin", "ComplianceOfficer", "Auditor")) == MATRIX[permission]


def test_the_matrix_is_complete() -> None:
    assert set(PERMISSIONS) == set(MATRIX)
    assert set(ROLES) == {"Admin", "ComplianceOfficer", "Auditor"}


def test_nothing_is_listed_twice_or_granted_that_does_not_exist() -> None:
    for granted in (PERMISSIONS, *ROLES.values()):
        assert len(granted) == len(set(granted))
        assert set(granted) <= set(PERMISSIONS)


def test_an_auditor_changes_nothing() -> None:
    others = [permission for permission in ROLES["Auditor"] if not permission.endswith(":read")]

    # Whole bundles, and the list of what waits for a second person.
    assert others == ["passport:bundle", "approval:decide"]

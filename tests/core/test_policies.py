"""Specification of policies: the first that matches decides, in one order that nothing else can change."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.access import PERMISSIONS
from bpc.core.digest import to_hex
from bpc.core.ids import ActorId
from bpc.core.policies import (
    MOST_LISTED,
    NEVER_GRANTED,
    Asked,
    BadPolicy,
    Conditions,
    Policy,
    Resource,
    always_allowed,
    asks_for_sku,
    canonical_policy,
    decide,
    policy_hash,
    read_conditions,
    read_target,
)

NOW = datetime(2027, 2, 18, tzinfo=UTC)
ME, OTHER = ActorId(UUID(int=1)), ActorId(UUID(int=2))
THING, ANOTHER = UUID(int=10), UUID(int=11)
ASKED = Asked(
    actor_id=ME,
    actor_type="API_CLIENT",
    roles=("Auditor",),
    permission="passport:read",
    resource=Resource(type="Passport", id=THING, sku="SKU-17"),
    now=NOW,
)


def policy(number: int, effect: Any = "DENY", target: str = "*", priority: int = 100, **conditions: Any) -> Policy:
    return Policy(
        policy_id=UUID(int=number),
        policy_version_id=UUID(int=1000 + number),
        version=1,
        effect=effect,
        target=target,
        priority=priority,
        conditions=read_conditions(conditions),
    )


def _moments() -> st.SearchStrategy[str | None]:
    days = st.integers(-2, 2).map(lambda day: f"2027-02-{18 + day}T00:00:00.000000Z")
    return st.none() | days


@st.composite
def _conditions(draw: st.DrawFn) -> Conditions:
    found: dict[str, Any] = {
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
    return read_conditions({**found, "not_before": first, "not_after": last})


@st.composite
def _policies(draw: st.DrawFn) -> list[Policy]:
    """Some policies that often match, with priorities that often are equal."""
    ids = draw(st.lists(st.integers(1, 50), unique=True, max_size=6))
    return [
        replace(
            policy(
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
def _asked(draw: st.DrawFn) -> Asked:
    return Asked(
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


@given(_asked(), _policies(), st.sets(st.sampled_from(PERMISSIONS)), st.randoms())
def test_the_order_in_which_policies_are_given_does_not_matter(
    asked: Asked, policies: list[Policy], permissions: set[str], random: Any
) -> None:
    shuffled = list(policies)
    random.shuffle(shuffled)

    assert decide(asked, permissions, shuffled) == decide(asked, permissions, policies)


@given(_asked(), _policies(), st.sets(st.sampled_from(PERMISSIONS)))
def test_the_first_that_matches_decides_and_where_none_does_the_roles_do(
    asked: Asked, policies: list[Policy], permissions: set[str]
) -> None:
    decision = decide(asked, permissions, policies)

    matching = [one for one in policies if one.misses(asked) is None]
    first = min(matching, key=lambda one: (one.priority, one.effect != "DENY", one.policy_id), default=None)
    if first is None or (first.effect == "ALLOW" and asked.permission in NEVER_GRANTED):
        assert (decision.policy, decision.allowed) == (None, asked.permission in permissions)
    else:
        assert (decision.policy, decision.allowed) == (first, first.effect == "ALLOW")


@given(_asked(), _policies(), st.sets(st.sampled_from(PERMISSIONS)))
def test_no_policy_grants_what_would_let_somebody_hand_out_rights(
    asked: Asked, policies: list[Policy], permissions: set[str]
) -> None:
    for permission in NEVER_GRANTED:
        asked = replace(asked, permission=permission)

        assert not decide(asked, permissions - NEVER_GRANTED, policies).allowed


@given(_asked(), _policies(), st.integers(0, 2), st.sets(st.sampled_from(PERMISSIONS)))
def test_deny_beats_allow_at_equal_priority_whatever_their_ids(
    asked: Asked, policies: list[Policy], priority: int, permissions: set[str]
) -> None:
    later = [one for one in policies if one.priority >= priority]
    everywhere = replace(policy(99, "DENY", "*"), priority=priority)

    decision = decide(asked, permissions, [*later, everywhere])

    assert not decision.allowed
    assert decision.policy is not None
    assert decision.policy.priority == priority


@given(_asked(), _policies(), st.integers(0, 5))
def test_what_is_always_allowed_is_never_denied_by_a_policy(asked: Asked, policies: list[Policy], days: int) -> None:
    asked = replace(asked, permission="access:admin", resource=Resource(type="Policy"))
    if not always_allowed(asked, policies):
        return

    for resource in (None, THING, ANOTHER):
        later = replace(asked, resource=Resource(type="Policy", id=resource), now=asked.now + timedelta(days=days))
        assert decide(later, {"access:admin"}, policies).allowed


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([], True),
        ([policy(1, "DENY", "access:*")], False),
        ([policy(1, "DENY", "*", actor_ids=[str(OTHER)])], True),
        ([policy(1, "DENY", "docs:*")], True),
        ([policy(1, "DENY", "*", resource={"type": "Document"})], True),
        ([policy(1, "DENY", "*", resource={"type": "Policy", "ids": [str(THING)]})], False),
        ([policy(1, "DENY", "*", not_after="2027-02-17T00:00:00.000000Z")], True),
        ([policy(1, "DENY", "*", not_before="2028-01-01T00:00:00.000000Z")], False),
        ([policy(1, "DENY", "*", 9), policy(2, "ALLOW", "access:admin", 1, actor_ids=[str(ME)])], True),
        ([policy(1, "DENY", "*", 9), policy(2, "ALLOW", "*", 1, not_after="2028-01-01T00:00:00.000000Z")], False),
        ([policy(1, "DENY", "*", 9), policy(2, "ALLOW", "*", 1, resource={"type": "Policy"})], False),
    ],
)
def test_always_allowed_looks_at_every_time_from_now_on(policies: Sequence[Policy], *, expected: bool) -> None:
    asked = replace(ASKED, permission="access:admin", resource=Resource(type="Policy"))

    assert always_allowed(asked, policies) is expected


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
    assert policy(1, **conditions).misses(ASKED) == why_not


def test_what_names_ids_or_a_sku_does_not_speak_of_a_list() -> None:
    listed = replace(ASKED, resource=Resource(type="Passport"))

    assert policy(1, resource={"type": "Passport"}).misses(listed) is None
    assert policy(1, resource={"type": "Passport", "ids": [str(THING)]}).misses(listed) is not None
    assert policy(1, resource={"type": "Passport", "sku": "*"}).misses(listed) is not None
    assert policy(1, resource={"type": "Passport"}).misses(replace(ASKED, resource=None)) is not None


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
    asked = replace(ASKED, permission=permission)

    assert (policy(1, target=read_target(target)).misses(asked) is None) is fits


@pytest.mark.parametrize(
    "target", ["", "passport", "passport:fly", "x*", "**", "*:read", "Passport:*", "passport:read "]
)
def test_a_target_that_could_never_match_is_refused(target: str) -> None:
    with pytest.raises(BadPolicy, match="is no permission"):
        read_target(target)


@pytest.mark.parametrize(
    ("found", "says"),
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
        ({"roles": ["A"] * (MOST_LISTED + 1)}, "`roles` is not a list of 1 to 200 texts"),
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
def test_conditions_that_are_wrong_are_refused_by_name(found: Any, says: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        read_conditions(found)

    assert refused.value.says.startswith(says)
    assert refused.value.code == "VALIDATION_ERROR"


def test_the_hash_is_of_the_canonical_words_and_nothing_else() -> None:
    one = policy_hash("DENY", {"roles": ["Intern"], "actor_types": ["USER"]}, 10, "docs:*")
    same = policy_hash("DENY", {"actor_types": ["USER"], "roles": ["Intern"]}, 10, "docs:*")

    assert one == same
    assert canonical_policy("DENY", {"roles": ["Intern"], "actor_types": ["USER"]}, 10, "docs:*") == (
        b'{"effect":"DENY","policy_json":{"actor_types":["USER"],"roles":["Intern"]},"priority":10,"target":"docs:*"}'
    )
    assert to_hex(one) == "dff7dca33584596fecee7594e14ffa82e4a34528464080b3af6ac37df85ddd56"
    others = [
        policy_hash("ALLOW", {"roles": ["Intern"], "actor_types": ["USER"]}, 10, "docs:*"),
        policy_hash("DENY", {"roles": ["Intern"]}, 10, "docs:*"),
        policy_hash("DENY", {"roles": ["Intern"], "actor_types": ["USER"]}, 11, "docs:*"),
        policy_hash("DENY", {"roles": ["Intern"], "actor_types": ["USER"]}, 10, "*"),
    ]
    assert len({one, *others}) == 5


def test_the_sku_is_looked_up_only_where_a_policy_asks_for_it() -> None:
    assert not asks_for_sku([])
    assert not asks_for_sku([policy(1), policy(2, resource={"type": "Passport"})])
    assert asks_for_sku([policy(1), policy(2, resource={"type": "Passport", "sku": "S*"})])

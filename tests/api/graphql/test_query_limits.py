"""What a GraphQL query may cost: decided before it runs, and quickly whatever the query is."""

import time

import pytest
from graphql import parse

from bpc.api.graphql.query_limits import MAX_ALIASES, QueryBudget, QueryTooExpensive, check_query_limits
from bpc.api.graphql.schema import SCHEMA

NESTED = """
    { passports(first: 1) { items { versions(first: 1) { items {
      snapshot { facts(first: 1) { items { factId } } } } } } }
    }
"""

FRAGMENTS = """
    { passports(first: 200) { items { ...a } } }
    fragment a on Passport { ...b ...b }
    fragment b on Passport { versions(first: 100) { items { status } } }
"""


def check_limits(text: str) -> None:
    check_query_limits(SCHEMA._schema, parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "{ passports { items { passportId } } }",
        "{ passports(first: 200) { items { versions(first: 10) { items { status } } } } }",
        NESTED,
        FRAGMENTS,
        "{ passports(first: 200) { items { versions(first: 200) { items { status } } } } }",
        "query Q($n: Int!) { documents(first: $n) { items { documentId } } }",
    ],
)
def test_what_people_ask_is_allowed(text: str) -> None:
    check_limits(text)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (
            "{ " + " ".join(f"a{n}: passports(first: 1) {{ nextCursor }}" for n in range(MAX_ALIASES + 1)) + " }",
            "aliases",
        ),
        ("{ x " * 20 + "y" + " }" * 20, "depth"),
    ],
)
def test_what_is_beyond_a_limit_is_refused_by_name(text: str, limit: str) -> None:
    with pytest.raises(QueryTooExpensive) as refused:
        check_limits(text)

    assert refused.value.details["limit"] == limit


def test_fragments_that_unfold_without_end_are_refused_at_once() -> None:
    fragments = " ".join(
        f"fragment f{n} on Passport {{ ...f{n + 1} ...f{n + 1} ...f{n + 1} ...f{n + 1} }}" for n in range(30)
    )
    text = f"{{ passports {{ items {{ ...f0 }} }} }} {fragments} fragment f30 on Passport {{ passportId }}"
    started = time.process_time()

    with pytest.raises(QueryTooExpensive):
        check_limits(text)

    assert time.process_time() - started < 1


def test_a_fragment_inside_itself_does_not_hang() -> None:
    check_limits("{ passports { items { ...a } } } fragment a on Passport { passportId ...a }")


def test_what_lists_really_hold_is_counted_and_refused_from_the_first_object_too_many_on() -> None:
    budget = QueryBudget(10)
    budget.charge(10)

    for _ in range(2):
        with pytest.raises(QueryTooExpensive) as refused:
            budget.charge(1)
        assert refused.value.details == {"limit": "cost", "most": 10}

"""Fixtures: the product, the day and the facts a test runs in.

A fixture is held to what a snapshot could hold, and to one thing more: a member that the schema does not know is
surely a slip of whoever wrote the test.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from bpc.core.canon import Json
from bpc.core.facts import FactInvalid, read_members
from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import facts, literals
from bpc.core.rules.checking.context import Checking
from bpc.core.rules.checking.explain import duplicate_member
from bpc.core.rules.source import Note, Span
from bpc.core.rules.types import Fact

_PRODUCT: Final = ("SKU-1", "Product")
_DAY: Final = "2027-02-18"

_T = TypeVar("_T", syntax.ProductFixture, syntax.IssuedFixture)


def given(checking: Checking, fixtures: Sequence[syntax.Fixture]) -> typed.Given | None:
    """The world of a test, defaults filled in; None after a mistake that was reported."""
    before = len(checking.findings.errors)
    product = _once(checking, [each for each in fixtures if isinstance(each, syntax.ProductFixture)], "product")
    issued = _once(checking, [each for each in fixtures if isinstance(each, syntax.IssuedFixture)], "issued")
    documents = [each for each in fixtures if isinstance(each, syntax.FactFixture)]
    made = tuple([_fact(checking, each) for each in documents])
    _distinct(checking, documents)
    if issued is not None:
        literals.valid_day(checking, issued.day.value, issued.day.span)
    known = tuple([fact for fact in made if fact is not None])
    if len(checking.findings.errors) > before or len(known) < len(made):
        return None
    sku, name = _PRODUCT if product is None else (product.sku.value, product.name.value)
    return typed.Given(sku, name, _DAY if issued is None else issued.day.value, known)


def _once(checking: Checking, fixtures: Sequence[_T], word: str) -> _T | None:
    for again in fixtures[1:]:
        checking.error(
            "bad-fixture",
            again.span,
            f"a test has at most one `{word}`",
            notes=(Note(fixtures[0].span, "the first is here"),),
        )
    return fixtures[0] if fixtures else None


def _distinct(checking: Checking, documents: Sequence[syntax.FactFixture]) -> None:
    """A snapshot holds one fact of each type and key."""
    seen: dict[tuple[str, str], Span] = {}
    for fact in documents:
        key = fact.fact_type.value.partition("@")[0], fact.key.value
        first = seen.setdefault(key, fact.span)
        if first is not fact.span:
            checking.error(
                "bad-fixture",
                fact.key.span,
                f"there are two facts `{key[1][:80]}` of type `{key[0][:80]}`",
                notes=(Note(first, "the first is here"),),
            )


def _fact(checking: Checking, node: syntax.FactFixture) -> typed.GivenFact | None:
    fact = facts.fact_type(checking, node.fact_type.value, node.fact_type.span)
    if node.payload is None:
        return None if fact is None else typed.GivenFact(fact, node.key.value, None, node.span)
    payload = _json(checking, node.payload)
    if fact is None or not isinstance(payload, dict):
        return None
    _members(checking, fact, node.key.value, node.payload, payload)
    return typed.GivenFact(fact, node.key.value, payload, node.span)


def _members(checking: Checking, fact: Fact, key: str, node: syntax.JsonObject, payload: dict[str, Json]) -> None:
    known = checking.shared.members_of(fact)
    for name, value in node.members:
        if name.value not in known:
            checking.findings.warning(
                "unread-member",
                name.span,
                f"{checking.shown(fact)} has no member `{name.value[:80]}`, so no rule can read it",
                hint=checking.shared.suggestions.help(name.value, known),
            )
            continue
        try:
            read_members(fact, key, {name.value: payload[name.value]})
        except FactInvalid as wrong:
            checking.error("bad-fixture", value.span, wrong.says)


def _json(checking: Checking, node: syntax.JsonValue) -> Json:
    match node:
        case syntax.JsonAtom(value):
            return value
        case syntax.JsonList(items):
            return [_json(checking, item) for item in items]
        case syntax.JsonObject(members):
            return _object(checking, members)


def _object(checking: Checking, members: Sequence[tuple[syntax.Text, syntax.JsonValue]]) -> dict[str, Json]:
    made: dict[str, Json] = {}
    spans: dict[str, Span] = {}
    for name, value in members:
        if name.value in made:
            duplicate_member(checking, name, spans[name.value])
        made[name.value] = _json(checking, value)
        spans.setdefault(name.value, name.span)
    return made

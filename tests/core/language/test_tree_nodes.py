"""The nodes of trees are compared, hashed, shown and copied as frozen data classes are."""

import copy
import pickle
from dataclasses import dataclass, fields, replace

from bpc.core.language.source import Span
from bpc.core.language.syntax import Name, NumberLiteral, TextLiteral
from bpc.core.language.tree_nodes import change_node


@dataclass(frozen=True, slots=True)
class Plain:
    digits: str
    negative: bool = False


def test_nodes_are_equal_by_class_and_members_and_not_by_place() -> None:
    one, other = Name("a", span=Span(0, 1)), Name("a", span=Span(5, 6))

    assert one == other
    assert hash(one) == hash(other)
    assert {one} == {other}
    assert one != Name("b", span=Span(0, 1))
    others: list[object] = [TextLiteral("a", span=Span(0, 1)), "a"]
    assert one not in others


def test_a_node_shows_its_members() -> None:
    shown = repr(NumberLiteral("12", negative=True, span=Span(0, 2)))

    assert shown == "NumberLiteral(span=Span(start=0, end=2), digits='12', negative=True)"
    assert shown.endswith(repr(Plain("12", negative=True)).removeprefix("Plain(")), shown


def test_nodes_are_copied_and_matched() -> None:
    node = NumberLiteral("12", span=Span(0, 2))

    assert replace(node, negative=True) == NumberLiteral("12", negative=True, span=Span(9, 9))
    assert change_node(node, negative=True) == replace(node, negative=True)
    assert change_node(node, span=Span(5, 6)).span == Span(5, 6)
    assert copy.deepcopy(node) == pickle.loads(pickle.dumps(node)) == node
    assert [member.name for member in fields(node)] == ["span", "digits", "negative"]
    assert not hasattr(node, "__dict__")
    match node:
        case NumberLiteral(digits, negative):
            assert (digits, negative) == ("12", False)

"""Specification of the parser: what it says about a text that has no tree, and what it reads despite that."""

import pytest

from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source, Span
from bpc.core.language.syntax import (
    Example,
    Rule,
)
from tests.core.language.parsing.test_parse import list_kinds, parse_file

# What is wrong: the text, and for every message its kind, the text it points at and its help.
MISTAKES = {
    "field a: Int = 1 + if (x) then 1 else 2;": [("if-needs-parentheses", "if", "put the `if` in parentheses")],
    "field a: Int = 1 + let x = 1; x;": [("if-needs-parentheses", "let", "put the `let` in parentheses")],
    "field a: Int = if (a) && (b) then 1 else 2;": [
        ("condition-needs-parentheses", "&&", "put the whole condition in parentheses")
    ],
    "field a: Int = if a then 1 else 2;": [
        ("condition-needs-parentheses", "a", "put the whole condition in parentheses")
    ],
    "field a: Int = if (a) then 1;": [("unexpected-token", ";", "every `if` needs an `else`")],
    "field a: Int = a < b < c < d;": [("chained-comparison", "<", "write `a < b && b < c`")],
    "field a: Int = (fn(x) => x);": [
        ("misplaced-lambda", "fn", "write it directly as the argument, without parentheses around it")
    ],
    "field a: Int = f(fn(x, y, z) => x);": [("unexpected-token", ",", "a record can hold several values")],
    "field a: Int = let if = 1; 2;": [("reserved-name", "if", None)],
    "field a: Int = f(fn(true) => 1);": [("reserved-name", "true", None)],
    "field a: Strng = 1;": [("unknown-type", "Strng", "did you mean `Text`?")],
    "field a: Opt(integer) = 1;": [("unknown-type", "integer", "did you mean `Int`?")],
    "field a: Decimal(2) = 1;": [("unknown-type", "Decimal", "did you mean `Dec(2)`?")],
    "field a: Foo = 1;": [("unknown-type", "Foo", None)],
    "field a: Dec = 1;": [("unexpected-token", "=", "`Dec` is written as in `Dec(2)`")],
    "field a: Map(Int, Int) = 1;": [
        ("unexpected-token", "Int", "the keys of a map are texts, as in `Map(Text, Int)`")
    ],
    "field a: Record() = 1;": [("empty-record", "Record(", None)],
    "field a @publc: Int = 1;": [("unknown-audience", "publc", "did you mean `public`?")],
    "field a @public @public: Int = 1;": [("repeated-audience", "public", None)],
    "field a: Int = {};": [("empty-record", "{", None)],
    "field a: Int = b.c;": [
        ("unexpected-token", ".", 'a field is read with `field("path")`, a member with `recordGet(record, "name")`')
    ],
    "field a: Int = b = c;": [("unexpected-token", "=", "`==` compares")],
    "field a: Int = b and c;": [("unexpected-token", "and", "the logical and is written `&&`")],
    "field a: Int = b); field b: Int = 1;": [("unexpected-token", ")", "there is no matching `(`")],
    "field a: Int = 1 // one\n;": [("unexpected-token", "/", "`--` starts a comment")],
    "field a: Int = b--c;": [
        ("unexpected-token", "", "`--` starts a comment; a minus before a minus is written `-(-x)` or `a - (-b)`")
    ],
    "field a: Int = 1": [("unexpected-token", "", None)],
    "field a: Int = 1\nfield b: Int = 2;": [("unexpected-token", "", None)],
    "field a: Int = let x = 1\n let y = 2; x;": [("unexpected-token", "", None)],
    "field a: Int = let x = 1\n x + 2;": [("unexpected-token", "", None)],
    "field a: Int = f(1, 2;": [("unexpected-token", ";", None)],
    "field a: Int = f(1 2, 3 4);": [("unexpected-token", "2", None)],
    "field a: Int = [(1 2), {a b}, f(];": [
        ("unexpected-token", "2", None),
        ("unexpected-token", "b", None),
        ("unexpected-token", "]", None),
    ],
    "field a: Int = let x = 1 2; let y = (3; z 4;": [
        ("unexpected-token", "2", None),
        ("unexpected-token", ";", None),
        ("unexpected-token", "4", None),
    ],
    "field a: Int = 1_000 + f(2kg) + \"\\x\";": [
        ("bad-number", "1_000", "write `1000`"),
        ("bad-number", "2kg", "a quantity is written `qty(2, kg)`"),
        ("bad-escape", "\\x", "the escape sequences are `\\\"`, `\\\\`, `\\/`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t` and `\\u` with four digits"),  # noqa: E501
    ],
    "field a: Int = 1 ? 2 : 3;": [("unexpected-character", "?", None)],
    'field a: Text = concat("abc);\n let b = 1; b;': [("unclosed-text", '"abc);', 'close it with `"`')],
    "let x = 1; x; y;": [("unexpected-token", "let", None)],
    "a: Int = 1; b: Int = 2;": [
        ("unexpected-token", "a", "a rule starts with `field`"),
        ("unexpected-token", "b", "a rule starts with `field`"),
    ],
    "field (a): Int = 1;": [("unexpected-token", "(", None)],
    "field a: Int = date(x);": [("unexpected-token", "x", None)],
    "field a: Int = qty(x, kg);": [("unexpected-token", "x", "use `toQty` to turn a computed number into a quantity")],
    "field a: Int = field(x);": [("unexpected-token", "x", None)],
    "field a: Int = assert(b, c, \"m\"); 1;": [("unexpected-token", "c", None)],
    'example e: { fact f("T", "k") = {"a": [1.5, -2.5]}; } => ;': [
        ("fraction-in-json", "1.5", 'write it as text: `"1.5"`'),
        ("fraction-in-json", "-2.5", 'write it as text: `"-2.5"`'),
    ],
    'example e: { fact f("T", "k") = any; } => ;': [("unexpected-token", "any", "write the fact's JSON here")],
    'example e: { fact f("T", "k") = {a: 1}; issued(5); } => expect(b, 3); expect(b, == c); ;': [
        ("unexpected-token", "a", None),
        ("unexpected-token", "5", None),
        ("unexpected-token", "3", None),
        ("unexpected-token", "c", "an expectation compares with a constant, not with an expression"),
    ],
    "example e: {} => expect(a, == 1);": [("unexpected-token", "", None)],
    "property p: cases(1.5) seed(2) => ;": [("unexpected-token", "1.5", None)],
    "property p: cases(1) seed(2) => forall x: Int implies(x, y); forall x: Int . implies(x); ;": [
        ("unexpected-token", "implies", None),
        ("unexpected-token", ")", None),
    ],
}  # fmt: skip


@pytest.mark.parametrize("source", MISTAKES, ids=str)
def test_a_mistake_is_reported_once_where_it_is(source: str) -> None:
    diagnostics = parse_file(source).diagnostics

    assert [(one.kind, source[one.span.start : one.span.end], one.help) for one in diagnostics] == MISTAKES[source]


def test_a_missing_semicolon_is_shown_where_it_belongs() -> None:
    (diagnostic,) = parse_file("field a: Int = 1 -- one\n\nfield b: Int = 2;").diagnostics

    assert (diagnostic.span, diagnostic.message) == (Span(16, 16), "a `;` is missing after the rule")


def test_an_unclosed_bracket_is_shown_with_its_beginning() -> None:
    (diagnostic,) = parse_file("field a: Int = f(1;").diagnostics

    assert diagnostic.message == "expected an operator, `,` or `)`, found `;`"
    assert [(note.span, note.message) for note in diagnostic.notes] == [(Span(16, 17), "opened here")]


def test_rules_without_a_mistake_are_read_between_those_with_one() -> None:
    parsed = parse_file(
        "field a: Int = 1; field b: Int = (; field c: Int = 2; field d.e Int = 3; oops; "
        "field f: Int = 1kg; field g: Int = 4; example h: { => ; field i: Int = 5;"
    )

    assert [item.dotted for item in parsed.tree.items if isinstance(item, Rule)] == ["a", "c", "g", "i"]
    assert parsed.unparsed_fields == ("b", "d.e", "f")


def test_a_rule_behind_a_long_stretch_of_lost_words_is_read() -> None:
    for lost in ("x y " * 50_000, "(" * 100_000, '"a" ' * 50_000):
        parsed = parse_file(f"field a: Int = 1; field b: Int = 2 {lost}\nfield c: Int = 3; -- end")

        assert [item.dotted for item in parsed.tree.items if isinstance(item, Rule)] == ["a", "c"]
        assert (len(parsed.diagnostics), parsed.unparsed_fields) == (1, ("b",))


def test_all_mistakes_are_found_in_one_run() -> None:
    source = "field a: Int = 1 2;\n" * 20 + "field b: Foo = (1 2) + [3 4];\n"

    assert len(list_kinds(source)) == 20 + 3


def test_after_a_hundred_mistakes_reading_stops() -> None:
    diagnostics = parse_file("field a: Int = 1 2;\n" * 200).diagnostics

    assert len(diagnostics) == 101
    assert diagnostics[-1].kind == "too-many-errors"
    assert diagnostics[-1].span == diagnostics[-2].span


def test_a_rule_in_a_tests_file_is_a_mistake() -> None:
    parsed = parse_file("field a: Int = 1; example e: {} => ;", tests_only=True)

    assert [diagnostic.kind for diagnostic in parsed.diagnostics] == ["rule-in-tests"]
    assert [type(item) for item in parsed.tree.items] == [Example]


def test_a_faulty_word_in_a_text_is_noticed_behind_one_that_was_read_ahead() -> None:
    rules = 'language 2;\nfield a: Text = "{toDec(2, 76from3)}";\nfield b: Dec(2) = 1_0;\n'

    result = parse(Source("rules.bpc", rules))

    assert [diagnostic.kind for diagnostic in result.diagnostics] == ["bad-number", "bad-number"]
    assert result.tree.items == ()

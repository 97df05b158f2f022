"""Fields and what they are called: paths, audiences, who reads whom, and circles."""

import pytest

from bpc.core.rules.source import Span
from tests.core.rules.checked import errors_in, found_in, only_error, program


def test_a_field_declared_twice_is_refused_at_the_second() -> None:
    found = only_error('field a.b: Int = 1; field «a . b»: Text = "x";')

    assert found.kind == "duplicate-field"
    assert [note.span for note in found.notes] == [Span(6, 9)]


def test_both_bodies_of_a_field_declared_twice_are_looked_at() -> None:
    errors = errors_in('field a: Int = "x"; field a: Text = 1;')

    assert [found.kind for found in errors] == ["wrong-type", "duplicate-field", "wrong-type"]


@pytest.mark.parametrize(
    "text",
    [
        "field a: Int = 1; field «a.b»: Int = 1;",
        "field a.b: Int = 1; field «a»: Int = 1;",
        "field a.b: Int = 1; field a2: Int = 1; field «a.b.c.d»: Int = 1;",
    ],
)
def test_a_path_that_begins_another_is_refused_at_the_later(text: str) -> None:
    assert only_error(text).kind == "prefix-path"


def test_names_that_only_look_alike_are_no_prefixes() -> None:
    assert [field.path for field in program("field a.b: Int = 1; field a.bc: Int = 1; field ab: Int = 1;").fields] == [
        "a.b",
        "a.bc",
        "ab",
    ]


def test_an_unknown_field_gets_a_suggestion() -> None:
    found = only_error('field battery.capacity_kwh: Int = 1; field b: Int = field(«"battery.capacity"»);')

    assert (found.kind, found.help) == ("unknown-field", "did you mean `battery.capacity_kwh`?")


# fields as `path needs needs`, and the circles as they are told
CIRCLES = [
    ("a a", ["a -> a"]),
    ("a b; b a", ["a -> b -> a"]),
    ("b a; a b", ["b -> a -> b"]),
    ("a b; b c; c a", ["a -> b -> c -> a"]),
    ("a b; b c; c a b", ["a -> b -> c -> a"]),
    ("a b c; b a; c a", ["a -> b -> a"]),
    ("a b; b a; c d; d c", ["a -> b -> a", "c -> d -> c"]),
    ("a a b; b a", ["a -> a", "a -> b -> a"]),
    ("x a; a b; b a; y x", ["a -> b -> a"]),
]


@pytest.mark.parametrize(("fields", "circles"), CIRCLES)
def test_every_circle_is_told_once_with_its_path(fields: str, circles: list[str]) -> None:
    text = ""
    for line in fields.split(";"):
        path, *needs = line.split()
        read = " + ".join(f'field("{other}")' for other in needs)
        text += f"field {path}: Int = {read or 1};\n"

    errors = errors_in(text)

    assert [found.code for found in errors] == ["RULE_CYCLE_DETECTED"] * len(circles)
    assert [found.says.split(": ", 1)[1] for found in errors] == circles


def test_a_circle_shows_where_each_field_reads_the_next() -> None:
    text = 'field a: Int = field("b"); field b: Int = 1 + field("a");'

    (found,) = errors_in(text)

    assert text[found.span.start : found.span.end] == "a"
    assert [(text[note.span.start : note.span.end], note.says) for note in found.notes] == [
        ('field("b")', "`a` reads `b` here"),
        ('field("a")', "`b` reads `a` here"),
    ]


def test_a_long_circle_is_shortened() -> None:
    text = "".join(f'field f{n}: Int = field("f{(n + 1) % 1000}");' for n in range(1000))

    (found,) = errors_in(text)

    assert found.says == (
        "`f0` needs its own value: f0 -> f1 -> f2 -> f3 -> f4 -> f5 -> f6 -> f7 -> … 991 more … -> f999 -> f0"
    )


def test_a_circle_through_a_lambda_is_one() -> None:
    assert [found.kind for found in errors_in('field a: List(Int) = map([1], fn(x) => count(field("a")));')] == [
        "cycle"
    ]


@pytest.mark.parametrize(
    ("reader", "read", "blind"),
    [
        ("", "", None),
        ("", "@public", None),
        ("@public", "@public", None),
        ("@interest", "@public", None),
        ("@interest @authority", "@authority @interest", None),
        ("@public", "", "@public"),
        ("@public", "@interest", "@public"),
        ("@interest", "@authority", "@interest"),
        ("@interest @authority", "@interest", "@authority"),
    ],
)
def test_a_visible_field_that_reads_a_hidden_one_is_a_doubt(reader: str, read: str, blind: str | None) -> None:
    text = f'field a {reader}: List(Int) = map([1], fn(x) => x + field("b")); field b {read}: Int = 1;'

    found = found_in(text)

    if blind is None:
        assert found == []
    else:
        assert [(each.kind, each.severity) for each in found] == [("publishes-hidden", "warning")]
        assert f"visible to {blind} " in found[0].says
        assert text[found[0].span.start : found[0].span.end] == 'field("b")'


def test_facts_are_never_visible_and_no_doubt() -> None:
    assert found_in('field a @public: Bool = isSome(getFact("Battery", "k"));') == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('emitCompliance(«field("t")», "PASS", "m")', "literal-needed"),
        ('emitCompliance("C", «"pass"», "m")', "bad-status"),
        ('emitCompliance("C", «field("t")», "m")', "literal-needed"),
        ('emitCompliance("C", if (true) then "PASS" else «"NO"», "m")', "bad-status"),
        ('emitCompliance("C", if («1») then "PASS" else "FAIL", "m")', "wrong-type"),
        ('emitCompliance("C", «let x = "PASS"; x», "m")', "literal-needed"),
        ('emitCompliance("C", "PASS", «1»)', "wrong-type"),
        ('count(map([1], fn(x) => «emitCompliance("C", "PASS", "m")»)) == 1', "emit-in-lambda"),
        ('count(map([1], fn(x) => map([1], fn(y) => «emitCompliance("C", "PASS", "m")»))) == 1', "emit-in-lambda"),
    ],
)
def test_a_compliance_entry_is_written_out_and_belongs_to_its_field(text: str, kind: str) -> None:
    assert only_error(f'field t: Text = "a"; field a: Bool = {text};').kind == kind


def test_a_compliance_status_may_be_chosen() -> None:
    program(
        'field a: Bool = emitCompliance("C", if (true) then "PASS" else if (false) then "WARN" else '
        '(if (true) then "FAIL" else "NOT_APPLICABLE"), concat("a", productSku()));'
    )


def test_a_status_that_is_nearly_right_gets_a_suggestion() -> None:
    assert only_error('field a: Bool = emitCompliance("C", «"PAS"», "m");').help == 'did you mean `"PASS"`?'

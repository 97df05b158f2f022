"""Fields and what they are called: paths, audiences, who reads whom, and circles."""

from random import Random  # noqa: TID251

import pytest

from bpc.core.language.checking.declarations import find_cycles, order_fields
from bpc.core.language.source import Span
from tests.core.language.check_helpers import check_program, list_diagnostics, list_errors, require_one_error


def test_a_field_declared_twice_is_refused_at_the_second() -> None:
    error = require_one_error('field a.b: Int = 1; field «a . b»: Text = "x";')

    assert error.kind == "duplicate-field"
    assert [note.span for note in error.notes] == [Span(6, 9)]


def test_both_bodies_of_a_field_declared_twice_are_looked_at() -> None:
    errors = list_errors('field a: Int = "x"; field a: Text = 1;')

    assert [error.kind for error in errors] == ["wrong-type", "duplicate-field", "wrong-type"]


@pytest.mark.parametrize(
    "text",
    [
        "field a: Int = 1; field «a.b»: Int = 1;",
        "field a.b: Int = 1; field «a»: Int = 1;",
        "field a.b: Int = 1; field a2: Int = 1; field «a.b.c.d»: Int = 1;",
    ],
)
def test_a_path_that_begins_another_is_refused_at_the_later(text: str) -> None:
    assert require_one_error(text).kind == "prefix-path"


def test_names_that_only_look_alike_are_no_prefixes() -> None:
    assert [
        field.path for field in check_program("field a.b: Int = 1; field a.bc: Int = 1; field ab: Int = 1;").fields
    ] == [
        "a.b",
        "a.bc",
        "ab",
    ]


def test_an_unknown_field_gets_a_suggestion() -> None:
    error = require_one_error('field battery.capacity_kwh: Int = 1; field b: Int = field(«"battery.capacity"»);')

    assert (error.kind, error.help) == ("unknown-field", "did you mean `battery.capacity_kwh`?")


# fields as `path needs needs`, and the circles as they are told
CYCLES = [
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


@pytest.mark.parametrize(("fields", "circles"), CYCLES)
def test_every_cycle_is_reported_once_with_its_path(fields: str, circles: list[str]) -> None:
    text = ""
    for line in fields.split(";"):
        path, *needs = line.split()
        read = " + ".join(f'field("{other}")' for other in needs)
        text += f"field {path}: Int = {read or 1};\n"

    errors = list_errors(text)

    assert [error.code for error in errors] == ["RULE_CYCLE_DETECTED"] * len(circles)
    assert [error.message.split(": ", 1)[1] for error in errors] == circles


def test_a_cycle_shows_where_each_field_reads_the_next() -> None:
    text = 'field a: Int = field("b"); field b: Int = 1 + field("a");'

    (error,) = list_errors(text)

    assert text[error.span.start : error.span.end] == "a"
    assert [(text[note.span.start : note.span.end], note.message) for note in error.notes] == [
        ('field("b")', "`a` reads `b` here"),
        ('field("a")', "`b` reads `a` here"),
    ]


def test_a_long_cycle_is_shortened() -> None:
    text = "".join(f'field f{n}: Int = field("f{(n + 1) % 1000}");' for n in range(1000))

    (error,) = list_errors(text)

    assert error.message == (
        "`f0` depends on itself: f0 -> f1 -> f2 -> f3 -> f4 -> f5 -> f6 -> f7 -> … 991 more … -> f999 -> f0"
    )


def test_a_cycle_through_a_lambda_is_reported() -> None:
    assert [error.kind for error in list_errors('field a: List(Int) = map([1], fn(x) => count(field("a")));')] == [
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
def test_a_visible_field_that_reads_a_hidden_one_is_a_warning(reader: str, read: str, blind: str | None) -> None:
    text = f'field a {reader}: List(Int) = map([1], fn(x) => x + field("b")); field b {read}: Int = 1;'

    diagnostics = list_diagnostics(text)

    if blind is None:
        assert diagnostics == []
    else:
        assert [(diagnostic.kind, diagnostic.severity) for diagnostic in diagnostics] == [
            ("publishes-hidden", "warning")
        ]
        assert f"visible to {blind} " in diagnostics[0].message
        assert text[diagnostics[0].span.start : diagnostics[0].span.end] == 'field("b")'


def test_reading_a_fact_gives_no_warning() -> None:
    assert list_diagnostics('field a @public: Bool = isSome(getFact("Battery", "k"));') == []


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
    assert require_one_error(f'field t: Text = "a"; field a: Bool = {text};').kind == kind


def test_a_compliance_status_may_be_chosen() -> None:
    check_program(
        'field a: Bool = emitCompliance("C", if (true) then "PASS" else if (false) then "WARN" else '
        '(if (true) then "FAIL" else "NOT_APPLICABLE"), concat("a", productSku()));'
    )


def test_a_status_that_is_nearly_right_gets_a_suggestion() -> None:
    assert require_one_error('field a: Bool = emitCompliance("C", «"PAS"», "m");').help == 'did you mean `"PASS"`?'


# The order of fields (BPC-GRAPH-1), and the circles among them.


def test_the_least_path_comes_first() -> None:
    assert order_fields({"c": [], "b": ["c"], "a": ["b"], "d": [], "B": []}) == ["B", "c", "b", "a", "d"]


def test_the_order_does_not_depend_on_the_order_of_the_text() -> None:
    needs = {f"f{n}": [f"f{m}" for m in range(n + 1, 30) if (n * m) % 7 == 1] for n in range(30)}
    shuffled = list(needs)
    Random(1).shuffle(shuffled)

    assert order_fields({path: needs[path] for path in shuffled}) == order_fields(needs)


def test_what_is_in_or_behind_a_cycle_has_no_order() -> None:
    assert order_fields({"a": ["b"], "b": ["a"], "c": ["a"], "d": []}) == ["d"]


@pytest.mark.parametrize("seed", range(200))
def test_every_component_has_exactly_one_cycle(seed: int) -> None:
    random = Random(seed)
    count = random.randint(1, 12)
    names = [f"f{n}" for n in range(count)]
    needs = {name: random.sample(names, random.randint(0, min(3, count))) for name in names}

    all_cycles = find_cycles(needs)

    for cycle in all_cycles:
        for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert other in needs[one]
        assert len(set(cycle)) == len(cycle)
    assert sorted(cycle[0] for cycle in all_cycles if len(cycle) == 1) == sorted(n for n in names if n in needs[n])
    groups = {frozenset(group) for group in find_components_slowly(needs) if len(group) > 1}
    assert len(groups) == len([cycle for cycle in all_cycles if len(cycle) > 1])
    for cycle in all_cycles:
        if len(cycle) > 1:
            assert any(set(cycle) <= group for group in groups)


def find_components_slowly(needs: dict[str, list[str]]) -> list[frozenset[str]]:
    """Which fields reach each other, by looking at all of them again and again."""
    reach = {name: set(read) for name, read in needs.items()}
    for _ in needs:
        for name in needs:
            reach[name] |= {further for other in reach[name] for further in reach[other]}
    return [frozenset({name, *[o for o in needs if o in reach[name] and name in reach[o]]}) for name in needs]


def test_ten_thousand_fields_in_a_cycle_are_one_cycle() -> None:
    needs = {f"f{n}": [f"f{(n + 1) % 10_000}"] for n in range(10_000)}

    (circle,) = find_cycles(needs)

    assert len(circle) == 10_000
    assert circle[:3] == ["f0", "f1", "f2"]


def test_ten_thousand_fields_in_a_row_have_an_order() -> None:
    needs = {f"f{n}": [f"f{n + 1}"] for n in range(9_999)} | {"f9999": []}

    assert order_fields(needs) == [f"f{n}" for n in range(9_999, -1, -1)]

"""Expressions in rules: what a declared type changes, how mistakes are explained, warnings, and the size of types."""

import pytest

from tests.core.language.check_helpers import (
    check_program,
    list_diagnostics,
    list_errors,
    require_one_error,
    split_table,
    strip_marks,
)

# A declared type is pushed inwards: declared type, body
PUSHED_TYPES = """
    Dec(2)                  1
    Dec(1)                  1.50
    Dec(2)                  1 + 2.5
    Dec(2)                  if (true) then 1 else 2.5
    Dec(2)                  let x = 1; 2
    Dec(2)                  unwrapOr(some(1.00), 1)
    Dec(2)                  fold([1], 0, fn(sum, x) => sum + x)
    Opt(Dec(2))             some(1)
    Opt(Dec(2))             none
    Opt(Int)                if (true) then none else some(1)
    List(Dec(2))            [1, 2.5]
    List(Int)               []
    List(List(Dec(1)))      [[], [1]]
    Record(a: Dec(2), b: Opt(Int))      { b: none, a: 1 }
    List(Record(a: Dec(2)))             [{ a: 1 }, { a: 2.5 }]
    Opt(Record(a: Opt(Int)))            some({ a: none })
    Record(a: Int, b: Int)              if (true) then { a: 1, b: 2 } else { b: 1, a: 2 }
"""


@pytest.mark.parametrize(("kind", "body"), split_table(PUSHED_TYPES))
def test_a_declared_type_reaches_the_literals_inside(kind: str, body: str) -> None:
    assert str(check_program(f"field a: {kind} = {body};").fields[0].body.type) == str(
        check_program(f"field a: {kind} = {body};").fields[0].type
    )


# rule text, kind
DECLARATION_MISTAKES = """
    field a: Dec(2) = «1.555»;                                      literal-does-not-fit
    field a: Dec(0) = «1.5»;                                        literal-does-not-fit
    field a: Int = «1.0»;                                           wrong-type
    field a: Dec(2) = «count([1])»;                                 int-for-dec
    field a: Dec(2) = «1 * 2»;                                      int-for-dec
    field a: Dec(2) = toDec(2, 1) + «1.555»;                        literal-does-not-fit
    field a: Text = «1»;                                            wrong-type
    field a: Opt(Int) = «1»;                                        wrong-type
    field a: Int = «none»;                                          wrong-type
    field a: Int = «[]»;                                            wrong-type
    field a: Qty(kWh) = «qty(1, Wh)»;                               unit-mismatch
    field a: Qty(kWh) = «qty(1, kg)»;                               unit-mismatch
    field a: Qty(kWh) = «1»;                                        wrong-type
    field a: Dec(2) = «qty(1, kWh)»;                                wrong-type
    field a: List(Dec(2)) = [1, «1.555»];                           literal-does-not-fit
    field a: List(Dec(2)) = «map([1], fn(x) => 1)»;                 wrong-type
    field a: Record(a: Int) = { a: 1, «b»: 2 };                     unknown-member
    field a: Record(a: Int, b: Int) = «{ a: 1 }»;                   wrong-type
    field a: Record(a: Dec(1)) = { a: «1.25» };                     literal-does-not-fit
    field a: Opt(Int) = some(«"a"»);                                wrong-type
    field a: Opt(Int) = «some(none)»;                               nested-option
    field b: Opt(Int) = none; field a: Opt(Int) = «some(field("b"))»;        nested-option
    field b: Opt(Text) = none; field a: Opt(Int) = «some(field("b"))»;       nested-option
    field a: Text = «"a"» + "b" + "c";                              wrong-type
    field a: Date = «issuedOn()» - issuedOn();                      wrong-type
    field a: Text = «requireSome(getFact("Battery", "k"), "E", "e")»;        wrong-type
    field a: «Dec(19)» = 1;                                         scale-too-large
    field a: «Opt(Opt(Int))» = none;                                nested-option
    field a: Qty(«kwh») = qty(1, kWh);                              unknown-unit
    field a: Record(x: Int, «x»: Text) = { x: 1 };                  duplicate-member
    field a: Int = if (true) then 1 else «"a"»;                     wrong-type
    field a: Int = let x = "a"; «x»;                                wrong-type
"""


@pytest.mark.parametrize(("text", "kind"), split_table(DECLARATION_MISTAKES))
def test_what_does_not_fit_its_declaration_is_one_mistake(text: str, kind: str) -> None:
    assert require_one_error(text).kind == kind


def test_a_mistake_says_where_the_wanted_type_comes_from() -> None:
    error = require_one_error("field a: List(Dec(2)) = [1, «count([1])»];")

    assert [(note.span.start, note.message) for note in error.notes] == [(9, "`a` is declared `List(Dec(2))` here")]


def test_operands_that_disagree_show_where_each_got_its_type() -> None:
    text, _ = strip_marks(
        "field cap: Dec(6) = 1;\n"
        "field a: Dec(2) =\n"
        '  let b = requireSome(getFact("PCF", "k"), "E", "e");\n'
        '  let total = requireSome(recordGet(b, "total_gco2e"), "E", "e");\n'
        "  let same = total;\n"
        '  let cap = field("cap");\n'
        "  same + cap;"
    )

    (error,) = list_errors(text)

    assert [(text[note.span.start : note.span.end], note.message) for note in error.notes] == [
        ('"total_gco2e"', "the member `total_gco2e` is `Dec(2)`"),
        ("Dec(6)", "`cap` is declared `Dec(6)` here"),
    ]
    assert error.help == "use the same number of decimals on both sides: `toDec(6, same)`"


def test_a_computed_operand_is_shown_at_its_let() -> None:
    text = "field a: Dec(2) = let x = 1.5 * 1.5; let y = 2.5 * 1; x + y;"

    (error,) = list_errors(text)

    assert [(text[note.span.start : note.span.end], note.message) for note in error.notes] == [
        ("x", "`x` is `Dec(2)`"),
        ("y", "`y` is `Dec(1)`"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        'field a: Int = field("b") + nope; field b: Int = 1;',
        "field a: Int = let x = nope; let y = x + 1; if (x) then y else [y, x, none];",
        'field a: Int = count(map(nope, fn(x) => x + 1 - recordGet(x, "a")));',
        "field a: Int = { x: nope, y: 1 } + 1;",
        'field a: Int = [nope, none, 1, "a"];',
        'field a: Int = if (nope) then 2 else 1 + "b";',
    ],
)
def test_a_mistake_causes_no_follow_up_errors(text: str) -> None:
    kinds = [error.kind for error in list_errors(text)]

    assert kinds.count("unknown-variable") == 1
    assert len(kinds) <= 2  # the second is a mistake of its own, in another branch or field


def test_a_field_with_a_wrong_body_still_has_its_declared_type() -> None:
    errors = list_errors('field a: Int = "x"; field b: Text = field("a"); field c: Int = field("a") + 1;')

    assert [error.kind for error in errors] == ["wrong-type", "wrong-type"]


def test_all_mistakes_are_found_in_one_run() -> None:
    errors = list_errors('field a: Int = nope + "x"; field b: Dec(2) = [1, "a"] == 2 && 3;')

    assert [error.kind for error in errors] == ["unknown-variable", "wrong-type", "wrong-type", "wrong-type"][
        : len(errors)
    ]
    assert len(errors) >= 3


def test_a_type_made_of_shared_parts_is_refused_before_it_grows() -> None:
    lets = "".join(f"let b{n} = {{ x: b{n - 1}, y: b{n - 1} }}; " for n in range(1, 60))

    errors = list_errors(f"field a: Int = let b0 = 1; {lets} 1;")

    assert [error.kind for error in errors] == ["type-too-large"]


def test_a_list_nested_too_deeply_has_no_type() -> None:
    assert [error.kind for error in list_errors(f"field a: Int = let x = {'[' * 20}1{']' * 20}; 1;")] == [
        "type-too-large"
    ]


def test_a_wide_record_has_no_type() -> None:
    members = ", ".join(f"m{n}: 1" for n in range(1001))

    assert [error.kind for error in list_errors(f"field a: Int = let x = {{ {members} }}; 1;")] == ["type-too-large"]


def test_a_long_type_is_cut_in_messages() -> None:
    members = ", ".join(f"member_{n}: Int" for n in range(100))

    (error,) = list_errors(f'field a: Record({members}) = "x";')

    assert "…`" in error.message
    assert len(error.message) < 200


def test_an_unused_let_is_a_warning() -> None:
    diagnostics = list_diagnostics("field a: Int = let x = 1; let _y = 2; let z = 3; z;")

    assert [(diagnostic.kind, diagnostic.severity) for diagnostic in diagnostics] == [("unused-let", "warning")]


def test_no_warning_about_lets_beside_errors() -> None:
    assert [diagnostic.kind for diagnostic in list_diagnostics("field a: Int = let x = 1; nope;")] == [
        "unknown-variable"
    ]


@pytest.mark.parametrize("name", ["map", "count", "fact", "kWh", "expect", "Dec", "a"])
def test_functions_units_and_fields_take_no_variable_names_away(name: str) -> None:
    check_program(f"field a: Int = let {name} = 1; {name};")


def test_siblings_may_reuse_a_name() -> None:
    check_program(
        "field a: Int = (let x = 1; x) + (let x = 2; x) + count(map([1], fn(x) => x)) + count(map([1], fn(x) => x));"
        "field b: Int = let x = 1; x;"
    )

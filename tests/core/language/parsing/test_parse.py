"""Specification of the parser: the tree that a text has."""

from typing import Any

import pytest

from bpc.core.language.parsing.parse import parse, parse_expression
from bpc.core.language.parsing.parse_again import ParsedRules
from bpc.core.language.source import Source, Span
from bpc.core.language.syntax import (
    Assert,
    Block,
    BoolLiteral,
    Branch,
    Call,
    ChainLink,
    Comparison,
    DateLiteral,
    DecType,
    ErrorExpectation,
    Example,
    Expectation,
    Expr,
    FactFixture,
    FieldRef,
    If,
    IssuedFixture,
    JsonAtom,
    JsonList,
    JsonObject,
    Lambda,
    Let,
    ListConstant,
    ListLiteral,
    ListType,
    MapType,
    Name,
    NoneLiteral,
    NumberLiteral,
    OperatorChain,
    OptType,
    ProductFixture,
    Property,
    QtyType,
    QuantityLiteral,
    RecordLiteral,
    RecordType,
    Rule,
    SimpleType,
    SomeConstant,
    TextLiteral,
    Unary,
    VariableRef,
)

SPAN_KEYWORD: dict[str, Any] = {"span": Span(0, 0)}
OP_SPAN_KEYWORD = {"op_span": Span(0, 0)}
a, b, c, d = (VariableRef(name, **SPAN_KEYWORD) for name in "abcd")


def make_name(text: str) -> Name:
    return Name(text, **SPAN_KEYWORD)


def make_text(value: str) -> TextLiteral:
    return TextLiteral(value, **SPAN_KEYWORD)


def make_number(digits: str, negative: bool = False) -> NumberLiteral:
    return NumberLiteral(digits, negative, **SPAN_KEYWORD)


def make_chain(first: Expr, *links: tuple[str, Expr]) -> OperatorChain:
    return OperatorChain(
        first, tuple(ChainLink(op, operand, **OP_SPAN_KEYWORD) for op, operand in links), **SPAN_KEYWORD
    )


def make_comparison(left: Expr, op: str, right: Expr) -> Comparison:
    return Comparison(op, left, right, **OP_SPAN_KEYWORD, **SPAN_KEYWORD)


def make_unary(op: str, operand: Expr) -> Unary:
    return Unary(op, operand, **OP_SPAN_KEYWORD, **SPAN_KEYWORD)


def parse_expr(source: str) -> Expr:
    expr, diagnostics = parse_expression(Source("x", source))
    assert diagnostics == ()
    assert expr is not None
    return expr


def parse_file(source: str, *, tests_only: bool = False) -> ParsedRules:
    return parse(Source("x", source), tests_only=tests_only)


def list_kinds(source: str) -> list[str]:
    return [diagnostic.kind for diagnostic in parse_file(source).diagnostics]


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("1.50", make_number("1.50")),
        ("-5", make_number("5", negative=True)),
        ("- 5", make_number("5", negative=True)),
        ("-(5)", make_unary("-", make_number("5"))),
        ("- -5", make_unary("-", make_number("5", negative=True))),
        ("!-a", make_unary("!", make_unary("-", a))),
        ("true", BoolLiteral(True, **SPAN_KEYWORD)),
        ("none", NoneLiteral(**SPAN_KEYWORD)),
        ('"x"', make_text("x")),
        ('date("2026-01-01")', DateLiteral(make_text("2026-01-01"), **SPAN_KEYWORD)),
        ("date", VariableRef("date", **SPAN_KEYWORD)),
        ("qty(-1.5, kWh)", QuantityLiteral(make_number("1.5", negative=True), make_name("kWh"), **SPAN_KEYWORD)),
        ('field("a.b")', FieldRef(make_text("a.b"), **SPAN_KEYWORD)),
        ("f()", Call(make_name("f"), (), **SPAN_KEYWORD)),
        ("f(a, b,)", Call(make_name("f"), (a, b), **SPAN_KEYWORD)),
        ("[]", ListLiteral((), **SPAN_KEYWORD)),
        ("[a, b,]", ListLiteral((a, b), **SPAN_KEYWORD)),
        ("{if: a, x: b,}", RecordLiteral(((make_name("if"), a), (make_name("x"), b)), **SPAN_KEYWORD)),
        ("f(fn(a) => b)", Call(make_name("f"), (Lambda((make_name("a"),), b, **SPAN_KEYWORD),), **SPAN_KEYWORD)),
        ("f(fn(a, b) => b + 1, c)", Call(make_name("f"), (Lambda((make_name("a"), make_name("b")), make_chain(b, ("+", make_number("1"))), **SPAN_KEYWORD), c), **SPAN_KEYWORD)),  # noqa: E501
        ("a + b - c", make_chain(a, ("+", b), ("-", c))),
        ("a + b * c", make_chain(a, ("+", make_chain(b, ("*", c))))),
        ("a * b + c", make_chain(make_chain(a, ("*", b)), ("+", c))),
        ("(a + b) + c", make_chain(make_chain(a, ("+", b)), ("+", c))),
        ("a - (b - c)", make_chain(a, ("-", make_chain(b, ("-", c))))),
        ("10 -3", make_chain(make_number("10"), ("-", make_number("3")))),
        ("a - -3", make_chain(a, ("-", make_number("3", negative=True)))),
        ("-a * b", make_chain(make_unary("-", a), ("*", b))),
        ("a || b && c || d", make_chain(a, ("||", make_chain(b, ("&&", c))), ("||", d))),
        ("a + b < c * d", make_comparison(make_chain(a, ("+", b)), "<", make_chain(c, ("*", d)))),
        ("a < b == (c < d) && a", None),
        ("a == b && c != d", make_chain(make_comparison(a, "==", b), ("&&", make_comparison(c, "!=", d)))),
        ("(a < b) == c", make_comparison(make_comparison(a, "<", b), "==", c)),
        ("((a))", a),
        ("if (a) then b else c", If((Branch(a, b, **SPAN_KEYWORD),), c, **SPAN_KEYWORD)),
        ("if (a) then b else if (c) then d else a", If((Branch(a, b, **SPAN_KEYWORD), Branch(c, d, **SPAN_KEYWORD)), a, **SPAN_KEYWORD)),  # noqa: E501
        ("if (a) then b else (if (c) then d else a)", If((Branch(a, b, **SPAN_KEYWORD),), If((Branch(c, d, **SPAN_KEYWORD),), a, **SPAN_KEYWORD), **SPAN_KEYWORD)),  # noqa: E501
        ("if (a) then if (b) then c else d else a", If((Branch(a, If((Branch(b, c, **SPAN_KEYWORD),), d, **SPAN_KEYWORD), **SPAN_KEYWORD),), a, **SPAN_KEYWORD)),  # noqa: E501
        ("if (a) then b else c + d", If((Branch(a, b, **SPAN_KEYWORD),), make_chain(c, ("+", d)), **SPAN_KEYWORD)),
        ("let x = a; b", Block((Let(make_name("x"), a, **SPAN_KEYWORD),), b, **SPAN_KEYWORD)),
        ("let x = let y = a; b; c", Block((Let(make_name("x"), Block((Let(make_name("y"), a, **SPAN_KEYWORD),), b, **SPAN_KEYWORD), **SPAN_KEYWORD),), c, **SPAN_KEYWORD)),  # noqa: E501
        ('let x = a; assert(b, "E", "m"); c', Block((Let(make_name("x"), a, **SPAN_KEYWORD), Assert(b, make_text("E"), make_text("m"), **SPAN_KEYWORD)), c, **SPAN_KEYWORD)),  # noqa: E501
        ("-- c\na -- d", a),
    ],
)  # fmt: skip
def test_an_expression_has_this_tree(source: str, tree: Expr | None) -> None:
    if tree is None:
        assert [diagnostic.kind for diagnostic in parse_expression(Source("x", source))[1]] == ["chained-comparison"]
    else:
        assert parse_expr(source) == tree


def test_a_rule_has_path_audiences_type_and_body() -> None:
    parsed = parse_file("field a.field @public@interest : Opt(Map(Text, Dec(2))) = none;")

    rule_type = OptType(MapType(DecType(2, **SPAN_KEYWORD), **SPAN_KEYWORD), **SPAN_KEYWORD)
    audiences = (make_name("public"), make_name("interest"))
    assert parsed.tree.items == (
        Rule((make_name("a"), make_name("field")), audiences, rule_type, NoneLiteral(**SPAN_KEYWORD), span=Span(0, 0)),
    )
    assert parsed.diagnostics == ()


def test_types_have_their_parts() -> None:
    (rule,) = parse_file("field a: Record(x: List(Date), y: Qty(kg)) = a;").tree.items

    assert isinstance(rule, Rule)
    members = (
        (make_name("x"), ListType(SimpleType("Date", **SPAN_KEYWORD), **SPAN_KEYWORD)),
        (make_name("y"), QtyType(make_name("kg"), **SPAN_KEYWORD)),
    )
    assert rule.type == RecordType(members, **SPAN_KEYWORD)


def test_an_example_has_fixtures_and_expectations() -> None:
    parsed = parse_file(
        'example e: { product("s", "n"); issued("d"); fact f("T", "k") = {"a": -1 "b": [true null {}],}; }'
        '=> expect(a.b, == some([1, -2])); expectError("E"); ;'
    )

    payload = JsonObject(
        (
            (make_text("a"), JsonAtom(-1, **SPAN_KEYWORD)),
            (
                make_text("b"),
                JsonList(
                    (JsonAtom(True, **SPAN_KEYWORD), JsonAtom(None, **SPAN_KEYWORD), JsonObject((), **SPAN_KEYWORD)),
                    **SPAN_KEYWORD,
                ),
            ),
        ),
        **SPAN_KEYWORD,
    )
    constant = SomeConstant(
        ListConstant((make_number("1"), make_number("2", negative=True)), **SPAN_KEYWORD), **SPAN_KEYWORD
    )
    assert parsed.diagnostics == ()
    assert parsed.tree.items == (
        Example(
            make_name("e"),
            (
                ProductFixture(make_text("s"), make_text("n"), **SPAN_KEYWORD),
                IssuedFixture(make_text("d"), **SPAN_KEYWORD),
                FactFixture(make_name("f"), make_text("T"), make_text("k"), payload, **SPAN_KEYWORD),
            ),
            (
                Expectation((make_name("a"), make_name("b")), "==", constant, span=Span(0, 0)),
                ErrorExpectation(make_text("E"), span=Span(0, 0)),
            ),
            span=Span(0, 0),
        ),
    )


def test_a_property_has_cases_seed_givens_and_claims() -> None:
    parsed = parse_file(
        'property p: cases(10) seed(7) given { fact f("T", "k") = any; }'
        "=> forall x: Int.implies(x > 0, let y = x; y); ;"
    )

    (item,) = parsed.tree.items
    assert parsed.diagnostics == ()
    assert isinstance(item, Property)
    assert (item.cases, item.seed) == (make_number("10"), make_number("7"))
    assert item.fixtures == (FactFixture(make_name("f"), make_text("T"), make_text("k"), None, **SPAN_KEYWORD),)
    (claim,) = item.claims
    assert claim.conclusion == Block(
        (Let(make_name("y"), VariableRef("x", **SPAN_KEYWORD), **SPAN_KEYWORD),),
        VariableRef("y", **SPAN_KEYWORD),
        **SPAN_KEYWORD,
    )


def test_a_test_may_expect_nothing_as_far_as_the_grammar_goes() -> None:
    assert list_kinds("example e: {} => ; property p: cases(1) seed(1) => ;") == []


def test_spans_are_exact() -> None:
    source = "field a: Int = let x = (f(1, b) + -2) * c; if (x) then [1] else if (y) then {m: 2} else g(3);"
    (rule,) = parse_file(source).tree.items

    assert isinstance(rule, Rule)
    assert isinstance(rule.body, Block)
    (let,) = rule.body.bindings
    assert isinstance(let, Let)
    product = let.value
    assert isinstance(product, OperatorChain)
    branching = rule.body.body
    assert isinstance(branching, If)
    assert [
        source[one.span.start : one.span.end] for one in (rule, let, product, product.first, branching.otherwise)
    ] == [
        source,
        "let x = (f(1, b) + -2) * c;",
        "(f(1, b) + -2) * c",
        "f(1, b) + -2",
        "g(3)",
    ]
    assert source[slice(*product.links[0].op_span)] == "*"
    assert source[slice(*branching.branches[1].span)] == "if (y) then {m: 2} else g(3)"
    assert source[slice(*branching.span)] == "if (x) then [1] else if (y) then {m: 2} else g(3)"


def test_words_of_the_tests_are_free_as_variables_and_names() -> None:
    source = (
        "field fact.example.property @public: Int = let given = 1; let any = 2; let cases = 3; given + any + cases;"
        "example example: {} => expect(field.if, == 1); ;"
    )

    assert list_kinds(source) == []


def test_comments_are_kept_beside_the_tree() -> None:
    parsed = parse_file("-- a \r\nfield x: Int = 1; -- b")

    assert [(comment.text, comment.span) for comment in parsed.tree.comments] == [
        ("-- a", Span(0, 6)),
        ("-- b", Span(25, 29)),
    ]


def test_nothing_may_follow_a_single_expression() -> None:
    assert parse_expression(Source("x", "1 + 2"))[0] == make_chain(make_number("1"), ("+", make_number("2")))

    for source in ("1 2", "1;", "", "1 +", "field a: Int = 1;"):
        expr, diagnostics = parse_expression(Source("x", source))
        assert expr is None
        assert [one.kind for one in diagnostics] == ["unexpected-token"]

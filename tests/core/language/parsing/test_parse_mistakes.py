"""Specification of the parser: the tree a text has, and what it says about a text that has none."""

import pytest

from bpc.core.rules.parsing.parse import Parsed, parse, parse_expression
from bpc.core.rules.source import Source, Span
from bpc.core.rules.syntax import (
    Assert,
    Block,
    Branch,
    Call,
    Chain,
    Comparison,
    Day,
    DecType,
    Example,
    Expect,
    ExpectError,
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
    Link,
    ListConstant,
    ListOf,
    ListType,
    MapType,
    Name,
    Nothing,
    Number,
    OptType,
    ProductFixture,
    Property,
    QtyType,
    Quantity,
    RecordOf,
    RecordType,
    Rule,
    SimpleType,
    SomeConstant,
    Text,
    Truth,
    Unary,
    Variable,
)

AT = {"span": Span(0, 0)}
OP = {"op_span": Span(0, 0)}
a, b, c, d = (Variable(name, **AT) for name in "abcd")


def name(text: str) -> Name:
    return Name(text, **AT)


def text(value: str) -> Text:
    return Text(value, **AT)


def number(digits: str, negative: bool = False) -> Number:
    return Number(digits, negative, **AT)


def chain(first: Expr, *links: tuple[str, Expr]) -> Chain:
    return Chain(first, tuple(Link(op, operand, **OP) for op, operand in links), **AT)


def compared(left: Expr, op: str, right: Expr) -> Comparison:
    return Comparison(op, left, right, **OP, **AT)


def unary(op: str, operand: Expr) -> Unary:
    return Unary(op, operand, **OP, **AT)


def read(source: str) -> Expr:
    made, diagnostics = parse_expression(Source("x", source))
    assert diagnostics == ()
    assert made is not None
    return made


def read_file(source: str, *, tests_only: bool = False) -> Parsed:
    return parse(Source("x", source), tests_only=tests_only)


def kinds(source: str) -> list[str]:
    return [found.kind for found in read_file(source).diagnostics]


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("1.50", number("1.50")),
        ("-5", number("5", negative=True)),
        ("- 5", number("5", negative=True)),
        ("-(5)", unary("-", number("5"))),
        ("- -5", unary("-", number("5", negative=True))),
        ("!-a", unary("!", unary("-", a))),
        ("true", Truth(True, **AT)),
        ("none", Nothing(**AT)),
        ('"x"', text("x")),
        ('date("2026-01-01")', Day(text("2026-01-01"), **AT)),
        ("date", Variable("date", **AT)),
        ("qty(-1.5, kWh)", Quantity(number("1.5", negative=True), name("kWh"), **AT)),
        ('field("a.b")', FieldRef(text("a.b"), **AT)),
        ("f()", Call(name("f"), (), **AT)),
        ("f(a, b,)", Call(name("f"), (a, b), **AT)),
        ("[]", ListOf((), **AT)),
        ("[a, b,]", ListOf((a, b), **AT)),
        ("{if: a, x: b,}", RecordOf(((name("if"), a), (name("x"), b)), **AT)),
        ("f(fn(a) => b)", Call(name("f"), (Lambda((name("a"),), b, **AT),), **AT)),
        ("f(fn(a, b) => b + 1, c)", Call(name("f"), (Lambda((name("a"), name("b")), chain(b, ("+", number("1"))), **AT), c), **AT)),  # noqa: E501
        ("a + b - c", chain(a, ("+", b), ("-", c))),
        ("a + b * c", chain(a, ("+", chain(b, ("*", c))))),
        ("a * b + c", chain(chain(a, ("*", b)), ("+", c))),
        ("(a + b) + c", chain(chain(a, ("+", b)), ("+", c))),
        ("a - (b - c)", chain(a, ("-", chain(b, ("-", c))))),
        ("10 -3", chain(number("10"), ("-", number("3")))),
        ("a - -3", chain(a, ("-", number("3", negative=True)))),
        ("-a * b", chain(unary("-", a), ("*", b))),
        ("a || b && c || d", chain(a, ("||", chain(b, ("&&", c))), ("||", d))),
        ("a + b < c * d", compared(chain(a, ("+", b)), "<", chain(c, ("*", d)))),
        ("a < b == (c < d) && a", None),
        ("a == b && c != d", chain(compared(a, "==", b), ("&&", compared(c, "!=", d)))),
        ("(a < b) == c", compared(compared(a, "<", b), "==", c)),
        ("((a))", a),
        ("if (a) then b else c", If((Branch(a, b, **AT),), c, **AT)),
        ("if (a) then b else if (c) then d else a", If((Branch(a, b, **AT), Branch(c, d, **AT)), a, **AT)),
        ("if (a) then b else (if (c) then d else a)", If((Branch(a, b, **AT),), If((Branch(c, d, **AT),), a, **AT), **AT)),  # noqa: E501
        ("if (a) then if (b) then c else d else a", If((Branch(a, If((Branch(b, c, **AT),), d, **AT), **AT),), a, **AT)),  # noqa: E501
        ("if (a) then b else c + d", If((Branch(a, b, **AT),), chain(c, ("+", d)), **AT)),
        ("let x = a; b", Block((Let(name("x"), a, **AT),), b, **AT)),
        ("let x = let y = a; b; c", Block((Let(name("x"), Block((Let(name("y"), a, **AT),), b, **AT), **AT),), c, **AT)),  # noqa: E501
        ('let x = a; assert(b, "E", "m"); c', Block((Let(name("x"), a, **AT), Assert(b, text("E"), text("m"), **AT)), c, **AT)),  # noqa: E501
        ("-- c\na -- d", a),
    ],
)  # fmt: skip
def test_an_expression_has_this_tree(source: str, tree: Expr | None) -> None:
    if tree is None:
        assert [found.kind for found in parse_expression(Source("x", source))[1]] == ["chained-comparison"]
    else:
        assert read(source) == tree


def test_a_rule_has_path_audiences_type_and_body() -> None:
    parsed = read_file("field a.field @public@interest : Opt(Map(Text, Dec(2))) = none;")

    made = OptType(MapType(DecType(2, **AT), **AT), **AT)
    audiences = (name("public"), name("interest"))
    assert parsed.tree.items == (Rule((name("a"), name("field")), audiences, made, Nothing(**AT), **AT),)
    assert parsed.diagnostics == ()


def test_types_have_their_parts() -> None:
    (rule,) = read_file("field a: Record(x: List(Date), y: Qty(kg)) = a;").tree.items

    assert isinstance(rule, Rule)
    members = ((name("x"), ListType(SimpleType("Date", **AT), **AT)), (name("y"), QtyType(name("kg"), **AT)))
    assert rule.type == RecordType(members, **AT)


def test_an_example_has_fixtures_and_expectations() -> None:
    parsed = read_file(
        'example e: { product("s", "n"); issued("d"); fact f("T", "k") = {"a": -1 "b": [true null {}],}; }'
        '=> expect(a.b, == some([1, -2])); expectError("E"); ;'
    )

    payload = JsonObject(
        (
            (text("a"), JsonAtom(-1, **AT)),
            (text("b"), JsonList((JsonAtom(True, **AT), JsonAtom(None, **AT), JsonObject((), **AT)), **AT)),
        ),
        **AT,
    )
    constant = SomeConstant(ListConstant((number("1"), number("2", negative=True)), **AT), **AT)
    assert parsed.diagnostics == ()
    assert parsed.tree.items == (
        Example(
            name("e"),
            (
                ProductFixture(text("s"), text("n"), **AT),
                IssuedFixture(text("d"), **AT),
                FactFixture(name("f"), text("T"), text("k"), payload, **AT),
            ),
            (Expect((name("a"), name("b")), "==", constant, **AT), ExpectError(text("E"), **AT)),
            **AT,
        ),
    )


def test_a_property_has_cases_seed_givens_and_claims() -> None:
    parsed = read_file(
        'property p: cases(10) seed(7) given { fact f("T", "k") = any; }'
        "=> forall x: Int.implies(x > 0, let y = x; y); ;"
    )

    (made,) = parsed.tree.items
    assert parsed.diagnostics == ()
    assert isinstance(made, Property)
    assert (made.cases, made.seed) == (number("10"), number("7"))
    assert made.givens == (FactFixture(name("f"), text("T"), text("k"), None, **AT),)
    (claim,) = made.claims
    assert claim.conclusion == Block((Let(name("y"), Variable("x", **AT), **AT),), Variable("y", **AT), **AT)


def test_a_test_may_expect_nothing_as_far_as_the_grammar_goes() -> None:
    assert kinds("example e: {} => ; property p: cases(1) seed(1) => ;") == []


def test_spans_are_exact() -> None:
    source = "field a: Int = let x = (f(1, b) + -2) * c; if (x) then [1] else if (y) then {m: 2} else g(3);"
    (rule,) = read_file(source).tree.items

    assert isinstance(rule, Rule)
    assert isinstance(rule.body, Block)
    (let,) = rule.body.bindings
    assert isinstance(let, Let)
    product = let.value
    assert isinstance(product, Chain)
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


# What is wrong: the text, and for every message its kind, the text it points at and its help.
WRONG = {
    "field a: Int = 1 + if (x) then 1 else 2;": [("if-needs-parentheses", "if", "put the `if` in parentheses")],
    "field a: Int = 1 + let x = 1; x;": [("if-needs-parentheses", "let", "put the `let` in parentheses")],
    "field a: Int = if (a) && (b) then 1 else 2;": [
        ("condition-needs-parentheses", "&&", "put the whole condition in parentheses")
    ],
    "field a: Int = if a then 1 else 2;": [
        ("condition-needs-parentheses", "a", "put the whole condition in parentheses")
    ],
    "field a: Int = if (a) then 1;": [("unexpected-token", ";", "an `if` always says what holds otherwise")],
    "field a: Int = a < b < c < d;": [("chained-comparison", "<", "write `a < b && b < c`")],
    "field a: Int = (fn(x) => x);": [
        ("misplaced-lambda", "fn", "it stands there directly, without parentheses around it")
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
    "field a: Int = b); field b: Int = 1;": [("unexpected-token", ")", "this `)` closes nothing")],
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
        ("bad-escape", "\\x", "there are `\\\"`, `\\\\`, `\\/`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t` and `\\u` with four digits"),  # noqa: E501
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
    "field a: Int = qty(x, kg);": [("unexpected-token", "x", "a computed number becomes a quantity with `toQty`")],
    "field a: Int = field(x);": [("unexpected-token", "x", None)],
    "field a: Int = assert(b, c, \"m\"); 1;": [("unexpected-token", "c", None)],
    'example e: { fact f("T", "k") = {"a": [1.5, -2.5]}; } => ;': [
        ("fraction-in-json", "1.5", 'write it as text: `"1.5"`'),
        ("fraction-in-json", "-2.5", 'write it as text: `"-2.5"`'),
    ],
    'example e: { fact f("T", "k") = any; } => ;': [("unexpected-token", "any", "write the fact's JSON out")],
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


@pytest.mark.parametrize("source", WRONG, ids=str)
def test_a_mistake_is_reported_once_where_it_is(source: str) -> None:
    found = read_file(source).diagnostics

    assert [(one.kind, source[one.span.start : one.span.end], one.help) for one in found] == WRONG[source]


def test_a_missing_semicolon_is_shown_where_it_belongs() -> None:
    (found,) = read_file("field a: Int = 1 -- one\n\nfield b: Int = 2;").diagnostics

    assert (found.span, found.says) == (Span(16, 16), "a `;` is missing after the rule")


def test_an_unclosed_bracket_is_shown_with_its_beginning() -> None:
    (found,) = read_file("field a: Int = f(1;").diagnostics

    assert found.says == "expected an operator, `,` or `)`, found `;`"
    assert [(note.span, note.says) for note in found.notes] == [(Span(16, 17), "opened here")]


def test_rules_without_a_mistake_are_read_between_those_with_one() -> None:
    parsed = read_file(
        "field a: Int = 1; field b: Int = (; field c: Int = 2; field d.e Int = 3; oops; "
        "field f: Int = 1kg; field g: Int = 4; example h: { => ; field i: Int = 5;"
    )

    assert [item.dotted for item in parsed.tree.items if isinstance(item, Rule)] == ["a", "c", "g", "i"]
    assert parsed.unread == ("b", "d.e", "f")


def test_a_rule_behind_a_long_stretch_of_lost_words_is_read() -> None:
    for lost in ("x y " * 50_000, "(" * 100_000, '"a" ' * 50_000):
        parsed = read_file(f"field a: Int = 1; field b: Int = 2 {lost}\nfield c: Int = 3; -- end")

        assert [item.dotted for item in parsed.tree.items if isinstance(item, Rule)] == ["a", "c"]
        assert (len(parsed.diagnostics), parsed.unread) == (1, ("b",))


def test_all_mistakes_are_found_in_one_run() -> None:
    source = "field a: Int = 1 2;\n" * 20 + "field b: Foo = (1 2) + [3 4];\n"

    assert len(kinds(source)) == 20 + 3


def test_after_a_hundred_mistakes_reading_stops() -> None:
    found = read_file("field a: Int = 1 2;\n" * 200).diagnostics

    assert len(found) == 101
    assert found[-1].kind == "too-many-errors"
    assert found[-1].span == found[-2].span


def test_a_rule_in_a_tests_file_is_a_mistake() -> None:
    parsed = read_file("field a: Int = 1; example e: {} => ;", tests_only=True)

    assert [found.kind for found in parsed.diagnostics] == ["rule-in-tests"]
    assert [type(item) for item in parsed.tree.items] == [Example]


def test_words_of_the_tests_are_free_as_variables_and_names() -> None:
    source = (
        "field fact.example.property @public: Int = let given = 1; let any = 2; let cases = 3; given + any + cases;"
        "example example: {} => expect(field.if, == 1); ;"
    )

    assert kinds(source) == []


def test_comments_are_kept_beside_the_tree() -> None:
    parsed = read_file("-- a \r\nfield x: Int = 1; -- b")

    assert [(comment.text, comment.span) for comment in parsed.tree.comments] == [
        ("-- a", Span(0, 6)),
        ("-- b", Span(25, 29)),
    ]


def test_nothing_may_follow_a_single_expression() -> None:
    assert parse_expression(Source("x", "1 + 2"))[0] == chain(number("1"), ("+", number("2")))

    for source in ("1 2", "1;", "", "1 +", "field a: Int = 1;"):
        made, found = parse_expression(Source("x", source))
        assert made is None
        assert [one.kind for one in found] == ["unexpected-token"]

"""Specification of the formatter: the same tree, one layout, every comment."""

import random  # noqa: TID251 seeded, so that a run can be repeated
import re

import pytest
from hypothesis import HealthCheck, given, settings

from bpc.core.language import syntax
from bpc.core.language.formatting import format_tree
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source
from tests.core.language.random_programs.program import create_random_program
from tests.core.language.syntax_trees import files, level_two_files
from tests.measurements import choose_effort

FILE_SETTINGS = settings(
    max_examples=choose_effort(test=60, shown=5_000, campaign=30_000),
    suppress_health_check=list(HealthCheck),
)

PROGRAM = """
-- Head of the file

-- about a
field a.b @public : Dec(2) = -- why so
  let x = f(1, [2, 3], {m: -(4)}) ; -- x
  -- y follows
  let y = if (x > 1 && !z) then 2 else if (c) then 3 else (if (d) then 4 else 5);

  assert(y >= 0 || true, "E1", "a \\"text\\"");
  fold(xs, 0, fn(s, e) => s + e * (2 - -1)) -- end
  ; -- behind
field c : Record(a: Int, b: Opt(List(Map(Text, Qty(kg))))) = {a: 1, b: none};
example e: { fact b("Battery", "k") = {"a": 1 "b": [true, null {"c": -5}]}; product("s", "n"); } =>
  expect(a.b, == some([1, {x: date("2026-01-01")}])); expectError("E1"); ;
property p: cases(10) seed(7) given { fact b("Battery", "k") = any; issued("2026-01-01"); } =>
  forall v: Int . implies(v > 0, let w = v; w > 0); ;
-- the end
"""

TESTS_OF_LEVEL_TWO = """
language 2;
-- what most tests start from
fixture pack: { product("SKU-7", "Pack"); fact b("Battery", "k") = {"a": 1}; };
fixture other: with pack, { issued("2026-01-01"); without("Battery", "k"); };
example e: with pack, other, { fact b("Battery", "k") = {"a": 2}; } =>
  expect(a.b, == 1) because "so it is"; expectFinding("DP10", "FAIL"); expectFinding("X", "PASS", "m") because "n";
  expectFinding("X", "PASS", verdict "expired", args {"a": "1" , "b b": 2}); expectFinding("Y", "PASS", "m", args {}); ;
cases t(x, y): with pack, { product(x, "n"); fact b("Battery", x) = {"a": y, "b": [y, {"c": x}]}; } =>
  expect(a.b, >= y); expectError(x); expect(c, == [some(y), {m: x}]);
{ "one", 1; "three hundred", -300.25; "list", [1, 2]; };
property p: cases(10) seed(7) given with pack => forall v: Int . implies(v > 0, v > 0); ;
-- the end
"""


LEVEL_TWO = """
language 2; -- the level

-- about categories
enum Category = EV "ev" "a \\"b\\"" | LMT -- light
  | INDUSTRIAL | STATIONARY "so long that the members do not fit on one line of a hundred";
field a: Int = 1 + match Category(productName()) { -- the cases
  EV|LMT => let x = 1; x, -- first
  none => match LMT { EV => 1, else => if (true) then 2 else 3, },
  else => -(4) } * 2;
table limit(metal: Category, on: Date , n : Text): Record(a: Int, b: Opt(Text)) cite "Art. 8" { -- rows
  EV|LMT, from date("2031-08-18") to date("2036-08-18"), "x": {a: 1, b: none}; -- one
  INDUSTRIAL, to date("2031-08-18"), "y"|"z" : {a: -2, b: some("t")}
    cite "a citation that makes the row longer than it may be"; };
table size(n: Int): Text { from 2: "a"; }
example e: {} => expect(a, != 1); ;
-- what it is, for people
field b.c @public: Int = if (true) then 1 else 2 -- one or two
  about -- so
  DP43.2 "A label" order 3 group "Group" order 4 -- twice
  help "help" label de "Beschriftung" -- on German
  help de "Hilfe" label fr "Une étiquette" cite "Annex VI" ; -- behind
require R1 "title": true else "message" cite "Art. 8(2)" -- cited
  severity warn;
-- the end
"""


def format_rules(text: str) -> str:
    parsed = parse(Source("rules.bpc", text))
    assert parsed.diagnostics == ()
    return format_tree(parsed.tree, Source("rules.bpc", text))


def test_programs_of_level_two_read_as_the_same_tree() -> None:
    for seed in range(choose_effort(test=20, shown=1_000, campaign=10_000)):
        text = create_random_program(seed, language=2).rules
        formatted = format_rules(text)

        assert parse(Source("x", formatted)).tree == parse(Source("x", text)).tree, f"seed {seed}"
        assert format_rules(formatted) == formatted, f"seed {seed}"


def test_a_member_of_a_lookup_keeps_its_parentheses() -> None:
    rules = "language 2;\n\nfield a: Opt(Dec(6)) = (Battery for productSku()).mass_kg;\n"

    assert format_rules(rules) == rules


def format_expression(text: str) -> str:
    """An expression, formatted."""
    formatted = format_rules(f"field a: Int = {text};")
    return formatted.removeprefix("field a: Int =").removesuffix(";\n").strip()


@FILE_SETTINGS
@given(files)
def test_what_is_written_reads_as_the_same_tree_and_stays_as_it_is(tree: syntax.SyntaxTree) -> None:
    text = format_tree(tree, Source("rules.bpc", ""))

    parsed = parse(Source("rules.bpc", text))

    assert parsed.diagnostics == ()
    assert parsed.tree == tree
    assert format_tree(parsed.tree, Source("rules.bpc", text)) == text


@FILE_SETTINGS
@given(level_two_files)
def test_tests_of_level_two_read_as_the_same_tree_and_stay_as_they_are(tree: syntax.SyntaxTree) -> None:
    text = format_tree(tree, Source("rules.bpc", ""))

    parsed = parse(Source("rules.bpc", text))

    assert parsed.diagnostics == ()
    assert parsed.tree == tree
    assert format_tree(parsed.tree, Source("rules.bpc", text)) == text


@pytest.mark.parametrize("seed", range(choose_effort(test=30, shown=2_000, campaign=10_000)))
def test_comments_anywhere_stay_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    program = rng.choice([PROGRAM, LEVEL_TWO, TESTS_OF_LEVEL_TWO])
    words = re.findall(r'--[^\n]*\n|"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.]+|[=!<>]=|=>|&&|\|\||\s+|.', program)
    for number in range(rng.randint(1, 8)):
        at = rng.randrange(len(words))
        words.insert(at, rng.choice([f" -- new {number}\n", f"\n-- own {number}\n", f"\n\n  -- far {number} \n\n"]))
    text = "".join(words)

    written = format_rules(text)

    before, after = parse(Source("x", text)), parse(Source("x", written))
    assert after.tree == before.tree
    assert [comment.text for comment in after.tree.comments] == [comment.text for comment in before.tree.comments]
    assert format_rules(written) == written
    assert not re.search(r"[ \t]\n|\n\n\n", written)
    assert all(len(line) <= 100 for line in written.split("\n") if "--" not in line)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("-(-x)", "-(-x)"),
        ("- -x", "-(-x)"),
        ("- - 5", "-(-5)"),
        ("-(5)", "-(5)"),
        ("- 5", "-5"),
        ("!(-x)", "!-x"),
        ("!(!x)", "!!x"),
        ("a - -b", "a - (-b)"),
        ("a - -5 * c", "a - (-5) * c"),
        ("a + -b", "a + -b"),
        ("(a + b) + c", "(a + b) + c"),
        ("(a) + (b) + ((c))", "a + b + c"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a * b) + c", "a * b + c"),
        ("(a + b) * c", "(a + b) * c"),
        ("(a < b) == c", "(a < b) == c"),
        ("(a && b) || c", "a && b || c"),
        ("a && (b || c)", "a && (b || c)"),
        ("1 + (if (a) then b else c)", "1 + (if (a) then b else c)"),
        ("if (a) then b else (if (c) then d else e)", "if (a) then b else (if (c) then d else e)"),
        ("if (a) then (if (b) then c else d) else e", "if (a) then if (b) then c else d else e"),
        ("f((if (a) then b else c))", "f(if (a) then b else c)"),
        ("f(a,b,)", "f(a, b)"),
        ("map(xs,fn(x)=>(x))", "map(xs, fn(x) => x)"),
        ("007 + 1.50", "007 + 1.50"),
        (r'"\u0041\/\n\u000b\"\\\ud83d\ude00"', r'"A/\n\u000b\"\\😀"'),
        ("let x = 1; x", "let x = 1;\n  x"),
        ("let x = (let y = 1; y); x", "let x =\n    let y = 1;\n    y;\n  x"),
        ("let x = 1; (let y = 2; y)", "let x = 1;\n  (\n    let y = 2;\n    y\n  )"),
    ],
)
def test_an_expression_has_the_parentheses_it_needs(text: str, canonical: str) -> None:
    assert format_expression(text) == canonical


def test_long_lines_are_broken_where_there_is_a_place() -> None:
    long = "a_name_of_some_length"
    text = (
        f"field a: Record({', '.join(f'm{n}_{long}: Int' for n in range(5))}) = "
        f"let x = f({', '.join([long] * 6)}); let y = {' + '.join([long] * 7)}; let z = [{', '.join([long] * 6)}];"
        f"if ({' && '.join([long] * 6)}) then {{a: {long}, b: {long}, c: {long}, d: {long}}} else x;"
        f'example e: {{ fact b("A", "b") = {{{", ".join(f""""{long}{n}": [1, 2, 3]""" for n in range(5))}}}; }} => ;'
    )

    written = format_rules(text)

    assert max(map(len, written.split("\n"))) <= 100
    assert format_rules(written) == written


def test_the_layout_is_this() -> None:
    assert format_rules(PROGRAM) == (
        """\
-- Head of the file

-- about a
field a.b @public: Dec(2) = -- why so
  let x = f(1, [2, 3], {m: -(4)}); -- x
  -- y follows
  let y = if (x > 1 && !z) then 2 else if (c) then 3 else (if (d) then 4 else 5);

  assert(y >= 0 || true, "E1", "a \\"text\\"");
  fold(xs, 0, fn(s, e) => s + e * (2 - (-1))); -- end

-- behind
field c: Record(a: Int, b: Opt(List(Map(Text, Qty(kg))))) = {a: 1, b: none};

example e: {
  fact b("Battery", "k") = {"a": 1, "b": [true, null, {"c": -5}]};
  product("s", "n");
} =>
  expect(a.b, == some([1, {x: date("2026-01-01")}]));
  expectError("E1");
;

property p: cases(10) seed(7) given {
  fact b("Battery", "k") = any;
  issued("2026-01-01");
} =>
  forall v: Int . implies(
    v > 0,
    let w = v;
    w > 0
  );
;

-- the end
"""
    )


@pytest.mark.parametrize("text", ["", "\n\n", "  \t\r\n"])
def test_an_empty_file_stays_empty(text: str) -> None:
    assert format_rules(text) == ""


def test_a_file_of_comments_keeps_them() -> None:
    assert format_rules("\n\n  -- a \n-- b\r\n\n\n\n--c") == "-- a\n-- b\n\n--c\n"


def test_at_most_one_blank_line_is_kept_between_lets() -> None:
    assert (
        format_expression("let a = 1;\n\n\n\n let b = 2; let c = 3;\n c")
        == "let a = 1;\n\n  let b = 2;\n  let c = 3;\n  c"
    )


def test_a_comment_before_an_else_stays_before_it() -> None:
    written = format_expression("if (a) then b -- because else\n else -- or\n c")

    assert written == "if (a) then\n    b -- because else\n  else -- or\n    c"


def test_formatting_adds_no_nesting_levels() -> None:
    deep = "(" * 63 + "a - -b" + ")" * 63
    deeper = "(" * 64 + "a - -b" + ")" * 64

    assert parse(Source("x", format_rules(f"field a: Int = {deep};"))).diagnostics == ()
    assert [diagnostic.kind for diagnostic in parse(Source("x", f"field a: Int = {deeper};")).diagnostics] == [
        "too-deep"
    ]


def test_the_cells_of_a_table_stand_below_each_other() -> None:
    written = format_rules(TESTS_OF_LEVEL_TWO)

    assert (
        """\
{
  "one",           1;
  "three hundred", -300.25;
  "list",          [1, 2];
};
"""
        in written
    )

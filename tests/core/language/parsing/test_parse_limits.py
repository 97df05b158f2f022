"""Specification of the parser's limits: what is too much is refused, quickly, and nothing ever breaks it."""

import inspect
import random  # noqa: TID251 seeded, so that a run can be repeated
import time
from collections.abc import Callable

import pytest

from bpc.core.language.formatting import format_tree
from bpc.core.language.parsing.lexer import Lexer
from bpc.core.language.parsing.operands import OperandParser
from bpc.core.language.parsing.parse import parse, parse_expression
from bpc.core.language.source import Source
from bpc.core.language.syntax import Expr
from tests.core.language.syntax_trees import measure_height
from tests.core.language.test_formatting import PROGRAM
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

pytestmark = pytest.mark.repeats

MIB = 1 << 20
# Of a file that is read whole; a quarter of it shows beside other tests that the time is about linear.
LARGEST = choose_effort(test=MIB // 4, shown=MIB, campaign=MIB)


def list_kinds(text: str) -> list[str]:
    return [diagnostic.kind for diagnostic in parse(Source("x", text)).diagnostics]


def list_kinds_of_expression(text: str) -> list[str]:
    return list_kinds(f"field a: Int = {text};")


def make_nesting(opening: str, inside: str, closing: str) -> Callable[[int], str]:
    return lambda levels: opening * levels + inside + closing * levels


@pytest.mark.parametrize(
    ("levels", "most"),
    [
        (make_nesting("(", "1", ")"), 64),
        (make_nesting("f(", "1", ")"), 64),
        (make_nesting("[", "1", "]"), 64),
        (make_nesting("{a: ", "1", "}"), 64),
        (make_nesting("!(", "a", ")"), 64),
        (make_nesting("let x = ", "1", "; x"), 65),  # the value of the first `let` is no level yet
        (make_nesting("if (a) then ", "1", " else 2"), 64),
        (make_nesting("- ", "a", ""), 65),  # each minus behind a minus is one
        (make_nesting("f([", "1", "])"), 32),
        (make_nesting("f(a + ", "1", ")"), 64),
    ],
)
def test_expressions_are_nested_64_levels_deep(levels: Callable[[int], str], most: int) -> None:
    assert list_kinds_of_expression(levels(most)) == []
    assert list_kinds_of_expression(levels(most + 1)) == ["too-deep"]


def test_operators_and_lets_are_no_levels() -> None:
    assert list_kinds_of_expression("(" * 64 + "a || b && c < d + e * f" + ")" * 64) == []
    assert list_kinds_of_expression("let x = " + "(" * 64 + "1" + ")" * 64 + "; x") == []
    assert list_kinds_of_expression("if (a) then " + "(" * 64 + "1" + ")" * 64 + " else 2") == []


@pytest.mark.parametrize("operator", ["||", "&&", "+", "*"])
def test_a_chain_has_256_operators(operator: str) -> None:
    assert list_kinds_of_expression("a" + f" {operator} a" * 256) == []
    assert list_kinds_of_expression("a" + f" {operator} a" * 257) == ["chain-too-long"]


def test_a_chain_has_256_times_else_if() -> None:
    assert list_kinds_of_expression("if (a) then b else " * 257 + "c") == []
    assert list_kinds_of_expression("if (a) then b else " * 258 + "c") == ["chain-too-long"]


def test_there_may_be_any_number_of_lets_and_asserts() -> None:
    assert list_kinds_of_expression('let x = 1; assert(x, "E", "m");' * 5_000 + "1") == []


def test_functions_are_nested_8_levels_deep() -> None:
    levels = make_nesting("map(xs, fn(x) => ", "1", ")")

    assert list_kinds_of_expression(levels(8)) == []
    assert list_kinds_of_expression(levels(9)) == ["too-deep"]


def test_types_are_nested_16_levels_deep() -> None:
    types = make_nesting("List(", "Int", ")")

    assert list_kinds(f"field a: {types(15)} = 1;") == []
    assert list_kinds(f"field a: {types(16)} = 1;") == ["too-deep"]
    assert list_kinds(f"field a: {types(15).replace('Int', 'Dec(2)')} = 1;") == []
    assert list_kinds(f"field a: {types(16).replace('Int', 'Dec(2)')} = 1;") == ["too-deep"]


def test_a_path_has_16_segments() -> None:
    assert list_kinds(f"field a{'.a' * 15}: Int = 1;") == []
    assert list_kinds(f"field a{'.a' * 16}: Int = 1;") == ["path-too-long"]
    assert list_kinds(f"example e: {{}} => expect(a{'.a' * 16}, == 1); ;") == ["path-too-long"]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a": ', "}")])
def test_json_is_nested_64_levels_deep(opening: str, closing: str) -> None:
    levels = make_nesting(opening, "1", closing)

    assert list_kinds(f'example e: {{ fact f("T", "k") = {{"a": {levels(63)}}}; }} => ;') == []
    assert list_kinds(f'example e: {{ fact f("T", "k") = {{"a": {levels(64)}}}; }} => ;') == ["too-deep"]


def test_constants_are_nested_64_levels_deep() -> None:
    levels = make_nesting("[", "1", "]")

    assert list_kinds(f"example e: {{}} => expect(a, == {levels(63)}); ;") == []
    assert list_kinds(f"example e: {{}} => expect(a, == {levels(64)}); ;") == ["too-deep"]


def parse_expr(text: str) -> Expr | None:
    return parse_expression(Source("x", text))[0]


def test_a_tree_is_at_most_200_nodes_high() -> None:
    assert measure_height(parse_expr("!" * 199 + "a")) == 200
    assert parse_expr("!" * 200 + "a") is None
    # Each step adds four nodes: comparison, sum, product and sign.
    steps = make_nesting("(1 < 1 + 1 * !", "a", ")")
    assert measure_height(parse_expr(steps(49))) == 197
    assert measure_height(parse_expr("!!!" + steps(49))) == 200
    assert parse_expr("!!!!" + steps(49)) is None
    assert [diagnostic.kind for diagnostic in parse_expression(Source("x", steps(50)))[1]] == ["too-deep"]
    left = make_nesting("(", "a", " + 1 * 2 < 3 && b)")
    assert measure_height(parse_expr(left(64))) == 194


def count_frames() -> int:
    frame, count = inspect.currentframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


def test_the_parser_itself_never_recurses_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    deepest = 0
    original = OperandParser.parse_primary

    def spy_on_primary(parser: OperandParser) -> Expr:
        nonlocal deepest
        deepest = max(deepest, count_frames())
        return original(parser)

    monkeypatch.setattr(OperandParser, "parse_primary", spy_on_primary)
    before = count_frames()
    for levels in (
        make_nesting("(", "a", ")"),
        make_nesting("a || b && c < d + e * f(", "a", ")"),
        make_nesting("f(if (a) then f(", "a", ") else b)"),
        make_nesting("f(let x = if (a) then ", "1", " else 2; x)"),
        make_nesting("if (a) then let x = ", "1", "; x else 2"),
        make_nesting("map(xs, fn(x) => if (a) then -", "1", " else 2)"),
    ):
        list_kinds_of_expression(levels(64))

    assert deepest - before - 64 < 500  # the spy adds a frame to each level


PATHOLOGICAL = {
    "parentheses, nested": "field a: Int = " + "(" * 100_000 + "1" + ")" * 100_000 + ";",
    "parentheses": "(" * MIB,
    "parentheses in a rule": "field a: Int = " + "(" * MIB,
    "closing parentheses": "field a: Int = " + ")" * MIB,
    "stray words": "a;" * (MIB // 2),
    "semicolons": ";" * MIB,
    "quotes": '"' * MIB,
    "digits": "1" * MIB,
    "digits in a rule": "field a: Int = " + "1" * (MIB - 20) + ";",
    "dashes": "--" * (MIB // 2),
    "signs": "field a: Int = " + "!" * MIB,
    "stray lets": "let x = 1;" * (MIB // 10),
    "nested lets": "field a: Int = " + "let x = " * (MIB // 8),
    "audiences": "@" * MIB,
    "an unclosed text": '"' + "a" * (MIB - 1),
    "letters": "a" * MIB,
    "dollars": "$ " * (MIB // 2),
    "apostrophes": "'" * MIB,
    "wrong escapes": 'field a: Text = "' + "\\x" * (MIB // 2) + '";',
    "lone surrogates": 'field a: Text = "' + "\\ud800" * (MIB // 6) + '";',
    "a sum": "field a: Int = " + "a+" * (MIB // 2),
    "comparisons": "field a: Int = " + "a<" * (MIB // 2),
    "calls": "field a: Int = " + "f(" * (MIB // 2),
    "functions": "field a: Int = " + "f(fn(x)=>" * (MIB // 9),
    "branches": "field a: Int = " + "if (a) then b else " * (MIB // 19),
    "types": "field a: " + "Opt(" * (MIB // 4),
    "a path": "field a" + ".a" * (MIB // 2),
    "field": "field " * (MIB // 6),
    "examples": "example a:" * (MIB // 10),
    "JSON": 'example a: { fact b("a", "b") = ' + '{"a":' * (MIB // 5),
    "open rules": "field a: Int = (\n" * (MIB // 17),
}


@pytest.mark.parametrize("name", PATHOLOGICAL)
@pytest.mark.slow
def test_a_hostile_text_is_refused_quickly(name: str, record_measurement: RecordMeasurement) -> None:
    source = Source("x", PATHOLOGICAL[name])

    seconds = measure_fastest(lambda: parse(source))

    assert seconds < allow_seconds(0.25)
    assert len(parse(source).diagnostics) <= 101
    record_measurement("parse-hostile-" + name.replace(",", "").replace(" ", "-").lower(), seconds=round(seconds, 4))


@pytest.mark.parametrize(
    "text",
    [
        "field a: Int = 1;" * (LARGEST // 17),
        "field a: Int = " + "let x = 1;" * (LARGEST // 10 - 2) + "1;",
        "field a: List(Int) = [" + "1," * (LARGEST // 2 - 20) + "];",
        'field a: Text = "' + "\\n" * (LARGEST // 2 - 20) + '";',
    ],
    ids=["rules", "lets", "elements", "escapes"],
)
@pytest.mark.slow
def test_the_largest_files_are_read_in_time(text: str) -> None:
    started = time.process_time()

    parsed = parse(Source("x", text))

    assert parsed.diagnostics == ()
    assert time.process_time() - started < allow_seconds(10)


def make_realistic_rules(rules: int) -> str:
    rule = """
-- Capacity and footprint of product {n}
field battery.capacity_kwh_{n} @public: Dec(6) =
  let b = getFact("Battery","battery:SKU-{n}");
  let cap = requireSome(recordGet(requireSome(b,"E001","battery missing"),"capacity_kwh"),"E002","capacity missing");
  assert(cap > 0 && cap < 1000, "E003", "capacity out of range");
  -- what the label shows
  let shown = if (cap >= 10) then toDec(2, cap) else toDec(3, cap);
  toDec(6, cap) + fold(map(parts, fn(p) => unwrapOr(p, 0.00)), 0.00, fn(sum, part) => sum + part * 2) / shown;
"""
    return "".join(rule.replace("{n}", str(number)) for number in range(rules))


@pytest.mark.slow
def test_two_thousand_lines_are_read_at_once(record_measurement: RecordMeasurement) -> None:
    source = Source("x", make_realistic_rules(200))
    assert parse(source).diagnostics == ()

    seconds = measure_fastest(lambda: parse(source), tries=5)

    assert seconds < allow_seconds(0.3)  # a slow machine; a fast one needs a tenth
    record_measurement("parse-2000-lines", milliseconds=round(1000 * seconds, 1), lines=source.text.count("\n"))


def measure_fastest(run: Callable[[], object], tries: int = 3) -> float:
    """The processor time of the quickest of several runs, so that a busy machine does not count."""
    best = float("inf")
    for _ in range(tries):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best


def make_word_soup(rng: random.Random) -> str:
    """Words of the language in no order."""
    words = list(dict.fromkeys(list_spellings(PROGRAM)))
    return " ".join(rng.choices(words, k=rng.randint(1, 300)))


def list_spellings(text: str) -> list[str]:
    lexer = Lexer(text, lambda diagnostic: None)
    while not lexer.is_complete:
        lexer.lex_more()
    return [*lexer.texts, "\n", "--", '"', "1.5", "'", "$"]


def make_noise(rng: random.Random) -> str:
    return rng.randbytes(rng.randint(0, 400)).decode(rng.choice(["latin-1", "utf-16-le"]), "replace")


def mutate_program(rng: random.Random) -> str:
    """A valid text with a few pieces cut out, doubled or put elsewhere."""
    text = PROGRAM
    for _ in range(rng.randint(1, 5)):
        start = rng.randrange(len(text))
        piece = text[start : start + rng.choice([1, 1, 2, 5, 40])]
        match rng.randrange(3):
            case 0:
                text = text[:start] + text[start + len(piece) :]
            case 1:
                text = text[:start] + piece + text[start:]
            case _:
                at = rng.randrange(len(text))
                text = text[:at] + piece + text[at:]
    return text


@pytest.mark.parametrize(
    ("name", "make"), [("soup", make_word_soup), ("noise", make_noise), ("mutated", mutate_program)]
)
@pytest.mark.slow
def test_no_text_breaks_the_parser(
    name: str, make: Callable[[random.Random], str], record_measurement: RecordMeasurement
) -> None:
    rng = random.Random(20260101)
    slowest, runs = 0.0, choose_effort(test=900, shown=100_000, campaign=300_000) // 3
    for _ in range(runs):
        text = make(rng)
        source = Source("x", text)
        started = time.process_time()
        parsed = parse(source, tests_only=rng.random() < 0.1)
        took = time.process_time() - started
        if took > 0.1:
            took = measure_fastest(lambda source=source: parse(source))  # type: ignore[misc]
        slowest = max(slowest, took)
        assert took < allow_seconds(0.1), text
        assert all(0 <= one.span.start <= one.span.end <= len(text) for one in parsed.diagnostics)
        if not parsed.diagnostics:
            written = format_tree(parsed.tree, source)
            again = parse(Source("x", written))
            assert (again.tree, again.diagnostics) == (parsed.tree, ())
            assert format_tree(again.tree, Source("x", written)) == written
    record_measurement(f"parse-fuzz-{name}", texts=runs, slowest_milliseconds=round(1000 * slowest, 1))

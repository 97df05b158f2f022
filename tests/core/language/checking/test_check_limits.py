"""Texts of any shape are checked in time about linear in their length, and none makes the checker fail."""

import gc
import re
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.language.package import CheckedPackage, check, read_package
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source, render_diagnostic
from tests.core.language.check_helpers import FIELDS
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

pytestmark = pytest.mark.repeats

RECORD = ", ".join(f"m{n}: Int" for n in range(900))
VALUE = ", ".join(f"m{n}: 1" for n in range(900))

# Each grows with its argument in another direction.
GROWING_TEXTS: Mapping[str, Callable[[int], str]] = {
    "fields": lambda n: "".join(f"field f{i}: Int = {i};" for i in range(n)),
    "fields in a row": lambda n: (
        "".join(f'field f{i}: Int = field("f{i + 1}");' for i in range(n)) + f"field f{n}: Int = 1;"
    ),
    "fields in a circle": lambda n: "".join(f'field f{i}: Int = field("f{(i + 1) % n}");' for i in range(n)),
    "fields inside fields": lambda n: "field a: Int = 1;" + "".join(f"field a.b{i}: Int = 1;" for i in range(n)),
    "fields declared twice": lambda n: "field a: Int = 1;" * n,
    "unknown fields": lambda n: "".join(f'field f{i}: Int = field("g{i}");' for i in range(n)),
    "lets": lambda n: "field a: Int = let x0 = 1; " + "".join(f"let x{i} = x{i - 1}; " for i in range(1, n)) + "1;",
    "wrong lets": lambda n: (
        "field a: Int = let x0 = true; " + "".join(f"let x{i} = x{i - 1}; " for i in range(1, n)) + f"x{n - 1} + 1;"
    ),
    "unknown variables": lambda n: "field a: Int = " + "".join(f"let x{i} = y{i}; " for i in range(n)) + "1;",
    "numbers": lambda n: f"field a: List(Dec(3)) = [{'1.5,' * n}];",
    "undeclared numbers": lambda n: f"field a: Int = count([{'1.5,' * n}]);",
    "records": lambda n: f"field a: Int = count([{'{ a: 1, b: 2 },' * n}]);",
    "large records": lambda n: (
        f"field a: Record({RECORD}) = {{ {VALUE} }}; field b: Record({RECORD}) = {{ {VALUE} }};"
        "field c: Int = count([" + 'field("a"), field("b"),' * n + "]);"
    ),
    "members": lambda n: (
        f"field a: Record({RECORD}) = {{ {VALUE} }}; field c: Int = count(["
        + 'recordGet(field("a"), "m7"),' * n
        + "]);"
    ),
    "hidden reads": lambda n: (
        "".join(f"field f{i}: Int = 1;" for i in range(n))
        + "field g @public: Int = "
        + "".join(f'let x{i} = field("f{i}"); ' for i in range(n))
        + "1;"
    ),
    "fixtures": lambda n: (
        "example e: { "
        + "".join(f'fact b("Battery", "k{i}") = {{ "sku": "x" }}; ' for i in range(n))
        + '} => expectError("x"); ;'
    ),
    "examples": lambda n: "field a: Int = 1;" + "".join(f"example e{i}: {{}} => expect(a, == 1); ;" for i in range(n)),
}


def measure_check(text: str) -> float:
    source = Source("rules.bpc", text)
    tree = parse(source).tree
    gc.disable()  # how long a collection takes depends on everything else that is alive
    try:
        started = time.process_time()
        check(source, tree)
        return time.process_time() - started
    finally:
        gc.enable()


@pytest.mark.parametrize("shape", GROWING_TEXTS)
def test_time_is_about_linear_in_the_length(shape: str) -> None:
    size = choose_effort(test=300, shown=6000, campaign=10_000)

    small = min(measure_check(GROWING_TEXTS[shape](size)) for _ in range(3))
    large = min(measure_check(GROWING_TEXTS[shape](4 * size)) for _ in range(2))

    # Four times the text; sixteen times the time would be quadratic. Below some milliseconds nothing can be said.
    assert large < 11 * small + 0.05


def test_thousands_of_constants_are_checked_in_time_linear_in_their_number() -> None:
    def write(count: int) -> str:
        return "language 2;\n" + "".join(f"const _C{number}: Int = 1;\n" for number in range(count))

    small = min(measure_check(write(1_500)) for _ in range(3))
    large = min(measure_check(write(6_000)) for _ in range(2))

    assert large < 8 * small + 0.05


def test_two_thousand_lines_are_checked_within_half_a_second(record_measurement: RecordMeasurement) -> None:
    rules = "".join(REALISTIC.replace("batteryN", f"battery{n}") for n in range(100))

    started = time.process_time()
    source = Source("rules.bpc", rules)
    parsed = parse(source)
    parse_seconds = time.process_time() - started
    result = check(source, parsed.tree)
    seconds = time.process_time() - started

    assert result.program is not None
    record_measurement(
        "rules-check", lines=rules.count("\n"), parse_seconds=round(parse_seconds, 4), seconds=round(seconds, 4)
    )
    assert seconds < allow_seconds(0.5)  # a slow machine; the figure is in the measurements


REALISTIC = """
field batteryN.capacity_kwh @public : Dec(6) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "battery missing");
  let cap = requireSome(recordGet(b, "capacity_kwh"), "E002", "capacity missing");
  assert(cap > 0, "E003", "capacity must be positive");
  toDec(6, cap);

field batteryN.mass @public @interest : Qty(kg) =
  let parts = getFactsByPrefix("Component", concat("component:", productSku(), ":"));
  let masses = map(parts, fn(p) => toQty("g", unwrapOr(recordGet(p, "mass_g"), 0)));
  convert("g", "kg", sumQty("g", masses));

field batteryN.recycled @interest : Dec(2) =
  let parts = filter(getFactsByPrefix("Component", "component:"), fn(p) => unwrapOr(recordGet(p, "critical"), false));
  let total = fold(parts, 0.00, fn(sum, p) => sum + unwrapOr(recordGet(p, "recycled_pre_pct"), 0.00));
  if (count(parts) == 0) then 0.00
  else if (total > 100) then 100.00
  else toDec(2, total / count(parts));

field batteryN.ok @interest : Bool =
  emitCompliance("ART-8", if (field("batteryN.recycled") >= 12.5) then "PASS" else "FAIL", productName());
"""


def count_frames(frame: FrameType | None) -> int:
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def measure_frames(text: str) -> int:
    """How deep the checker's calls go."""
    source = Source("rules.bpc", text)
    tree = parse(source).tree
    deepest = 0

    def watch(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal deepest
        if event == "call":
            deepest = max(deepest, count_frames(frame))

    sys.setprofile(watch)
    try:
        check(source, tree)
    finally:
        sys.setprofile(None)
    return deepest - count_frames(sys._getframe())


@pytest.mark.parametrize(
    ("opening", "core", "closing"),
    [
        ("(true || true && !", "true", ")"),
        ("(true || 1 == 1 + 2 * -count([", "1", "]))"),
        ("[", "1", "]"),
        ("{ a: ", "1", "}"),
        ("unwrapOr(some(1 + 1 * -", "1", "), 1)"),
        ("fold([1], 0, fn(aN, xN) => ", "1", ")"),
        ("if (true) then (1 + 1 * (", "1", ")) else 2"),
        ("let xN = (", "1", "); 1"),
        ("-(-(!(", "true", ")))"),
    ],
)
def test_the_deepest_texts_leave_room_on_the_stack(opening: str, core: str, closing: str) -> None:
    deepest = 0
    for levels in range(1, 65):
        nested = core
        for level in range(levels):
            nested = opening.replace("N", str(level)) + nested + closing
        text = f"field a: Int = {nested};"
        if parse(Source("rules.bpc", text)).diagnostics:
            break
        deepest = levels
    nested = core
    for level in range(deepest):
        nested = opening.replace("N", str(level)) + nested + closing

    assert deepest >= 8
    assert measure_frames(f"field a: Int = {nested};") < 600


WORDS = sorted(
    set(re.findall(r'[A-Za-z_][A-Za-z0-9_]*|[0-9.]+|"[^"]*"|[-+*/<>=!&|]+|[^\sA-Za-z0-9_]', FIELDS + REALISTIC))
    | {
        "none",
        "[]",
        "fn(x) =>",
        "let x =",
        "x",
        "qty(1, kWh)",
        "some(",
        'getFact("Battery", "k")',
        "{ a: 1 }",
        "&&",
        "||",
    }
)
VALID_TEXTS = [
    'field a: Int = count(map(field("ints"), fn(x) => x + 1));',
    'field b: Dec(2) = if (field("yes")) then field("dec2") + 1.5 else unwrapOr(field("maybe_dec"), 0);',
    "field c: Opt(Record(a: Int, b: Opt(Text))) = some({ a: 1, b: none });",
    'field d: Qty(kWh) = convert("Wh", "kWh", field("wh")) + field("kwh") * 2 / 3;',
    'field e: Bool = emitCompliance("C", if (field("int") == 1) then "PASS" else "FAIL", field("text"));',
    'example t: { fact b("Battery", "k") = { "sku": "x" }; } => expect(int, == 1); expect(pair, == { a: 1 }); ;',
    "property p: cases(1) seed(1) => forall v: Dec(2) . implies(v > 1, fold([v], 0, fn(s, w) => s + w) > 0.5); ;",
]


@st.composite
def mutate_text(draw: st.DrawFn) -> str:
    """A right text with some words replaced, taken out or put in."""
    words = re.findall(
        r'"[^"]*"|[A-Za-z_][A-Za-z0-9_]*|[0-9.]+|==|!=|<=|>=|=>|&&|\|\||\S', draw(st.sampled_from(VALID_TEXTS))
    )
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words) - 1))
        words[at : at + draw(st.integers(0, 2))] = draw(st.lists(st.sampled_from(WORDS), max_size=2))
        words = words or [";"]
    return FIELDS + " ".join(words)


@settings(max_examples=choose_effort(test=200, shown=5_000, campaign=200_000))
@given(mutate_text())
def test_any_text_gives_a_program_or_an_error(text: str) -> None:
    package = read_package(text.encode())

    assert (package.program is None) == any(located.diagnostic.is_error for located in package.diagnostics)
    for located in package.diagnostics:
        render_diagnostic(located.source, located.diagnostic)
        for span in (located.diagnostic.span, *[note.span for note in located.diagnostic.notes]):
            assert 0 <= span.start <= span.end <= len(text)


def test_checking_twice_finds_the_same() -> None:
    source = Source("rules.bpc", FIELDS + " ".join(VALID_TEXTS) + 'field z: Int = nope + field("nope") + "a";')

    def run() -> CheckedPackage:
        return check(source, parse(source).tree)

    assert [located.diagnostic for located in run().diagnostics] == [
        located.diagnostic for located in run().diagnostics
    ]

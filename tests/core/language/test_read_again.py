"""Reading a package again after an edit gives what reading it for the first time gives."""

from collections.abc import Sequence
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest

from bpc.core.language.package import CheckedPackage, PackageReading, PackageTexts, read_again, read_package
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source, diagnostic_to_json
from tests.core.language.random_programs.program import create_random_program
from tests.measurements import RecordMeasurement, choose_effort

pytestmark = pytest.mark.repeats

GOLDEN = Path(__file__).parents[1] / "golden"
RULES = """language 2;
enum Category = EV "ev" | LMT "lmt";
table width(category: Category, on: Date): Int {
  EV, from date("2020-01-01"): 30;
  LMT, to date("2030-01-01"): 20;
}
-- what is shared
const LIMIT: Dec(6) = 2;
def sheet = Battery for productSku() else missing("there is no data sheet");
def energy = sheet.capacity_kwh else missing("DP11", "no capacity");
fn twice(x: Dec(6)): Dec(6) = x + x;
require DP11 "the capacity is above {LIMIT} kWh": energy > LIMIT else "only {energy} kWh";
field battery.energy @public: Dec(6) = twice(energy);
field battery.category @public: Opt(Category) = Category(sheet.category);
field battery.width: Opt(Int) = width(EV, issuedOn());
field battery.says: Text = "{energy} kWh, \\"quoted\\""; -- at the end
"""
TESTS = """fixture plain: { fact b("Battery", "battery:SKU-1") = { "capacity_kwh": "3", "category": "ev" }; };
example good: with plain, {} => expect(battery.energy, == 6); expectFinding("DP11", "PASS"); ;
cases sizes(energy, twice): with plain, { fact b("Battery", "battery:SKU-1") = { "capacity_kwh": energy }; } =>
  expect(battery.energy, == twice);
{
  "1", 2;
  "2.5", 5;
};
"""
PIECES = (
    *("field", "def x = 1;", "energy", "LIMIT", ";", ";", "(", ")", "{", "}", '"', "--", "\n", " ", "=", "==", "1"),
    *('require R1 "r": true;', "field new.one: Int = 1;", 'override "why" ', "language 2;", "ev", "battery.energy"),
    *("example e: {} => expect(battery.width, == none); ;", "property p: cases(3) seed(1) => ;", "2.5", "€"),
    'emitCompliance("X", ',
)


def edit(rng: Random, text: str) -> str:
    """Put something in, take something out, or both, anywhere."""
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.choice([0, 0, 0, 1, 1, 2, 5, 30, 200]))
    piece = rng.choice(PIECES) if rng.random() < 0.7 else ""
    if rng.random() < 0.1 and text:
        other = rng.randrange(len(text))
        piece = text[other : other + rng.choice([1, 10, 80])]
    return text[:start] + piece + text[end:]


def describe(package: CheckedPackage) -> object:
    diagnostics = [diagnostic_to_json(*located) for located in package.diagnostics]
    program = package.program
    if program is None:
        return diagnostics, None
    tests = [(each.name, each.fixtures, each.expectations, each.span) for each in program.examples]
    properties = [(each.name, each.claims, each.span) for each in program.properties]
    parts = (program.fields, program.facts, program.definitions, program.functions, program.tables, program.enums)
    return diagnostics, parts, tests, properties


def assert_alike(reading: PackageReading, texts: PackageTexts) -> None:
    assert describe(reading.package) == describe(read_package(texts.rules, texts.tests)), texts


@pytest.mark.slow
def test_a_thousand_edits_are_read_as_if_for_the_first_time(record_measurement: RecordMeasurement) -> None:
    rng = Random(16)
    edits = choose_effort(test=1_000, shown=10_000, campaign=100_000)
    rules, tests, reading = RULES, TESTS, read_again(PackageTexts(RULES.encode(), TESTS.encode()))
    refused = 0

    for number in range(edits):
        if rng.random() < 0.2:
            rules, tests = RULES, TESTS
        elif rng.random() < 0.25:
            tests = edit(rng, tests)
        else:
            rules = edit(rng, rules)
        texts = PackageTexts(rules.encode(), tests.encode())
        reading = read_again(texts, reading)
        assert_alike(reading, texts)
        refused += reading.package.program is None
        if number % 50 == 0:
            rules, tests = RULES, TESTS

    record_measurement("edits-read-again", edits=edits, with_mistakes=refused)
    assert 0.3 * edits < refused < 0.9 * edits


@pytest.mark.parametrize("language", [1, 2])
def test_random_programs_are_read_again_after_an_edit(language: int) -> None:
    rng = Random(language)
    for seed in range(choose_effort(test=15, shown=500, campaign=5_000)):
        rules = create_random_program(seed, language=language).rules
        reading = read_again(PackageTexts(rules.encode()))
        for _ in range(3):
            rules = edit(rng, rules)
            texts = PackageTexts(rules.encode())
            reading = read_again(texts, reading)
            assert_alike(reading, texts)


@pytest.mark.parametrize("folder", ["level-2", "reference-1"])
def test_whole_packages_are_read_again_after_an_edit(folder: str) -> None:
    rng = Random(7)
    rules, tests = ((GOLDEN / folder / name).read_text() for name in ("rules.bpc", "tests.bpc"))
    reading = read_again(PackageTexts(rules.encode(), tests.encode()))
    for _ in range(3):
        texts = PackageTexts(edit(rng, rules).encode(), tests.encode())
        assert_alike(read_again(texts, reading), texts)


def test_what_stands_before_the_edit_is_kept() -> None:
    first = read_again(PackageTexts(RULES.encode(), TESTS.encode()))
    again = read_again(PackageTexts(RULES.replace("quoted", "called").encode(), TESTS.encode()), first)

    before, after = first.rules.parsed.tree, again.rules.parsed.tree
    kept = [one is other for one, other in zip(before.items, after.items, strict=True)]
    assert kept == [True] * (len(kept) - 2) + [False] * 2
    assert before.comments == after.comments
    assert again.tests is first.tests


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x + x", "x - x"),
        ("width: Opt(Int)", "wide: Opt(Int)"),
        ("the capacity is above", "the energy is above"),
        ("field battery.says", 'require NEW_ONE "new": true; field battery.more: Int = 1; field battery.says'),
    ],
)
def test_an_example_is_kept_while_what_it_names_stays(old: str, new: str) -> None:
    assert old in RULES

    kept, again = take_examples(RULES, RULES.replace(old, new))

    assert again[0] is kept[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("battery.energy @public: Dec(6) = twice(energy)", "battery.energy @public: Dec(7) = toDec(7, twice(energy))"),
        ('def energy = sheet.capacity_kwh else missing("DP11", "no capacity")', "const energy: Dec(6) = 3"),
        ("above {LIMIT} kWh", "above {limit: LIMIT} kWh"),
    ],
)
def test_an_example_is_checked_again_when_what_it_names_changes(old: str, new: str) -> None:
    assert old in RULES

    kept, again = take_examples(RULES, RULES.replace(old, new))

    assert again[0] is not kept[0]


def take_examples(rules: str, changed: str) -> tuple[Sequence[object], Sequence[object]]:
    """The examples of a package, and of the same with other rules."""
    first = read_again(PackageTexts(rules.encode(), TESTS.encode()))
    again = read_again(PackageTexts(changed.encode(), TESTS.encode()), first)
    assert first.package.program is not None
    assert again.package.program is not None, again.package.diagnostics
    return first.package.program.examples, again.package.program.examples


def test_comments_before_the_edit_stay_in_the_tree() -> None:
    source = Source("rules.bpc", RULES)
    reading = read_again(PackageTexts(RULES.replace("LIMIT;", "1;").encode()))
    again = read_again(PackageTexts(RULES.encode()), reading)

    assert again.rules.parsed == parse(source)
    assert again.rules.parsed.tree.comments == parse(source).tree.comments

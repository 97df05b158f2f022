"""BPC-GEN-1: case i of a property is what docs/formats/generation.md says, from its seeds, its name and i alone."""

import hashlib
import json
import re
import time
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.source import Source, Span
from bpc.core.language.testing.generation import Case, CaseGenerator, build_payload
from bpc.core.language.typed import Const, FixtureFact, Fixtures, TypedClaim, TypedProperty
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Map, Opt, Qty, Record, Type
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort

PAGE = Path(__file__).parents[4] / "docs" / "formats" / "generation.md"
HERE = Span(0, 0)
ANYTHING = Const(BOOL, True, HERE)

SCALARS: list[Type] = [BOOL, INT, TEXT, DATE, Dec(0), Dec(2), Dec(18), Qty("kg")]
NESTED: Type = List(Record((("b", Opt(Map(List(List(Opt(List(INT))))))), ("a", Record((("c", DATE),))))))
TYPES: list[Type] = [*SCALARS, Opt(INT), List(TEXT), Map(Dec(2)), NESTED]


def create_property(
    *types: Type, facts: tuple[FactRecordType, ...] = (), name: str = "p", seed: int = 42
) -> TypedProperty:
    inputs = Fixtures(
        "SKU-1", "Product", "2027-02-18", tuple(FixtureFact(fact, f"key:{fact}", None, HERE) for fact in facts)
    )
    claims = tuple(TypedClaim(f"x{number}", kind, ANYTHING, ANYTHING, HERE) for number, kind in enumerate(types))
    return TypedProperty(name, 100, seed, inputs, claims, Source("rules.bpc", ""), HERE)


class SpecificationReader:
    """BPC-GEN-1 once more, slowly, written from its page."""

    def __init__(self, *seeds: int | str, thing: int) -> None:
        self.seeds = seeds
        self.next_block = thing * 2**32
        self.unread: list[int] = []

    def take_byte(self) -> int:
        if not self.unread:
            block = json.dumps([*self.seeds, self.next_block], separators=(",", ":"), ensure_ascii=False)
            self.unread = list(hashlib.sha256(block.encode()).digest())
            self.next_block += 1
        return self.unread.pop(0)

    def draw_below(self, limit: int) -> int:
        number, size = 0, 1
        while size < limit:
            number, size = number * 256 + self.take_byte(), size * 256
        return (number * 256 + self.take_byte()) % limit

    def draw_value(self, kind: Type, level: int = 0) -> Any:  # noqa: PLR0911 (one row a type)
        match kind:
            case Record(members):
                return {name: self.draw_value(item, level + 1) for name, item in members}
            case Opt() | List() | Map() if level >= 4:
                return None if isinstance(kind, Opt) else [] if isinstance(kind, List) else {}
        mark = self.take_byte()
        if kind == BOOL:
            return mark % 2 == 1
        match kind:
            case Opt(item):
                return None if mark < 64 else self.draw_value(item, level)
            case List(item):
                longest = [8, 4, 2, 1][level]
                return (
                    [] if mark < 64 else [self.draw_value(item, level + 1) for _ in range(1 + self.draw_below(longest))]
                )
            case Map(item):
                longest = [8, 4, 2, 1][level]
                pairs = [] if mark < 64 else range(1 + self.draw_below(longest))
                return {self.draw_value(TEXT): self.draw_value(item, level + 1) for _ in pairs}
            case _ if kind == TEXT:
                return ["", "\U0010ffff" * 32][mark % 2] if mark < 64 else self.draw_text()
            case _ if kind == DATE:
                edges = ["1900-01-01", "2000-02-29", "2100-12-31"]
                later = 0 if mark < 64 else self.draw_below(73_414)
                return edges[mark % 3] if mark < 64 else (date(1900, 1, 1) + timedelta(later)).isoformat()
            case _:
                return self.draw_number(kind, mark)

    def draw_number(self, kind: Type, mark: int) -> int:
        scale = 0 if kind == INT else 18 if isinstance(kind, Qty) else kind.scale if isinstance(kind, Dec) else None
        assert scale is not None
        one: int = 10**scale
        edges = [0, one, -one, *([1, -1] if scale else []), one * 10**12, -one * 10**12]
        if mark < 64:
            return edges[mark % len(edges)]
        decimals = self.draw_below(19) if isinstance(kind, Qty) else scale
        number: int = self.draw_below(10 ** (1 + self.draw_below(12 + decimals))) * 10 ** (scale - decimals)
        return -number if mark % 2 else number

    def draw_text(self) -> str:
        length = self.draw_below(self.draw_below(33) + 1)
        points = []
        for mark in [self.take_byte() for _ in range(length)]:
            if mark < 224:
                points.append(0x20 + mark % 95)
            elif mark < 240:
                points.append(1 + self.draw_below(0x7FF))
            else:
                point = 1 + self.draw_below(0x110000 - 0x800 - 1)
                points.append(point + (0x800 if point >= 0xD800 else 0))
        return "".join(map(chr, points))


def draw_case_by_specification(prop: TypedProperty, run_seed: int, number: int) -> Case:
    things = iter(range(100_000))

    def create_reader() -> SpecificationReader:
        return SpecificationReader(run_seed, prop.seed, prop.name, number, thing=next(things))

    def draw_members(fact: FactRecordType) -> dict[str, Any]:
        is_complete = create_reader().take_byte() >= 64
        members = {}
        for name in sorted(SCHEMAS[fact], key=str.encode):
            own = create_reader()
            if own.take_byte() >= 64 or is_complete:
                members[name] = own.draw_value(SCHEMAS[fact][name])
        return members

    facts = tuple(draw_members(given_fact.fact) for given_fact in prop.fixtures.facts)
    return Case(number, facts, tuple(create_reader().draw_value(claim.type) for claim in prop.claims))


@pytest.mark.parametrize(("run_seed", "seed", "name"), [(0, 0, "p"), (7, 42, "a_property"), (10**30, 10**20, "X")])
def test_the_page_alone_is_enough_to_make_the_same_cases(run_seed: int, seed: int, name: str) -> None:
    of = create_property(
        *TYPES, facts=(FactRecordType("DueDiligence", 1), FactRecordType("Battery", 1)), name=name, seed=seed
    )
    cases = CaseGenerator(of, run_seed)

    for number in (*range(choose_effort(test=20, shown=200, campaign=2000)), 10**9):
        assert cases.draw_case(number) == draw_case_by_specification(of, run_seed, number)


def test_the_examples_of_the_page_are_right() -> None:
    of = create_property(INT, TEXT)
    lines = []
    for variable, block in (("n", 0), ("t", 2**32)):
        hashed = f'[7,42,"p",0,{block}]'
        lines += [
            f"first block of {variable} in case 0: {hashed}",
            f"sha256: {hashlib.sha256(hashed.encode()).hexdigest()}",
        ]
    for number in (0, 1, 3, 5):
        n, t = CaseGenerator(of, 7).draw_case(number).variables
        lines.append(f"case {number}: n = {n}, t = {json.dumps(t)}")

    blocks = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)

    assert blocks == ["\n".join(lines) + "\n"]


def test_a_case_does_not_depend_on_the_cases_before_it() -> None:
    of = create_property(*TYPES)
    forwards, backwards = CaseGenerator(of, 1), CaseGenerator(of, 1)

    assert [forwards.draw_case(i) for i in range(30)] == [backwards.draw_case(i) for i in reversed(range(30))][::-1]


@pytest.mark.parametrize("other", [{"name": "q"}, {"seed": 43}, {}])
def test_every_seed_and_the_name_make_other_cases(other: dict[str, Any]) -> None:
    first = CaseGenerator(create_property(TEXT, INT, DATE), 0)
    second = CaseGenerator(create_property(TEXT, INT, DATE, **other), 0 if other else 1)

    assert sum(first.draw_case(i).variables == second.draw_case(i).variables for i in range(50)) < 5


def test_members_that_are_not_drawn_change_no_others() -> None:
    of = create_property(INT, facts=(FactRecordType("Battery", 1), FactRecordType("PCF", 1)))
    members_by_fact = {FactRecordType("PCF", 1): {"total_gco2e", "sku"}}
    some, every = CaseGenerator(of, 3, members_by_fact), CaseGenerator(of, 3)

    for number in range(50):
        few, all_of_them = some.draw_case(number), every.draw_case(number)
        assert few.facts[0] == {}
        assert few.facts[1] == {
            name: all_of_them.facts[1][name] for name in ("sku", "total_gco2e") if name in all_of_them.facts[1]
        }
        assert few.variables == all_of_them.variables


CASES = choose_effort(test=1500, shown=20_000, campaign=200_000)


def draw_values(kind: Type, count: int = CASES) -> list[Any]:
    cases = CaseGenerator(create_property(kind), 5)
    return [cases.draw_case(number).variables[0] for number in range(count)]


@pytest.mark.parametrize(
    ("kind", "scale"), [(INT, 0), (Dec(0), 0), (Dec(6), 6), (Dec(18), 18), (Qty("kWh"), 18)], ids=str
)
def test_numbers_stay_in_range_and_one_in_four_is_an_edge(kind: Type, scale: int) -> None:
    numbers = draw_values(kind)
    edges = {0, 10**scale, -(10**scale), 1, -1, 10 ** (12 + scale), -(10 ** (12 + scale))}
    counts = Counter(numbers)

    assert all(abs(number) <= 10 ** (12 + scale) for number in numbers)
    assert all(counts[edge] for edge in edges)
    assert 0.22 < sum(counts[edge] for edge in edges) / len(numbers) < 0.35
    # Small numbers are drawn, too, not only the enormous ones nearly all numbers are.
    assert sum(0 < abs(number) < 1000 * 10**scale for number in numbers) > len(numbers) / 6
    assert 0.35 < sum(number < 0 for number in numbers) / len(numbers) < 0.55


def test_texts_are_short_and_hold_no_character_a_fact_cannot_hold() -> None:
    texts = draw_values(TEXT)

    assert max(map(len, texts)) == 32
    assert 0.1 < texts.count("") / len(texts) < 0.35
    characters = Counter("".join(texts))
    assert "\0" not in characters
    assert not any("\ud800" <= character <= "\udfff" for character in characters)
    assert all(chr(point) in characters for point in range(0x20, 0x7F))
    assert any("\x01" <= character < "\x20" for character in characters)
    assert any(character > "\uffff" for character in characters if character != "\U0010ffff")


def test_days_lie_between_1900_and_2100() -> None:
    days = draw_values(DATE)

    assert (min(days), max(days)) == ("1900-01-01", "2100-12-31")
    assert "2000-02-29" in days
    assert len({day[:4] for day in days}) > 190


def measure_depth(value: Any) -> int:
    parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else []
    return (1 + max(map(measure_depth, parts), default=0)) if isinstance(value, list | dict) else 0


def test_lists_have_at_most_eight_items_and_four_levels() -> None:
    deep: Type = INT
    for _ in range(8):
        deep = List(deep)
    values = draw_values(deep, 500)

    assert max(map(len, values)) == 8
    assert max(map(measure_depth, values)) == 5  # four that hold something, and the empty ones in them
    assert all(len(part) <= 4 for value in values for part in value)
    assert [] in values


def test_an_option_is_none_one_time_in_four() -> None:
    assert 0.22 < draw_values(Opt(BOOL)).count(None) / CASES < 0.28


@pytest.mark.parametrize("fact", SCHEMAS, ids=str)
def test_every_fact_drawn_is_one_a_document_could_give(fact: FactRecordType) -> None:
    cases = CaseGenerator(create_property(facts=(fact,)), 0)
    complete = 0
    for number in range(100):
        members = cases.draw_case(number).facts[0]
        snapshot_fact = SnapshotFact(
            fact_type=fact.name, fact_key="k", schema_version=1, payload=build_payload(fact, members)
        )
        record = FactTable.from_facts([snapshot_fact], [fact]).get(fact, "k")
        assert record is not None
        assert record.members == {name: members.get(name) for name in SCHEMAS[fact]}
        complete += len(members) == len(SCHEMAS[fact])
    assert 60 < complete < 90


def test_drawing_what_rules_look_at_takes_microseconds(record_measurement: RecordMeasurement) -> None:
    facts = (FactRecordType("Battery", 1), FactRecordType("PCF", 1))
    cases = CaseGenerator(
        create_property(Dec(2), facts=facts), 0, {facts[0]: {"capacity_kwh"}, facts[1]: {"total_gco2e"}}
    )
    started = time.perf_counter()
    for number in range(2000):
        cases.draw_case(number)
    seconds = time.perf_counter() - started

    record_measurement("rule-test-generation", microseconds_per_case=round(seconds / 2000 * 1_000_000, 1))
    assert seconds < allow_seconds(2)

"""A document says the same in every format: JSON, CSV and XLSX of the same facts are read to the same facts."""

from datetime import date
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpc.core.documents.public.sentences import says_nothing, split_list
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.reader import DocumentFacts, read_document
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.formats.ids import find_sku_fault
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Opt, Record, Type
from tests.core.documents.render_facts import XLSX, Members, WrittenNumber, render_csv, render_json, render_xlsx
from tests.measurements import choose_effort

FACTS = {"BOM": ("Battery", "Component"), "PCF": ("PCF",), "DUE_DILIGENCE": ("DueDiligence",)}
SIGNS = st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"]) | st.sampled_from(" ;,\"\t\n'=#_x0041_")


def draw_texts(longest: int = 12) -> st.SearchStrategy[str]:
    """Texts as cells hold them: they say something, have no blanks around them, and are not a formula or its error."""
    stripped = st.text(SIGNS, min_size=1, max_size=longest).map(lambda text: text.strip(" \t\r\n\u00a0"))
    return stripped.filter(lambda text: text != "" and text[0] not in "#=" and not says_nothing(text))


def draw_names() -> st.SearchStrategy[str]:
    return draw_texts().filter(lambda text: ":" not in text and find_sku_fault(text) is None)


def draw_values(kind: Type) -> st.SearchStrategy[Any]:
    match kind:
        case Opt(item):
            return draw_values(item)
        case Dec(scale):
            return draw_numbers(scale)
        case List(item):
            items = draw_values(item)
            # A text that a cell would not hold as one item of a list, such as a dot or `a, b`, is one in JSON only.
            one_item = items.filter(lambda text: split_list(text) == [text]) if item == TEXT else items
            return st.lists(one_item, min_size=1, max_size=3)
        case Record(members):
            return st.fixed_dictionaries(
                {}, optional={name: draw_values(member_type) for name, member_type in members}
            ).filter(bool)
        case _:
            scalars: dict[object, st.SearchStrategy[Any]] = {
                BOOL: st.booleans(),
                INT: draw_numbers(0),
                DATE: st.dates(),
                TEXT: draw_texts(),
            }
            return scalars[kind]


def draw_numbers(scale: int) -> st.SearchStrategy[WrittenNumber]:
    def format_number(count: int, places: int) -> WrittenNumber:
        digits = str(abs(count)).rjust(places + 1, "0")
        sign = "-" if count < 0 else ""
        return WrittenNumber(sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits))

    return st.builds(
        format_number, st.integers(-(10**18), 10**18) | st.integers(-(10**6), 10**6), st.integers(0, scale)
    )


@st.composite
def draw_facts(draw: st.DrawFn, kind: str) -> list[tuple[str, Members]]:
    drawn = []
    for fact_type in FACTS[kind]:
        for _ in range(draw(st.integers(1, 3))):
            schema = SCHEMAS[FactRecordType(fact_type, 1)]
            chosen = draw(st.lists(st.sampled_from(sorted(schema)), max_size=5, unique=True))
            keys = {"sku": draw(draw_names()), **({"part": draw(draw_names())} if fact_type == "Component" else {})}
            others = {name: draw(draw_values(schema[name])) for name in chosen if name not in {"sku", "part"}}
            drawn.append((fact_type, {**keys, "name" if kind == "BOM" else "supplier": "x", **others}))
    return [
        (
            drawn_type,
            {name: member for name, member in members.items() if name in SCHEMAS[FactRecordType(drawn_type, 1)]},
        )
        for drawn_type, members in drawn
    ]


def read_facts(kind: str, mime_type: str, content: bytes) -> list[tuple[str, str, bytes]]:
    # Without a locale, a number such as 1.000 would be refused in CSV.
    outcome = read_document(kind, mime_type, content, ReadOptions(locale="point"))
    assert isinstance(outcome, DocumentFacts), (outcome, content)
    return [(fact.fact_type, fact.fact_key, fact.payload_canonical) for fact in outcome.facts]


def to_json_value(value: Any) -> Any:
    match value:
        case dict():
            return {name: to_json_value(member) for name, member in value.items()}
        case list():
            return [to_json_value(item) for item in value]
        case date():
            return value.isoformat()
        case _:
            return value


@settings(max_examples=choose_effort(test=60, shown=1000, campaign=10_000), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_json_csv_and_xlsx_are_read_to_the_same_facts(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(FACTS)))
    drawn_facts = data.draw(draw_facts(kind))
    separator = data.draw(st.sampled_from(",;\t"))
    end, mark = data.draw(st.sampled_from(["\n", "\r\n"])), data.draw(st.booleans())

    expected = read_facts(
        kind,
        "application/json",
        render_json(kind, [(fact_type, to_json_value(members)) for fact_type, members in drawn_facts]),
    )

    assert read_facts(kind, "text/csv", render_csv(drawn_facts, separator=separator, end=end, mark=mark)) == expected
    assert read_facts(kind, XLSX, render_xlsx(drawn_facts)) == expected
    assert len([fact for fact in expected if fact[0] != "Reading"]) == len(drawn_facts)

"""A document says the same in every format: JSON, CSV and XLSX of the same facts are read to the same facts."""

from datetime import date
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bpc.core.documents import Read, read_document
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, Fact, List, Opt, Record, Type
from bpc.core.schemas import SCHEMAS
from bpc.core.skus import fault_of
from tests.core.documents.rendered import XLSX, Members, Number, as_csv, as_json, as_xlsx
from tests.measuring import effort

FACTS = {"BOM": ("Battery", "Component"), "PCF": ("PCF",), "DUE_DILIGENCE": ("DueDiligence",)}
SIGNS = st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"]) | st.sampled_from(" ;,\"\t\n'=#_x0041_")


def texts(longest: int = 12) -> st.SearchStrategy[str]:
    """Texts as cells hold them: something, without blanks around it."""
    made = st.text(SIGNS, min_size=1, max_size=longest).map(lambda text: text.strip(" \t\r\n\u00a0"))
    return made.filter(lambda text: text != "" and text[0] != "#")


def names() -> st.SearchStrategy[str]:
    return texts().filter(lambda text: ":" not in text and fault_of(text) is None)


def values(kind: Type) -> st.SearchStrategy[Any]:
    match kind:
        case Opt(item):
            return values(item)
        case Dec(scale):
            return numbers(scale)
        case List(item):
            return st.lists(values(item), min_size=1, max_size=3)
        case Record(members):
            return st.fixed_dictionaries({}, optional={name: values(each) for name, each in members}).filter(bool)
        case _:
            scalars: dict[object, st.SearchStrategy[Any]] = {
                BOOL: st.booleans(),
                INT: numbers(0),
                DATE: st.dates(),
                TEXT: texts(),
            }
            return scalars[kind]


def numbers(scale: int) -> st.SearchStrategy[Number]:
    def written(count: int, places: int) -> Number:
        digits = str(abs(count)).rjust(places + 1, "0")
        sign = "-" if count < 0 else ""
        return Number(sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits))

    return st.builds(written, st.integers(-(10**18), 10**18) | st.integers(-(10**6), 10**6), st.integers(0, scale))


@st.composite
def facts(draw: st.DrawFn, kind: str) -> list[tuple[str, Members]]:
    made = []
    for fact_type in FACTS[kind]:
        for _ in range(draw(st.integers(1, 3))):
            schema = SCHEMAS[Fact(fact_type, 1)]
            chosen = draw(st.lists(st.sampled_from(sorted(schema)), max_size=5, unique=True))
            keys = {"sku": draw(names()), **({"part": draw(names())} if fact_type == "Component" else {})}
            others = {name: draw(values(schema[name])) for name in chosen if name not in {"sku", "part"}}
            made.append((fact_type, {**keys, "name" if kind == "BOM" else "supplier": "x", **others}))
    return [
        (each, {name: member for name, member in members.items() if name in SCHEMAS[Fact(each, 1)]})
        for each, members in made
    ]


def read(kind: str, mime_type: str, content: bytes) -> list[tuple[str, str, bytes]]:
    outcome = read_document(kind, mime_type, content)
    assert isinstance(outcome, Read), (outcome, content)
    return [(fact.fact_type, fact.fact_key, fact.payload_canonical) for fact in outcome.facts]


def plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: plain(member) for name, member in value.items()}
        case list():
            return [plain(item) for item in value]
        case date():
            return value.isoformat()
        case _:
            return value


@settings(max_examples=effort(test=60, shown=1000, campaign=10_000), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_json_csv_and_xlsx_are_read_to_the_same_facts(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(FACTS)))
    said = data.draw(facts(kind))
    separator = data.draw(st.sampled_from(",;\t"))
    end, mark = data.draw(st.sampled_from(["\n", "\r\n"])), data.draw(st.booleans())

    expected = read(kind, "application/json", as_json(kind, [(each, plain(members)) for each, members in said]))

    assert read(kind, "text/csv", as_csv(said, separator=separator, end=end, mark=mark)) == expected
    assert read(kind, XLSX, as_xlsx(said)) == expected
    assert len(expected) == len(said)

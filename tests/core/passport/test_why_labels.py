"""Fields in an explanation are called by their labels, and it says where the regulation asks for them."""

import pytest

from bpc.core.facts.fact_table import FactTable
from bpc.core.language.evaluation import World
from bpc.core.language.package import read_program
from bpc.core.language.reference.derive import explain
from bpc.core.language.typed import list_requirements
from bpc.core.passport.why import Reason, explain_field
from tests.core.passport.test_why import format_reasons, make_fact

DESCRIBED = """language 2;
def battery = Battery for productSku() else missing("no sheet");
field a.capacity: Opt(Dec(6)) = battery.capacity_kwh about DP11 "Capacity" cite "Annex VI, Part A, point 6";
field a.double @public: Opt(Dec(6)) = if some c = field("a.capacity") then some(c + c) else none
  about "Twice the capacity";
field a.bad: Dec(18) = 1 / 0 about DP12 "A quotient";
field a.worse: Bool = field("a.bad") > 1 about "A comparison";
require DP11 "large enough": battery.capacity_kwh ?? 0 > 100 else "too small" cite "Article 77(1)";
"""


def explain_described(path: str) -> Reason:
    program = read_program(DESCRIBED.encode())
    facts = [make_fact("Battery", "battery:S", capacity_kwh="75.5")]
    world = World(
        product_sku="S", product_name="P", issued_on="2027-02-18", facts=FactTable.from_facts(facts, program.facts)
    )
    requirement = next((one for one in list_requirements(program) if one.code == path), None)
    path = path if requirement is None else "requirements.met"
    field = next(field for field in program.fields if field.path == path)
    return explain_field(
        field, explain(program, world, path), program.source, facts, fields=program.fields, requirement=requirement
    )


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        (
            "a.capacity",
            [
                "Capacity (a.capacity) is 75.500000 (Opt(Dec(6)))",
                "  asked for by Annex VI, Part A, point 6 (data point 11)",
            ],
        ),
        ("a.bad", ["A quotient (a.bad) has no value: division by zero"]),
        ("a.worse", ["A comparison (a.worse) has no value because A quotient (a.bad) has none: division by zero"]),
        ("DP11", ["false, because the condition is false", "  asked for by Article 77(1)"]),
    ],
)
def test_fields_are_called_by_their_labels_and_cited(path: str, lines: list[str]) -> None:
    assert format_reasons(explain_described(path))[: len(lines)] == lines


def test_a_field_that_is_read_is_called_by_its_label() -> None:
    lines = format_reasons(explain_described("a.double"))

    assert lines[0] == "Twice the capacity (a.double) is 151.000000 (Opt(Dec(6)))"
    assert "field Capacity (a.capacity) is 75.500000" in [line.strip() for line in lines]
    assert explain_described("a.double").subject == "Twice the capacity (a.double)"

"""Values of public formats become members of facts: units, days, decimals, identifiers."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.documents import Notes
from bpc.core.documents.elements import ExactNumber, NumberText, RawValue, format_decimal, parse_exact
from bpc.core.documents.public import DocumentNode, ReadState
from bpc.core.documents.public.conversions import (
    fit_decimals,
    parse_category,
    read_bool,
    to_plain_value,
    to_share,
    to_status,
    to_unit,
    to_warranty_end,
    to_warranty_months,
)
from bpc.core.documents.public.mapping import parse_gs1_item, read_sku, shorten_identifier
from bpc.core.documents.public.units import (
    AMPERE_HOURS,
    GRAMS_CO2_PER_KWH,
    KILOGRAMS,
    KILOWATT_HOURS,
    OHMS,
    PER_CENT,
    WATTS,
    UnitTable,
    find_factor,
)
from bpc.core.language.types import DATE, INT, TEXT, Dec
from tests.measurements import choose_effort


def make_node(value: RawValue) -> DocumentNode:
    return DocumentNode(value, "$.x", ReadState(Notes()))


def list_problems(node: DocumentNode) -> list[tuple[str, str]]:
    return [(note.at, note.says) for note in node.state.notes.problems.first]


def list_warnings(node: DocumentNode) -> list[str]:
    return [note.says for note in node.state.notes.warnings.first]


def get_number_text(value: RawValue) -> str | None:
    assert value is None or isinstance(value, NumberText)
    return value.text if value else None


@pytest.mark.parametrize(
    ("measure", "value", "unit", "scale", "expected"),
    [
        (KILOGRAMS, "450", "KGM", 6, "450.000000"),
        (KILOGRAMS, "450", "unit:gram", 6, "0.450000"),
        (KILOGRAMS, "0.5", "unit:tonneMetricTon", 6, "500.000000"),
        (KILOGRAMS, "1", "unit:pound", 6, None),  # 0.45359237 kg: eight decimals, six of them and a warning
        (KILOGRAMS, "1000", "unit:pound", 6, "453.592370"),
        (KILOGRAMS, "2", "Kg", 6, "2.000000"),
        (KILOWATT_HOURS, "0.0755", "MWh", 6, "75.500000"),
        (KILOWATT_HOURS, "500", "WHR", 6, "0.500000"),
        (KILOWATT_HOURS, "500", "mWh", 6, None),
        (AMPERE_HOURS, "14000", "mAh", 6, "14.000000"),
        (WATTS, "7.2", "KWT", 3, "7200.000"),
        (OHMS, "62", "mΩ", 6, "0.062000"),
        (OHMS, "62", "MΩ", 6, None),
        (KILOGRAMS, "450", "Mg", 6, None),
        (PER_CENT, "5.3", "unit:partPerMillion", 6, "0.000530"),
        (PER_CENT, "21", "unit:partPerThousand", 4, "2.1000"),
        (GRAMS_CO2_PER_KWH, "0.13", "kgCO2-eq/kWh", 6, "130.000000"),
    ],
)
def test_a_unit_is_converted_exactly(
    measure: UnitTable, value: str, unit: str, scale: int, expected: str | None
) -> None:
    node = make_node({"value": NumberText(value), "unit": unit})

    converted = to_unit(measure, "value", "unit")(node, Dec(scale))

    if expected is not None:
        assert (get_number_text(converted), list_problems(node), list_warnings(node)) == (expected, [], [])
    else:
        assert list_problems(node) or list_warnings(node)


def test_an_unknown_unit_is_a_problem_that_names_the_known_ones() -> None:
    node = make_node({"value": NumberText("3"), "unitCode": "stone"})

    assert to_unit(KILOGRAMS)(node, Dec(6)) is None
    ((where, says),) = list_problems(node)
    assert where == "$.x.unitCode"
    assert says.startswith('is the text "stone"; the value needs a known unit, such as `mg`')
    assert "`kg`" in says


def test_every_unit_is_a_finite_decimal() -> None:
    for measure in (KILOGRAMS, KILOWATT_HOURS, AMPERE_HOURS, WATTS, OHMS, PER_CENT):
        for unit in measure:
            factor = find_factor(measure, unit)
            assert factor is not None
            assert factor.count > 0


@given(st.integers(-(10**12), 10**12), st.integers(0, 9), st.sampled_from(sorted(KILOGRAMS)))
def test_a_conversion_is_exact_or_reported(count: int, scale: int, unit: str) -> None:
    value, factor = ExactNumber(count, scale), find_factor(KILOGRAMS, unit)
    assert factor is not None
    node = make_node(None)

    converted = fit_decimals(node, ExactNumber(value.count * factor.count, value.scale + factor.scale), Dec(6))

    text = get_number_text(converted)
    if text is not None:
        scaled = int(text.replace(".", ""))
        off = abs(scaled * 10 ** (value.scale + factor.scale) - value.count * factor.count * 10**6)
        assert off * 2 <= 10 ** (value.scale + factor.scale)
        assert (off == 0) == (list_warnings(node) == [])
    else:
        assert list_problems(node)


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("56.12", Dec(2), "56.12"),
        ("56.123", Dec(2), "56.12"),
        ("56.125", Dec(2), "56.12"),
        ("56.135", Dec(2), "56.14"),
        ("-56.135", Dec(2), "-56.14"),
        ("1.110778709024233", Dec(2), "1.11"),
        ("0.2999999999999999889", Dec(2), "0.30"),
        ("-0.0700000000000000067", Dec(2), "-0.07"),
        ("123456789012345678.6", INT, "123456789012345679"),
        ("0.996", Dec(2), "1.00"),
        ("847.3", INT, "847"),
    ],
)
def test_a_number_with_too_many_decimals_is_rounded_and_reported(text: str, kind: Dec, expected: str) -> None:
    node = make_node(NumberText(text))

    assert get_number_text(to_plain_value(node, kind)) == expected
    assert bool(list_warnings(node)) == (text != expected)
    assert all(text in says and expected in says for says in list_warnings(node))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0.256", Dec(2)),
        ("0.00001", Dec(2)),
        ("2.5", INT),
        ("1e-30", Dec(6)),
        ("0.995", Dec(2)),
        ("0.2567812345678901", Dec(2)),
        ("0.00500000000000001", Dec(2)),
        ("0.0049999999999999999", Dec(2)),
    ],
)
def test_a_number_that_rounding_would_change_is_a_problem(text: str, kind: Dec) -> None:
    node = make_node(NumberText(text))

    assert to_plain_value(node, kind) is None
    assert list_problems(node)[0][1].endswith("rounding would change it too much")


@st.composite
def draw_numbers(draw: st.DrawFn) -> str:
    """A decimal of any length, or a short one with the noise of a binary fraction."""
    count = draw(st.one_of(st.integers(-(10**5), 10**5), st.integers(-(10**22), 10**22)))
    scale = draw(st.integers(0, 12))
    noise = draw(st.sampled_from([0, 1, -1, 7, -49]))
    digits = draw(st.integers(0, 8))
    return format_decimal(count * 10 ** (12 + digits) + noise, scale + 12 + digits)


@settings(max_examples=choose_effort(test=100, shown=3_000, campaign=30_000))
@given(draw_numbers(), st.integers(0, 6), st.booleans())
def test_a_number_is_exact_or_rounded_and_reported_or_refused(text: str, scale: int, is_trace: bool) -> None:
    node, value = make_node(None), parse_exact(text)
    assert value is not None

    converted = get_number_text(fit_decimals(node, value, Dec(scale) if scale else INT, is_trace=is_trace))

    if converted is None:
        assert (len(list_problems(node)), len(list_warnings(node))) == ((0, 1) if is_trace else (1, 0))
    elif Fraction(converted) == Fraction(text):
        assert (list_problems(node), list_warnings(node)) == ([], [])
    else:
        assert abs(Fraction(converted) - Fraction(text)) * 200 <= abs(Fraction(text))
        [says] = list_warnings(node)
        assert (str(value) in says, says.endswith(f"rounded to {converted}"), list_problems(node)) == (
            True,
            True,
            [],
        )


@pytest.mark.parametrize(
    ("share_of", "unit", "per_cent"),
    [
        ("5.3", "unit:partPerMillion", "0.00053"),
        ("0.0000612345678912345", "unit:percent", "0.0000612345678912345"),
    ],
)
def test_a_trace_too_small_for_the_fact_is_left_out_and_reported(share_of: str, unit: str, per_cent: str) -> None:
    node = make_node({"c": NumberText(share_of), "u": unit})

    assert to_share("c", "u")(node, Dec(4)) is None
    assert list_problems(node) == []
    assert list_warnings(node) == [f"is {per_cent} %, but the fact has only 4 decimals; it was left out, not rounded"]


def test_a_share_of_the_volume_is_left_out_and_reported() -> None:
    node = make_node({"c": NumberText("5.3"), "u": "unit:percentVolume"})

    assert to_share("c", "u")(node, Dec(4)) is None
    assert (list_problems(node), len(list_warnings(node))) == ([], 1)


@pytest.mark.parametrize(
    ("text", "expected", "is_reported"),
    [
        ("2027-02-18", "2027-02-18", False),
        ("2027-02-18T23:59:59Z", "2027-02-18", True),
        ("2024-07-01T16:10:00.000+01:00", "2024-07-01", True),
        ("2027-02", "2027-02-01", True),
    ],
)
def test_a_timestamp_is_cut_to_its_day_and_reported(text: str, expected: str, is_reported: bool) -> None:
    node = make_node(text)

    assert to_plain_value(node, DATE) == expected
    assert bool(list_warnings(node)) == is_reported


@pytest.mark.parametrize(
    "text", ["7172-75-08", "2027-02-30", "2027-02-30T00:00:00Z", "18.02.2027", "2027-13", "20270218"]
)
def test_a_day_that_does_not_exist_is_a_problem(text: str) -> None:
    node = make_node(text)

    assert to_plain_value(node, DATE) is None
    assert list_problems(node) == [
        ("$.x", f'is the text "{text}", which is not a valid date; write dates like 2027-02-18')
    ]


@pytest.mark.parametrize(
    ("warranty", "months", "until"),
    [
        ("P8Y", "96", None),
        ("P1Y6M", "18", None),
        ("24", "24", None),
        ("2032-03-15", None, "2032-03-15"),
        ("--08", None, None),
    ],
)
def test_a_warranty_is_a_number_of_months_or_ends_on_a_day(
    warranty: str, months: str | None, until: str | None
) -> None:
    node = make_node(warranty)

    assert to_warranty_end(node, DATE) == until
    assert get_number_text(to_warranty_months(node, INT)) == months
    assert bool(list_warnings(node)) == (months is until)


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("EX-75", "EX-75"),
        ("urn:mycompany.com:product-id:401765", "401765"),
        ("urn:uuid:550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000"),
        ("https://id.gs1.org/01/09521234010012/21/EV-2025-000142", "09521234010012"),
        ("https://shop.example/products/EX-75/", "EX-75"),
        ("https://shop.example/p?id=7", "id=7"),
        ("urn:epc:id:sgtin:9521234.001001.7", "09521234010012"),
        (":::", None),
    ],
)
def test_a_sku_has_no_colon(identifier: str, expected: str | None) -> None:
    node = make_node(identifier)

    assert shorten_identifier(identifier) == expected
    assert read_sku(node) == expected
    assert bool(list_warnings(node)) == (expected not in (identifier, None))
    assert bool(list_problems(node)) == (expected is None)


def test_the_first_identifier_that_is_there_decides() -> None:
    assert read_sku(make_node(None), make_node(""), make_node("B"), make_node("C")) == "B"


def test_an_item_has_a_gtin_and_a_serial_number() -> None:
    assert parse_gs1_item("https://id.example/01/9521234010019/10/L1/21/S-1?x=1") == ("09521234010019", "S-1")
    assert parse_gs1_item("urn:epc:idpat:sgtin:9521234.001001.*") == ("09521234010012", None)
    assert parse_gs1_item("https://id.example/8004/123") is None
    assert parse_gs1_item("urn:epc:id:sgtin:1.2.3") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EV", "ev"),
        ("EV battery", "ev"),
        ("electric vehicle battery", "ev"),
        ("https://ref.example/battery/ElectricVehicleBattery", "ev"),
        ("light-means-of-transport", "lmt"),
        ("LMT battery", "lmt"),
        ("industrial/non-stationary battery", "industrial"),
        ("industrial/stationary battery", "stationary"),
        ("industrial-without-bms", "industrial"),
        ("SLI", "sli"),
        ("elevator", None),
    ],
)
def test_a_category_has_many_names(text: str, expected: str | None) -> None:
    assert parse_category(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("Reused", "re-used"), ("https://x.example/Original", "original")])
def test_a_status_has_many_names(text: str, expected: str) -> None:
    assert to_status(make_node(text), TEXT) == expected


def test_a_boolean_may_be_written_as_text() -> None:
    assert [read_bool(make_node(value)) for value in (True, "false", None)] == [True, False, None]

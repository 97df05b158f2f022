"""Where values come from: what everybody may be told of it, what not, and how complete a passport is."""

import pytest

from bpc.core.exports.disclosure import disclose_opened, open_for_export
from bpc.core.exports.field_origins import FieldOrigin, trace_origins
from bpc.core.exports.field_sources import FieldSources
from bpc.core.exports.page_completeness import count_filled_points
from bpc.core.verify.canonical import OpenedBundle
from tests.core.exports.example_bundles import compile_bundle, compile_example
from tests.core.sample_passports import make_fact

RULES = """language 2;
def battery = requireSome(Battery for productSku(), "NO_BATTERY", "no battery");
field a.ruled @public: Text = productSku();
field a.stated @public: Opt(Dec(6)) = battery.mass_kg;
field a.computed @public: Opt(Dec(6)) = if some mass = battery.mass_kg then some(mass * 2) else none;
field a.hidden @public: Opt(Int) = if some cycles = battery.expected_cycles then some(cycles + 1) else none;
field a.absent @public: Opt(Text) = battery.model;
field a.secret: Opt(Int) = battery.expected_cycles;
"""


@pytest.fixture(scope="module")
def bundle() -> OpenedBundle:
    fact = make_fact("Battery", "battery:SKU-1", mass_kg="12.5", expected_cycles=3000)
    return open_for_export(compile_bundle(RULES, fact))


def test_a_value_is_stated_computed_hidden_or_ruled(bundle: OpenedBundle) -> None:
    passport = disclose_opened(bundle, "public")

    assert trace_origins(FieldSources(bundle), passport) == {
        "a.ruled": FieldOrigin("ruled"),
        "a.stated": FieldOrigin("stated"),
        "a.computed": FieldOrigin("computed", ["a.stated"]),
        "a.hidden": FieldOrigin("hidden"),  # what it is made of is shown to nobody
    }


def test_points_that_are_mandatory_for_the_category_are_counted_by_group() -> None:
    example = open_for_export(compile_example("reference-2"))
    passport = disclose_opened(example, "public")

    completeness = count_filled_points(example, passport, FieldSources(example))

    groups = completeness.groups
    assert completeness.category == "ev"
    assert sum(group.total for group in groups) == len(completeness.points)
    assert all(0 <= group.full <= group.total for group in groups)
    assert completeness.add_fields(passport).full_points >= completeness.full_points

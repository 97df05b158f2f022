"""Plausibility: the facts of one or more products in, everything about them that cannot or hardly can be true out.

Pure and total: whatever the facts are, the answer is a list of findings, and it takes time in proportion to the facts.
No clock: a date is compared with other dates of the product only. The checks are in `plausibility_table`;
docs/rules/plausibility.md lists them.

    facts ── find_implausible ──► Findings ── build_finding_facts ──► facts that are sealed with the snapshot
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bpc.core.facts.battery_checks import check_battery, check_battery_dates, check_order
from bpc.core.facts.composition_checks import check_component, check_composition
from bpc.core.facts.fact_table import FactInvalid, SnapshotFact
from bpc.core.facts.fact_view import FactView, build_finding, read_view
from bpc.core.facts.findings import Finding
from bpc.core.facts.footprint_checks import check_footprint
from bpc.core.facts.state_checks import check_readings, check_states
from bpc.core.facts.text_checks import check_texts
from bpc.core.facts.value_checks import check_far_dates, check_values
from bpc.core.language.types import FactRecordType


@dataclass(slots=True)
class ProductViews:
    """The facts of one product by type, those that documents state."""

    batteries: list[FactView] = field(default_factory=list)
    components: list[FactView] = field(default_factory=list)
    footprints: list[FactView] = field(default_factory=list)
    due_diligence: list[FactView] = field(default_factory=list)
    readings: list[FactView] = field(default_factory=list)

    def add(self, view: FactView) -> None:
        match view.kind.name:
            case "Battery":
                self.batteries.append(view)
            case "Component":
                self.components.append(view)
            case "PCF":
                self.footprints.append(view)
            case "DueDiligence":
                self.due_diligence.append(view)
            case "Reading":
                self.readings.append(view)
            case _:  # what is computed, such as findings
                pass

    def list_all(self) -> list[FactView]:
        return [*self.batteries, *self.components, *self.footprints, *self.due_diligence]


def find_implausible(facts: Sequence[SnapshotFact]) -> list[Finding]:
    """Everything that is implausible in these facts; facts of types that no schema knows are not looked at."""
    findings: list[Finding] = []
    products: dict[str, ProductViews] = {}
    for fact in facts:
        try:
            view = read_view(fact)
        except FactInvalid as misfit:
            findings.append(_report_misfit(fact, misfit))
            continue
        if view is not None:
            products.setdefault(view.sku, ProductViews()).add(view)
    for product in products.values():
        findings.extend(_check_product(product))
    return findings


def _report_misfit(fact: SnapshotFact, misfit: FactInvalid) -> Finding:
    member = str((misfit.details or {}).get("member", ""))
    members = [member.partition("[")[0].partition(".")[0]] if member else []
    kind = FactRecordType(fact.fact_type, fact.schema_version)
    return build_finding("SCHEMA_MISFIT", kind, fact.fact_key, members, {"problem": misfit.says})


def _check_product(product: ProductViews) -> Iterator[Finding]:
    for view in product.list_all():
        yield from check_values(view)
        yield from check_texts(view)
    yield from check_far_dates(product.list_all())
    # A snapshot has one Battery of a product; documents that are checked before may have more.
    battery = product.batteries[0] if product.batteries else None
    for battery_view in product.batteries:
        yield from check_battery(battery_view)
        yield from check_battery_dates(battery_view)
        yield from check_states(battery_view)
        yield from check_composition(battery_view, product.components)
    for component in product.components:
        yield from check_component(component, battery)
    for footprint in product.footprints:
        yield from check_footprint(footprint, battery)
    for audit in product.due_diligence:
        yield from check_order(audit, "audited_on", "valid_until_on")
    yield from check_readings(product.readings, battery)

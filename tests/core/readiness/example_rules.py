"""Rules and facts that tests of readiness begin with."""

from datetime import UTC, datetime
from typing import Final

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.package import read_program
from bpc.core.readiness.rule_reads import RuleReads
from bpc.core.readiness.trial import Trial, try_rules

SKU: Final = "SKU-1"
NAME: Final = "Pack"
ISSUED_AT: Final = datetime(2027, 2, 18, 9, 30, tzinfo=UTC)
BATTERY_RULES: Final = """
field general.mass @public: Qty(kg) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "B000", "no battery");
  toQty("kg", requireSome(recordGet(b, "mass_kg"), "DP10", "mass_kg is missing"));
field general.density: Dec(3) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "B000", "no battery");
  let energy = requireSome(recordGet(b, "capacity_kwh"), "E002", "no capacity");
  assert(energy > 0, "E003", "the capacity is not above 0");
  toDec(3, energy / amount(field("general.mass")));
field general.substances @public: List(Text) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "B000", "no battery");
  map(
    requireSome(recordGet(b, "hazardous_substances"), "DP13", "hazardous_substances is missing"),
    fn(s) => requireSome(recordGet(s, "name"), "H001", "a substance has no name")
  );
field general.issued_on @public: Date = issuedOn();
field parts.heaviest: Dec(6) =
  fold(
    getFactsByPrefix("Component", concat("component:", productSku(), ":")),
    0,
    fn(most, p) => if (unwrapOr(recordGet(p, "mass_g"), 0) > most) then unwrapOr(recordGet(p, "mass_g"), 0) else most
  );
field checks.mercury @public: Bool =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "B000", "no battery");
  let mercury = recordGet(b, "mercury_pct");
  emitCompliance(
    "CHK-HG",
    if (!isSome(mercury)) then "WARN" else if (unwrapOr(mercury, 0) > 0.0005) then "FAIL" else "PASS",
    "mercury is at most 0.0005 %"
  );
"""


def make_battery(**members: Json) -> SnapshotFact:
    return make_fact("Battery", f"battery:{SKU}", sku=SKU, **members)


def make_fact(fact_type: str, fact_key: str, **members: Json) -> SnapshotFact:
    return SnapshotFact(fact_type=fact_type, fact_key=fact_key, schema_version=1, payload=members)


def build_machine(rules: str = BATTERY_RULES) -> Machine:
    return Machine(read_program(rules.encode()))


def build_reads(rules: str = BATTERY_RULES) -> RuleReads:
    return RuleReads(read_program(rules.encode()))


def run_trial(*facts: SnapshotFact, rules: str = BATTERY_RULES) -> Trial:
    return try_rules(build_machine(rules), facts, sku=SKU, name=NAME, issued_at=ISSUED_AT)


GOOD_BATTERY: Final = make_battery(
    mass_kg="450.250000",
    capacity_kwh="75.500000",
    mercury_pct="0.000100",
    hazardous_substances=[{"name": "lithium hexafluorophosphate"}],
)

"""Rules for the tests: four fields, of which not everybody may see all, and tests that pass 500 cases."""

from typing import Final

RULES: Final = b"""
field battery.energy @public: Qty(kWh) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "B1", "the battery is not described");
  toQty("kWh", requireSome(recordGet(b, "capacity_kwh"), "B2", "the battery has no capacity"));

field materials.critical_mass @interest @authority: Qty(kg) =
  let parts = getFactsByPrefix("Component", concat("component:", productSku(), ":"));
  let critical = filter(parts, fn(part) => unwrapOr(recordGet(part, "critical"), false));
  let grams = map(critical, fn(part) => toQty("g", unwrapOr(recordGet(part, "mass_g"), 0)));
  convert("g", "kg", sumQty("g", grams));

field duty.needs_passport @public: Bool = issuedOn() >= date("2027-02-18");

field duty.parts_listed @public: Bool =
  let parts = getFactsByPrefix("Component", concat("component:", productSku(), ":"));
  emitCompliance("D1", if (count(parts) > 0) then "PASS" else "WARN", "the parts are listed");
"""
TESTS: Final = b"""
example it_stores_what_its_sheet_says: {
  fact b("Battery", "battery:SKU-1") = {"capacity_kwh": "75.5"};
} => expect(battery.energy, == qty(75.5, kWh));;
example no_parts: {} => expect(duty.parts_listed, == false);;
example a_part: {
  fact c("Component", "component:SKU-1:cell") = {"part": "cell"};
} => expect(duty.parts_listed, == true);;
example without_a_sheet: {} => expectError("B1");;
example without_a_capacity: { fact b("Battery", "battery:SKU-1") = {"sku": "SKU-1"}; } => expectError("B2");;
example from_the_first_day: { issued("2027-02-18"); } => expect(duty.needs_passport, == true);;
example not_before: { issued("2027-02-17"); } => expect(duty.needs_passport, == false);;
property never_negative: cases(500) seed(7) given {
  fact c("Component", "component:SKU-1:cell") = any;
} => forall x: Int . implies(
  unwrapOr(recordGet(requireSome(getFact("Component", "component:SKU-1:cell"), "T1", "-"), "mass_g"), 0) >= 0,
  field("materials.critical_mass") >= qty(0, kg)
);;
"""

"""How long evaluation takes. Figures are kept; the bounds are loose, for a slow and busy core."""

import timeit
from collections.abc import Callable

from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.evaluation import World
from tests.core.language.evaluating.evaluation import create_fact, create_machine, create_world, prove
from tests.measurements import RecordMeasurement, choose_effort

# Beside other tests, on a busy machine, everything takes longer; the figures are in the measurements.
SLACK = choose_effort(test=20, shown=1, campaign=1)
EXAMPLE = """
field battery.capacity_kwh: Dec(6) =
  let b = getFact("Battery","battery:SKU-123");
  let cap = requireSome(recordGet(requireSome(b,"E001","battery missing"),"capacity_kwh"),"E002","capacity missing");
  toDec(6, cap);

field sustainability.pcf_gco2e_per_kwh: Dec(2) =
  let p = getFact("PCF","pcf:SKU-123");
  let total = requireSome(recordGet(requireSome(p,"E010","pcf missing"),"total_gco2e"),"E011","missing total");
  let cap = field("battery.capacity_kwh");
  toDec(2, toDec(2,total) / cap);
"""
PARTS = """
field bom.critical_mass_g: Dec(6) =
  let all = getFactsByPrefix("Component", "component:");
  let critical = filter(all, fn(c) => unwrapOr(recordGet(c, "critical"), false));
  fold(critical, 0, fn(sum, c) => sum + unwrapOr(recordGet(c, "mass_g"), 0));
"""


def measure_microseconds(run: Callable[[], object], times: int) -> float:
    return round(min(timeit.repeat(run, number=times, repeat=5)) / times * 1_000_000, 1)


def measure_values_and_proof(machine: Machine, world: World, times: int) -> tuple[float, float]:
    return (
        measure_microseconds(lambda: machine.evaluate(world), times),
        measure_microseconds(lambda: prove(machine, world), times // 10),
    )


def test_the_two_rules_of_the_example(record_measurement: RecordMeasurement) -> None:
    machine = create_machine(EXAMPLE)
    world = create_world(
        machine,
        create_fact("Battery", "battery:SKU-123", capacity_kwh="75.5"),
        create_fact("PCF", "pcf:SKU-123", total_gco2e="5000000.25"),
    )

    values, proof = measure_values_and_proof(machine, world, choose_effort(test=2_000, shown=20_000, campaign=50_000))

    record_measurement("evaluate-example", values_microseconds=values, proof_microseconds=proof)
    assert machine.evaluate(world).to_json() == {
        "battery.capacity_kwh": "75.500000",
        "sustainability.pcf_gco2e_per_kwh": "66225.17",
    }
    assert values < 100 * SLACK
    assert proof < 1_000 * SLACK


def test_a_bill_of_materials_of_200_parts(record_measurement: RecordMeasurement) -> None:
    machine = create_machine(PARTS)
    parts = [
        create_fact("Component", f"component:{number:03}", mass_g=f"{number}.5", critical=number % 2 == 0)
        for number in range(200)
    ]
    world = create_world(machine, *parts)

    values, proof = measure_values_and_proof(machine, world, choose_effort(test=200, shown=2_000, campaign=10_000))

    record_measurement("evaluate-200-parts", values_microseconds=values, proof_microseconds=proof)
    assert values < 1_000 * SLACK
    assert proof < 10_000 * SLACK

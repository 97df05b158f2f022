"""The rule language against CEL (C++), zen-engine (Rust), Rego (C++) and Python written by hand.

Each peer gets the form it is fastest in: compiled once, and warm with facts already in its own shape where it allows
that. Cold, everybody reads the facts inside the measurement, and we check each member against its schema. They compute
with binary floating point and leave no proof; we compute exactly.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bench import Table, measure_medians, measure_turns
from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.evaluation import World
from bpc.core.language.package import read_package, read_program
from bpc.core.language.typed import Program

EXAMPLE = b"""
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
SUM = b"""
field materials.cobalt_g: Dec(6) =
  fold(
    filter(getFactsByPrefix("Component", "component:"), fn(c) => unwrapOr(recordGet(c, "material"), "") == "Co"),
    0.000000,
    fn(sum, c) => sum + unwrapOr(recordGet(c, "mass_g"), 0.000000)
  );
"""
PARTS = 200


def run() -> Iterable[Table]:
    yield _measure_example()
    yield from _measure_bom()
    yield _measure_parsing()


def _measure_example() -> Table:
    plain: dict[str, Any] = {
        "Battery": {"battery:SKU-123": {"capacity_kwh": 75.5}},
        "PCF": {"pcf:SKU-123": {"total_gco2e": 4500000.0}},
    }
    program = read_program(EXAMPLE)
    facts = [
        SnapshotFact(
            fact_type="Battery", fact_key="battery:SKU-123", schema_version=1, payload={"capacity_kwh": "75.5"}
        ),
        SnapshotFact(fact_type="PCF", fact_key="pcf:SKU-123", schema_version=1, payload={"total_gco2e": "4500000"}),
    ]
    own = _build_own(program, facts)
    peers = {
        "cel-expr-python": _build_cel_example(plain),
        "zen-engine": _build_zen_example(plain),
        "regopy": _build_rego(
            'pcf := data.PCF[k].total_gco2e / data.Battery[b].capacity_kwh { k := "pcf:SKU-123"; '
            'b := "battery:SKU-123" }',
            "pcf",
            plain,
            {},
        ),
        "hand-written Python": lambda: _evaluate_by_hand(plain),
    }
    return _build_table("The two rules of the language's first example, evaluated once", own, peers)


def _measure_bom() -> Iterable[Table]:
    rows = [(f"component:S:{number:03d}", "Ni" if number % 3 == 0 else "Co", number) for number in range(PARTS)]
    facts = [
        SnapshotFact(
            fact_type="Component",
            fact_key=key,
            schema_version=1,
            payload={"material": material, "mass_g": f"{mass}.000000"},
        )
        for key, material, mass in rows
    ]
    parts = [{"material": material, "mass_g": float(mass)} for _, material, mass in rows]
    own = _build_own(read_program(SUM), facts)
    peers = {
        "cel-expr-python": _build_cel_sum(parts),
        "zen-engine": _build_zen_sum(parts),
        "regopy": _build_rego(
            'total := sum([p.mass_g | p := input.parts[_]; p.material == "Co"])', "total", {}, {"parts": parts}
        ),
        "hand-written Python": lambda: sum(part["mass_g"] for part in parts if part["material"] == "Co"),  # type: ignore[misc]
    }
    yield _build_table(f"Sum over a bill of materials of {PARTS} parts, filter and fold", own, peers)
    yield _build_table(
        f"The same from facts that nobody has read yet, {PARTS} parts",
        {"bpc": _build_own_cold(read_program(SUM), facts)},
        {
            "cel-expr-python": _build_cel_sum_cold(parts),
            "zen-engine": _build_zen_sum(parts),
            "regopy": _build_rego_sum_cold(parts),
        },
    )


def _measure_parsing() -> Table:
    rule = (
        "-- what the study says of part {n}\n"
        "field part{n}.gco2e_per_kwh @public: Dec(2) =\n"
        '  let p = getFact("PCF", concat("pcf:", productSku()));\n'
        '  let total = requireSome(recordGet(requireSome(p, "E{n}", "no study"), "total_gco2e"), "F{n}", "no total");\n'
        '  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "G{n}", "no battery");\n'
        '  let cap = requireSome(recordGet(b, "capacity_kwh"), "H{n}", "no capacity");\n'
        '  assert(cap > 0, "I{n}", "the capacity is not positive");\n'
        "  if (cap > 2.0 && total > 0)\n"
        "    then toDec(2, total / cap)\n"
        "    else 0.00;\n"
    )
    source = "".join(rule.format(n=number) for number in range(200)).encode()
    lines = source.count(b"\n")
    took = measure_medians({"read": lambda: read_package(source)}, rounds=7)["read"]
    return Table(
        title=f"Parse and check {lines:,} lines of rules",
        columns=("", "ms"),
        rows=(("bpc", f"{took * 1e3:.0f}"),),
        note="goal: below 150 ms",
    )


def _build_own(program: Program, facts: list[SnapshotFact]) -> dict[str, Callable[[], object]]:
    machine = Machine(program)
    world = World(
        product_sku="SKU-123",
        product_name="Pack",
        issued_on="2027-02-18",
        facts=FactTable.from_facts(facts, program.facts),
    )
    salts = {field.path: ("0" * 32, "1" * 32) for field in program.fields}
    product = {"battery_product_id": "0a8ddcdd-1111-4111-8111-7a25cd447e35", "name": "Pack", "sku": "SKU-123"}

    def prove_fields() -> object:
        return machine.prove(world, battery_product=product, facts_hash="0" * 64, salt=salts.__getitem__)

    return {"bpc": lambda: machine.evaluate(world), "bpc, with proof": prove_fields}


def _build_own_cold(program: Program, facts: list[SnapshotFact]) -> Callable[[], object]:
    machine = Machine(program)

    def read_and_evaluate() -> object:
        table = FactTable.from_facts(facts, program.facts)
        return machine.evaluate(World(product_sku="SKU-123", product_name="Pack", issued_on="2027-02-18", facts=table))

    return read_and_evaluate


def _evaluate_by_hand(facts: Mapping[str, Any]) -> tuple[float, float]:
    battery = facts["Battery"].get("battery:SKU-123")
    if battery is None or battery["capacity_kwh"] is None:
        raise ValueError("capacity missing")
    capacity = battery["capacity_kwh"]
    study = facts["PCF"].get("pcf:SKU-123")
    if study is None or study["total_gco2e"] is None:
        raise ValueError("missing total")
    return capacity, round(study["total_gco2e"] / capacity, 2)


def _build_cel_example(facts: Mapping[str, Any]) -> Callable[[], object]:
    cel = importlib.import_module("cel_expr_python.cel")
    env = cel.NewEnv(variables={"facts": cel.Type.DYN})
    activation = env.Activation({"facts": facts})
    capacity = env.compile('facts.Battery["battery:SKU-123"].capacity_kwh')
    per_kwh = env.compile('facts.PCF["pcf:SKU-123"].total_gco2e / facts.Battery["battery:SKU-123"].capacity_kwh')
    return lambda: (capacity.eval(activation).plain_value(), per_kwh.eval(activation).plain_value())


def _build_cel_sum(parts: list[dict[str, Any]]) -> Callable[[], object]:
    """CEL has no sum of its own: it filters and picks, Python adds."""
    cel = importlib.import_module("cel_expr_python.cel")
    env = cel.NewEnv(variables={"parts": cel.Type.List(cel.Type.Map(cel.Type.STRING, cel.Type.DYN))})
    activation = env.Activation({"parts": parts})
    masses = env.compile('parts.map(p, p.material == "Co", p.mass_g)')
    return lambda: sum(masses.eval(activation).plain_value())


def _build_cel_sum_cold(parts: list[dict[str, Any]]) -> Callable[[], object]:
    cel = importlib.import_module("cel_expr_python.cel")
    env = cel.NewEnv(variables={"parts": cel.Type.List(cel.Type.Map(cel.Type.STRING, cel.Type.DYN))})
    masses = env.compile('parts.map(p, p.material == "Co", p.mass_g)')
    return lambda: sum(masses.eval(env.Activation({"parts": parts})).plain_value())


def _build_zen_example(facts: Mapping[str, Any]) -> Callable[[], object]:
    zen = importlib.import_module("zen")
    context = {"facts": facts}
    capacity = zen.compile_expression('facts.Battery["battery:SKU-123"].capacity_kwh')
    per_kwh = zen.compile_expression(
        'facts.PCF["pcf:SKU-123"].total_gco2e / facts.Battery["battery:SKU-123"].capacity_kwh'
    )
    return lambda: (capacity.evaluate(context), per_kwh.evaluate(context))


def _build_zen_sum(parts: list[dict[str, Any]]) -> Callable[[], object]:
    zen = importlib.import_module("zen")
    total = zen.compile_expression('sum(map(filter(parts, #.material == "Co"), #.mass_g))')
    context = {"parts": parts}
    return lambda: total.evaluate(context)


def _build_rego(rule: str, name: str, data: Mapping[str, Any], input_data: Mapping[str, Any]) -> Callable[[], object]:
    regopy = importlib.import_module("regopy")
    interpreter = regopy.Interpreter()
    interpreter.add_module("passport", f"package passport\n{rule}\n")
    interpreter.add_data(data)
    interpreter.set_input(input_data)
    built = interpreter.build(None, [f"passport/{name}"])
    return lambda: interpreter.query_bundle_entrypoint(built, f"passport/{name}")


def _build_rego_sum_cold(parts: list[dict[str, Any]]) -> Callable[[], object]:
    interpreter = importlib.import_module("regopy").Interpreter()
    rule = 'total := sum([p.mass_g | p := input.parts[_]; p.material == "Co"])'
    interpreter.add_module("passport", f"package passport\n{rule}\n")
    interpreter.set_input({"parts": parts})
    bundle = interpreter.build(None, ["passport/total"])

    def read_and_query() -> object:
        interpreter.set_input({"parts": parts})
        return interpreter.query_bundle_entrypoint(bundle, "passport/total")

    return read_and_query


def _build_table(
    title: str, own: Mapping[str, Callable[[], object]], peers: Mapping[str, Callable[[], object]]
) -> Table:
    times = measure_turns({**own, **peers}, rounds=40)
    bare = times["bpc"].median
    rows = tuple(
        (
            name,
            f"{took.median * 1e6:.1f}",
            f"{took.low * 1e6:.1f}–{took.high * 1e6:.1f}",
            f"{took.median / bare:.2f}",
        )
        for name, took in times.items()
    )
    return Table(
        title=title,
        columns=("", "µs", "middle half", "of bpc"),
        rows=rows,
        note="time of the processor; above 1: slower than bpc without proof",
    )

"""Rules of the shipped package beside CEL, zen-engine and Rego: those that the three can say.

On our side it is the definition of the shipped package, with all that it reads, on the sheet of a battery, each time
in a session of its own. On theirs it is the rule alone, in binary floating point, on values that are there. They have
no word for a value that nobody stated: a missing one is an error. And they leave no proof.
"""

import importlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from bench import Table, measure_medians
from bpc.cli.support.rule_files import read_package_texts
from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.facts.schemas import SCHEMA_VERSION
from bpc.core.language.evaluating.machine import CompiledExpression, Machine
from bpc.core.language.evaluation import World
from bpc.core.language.package import check_expression, read_program
from bpc.core.language.parsing.parse import parse_expression
from bpc.core.language.source import Source

ROUNDS = 30
SHEET: dict[str, Any] = {
    "category": "ev",
    "chemistry": "NMC",
    "vehicle_category": "L1e",
    "mass_kg": "24.5",
    "cadmium_pct": "0.0021",
    "lead_pct": "0.003",
    "recycled_cobalt_pct": "15.99",
    "recycled_lithium_pct": "6.5",
    "recycled_nickel_pct": "6",
    "placed_on_market_on": "2032-01-01",
}
STUDY = {
    "raw_material_gco2e_per_kwh": "40000",
    "production_gco2e_per_kwh": "20000",
    "distribution_gco2e_per_kwh": "4300",
    "end_of_life_gco2e_per_kwh": "5000",
}
MINIMUMS = [
    {"metal": metal, "from": first, "to": last, "least": least}
    for metal, first, last, least in (
        ("Co", 20310818, 20360818, 16.0),
        ("Li", 20310818, 20360818, 6.0),
        ("Ni", 20310818, 20360818, 6.0),
        ("Co", 20360818, 99991231, 26.0),
        ("Li", 20360818, 99991231, 12.0),
        ("Ni", 20360818, 99991231, 15.0),
    )
]
# What the peers are given: the same values as numbers, days too, and the table of minimums as data.
PLAIN = {
    "b": {
        **SHEET,
        **{name: float(SHEET[name]) for name in ("mass_kg", "cadmium_pct", "lead_pct")},
        "day": 20320101,
        "shares": {"Co": 15.99, "Li": 6.5, "Ni": 6.0},
    },
    "stages": [float(amount) for amount in STUDY.values()],
    "minimums": MINIMUMS,
}


class ComparedRule(NamedTuple):
    """A rule in our language, by its definition, and in those of the others; `holds` is true of our value."""

    title: str
    own: str
    holds: str
    cel: str
    zen: str
    rego: str
    value: Any


RULES = (
    ComparedRule(
        "Classification by vehicle and mass, Article 3(1)",
        "category_by_use",
        "category_by_use == some(LMT)",
        "b.vehicle_category.startsWith('L') ? (b.mass_kg > 25.0 ? 'EV' : 'LMT') : b.category",
        "startsWith(b.vehicle_category, 'L') ? (b.mass_kg > 25 ? 'EV' : 'LMT') : b.category",
        'out := "LMT" { startswith(input.b.vehicle_category, "L"); input.b.mass_kg <= 25 } '
        'else := "EV" { startswith(input.b.vehicle_category, "L") } else := input.b.category { true }',
        "LMT",
    ),
    ComparedRule(
        "Thresholds of cadmium and lead for the symbols, Article 13(5)",
        "symbols",
        'symbols == ["Cd"]',
        "(b.cadmium_pct > 0.002 ? ['Cd'] : []) + (b.lead_pct > 0.004 ? ['Pb'] : [])",
        "filter([b.cadmium_pct > 0.002 ? 'Cd' : '', b.lead_pct > 0.004 ? 'Pb' : ''], # != '')",
        'out := array.concat([s | s := "Cd"; input.b.cadmium_pct > 0.002], [s | s := "Pb"; input.b.lead_pct > 0.004])',
        ["Cd"],
    ),
    ComparedRule(
        "Sum of the four stages of the carbon footprint, Article 7(1)(e)",
        "sum(stages_per_kwh_kg)",
        "sum(stages_per_kwh_kg) == 69.3",
        "(stages[0] + stages[1] + stages[2] + stages[3]) / 1000.0",
        "sum(stages) / 1000",
        "out := sum(input.stages) / 1000",
        69.3,
    ),
    ComparedRule(
        "Recycled shares below the minimum of their day, Article 8(2) and (3)",
        "short_shares",
        'short_shares == ["Co 15.99 < 16"]',
        "minimums.filter(m, b.day >= m.from && b.day < m.to && b.shares[m.metal] < m.least).map(m, m.metal)",
        "map(filter(minimums, b.day >= #.from and b.day < #.to and b.shares[#.metal] < #.least), #.metal)",
        "out := [m.metal | m := input.minimums[_]; input.b.day >= m.from; "
        "input.b.day < m.to; input.b.shares[m.metal] < m.least]",
        ["Co"],
    ),
)


def run() -> Iterable[Table]:
    machine = Machine(read_program(read_package_texts("shipped:eu-battery").rules))
    yield from (_measure_rule(machine, rule) for rule in RULES)


def _measure_rule(machine: Machine, rule: ComparedRule) -> Table:
    world = _build_world(machine)
    if not machine.open_session(world).run(_compile(machine, rule.holds), {}):
        raise ValueError(f"`{rule.own}` has another value")
    expression = _compile(machine, rule.own)
    candidates = {
        "bpc": lambda: machine.open_session(world).run(expression, {}),
        "cel-expr-python": _build_cel(rule),
        "zen-engine": _build_zen(rule),
        "regopy": _build_rego(rule),
    }
    times = measure_medians(candidates, rounds=ROUNDS)
    rows = tuple((name, f"{took * 1e6:.1f}", f"{took / times['bpc']:.2f}") for name, took in times.items())
    return Table(title=rule.title, columns=("", "µs", "of bpc"), rows=rows, note="above 1: slower than bpc")


def _compile(machine: Machine, text: str) -> CompiledExpression:
    source = Source("expression", text)
    tree, _ = parse_expression(source, language=2)
    if tree is None:
        raise ValueError(f"`{text}` does not parse")
    expression, _ = check_expression(machine.program, source, tree)
    if expression is None:
        raise ValueError(f"`{text}` does not check")
    return machine.compile_expression(expression, ())


def _build_world(machine: Machine) -> World:
    payloads = {"Battery": ("battery:SKU-1", SHEET), "PCF": ("pcf:SKU-1", STUDY)}
    facts = [
        SnapshotFact(fact_type=name, fact_key=key, schema_version=SCHEMA_VERSION, payload=payload)
        for name, (key, payload) in payloads.items()
    ]
    table = FactTable.from_facts(facts, machine.program.facts)
    return World(product_sku="SKU-1", product_name="Pack", issued_on="2032-01-01", facts=table)


def _require_value(rule: ComparedRule, value: Any) -> None:
    near = isinstance(value, float | int) and abs(value - rule.value) < 1e-9
    if not near and value != rule.value:
        raise ValueError(f"{rule.title}: {value!r} instead of {rule.value!r}")


def _build_cel(rule: ComparedRule) -> Callable[[], object]:
    cel = importlib.import_module("cel_expr_python.cel")
    env = cel.NewEnv(variables=dict.fromkeys(PLAIN, cel.Type.DYN))
    activation, expression = env.Activation(PLAIN), env.compile(rule.cel)
    _require_value(rule, expression.eval(activation).plain_value())
    return lambda: expression.eval(activation).plain_value()


def _build_zen(rule: ComparedRule) -> Callable[[], object]:
    expression = importlib.import_module("zen").compile_expression(rule.zen)
    _require_value(rule, expression.evaluate(PLAIN))
    return lambda: expression.evaluate(PLAIN)


def _build_rego(rule: ComparedRule) -> Callable[[], object]:
    interpreter = importlib.import_module("regopy").Interpreter()
    interpreter.add_module("package", f"package eu\n{rule.rego}\n")
    interpreter.set_input(PLAIN)
    bundle = interpreter.build(None, ["eu/out"])
    _require_value(rule, interpreter.query_bundle_entrypoint(bundle, "eu/out")[0].expressions[0])
    return lambda: interpreter.query_bundle_entrypoint(bundle, "eu/out")

"""Generated code: the same for the same rules, free of the rules' text, and within every Python's limits."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bpc.core.facts import FactTable
from bpc.core.rules.evaluating import calls as generate_calls
from bpc.core.rules.evaluating import listing
from bpc.core.rules.evaluating.emitting import Mode
from bpc.core.rules.evaluating.evaluate import Machine
from bpc.core.rules.evaluating.generate import generate
from bpc.core.rules.evaluating.listing import MAX_DEPTH, MAX_LINES
from bpc.core.rules.failure import RuleFailure
from bpc.core.rules.package import checked_program
from bpc.core.rules.typed import Program
from bpc.core.rules.world import World
from tests.core.rules.evaluating import evaluated, machine_of, proven, world_of
from tests.core.rules.programs import program
from tests.measuring import effort

MODES: list[Mode] = ["values", "cover", "proof"]

MARKED = """
field marked_path.deep @public: Record(marked_member: Opt(Text)) =
  let marked_let = getFact("Battery", "marked key\\"\\n");
  let other_marked = if (isSome(marked_let)) then concat("marked text", productSku()) else "__import__('os')";
  assert(true, "MARKED_CODE", "marked message");
  let list = map(["marked element"], fn(marked_parameter) => concat(marked_parameter, other_marked));
  let e = emitCompliance("MARKED_EMIT", "PASS", "marked emit");
  { marked_member: some(fold(list, "", fn(marked_sum, marked_x) => marked_x)) };
field second.marked: Int = count([field("marked_path.deep")]);
"""


def generated(program: Program, mode: Mode) -> tuple[str, dict[str, object]]:
    """The source of all functions, and the names they may use."""
    functions: list[str] = []
    made = generate(program, mode, lambda function, _: functions.append(function))
    return "".join(functions), made.names


def sources(program: Program) -> list[str]:
    return [generated(program, mode)[0] for mode in MODES]


def test_no_text_of_the_rules_becomes_code() -> None:
    for source in sources(checked_program(MARKED.encode())):
        assert "arked" not in source.lower()
        assert "__import__" not in source
        for node in ast.walk(ast.parse(source)):
            assert not (isinstance(node, ast.Constant) and isinstance(node.value, str))
            if isinstance(node, ast.Name | ast.arg):
                name = node.id if isinstance(node, ast.Name) else node.arg
                assert re.fullmatch("[a-zA-Z_]+|[tmnzfhFK][0-9]+", name)


def test_generated_code_reaches_nothing_but_its_table() -> None:
    for mode in MODES:
        source, names = generated(checked_program(MARKED.encode()), mode)
        assert names["__builtins__"] == {}
        tree = ast.parse(source)
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom | ast.Global)]
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert attributes <= {"append", "get", "members"}


def test_the_same_rules_give_the_same_source_whatever_python_hashes_texts_to() -> None:
    script = (
        "import sys\n"
        "from bpc.core.rules.evaluating.generate import generate\n"
        "from bpc.core.rules.package import checked_program\n"
        "program = checked_program(sys.stdin.buffer.read())\n"
        "for mode in ('values', 'cover', 'proof'):\n"
        "    generate(program, mode, lambda function, _: sys.stdout.write(function))\n"
    )
    rules = (MARKED + deep_rules()).encode()

    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            input=rules,
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
        ).stdout
        for seed in ("0", "1", "2")
    }

    assert len(outputs) == 1
    assert next(iter(outputs)).decode() == "".join(sources(checked_program(rules)))


def deep_rules() -> str:
    """A field with everything nested, so that much of it becomes functions of their own."""
    expression = "seen"
    for number in range(7):
        expression = (
            f"if (false) then 1 else if (seen > 0 && (false || (fold([1, 2], 0, fn(a{number}, x{number}) => "
            f"a{number} + x{number} * ({expression})) > 0))) then seen + {number} else 7"
        )
    return f"field deep.one: Int = let seen = count([1]); {expression};"


def test_what_is_nested_deeply_becomes_functions_of_its_own() -> None:
    for source in sources(checked_program(deep_rules().encode())):
        assert "def h0(s, t" in source
        indents = [len(line) - len(line.lstrip()) for line in source.split("\n")]
        assert max(indents) <= MAX_DEPTH + 3
    assert evaluated(deep_rules()).fields == {"deep.one": 7}


BIG = {
    "256 else-ifs": (
        "Int",
        "".join(f'if (productSku() == "{number}") then {number} else ' for number in range(255)) + "-1",
        -1,
    ),
    "256 ands": ("Bool", " && ".join(['productSku() == "S-1"'] * 256), True),
    "256 ors": ("Bool", " || ".join(['productSku() == "S-2"'] * 256), False),
    "256 sums": ("Int", " + ".join(["1"] * 256), 256),
    "64 nested ifs": ("Int", 'if (productSku() == "S-1") then ' * 60 + "1" + " else 2" * 60, 1),
    "conditions in conditions": (
        "Bool",
        "if (false) then false else if (" * 60 + "true" + ") then true else false" * 60,
        True,
    ),
    "nested logic": ("Bool", "true && (false || (" * 30 + "true" + "))" * 30, True),
    "64 parentheses": ("Int", "(1 + " * 60 + "1" + ")" * 60, 61),
    "64 calls": ("Int", "unwrapOr(some(" * 30 + "1" + "), 0)" * 30, 1),
    "5,000 elements": ("Int", f"count([{', '.join(['1'] * 5000)}])", 5000),
    "1,000 texts": ("Int", f"count([concat({', '.join(['productSku()'] * 1000)})])", 1),
    "1,000 lets": ("Int", "".join(f"let x{number} = {number}; " for number in range(1000)) + "x999", 999),
    "1,000 asserts": ("Int", 'assert(true, "E", "m"); ' * 1000 + "1", 1),
}


@pytest.mark.parametrize("name", BIG)
def test_big_rules_compile_and_run(name: str) -> None:
    kind, expression, result = BIG[name]

    assert evaluated(f"field x: {kind} = {expression};").fields == {"x": result}


@pytest.mark.repeats
def test_a_long_rule_becomes_many_functions() -> None:
    """Python takes some 7 kB for each line of a function while it compiles it."""
    lets = "".join(f"let y{number} = x + y{number - 1} * x; " for number in range(1, 3000))
    rules = f"field a: Int = let x = count([1]); let y0 = x; {lets} y1 + y2999;"
    wide = f"field b: Int = let x = 1; count([{', '.join(['x + x < x'] * 3000)}]);"

    for source in sources(checked_program((rules + wide).encode())):
        functions = source.split("def ")
        assert max(function.count("\n") for function in functions) < 2 * MAX_LINES
    assert evaluated(rules).fields == {"a": 2 + 3000}


@pytest.mark.repeats
def test_how_code_is_divided_into_functions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(effort(test=60, shown=2_000, campaign=20_000)):
        made = program(seed)
        checked = checked_program(made.rules.encode())
        world = World(
            product_sku=made.product_sku,
            product_name=made.product_name,
            issued_on=made.issued_on,
            facts=FactTable.of(made.facts, checked.facts),
        )

        plain = outcome(Machine(checked), world)
        with monkeypatch.context() as divided:
            divided.setattr(listing, "MAX_DEPTH", 2)
            divided.setattr(listing, "MAX_LINES", 8)
            divided.setattr(generate_calls, "_WIDE", 1)
            assert outcome(Machine(checked), world) == plain, f"seed {seed}"


def outcome(machine: Machine, world: World) -> object:
    """The proof's bytes, or the failure; both say all there is to say. Long runs are cut short."""
    try:
        found = proven(machine, world, 20_000)
        values = machine.values(world, max_steps=20_000)
    except RuleFailure as failure:
        return type(failure), failure.says, failure.field, failure.span
    assert (values.fields, values.steps) == (found.values.fields, found.values.steps)
    return found.proof, found.values.steps, found.values.compliance


def test_generated_code_never_warns() -> None:
    """Python warns of `5 is None` while it compiles; the tests make warnings errors."""
    rules = """
    field a: Bool = isSome(some(5));
    field b: Int = unwrapOr(some(5), 6);
    field c: Int = requireSome(some(5), "E", "m");
    field d: Bool = 5 == 5 && true;
    field e: Dec(18) = 1 / 2;
    """

    assert evaluated(rules).written() == {"a": True, "b": 5, "c": 5, "d": True, "e": "0.500000000000000000"}


def test_a_machine_serves_many_worlds() -> None:
    machine = machine_of('field a: Bool = emitCompliance("C", "PASS", productSku());')

    first, second = machine.values(world_of(machine)), machine.values(world_of(machine))

    assert first.compliance == second.compliance
    assert first.compliance is not second.compliance
    assert first.steps == second.steps

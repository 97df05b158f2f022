"""Generated code: the same for the same rules, free of the rules' text, and within every Python's limits."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bpc.core.facts.fact_table import FactTable
from bpc.core.language.evaluating import code_writer
from bpc.core.language.evaluating import operations as generate_calls
from bpc.core.language.evaluating.code_writer import MAX_DEPTH, MAX_LINES
from bpc.core.language.evaluating.emitter import Mode
from bpc.core.language.evaluating.generator import generate
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.evaluation import RuleFailure, World
from bpc.core.language.package import read_program
from bpc.core.language.typed import Program
from tests.core.language.evaluating.evaluation import create_machine, create_world, evaluate, prove
from tests.core.language.random_programs.program import create_random_program
from tests.measurements import choose_effort

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


def generate_source(program: Program, mode: Mode) -> tuple[str, dict[str, object]]:
    """The source of all functions, and the names they may use."""
    functions: list[str] = []
    code = generate(program, mode, lambda function, _: functions.append(function))
    return "".join(functions), code.names


def generate_sources(program: Program) -> list[str]:
    return [generate_source(program, mode)[0] for mode in MODES]


def test_no_text_of_the_rules_becomes_code() -> None:
    for source in generate_sources(read_program(MARKED.encode())):
        assert "arked" not in source.lower()
        assert "__import__" not in source
        for node in ast.walk(ast.parse(source)):
            assert not (isinstance(node, ast.Constant) and isinstance(node.value, str))
            if isinstance(node, ast.Name | ast.arg):
                name = node.id if isinstance(node, ast.Name) else node.arg
                assert re.fullmatch("[a-zA-Z_]+|[tmnzfhFK][0-9]+", name)


def test_generated_code_reaches_nothing_but_its_table() -> None:
    for mode in MODES:
        source, names = generate_source(read_program(MARKED.encode()), mode)
        assert names["__builtins__"] == {}
        tree = ast.parse(source)
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom | ast.Global)]
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert attributes <= {"append", "get", "members"}


@pytest.mark.slow
def test_the_same_rules_give_the_same_source_whatever_python_hashes_texts_to() -> None:
    script = (
        "import sys\n"
        "from bpc.core.language.evaluating.generator import generate\n"
        "from bpc.core.language.package import read_program\n"
        "program = read_program(sys.stdin.buffer.read())\n"
        "for mode in ('values', 'cover', 'proof'):\n"
        "    generate(program, mode, lambda function, _: sys.stdout.write(function))\n"
    )
    rules = (MARKED + create_deep_rules()).encode()

    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            input=rules,
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[4],
        ).stdout
        for seed in ("0", "1", "2")
    }

    assert len(outputs) == 1
    assert next(iter(outputs)).decode() == "".join(generate_sources(read_program(rules)))


def create_deep_rules() -> str:
    """A field with everything nested, so that much of it becomes functions of their own."""
    expression = "seen"
    for number in range(7):
        expression = (
            f"if (false) then 1 else if (seen > 0 && (false || (fold([1, 2], 0, fn(a{number}, x{number}) => "
            f"a{number} + x{number} * ({expression})) > 0))) then seen + {number} else 7"
        )
    return f"field deep.one: Int = let seen = count([1]); {expression};"


def test_what_is_nested_deeply_becomes_functions_of_its_own() -> None:
    for source in generate_sources(read_program(create_deep_rules().encode())):
        assert "def h0(s, t" in source
        indents = [len(line) - len(line.lstrip()) for line in source.split("\n")]
        assert max(indents) <= MAX_DEPTH + 3
    assert evaluate(create_deep_rules()).fields == {"deep.one": 7}


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

    assert evaluate(f"field x: {kind} = {expression};").fields == {"x": result}


@pytest.mark.repeats
def test_a_long_rule_becomes_many_functions() -> None:
    """Python takes some 7 kB for each line of a function while it compiles it."""
    lets = "".join(f"let y{number} = x + y{number - 1} * x; " for number in range(1, 3000))
    rules = f"field a: Int = let x = count([1]); let y0 = x; {lets} y1 + y2999;"
    wide = f"field b: Int = let x = 1; count([{', '.join(['x + x < x'] * 3000)}]);"

    for source in generate_sources(read_program((rules + wide).encode())):
        functions = source.split("def ")
        assert max(function.count("\n") for function in functions) < 2 * MAX_LINES
    assert evaluate(rules).fields == {"a": 2 + 3000}


@pytest.mark.repeats
def test_how_code_is_divided_into_functions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(choose_effort(test=25, shown=2_000, campaign=20_000)):
        random_program = create_random_program(seed)
        program_tree = read_program(random_program.rules.encode())
        world = World(
            product_sku=random_program.product_sku,
            product_name=random_program.product_name,
            issued_on=random_program.issued_on,
            facts=FactTable.from_facts(random_program.facts, program_tree.facts),
        )

        plain = describe_outcome(Machine(program_tree), world)
        with monkeypatch.context() as divided:
            divided.setattr(code_writer, "MAX_DEPTH", 2)
            divided.setattr(code_writer, "MAX_LINES", 8)
            divided.setattr(generate_calls, "_WIDE", 1)
            assert describe_outcome(Machine(program_tree), world) == plain, f"seed {seed}"


def describe_outcome(machine: Machine, world: World) -> object:
    """The proof's bytes, or the failure; both say all there is to say. Long runs are cut short."""
    try:
        proof_result = prove(machine, world, 20_000)
        values = machine.evaluate(world, max_steps=20_000)
    except RuleFailure as failure:
        return type(failure), failure.says, failure.field, failure.span
    assert (values.fields, values.steps) == (proof_result.values.fields, proof_result.values.steps)
    return proof_result.proof, proof_result.values.steps, proof_result.values.compliance


def test_generated_code_never_warns() -> None:
    """Python warns of `5 is None` while it compiles; the tests make warnings errors."""
    rules = """
    field a: Bool = isSome(some(5));
    field b: Int = unwrapOr(some(5), 6);
    field c: Int = requireSome(some(5), "E", "m");
    field d: Bool = 5 == 5 && true;
    field e: Dec(18) = 1 / 2;
    """

    assert evaluate(rules).to_json() == {"a": True, "b": 5, "c": 5, "d": True, "e": "0.500000000000000000"}


def test_one_machine_evaluates_many_worlds() -> None:
    machine = create_machine('field a: Bool = emitCompliance("C", "PASS", productSku());')

    first, second = machine.evaluate(create_world(machine)), machine.evaluate(create_world(machine))

    assert first.compliance == second.compliance
    assert first.compliance is not second.compliance
    assert first.steps == second.steps

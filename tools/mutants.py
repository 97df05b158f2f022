"""Mutation testing: change one thing in a module, and see whether a test notices.

    python -m tools.mutants [--only NAME] [--sample N] [--jobs N] [--quick] [--list]

Each mutant is one small change of the syntax tree (a comparison turned round, a `raise` left out, a number one larger).
It runs in a forked child in which the module is loaded from the changed tree, against the tests that are there for that
module. Survivors are printed with their place. Texts and annotations are left alone: they change no decision.
docs/measurements/mutants.md says what was found, and why each survivor survives.
"""

import argparse
import ast
import copy
import importlib
import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from tools.mutant_targets import FOREIGN, TARGETS, Target

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 120
# Without the fixtures that need a database, and with assertions as they are: a failure only has to be one.
OPTIONS = ("-x", "-q", "--noconftest", "--assert=plain", "-p", "tests.measurements", "-p", "no:cacheprovider")
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    module: str
    function: str
    line: int
    what: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{_find_path(self.module).relative_to(ROOT)}:{self.line} ({self.function}): {self.what}"


# Making them


def generate_mutants(module: str) -> Iterator[Mutant]:
    """Every mutant of a module, function by function."""
    tree = ast.parse(_find_path(module).read_bytes())
    skipped = {id(part) for part in _iterate_non_code(tree)}
    inside = _map_functions(tree)
    for place, original in enumerate(ast.walk(tree)):
        if id(original) in skipped:
            continue
        for variant in range(_count_variants(original)):
            changed = copy.deepcopy(tree)
            node = next(node for number, node in enumerate(ast.walk(changed)) if number == place)
            before = _shorten_source(node)
            says = _apply_change(node, variant)
            function = inside.get(id(original), "module")
            line = getattr(original, "lineno", 0)
            yield Mutant(module, function, line, f"`{before}`: {says}", ast.fix_missing_locations(changed))


def _map_functions(tree: ast.Module) -> dict[int, str]:
    """Of each node the innermost function around it."""
    functions: dict[int, str] = {}
    for node in ast.walk(tree):  # outer functions come before inner ones
        if isinstance(node, ast.FunctionDef):
            functions.update((id(part), node.name) for part in ast.walk(node))
    return functions


def _iterate_non_code(tree: ast.Module) -> Iterator[ast.AST]:
    """Annotations and imports: what no run depends on."""
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation):
                yield from ast.walk(annotation)
            case ast.FunctionDef(returns=returns, args=arguments):
                for part in [returns, *(argument.annotation for argument in _list_arguments(arguments))]:
                    if part is not None:
                        yield from ast.walk(part)
            case ast.Call(func=ast.Name(id="dataclass")):
                yield from ast.walk(node)
            case ast.Import() | ast.ImportFrom():
                yield from ast.walk(node)
            case _:
                pass


def _list_arguments(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _count_variants(node: ast.AST) -> int:  # noqa: PLR0911 (one kind of node a case)
    """How many ways there are to change `node`."""
    match node:
        case ast.Compare(ops=ops):
            return len(ops)
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            return int(type(op) in OPERATORS)
        case ast.BoolOp(values=values):
            return 1 + len(values)
        case ast.UnaryOp(op=ast.Not()) | ast.Constant(value=int()):
            return 1
        case ast.IfExp(test=test) | ast.While(test=test):
            return 1 - _count_inner_negations(test)
        case ast.If(body=body, test=test):
            return 1 - _count_inner_negations(test) + len(_find_effects(body))
        case ast.FunctionDef(body=body) | ast.For(body=body) | ast.With(body=body) | ast.ExceptHandler(body=body):
            return len(_find_effects(body))
        case ast.Return(value=value):
            return int(value is not None and not isinstance(value, ast.Constant))
        case _:
            return 0


def _count_inner_negations(test: ast.expr) -> int:
    """1 where a change inside `test` is its negation already, so that no mutant is counted twice."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return 1
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn() | ast.Is() | ast.IsNot()]):
            return 1
        case _:
            return 0


def _apply_change(node: ast.AST, variant: int) -> str:  # noqa: PLR0911 (one kind of node a case)
    """Change `node` in place; what was done, in words."""
    match node:
        case ast.Compare(ops=ops):
            old = type(ops[variant])
            ops[variant] = COMPARISONS[old]()
            return f"{old.__name__} -> {type(ops[variant]).__name__}"
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            node.op = OPERATORS[type(op)]()
            return f"{type(op).__name__} -> {type(node.op).__name__}"
        case ast.BoolOp(op=op, values=values):
            if variant == 0:
                node.op = ast.Or() if isinstance(op, ast.And) else ast.And()
                return "and <-> or"
            del values[variant - 1]
            return f"condition {variant} left out"
        case ast.UnaryOp(operand=operand):
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), operand)
            return "not left out"
        case ast.If(test=test, body=body) if variant >= 1 - _count_inner_negations(test):
            return _drop(body, variant - 1 + _count_inner_negations(test))
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
            return "condition negated"
        case ast.Constant(value=bool(value)):
            node.value = not value
            return f"{not value}"
        case ast.Constant(value=int(value)):
            node.value = value + 1
            return f"{value + 1}"
        case ast.FunctionDef(body=body) | ast.For(body=body) | ast.With(body=body) | ast.ExceptHandler(body=body):
            return _drop(body, variant)
        case ast.Return():
            node.value = ast.Constant(None)
            return "returns None"
        case _:
            raise AssertionError(node)


def _find_effects(body: list[ast.stmt]) -> list[int]:
    """Where the statements are that only have an effect."""
    return [
        number
        for number, statement in enumerate(body)
        if isinstance(statement, ast.Raise | ast.AugAssign | ast.Continue | ast.Break)
        or (isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant))
    ]


def _drop(body: list[ast.stmt], at: int) -> str:
    place = _find_effects(body)[at]
    dropped, body[place] = body[place], ast.Pass()
    return f"`{_shorten_source(dropped)}` left out"


def _shorten_source(node: ast.AST) -> str:
    first = ast.unparse(node).strip().split("\n")[0]
    return first if len(first) <= 70 else f"{first[:69]}…"


# Running them


class MutantLoader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a changed tree."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.mutant.module else None

    def exec_module(self, module: ModuleType) -> None:
        file = str(_find_path(self.mutant.module))
        module.__file__ = file
        exec(compile(self.mutant.tree, file, "exec"), module.__dict__)


def run_mutants(
    mutants: Sequence[Mutant | None], target: Target, jobs: int, *, quick: bool = False
) -> Iterator[tuple[Mutant | None, bool]]:
    """Each as it ends, and whether it survives; None stands for the modules as they are. A hang is noticed."""
    waiting = list(reversed(mutants))
    running: dict[int, tuple[Mutant | None, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            running[_fork_child(mutant, target, quick=quick)] = mutant, time.monotonic() + TIMEOUT
        for child, (mutant, deadline) in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del running[child]
                yield mutant, os.waitstatus_to_exitcode(status) == 0
            elif time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.01)


def _fork_child(mutant: Mutant | None, target: Target, *, quick: bool) -> int:
    child = os.fork()
    if child == 0:
        _run_in_child(mutant, target, quick=quick)
    return child


def _run_in_child(mutant: Mutant | None, target: Target, *, quick: bool) -> None:
    os.setpgid(0, 0)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    os.environ["BPC_EFFORT"] = "test"
    if mutant is not None:
        sys.meta_path.insert(0, MutantLoader(mutant))
    import hypothesis  # noqa: PLC0415 (loaded long before; here, so that `--help` needs none)
    import pytest  # noqa: PLC0415

    # A failing example is enough; nobody reads the smallest.
    hypothesis.settings.register_profile("mutants", phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate))
    hypothesis.settings.load_profile("mutants")
    code = 1
    try:
        code = int(pytest.main([*OPTIONS, *target.tests, *(f"--deselect={test}" for test in target.slow)]))
        if code == 0 and target.slow and not quick:
            code = int(pytest.main([*OPTIONS, *target.slow]))
    finally:
        os._exit(code)


def _find_path(module: str) -> Path:
    return ROOT / "src" / Path(*module.split(".")).with_suffix(".py")


def _list_modules(name: str) -> list[str]:
    folder = _find_path(name).with_suffix("")
    return [f"{name}.{file.stem}" for file in sorted(folder.glob("[a-z]*.py"))] if folder.is_dir() else [name]


def _load_target(target: Target) -> None:
    for name in (*FOREIGN, *target.loaded):
        importlib.import_module(name)
    early = [module for module in _list_modules(target.modules) if module in sys.modules]
    if early:
        raise SystemExit(f"{', '.join(early)} would be loaded unchanged; see Target.loaded")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", choices=sorted(TARGETS))
    options.add_argument("--sample", type=int, default=0, help="number of mutants per target, evenly spread")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--quick", action="store_true", help="without the slow tests, so with more survivors")
    options.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    arguments = options.parse_args()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    missed = False
    for name, target in TARGETS.items():
        if arguments.only not in {None, name}:
            continue
        all_mutants = [mutant for module in _list_modules(target.modules) for mutant in generate_mutants(module)]
        if arguments.sample and len(all_mutants) > arguments.sample:
            all_mutants = [all_mutants[at * len(all_mutants) // arguments.sample] for at in range(arguments.sample)]
        if arguments.list:
            print(*all_mutants, sep="\n")
            continue
        missed = _report(name, all_mutants, arguments.jobs, quick=arguments.quick) or missed
    return int(missed)


def _report(name: str, mutants: Sequence[Mutant], jobs: int, *, quick: bool) -> bool:
    """Run them and print what survives; whether more than a tenth does."""
    target = TARGETS[name]
    _load_target(target)
    if not all(passes for _, passes in run_mutants([None], target, 1, quick=quick)):
        raise SystemExit(f"{name}: the tests fail without any change")
    alive = 0
    for finished, (mutant, survives) in enumerate(run_mutants(mutants, target, jobs, quick=quick), 1):
        if survives:
            alive += 1
            print(f"  {mutant}", flush=True)
        if finished % 10 == 0:
            print(f"{name}: {finished} of {len(mutants)}", end="\r", file=sys.stderr, flush=True)
    killed = len(mutants) - alive
    print(f"{name}: {killed} of {len(mutants)} killed ({100 * killed / max(1, len(mutants)):.1f} %)", flush=True)
    return killed < 0.9 * len(mutants)


if __name__ == "__main__":
    sys.exit(main())

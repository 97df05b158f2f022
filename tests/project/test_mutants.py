"""The targets of tools/mutants.py name modules and tests that exist, or mutants would survive for want of a test."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.mutant_targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted({name for target in TARGETS.values() for name in (target.modules, *target.loaded)})
TESTS = sorted(
    {name.removeprefix("--deselect=") for target in TARGETS.values() for name in (*target.tests, *target.slow)}
)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_that_is_listed_for_mutants_exists(module: str) -> None:
    assert find_spec(module) is not None


@pytest.mark.parametrize("test", TESTS)
def test_a_test_that_is_listed_for_mutants_exists(test: str) -> None:
    path, _, name = test.partition("::")

    functions = {
        node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
    }
    assert not name or name in functions

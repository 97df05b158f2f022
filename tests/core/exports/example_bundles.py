"""Bundles that tests of exports begin with: the two examples, and passports of any rules and facts."""

from functools import cache
from typing import Any

from bpc.core.audit.signing import Signer
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.passport.bundle import Bundle, read_bundle
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.compile_input import read_input
from tests.core.sample_passports import BLINDING_FACT, make_bundle, make_compile_input
from tools import golden

CASES = [name for name, folder in golden.list_cases().items() if (folder / "input.json").exists()]


@cache
def compile_example(name: str) -> Bundle:
    """The bundle of a golden case: `example-first`, `reference-2`, `every-type`, …"""
    folder = golden.list_cases()[name]
    source, rules, tests = ((folder / file).read_bytes() for file in golden.INPUTS)
    compile_input = read_input(source, rules=rules, tests=tests)
    return issue_passport(compile_input, compile_passport(compile_input), Signer(golden.SEED))


def compile_bundle(rules: str, *facts: SnapshotFact, **changes: Any) -> Bundle:
    """A passport of these rules and facts."""
    return read_bundle(make_bundle(make_compile_input(rules.encode(), [*facts, BLINDING_FACT], **changes)))

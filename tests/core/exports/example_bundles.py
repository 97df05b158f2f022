"""Bundles that tests of exports begin with: the two examples, and passports of any rules and facts."""

from functools import cache
from typing import Any

from bpc.core.bundle import Bundle, read_bundle
from bpc.core.compile import compile_passport
from bpc.core.compile_input import read_input
from bpc.core.facts import SnapshotFact
from bpc.core.issue import issue
from bpc.core.signing import Signer
from tests.core.passports import SECRET, bundled, compile_input
from tools import golden

CASES = [name for name, folder in golden.cases().items() if (folder / "input.json").exists()]


@cache
def example(name: str) -> Bundle:
    """The bundle of a golden case: `example-first`, `example-reference`, `every-type`, …"""
    folder = golden.cases()[name]
    source, rules, tests = ((folder / file).read_bytes() for file in golden.INPUTS)
    given = read_input(source, rules=rules, tests=tests)
    return issue(given, compile_passport(given), Signer(golden.SEED)).bundle


def passport(rules: str, *facts: SnapshotFact, **changes: Any) -> Bundle:
    """A passport of these rules and facts."""
    return read_bundle(bundled(compile_input(rules.encode(), [*facts, SECRET], **changes)))

"""Rules that were read before: each text is read once."""

import pytest

from bpc.core.language.evaluating.ready_machines import load_machine
from bpc.core.language.package import RulesRefused
from bpc.core.language.ready_rules import load_program

RULES = b"field a: Int = 1;\n"


def test_a_machine_runs_the_program_that_others_verify_with() -> None:
    assert load_machine(RULES).program is load_program(RULES)


def test_refused_rules_are_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(RulesRefused):
            load_program(b"field a: Int = ;\n")

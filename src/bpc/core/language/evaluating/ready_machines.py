"""Machines that were made before: a process keeps those of the last few rules. Pure."""

from functools import lru_cache

from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.ready_rules import MAX_KEPT_RULES, load_program


@lru_cache(maxsize=MAX_KEPT_RULES)
def load_machine(rules: bytes) -> Machine:
    """These rules, ready to run; `RulesRefused` if there is an error."""
    return Machine(load_program(rules))

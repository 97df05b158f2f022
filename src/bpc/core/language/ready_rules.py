"""Rules that were read before: a process keeps the last few. Pure: what rules give depends on their text alone."""

from functools import lru_cache
from typing import Final

from bpc.core.language.package import read_program
from bpc.core.language.typed import Program

MAX_KEPT_RULES: Final = 32


@lru_cache(maxsize=MAX_KEPT_RULES)
def load_program(rules: bytes) -> Program:
    """The program of these rules, which may have been read before; `RulesRefused` if there is an error."""
    return read_program(rules)

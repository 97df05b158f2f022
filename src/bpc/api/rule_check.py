"""Checking rules in another process: two texts in, plain data out.

A text of a mebibyte takes seconds, and holds the interpreter all that time. What comes back is what the API answers
with: the trees of the rules stay there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpc.core.errors import Refusal
from bpc.core.rules.package import RulesRefused, read_package
from bpc.core.rules.source import as_json
from bpc.db.rules import RuleField, fields_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What `RulesRefused` says."""

    code: str
    says: str
    fix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesRead:
    """What was found. There are fields, by path, exactly if `refused` is None."""

    diagnostics: Sequence[Mapping[str, Any]]
    fields: Sequence[RuleField]
    refused: Refused | None


class Mistaken(Refusal):
    """Rules with mistakes, in the words of `RulesRefused`: the code of the first error, and the details of all."""

    code = "RULE_PARSE_ERROR"

    def __init__(self, refused: Refused, diagnostics: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(refused.says, fix=refused.fix, details={"diagnostics": diagnostics})
        self.__dict__["code"] = refused.code  # a class attribute holds only one


def read_rules(dsl: bytes, tests: bytes) -> RulesRead:
    """Read and check the texts."""
    package = read_package(dsl, tests)
    said = None if package.program is not None else RulesRefused(package.found)
    return RulesRead(
        diagnostics=[dict(as_json(each.source, each.diagnostic)) for each in package.found],
        fields=[] if package.program is None else fields_of(package.program),
        refused=None if said is None else Refused(code=said.code, says=said.says, fix=said.fix),
    )

"""What both evaluators share: the world that rules are evaluated in, compliance entries, limits, and failures.

Pure values. A rule that type-checks fails only by `assert` or `requireSome`, by dividing by zero, or at a limit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from bpc.core.errors import Refusal
from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.timestamps import format_time
from bpc.core.language.source import Source, Span
from bpc.core.language.types import FactRecordType

MAX_STEPS: Final = 1_000_000
MAX_TEXT_LENGTH: Final = 65_536
MAGNITUDE_DIGITS: Final = 36

STEPS_MESSAGE: Final = f"the rules take more than {MAX_STEPS:,} steps"
MAGNITUDE_MESSAGE: Final = "the result is not below 10^36"
TEXT_LENGTH_MESSAGE: Final = f"the text would be longer than {MAX_TEXT_LENGTH:,} characters"
ZERO_MESSAGE: Final = "division by zero"
CALENDAR_MESSAGE: Final = "the day is not in the years 0001 to 9999"


class RuleFailure(Refusal):
    """Which field could not be computed, why, and where in the rules; in which definition, if it was in one."""

    def __init__(self, message: str, *, field: str | None, span: Span) -> None:
        super().__init__(message)
        self.field = field
        self.span = span
        self.definition: str | None = None

    def add_location(self, source: Source) -> "RuleFailure":
        """The same failure, its place in words and details for whoever reads it."""
        place = source.find_place(self.span.start)
        self.details = {**self.details, "field": self.field, "line": place.line, "column": place.column}
        self.fix = f"see {place}, field `{self.field}`"
        return self


class AssertionFailed(RuleFailure):
    """An `assert` or `requireSome` that did not hold; `rule_code` and the sentence are the rule's own."""

    code = "RULE_ASSERTION_FAILED"

    def __init__(self, rule_code: str, message: str, *, field: str | None, span: Span) -> None:
        super().__init__(f"{rule_code}: {message}", field=field, span=span)
        self.rule_code = rule_code
        self.details = {"rule_code": rule_code, "message": message}


class DivisionByZero(RuleFailure):
    code = "DIVISION_BY_ZERO"


class RuleLimitExceeded(RuleFailure):
    """More steps, a larger number, a longer text or another year than the language allows."""

    code = "RULE_LIMIT_EXCEEDED"


class MissingCause(NamedTuple):
    """The definition that is missing, the code and the sentence of the entries, and where the rules say so."""

    definition: str
    code: str
    message: str
    span: Span


class ValueMissing(Exception):
    """Ends a field or definition that needs a definition which is missing; never leaves an evaluator.

    `node` is the node of what is missing, a definition or a reference to a field, where each operator has a node.
    """

    def __init__(self, cause: MissingCause, node: int = 0) -> None:
        super().__init__(cause.message)
        self.cause = cause
        self.node = node


class ComplianceEntry(NamedTuple):
    """One `emitCompliance` or requirement.

    `field` is the field whose rule says it; `status` PASS, FAIL, WARN or NOT_APPLICABLE. `verdict` says whether a
    requirement was assessed, and if not, why; `args` are the texts in its message, by what they were written as.
    """

    code: str
    field: str
    message: str
    status: str
    verdict: str = "assessed"
    args: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, str]:
        """What entries of every level have."""
        return {"code": self.code, "field": self.field, "message": self.message, "status": self.status}

    def to_payload_json(self, language: int) -> dict[str, Json]:
        """The entry as a payload has it: that of rules of level 2 says more."""
        more: dict[str, Json] = {"args": dict(self.args), "verdict": self.verdict} if language > 1 else {}
        return {**self.to_json(), **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything a rule can ask for. `issued_on` is the day of `issued_at`."""

    product_sku: str
    product_name: str
    issued_on: str
    facts: FactTable


def build_world(
    facts: Iterable[SnapshotFact], fact_types: Iterable[FactRecordType], *, sku: str, name: str, issued_at: datetime
) -> World:
    """The world of a passport: the facts of the types its rules name, and the day of `issued_at` in UTC."""
    day = format_time(issued_at)[: len("2027-02-18")]
    return World(product_sku=sku, product_name=name, issued_on=day, facts=FactTable.from_facts(facts, fact_types))

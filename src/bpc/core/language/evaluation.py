"""What both evaluators share: the world that rules are evaluated in, compliance entries, limits, and failures.

Pure values. A rule that type-checks fails only by `assert` or `requireSome`, by dividing by zero, or at a limit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from bpc.core.errors import Refusal
from bpc.core.facts.fact_table import FactTable, SnapshotFact
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


class RuleFailure(Refusal):
    """Which field could not be computed, why, and where in the rules."""

    def __init__(self, message: str, *, field: str | None, span: Span) -> None:
        super().__init__(message)
        self.field = field
        self.span = span

    def add_location(self, source: Source) -> "RuleFailure":
        """The same failure, its place in words and details for whoever reads it."""
        place = source.locate(self.span.start)
        self.details = {**self.details, "field": self.field, "line": place.line, "column": place.column}
        self.fix = f"see {source.name}:{place.line}:{place.column}, field `{self.field}`"
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
    """More steps, a larger number or a longer text than the language allows."""

    code = "RULE_LIMIT_EXCEEDED"


class ComplianceEntry(NamedTuple):
    """One `emitCompliance`. `field` is the field whose rule says it; `status` PASS, FAIL, WARN or NOT_APPLICABLE."""

    code: str
    field: str
    message: str
    status: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "field": self.field, "message": self.message, "status": self.status}


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

"""How evaluation ends when a checked rule cannot give a value. There are three ways and no other.

A rule that type-checks fails only by `assert` or `requireSome`, by dividing by zero, or by passing a limit.
"""

from typing import Final

from bpc.core.errors import Refusal
from bpc.core.rules.source import Source, Span

MAX_STEPS: Final = 1_000_000
MAX_TEXT: Final = 65_536
MAGNITUDE_DIGITS: Final = 36

STEPS: Final = f"the rules take more than {MAX_STEPS:,} steps"
MAGNITUDE: Final = "the result is not below 10^36"
TEXT_LENGTH: Final = f"the text would be longer than {MAX_TEXT:,} characters"
ZERO: Final = "division by zero"


class RuleFailure(Refusal):
    """Which field could not be computed, why, and where in the rules."""

    def __init__(self, says: str, *, field: str | None, span: Span) -> None:
        super().__init__(says)
        self.field = field
        self.span = span

    def located(self, source: Source) -> "RuleFailure":
        """The same failure, its place in words and details for whoever reads it."""
        place = source.place(self.span.start)
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


class DividedByZero(RuleFailure):
    code = "DIVISION_BY_ZERO"


class LimitExceeded(RuleFailure):
    """More steps, a larger number or a longer text than the language allows."""

    code = "RULE_LIMIT_EXCEEDED"

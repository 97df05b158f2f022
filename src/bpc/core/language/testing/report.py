"""What running a package's tests found out: how many cases held, what failed and how to see it again, what was reached.

Pure values and their JSON. Nothing here depends on how long it took or on the machine, so two runs with one seed give
one report.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from bpc.core.facts import SnapshotFact
from bpc.core.rules.evaluating.writing import written
from bpc.core.rules.failure import AssertionFailed
from bpc.core.rules.shown import shown
from bpc.core.rules.source import Source, Span
from bpc.core.rules.testing.coverage import Coverage
from bpc.core.rules.typed import Value
from bpc.core.rules.types import Type

_PLAIN_ARGUMENT: Final = re.compile("[A-Za-z0-9_./:@%+=,-]+")


@dataclass(frozen=True, slots=True)
class TestError:
    """The error that made a test fail. Facts that fit no schema have neither field nor place."""

    __test__ = False
    code: str
    rule_code: str | None
    says: str
    field: str | None
    source: Source
    span: Span | None

    def as_json(self) -> dict[str, object]:
        place = None if self.span is None else self.source.place(self.span.start)
        return {
            "code": self.code,
            "rule_code": self.rule_code,
            "message": self.says,
            "field": self.field,
            "file": self.source.name,
            "line": place and place.line,
            "column": place and place.column,
        }


@dataclass(frozen=True, slots=True)
class Variable:
    """A claim's variable and the value it had."""

    name: str
    type: Type
    value: Value

    def __str__(self) -> str:
        return f"{self.name} = {shown(self.type, self.value)}"


@dataclass(frozen=True, slots=True)
class FailedCase:
    """A property's case that failed: its number, and the simplest facts and variable that fail in the same way."""

    number: int
    facts: tuple[SnapshotFact, ...]
    variable: Variable
    command: str

    def as_json(self) -> dict[str, object]:
        return {
            "number": self.number,
            "facts": [
                {
                    "fact_type": fact.fact_type,
                    "fact_key": fact.fact_key,
                    "schema_version": fact.schema_version,
                    "payload": fact.payload,
                }
                for fact in self.facts
            ],
            "variables": {self.variable.name: written(self.variable.type, self.variable.value)},
            "command": self.command,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFailure:
    """One expectation that was not met; `span` is where it stands in `source`."""

    __test__ = False
    test: str
    kind: Literal["example", "property"]
    says: str
    source: Source
    span: Span
    error: TestError | None = None
    case: FailedCase | None = None

    def as_json(self) -> dict[str, object]:
        start, end = self.source.place(self.span.start), self.source.place(self.span.end)
        return {
            "test": self.test,
            "kind": self.kind,
            "message": self.says,
            "file": self.source.name,
            "line": start.line,
            "column": start.column,
            "end_line": end.line,
            "end_column": end.column,
            "error": self.error and self.error.as_json(),
            "case": self.case and self.case.as_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TestReport:
    """`passed` and `failed` are cases that count, `discarded` those whose premises did not hold."""

    __test__ = False
    passed: int
    failed: int
    discarded: int
    failures: tuple[TestFailure, ...]
    coverage: Coverage

    @property
    def status(self) -> Literal["PASSED", "FAILED"]:
        return "FAILED" if self.failures else "PASSED"

    @property
    def cases(self) -> int:
        return self.passed + self.failed

    def as_json(self) -> dict[str, object]:
        return {
            "status": self.status,
            "cases": self.cases,
            "passed": self.passed,
            "failed": self.failed,
            "discarded": self.discarded,
            "failures": [failure.as_json() for failure in self.failures],
            "coverage": self.coverage.as_json(),
        }


def command_for(rules: Source, tests: Source, *, seed: int, test: str, case: int) -> str:
    """How one case is run alone, to be pasted into a shell."""
    beside = [] if tests is rules else ["--tests", tests.name]
    words = ["bpc", "rules", "test", rules.name, *beside, "--seed", str(seed), "--only", test, "--case", str(case)]
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if _PLAIN_ARGUMENT.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def rule_code(failure: Exception) -> str | None:
    """The code the rule itself gave, if an `assert` or `requireSome` failed."""
    return failure.rule_code if isinstance(failure, AssertionFailed) else None

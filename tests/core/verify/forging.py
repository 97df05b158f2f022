"""What tests of forgeries look at: which step of a report is blamed, and what it says."""

from collections.abc import Callable

from bpc.core.verify.report import Report, Step
from tests.core.passports import (
    Draft,
)

Change = Callable[[Draft], object]


def blamed(report: Report) -> list[str]:
    """The steps that were checked and do not hold."""
    return [step.name for step in report.steps if not step.ok and not step.detail.startswith("not checked")]


def step(report: Report, name: str) -> Step:
    return next(step for step in report.steps if step.name == name)


def assert_found(report: Report, name: str, says: str) -> None:
    assert not report.ok
    assert blamed(report) == [name], report
    assert says in step(report, name).detail


def four_is_five(draft: Draft) -> None:
    draft.result("arithmetic.four")["data"]["value"] = 5
    draft.set_value("arithmetic.four", 5)

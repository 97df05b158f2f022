"""What tests of forgeries look at: which step of a report is blamed, and what it says."""

from collections.abc import Callable

from bpc.core.verify import StepResult, VerificationReport
from tests.core.sample_passports import BundleDraft

Change = Callable[[BundleDraft], object]


def list_failed_steps(report: VerificationReport) -> list[str]:
    """The steps that were checked and do not hold."""
    return [step.name for step in report.steps if not step.ok and not step.detail.startswith("not checked")]


def get_step(report: VerificationReport, name: str) -> StepResult:
    return next(step for step in report.steps if step.name == name)


def assert_detected(report: VerificationReport, name: str, says: str) -> None:
    assert not report.ok
    assert list_failed_steps(report) == [name], report
    assert says in get_step(report, name).detail


def claim_four_is_five(draft: BundleDraft) -> None:
    draft.find_result("arithmetic.four")["data"]["value"] = 5
    draft.set_value("arithmetic.four", 5)

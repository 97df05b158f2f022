"""The rule workbench in Chromium: a unit mistake is found while typing, fixed, tested and published."""

from pathlib import Path
from typing import Any, Final

import pytest

from bpc.runtime import clock
from tests.console_browsing import take_journey
from tests.running_installation import RunningInstallation

pytestmark = pytest.mark.slow

MISTAKE: Final = "language 2;\n\nfield battery.mass @public: Qty(kg) = qty(5000, g);\n"
TESTS: Final = """example mass_in_kg: {} =>
  expect(battery.mass, == qty(5, kg));
;

property mass_is_positive: cases(500) seed(1) =>
  forall pieces: Int . implies(pieces > 0, field("battery.mass") > qty(0, kg));
;
"""
NO_MISTAKES: Final = "[data-problem-status]:has-text('No mistakes.')"


def replace_text(editor: str, text: str) -> list[dict[str, Any]]:
    return [{"click": f"{editor} .cm-content"}, {"press": "Control+a"}, {"insert": text}]


async def test_a_unit_mistake_is_found_fixed_tested_and_published(
    running_installation: RunningInstallation, tmp_path: Path
) -> None:
    bpc, tenant = running_installation.bpc, f"tenant-{clock.new_id().hex[-12:]}"
    bpc.run_ok("tenant", "create", tenant)
    rules, tests = "#dsl_source + .editor", "#tests_source + .editor"
    steps = [
        {"fill": ["main input[name=name]", "Mass"]},
        {"click": "main form[action='/console/rules'] button"},
        {"wait": NO_MISTAKES},
        *replace_text(rules, MISTAKE),
        {"wait": "[data-problem-list] .problem-error"},
        {"read": "[data-problem-list] .problem-error"},
        {"wait": f"{rules} .cm-lintRange-error"},
        {"click": "[data-problem-list] li:first-child .button"},
        {"wait": f"{rules} .cm-content:has-text('convert(')"},
        {"click": ".text-part:nth-of-type(2) > summary"},
        *replace_text(tests, TESTS),
        {"wait": NO_MISTAKES},
        {"click": "[data-run-tests]"},
        {"wait": "[data-test-output]:has-text('cases passed')"},
        {"wait": f"{rules} .cm-lens"},
        {"read": f"{rules} .cm-lens"},
        {"click": "[data-save]"},
        {"wait": "form[action$='/test'] button"},
        {"click": "form[action$='/test'] button"},
        {"wait": "[data-tests-ended]"},
        {"click": "[data-tests-ended]"},
        {"wait": "form[action$='/publish'] button"},
        {"wait": NO_MISTAKES},
        {"click": "form[action$='/publish'] button"},
        {"wait": ".notice-good"},
        {"read": ".notice-good"},
        {"wait": NO_MISTAKES},
    ]
    visit = {"name": "workbench", "path": "/console/rules", "steps": steps}
    sight = await take_journey(bpc, tenant, "Admin", visit, tmp_path)

    assert "`g`" in sight["texts"]["[data-problem-list] .problem-error"]
    assert "1 test" in sight["texts"][f"{rules} .cm-lens"]
    assert "published" in sight["texts"][".notice-good"]

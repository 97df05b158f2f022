"""The proof explorer in Chromium: an auditor follows one number to its facts, computes it again, and alters it."""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.console_browsing import take_journey
from tests.running_installation import RunningInstallation

pytestmark = pytest.mark.slow

FIELD: Final = "materials.critical_mass"
RESULT: Final = "[data-proof-result]"


async def test_an_auditor_follows_a_number_to_its_facts_and_sees_what_an_alteration_breaks(
    running_installation: RunningInstallation, tmp_path: Path
) -> None:
    bpc = running_installation.bpc
    bpc.run_ok("demo", "--out", str(tmp_path / "demo"))
    steps: list[dict[str, Any]] = [
        {"click": "main tbody th a"},
        {"click": "a[href$='/proof']"},
        {"fill": ["main input[name=field]", FIELD]},
        {"press": "Enter"},
        {"wait": "[data-proof-steps]"},
        {"open": "[data-proof-steps] details"},
        {"read": "[data-proof-steps]"},
        {"click": "[data-recompute]"},
        {"wait": f"{RESULT}:has-text('hashes are the same')"},
        {"click": "[data-evaluate]"},
        {"wait": f"{RESULT} li:has-text('proof_steps')"},
        {"read": f"{RESULT} li:has-text('proof_steps')"},
        {"fill": ["[data-alter] input", "2.26"]},
        {"click": "[data-alter] button"},
        {"wait": f"{RESULT} ol"},
        {"read": RESULT},
    ]

    sight = await take_journey(
        bpc, "demo", "Auditor", {"name": "proof", "path": "/console/passports", "steps": steps}, tmp_path
    )

    assert sight["complaints"] == []  # the policy of the page refused nothing
    steps_text = sight["texts"]["[data-proof-steps]"]
    assert f"{FIELD} is 2.26315 kg" in steps_text
    assert "component:EB-500-36:cathode, line 7 of the facts, gives 812.5 g" in steps_text
    assert sight["texts"][f"{RESULT} li:has-text('proof_steps')"].startswith("✓")
    assert "signature fits no more" in sight["texts"][RESULT]
    assert f"{FIELD}:" in sight["texts"][RESULT]
    assert "passport:" in sight["texts"][RESULT]  # the root

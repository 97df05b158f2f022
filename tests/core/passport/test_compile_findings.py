"""Findings reach a passport through a rule: what is implausible in its evidence is in its compliance entries."""

import json
import re
from pathlib import Path
from typing import Any

from bpc.core.facts.findings import build_finding_facts
from bpc.core.facts.plausibility import find_implausible
from tests.core.exports.example_bundles import compile_bundle
from tests.core.facts.plausible_product import make_product

PAGE = Path(__file__).parents[3] / "docs" / "rules" / "plausibility.md"


def read_rules() -> str:
    """The rules on the page, without their tests."""
    [text] = re.findall("```bpc\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(text).partition("\nexample ")[0]


def list_compliance(**battery: Any) -> list[dict[str, Any]]:
    """The compliance entries of a passport whose rules read the findings about its battery."""
    facts = make_product(battery=battery)
    sealed = build_finding_facts("SKU-1", find_implausible(facts))
    bundle = compile_bundle(read_rules(), *facts, *sealed)
    return list(json.loads(bundle["payload.json"])["compliance"])


def test_an_error_in_the_evidence_is_a_failure_in_the_passport() -> None:
    entries = list_compliance(minimum_voltage_v="460", recycled_cobalt_pct="20")

    assert [(entry["code"], entry["field"], entry["status"]) for entry in entries] == [
        ("PLAUSIBILITY", "checks.plausible", "FAIL"),
        ("ART_8_SUMS", "checks.recycled_sums", "WARN"),
    ]
    assert entries[0]["message"] == (
        "recycled cobalt: 6.25 % from manufacturing waste and 10.25 % from post-consumer waste add up to 16.5 %, "
        "the declared share is 20 %; the minimum voltage of 460 V is not below the nominal voltage of 400 V"
    )


def test_warnings_alone_are_no_failure_under_these_rules() -> None:
    assert list_compliance(maximum_voltage_v="2500") == []


def test_evidence_without_findings_is_not_called_proven() -> None:
    assert list_compliance() == []

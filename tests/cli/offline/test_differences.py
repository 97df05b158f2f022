"""`bpc diff`: two bundles in, what differs and why out."""

import json
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.core.sample_passports import (
    BATTERY,
    BLINDING_FACT,
    PCF,
    SMALL_RULES,
    make_bundle,
    make_compile_input,
    make_fact,
)

NEW_PCF = make_fact("PCF", "pcf:SKU-1", sku="SKU-1", total_gco2e="7500.00")


@pytest.fixture
def bundles(tmp_path: Path) -> tuple[Path, Path]:
    """Two passports of one battery; the second has another footprint."""
    files = tmp_path / "a.zip", tmp_path / "b.zip"
    for file, footprint in zip(files, (PCF, NEW_PCF), strict=True):
        file.write_bytes(make_bundle(make_compile_input(SMALL_RULES, [BATTERY, footprint, BLINDING_FACT])))
    return files


def test_a_field_that_differs_is_shown_with_its_cause(bpc: Program, bundles: tuple[Path, Path]) -> None:
    ended = bpc.run("diff", *bundles)

    assert ended.code == 1
    assert ended.out == (
        "sustainability.pcf_gco2e_per_kwh: 80.00 -> 99.34\n"
        "  `total_gco2e` of `pcf:SKU-1` was 6040.00 and is 7500.00\n"
        "facts: 1 value\n"
        "  `total_gco2e` of `pcf:SKU-1` was 6040.00 and is 7500.00\n"
    )


def test_equal_passports_say_the_same(bpc: Program, bundles: tuple[Path, Path]) -> None:
    assert bpc.run_ok("diff", bundles[0], bundles[0]).out == "the passports say the same\n"


def test_programs_get_json(bpc: Program, bundles: tuple[Path, Path]) -> None:
    difference = json.loads(bpc.run("diff", *bundles, "--json").out)

    assert [field["path"] for field in difference["fields"]] == ["sustainability.pcf_gco2e_per_kwh"]
    assert difference["facts"][0]["says"] == "`total_gco2e` of `pcf:SKU-1` was 6040.00 and is 7500.00"


def test_rules_entries_and_access_are_shown(bpc: Program, tmp_path: Path) -> None:
    files = tmp_path / "a.zip", tmp_path / "b.zip"
    for file, status, audience in zip(files, ("PASS", "FAIL"), ("", "@public"), strict=True):
        rules = f'field a.check {audience}: Bool = emitCompliance("CHK", "{status}", "all is well");'
        file.write_bytes(make_bundle(make_compile_input(rules.encode(), [BATTERY, BLINDING_FACT])))

    out = bpc.run("diff", *files).out

    assert "compliance CHK, field a.check: PASS (all is well) -> FAIL (all is well)\n" in out
    assert "a.check: other audiences may see it\n" in out
    assert "rules: 1 field\n  a.check: changed\n" in out


def test_a_file_that_is_no_bundle_is_refused(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "a.zip"
    file.write_bytes(b"no zip")

    assert bpc.run("diff", file, file).code == 1


def test_a_finding_that_is_new_or_gone_is_one_line(bpc: Program, tmp_path: Path) -> None:
    members = {"sku": "SKU-1", "code": "MASS", "severity": "error", "message": "the mass is 0", "points": [10]}
    finding = make_fact("Finding", "finding:SKU-1:MASS:0001", **members)
    files = tmp_path / "a.zip", tmp_path / "b.zip"
    for file, facts in zip(files, ([], [finding]), strict=True):
        file.write_bytes(make_bundle(make_compile_input(SMALL_RULES, [BATTERY, PCF, BLINDING_FACT, *facts])))

    new, gone = bpc.run("diff", *files), bpc.run("diff", *reversed(files))

    assert new.out == "findings: 1\n  `finding:SKU-1:MASS:0001` is new: the mass is 0\n"
    assert gone.out == "findings: 1\n  `finding:SKU-1:MASS:0001` is gone: the mass is 0\n"
    assert {fact["member"] for fact in bpc.run("diff", *files, "--json").json()["facts"]} == set(members)

"""The evaluator in JavaScript: the same nodes as Python, for golden passports and random programs of both levels."""

import json
from pathlib import Path

import pytest

from bpc.core.errors import Refusal
from bpc.core.formats.timestamps import parse_time
from bpc.core.passport.bundle import write_bundle
from bpc.core.passport.compile_input import Product
from tests.browser_tools import run_node
from tests.core.exports.example_bundles import CASES, compile_example
from tests.core.language.random_programs.program import create_random_program
from tests.core.sample_passports import BLINDING_FACT, RICH_INPUT, make_bundle, make_compile_input
from tests.measurements import RecordMeasurement, choose_effort

SCRIPT = Path(__file__).parent / "recompute.js"


def compute_again(folder: Path) -> dict[str, str]:
    """What the evaluator says of each bundle of a folder; "" where it gives the same nodes."""
    details: dict[str, str] = json.loads(run_node(SCRIPT, str(folder), timeout=280))
    return details


def write_random_bundles(folder: Path, language: int, count: int) -> None:
    """Those of the programs that compile: some of them fail on purpose."""
    for seed in range(count):
        program = create_random_program(seed, language=language)
        product = Product(
            battery_product_id=RICH_INPUT.product.battery_product_id,
            sku=program.product_sku,
            name=program.product_name,
        )
        compile_input = make_compile_input(
            program.rules.encode(),
            [*program.facts, BLINDING_FACT],
            product=product,
            issued_at=parse_time(f"{program.issued_on}T00:00:00.000000Z"),
        )
        try:
            (folder / f"random-{language}-{seed}.zip").write_bytes(make_bundle(compile_input))
        except Refusal:
            continue


@pytest.mark.slow
def test_every_golden_passport_is_computed_again_node_by_node(tmp_path: Path) -> None:
    for name in CASES:
        (tmp_path / f"{name}.zip").write_bytes(write_bundle(compile_example(name)))

    details = compute_again(tmp_path)

    assert {name: detail for name, detail in details.items() if detail} == {}
    assert len(details) == len(CASES)


@pytest.mark.slow
def test_random_programs_of_both_levels_give_the_same_nodes(
    tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    count = choose_effort(test=6, shown=300, campaign=2_000)
    for language in (1, 2):
        write_random_bundles(tmp_path, language, count)

    details = compute_again(tmp_path)

    assert {name: detail for name, detail in details.items() if detail} == {}
    assert len(details) > count // 2
    record_measurement("rules-in-javascript", programs=2 * count, compiled=len(details))

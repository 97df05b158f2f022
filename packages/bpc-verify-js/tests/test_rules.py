"""The evaluator in JavaScript: the same nodes as Python, for golden passports, batteries and random programs."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bpc.core.errors import Refusal
from bpc.core.formats.timestamps import parse_time
from bpc.core.items.bundle import build_item_bundle
from bpc.core.items.compile import ItemCompiler
from bpc.core.items.upper_layers import open_model
from bpc.core.passport.bundle import write_bundle
from bpc.core.passport.compile_input import Product
from bpc.core.verify.item_bundle import verify_anything
from tests.browser_tools import run_node
from tests.core.exports.example_bundles import CASES, compile_example
from tests.core.items import sample_layers as sample
from tests.core.items.forged_items import ItemDraft, forge_item
from tests.core.language.random_programs.program import create_random_program
from tests.core.sample_passports import BLINDING_FACT, RICH_INPUT, make_bundle, make_compile_input
from tests.core.verify.test_item_bundle import FORGERIES
from tests.measurements import RecordMeasurement, choose_effort
from tests.rules import test_items as shipped

SCRIPT = Path(__file__).parent / "recompute.js"


def compute_again(folder: Path) -> dict[str, dict[str, str]]:
    """The first step that fails for each bundle of a folder, and why: both are "" where all is well."""
    causes: dict[str, dict[str, str]] = json.loads(run_node(SCRIPT, str(folder), timeout=280))
    return causes


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

    causes = compute_again(tmp_path)

    assert {name: cause for name, cause in causes.items() if cause["step"]} == {}
    assert len(causes) == len(CASES)


@pytest.mark.slow
def test_random_programs_of_both_levels_give_the_same_nodes(
    tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    count = choose_effort(test=6, shown=300, campaign=2_000)
    for language in (1, 2):
        write_random_bundles(tmp_path, language, count)

    causes = compute_again(tmp_path)

    assert {name: cause for name, cause in causes.items() if cause["step"]} == {}
    assert len(causes) > count // 2
    record_measurement("rules-in-javascript", programs=2 * count, compiled=len(causes))


def list_batteries() -> Iterator[tuple[str, bytes]]:
    """Batteries below a model and below a batch, and a batch; met and not met, complete and not."""
    yield "batch", sample.bundle_above(batch=90)
    yield "shipped", shipped.bundle_item(remaining_capacity_ah="12.5")
    yield "shipped-without", shipped.bundle_item(manufactured_on=None, status=None)
    for batch in (None, 90):
        yield f"item-{batch}", sample.bundle_item(1, batch=batch)
        compiler = sample.get_compiler(batch=batch)
        rows = {
            "failed": sample.make_item_row(2, remaining_capacity_ah="5"),
            "early": sample.make_item_row(3, remaining_capacity_ah="5", placed_on_market_on="2027-01-31"),
            "empty": sample.make_item_row(4, serial_number=None, manufactured_on=None, remaining_capacity_ah=None),
        }
        for name, row in rows.items():
            artifacts = sample.sign_item(compiler.compile(row))
            above = sample.bundle_above(batch=batch)
            yield f"{name}-{batch}", build_item_bundle(artifacts, above=above, public_key=sample.SIGNER.public_key)
    model = sample.issue_model(rated_ah=None)
    artifacts = sample.sign_item(ItemCompiler(open_model(model.entries), sample.RUN).compile(sample.make_item_row(1)))
    yield (
        "missing-above",
        build_item_bundle(artifacts, above=write_bundle(model), public_key=sample.SIGNER.public_key),
    )


def test_batteries_and_batches_are_computed_again_step_by_step(tmp_path: Path) -> None:
    names = []
    for name, bundle in list_batteries():
        assert verify_anything(bundle).ok, name
        (tmp_path / f"{name}.zip").write_bytes(bundle)
        names.append(name)

    causes = compute_again(tmp_path)

    assert causes == {f"{name}.zip": {"step": "", "detail": ""} for name in names}


@pytest.mark.slow
def test_a_battery_that_its_issuer_forged_is_refused_at_the_step_where_python_refuses_it(tmp_path: Path) -> None:
    forged = {
        f"{change.__name__}-{batch}": forge_item(sample.bundle_item(1, batch=batch), change)
        for change, batch, *_ in FORGERIES
    }
    for batch in (None, 90):
        honest = sample.bundle_item(1, batch=batch)
        forged |= {f"{batch}-{name}": bundle for name, bundle in list_altered_leaves(honest)}
    for name, bundle in forged.items():
        (tmp_path / f"{name}.zip").write_bytes(bundle)

    causes = compute_again(tmp_path)

    assert len(forged) > choose_effort(test=40, shown=400, campaign=400)
    expected = {f"{name}.zip": (*verify_anything(bundle).failed_steps, "")[0] for name, bundle in forged.items()}
    assert {name: cause["step"] for name, cause in causes.items()} == expected
    assert list(expected.values()).count("proof_steps") > choose_effort(test=10, shown=100, campaign=100)


def list_altered_leaves(honest: bytes) -> Iterator[tuple[str, bytes]]:
    """The bundle with one text, number or truth of its payload and its proof altered, and everything signed again."""
    every = choose_effort(test=29, shown=1, campaign=1)
    leaves: list[tuple[Any, ...]] = []
    forge_item(honest, lambda draft: leaves.extend(iterate_places({"payload": draft.payload, "proof": draft.proof})))
    for place in leaves[::every]:
        yield (
            ".".join(map(str, place)).replace("/", "_"),
            forge_item(honest, partial(alter_leaf, place=place)),
        )


def iterate_places(value: Any) -> Iterator[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield ()
        return
    for name, part in parts:
        yield from ((name, *rest) for rest in iterate_places(part))


def alter_leaf(draft: ItemDraft, place: tuple[Any, ...]) -> None:
    part, *folders, name = place
    target = draft.payload if part == "payload" else draft.proof
    for folder in folders:
        target = target[folder]
    value = target[name]
    if isinstance(value, bool):
        target[name] = not value
    elif isinstance(value, int):
        target[name] = value + 1
    elif isinstance(value, str):
        target[name] = ("1" if value[:1] != "1" else "2") + value[1:]
    else:
        target[name] = "more"

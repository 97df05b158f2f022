"""One battery below its model under the shipped rules: the same package serves products and batteries."""

from functools import cache
from typing import Any
from uuid import UUID

from bpc.core.audit.signing import Signer
from bpc.core.formats.ids import BatteryId, PassportVersionId, SnapshotId
from bpc.core.formats.timestamps import parse_time
from bpc.core.items.bundle import build_item_bundle
from bpc.core.items.compile import ItemCompiler
from bpc.core.items.compile_order import ItemRow, ItemRun, build_item_fact, derive_item_key
from bpc.core.items.content import restore_item
from bpc.core.items.upper_layers import open_model
from bpc.core.passport.bundle import Bundle, write_bundle
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.compile_input import CompileInput
from bpc.core.passport.payload import make_blinding_fact
from bpc.core.verify.item_bundle import verify_item_bundle
from tests.rules import shipped_package
from tools.golden import SEED

# What only a battery can say.
OWN = {
    "serial_number": "PACK-00000001",
    "passport_uri": "https://id.example.com/p/1",
    "manufactured_on": "2028-01-03",
    "placed_on_market_on": "2028-02-01",
    "status": "original",
}
NOT_OF_MODELS = (*OWN, "put_into_service_on", "batch_number", "state_recorded_on")


@cache
def issue_model() -> tuple[CompileInput, Bundle]:
    content = (shipped_package.EXAMPLES / "eu-battery" / "lmt.json").read_bytes()
    facts = []
    for fact in shipped_package.read_facts(content):
        payload = dict(fact.payload)
        if fact.fact_type == "Battery":
            payload = {name: value for name, value in payload.items() if name not in NOT_OF_MODELS}
            payload["granularity"] = "model"
        facts.append(shipped_package.make_fact(fact.fact_type, fact.fact_key, payload))
    secret = make_blinding_fact(UUID("c386bbc4-0000-4000-8000-3c5f414c343c"), bytes(32))
    machine = shipped_package.make_machine()
    compile_input = shipped_package.build_input([*facts, secret], None, "2027-02-18", machine)
    passport = compile_passport(compile_input, machine=machine)
    assert passport.compliance.fail == 0, "a model is not asked for what only its batteries can say"
    return compile_input, issue_passport(compile_input, passport, Signer(SEED))


@cache
def open_compiler() -> ItemCompiler:
    compile_input, model = issue_model()
    run = ItemRun(
        tenant_id=compile_input.tenant_id,
        rule_package_version_id=compile_input.rule_package_version_id,
        compiler_build_id="bpc-test",
        signing_key_id="key-1",
    )
    return ItemCompiler(open_model(model.entries), run)


def make_row(issued_at: str = "2028-02-01T00:00:00.000000Z", **members: Any) -> ItemRow:
    sku = issue_model()[0].product.sku
    subject_id = BatteryId(UUID("5b0c9a4e-0000-4000-8000-000000000001"))
    return ItemRow(
        subject_id=subject_id,
        passport_version_id=PassportVersionId(UUID("5b0c9a4e-0000-4000-8000-000000000002")),
        snapshot_id=SnapshotId(UUID("5b0c9a4e-0000-4000-8000-000000000003")),
        issued_at=parse_time(issued_at),
        blinding_key=derive_item_key(bytes(32), subject_id),
        facts=(build_item_fact(sku, {**OWN, **members}),),
    )


def list_failures(row: ItemRow) -> list[str]:
    _, proof, _, _ = open_compiler().prove(row)
    return [entry.code for entry in proof.compliance if entry.status == "FAIL"]


def test_a_battery_with_its_own_facts_passes_and_one_without_does_not() -> None:
    assert list_failures(make_row()) == []
    assert list_failures(make_row(passport_uri=None)) == ["DP01"]
    assert list_failures(make_row(manufactured_on=None)) == ["DP09"]
    assert list_failures(make_row(status="as new")) == ["DP67"]
    assert list_failures(make_row(manufactured_on="2029-01-01")) == ["MANUFACTURE"]
    assert list_failures(make_row(status="repurposed")) == ["SECOND_LIFE"]


def test_a_battery_of_2031_is_judged_by_the_law_of_its_own_day() -> None:
    """The recycled content of an LMT battery has a minimum from 2036 on; the model of 2027 does not decide it."""
    early, late = make_row(), make_row("2040-01-01T00:00:00.000000Z", placed_on_market_on="2040-01-01")

    verdicts = [
        {entry.code: entry.verdict for entry in open_compiler().prove(row)[1].compliance} for row in (early, late)
    ]

    assert verdicts[0] != verdicts[1]
    changed = {code for code in verdicts[0] if verdicts[0][code] != verdicts[1][code]}
    assert {verdicts[0][code] for code in changed} <= {"not_yet_in_force", "out_of_scope"}
    assert "assessed" in {verdicts[1][code] for code in changed}


def bundle_item(**members: Any) -> bytes:
    signer = Signer(SEED)
    item = open_compiler().compile(make_row(**members))
    artifacts = restore_item(item.content, signer.sign(item.receipt_hash))
    return build_item_bundle(artifacts, above=write_bundle(issue_model()[1]), public_key=signer.public_key)


def test_its_bundle_verifies() -> None:
    bundle = bundle_item(remaining_capacity_ah="12.5")

    report = verify_item_bundle(bundle, pins=[Signer(SEED).public_key])

    assert report.ok, report.cause

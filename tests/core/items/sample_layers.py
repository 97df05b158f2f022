"""A small package with something of every layer, its model, and batches and batteries below it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from bpc.core.audit.signing import Seed, Signer
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats.ids import (
    BatteryId,
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.items.bundle import build_item_bundle
from bpc.core.items.compile import CompiledItem, ItemCompiler, open_batch
from bpc.core.items.compile_order import ItemRow, ItemRun, build_batch_fact, build_item_fact, derive_item_key
from bpc.core.items.content import ItemArtifacts, restore_item
from bpc.core.items.upper_layers import UpperLayers, open_model
from bpc.core.passport.bundle import Bundle, write_bundle
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.compile_input import CompileInput, Product
from bpc.core.passport.payload import make_blinding_fact

SIGNER = Signer(Seed(bytes(range(32))))
RUN_SECRET = bytes(range(100, 132))
SKU = "PACK-48"
RULES = """language 2;

def battery = Battery for productSku();
def item = Item for productSku();
def batch = Batch for productSku();
def parts = all Component for productSku();
def masses = present(map(parts, fn(part) => part.mass_g));
def mass_g: Dec(6) = sum(masses);
def rated_ah = battery.rated_capacity_ah else missing("DP11", "the rated capacity is missing");
def note = battery.model ?? "unnamed";
def plant = batch.facility_id ?? battery.facility_id;
def placed_on = item.placed_on_market_on ?? issuedOn();
def readings = all Reading for productSku();
def left_pct: Opt(Dec(2)) =
  if some left = item.remaining_capacity_ah then some(toDec(2, left * 100 / rated_ah)) else none;

field model.mass_g @public: Dec(6) = mass_g;
field model.rated_ah @interest: Dec(6) = rated_ah;
field model.name @public: Text = note;
field batch.plant @public: Opt(Text) = plant;
field batch.made_on @interest: Opt(Date) = batch.manufactured_on;
field item.serial @public: Opt(Text) = item.serial_number;
field item.health_pct @authority: Opt(Dec(2)) = left_pct;
field item.mass_note @public: Text =
  let grams = field("model.mass_g");
  "{item.serial_number} of {grams} g, {note}";
field item.plant_note @public: Text =
  let place = field("batch.plant");
  "{item.serial_number} made in {place} by {plant}";
field item.readings @interest: Int = count(readings);
field item.age_days @interest: Opt(Int) =
  if some day = item.manufactured_on then some(daysBetween(day, issuedOn())) else none;
field item.heavy: Bool = any(parts, fn(part) => part.mass_g ?? 0 > 1000000);

require MASS "the parts have a mass": mass_g > 0 else "no part has a mass";
require PLANT "the plant is stated": plant is present else "no plant is stated" severity warn;
require SERIAL "the serial number is stated": item.serial_number is present else "the serial number is missing";
require HEALTH "the battery is healthy" in force from date("2027-02-18") on placed_on:
    left_pct ?? 100 > 60
  else "only {left: left_pct} % are left";
"""
PRODUCT = Product(
    battery_product_id=BatteryProductId(UUID("11111111-1111-4111-8111-111111111111")), sku=SKU, name="Pack of 48 V"
)
RUN = ItemRun(
    tenant_id=TenantId(UUID("22222222-2222-4222-8222-222222222222")),
    rule_package_version_id=RulePackageVersionId(UUID("33333333-3333-4333-8333-333333333333")),
    compiler_build_id="bpc-test",
    signing_key_id="issuer-2027",
)


def make_fact(fact_type: str, fact_key: str, payload: Mapping[str, Any]) -> SnapshotFact:
    return SnapshotFact(fact_type=fact_type, fact_key=fact_key, schema_version=1, payload=dict(payload))


def make_id(number: int) -> UUID:
    return UUID(int=(0x4000 << 64) | (0x8000 << 48) | number)


@cache
def issue_model(
    *, rules: str = RULES, version: int = 1, sku: str = SKU, rated_ah: str | None = "10", product: int = 0
) -> Bundle:
    """The passport of the model. Another `version` differs in its ids and its mass."""
    snapshot_id = SnapshotId(make_id(1000 + version))
    battery = {"sku": sku, "model": "P48", "facility_id": "PLANT-0", "rated_capacity_ah": rated_ah}
    facts = (
        make_fact("Battery", f"battery:{sku}", {name: value for name, value in battery.items() if value is not None}),
        make_fact("Component", f"component:{sku}:a", {"sku": sku, "part": "a", "mass_g": "1200.5"}),
        make_fact("Component", f"component:{sku}:b", {"sku": sku, "part": "b", "mass_g": str(800 + version)}),
        make_blinding_fact(snapshot_id, bytes([version]) * 32),
    )
    compile_input = CompileInput(
        tenant_id=RUN.tenant_id,
        passport_id=PassportId(make_id(1)),
        passport_version_id=PassportVersionId(make_id(2000 + version)),
        product=Product(
            battery_product_id=BatteryProductId(UUID(int=PRODUCT.battery_product_id.int + product)),
            sku=sku,
            name=PRODUCT.name,
        ),
        snapshot_id=snapshot_id,
        rule_package_version_id=RUN.rule_package_version_id,
        issued_at=datetime(2027, 1, 1, tzinfo=UTC),
        compiler_build_id="bpc-test",
        signing_key_id="issuer-2027",
        facts=facts,
        rules=rules.encode(),
    )
    return issue_passport(compile_input, compile_passport(compile_input), SIGNER)


@cache
def open_sample_model(version: int = 1) -> UpperLayers:
    return open_model(issue_model(version=version).entries)


def make_row(
    number: int, facts: tuple[SnapshotFact, ...], *, issued_on: tuple[int, int, int] = (2027, 3, 1)
) -> ItemRow:
    subject_id = BatteryId(make_id(5000 + number))
    return ItemRow(
        subject_id=subject_id,
        passport_version_id=PassportVersionId(make_id(6000 + number)),
        snapshot_id=SnapshotId(make_id(7000 + number)),
        issued_at=datetime(*issued_on, tzinfo=UTC),
        blinding_key=derive_item_key(RUN_SECRET, subject_id),
        facts=facts,
    )


def make_item_row(number: int, **members: Any) -> ItemRow:
    values = {"serial_number": f"SN-{number}", "manufactured_on": "2027-02-20", "remaining_capacity_ah": "9.5"}
    reading = {"sku": SKU, "kind": "full_cycles", "number": str(number), "recorded_on": "2027-02-25"}
    facts = (
        build_item_fact(SKU, {name: value for name, value in (values | members).items() if value is not None}),
        make_fact("Reading", f"reading:{SKU}:full_cycles:2027-02-25T00:00:00.000000Z", reading),
    )
    return make_row(number, facts)


def sign_item(item: CompiledItem) -> ItemArtifacts:
    return restore_item(item.content, SIGNER.sign(item.receipt_hash))


@cache
def compile_batch(number: int = 90, version: int = 1) -> ItemArtifacts:
    fact = build_batch_fact(SKU, {"facility_id": f"PLANT-{number}", "manufactured_on": "2027-02-19"})
    compiler = ItemCompiler(open_sample_model(version), RUN, layer="batch")
    return sign_item(compiler.compile(make_row(number, (fact,))))


@cache
def get_compiler(*, batch: int | None = None, version: int = 1) -> ItemCompiler:
    """The compiler of batteries below the model, or below a batch of it."""
    upper = open_sample_model(version)
    if batch is not None:
        upper = open_batch(upper, RUN, compile_batch(batch, version))
    return ItemCompiler(upper, RUN)


@cache
def bundle_above(*, batch: int | None = None, version: int = 1) -> bytes:
    model = write_bundle(issue_model(version=version))
    if batch is None:
        return model
    return build_item_bundle(compile_batch(batch, version), above=model, public_key=SIGNER.public_key)


@cache
def bundle_item(number: int = 1, *, batch: int | None = None, version: int = 1) -> bytes:
    artifacts = sign_item(get_compiler(batch=batch, version=version).compile(make_item_row(number)))
    above = bundle_above(batch=batch, version=version)
    return build_item_bundle(artifacts, above=above, public_key=SIGNER.public_key)

"""The eight steps of `bpc demo`, asked for over the API as any program would.

What an earlier demo left is used again: the same documents, rules and product are there once, and each run issues a new
version of the passport, which supersedes the one before.
"""

from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

from bpc.cli.files import replace_file
from bpc.cli.rules_publishing import Texts, after_tests, published, stored
from bpc.client import ApiError, Client
from bpc.client.models import Fact

BATTERY: Final = files("bpc.cli.demo_battery")
SKU: Final = "EB-500-36"
NAME: Final = "City e-bike pack 500"
PACKAGE: Final = "E-bike batteries"
DOCUMENTS: Final[tuple[tuple[Literal["BOM", "PCF", "DUE_DILIGENCE"], str], ...]] = (
    ("BOM", "bom.json"),
    ("PCF", "pcf.json"),
    ("DUE_DILIGENCE", "due-diligence.json"),
)


class Told(ABC):
    """Whoever is told what happens."""

    @abstractmethod
    def step(self, what: str) -> AbstractContextManager[None]:
        """`what` happens in the block."""

    @abstractmethod
    def more(self, what: str) -> None:
        """What there is to say about the step that was done last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A passport version that is active, and its bundle."""

    passport_version_id: UUID
    bundle: bytes


async def issue(bpc: Client, told: Told, out: Path) -> Issued:
    """Take the battery through all eight steps, and put what is made into `out`."""
    with told.step("1 upload: three documents of suppliers"):
        documents = [await _uploaded(bpc, kind, file) for kind, file in DOCUMENTS]
    told.more(", ".join(file for _, file in DOCUMENTS))

    with told.step("2 facts: what they say, each with the place where it is said"):
        facts = [fact for document in documents for fact in await _facts(bpc, document)]
    shown = next(fact for fact in facts if fact.fact_key.endswith(":cathode"))
    told.more(f"{len(facts)} facts; {shown.fact_key} is from {shown.source_path} of the bill of materials")

    with told.step("3 snapshot: those facts, sealed"):
        snapshot, digest = await _sealed(bpc, facts)
    told.more(f"SHA-256 {digest}; nothing in it changes any more")

    with told.step("rules: checked, tested, published"):
        rules = await _published(bpc)
    run = (await bpc.list_rule_test_runs(rules, limit=1)).items[0]
    told.more(f"{run.passed} of {run.cases} cases passed; with fewer than 500 they could not be published")

    with told.step("4 compile, 5 sign, 6 QR: three jobs, each in one transaction"):
        version = await _compiled(bpc, snapshot, rules)
        found = await bpc.get_passport_version(version)
    told.more(
        f"payload {found.payload_hash[:16]}…, proof {found.proof_root_hash[:16]}…, signed by {found.signing_key_id}"
    )

    with told.step("7 activate: from now on this version counts"):
        activated = await bpc.activate_passport_version(version)
    before = activated.superseded_passport_version_id
    told.more(f"{version}" + (f", instead of {before}" if before else ""))

    with told.step("8 replay: compiled again from what is stored, compared byte for byte"):
        replayed = await bpc.replay_passport_version(version)
    told.more(f"{len(replayed.steps)} checks hold: {', '.join(step.name for step in replayed.steps)}")

    with told.step("export: a bundle for auditors, a QR code for the battery, a PDF for people"):
        bundle = (await bpc.get_bundle(version)).content
        made = {
            "bundle.zip": bundle,
            "qr.png": (await bpc.get_qr_code(version)).content,
            "passport.pdf": await _printed(bpc, version),
        }
        for name, content in made.items():
            replace_file(out / name, content)
    told.more(", ".join(f"{out / name} ({len(content):,} bytes)" for name, content in made.items()))

    with told.step("audit: every hash of the tenant's record, computed again"):
        audited = await bpc.verify_events()
    told.more(f"{audited.events} events in {audited.chains} chains, {len(audited.faults)} faults")
    return Issued(passport_version_id=version, bundle=bundle)


def text_of(file: str) -> str:
    return BATTERY.joinpath(file).read_text(encoding="utf-8")


async def _there(asked: Awaitable[UUID], name: str) -> UUID:
    """The id of what was made or, where it is there already, of that."""
    try:
        return await asked
    except ApiError as refused:
        if refused.code == "CONFLICT" and name in refused.details:
            return UUID(refused.details[name])
        raise


async def _uploaded(bpc: Client, kind: Literal["BOM", "PCF", "DUE_DILIGENCE"], file: str) -> UUID:
    async def made() -> UUID:
        document = await bpc.create_document(kind=kind, external_ref=file)
        content = b64encode(text_of(file).encode()).decode()
        uploaded = await bpc.upload_document_version(
            document.document_id, mime_type="application/json", content_base64=content
        )
        return uploaded.document_version_id

    return await _there(made(), "document_version_id")


async def _facts(bpc: Client, document: UUID) -> list[Fact]:
    await bpc.until(lambda: bpc.get_document_version(document), lambda seen: seen.status == "VALIDATED", seconds=60)
    return [fact async for fact in bpc.list_all(bpc.list_facts, document_version_id=document)]


async def _sealed(bpc: Client, facts: list[Fact]) -> tuple[UUID, str]:
    snapshot = (await bpc.create_snapshot(label="demo")).snapshot_id
    await bpc.add_snapshot_items(snapshot, fact_ids=[fact.fact_id for fact in facts])
    await bpc.wait((await bpc.build_snapshot(snapshot)).job_id)
    return snapshot, (await bpc.seal_snapshot(snapshot)).snapshot_hash


async def _published(bpc: Client) -> UUID:
    """The rules' version; what an earlier demo has done with it is not done again."""
    found = await stored(bpc, PACKAGE, Texts(text_of("rules.bpc"), text_of("tests.bpc")))
    tested = await after_tests(bpc, found.version, seed=1)
    return (await published(bpc, tested.version)).rule_package_version_id


async def _compiled(bpc: Client, snapshot: UUID, rules: UUID) -> UUID:
    async def product() -> UUID:
        return (await bpc.create_battery_product(sku=SKU, name=NAME)).battery_product_id

    product_id = await _there(product(), "battery_product_id")

    async def passport() -> UUID:
        return (await bpc.create_passport(battery_product_id=product_id)).passport_id

    passport_id = await _there(passport(), "passport_id")
    asked = await bpc.compile_passport(passport_id, snapshot_id=snapshot, rule_package_version_id=rules)
    await bpc.wait(asked.job_id)
    version = asked.passport_version_id
    await bpc.until(lambda: bpc.get_passport_version(version), lambda seen: seen.has_qr, seconds=60)
    return version


async def _printed(bpc: Client, version: UUID) -> bytes:
    asked = await bpc.create_export(version, format="PDF")
    await bpc.wait(asked.job_id)
    return (await bpc.get_export_content(asked.export_id)).content

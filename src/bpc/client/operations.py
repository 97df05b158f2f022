"""Every operation of the API. Made by `make cases` from the API's OpenAPI document; do not edit."""
# ruff: noqa: A002

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from bpc.client.calls import Calls, given, new_key, part
from bpc.client.models import (
    Activated,
    Actor,
    ApiKey,
    ApiKeyMade,
    AskedResource,
    BatteryProduct,
    BuildStarted,
    BulkItem,
    CompileRequested,
    CompileRun,
    CompileRunRow,
    Conditions,
    Delivery,
    DeliveryAccepted,
    DeliveryDetail,
    Document,
    DocumentMade,
    DocumentText,
    DocumentVersion,
    DocumentVersionRead,
    DryRunAnswer,
    Endpoint,
    EndpointIssued,
    Event,
    Export,
    ExportRequested,
    Fact,
    FactDetails,
    GraphQLAnswer,
    IngestionRequested,
    ItemsChanged,
    Job,
    JobResult,
    ListedRun,
    ListedSnapshot,
    Live,
    Passport,
    PassportMade,
    PassportVersion,
    Permissions,
    Policy,
    PolicyVersion,
    ProductMade,
    Ready,
    Replayed,
    Revoked,
    Role,
    RulePackage,
    RulePackageDetails,
    RulePackageMade,
    RulesChecked,
    RuleTestRun,
    RuleTestRunDetails,
    RuleVersion,
    RuleVersionDetails,
    RuleVersionMade,
    RunRequested,
    SigningKey,
    Snapshot,
    SnapshotMade,
    SnapshotSealed,
    Status,
    Subscription,
    TestsOrdered,
    Verification,
    VersionMade,
)
from bpc.client.shapes import Page, Stored


class Operations(Calls):
    """The operations, in the order of the document.

    Lists take `limit`, how many items a page has at most, and `cursor`, the `next_cursor` of the page before. Writes
    take an `idempotency_key`; without one they get a new one.
    """

    async def create_document(
        self,
        *,
        kind: Literal["BOM", "PCF", "DUE_DILIGENCE", "OTHER"],
        external_ref: str | None = None,
        idempotency_key: str | None = None,
    ) -> DocumentMade:
        """Create a document, for versions to be uploaded to. Needs `docs:upload`.

        kind: What its versions are; OTHER is stored and not read.
        external_ref: Its name in another system.
        """
        return await self._json(
            DocumentMade,
            "POST",
            "/v1/documents",
            body=given({"kind": kind, "external_ref": external_ref}),
            key=idempotency_key or new_key(),
        )

    async def list_documents(self, *, limit: int = 50, cursor: str | None = None) -> Page[Document]:
        """List documents, newest first. Needs `docs:read`."""
        return await self._json(Page[Document], "GET", "/v1/documents", query={"limit": limit, "cursor": cursor})

    async def get_document(self, document_id: UUID) -> Document:
        """Get a document. Needs `docs:read`."""
        return await self._json(Document, "GET", f"/v1/documents/{part(document_id)}")

    async def upload_document_version(
        self, document_id: UUID, *, mime_type: str, content_base64: str, idempotency_key: str | None = None
    ) -> VersionMade:
        """Upload a version. Its facts are read by a job; bytes that are known already are a CONFLICT that
        names them. A `mime_type` that the bytes contradict is refused; one that says little is kept, and
        the bytes decide. Needs `docs:upload`.

        content_base64: The bytes, base64 with padding.
        """
        return await self._json(
            VersionMade,
            "POST",
            f"/v1/documents/{part(document_id)}/versions",
            body=given({"mime_type": mime_type, "content_base64": content_base64}),
            key=idempotency_key or new_key(),
        )

    async def list_document_versions(
        self, document_id: UUID, *, limit: int = 50, cursor: str | None = None
    ) -> Page[DocumentVersion]:
        """List the versions of a document, newest first. Needs `docs:read`."""
        return await self._json(
            Page[DocumentVersion],
            "GET",
            f"/v1/documents/{part(document_id)}/versions",
            query={"limit": limit, "cursor": cursor},
        )

    async def get_document_version(self, document_version_id: UUID) -> DocumentVersionRead:
        """Get what is known of a version, and what was found when its facts were read. Needs `docs:read`."""
        return await self._json(DocumentVersionRead, "GET", f"/v1/document-versions/{part(document_version_id)}")

    async def get_document_content(self, document_version_id: UUID, *, known: Stored | None = None) -> Stored:
        """Download the bytes of a version, as they were uploaded. Needs `docs:read`."""
        return await self._stored("GET", f"/v1/document-versions/{part(document_version_id)}/content", known=known)

    async def ingest_document(
        self, document_id: UUID, *, file_url: str, mime_type: str | None = None, idempotency_key: str | None = None
    ) -> IngestionRequested:
        """Fetch a file as a new version of a document. A job does it, and goes on where it was when the
        connection breaks. Bytes that are a version already make no second one: the job's result names it.
        Needs `docs:upload`.

        file_url: Where the file is: an https URL, or `file:///…` in a folder that this installation opens
            to it.
        mime_type: What it is; by its bytes if left out. Bytes that contradict it are refused.
        """
        return await self._json(
            IngestionRequested,
            "POST",
            f"/v1/documents/{part(document_id)}/ingest",
            body=given({"file_url": file_url, "mime_type": mime_type}),
            key=idempotency_key or new_key(),
        )

    async def get_document_text(self, document_version_id: UUID) -> DocumentText:
        """Get the text of a version that is a PDF. Needs `docs:read`."""
        return await self._json(DocumentText, "GET", f"/v1/document-versions/{part(document_version_id)}/text")

    async def list_facts(
        self,
        *,
        fact_type: str | None = None,
        fact_key_prefix: str | None = None,
        document_version_id: UUID | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Fact]:
        """List facts, newest first. Two filters give another order: with `fact_key_prefix` they come by key,
        from the last to the first, and newest first for one key; those of one document come by id, from the
        last to the first. Needs `docs:read`.

        fact_type: Only facts of this type.
        fact_key_prefix: Only facts whose key starts with this, in the order of keys.
        document_version_id: Only facts that this document version says.
        """
        return await self._json(
            Page[Fact],
            "GET",
            "/v1/facts",
            query={
                "fact_type": fact_type,
                "fact_key_prefix": fact_key_prefix,
                "document_version_id": document_version_id,
                "limit": limit,
                "cursor": cursor,
            },
        )

    async def get_fact(self, fact_id: UUID) -> FactDetails:
        """Get a fact with its sources, the first thousand of them. Needs `docs:read`."""
        return await self._json(FactDetails, "GET", f"/v1/facts/{part(fact_id)}")

    async def create_snapshot(self, *, label: str | None = None, idempotency_key: str | None = None) -> SnapshotMade:
        """Create a snapshot, for facts to be added to. Needs `snapshot:build`.

        label: What people call it.
        """
        return await self._json(
            SnapshotMade, "POST", "/v1/snapshots", body=given({"label": label}), key=idempotency_key or new_key()
        )

    async def list_snapshots(self, *, limit: int = 50, cursor: str | None = None) -> Page[ListedSnapshot]:
        """List snapshots, newest first. Needs `snapshot:build`."""
        return await self._json(Page[ListedSnapshot], "GET", "/v1/snapshots", query={"limit": limit, "cursor": cursor})

    async def get_snapshot(self, snapshot_id: UUID) -> Snapshot:
        """Get a snapshot. Needs `snapshot:build`."""
        return await self._json(Snapshot, "GET", f"/v1/snapshots/{part(snapshot_id)}")

    async def list_snapshot_items(self, snapshot_id: UUID, *, limit: int = 50, cursor: str | None = None) -> Page[Fact]:
        """List the facts of a snapshot. They come by id, from the last to the first, not by when they were
        added. Needs `docs:read` as well: it shows what documents say. Needs `snapshot:build`.
        """
        return await self._json(
            Page[Fact], "GET", f"/v1/snapshots/{part(snapshot_id)}/items", query={"limit": limit, "cursor": cursor}
        )

    async def add_snapshot_items(
        self,
        snapshot_id: UUID,
        *,
        fact_id: UUID | None = None,
        fact_ids: list[UUID] | None = None,
        idempotency_key: str | None = None,
    ) -> ItemsChanged:
        """Add facts to a snapshot, all or none. What is in it already stays. Needs `snapshot:build`."""
        return await self._json(
            ItemsChanged,
            "POST",
            f"/v1/snapshots/{part(snapshot_id)}/items",
            body=given({"fact_id": fact_id, "fact_ids": fact_ids}),
            key=idempotency_key or new_key(),
        )

    async def remove_snapshot_item(
        self, snapshot_id: UUID, fact_id: UUID, *, idempotency_key: str | None = None
    ) -> ItemsChanged:
        """Remove a fact from a snapshot. Needs `snapshot:build`."""
        return await self._json(
            ItemsChanged,
            "DELETE",
            f"/v1/snapshots/{part(snapshot_id)}/items/{part(fact_id)}",
            key=idempotency_key or new_key(),
        )

    async def build_snapshot(self, snapshot_id: UUID, *, idempotency_key: str | None = None) -> BuildStarted:
        """Have a snapshot checked, which makes it READY. The job fails if two of its facts have the same type
        and key. Until its facts change, asking again names the same job. Needs `snapshot:build`.
        """
        return await self._json(
            BuildStarted, "POST", f"/v1/snapshots/{part(snapshot_id)}/build", key=idempotency_key or new_key()
        )

    async def seal_snapshot(self, snapshot_id: UUID, *, idempotency_key: str | None = None) -> SnapshotSealed:
        """Seal a READY snapshot: it never changes again, and passports can be compiled from it. Needs
        `snapshot:seal`.
        """
        return await self._json(
            SnapshotSealed, "POST", f"/v1/snapshots/{part(snapshot_id)}/seal", key=idempotency_key or new_key()
        )

    async def create_rule_package(
        self, *, name: str, description: str | None = None, idempotency_key: str | None = None
    ) -> RulePackageMade:
        """Create a rule package, for versions to be added to. Needs `rules:write`.

        name: No other package of the tenant has it.
        """
        return await self._json(
            RulePackageMade,
            "POST",
            "/v1/rule-packages",
            body=given({"name": name, "description": description}),
            key=idempotency_key or new_key(),
        )

    async def list_rule_packages(self, *, limit: int = 50, cursor: str | None = None) -> Page[RulePackage]:
        """List rule packages, newest first. Needs `rules:read`."""
        return await self._json(Page[RulePackage], "GET", "/v1/rule-packages", query={"limit": limit, "cursor": cursor})

    async def get_rule_package(self, rule_package_id: UUID) -> RulePackageDetails:
        """Get a rule package and how its versions stand. Needs `rules:read`."""
        return await self._json(RulePackageDetails, "GET", f"/v1/rule-packages/{part(rule_package_id)}")

    async def create_rule_version(
        self, rule_package_id: UUID, *, dsl_source: str, tests_source: str, idempotency_key: str | None = None
    ) -> RuleVersionMade:
        """Add a version: a DRAFT until its tests have passed. Rules with mistakes are refused with the code of
        the first and all of them in `details.diagnostics`. Texts that are a version already are a CONFLICT
        that names it. Needs `rules:write`.

        dsl_source: The rules, the text of `rules.bpc`: at most 1 MiB in UTF-8, without byte order mark.
        tests_source: Their tests, the text of `tests.bpc`: as large at most, and may be empty.
        """
        return await self._json(
            RuleVersionMade,
            "POST",
            f"/v1/rule-packages/{part(rule_package_id)}/versions",
            body=given({"dsl_source": dsl_source, "tests_source": tests_source}),
            key=idempotency_key or new_key(),
        )

    async def list_rule_versions(
        self, rule_package_id: UUID, *, limit: int = 50, cursor: str | None = None
    ) -> Page[RuleVersion]:
        """List the versions of a rule package, newest first. Needs `rules:read`."""
        return await self._json(
            Page[RuleVersion],
            "GET",
            f"/v1/rule-packages/{part(rule_package_id)}/versions",
            query={"limit": limit, "cursor": cursor},
        )

    async def check_rules(self, *, dsl_source: str, tests_source: str | None = None) -> RulesChecked:
        """Find the mistakes in rules, for editors. Nothing is stored, and rules with mistakes are no error
        here. Needs `rules:read`.

        dsl_source: The rules, the text of `rules.bpc`: at most 1 MiB in UTF-8, without byte order mark.
        tests_source: Their tests, the text of `tests.bpc`: as large at most, and may be empty.
        """
        return await self._json(
            RulesChecked,
            "POST",
            "/v1/rules:check",
            body=given({"dsl_source": dsl_source, "tests_source": tests_source}),
        )

    async def get_rule_version(self, rule_package_version_id: UUID) -> RuleVersionDetails:
        """Get what is known of a version: its fields, and how its tests went last. Needs `rules:read`."""
        return await self._json(RuleVersionDetails, "GET", f"/v1/rule-package-versions/{part(rule_package_version_id)}")

    async def retire_rule_version(
        self, rule_package_version_id: UUID, *, idempotency_key: str | None = None
    ) -> RuleVersion:
        """Retire a version, whatever its status. Nothing is deleted: passports made with it can still be
        checked. Needs `rules:publish`.
        """
        return await self._json(
            RuleVersion,
            "DELETE",
            f"/v1/rule-package-versions/{part(rule_package_version_id)}",
            key=idempotency_key or new_key(),
        )

    async def get_rules_source(self, rule_package_version_id: UUID, *, known: Stored | None = None) -> Stored:
        """Download the rules of a version, as they were sent. Needs `rules:read`."""
        return await self._stored(
            "GET", f"/v1/rule-package-versions/{part(rule_package_version_id)}/rules.bpc", known=known
        )

    async def get_tests_source(self, rule_package_version_id: UUID, *, known: Stored | None = None) -> Stored:
        """Download the tests of a version, as they were sent. Needs `rules:read`."""
        return await self._stored(
            "GET", f"/v1/rule-package-versions/{part(rule_package_version_id)}/tests.bpc", known=known
        )

    async def run_rule_tests(
        self, rule_package_version_id: UUID, *, seed: int | None = None, idempotency_key: str | None = None
    ) -> TestsOrdered:
        """Have the tests of a DRAFT or VALIDATED version run by a job. A DRAFT that passes 500 cases is
        VALIDATED. Needs `rules:test`.

        seed: Which cases of the properties are made.
        """
        return await self._json(
            TestsOrdered,
            "POST",
            f"/v1/rule-package-versions/{part(rule_package_version_id)}/tests:run",
            body=given({"seed": seed}),
            key=idempotency_key or new_key(),
        )

    async def list_rule_test_runs(
        self, rule_package_version_id: UUID, *, limit: int = 50, cursor: str | None = None
    ) -> Page[RuleTestRun]:
        """List the test runs of a version that are over, the last one first. Needs `rules:read`."""
        return await self._json(
            Page[RuleTestRun],
            "GET",
            f"/v1/rule-package-versions/{part(rule_package_version_id)}/test-runs",
            query={"limit": limit, "cursor": cursor},
        )

    async def get_rule_test_run(self, rule_package_version_id: UUID, run_id: UUID) -> RuleTestRunDetails:
        """Get a test run with every place of the rules that no test reached. Needs `rules:read`."""
        return await self._json(
            RuleTestRunDetails,
            "GET",
            f"/v1/rule-package-versions/{part(rule_package_version_id)}/test-runs/{part(run_id)}",
        )

    async def publish_rule_version(
        self, rule_package_version_id: UUID, *, idempotency_key: str | None = None
    ) -> RuleVersion:
        """Publish a VALIDATED version, if its newest test run passed with at least 500 cases. Needs
        `rules:publish`.
        """
        return await self._json(
            RuleVersion,
            "POST",
            f"/v1/rule-package-versions/{part(rule_package_version_id)}:publish",
            key=idempotency_key or new_key(),
        )

    async def deprecate_rule_version(
        self, rule_package_version_id: UUID, *, idempotency_key: str | None = None
    ) -> RuleVersion:
        """Take a PUBLISHED version out of use: it compiles nothing more, and what it compiled stays as it is.
        Needs `rules:publish`.
        """
        return await self._json(
            RuleVersion,
            "POST",
            f"/v1/rule-package-versions/{part(rule_package_version_id)}:deprecate",
            key=idempotency_key or new_key(),
        )

    async def create_battery_product(self, *, sku: str, name: str, idempotency_key: str | None = None) -> ProductMade:
        """Create a product. A SKU that is taken is a CONFLICT that names its product. Needs `tenant:admin`.

        sku: Names one product of the tenant, for good. Without `:`.
        name: What people call it; passports show it.
        """
        return await self._json(
            ProductMade,
            "POST",
            "/v1/battery-products",
            body=given({"sku": sku, "name": name}),
            key=idempotency_key or new_key(),
        )

    async def list_battery_products(self, *, limit: int = 50, cursor: str | None = None) -> Page[BatteryProduct]:
        """List products, newest first. Needs `passport:read`."""
        return await self._json(
            Page[BatteryProduct], "GET", "/v1/battery-products", query={"limit": limit, "cursor": cursor}
        )

    async def get_battery_product(self, battery_product_id: UUID) -> BatteryProduct:
        """Get a product. Needs `passport:read`."""
        return await self._json(BatteryProduct, "GET", f"/v1/battery-products/{part(battery_product_id)}")

    async def create_passport(self, *, battery_product_id: UUID, idempotency_key: str | None = None) -> PassportMade:
        """Create the passport of a product. Where there is one, a CONFLICT names it. Needs `passport:compile`.

        battery_product_id: The product it is for; a product has one passport.
        """
        return await self._json(
            PassportMade,
            "POST",
            "/v1/passports",
            body=given({"battery_product_id": battery_product_id}),
            key=idempotency_key or new_key(),
        )

    async def list_passports(self, *, limit: int = 50, cursor: str | None = None) -> Page[Passport]:
        """List passports, newest first. Needs `passport:read`."""
        return await self._json(Page[Passport], "GET", "/v1/passports", query={"limit": limit, "cursor": cursor})

    async def get_passport(self, passport_id: UUID) -> Passport:
        """Get a passport. Needs `passport:read`."""
        return await self._json(Passport, "GET", f"/v1/passports/{part(passport_id)}")

    async def list_passport_versions(
        self, passport_id: UUID, *, limit: int = 50, cursor: str | None = None
    ) -> Page[PassportVersion]:
        """List the versions of a passport, newest first. Needs `passport:read`."""
        return await self._json(
            Page[PassportVersion],
            "GET",
            f"/v1/passports/{part(passport_id)}/versions",
            query={"limit": limit, "cursor": cursor},
        )

    async def compile_passport(
        self, passport_id: UUID, *, snapshot_id: UUID, rule_package_version_id: UUID, idempotency_key: str | None = None
    ) -> CompileRequested:
        """Ask for a new version, compiled of a sealed snapshot by published rules. What it depends on is fixed
        here. Needs `passport:compile`.

        snapshot_id: A snapshot that is SEALED.
        rule_package_version_id: A version of rules that is PUBLISHED.
        """
        return await self._json(
            CompileRequested,
            "POST",
            f"/v1/passports/{part(passport_id)}/compile",
            body=given({"snapshot_id": snapshot_id, "rule_package_version_id": rule_package_version_id}),
            key=idempotency_key or new_key(),
        )

    async def bulk_compile(
        self,
        *,
        rule_package_version_id: UUID,
        items: list[BulkItem] | None = None,
        all: bool | None = None,
        activate: bool | None = None,
        idempotency_key: str | None = None,
    ) -> RunRequested:
        """Ask for passports of many products at once. Each row is done for itself: one that fails stops no
        other. A row makes what is missing: the product (if it has a name), its passport, a sealed snapshot
        of the newest facts. A row whose product a policy denies, or whose activation, fails at once with
        FORBIDDEN. Needs `passport:compile`.

        rule_package_version_id: A version of rules that is PUBLISHED.
        items: Each SKU once.
        all: Every active product of the tenant, instead of `items`.
        activate: Activate each version as soon as it has its QR code.
        """
        return await self._json(
            RunRequested,
            "POST",
            "/v1/passports:bulk-compile",
            body=given(
                {"rule_package_version_id": rule_package_version_id, "items": items, "all": all, "activate": activate}
            ),
            key=idempotency_key or new_key(),
        )

    async def list_compile_runs(self, *, limit: int = 50, cursor: str | None = None) -> Page[ListedRun]:
        """List bulk compiles, newest first. Needs `passport:read`."""
        return await self._json(Page[ListedRun], "GET", "/v1/compile-runs", query={"limit": limit, "cursor": cursor})

    async def get_compile_run(self, run_id: UUID) -> CompileRun:
        """Get a bulk compile: how many of its rows stand how. Needs `passport:read`."""
        return await self._json(CompileRun, "GET", f"/v1/compile-runs/{part(run_id)}")

    async def list_compile_run_rows(
        self,
        run_id: UUID,
        *,
        status: Literal["WAITING", "COMPILING", "ISSUED", "ACTIVE", "REMOVED", "FAILED", "CANCELLED"] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[CompileRunRow]:
        """List the rows of a bulk compile in the order they were asked for. `status` is found out row by row,
        so a page of a rare one takes as long as the whole run. Needs `passport:read`.
        """
        return await self._json(
            Page[CompileRunRow],
            "GET",
            f"/v1/compile-runs/{part(run_id)}/rows",
            query={"status": status, "limit": limit, "cursor": cursor},
        )

    async def cancel_compile_run(self, run_id: UUID, *, idempotency_key: str | None = None) -> CompileRun:
        """Let no row of a bulk compile begin that has not begun. What is under way is finished. Needs
        `passport:compile`.
        """
        return await self._json(
            CompileRun, "POST", f"/v1/compile-runs/{part(run_id)}:cancel", key=idempotency_key or new_key()
        )

    async def get_passport_version(self, passport_version_id: UUID) -> PassportVersion:
        """Get what is known of a version. It is not found until its compile job has succeeded. Needs
        `passport:read`.
        """
        return await self._json(PassportVersion, "GET", f"/v1/passport-versions/{part(passport_version_id)}")

    async def activate_passport_version(
        self, passport_version_id: UUID, *, idempotency_key: str | None = None
    ) -> Activated:
        """Make a signed version the current one; the one that was is SUPERSEDED at the same instant. Needs
        `passport:compile`.
        """
        return await self._json(
            Activated,
            "POST",
            f"/v1/passport-versions/{part(passport_version_id)}/activate",
            key=idempotency_key or new_key(),
        )

    async def revoke_passport_version(
        self, passport_version_id: UUID, *, reason: str, idempotency_key: str | None = None
    ) -> Revoked:
        """Revoke a signed version, for good. A passport whose current version it was has none then. Needs
        `passport:revoke`.

        reason: Why; it goes on record.
        """
        return await self._json(
            Revoked,
            "POST",
            f"/v1/passport-versions/{part(passport_version_id)}/revoke",
            body=given({"reason": reason}),
            key=idempotency_key or new_key(),
        )

    async def replay_passport_version(
        self, passport_version_id: UUID, *, idempotency_key: str | None = None
    ) -> Replayed:
        """Compile a version again from what was kept and compare every byte. What is found goes on record
        either way. Needs `passport:replay`.
        """
        return await self._json(
            Replayed,
            "POST",
            f"/v1/passport-versions/{part(passport_version_id)}/replay",
            key=idempotency_key or new_key(),
        )

    async def get_payload(self, passport_version_id: UUID, *, known: Stored | None = None) -> Stored:
        """Get the passport itself, canonical JSON. Needs `passport:read`."""
        return await self._stored("GET", f"/v1/passport-versions/{part(passport_version_id)}/payload", known=known)

    async def get_proof(self, passport_version_id: UUID, *, known: Stored | None = None) -> Stored:
        """Get the proof of every value, canonical JSON. Needs `passport:read`."""
        return await self._stored("GET", f"/v1/passport-versions/{part(passport_version_id)}/proof", known=known)

    async def get_receipt(self, passport_version_id: UUID, *, known: Stored | None = None) -> Stored:
        """Get the receipt, canonical JSON; with its signature once it is signed. Needs `passport:read`."""
        return await self._stored("GET", f"/v1/passport-versions/{part(passport_version_id)}/receipt", known=known)

    async def get_qr_code(self, passport_version_id: UUID, *, known: Stored | None = None) -> Stored:
        """Get the image of the QR code. It is not found until its job has made it. Needs `passport:read`."""
        return await self._stored("GET", f"/v1/passport-versions/{part(passport_version_id)}/qr.png", known=known)

    async def get_bundle(self, passport_version_id: UUID, *, known: Stored | None = None) -> Stored:
        """Get everything a stranger needs to check a version, the snapshot's secret included: for those who
        may see all. Needs `passport:read`.
        """
        return await self._stored("GET", f"/v1/passport-versions/{part(passport_version_id)}/bundle", known=known)

    async def get_view(
        self,
        passport_version_id: UUID,
        *,
        audience: Literal["public", "interest", "authority"],
        known: Stored | None = None,
    ) -> Stored:
        """Get what one audience may see, canonical JSON that still can be checked. Needs `passport:read`.

        audience: Who it is for: it shows what they may see, and of the rest only salted hashes.
        """
        return await self._stored(
            "GET", f"/v1/passport-versions/{part(passport_version_id)}/view", query={"audience": audience}, known=known
        )

    async def create_export(
        self,
        passport_version_id: UUID,
        *,
        format: Literal["PDF", "JSON_LD", "XML", "DATA_POINTS", "BUNDLE"],
        audience: Literal["public", "interest", "authority", "tenant"] | None = None,
        idempotency_key: str | None = None,
    ) -> ExportRequested:
        """Have a signed version made into a PDF, JSON-LD, XML, a list of data points or a bundle. Needs
        `passport:read`.

        format: What it is to be made into.
        audience: Whom it is for; it holds what they may see and nothing else. `tenant` is everything.
            Without it, a PDF is for the `public` and everything else for the `tenant`. A BUNDLE is always
            whole.
        """
        return await self._json(
            ExportRequested,
            "POST",
            f"/v1/passport-versions/{part(passport_version_id)}/exports",
            body=given({"format": format, "audience": audience}),
            key=idempotency_key or new_key(),
        )

    async def list_exports(
        self, passport_version_id: UUID, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Export]:
        """List the exports of a version, newest first. Needs `passport:read`."""
        return await self._json(
            Page[Export],
            "GET",
            f"/v1/passport-versions/{part(passport_version_id)}/exports",
            query={"limit": limit, "cursor": cursor},
        )

    async def get_export(self, export_id: UUID) -> Export:
        """Get what is known of an export. Needs `passport:read`."""
        return await self._json(Export, "GET", f"/v1/exports/{part(export_id)}")

    async def get_export_content(self, export_id: UUID, *, known: Stored | None = None) -> Stored:
        """Get the bytes of an export that is READY. Needs `passport:read`."""
        return await self._stored("GET", f"/v1/exports/{part(export_id)}/content", known=known)

    async def get_json_ld_context(self, *, known: Stored | None = None) -> Stored:
        """Get the context of JSON-LD exports. It is also part of every one of them."""
        return await self._stored("GET", "/v1/contexts/passport.jsonld", known=known)

    async def get_xml_schema(self, *, known: Stored | None = None) -> Stored:
        """Get the XML Schema of XML exports"""
        return await self._stored("GET", "/v1/schemas/passport.xsd", known=known)

    async def list_jobs(
        self,
        *,
        type: str | None = None,
        status: Status | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Job]:
        """List jobs, newest first. `type` is applied to what the other filters find, so a page of a rare type
        among many jobs may take long; `created_after` and `created_before` bound it. Needs `jobs:read`.

        created_after: From this moment on.
        created_before: Before this moment, which is not included.
        """
        return await self._json(
            Page[Job],
            "GET",
            "/v1/jobs",
            query={
                "type": type,
                "status": status,
                "created_after": created_after,
                "created_before": created_before,
                "limit": limit,
                "cursor": cursor,
            },
        )

    async def get_job(self, job_id: UUID) -> Job:
        """Get a job. Needs `jobs:read`."""
        return await self._json(Job, "GET", f"/v1/jobs/{part(job_id)}")

    async def get_job_result(self, job_id: UUID) -> JobResult:
        """Get what a job returned, or the error it ended with; CONFLICT while it is not over. Needs
        `jobs:read`.
        """
        return await self._json(JobResult, "GET", f"/v1/jobs/{part(job_id)}/result")

    async def cancel_job(self, job_id: UUID, *, reason: str | None = None, idempotency_key: str | None = None) -> Job:
        """Cancel a job: at once if it waits; if it runs, it is asked to stop. Needs `jobs:admin`."""
        return await self._json(
            Job,
            "POST",
            f"/v1/jobs/{part(job_id)}:cancel",
            body=given({"reason": reason}),
            key=idempotency_key or new_key(),
        )

    async def retry_job(self, job_id: UUID, *, idempotency_key: str | None = None) -> Job:
        """Run a job again that ended FAILED or DEAD_LETTER, or was cancelled. One that signs needs
        `passport:sign` too. Needs `jobs:admin`.
        """
        return await self._json(Job, "POST", f"/v1/jobs/{part(job_id)}:retry", key=idempotency_key or new_key())

    async def list_events(
        self,
        *,
        aggregate_type: str | None = None,
        aggregate_id: UUID | None = None,
        event_type: str | None = None,
        actor_id: UUID | None = None,
        occurred_after: datetime | None = None,
        occurred_before: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Event]:
        """List audit events, newest first. One filter is looked up: an aggregate by its id, else the type of
        event, else the actor, else the type of aggregate. The others are applied to what it finds, so a
        page of something rare among much may take long; `occurred_after` and `occurred_before` bound it.
        Needs `audit:read`.

        aggregate_type: What was acted on.
        aggregate_id: Which one; needs `aggregate_type`.
        actor_id: Who did it.
        occurred_after: From this moment on.
        occurred_before: Before this moment, which is not included.
        """
        return await self._json(
            Page[Event],
            "GET",
            "/v1/audit/events",
            query={
                "aggregate_type": aggregate_type,
                "aggregate_id": aggregate_id,
                "event_type": event_type,
                "actor_id": actor_id,
                "occurred_after": occurred_after,
                "occurred_before": occurred_before,
                "limit": limit,
                "cursor": cursor,
            },
        )

    async def get_event(self, event_id: UUID) -> Event:
        """Get an audit event. Needs `audit:read`."""
        return await self._json(Event, "GET", f"/v1/audit/events/{part(event_id)}")

    async def verify_events(
        self, *, aggregate_type: str | None = None, aggregate_id: UUID | None = None
    ) -> Verification:
        """Compute all hashes again: of every chain, or of one. Where there are too many for a request, it says
        so. Needs `audit:read`.

        aggregate_type: What was acted on.
        aggregate_id: Which one; needs `aggregate_type`.
        """
        return await self._json(
            Verification,
            "GET",
            "/v1/audit/verify",
            query={"aggregate_type": aggregate_type, "aggregate_id": aggregate_id},
        )

    async def create_actor(
        self,
        *,
        type: Literal["USER", "API_CLIENT", "SERVICE"],
        display_name: str,
        roles: list[str],
        email: str | None = None,
        idempotency_key: str | None = None,
    ) -> Actor:
        """Create an actor with roles. It needs an API key to call. Needs `access:admin`.

        type: A person, a program of somebody else, or a service of ours.
        roles: Names of roles of the tenant.
        email: One actor of a tenant has it.
        """
        return await self._json(
            Actor,
            "POST",
            "/v1/actors",
            body=given({"type": type, "display_name": display_name, "roles": roles, "email": email}),
            key=idempotency_key or new_key(),
        )

    async def list_actors(self, *, limit: int = 50, cursor: str | None = None) -> Page[Actor]:
        """List actors, newest first. Needs `access:admin`."""
        return await self._json(Page[Actor], "GET", "/v1/actors", query={"limit": limit, "cursor": cursor})

    async def get_actor(self, actor_id: UUID) -> Actor:
        """Get an actor. Needs `access:admin`."""
        return await self._json(Actor, "GET", f"/v1/actors/{part(actor_id)}")

    async def change_actor(
        self,
        actor_id: UUID,
        *,
        display_name: str | None = None,
        email: str | None = None,
        is_active: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Actor:
        """Change what an actor is called, or deactivate it. Nobody deactivates themselves or the last
        administrator. Needs `access:admin`.

        email: null removes it.
        is_active: While it is false, none of the actor's keys opens anything.
        """
        return await self._json(
            Actor,
            "PATCH",
            f"/v1/actors/{part(actor_id)}",
            body=given({"display_name": display_name, "email": email, "is_active": is_active}),
            key=idempotency_key or new_key(),
        )

    async def set_actor_roles(self, actor_id: UUID, *, roles: list[str], idempotency_key: str | None = None) -> Actor:
        """Give an actor these roles and no others. The last administrator stays one. Needs `access:admin`.

        roles: Names of roles of the tenant.
        """
        return await self._json(
            Actor,
            "PUT",
            f"/v1/actors/{part(actor_id)}/roles",
            body=given({"roles": roles}),
            key=idempotency_key or new_key(),
        )

    async def create_role(
        self,
        *,
        name: str,
        permissions: list[
            Literal[
                "passport:read",
                "passport:compile",
                "passport:sign",
                "passport:replay",
                "passport:revoke",
                "rules:read",
                "rules:write",
                "rules:publish",
                "rules:test",
                "docs:upload",
                "docs:read",
                "snapshot:build",
                "snapshot:seal",
                "audit:read",
                "access:admin",
                "tenant:admin",
                "jobs:read",
                "jobs:admin",
            ]
        ],
        idempotency_key: str | None = None,
    ) -> Role:
        """Create a role. Needs `access:admin`.

        permissions: What whoever has the role may do.
        """
        return await self._json(
            Role,
            "POST",
            "/v1/roles",
            body=given({"name": name, "permissions": permissions}),
            key=idempotency_key or new_key(),
        )

    async def list_roles(self, *, limit: int = 50, cursor: str | None = None) -> Page[Role]:
        """List roles, newest first. Needs `access:admin`."""
        return await self._json(Page[Role], "GET", "/v1/roles", query={"limit": limit, "cursor": cursor})

    async def get_role(self, role_id: UUID) -> Role:
        """Get a role. Needs `access:admin`."""
        return await self._json(Role, "GET", f"/v1/roles/{part(role_id)}")

    async def set_role_permissions(
        self,
        role_id: UUID,
        *,
        permissions: list[
            Literal[
                "passport:read",
                "passport:compile",
                "passport:sign",
                "passport:replay",
                "passport:revoke",
                "rules:read",
                "rules:write",
                "rules:publish",
                "rules:test",
                "docs:upload",
                "docs:read",
                "snapshot:build",
                "snapshot:seal",
                "audit:read",
                "access:admin",
                "tenant:admin",
                "jobs:read",
                "jobs:admin",
            ]
        ],
        idempotency_key: str | None = None,
    ) -> Role:
        """Give a role these permissions and no others. The last administrator stays one. Needs `access:admin`.

        permissions: What whoever has the role may do.
        """
        return await self._json(
            Role,
            "PUT",
            f"/v1/roles/{part(role_id)}/permissions",
            body=given({"permissions": permissions}),
            key=idempotency_key or new_key(),
        )

    async def list_permissions(self) -> Permissions:
        """List all permissions a role can have. Needs `access:admin`."""
        return await self._json(Permissions, "GET", "/v1/permissions")

    async def create_api_key(
        self,
        *,
        actor_id: UUID,
        label: str | None = None,
        expires_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> ApiKeyMade:
        """Create a key for an active actor. The answer is the only place where it is ever shown. Needs
        `access:admin`.

        actor_id: Whose key it is; it may do what this actor may.
        label: What it is for.
        expires_at: When it ends by itself; left out, it does not.
        """
        return await self._json(
            ApiKeyMade,
            "POST",
            "/v1/api-keys",
            body=given({"actor_id": actor_id, "label": label, "expires_at": expires_at}),
            key=idempotency_key or new_key(),
        )

    async def list_api_keys(self, *, limit: int = 50, cursor: str | None = None) -> Page[ApiKey]:
        """List keys, newest first, without what would open a door. Needs `access:admin`."""
        return await self._json(Page[ApiKey], "GET", "/v1/api-keys", query={"limit": limit, "cursor": cursor})

    async def get_api_key(self, api_key_id: UUID) -> ApiKey:
        """Get what is known of a key. Needs `access:admin`."""
        return await self._json(ApiKey, "GET", f"/v1/api-keys/{part(api_key_id)}")

    async def revoke_api_key(self, api_key_id: UUID, *, idempotency_key: str | None = None) -> ApiKey:
        """End a key for good, from the next request on. Needs `access:admin`."""
        return await self._json(
            ApiKey, "POST", f"/v1/api-keys/{part(api_key_id)}:revoke", key=idempotency_key or new_key()
        )

    async def rotate_api_key(
        self,
        api_key_id: UUID,
        *,
        expires_at: datetime | None = None,
        old_expires_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> ApiKeyMade:
        """Create a second key for the same actor. Both are valid until the old one ends or is revoked. Needs
        `access:admin`.

        expires_at: When the new key ends by itself; left out, it does not.
        old_expires_at: When the old key ends, unless it ends sooner; left out, it stays as it is.
        """
        return await self._json(
            ApiKeyMade,
            "POST",
            f"/v1/api-keys/{part(api_key_id)}:rotate",
            body=given({"expires_at": expires_at, "old_expires_at": old_expires_at}),
            key=idempotency_key or new_key(),
        )

    async def create_policy(
        self,
        *,
        effect: Literal["ALLOW", "DENY"],
        target: str,
        name: str,
        priority: int | None = None,
        policy_json: Conditions | None = None,
        idempotency_key: str | None = None,
    ) -> Policy:
        """Create a policy; its version 1 is in force from the next request on. Needs `access:admin`.

        effect: DENY refuses whatever the roles say; ALLOW grants all but the two admin rights.
        target: A permission; `*` may stand at its end.
        priority: Lower ones are tried first.
        policy_json: When it applies; left out, always.
        """
        return await self._json(
            Policy,
            "POST",
            "/v1/policies",
            body=given(
                {"effect": effect, "target": target, "name": name, "priority": priority, "policy_json": policy_json}
            ),
            key=idempotency_key or new_key(),
        )

    async def list_policies(self, *, limit: int = 50, cursor: str | None = None) -> Page[Policy]:
        """List policies with the version in force, newest first. Needs `access:admin`."""
        return await self._json(Page[Policy], "GET", "/v1/policies", query={"limit": limit, "cursor": cursor})

    async def dry_run_policies(
        self,
        *,
        actor_id: UUID,
        permission: Literal[
            "passport:read",
            "passport:compile",
            "passport:sign",
            "passport:replay",
            "passport:revoke",
            "rules:read",
            "rules:write",
            "rules:publish",
            "rules:test",
            "docs:upload",
            "docs:read",
            "snapshot:build",
            "snapshot:seal",
            "audit:read",
            "access:admin",
            "tenant:admin",
            "jobs:read",
            "jobs:admin",
        ],
        resource: AskedResource | None = None,
        at: datetime | None = None,
    ) -> DryRunAnswer:
        """Say what would be decided, by which policy and why. Nothing changes and nothing is put on record.
        Needs `access:admin`.

        at: When it would be asked; left out, now.
        """
        return await self._json(
            DryRunAnswer,
            "POST",
            "/v1/policies:dry-run",
            body=given({"actor_id": actor_id, "permission": permission, "resource": resource, "at": at}),
        )

    async def get_policy(self, policy_id: UUID) -> Policy:
        """Get a policy with the version in force. Needs `access:admin`."""
        return await self._json(Policy, "GET", f"/v1/policies/{part(policy_id)}")

    async def create_policy_version(
        self,
        policy_id: UUID,
        *,
        effect: Literal["ALLOW", "DENY"],
        target: str,
        priority: int | None = None,
        policy_json: Conditions | None = None,
        idempotency_key: str | None = None,
    ) -> PolicyVersion:
        """Add a version, which is in force instead of the one before from the next request on. Needs
        `access:admin`.

        effect: DENY refuses whatever the roles say; ALLOW grants all but the two admin rights.
        target: A permission; `*` may stand at its end.
        priority: Lower ones are tried first.
        policy_json: When it applies; left out, always.
        """
        return await self._json(
            PolicyVersion,
            "POST",
            f"/v1/policies/{part(policy_id)}/versions",
            body=given({"effect": effect, "target": target, "priority": priority, "policy_json": policy_json}),
            key=idempotency_key or new_key(),
        )

    async def list_policy_versions(
        self, policy_id: UUID, *, limit: int = 50, cursor: str | None = None
    ) -> Page[PolicyVersion]:
        """List the versions of a policy, newest first. Needs `access:admin`."""
        return await self._json(
            Page[PolicyVersion],
            "GET",
            f"/v1/policies/{part(policy_id)}/versions",
            query={"limit": limit, "cursor": cursor},
        )

    async def deactivate_policy(self, policy_id: UUID, *, idempotency_key: str | None = None) -> Policy:
        """Leave no version of a policy in force. A new version puts it in force again. Needs `access:admin`."""
        return await self._json(
            Policy, "POST", f"/v1/policies/{part(policy_id)}:deactivate", key=idempotency_key or new_key()
        )

    async def list_signing_keys(self) -> Page[SigningKey]:
        """List the installation's signing keys, newest first, all on one page. Needs `passport:sign`."""
        return await self._json(Page[SigningKey], "GET", "/v1/signing-keys")

    async def get_public_keys(self, *, known: Stored | None = None) -> Stored:
        """Get all public keys that passports are signed with, retired ones too. `bpc verify --keys` takes the
        answer.
        """
        return await self._stored("GET", "/.well-known/bpc-keys.json", known=known)

    async def create_webhook_endpoint(self, *, url: str, idempotency_key: str | None = None) -> EndpointIssued:
        """Create an endpoint that webhooks are sent to. Its secret is shown in this answer and never again.
        Needs `tenant:admin`.

        url: https (in test and dev also http), a host, maybe port, path and query. No user, no fragment, no
            private address.
        """
        return await self._json(
            EndpointIssued, "POST", "/v1/webhook-endpoints", body=given({"url": url}), key=idempotency_key or new_key()
        )

    async def list_webhook_endpoints(self, *, limit: int = 50, cursor: str | None = None) -> Page[Endpoint]:
        """List endpoints, newest first. Needs `tenant:admin`."""
        return await self._json(
            Page[Endpoint], "GET", "/v1/webhook-endpoints", query={"limit": limit, "cursor": cursor}
        )

    async def get_webhook_endpoint(self, webhook_endpoint_id: UUID) -> Endpoint:
        """Get an endpoint, without its secret. Needs `tenant:admin`."""
        return await self._json(Endpoint, "GET", f"/v1/webhook-endpoints/{part(webhook_endpoint_id)}")

    async def delete_webhook_endpoint(
        self, webhook_endpoint_id: UUID, *, idempotency_key: str | None = None
    ) -> Endpoint:
        """Delete an endpoint: nothing is sent there any more; what was sent stays on record. Needs
        `tenant:admin`.
        """
        return await self._json(
            Endpoint, "DELETE", f"/v1/webhook-endpoints/{part(webhook_endpoint_id)}", key=idempotency_key or new_key()
        )

    async def rotate_webhook_secret(
        self, webhook_endpoint_id: UUID, *, idempotency_key: str | None = None
    ) -> EndpointIssued:
        """Give an endpoint a new secret, shown in this answer and never again. The one before stays valid for
        a while. Needs `tenant:admin`.
        """
        return await self._json(
            EndpointIssued,
            "POST",
            f"/v1/webhook-endpoints/{part(webhook_endpoint_id)}:rotate",
            key=idempotency_key or new_key(),
        )

    async def test_webhook_endpoint(
        self, webhook_endpoint_id: UUID, *, idempotency_key: str | None = None
    ) -> DeliveryAccepted:
        """Send an endpoint a webhook that tells of nothing but itself. Its type is `webhook.test`. Needs
        `tenant:admin`.
        """
        return await self._json(
            DeliveryAccepted,
            "POST",
            f"/v1/webhook-endpoints/{part(webhook_endpoint_id)}:test",
            key=idempotency_key or new_key(),
        )

    async def create_webhook_subscription(
        self,
        *,
        webhook_endpoint_id: UUID,
        event_type: Literal[
            "document.version.validated",
            "rules.version.published",
            "passport.version.signed",
            "passport.version.active",
            "passport.version.revoked",
            "passport.version.mismatch",
        ],
        idempotency_key: str | None = None,
    ) -> Subscription:
        """Tell an endpoint about one type of event from now on. Needs `tenant:admin`."""
        return await self._json(
            Subscription,
            "POST",
            "/v1/webhook-subscriptions",
            body=given({"webhook_endpoint_id": webhook_endpoint_id, "event_type": event_type}),
            key=idempotency_key or new_key(),
        )

    async def list_webhook_subscriptions(
        self, *, webhook_endpoint_id: UUID | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Subscription]:
        """List subscriptions, newest first. Needs `tenant:admin`.

        webhook_endpoint_id: Of this endpoint only.
        """
        return await self._json(
            Page[Subscription],
            "GET",
            "/v1/webhook-subscriptions",
            query={"webhook_endpoint_id": webhook_endpoint_id, "limit": limit, "cursor": cursor},
        )

    async def delete_webhook_subscription(
        self, webhook_subscription_id: UUID, *, idempotency_key: str | None = None
    ) -> Subscription:
        """End a subscription. Needs `tenant:admin`."""
        return await self._json(
            Subscription,
            "DELETE",
            f"/v1/webhook-subscriptions/{part(webhook_subscription_id)}",
            key=idempotency_key or new_key(),
        )

    async def list_webhook_deliveries(
        self,
        *,
        webhook_endpoint_id: UUID | None = None,
        status: Literal["PENDING", "DELIVERED", "FAILED"] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """List what was sent or is to be sent, newest first. Needs `tenant:admin`.

        webhook_endpoint_id: Of this endpoint only.
        """
        return await self._json(
            Page[Delivery],
            "GET",
            "/v1/webhook-deliveries",
            query={"webhook_endpoint_id": webhook_endpoint_id, "status": status, "limit": limit, "cursor": cursor},
        )

    async def get_webhook_delivery(self, webhook_delivery_id: UUID) -> DeliveryDetail:
        """Get a delivery, with what the endpoint answered last. Needs `tenant:admin`."""
        return await self._json(DeliveryDetail, "GET", f"/v1/webhook-deliveries/{part(webhook_delivery_id)}")

    async def redeliver_webhook(
        self, webhook_delivery_id: UUID, *, idempotency_key: str | None = None
    ) -> DeliveryAccepted:
        """Send the same event again to the same endpoint, under a new delivery id; for one that has ended.
        Needs `tenant:admin`.
        """
        return await self._json(
            DeliveryAccepted,
            "POST",
            f"/v1/webhook-deliveries/{part(webhook_delivery_id)}:redeliver",
            key=idempotency_key or new_key(),
        )

    async def query_graphql(
        self, *, query: str, variables: dict[str, Any] | None = None, operation_name: str | None = None
    ) -> GraphQLAnswer:
        """Ask a GraphQL query. Each field needs the permission of its REST route; what is denied is null, with
        an error. Needs `passport:read`.
        """
        return await self._json(
            GraphQLAnswer,
            "POST",
            "/v1/graphql",
            body=given({"query": query, "variables": variables, "operationName": operation_name}),
        )

    async def get_live(self) -> Live:
        """Say that the process answers"""
        return await self._json(Live, "GET", "/v1/health/live")

    async def get_ready(self) -> Ready:
        """Say whether the process can do its work. An answer may be a second old; details name the checks that
        fail.
        """
        return await self._json(Ready, "GET", "/v1/health/ready")

    async def get_metrics(self, *, known: Stored | None = None) -> Stored:
        """Get the figures of this process; under `bpc up`, of its workers too. Switched off, there is no such
        route.
        """
        return await self._stored("GET", "/v1/metrics", known=known)

    async def get_document_schema(
        self, kind: Literal["BOM", "PCF", "DUE_DILIGENCE"], *, known: Stored | None = None
    ) -> Stored:
        """Get the JSON Schema (2020-12) of the documents of a kind"""
        return await self._stored("GET", f"/v1/schemas/{part(kind)}", known=known)

"""The bodies that the API answers and takes. Made by `make cases` from the API's OpenAPI document; do not edit."""

from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

from bpc.client.shapes import Model


class DocumentMade(Model):
    document_id: UUID
    kind: Literal["BOM", "PCF", "DUE_DILIGENCE", "OTHER"]


class Document(Model):
    document_id: UUID
    kind: Literal["BOM", "PCF", "DUE_DILIGENCE", "OTHER"]
    external_ref: str | None
    created_at: datetime


class VersionMade(Model):
    document_version_id: UUID
    version: int
    sha256: str
    status: Literal["UPLOADED", "VALIDATED", "REJECTED"]
    job_id: UUID | None
    """The job that reads its facts; null for kind OTHER."""


class DocumentVersion(Model):
    document_version_id: UUID
    document_id: UUID
    version: int
    status: Literal["UPLOADED", "VALIDATED", "REJECTED"]
    mime_type: str
    sha256: str
    size: int | None
    """Bytes; null once retention has removed them."""
    uploaded_at: datetime
    content_removed_at: datetime | None


class Remark(Model):
    """Something about a document, and where in it."""

    at: str
    says: str


class DocumentVersionRead(Model):
    """A version with what was found when its facts were read: the first hundred of each, and how many
    there are.
    """

    document_version_id: UUID
    document_id: UUID
    version: int
    status: Literal["UPLOADED", "VALIDATED", "REJECTED"]
    mime_type: str
    sha256: str
    size: int | None
    """Bytes; null once retention has removed them."""
    uploaded_at: datetime
    content_removed_at: datetime | None
    problems: list[Remark]
    """Why it was rejected."""
    problems_total: int
    warnings: list[Remark]
    """What was left out of its facts, and what was rounded."""
    warnings_total: int


class IngestionRequested(Model):
    job_id: UUID
    """The job that fetches it; its result names the version."""


class DocumentText(Model):
    """The text of a PDF, or why there is none."""

    document_version_id: UUID
    pages: int | None
    text: str | None
    """Form feeds stand between its pages."""
    problem: str | None
    """Why there is no text."""


class FactSource(Model):
    document_version_id: UUID
    source_path: str
    """Where in the document."""


class Fact(Model):
    fact_id: UUID
    fact_type: str
    fact_key: str
    """What it is about."""
    schema_version: int
    payload: dict[str, Any]
    """Its members, as the fact schema types them; an absent member is not there."""
    payload_hash: str
    """SHA-256 of the payload's canonical bytes."""
    source_document_version_id: UUID
    """The document that said it first."""
    source_path: str
    """Where in that document."""
    sources: list[FactSource]
    """Places that say it: in lists at most a hundred, else at most a thousand."""
    created_at: datetime


class FactDetails(Model):
    fact_id: UUID
    fact_type: str
    fact_key: str
    """What it is about."""
    schema_version: int
    payload: dict[str, Any]
    """Its members, as the fact schema types them; an absent member is not there."""
    payload_hash: str
    """SHA-256 of the payload's canonical bytes."""
    source_document_version_id: UUID
    """The document that said it first."""
    source_path: str
    """Where in that document."""
    sources: list[FactSource]
    """Places that say it: in lists at most a hundred, else at most a thousand."""
    created_at: datetime
    sources_total: int
    """How many places say it; `sources` has the first thousand."""


class SnapshotMade(Model):
    snapshot_id: UUID
    status: Literal["BUILDING", "READY", "SEALED"]


class ListedSnapshot(Model):
    snapshot_id: UUID
    status: Literal["BUILDING", "READY", "SEALED"]
    label: str | None
    created_at: datetime
    sealed_at: datetime | None
    snapshot_hash: str | None
    """SHA-256 of its canonical bytes; null until it is sealed."""


class Snapshot(Model):
    snapshot_id: UUID
    status: Literal["BUILDING", "READY", "SEALED"]
    label: str | None
    created_at: datetime
    sealed_at: datetime | None
    snapshot_hash: str | None
    """SHA-256 of its canonical bytes; null until it is sealed."""
    count: int
    """How many facts it has."""


class ItemsChanged(Model):
    snapshot_id: UUID
    status: Literal["BUILDING", "READY", "SEALED"]
    """A READY snapshot is BUILDING again once its facts change."""
    count: int
    """How many facts it has now."""


class BuildStarted(Model):
    job_id: UUID


class SnapshotSealed(Model):
    snapshot_id: UUID
    status: Literal["BUILDING", "READY", "SEALED"]
    snapshot_hash: str


class RulePackageMade(Model):
    rule_package_id: UUID


class RulePackage(Model):
    rule_package_id: UUID
    name: str
    description: str | None
    created_at: datetime


class RuleVersion(Model):
    rule_package_version_id: UUID
    rule_package_id: UUID
    version: int
    """1, 2, 3 … within the package."""
    status: Literal["DRAFT", "VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED"]
    """Only a PUBLISHED version compiles passports."""
    created_at: datetime
    published_at: datetime | None
    compiler_min_build: str
    """The level of the rule language that it needs."""
    dsl_sha256: str
    tests_sha256: str


class RulePackageDetails(Model):
    rule_package_id: UUID
    name: str
    description: str | None
    created_at: datetime
    newest_version: RuleVersion | None
    """The one with the highest number."""
    versions_by_status: dict[str, int]
    """How many versions there are in each status that occurs."""


class RuleVersionMade(Model):
    rule_package_version_id: UUID
    version: int
    status: Literal["DRAFT", "VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED"]
    dsl_sha256: str
    tests_sha256: str


class RuleField(Model):
    field_path: str
    field_type: str
    """Its type as it is written in rules."""
    audiences: list[str]
    """Who sees it, sorted; nobody if empty."""
    required: bool
    """Whether every passport has it: false exactly for `Opt(…)`."""


class RulesChecked(Model):
    diagnostics: list[dict[str, Any]]
    """Mistakes and doubts, each with `severity`, `code`, `kind`, `message`, `file`, `line`, `column`,
    `end_line`, `end_column` (exclusive), `help` and `notes`: what `bpc rules check --json` prints.
    """
    fields: list[RuleField]
    """By path; empty if there is an error."""


class Reached(Model):
    """How many places of one kind the tests came to."""

    total: int
    reached: int
    percent: int


class RuleCoverage(Model):
    fields: Reached
    branches: Reached
    assertions: Reached


class RuleTestError(Model):
    """The error that made a test fail. Facts that fit no schema have neither field nor place."""

    code: str
    rule_code: str | None
    """The code that the rule itself gave."""
    message: str
    field: str | None
    file: str
    line: int | None
    column: int | None


class RuleTestFact(Model):
    fact_type: str
    fact_key: str
    schema_version: int
    payload: dict[str, Any]


class RuleTestCase(Model):
    """A case of a property that failed: the simplest facts and variable that fail in the same way."""

    number: int
    facts: list[RuleTestFact]
    variables: dict[str, Any]
    """By name; values as payloads write them."""
    command: str
    """Runs this case alone."""


class RuleTestFailure(Model):
    """An expectation that was not met, and where it stands."""

    test: str
    kind: Literal["example", "property"]
    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    error: RuleTestError | None
    case: RuleTestCase | None
    """Of a property; null for an example."""


class RuleTestRun(Model):
    run_id: UUID
    rule_package_version_id: UUID
    seed: int
    status: Literal["PASSED", "FAILED"]
    cases: int
    """Cases that count: those whose premises held."""
    passed: int
    failed: int
    discarded: int
    """Cases whose premises did not hold."""
    coverage: RuleCoverage | None
    """Null where it was not kept. A run that is asked for by its id also lists what is `unreached`."""
    failure: RuleTestFailure | None
    """The first failure, as `bpc rules test --json` prints it."""
    created_at: datetime
    """When it was over."""


class RuleVersionDetails(Model):
    rule_package_version_id: UUID
    rule_package_id: UUID
    version: int
    """1, 2, 3 … within the package."""
    status: Literal["DRAFT", "VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED"]
    """Only a PUBLISHED version compiles passports."""
    created_at: datetime
    published_at: datetime | None
    compiler_min_build: str
    """The level of the rule language that it needs."""
    dsl_sha256: str
    tests_sha256: str
    fields: list[RuleField]
    """By path."""
    newest_run: RuleTestRun | None
    """The test run that ended last; it decides about publishing."""


class TestsOrdered(Model):
    run_id: UUID
    """The run; it can be read when its job is over."""
    job_id: UUID


class Unreached(Model):
    """A place of the rules that no test came to."""

    kind: str
    label: str
    file: str
    line: int
    column: int


class RuleCoverageDetails(Model):
    fields: Reached
    branches: Reached
    assertions: Reached
    unreached: list[Unreached]
    """In the order of the text."""


class RuleTestRunDetails(Model):
    run_id: UUID
    rule_package_version_id: UUID
    seed: int
    status: Literal["PASSED", "FAILED"]
    cases: int
    """Cases that count: those whose premises held."""
    passed: int
    failed: int
    discarded: int
    """Cases whose premises did not hold."""
    coverage: RuleCoverageDetails | None
    """Null where it was not kept."""
    failure: RuleTestFailure | None
    """The first failure, as `bpc rules test --json` prints it."""
    created_at: datetime
    """When it was over."""


class ProductMade(Model):
    battery_product_id: UUID


class BatteryProduct(Model):
    battery_product_id: UUID
    sku: str
    name: str
    is_active: bool
    created_at: datetime


class PassportMade(Model):
    passport_id: UUID


class Passport(Model):
    passport_id: UUID
    battery_product_id: UUID
    current_passport_version_id: UUID | None
    """The version that is ACTIVE; null where none is."""
    created_at: datetime


class PassportVersion(Model):
    passport_version_id: UUID
    passport_id: UUID
    status: Literal["COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED"]
    """COMPILING until it is signed; SIGNED until it is activated."""
    created_at: datetime
    """When it was asked for, which its payload says as `issued_at`."""
    activated_at: datetime | None
    superseded_at: datetime | None
    revoked_at: datetime | None
    snapshot_id: UUID
    rule_package_version_id: UUID
    compiler_build_id: str
    payload_hash: str
    proof_root_hash: str
    receipt_hash: str
    """Of the receipt without its signature: what is signed."""
    signing_key_id: str | None
    """The key that signed it; null while COMPILING."""
    has_qr: bool
    """Whether its QR code is there."""


class CompileRequested(Model):
    job_id: UUID
    """The job that compiles. Signing and the QR code are jobs that follow it."""
    passport_version_id: UUID
    """The version, which is there when the job has succeeded."""
    issued_at: datetime
    """The moment that the passport will say it was issued at."""


class BulkItem(Model):
    """A passport that is wanted."""

    sku: str
    """The product it is for."""
    name: str | None = None
    """The name of the product, if it is to be created where it is not there; that needs `tenant:admin`."""
    snapshot_id: UUID | None = None
    """A sealed snapshot. Without one, a snapshot is made of the newest facts about the SKU."""
    activate: bool | None = None
    """Whether this version is to count; what the request says if null."""


class RunRequested(Model):
    run_id: UUID
    rows: int
    """How many passports are asked for."""


class ListedRun(Model):
    run_id: UUID
    rule_package_version_id: UUID
    activate: bool
    rows: int
    created_at: datetime
    cancelled_at: datetime | None
    """From when on no row began any more."""


class CompileRun(Model):
    run_id: UUID
    rule_package_version_id: UUID
    activate: bool
    rows: int
    created_at: datetime
    cancelled_at: datetime | None
    """From when on no row began any more."""
    counts: dict[str, int]
    """How many rows stand how; a status that no row has is 0."""
    progress: int
    """How many per cent of the rows have come to their end."""
    started_at: datetime | None
    """When the first row began."""
    finished_at: datetime | None
    """When the last row came to its end; null until all have."""


class RowProblem(Model):
    """Why a row failed."""

    code: str
    message: str
    next_step: str


class CompileRunRow(Model):
    row: int
    """Its place in the request, from 1 on."""
    sku: str
    status: Literal["WAITING", "COMPILING", "ISSUED", "ACTIVE", "REMOVED", "FAILED", "CANCELLED"]
    """WAITING has not begun, COMPILING is under way, ISSUED is signed with its QR code, ACTIVE was
    activated, REMOVED was issued and has outlived its time since. It follows from the version and its
    jobs, so it is also true after a retry.
    """
    passport_version_id: UUID | None
    """Known once the row has begun."""
    passport_version_status: str | None
    """What the version is now; null until it is compiled and if removed."""
    job_id: UUID | None
    """The job that is next for it, or was the last."""
    error: RowProblem | None


class Activated(Model):
    passport_version_id: UUID
    status: Literal["COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED"]
    superseded_passport_version_id: UUID | None
    """The version that was ACTIVE until now."""


class Revoked(Model):
    passport_version_id: UUID
    status: Literal["COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED"]


class ReplayStep(Model):
    name: str
    ok: bool
    detail: str


class Replayed(Model):
    status: Literal["OK"] = "OK"
    steps: list[ReplayStep]
    """Every check that was made, in order."""


class ExportRequested(Model):
    export_id: UUID
    job_id: UUID
    """The job that makes it."""


class ExportFault(Model):
    """Why an export was not made."""

    code: str
    message: str


class Export(Model):
    export_id: UUID
    passport_version_id: UUID
    format: Literal["PDF", "JSON_LD", "XML", "DATA_POINTS", "BUNDLE"]
    audience: Literal["public", "interest", "authority", "tenant"]
    """Whom it is for."""
    status: Literal["PENDING", "READY", "FAILED"]
    """PENDING until its job is over."""
    mime_type: str
    file_name: str
    size: int | None
    """Its bytes, once it is READY."""
    sha256: str | None
    """Of its bytes, which is their ETag too."""
    last_error: ExportFault | None
    """Why it FAILED."""
    job_id: UUID
    created_at: datetime
    created_by: UUID | None
    finished_at: datetime | None


Status: TypeAlias = Literal["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "DEAD_LETTER"]


class Progress(Model):
    """What a job says of itself while it runs."""

    percent: int | None
    """0 to 100; null where it does not know."""
    message: str | None
    updated_at: datetime


class JobFault(Model):
    """Why an execution failed."""

    code: str
    message: str
    retryable: bool
    """Whether it was or would be worth another try as it is."""
    details: dict[str, Any]


class Job(Model):
    job_id: UUID
    type: str
    status: Status
    attempts: int
    """Executions that were started."""
    max_attempts: int
    progress: Progress | None
    """How far it says it is."""
    last_error: JobFault | None
    """Of the last execution that failed."""
    created_at: datetime
    scheduled_at: datetime
    """When it may start, or start again."""
    started_at: datetime | None
    finished_at: datetime | None
    priority: int
    """0 is the most urgent, 3 the least."""
    cancel_requested: bool
    batch_id: UUID | None
    correlation_id: str | None
    """Of the request that asked for it."""


class JobResult(Model):
    status: Status
    result: Any
    """What it returned; null unless it SUCCEEDED."""
    error: JobFault | None
    """What it ended with; null if it SUCCEEDED."""


class Event(Model):
    event_id: UUID
    """Made of the first 16 bytes of `event_hash`."""
    aggregate_type: str
    """What was acted on."""
    aggregate_id: UUID
    aggregate_version: int
    """Its place in the chain of this aggregate: 1, 2, 3 …"""
    event_type: str
    occurred_at: datetime
    actor_id: UUID | None
    """Who did it; null for what happened by itself."""
    payload: dict[str, Any]
    payload_hash: str
    prev_event_hash: str | None
    """`event_hash` of the event before; null for the first of a chain."""
    event_hash: str


class EventFault(Model):
    aggregate_type: str
    aggregate_id: UUID
    version: int
    says: str


class Verification(Model):
    ok: bool
    """Whether every event is as it was written and follows the one before."""
    complete: bool
    """False where there are more than 1000 faults: the rest is not listed."""
    events: int
    """How many events were looked at."""
    chains: int
    """How many chains they make up, one for each aggregate."""
    faults: list[EventFault]


class Actor(Model):
    actor_id: UUID
    type: Literal["USER", "API_CLIENT", "SERVICE"]
    display_name: str
    email: str | None
    is_active: bool
    """While it is false, none of the actor's keys opens anything."""
    roles: list[str]
    """Names of its roles."""
    created_at: datetime


class Role(Model):
    role_id: UUID
    name: str
    permissions: list[str]
    created_at: datetime


class Permissions(Model):
    """All there are; they come with the release."""

    items: list[str]


class ApiKeyMade(Model):
    api_key_id: UUID
    api_key: str
    """The key, shown this once: only its hash is kept."""
    key_prefix: str
    actor_id: UUID
    label: str | None
    created_at: datetime
    expires_at: datetime | None


class ApiKey(Model):
    api_key_id: UUID
    key_prefix: str
    """The part between `bpc_` and the second `_`: names the key, opens nothing."""
    actor_id: UUID
    display_name: str
    """What its actor is called."""
    roles: list[str]
    """Names of its actor's roles."""
    label: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    """To the minute."""


class ResourceCondition(Model):
    type: Literal[
        "Document",
        "DocumentVersion",
        "Fact",
        "DataSnapshot",
        "RulePackage",
        "RulePackageVersion",
        "BatteryProduct",
        "Passport",
        "PassportVersion",
        "CompileRun",
        "Job",
        "Event",
        "Actor",
        "Role",
        "ApiKey",
        "Policy",
        "SigningKey",
        "WebhookEndpoint",
        "WebhookSubscription",
        "WebhookDelivery",
    ]
    ids: list[UUID] | None = None
    """Only these."""
    sku: str | None = None
    """For products, passports and their versions: only of this SKU; `*` may stand at its end."""


class Conditions(Model):
    """All that are there must hold."""

    actor_ids: list[UUID] | None = None
    actor_types: list[Literal["USER", "API_CLIENT", "SERVICE"]] | None = None
    roles: list[str] | None = None
    """Names of roles, of which the actor has at least one."""
    resource: ResourceCondition | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None


class ShownConditions(Model):
    """What is not there was not said: these are the members that are hashed."""

    actor_ids: list[UUID] | None = None
    actor_types: list[Literal["USER", "API_CLIENT", "SERVICE"]] | None = None
    roles: list[str] | None = None
    """Names of roles, of which the actor has at least one."""
    resource: ResourceCondition | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None


class PolicyVersion(Model):
    policy_version_id: UUID
    policy_id: UUID
    version: int
    is_active: bool
    """Whether it is in force; at most one version of a policy is."""
    effect: Literal["ALLOW", "DENY"]
    target: str
    priority: int
    policy_json: ShownConditions
    """Its conditions, as they are hashed."""
    policy_hash: str
    """SHA-256 of canonical `{effect, policy_json, priority, target}`."""
    created_at: datetime


class Policy(Model):
    policy_id: UUID
    name: str
    created_at: datetime
    created_by: UUID | None
    active: PolicyVersion | None
    """The version in force; null where none is."""


class AskedResource(Model):
    type: Literal[
        "Document",
        "DocumentVersion",
        "Fact",
        "DataSnapshot",
        "RulePackage",
        "RulePackageVersion",
        "BatteryProduct",
        "Passport",
        "PassportVersion",
        "CompileRun",
        "Job",
        "Event",
        "Actor",
        "Role",
        "ApiKey",
        "Policy",
        "SigningKey",
        "WebhookEndpoint",
        "WebhookSubscription",
        "WebhookDelivery",
    ]
    id: UUID | None = None
    sku: str | None = None
    """Left out, it is looked up by the id."""


class Decider(Model):
    policy_id: UUID
    policy_version_id: UUID
    name: str
    version: int
    effect: Literal["ALLOW", "DENY"]
    priority: int


class Considered(Model):
    policy_id: UUID
    policy_version_id: UUID
    name: str
    version: int
    effect: Literal["ALLOW", "DENY"]
    priority: int
    matches: bool
    why_not: str | None
    """The first thing that keeps it from applying."""


class DryRunAnswer(Model):
    allowed: bool
    reason: str
    decided_by: Decider | None
    """The policy that decides; null where the actor's roles do."""
    considered: list[Considered]
    """All policies in force, in the order they are tried."""


class SigningKey(Model):
    key_id: str
    public_key: str
    """The 32 bytes of an Ed25519 public key, base64."""
    status: Literal["ACTIVE", "RETIRED"]
    """A retired key signs nothing more; what it signed is valid."""
    created_at: datetime
    retired_at: datetime | None


class EndpointIssued(Model):
    webhook_endpoint_id: UUID
    url: str
    secret: str
    """What webhooks are signed with: the key is the decoded base64. Shown this once only."""


class Endpoint(Model):
    webhook_endpoint_id: UUID
    url: str
    is_active: bool
    """False once it was deleted, or answered 410: nothing is sent there any more."""
    created_at: datetime
    rotated_at: datetime | None
    """When its secret was last replaced."""


class DeliveryAccepted(Model):
    webhook_delivery_id: UUID
    """The new delivery."""
    job_id: UUID
    """The job that sends it."""


class Subscription(Model):
    webhook_subscription_id: UUID
    webhook_endpoint_id: UUID
    event_type: Literal[
        "document.version.validated",
        "rules.version.published",
        "passport.version.signed",
        "passport.version.active",
        "passport.version.revoked",
        "passport.version.mismatch",
    ]
    created_at: datetime


class DeliveryFault(Model):
    """Why the last attempt did not arrive."""

    code: str
    message: str
    retryable: bool = False
    """Whether it is worth another attempt."""
    details: dict[str, Any] | None = None
    """What a program may want to read."""


class Delivery(Model):
    webhook_delivery_id: UUID
    webhook_endpoint_id: UUID
    event_id: UUID
    """The audit event it tells about."""
    redelivery_of: UUID | None
    """The delivery that it repeats."""
    attempt: int
    """How often it was sent."""
    status: Literal["PENDING", "DELIVERED", "FAILED"]
    """PENDING until it is final."""
    last_error: DeliveryFault | None
    """Of the last attempt that did not arrive."""
    response_status: int | None
    """What the last attempt was answered."""
    created_at: datetime
    last_attempt_at: datetime | None
    delivered_at: datetime | None


class DeliveryResponse(Model):
    """What the endpoint answered last, as far as it is kept."""

    status: int
    headers: dict[str, str]
    """The first 8 KiB of them."""
    body: str
    """The first 64 KiB, read as UTF-8; what is none is shown as `�`."""
    is_cut: bool
    """Whether the body went on."""


class DeliveryDetail(Model):
    webhook_delivery_id: UUID
    webhook_endpoint_id: UUID
    event_id: UUID
    """The audit event it tells about."""
    redelivery_of: UUID | None
    """The delivery that it repeats."""
    attempt: int
    """How often it was sent."""
    status: Literal["PENDING", "DELIVERED", "FAILED"]
    """PENDING until it is final."""
    last_error: DeliveryFault | None
    """Of the last attempt that did not arrive."""
    response_status: int | None
    """What the last attempt was answered."""
    created_at: datetime
    last_attempt_at: datetime | None
    delivered_at: datetime | None
    response: DeliveryResponse | None
    """Null if the last attempt was not answered."""


class GraphQLProblem(Model):
    message: str
    locations: list[dict[str, int]] | None = None
    path: list[str | int] | None = None
    extensions: dict[str, str]
    """`code` is one of ours."""


class GraphQLAnswer(Model):
    data: dict[str, Any] | None
    errors: list[GraphQLProblem] | None = None


class Live(Model):
    status: Literal["OK"] = "OK"


class Checks(Model):
    database: Literal["OK", "FAILED", "OFF", "NONE"]
    migrations: Literal["OK", "FAILED", "OFF", "NONE"]
    """Whether the tables are the ones that this build works with."""
    queue: Literal["OK", "FAILED", "OFF", "NONE"]
    """RabbitMQ; OFF where it is not used."""
    workers: Literal["OK", "FAILED", "OFF", "NONE"]
    """NONE where no worker gives a sign of life: jobs wait, requests are answered."""


class Waiting(Model):
    depth: int
    """Jobs that could run now; 100,000 stands for that many or more."""
    active: int
    """Jobs that run."""
    stale: int
    """Of these, the ones whose lease is over or whose worker is silent."""
    oldest_seconds: float | None
    """How long the one has waited that waits for the longest time."""


class Ready(Model):
    status: Literal["OK"] = "OK"
    checks: Checks
    jobs: Waiting

"""Settings: every variable, its type, its default, its bounds and the one line that explains it.

A `Settings` value cannot be wrong: each field's kind checks it alone, `contradictions` checks them together.
It never reads the environment itself (`load` does, once), so a test builds one from arguments alone. Secrets
are `SecretStr`: they do not appear in `repr`, in errors or in dumps.
"""

import socket
from itertools import combinations
from pathlib import Path
from typing import Final, Literal

from pydantic import ConfigDict, Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from bpc import __version__
from bpc.runtime.settings import value_types
from bpc.runtime.settings.console_settings import ConsoleSettings
from bpc.runtime.settings.problems import SettingProblem
from bpc.runtime.settings.value_types import (
    AnyPort,
    BrokerUrl,
    BucketUrl,
    BuildId,
    Count,
    DatabaseName,
    DatabaseUrl,
    Days,
    Destinations,
    Host,
    KeyId,
    LogOrigin,
    PepperText,
    Port,
    ProdWords,
    Seconds,
    SigningKeyText,
    StoredSecretsKey,
    WorkerId,
    decode_pepper,
)


def name_variable(field: str) -> str:
    """The environment variable a field is read from."""
    return "DATABASE_URL" if field == "database_url" else f"BPC_{field.upper()}"


class Settings(ConsoleSettings):
    """The whole configuration of one process, checked and frozen."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        alias_generator=name_variable,
        validate_by_name=True,
        validate_by_alias=True,
    )

    env: Literal["dev", "test", "prod"] = Field(
        "dev", description="Kind of environment. `prod` requires real secrets; `test` behaves like `dev`."
    )
    prod_allow: ProdWords = Field(
        (),
        description="What prod refuses unless it is listed here: `embedded-database`, `plaintext-database`, "
        "`superuser-database`.",
    )
    data_dir: Path = Field(
        description="Folder of the embedded database and, outside prod, of generated keys.",
        json_schema_extra={"default": "`/var/lib/bpc` as root, else `~/.local/share/bpc`"},
    )
    compiler_build_id: BuildId = Field(
        f"bpc-{__version__}",
        description="Build or commit written into every receipt; empty or `UNKNOWN` is refused in prod.",
        json_schema_extra={"default": "`bpc-<version>`"},
    )

    http_host: Host | None = Field(
        None, description="Address the API listens on; unset, `bpc up` listens on 127.0.0.1 only."
    )
    http_port: AnyPort = Field(8080, description="Port the API listens on; 0 means any free port.")
    request_timeout_seconds: Seconds = Field(30, description="A request that takes longer is answered with 503.")
    upload_max_bytes: int = Field(25_000_000, ge=1, le=500_000_000, description="Largest document that is accepted.")
    tenant_storage_bytes: int = Field(
        0, ge=0, le=2**62, description="Bytes that a tenant may store, unless it has a quota of its own; 0 is no limit."
    )
    idempotency_days: Days = Field(30, description="How long the answer to an Idempotency-Key is kept.")
    rate_limit_enabled: bool = Field(False, description="Limit the requests of each API key.")
    rate_limit_rps: int = Field(50, ge=1, le=1_000_000, description="Sustained requests per second of one API key.")
    rate_limit_burst: int = Field(100, ge=1, le=1_000_000, description="Requests a key may send at once.")
    failed_keys_rps: int = Field(
        10, ge=0, le=1_000_000, description="Requests with unknown keys per second of one address; 0 is no limit."
    )
    trusted_proxies: value_types.Networks = Field(
        (),
        description="Addresses or networks of proxies before the API; their `X-Forwarded-For` names the client.",
    )
    outbound_allow: Destinations = Field(
        (), description="Private hosts, addresses, networks or folders that webhooks and ingestion may reach."
    )
    webhook_timeout_seconds: Seconds = Field(
        30, description="Timeout for webhooks and downloads; after it they are retried."
    )
    webhook_retry_hours: float = Field(
        72,
        ge=0.001,
        le=720,
        allow_inf_nan=False,
        description="How long a webhook is retried while its endpoint fails, in 40 attempts.",
    )
    webhook_retry_jitter_percent: int = Field(
        20, ge=0, le=100, description="Largest share of a pause between attempts that is added to it at random."
    )
    webhook_disable_after_hours: int = Field(
        120,
        ge=0,
        le=8760,
        description="An endpoint is disabled after its attempts have all failed for this time; 0 switches that off.",
    )

    database_url: DatabaseUrl | None = Field(
        None, description="PostgreSQL 15 or later to use instead of the embedded one; wins over `BPC_DB_*`."
    )
    db_host: Host | None = Field(
        None, description="Host or socket folder of a PostgreSQL to use; unset, the embedded one is used."
    )
    db_port: Port = Field(5432, description="Port of that PostgreSQL.")
    db_user: DatabaseName = Field("postgres", description="User to log in as.")
    db_password: SecretStr = Field(
        SecretStr("postgres"), description="Password of that user; prod needs it, or `DATABASE_URL`."
    )
    db_name: DatabaseName = Field("bpc", description="Database to use.")
    db_sslmode: Literal["disable", "require"] = Field("disable", description="Whether the connection must use TLS.")
    db_pool_size: Count = Field(10, description="Maximum number of connections of one process.")

    signing_ed25519_private_key_base64: SigningKeyText | None = Field(
        None,
        description="Ed25519 key that signs passports, base64 of seed or seed and public key; for the signer alone.",
        json_schema_extra={"default": "generated and stored in the data folder, except in prod"},
    )
    signing_key_id: KeyId = Field("dev-key-1", description="Name under which that key is registered.")
    signing_keys_dir: Path | None = Field(
        None,
        description="Folder of further private keys, `<key_id>.key`, mode 0600.",
        json_schema_extra={"default": "`keys` in the data folder"},
    )
    api_key_pepper_base64: PepperText | None = Field(
        None,
        description="Pepper: secret mixed into every stored API key hash, base64 of at least 16 bytes; prod needs it.",
        json_schema_extra={"default": "generated and stored in the data folder, except in prod"},
    )
    api_key_pepper_next_base64: PepperText | None = Field(
        None, description="The next pepper during a change: accepted but not used yet."
    )
    api_key_pepper_previous_base64: PepperText | None = Field(
        None, description="The previous pepper during a change: accepted until all used keys are rehashed."
    )

    stored_secrets_key_base64: StoredSecretsKey | None = Field(
        None,
        description="Key that stored secrets, those of webhooks, are encrypted with, base64 of at least 16 bytes.",
        json_schema_extra={"default": "derived from the pepper"},
    )
    stored_secrets_key_previous_base64: StoredSecretsKey | None = Field(
        None, description="The previous one during a change: it only decrypts."
    )
    public_url: value_types.PublicUrl | None = Field(
        None,
        description="Where others reach API and public pages: passports and labels carry it, so it never changes.",
    )
    tlog_origin: LogOrigin = Field("localhost/log", description="Name of the transparency log; it never changes.")
    tlog_ed25519_private_key_base64: SigningKeyText | None = Field(
        None,
        description="Key that signs the transparency log; outside prod it is generated, prod keeps no log without.",
    )
    tlog_dir: Path | None = Field(None, description="Folder of that log; unset, `log` in the data folder.")
    tlog_store: BucketUrl | None = Field(
        None,
        description="Bucket for its files, instead of a folder: `s3://bucket/prefix`, as for packs.",
    )
    tlog_policy_file: Path | None = Field(None, description="Its witnesses, as a C2SP tlog-policy; unset, it has none.")
    tlog_checkpoint_seconds: Seconds = Field(2, description="How often new entries get a signed checkpoint.")
    tlog_timestamp_url: value_types.PublicUrl | None = Field(
        None, description="Authority that stamps checkpoints of that log with the time (RFC 3161); unset, nobody does."
    )
    tlog_timestamp_seconds: Seconds = Field(3600, description="How often a new checkpoint gets a time stamp.")
    tlog_timestamp_ca_file: Path | None = Field(
        None, description="Root certificates of that authority, in PEM; unset, only the form of answers is checked."
    )
    tlog_audit_head_seconds: Seconds = Field(3600, description="How often it commits to audit logs that have changed.")
    worker_id: WorkerId = Field(
        default_factory=socket.gethostname,
        description="Prefix of the worker name in job leases.",
        json_schema_extra={"default": "the host name"},
    )
    worker_nice: int = Field(5, ge=0, le=19, description="Niceness of workers: the API comes first.")
    items_engine: Literal["local", "ray"] = Field(
        "local", description="Where passports of batteries are compiled: in child processes, or on a Ray cluster."
    )
    ray_address: str | None = Field(
        None, description="Address of the Ray cluster; unset, each worker starts one on its own machine."
    )
    pack_store: BucketUrl | None = Field(
        None,
        description="Bucket for packs of batteries, `s3://bucket/prefix`; who may use it is said by `AWS_*`.",
        json_schema_extra={"default": "`packs` in the data folder"},
    )
    worker_http_port: AnyPort = Field(8081, description="Port of a worker's health and metrics; 0 switches it off.")
    jobs_concurrency: Count = Field(4, description="Jobs one worker runs at the same time.")
    jobs_outbound_concurrency: Count = Field(
        16, description="Webhooks and ingestions one worker runs at the same time, in addition to those."
    )
    jobs_memory_concurrency: Count = Field(4, description="In-memory jobs one process runs at the same time.")
    jobs_channel_capacity: int = Field(
        256, ge=1, le=1_000_000, description="In-memory jobs that may wait; more are refused."
    )
    jobs_cpu_processes: int = Field(2, ge=1, le=256, description="Child processes for jobs that compute.")
    jobs_poll_interval_ms: int = Field(
        1000,
        ge=10,
        le=3_600_000,
        description="How often a worker looks for jobs when nothing wakes it, in milliseconds.",
    )
    jobs_lease_seconds: Seconds = Field(60, description="How long a job lease lasts without renewal.")
    jobs_lease_renew_seconds: Seconds = Field(30, description="How often a lease is renewed; less than the lease.")
    jobs_max_attempts_default: int = Field(
        5, ge=1, le=100, description="Attempts before a job fails for good; webhooks have a policy of their own."
    )
    jobs_cancel_grace_seconds: Seconds = Field(10, description="Time a cancelled job gets to end by itself.")
    jobs_stop_grace_seconds: Seconds = Field(30, description="Time running jobs get when the worker is told to stop.")
    jobs_ttl_days: Days = Field(
        14, description="How long finished jobs, nightly jobs and webhooks included, and exports are kept."
    )
    jobs_dead_letter_ttl_days: Days = Field(14, description="How long jobs without attempts left are kept.")

    queue_enabled: bool = Field(False, description="Wake workers through RabbitMQ as well.")
    queue_url: BrokerUrl = Field(
        SecretStr("amqp://guest:guest@localhost:5672/"), description="RabbitMQ, `amqp://` or `amqps://`."
    )
    queue_exchange: DatabaseName = Field("bpc", description="AMQP exchange.")
    queue_routing_key: DatabaseName = Field("jobs.trigger", description="AMQP routing key.")
    health_require_queue: bool = Field(False, description="Report not ready while RabbitMQ is down.")

    # Upper limits: a passport that is larger or takes more steps would not replay on another build.
    payload_max_bytes: int = Field(131_072, ge=1, le=5_000_000, description="Largest passport payload.")
    proof_max_bytes: int = Field(262_144, ge=1, le=20_000_000, description="Largest proof.")
    receipt_max_bytes: int = Field(16_384, ge=1, le=500_000, description="Largest receipt.")
    rules_max_steps: int = Field(
        1_000_000, ge=1, le=1_000_000, description="Maximum evaluation steps of a compile or of one rule test case."
    )

    replay_audit_sample: int = Field(
        50,
        ge=0,
        le=1_000_000,
        description="Active passports of each tenant that are compiled again every night; 0 switches that off.",
    )
    retention_floor_days: int | None = Field(
        None,
        ge=0,
        le=36500,
        description="Documents, versions and events that are younger are never removed, whatever other settings say.",
        json_schema_extra={"default": "1825 in prod, otherwise 0"},
    )
    retention_events_days: Days = Field(5475, description="How long audit events are kept.")
    retention_passport_versions_days: Days = Field(
        5475, description="How long superseded and revoked passport versions are kept."
    )
    retention_document_versions_days: Days = Field(3650, description="How long the content of documents is kept.")

    log_level: Literal["debug", "info", "warn", "error"] = Field("info", description="Lowest level that is logged.")
    log_json: bool | None = Field(
        None,
        description="One JSON object per line.",
        json_schema_extra={"default": "`true`, readable lines on a terminal"},
    )
    metrics_enabled: bool = Field(True, description="Serve metrics.")
    metrics_public: bool | None = Field(
        None,
        description="Serve `/v1/metrics` of the API on the API's own port too.",
        json_schema_extra={"default": "`true`, except in prod"},
    )
    metrics_port: AnyPort | None = Field(
        None,
        description="Port of the API's metrics, on the API's address; 0 switches it off.",
        json_schema_extra={"default": "8082 in prod, otherwise none"},
    )

    warnings: tuple[str, ...] = Field((), alias="warnings", description="What looks like a mistake but stops nothing.")

    @property
    def database_dsn(self) -> SecretStr | None:
        """The database's URL; None means the embedded server.

        Only `DATABASE_URL` or `BPC_DB_HOST` choose another one: a server that happens to listen on localhost
        is never used by chance.
        """
        if self.database_url is not None:
            return self.database_url
        if self.db_host is None:
            return None
        return SecretStr(
            value_types.compose_database_url(
                host=self.db_host,
                port=self.db_port,
                user=self.db_user,
                password=self.db_password.get_secret_value(),
                name=self.db_name,
                sslmode=self.db_sslmode,
            )
        )

    @property
    def retention_floor(self) -> int:
        """Days that everything but exports is kept at least."""
        default = 1825 if self.env == "prod" else 0
        return default if self.retention_floor_days is None else self.retention_floor_days

    @property
    def has_public_metrics(self) -> bool:
        """Whether everybody who reaches the API sees its metrics."""
        is_public = self.env != "prod" if self.metrics_public is None else self.metrics_public
        return self.metrics_enabled and is_public

    @field_validator("compiler_build_id")
    @classmethod
    def _default_empty_build_id(cls, value: str, info: ValidationInfo) -> str:
        return value if value or info.data.get("env") == "prod" else f"bpc-{__version__}"

    @model_validator(mode="after")
    def _refuse_contradictions(self, info: ValidationInfo) -> "Settings":
        problems = find_contradictions(self, holds_keys=(info.context or {}).get("holds_keys", True))
        if problems:
            sentence = "; ".join(problem.sentence for problem in problems)
            raise PydanticCustomError("contradiction", "{says}", {"says": sentence, "problems": problems})
        return self


def find_contradictions(settings: Settings, *, holds_keys: bool = True) -> list[SettingProblem]:
    """Problems between fields: what prod requires, and values that contradict each other."""
    problems = _find_missing_in_prod(settings, holds_keys=holds_keys) if settings.env == "prod" else []
    if settings.jobs_lease_renew_seconds >= settings.jobs_lease_seconds:
        renew, lease = name_variable("jobs_lease_renew_seconds"), name_variable("jobs_lease_seconds")
        sentence = f"`{renew}` must be below `{lease}`, otherwise running jobs lose their lease"
        problems.append(SettingProblem(name=renew, sentence=sentence, also=(lease,)))
    if settings.tlog_dir is not None and settings.tlog_store is not None:
        folder, bucket = name_variable("tlog_dir"), name_variable("tlog_store")
        sentence = f"`{bucket}` must not be set beside `{folder}`: the log is in a bucket or in a folder"
        problems.append(SettingProblem(name=bucket, sentence=sentence, also=(folder,)))
    return problems + _find_equal_peppers(settings)


def _find_equal_peppers(settings: Settings) -> list[SettingProblem]:
    """A half-finished change of the pepper, with which valid keys would be refused.

    This checks only settings; `Peppers` also checks the pepper in a file.
    """
    names = ("api_key_pepper_base64", "api_key_pepper_next_base64", "api_key_pepper_previous_base64")
    peppers = [
        (name_variable(name), decode_pepper(secret.get_secret_value()))
        for name in names
        if (secret := getattr(settings, name)) is not None
    ]
    return [
        SettingProblem(name=other, sentence=f"`{other}` is the same pepper as `{one}`", also=(one,))
        for (one, pepper), (other, other_pepper) in combinations(peppers, 2)
        if pepper == other_pepper
    ]


def _find_missing_in_prod(settings: Settings, *, holds_keys: bool) -> list[SettingProblem]:
    """Secrets and names that prod requires. A forgotten database would silently be a new, empty one.

    To use the embedded one in prod, set `BPC_DB_PASSWORD`.
    """
    missing = []
    if holds_keys and settings.signer_provider == "file" and settings.signing_ed25519_private_key_base64 is None:
        missing.append(("signing_ed25519_private_key_base64", "prod does not generate one"))
    if settings.api_key_pepper_base64 is None:
        missing.append(("api_key_pepper_base64", "prod does not generate one"))
    if settings.database_url is None and "db_password" not in settings.model_fields_set:
        missing.append(("db_password", "prod needs it, or `DATABASE_URL`"))
    if settings.compiler_build_id.upper() in {"", "UNKNOWN"}:
        missing.append(("compiler_build_id", "receipts in prod name the build"))
    return [_missing_problem(name_variable(field), reason) for field, reason in missing]


def _missing_problem(name: str, reason: str) -> SettingProblem:
    also = ("DATABASE_URL",) if "DATABASE_URL" in reason else ()
    return SettingProblem(name=name, sentence=f"`{name}` is missing: {reason}", also=also)


VARIABLES: Final = {name_variable(field): field for field in Settings.model_fields if field != "warnings"}

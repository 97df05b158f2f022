"""Settings: every variable, its type, its default, its bounds and the one line that explains it.

A `Settings` value cannot be wrong: each field's kind checks it alone, `contradictions` checks them together.
It never reads the environment itself (`load` does, once), so a test builds one from arguments alone. Secrets
are `SecretStr`: they do not appear in `repr`, in errors or in dumps.
"""

import socket
from itertools import combinations
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from bpc import __version__
from bpc.settings import dsn
from bpc.settings.kinds import (
    AnyPort,
    BrokerUrl,
    BuildId,
    Count,
    DatabaseUrl,
    Days,
    Destinations,
    Host,
    KeyId,
    Name,
    Pepper,
    Port,
    Seconds,
    SigningKey,
    WorkerId,
)
from bpc.settings.material import pepper_from
from bpc.settings.problems import Problem


def variable_of(field: str) -> str:
    """The environment variable a field is read from."""
    return "DATABASE_URL" if field == "database_url" else f"BPC_{field.upper()}"


class Settings(BaseModel):
    """The whole configuration of one process, checked and frozen."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        alias_generator=variable_of,
        validate_by_name=True,
        validate_by_alias=True,
    )

    env: Literal["dev", "test", "prod"] = Field(
        "dev", description="Where this runs. `prod` insists on real secrets; `test` behaves as `dev`."
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
    http_port: AnyPort = Field(8080, description="Port the API listens on; 0 takes a free one.")
    request_timeout_seconds: Seconds = Field(30, description="A request that takes longer is answered with 503.")
    upload_max_bytes: int = Field(25_000_000, ge=1, le=500_000_000, description="Largest document that is accepted.")
    idempotency_days: Days = Field(30, description="How long the answer to an Idempotency-Key is kept.")
    rate_limit_enabled: bool = Field(False, description="Limit the requests of each API key.")
    rate_limit_rps: int = Field(50, ge=1, le=1_000_000, description="Requests per second a key may keep up.")
    rate_limit_burst: int = Field(100, ge=1, le=1_000_000, description="Requests a key may send at once.")
    outbound_allow: Destinations = Field(
        (),
        description="Private hosts, addresses, networks or folders that webhooks and ingestion may reach.",
    )
    webhook_timeout_seconds: Seconds = Field(
        30,
        description="A webhook not answered by then is sent again, and a download that pauses longer is tried again.",
    )

    database_url: DatabaseUrl | None = Field(
        None, description="PostgreSQL 15 or later to use instead of the embedded one; wins over `BPC_DB_*`."
    )
    db_host: Host | None = Field(
        None, description="Host or socket folder of a PostgreSQL to use; unset, the embedded one is used."
    )
    db_port: Port = Field(5432, description="Port of that PostgreSQL.")
    db_user: Name = Field("postgres", description="User to log in as.")
    db_password: SecretStr = Field(
        SecretStr("postgres"), description="Password of that user; prod needs it, or `DATABASE_URL`."
    )
    db_name: Name = Field("bpc", description="Database to use.")
    db_sslmode: Literal["disable", "require"] = Field("disable", description="Whether the connection must use TLS.")
    db_pool_size: Count = Field(10, description="Most connections a process opens.")

    signing_ed25519_private_key_base64: SigningKey | None = Field(
        None,
        description="Ed25519 key that signs passports, base64 of seed or seed and public key; prod needs it.",
        json_schema_extra={"default": "made and kept in the data folder, except in prod"},
    )
    signing_key_id: KeyId = Field("dev-key-1", description="Name under which that key is registered.")
    signing_keys_dir: Path | None = Field(
        None,
        description="Folder of further private keys, `<key_id>.key`, mode 0600.",
        json_schema_extra={"default": "`keys` in the data folder"},
    )
    api_key_pepper_base64: Pepper | None = Field(
        None,
        description="Mixed into every stored API key hash, base64 of at least 16 bytes; prod needs it.",
        json_schema_extra={"default": "made and kept in the data folder, except in prod"},
    )
    api_key_pepper_next_base64: Pepper | None = Field(
        None, description="The pepper that is about to replace it: accepted, and not used yet."
    )
    api_key_pepper_previous_base64: Pepper | None = Field(
        None, description="The pepper that it replaced: accepted until every key that is used has been hashed again."
    )

    worker_id: WorkerId = Field(
        default_factory=socket.gethostname,
        description="Start of the name a worker signs its leases with.",
        json_schema_extra={"default": "the host name"},
    )
    worker_http_port: AnyPort = Field(8081, description="Port of a worker's health and metrics; 0 switches it off.")
    jobs_concurrency: Count = Field(4, description="Jobs one worker runs at the same time.")
    jobs_outbound_concurrency: Count = Field(
        16, description="Webhooks and ingestions one worker has under way at the same time, beside those."
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
    jobs_lease_seconds: Seconds = Field(60, description="How long a worker owns a job without renewing.")
    jobs_lease_renew_seconds: Seconds = Field(30, description="How often it renews; must be below the lease.")
    jobs_max_attempts_default: int = Field(5, ge=1, le=100, description="Times a job is started before it is given up.")
    jobs_cancel_grace_seconds: Seconds = Field(10, description="Time a cancelled job gets to end by itself.")
    jobs_stop_grace_seconds: Seconds = Field(30, description="Time running jobs get when the worker is told to stop.")
    jobs_ttl_days: Days = Field(14, description="How long finished jobs and exports are kept.")

    queue_enabled: bool = Field(False, description="Wake workers through RabbitMQ as well.")
    queue_url: BrokerUrl = Field(
        SecretStr("amqp://guest:guest@localhost:5672/"), description="RabbitMQ, `amqp://` or `amqps://`."
    )
    queue_exchange: Name = Field("bpc", description="AMQP exchange.")
    queue_routing_key: Name = Field("jobs.trigger", description="AMQP routing key.")
    health_require_queue: bool = Field(False, description="Not ready while RabbitMQ is down.")

    # Ceilings, not wishes: a passport that is larger or takes more steps would not replay on another build.
    payload_max_bytes: int = Field(131_072, ge=1, le=5_000_000, description="Largest passport payload.")
    proof_max_bytes: int = Field(262_144, ge=1, le=20_000_000, description="Largest proof.")
    receipt_max_bytes: int = Field(16_384, ge=1, le=500_000, description="Largest receipt.")
    rules_max_steps: int = Field(
        1_000_000, ge=1, le=1_000_000, description="Steps that a compile, or one case of a rule test, may take."
    )

    replay_audit_sample: int = Field(
        50,
        ge=0,
        le=1_000_000,
        description="Active passports of each tenant that are compiled again every night; 0 switches that off.",
    )
    retention_events_days: Days = Field(5475, description="How long audit events are kept.")
    retention_passport_versions_days: Days = Field(
        5475, description="How long superseded and revoked passport versions are kept."
    )
    retention_document_versions_days: Days = Field(3650, description="How long the content of documents is kept.")

    log_level: Literal["debug", "info", "warn", "error"] = Field(
        "info", description="Least serious level that is logged."
    )
    log_json: bool | None = Field(
        None,
        description="One JSON object per line.",
        json_schema_extra={"default": "`true`, readable lines on a terminal"},
    )
    metrics_enabled: bool = Field(True, description="Serve `/v1/metrics`.")

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
            dsn.composed(
                host=self.db_host,
                port=self.db_port,
                user=self.db_user,
                password=self.db_password.get_secret_value(),
                name=self.db_name,
                sslmode=self.db_sslmode,
            )
        )

    @field_validator("compiler_build_id")
    @classmethod
    def _an_empty_build_id_means_the_default_except_in_prod(cls, value: str, info: ValidationInfo) -> str:
        return value if value or info.data.get("env") == "prod" else f"bpc-{__version__}"

    @model_validator(mode="after")
    def _nothing_contradicts(self) -> "Settings":
        found = contradictions(self)
        if found:
            says = "; ".join(problem.sentence for problem in found)
            raise PydanticCustomError("contradiction", "{says}", {"says": says, "problems": found})
        return self


def contradictions(settings: Settings) -> list[Problem]:
    """What no single field can see: what prod insists on, and figures that do not fit each other."""
    found = _missing_in_prod(settings) if settings.env == "prod" else []
    if settings.jobs_lease_renew_seconds >= settings.jobs_lease_seconds:
        renew, lease = variable_of("jobs_lease_renew_seconds"), variable_of("jobs_lease_seconds")
        says = f"`{renew}` must be below `{lease}`, or jobs are lost while they run"
        found.append(Problem(name=renew, sentence=says, also=(lease,)))
    return found + _the_same_pepper(settings)


def _the_same_pepper(settings: Settings) -> list[Problem]:
    """A step of replacing the pepper that was done by halves: with it, keys that are valid would be refused.

    Here as far as settings alone say it, together with all else that is wrong; `Peppers` also sees one in a file.
    """
    names = ("api_key_pepper_base64", "api_key_pepper_next_base64", "api_key_pepper_previous_base64")
    given = [
        (variable_of(name), pepper_from(secret.get_secret_value()))
        for name in names
        if (secret := getattr(settings, name)) is not None
    ]
    return [
        Problem(name=other, sentence=f"`{other}` is the same pepper as `{one}`", also=(one,))
        for (one, pepper), (other, another) in combinations(given, 2)
        if pepper == another
    ]


def _missing_in_prod(settings: Settings) -> list[Problem]:
    """Secrets and names that prod does not invent.

    A database is among them although one is built in: a forgotten variable must not quietly give production
    an empty database of its own. Whoever wants the embedded one there says so by setting `BPC_DB_PASSWORD`.
    """
    missing = []
    if settings.signing_ed25519_private_key_base64 is None:
        missing.append(("signing_ed25519_private_key_base64", "prod does not make one up"))
    if settings.api_key_pepper_base64 is None:
        missing.append(("api_key_pepper_base64", "prod does not make one up"))
    if settings.database_url is None and "db_password" not in settings.model_fields_set:
        missing.append(("db_password", "prod needs it, or `DATABASE_URL`"))
    if settings.compiler_build_id.upper() in {"", "UNKNOWN"}:
        missing.append(("compiler_build_id", "receipts in prod name the build that made them"))
    return [_missing(variable_of(field), reason) for field, reason in missing]


def _missing(name: str, reason: str) -> Problem:
    also = ("DATABASE_URL",) if "DATABASE_URL" in reason else ()
    return Problem(name=name, sentence=f"`{name}` is missing: {reason}", also=also)


VARIABLES: Final = {variable_of(field): field for field in Settings.model_fields if field != "warnings"}

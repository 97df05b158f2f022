"""Rule packages and their versions. A version's texts are written once; what changes is its status, and only forward.

A package is a name; a version is two texts, rules and their tests, that were checked before they came here. The same
two texts are one version of the tenant, whoever sends them and however often.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString

from bpc import fresh
from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.errors import Conflict, NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, RulePackageId, RulePackageVersionId, TenantId
from bpc.core.rules.typed import Program
from bpc.core.rules.types import Opt
from bpc.db import events
from bpc.db.connection import Connection
from bpc.db.pages import Ask

Status = Literal["DRAFT", "VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED"]

LANGUAGE_LEVEL: Final = "1"  # the build that the rules need at least

INSERT_PACKAGE: Final[LiteralString] = """
    INSERT INTO rule_packages (tenant_id, rule_package_id, name, description, created_at, created_by)
    VALUES ($1, $2, $3, $4, $5, $6)
"""
PACKAGE_COLUMNS: Final[LiteralString] = "rule_package_id, name, description, created_at"
PACKAGE: Final[LiteralString] = f"""
    SELECT {PACKAGE_COLUMNS} FROM rule_packages WHERE tenant_id = $1 AND rule_package_id = $2
"""
PACKAGES: Final[LiteralString] = f"""
    SELECT {PACKAGE_COLUMNS} FROM rule_packages
     WHERE tenant_id = $1 AND (created_at, rule_package_id) < ($2, $3)
     ORDER BY created_at DESC, rule_package_id DESC
     LIMIT $4
"""
LOCK_PACKAGE: Final[LiteralString] = """
    SELECT FROM rule_packages WHERE tenant_id = $1 AND rule_package_id = $2 FOR NO KEY UPDATE
"""
INSERT_VERSION: Final[LiteralString] = """
    INSERT INTO rule_package_versions (tenant_id, rule_package_version_id, rule_package_id, version, status, created_at,
                                       compiler_min_build, dsl_source, dsl_sha256, tests_source, tests_sha256)
    SELECT $1, $2, $3, coalesce(max(version), 0) + 1, 'DRAFT', $4, $5, $6, $7, $8, $9
      FROM rule_package_versions WHERE tenant_id = $1 AND rule_package_id = $3
    ON CONFLICT ON CONSTRAINT rule_package_versions_sources_key DO NOTHING
    RETURNING version
"""
WITH_SOURCES: Final[LiteralString] = """
    SELECT rule_package_version_id, rule_package_id FROM rule_package_versions
     WHERE tenant_id = $1 AND dsl_sha256 = $2 AND tests_sha256 = $3
"""
INSERT_FIELDS: Final[LiteralString] = """
    INSERT INTO rule_fields (tenant_id, rule_package_version_id, rule_field_id, field_path, field_type, audiences,
                             required)
    SELECT $1, $2, field_id, path, type, string_to_array(audiences, ' '), required
      FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::boolean[])
        AS f (field_id, path, type, audiences, required)
"""
VERSION_COLUMNS: Final[LiteralString] = """
    rule_package_version_id, rule_package_id, version, status::text AS status, created_at, published_at,
    compiler_min_build, dsl_sha256, tests_sha256
"""
VERSION: Final[LiteralString] = f"""
    SELECT {VERSION_COLUMNS} FROM rule_package_versions WHERE tenant_id = $1 AND rule_package_version_id = $2
"""
LOCKED_VERSION: Final[LiteralString] = f"{VERSION} FOR NO KEY UPDATE"
SHARED_VERSION: Final[LiteralString] = f"{VERSION} FOR SHARE"
VERSIONS: Final[LiteralString] = f"""
    SELECT {VERSION_COLUMNS} FROM rule_package_versions
     WHERE tenant_id = $1 AND rule_package_id = $5 AND (created_at, rule_package_version_id) < ($2, $3)
     ORDER BY created_at DESC, rule_package_version_id DESC
     LIMIT $4
"""
NEWEST: Final[LiteralString] = f"""
    SELECT {VERSION_COLUMNS} FROM rule_package_versions
     WHERE tenant_id = $1 AND rule_package_id = $2
     ORDER BY version DESC
     LIMIT 1
"""
COUNTS: Final[LiteralString] = """
    SELECT status::text AS status, count(*) AS versions FROM rule_package_versions
     WHERE tenant_id = $1 AND rule_package_id = $2
     GROUP BY 1 ORDER BY min(status)
"""
SOURCES: Final[LiteralString] = """
    SELECT dsl_source AS dsl, tests_source AS tests, dsl_sha256, tests_sha256, status::text AS status
      FROM rule_package_versions WHERE tenant_id = $1 AND rule_package_version_id = $2
"""
FIELDS: Final[LiteralString] = """
    SELECT field_path, field_type, audiences, required FROM rule_fields
     WHERE tenant_id = $1 AND rule_package_version_id = $2
     ORDER BY field_path COLLATE "C"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePackage:
    """A container of versions, with a name that no other of the tenant has."""

    rule_package_id: RulePackageId
    name: str
    description: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVersion:
    """What is known of a version beside its texts. `compiler_min_build` is the least build that can compile it."""

    rule_package_version_id: RulePackageVersionId
    rule_package_id: RulePackageId
    version: int
    status: Status
    created_at: datetime
    published_at: datetime | None
    compiler_min_build: str
    dsl_sha256: Digest
    tests_sha256: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The two texts of a version, as they were sent."""

    dsl: bytes
    tests: bytes
    dsl_sha256: Digest
    tests_sha256: Digest
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleField:
    """What a version says of one field: its printed type, who may see it, and whether it is always there."""

    field_path: str
    field_type: str
    audiences: Sequence[str]
    required: bool


class RulePackageUnknown(NotFound):
    def __init__(self, package: RulePackageId) -> None:
        super().__init__(f"there is no rule package `{package}`", fix="GET /v1/rule-packages lists those there are")


class RuleVersionUnknown(NotFound):
    def __init__(self, version: RulePackageVersionId) -> None:
        super().__init__(
            f"there is no rule package version `{version}`",
            fix="GET /v1/rule-packages/{rule_package_id}/versions lists those of a package",
        )


class SourcesKnown(Conflict):
    """These two texts are a version already."""

    def __init__(self, version: RulePackageVersionId, package: RulePackageId) -> None:
        super().__init__(
            "a version with these sources exists already",
            fix="use the version that is there",
            details={"rule_package_version_id": str(version), "rule_package_id": str(package)},
        )


def fields_of(program: Program) -> list[RuleField]:
    """The fields of checked rules, by path."""
    made = [
        RuleField(
            field_path=field.path,
            field_type=str(field.type),
            audiences=sorted(field.access),
            required=not isinstance(field.type, Opt),
        )
        for field in program.fields
    ]
    return sorted(made, key=lambda field: field.field_path)


# Packages ------------------------------------------------------------------------------------------------------


async def create(conn: Connection, tenant: TenantId, *, name: str, description: str | None, act: Act) -> RulePackage:
    """A new package without versions, on record."""
    package = RulePackageId(fresh.new_id())
    await conn.execute(INSERT_PACKAGE, tenant, package, name, description, act.at, act.actor_id)
    said = act.says("RULE_PACKAGE_CREATED", {"name": name, "description": description})
    await events.append(conn, Stream(tenant, "RulePackage", AggregateId(package)), said)
    return RulePackage(rule_package_id=package, name=name, description=description, created_at=act.at)


async def get(conn: Connection, tenant: TenantId, package: RulePackageId) -> RulePackage:
    row = await conn.fetchrow(PACKAGE, tenant, package)
    if row is None:
        raise RulePackageUnknown(package)
    return RulePackage(**dict(row))


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[RulePackage]:
    """Packages, newest first."""
    return [RulePackage(**dict(row)) for row in await conn.fetch(PACKAGES, tenant, *ask)]


async def newest(conn: Connection, tenant: TenantId, package: RulePackageId) -> RuleVersion | None:
    """The version of a package with the highest number."""
    row = await conn.fetchrow(NEWEST, tenant, package)
    return None if row is None else RuleVersion(**dict(row))


async def counts(conn: Connection, tenant: TenantId, package: RulePackageId) -> Mapping[Status, int]:
    """How many versions of a package there are in each status that occurs."""
    return {row["status"]: row["versions"] for row in await conn.fetch(COUNTS, tenant, package)}


# Versions ------------------------------------------------------------------------------------------------------


async def with_sources(conn: Connection, tenant: TenantId, dsl: Digest, tests: Digest) -> SourcesKnown | None:
    """The refusal that names the version with exactly these texts, if there is one."""
    row = await conn.fetchrow(WITH_SOURCES, tenant, dsl, tests)
    return None if row is None else SourcesKnown(RulePackageVersionId(row[0]), RulePackageId(row[1]))


async def add_version(
    conn: Connection,
    tenant: TenantId,
    package: RulePackageId,
    *,
    dsl: bytes,
    tests: bytes,
    fields: Sequence[RuleField],
    act: Act,
) -> RuleVersion:
    """A new DRAFT of checked rules with its fields, on record. Raises `SourcesKnown` if these texts are a version."""
    if await conn.fetchrow(LOCK_PACKAGE, tenant, package) is None:
        raise RulePackageUnknown(package)
    version_id = RulePackageVersionId(fresh.new_id())
    dsl_sha256, tests_sha256 = sha256(dsl), sha256(tests)
    texts = dsl, dsl_sha256, tests, tests_sha256
    number = await conn.fetchval(INSERT_VERSION, tenant, version_id, package, act.at, LANGUAGE_LEVEL, *texts)
    if number is None:  # whoever was first has committed, or we would still be waiting
        raise await with_sources(conn, tenant, dsl_sha256, tests_sha256) or Conflict(
            "the sources exist already", fix="use the version that has them"
        )
    await _add_fields(conn, tenant, version_id, fields)
    payload = {
        "rule_package_id": str(package),
        "version": number,
        "compiler_min_build": LANGUAGE_LEVEL,
        "dsl_sha256": to_hex(dsl_sha256),
        "tests_sha256": to_hex(tests_sha256),
        "fields": len(fields),
    }
    await events.append(conn, stream_of(tenant, version_id), act.says("RULE_VERSION_CREATED", payload))
    return await version(conn, tenant, version_id)


async def _add_fields(
    conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, fields: Sequence[RuleField]
) -> None:
    await conn.execute(
        INSERT_FIELDS,
        tenant,
        version_id,
        [fresh.new_id() for _ in fields],
        [field.field_path for field in fields],
        [field.field_type for field in fields],
        [" ".join(field.audiences) for field in fields],
        [field.required for field in fields],
    )


async def version(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> RuleVersion:
    """What is known of a version. Raises `RuleVersionUnknown`."""
    return await _version(conn, VERSION, tenant, version_id)


async def locked_version(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> RuleVersion:
    """The same, and nobody else changes its status or adds a test run until we are done."""
    return await _version(conn, LOCKED_VERSION, tenant, version_id)


async def shared_version(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> RuleVersion:
    """The same, for any number at a time who only need its status to stay."""
    return await _version(conn, SHARED_VERSION, tenant, version_id)


async def _version(
    conn: Connection, statement: LiteralString, tenant: TenantId, version_id: RulePackageVersionId
) -> RuleVersion:
    row = await conn.fetchrow(statement, tenant, version_id)
    if row is None:
        raise RuleVersionUnknown(version_id)
    return RuleVersion(**dict(row))


async def versions(conn: Connection, tenant: TenantId, package: RulePackageId, ask: Ask) -> Sequence[RuleVersion]:
    """The versions of a package, newest first."""
    return [RuleVersion(**dict(row)) for row in await conn.fetch(VERSIONS, tenant, *ask, package)]


async def sources(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> Sources:
    """The texts of a version. Raises `RuleVersionUnknown`."""
    row = await conn.fetchrow(SOURCES, tenant, version_id)
    if row is None:
        raise RuleVersionUnknown(version_id)
    return Sources(**dict(row))


async def fields(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> Sequence[RuleField]:
    """The fields of a version, by path."""
    return [RuleField(**dict(row)) for row in await conn.fetch(FIELDS, tenant, version_id)]


def stream_of(tenant: TenantId, version_id: RulePackageVersionId) -> Stream:
    """The chain of a version's events."""
    return Stream(tenant, "RulePackageVersion", AggregateId(version_id))

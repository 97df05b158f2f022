"""Rule packages and their versions. The texts of a version never change; its status only moves forward.

A package is a name; a version is two texts, rules and their tests, which the caller has checked. The same two texts are
one version of the tenant, however often they are sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, LiteralString

from bpc.core.audit.events import Act
from bpc.core.audit.row_hashes import hash_rows
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import RulePackageId, RulePackageVersionId, TenantId
from bpc.core.language.check_result import PackageField
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.list_filters import ListConditions, find_candidates

RuleVersionStatus = Literal["DRAFT", "VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED"]
VERSION_KIND: Final = "rule package version"
LANGUAGE_LEVEL: Final = 2  # the highest that this build can compile
INSERT_PACKAGE: Final[LiteralString] = """
    INSERT INTO rule_packages (tenant_id, rule_package_id, name, description, created_at, created_by)
    VALUES ($1, $2, $3, $4, $5, $6)
"""
SELECT_PACKAGES: Final[LiteralString] = """
    SELECT rule_package_id, name, description, is_active, created_at FROM rule_packages
"""
SELECT_PACKAGE: Final[LiteralString] = f"{SELECT_PACKAGES} WHERE tenant_id = $1 AND rule_package_id = $2"
SELECT_PACKAGE_BY_NAME: Final[LiteralString] = f"{SELECT_PACKAGES} WHERE tenant_id = $1 AND name = $2"
SELECT_PACKAGE_FOR_UPDATE: Final[LiteralString] = f"{SELECT_PACKAGE} FOR NO KEY UPDATE"
SELECT_PACKAGE_FOR_SHARE: Final[LiteralString] = f"{SELECT_PACKAGE} FOR SHARE"
INSERT_VERSION: Final[LiteralString] = """
    INSERT INTO rule_package_versions (tenant_id, rule_package_version_id, rule_package_id, version, status, created_at,
                                       compiler_min_build, dsl_source, dsl_sha256, tests_source, tests_sha256)
    SELECT $1, $2, $3, coalesce(max(version), 0) + 1, 'DRAFT', $4, $5, $6, $7, $8, $9
      FROM rule_package_versions WHERE tenant_id = $1 AND rule_package_id = $3
    ON CONFLICT ON CONSTRAINT rule_package_versions_sources_key DO NOTHING
    RETURNING version
"""
SELECT_VERSION_BY_SOURCES: Final[LiteralString] = """
    SELECT rule_package_version_id, rule_package_id FROM rule_package_versions
     WHERE tenant_id = $1 AND dsl_sha256 = $2 AND tests_sha256 = $3
"""
INSERT_FIELDS: Final[LiteralString] = """
    INSERT INTO rule_fields (tenant_id, rule_package_version_id, rule_field_id, field_path, field_type, audiences,
                             required, label, point, citation)
    SELECT $1, $2, field_id, path, type, string_to_array(audiences, ' '), required, label, point, citation
      FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::boolean[], $8::text[], $9::text[], $10::text[])
        AS f (field_id, path, type, audiences, required, label, point, citation)
"""
SELECT_VERSIONS: Final[LiteralString] = """
    SELECT rule_package_version_id, rule_package_id, version, status::text AS status, created_at, published_at,
           compiler_min_build, dsl_sha256, tests_sha256
      FROM rule_package_versions
"""
SELECT_VERSION: Final[LiteralString] = f"{SELECT_VERSIONS} WHERE tenant_id = $1 AND rule_package_version_id = $2"
SELECT_VERSION_FOR_UPDATE: Final[LiteralString] = f"{SELECT_VERSION} FOR NO KEY UPDATE"
SELECT_VERSION_FOR_SHARE: Final[LiteralString] = f"{SELECT_VERSION} FOR SHARE"
SELECT_VERSION_PAGE: Final[LiteralString] = make_page_query(
    SELECT_VERSIONS, time="created_at", key="rule_package_version_id", where="AND rule_package_id = $5"
)
SELECT_NEWEST_VERSION: Final[LiteralString] = f"""
    {SELECT_VERSIONS} WHERE tenant_id = $1 AND rule_package_id = $2 ORDER BY version DESC LIMIT 1
"""
SELECT_NEWEST_PUBLISHED: Final[LiteralString] = """
    SELECT DISTINCT ON (rule_package_id)
           rule_package_version_id, rule_package_id, version, status::text AS status, created_at, published_at,
           compiler_min_build, dsl_sha256, tests_sha256
      FROM rule_package_versions
     WHERE tenant_id = $1 AND status = 'PUBLISHED' AND ($2::uuid IS NULL OR rule_package_id = $2)
       AND rule_package_id IN (SELECT rule_package_id FROM rule_packages WHERE tenant_id = $1 AND is_active)
     ORDER BY rule_package_id, version DESC
     LIMIT $3
"""
COUNT_VERSIONS_BY_STATUS: Final[LiteralString] = """
    SELECT status::text AS status, count(*) AS versions FROM rule_package_versions
     WHERE tenant_id = $1 AND rule_package_id = $2
     GROUP BY 1 ORDER BY min(status)
"""
SELECT_SOURCES: Final[LiteralString] = """
    SELECT dsl_source AS dsl, tests_source AS tests, dsl_sha256, tests_sha256, status::text AS status
      FROM rule_package_versions WHERE tenant_id = $1 AND rule_package_version_id = $2
"""
SELECT_FIELDS: Final[LiteralString] = """
    SELECT field_path, field_type, audiences, required, label, point, citation FROM rule_fields
     WHERE tenant_id = $1 AND rule_package_version_id = $2
     ORDER BY field_path COLLATE "C"
"""
SELECT_IDS_BY_TEXT: Final[LiteralString] = "SELECT find_rule_packages_by_text($1, $2)"
UPDATE_PACKAGE: Final[LiteralString] = """
    UPDATE rule_packages SET name = $3, description = $4, is_active = $5
     WHERE tenant_id = $1 AND rule_package_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePackageRow:
    """A container of versions, with a name that is unique in the tenant; deactivated, it compiles nothing new."""

    rule_package_id: RulePackageId
    name: str
    description: str | None
    is_active: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVersionRow:
    """A version without its texts. `compiler_min_build` is the oldest build that can compile it."""

    rule_package_version_id: RulePackageVersionId
    rule_package_id: RulePackageId
    version: int
    status: RuleVersionStatus
    created_at: datetime
    published_at: datetime | None
    compiler_min_build: str
    dsl_sha256: Digest
    tests_sha256: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSources:
    """The two texts of a version, as they were uploaded."""

    dsl: bytes
    tests: bytes
    dsl_sha256: Digest
    tests_sha256: Digest
    status: RuleVersionStatus


class RulePackageInactive(Conflict):
    """A deactivated package gets no versions, and its versions compile nothing new."""

    def __init__(self, package: RulePackageRow) -> None:
        super().__init__(
            f"rule package `{package.name}` is deactivated",
            fix="reactivate it, or use another one",
            details={"rule_package_id": str(package.rule_package_id)},
        )


class RuleSourcesExist(Conflict):
    """A version has these two texts."""

    def __init__(self, version: RulePackageVersionId, package: RulePackageId) -> None:
        super().__init__(
            "a version with these sources already exists",
            fix="use the existing version",
            details={"rule_package_version_id": str(version), "rule_package_id": str(package)},
        )
        self.version_id = version


async def create_package(
    conn: Connection, tenant: TenantId, *, name: str, description: str | None, act: Act
) -> RulePackageRow:
    """Create a package without versions, and append an event."""
    package = RulePackageId(clock.new_id())
    await conn.execute(INSERT_PACKAGE, tenant, package, name, description, act.at, act.actor_id)
    payload = {"name": name, "description": description}
    await events.append_act(conn, act, tenant, "RulePackage", package, "RULE_PACKAGE_CREATED", payload)
    return RulePackageRow(
        rule_package_id=package, name=name, description=description, is_active=True, created_at=act.at
    )


async def get_package(conn: Connection, tenant: TenantId, package: RulePackageId) -> RulePackageRow:
    return await fetch_one(conn, RulePackageRow, SELECT_PACKAGE, tenant, package, kind="rule package")


async def find_package_by_name(conn: Connection, tenant: TenantId, name: str) -> RulePackageRow | None:
    row = await conn.fetchrow(SELECT_PACKAGE_BY_NAME, tenant, name)
    return None if row is None else RulePackageRow(**dict(row))


async def lock_package(conn: Connection, tenant: TenantId, package: RulePackageId) -> RulePackageRow:
    """A package. Until the transaction ends, nobody else changes it or adds a version to it."""
    return await fetch_one(conn, RulePackageRow, SELECT_PACKAGE_FOR_UPDATE, tenant, package, kind="rule package")


async def require_active_package(conn: Connection, tenant: TenantId, package: RulePackageId) -> None:
    """Raise `RulePackageInactive` if a package is deactivated; until the transaction ends, nobody deactivates it."""
    row = await fetch_one(conn, RulePackageRow, SELECT_PACKAGE_FOR_SHARE, tenant, package, kind="rule package")
    if not row.is_active:
        raise RulePackageInactive(row)


async def find_newest_version(conn: Connection, tenant: TenantId, package: RulePackageId) -> RuleVersionRow | None:
    """The version of a package with the highest number."""
    row = await conn.fetchrow(SELECT_NEWEST_VERSION, tenant, package)
    return None if row is None else RuleVersionRow(**dict(row))


async def list_newest_published(
    conn: Connection, tenant: TenantId, package: RulePackageId | None = None, *, limit: int
) -> Sequence[RuleVersionRow]:
    """The newest published version of one package, or of each package that has one; of active packages alone."""
    return await fetch_rows(conn, RuleVersionRow, SELECT_NEWEST_PUBLISHED, tenant, package, limit)


async def count_versions_by_status(
    conn: Connection, tenant: TenantId, package: RulePackageId
) -> Mapping[RuleVersionStatus, int]:
    """The number of versions of a package by status; a status without versions is left out."""
    return {row["status"]: row["versions"] for row in await conn.fetch(COUNT_VERSIONS_BY_STATUS, tenant, package)}


async def find_sources_conflict(
    conn: Connection, tenant: TenantId, dsl: Digest, tests: Digest
) -> RuleSourcesExist | None:
    """The refusal that names the version with exactly these texts, if one has them."""
    row = await conn.fetchrow(SELECT_VERSION_BY_SOURCES, tenant, dsl, tests)
    return None if row is None else RuleSourcesExist(RulePackageVersionId(row[0]), RulePackageId(row[1]))


async def insert_version(
    conn: Connection,
    tenant: TenantId,
    package: RulePackageId,
    *,
    dsl: bytes,
    tests: bytes,
    fields: Sequence[PackageField],
    act: Act,
    language: int = 1,
) -> RuleVersionRow:
    """Create a DRAFT with its fields, and append an event. Raises `RuleSourcesExist` if a version has these texts.

    `language` is the level of the rule language that the rules need.
    """
    package_row = await lock_package(conn, tenant, package)
    if not package_row.is_active:
        raise RulePackageInactive(package_row)
    version_id = RulePackageVersionId(clock.new_id())
    dsl_sha256, tests_sha256 = sha256(dsl), sha256(tests)
    texts = dsl, dsl_sha256, tests, tests_sha256
    number = await conn.fetchval(INSERT_VERSION, tenant, version_id, package, act.at, str(language), *texts)
    if number is None:  # the other transaction has committed: while it was open, the insert waited
        raise await find_sources_conflict(conn, tenant, dsl_sha256, tests_sha256) or Conflict(
            "the sources already exist", fix="use the version that has them"
        )
    await _insert_fields(conn, tenant, version_id, fields)
    payload = {
        "rule_package_id": str(package),
        "version": number,
        "compiler_min_build": str(language),
        "dsl_sha256": to_hex(dsl_sha256),
        "tests_sha256": to_hex(tests_sha256),
        "fields": len(fields),
        "fields_sha256": to_hex(_hash_fields(fields)),
    }
    await events.append_act(conn, act, tenant, "RulePackageVersion", version_id, "RULE_VERSION_CREATED", payload)
    return await get_version(conn, tenant, version_id)


def _hash_fields(fields: Sequence[PackageField]) -> Digest:
    return hash_rows(
        (
            field.field_path,
            field.field_type,
            " ".join(field.audiences),
            field.required,
            field.label,
            field.point,
            field.citation,
        )
        for field in fields
    )


async def _insert_fields(
    conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, fields: Sequence[PackageField]
) -> None:
    await conn.execute(
        INSERT_FIELDS,
        tenant,
        version_id,
        [clock.new_id() for _ in fields],
        [field.field_path for field in fields],
        [field.field_type for field in fields],
        [" ".join(field.audiences) for field in fields],
        [field.required for field in fields],
        [field.label for field in fields],
        [field.point for field in fields],
        [field.citation for field in fields],
    )


async def get_version(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> RuleVersionRow:
    """A version. Raises `UnknownResource`."""
    return await fetch_one(conn, RuleVersionRow, SELECT_VERSION, tenant, version_id, kind=VERSION_KIND)


async def lock_version(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> RuleVersionRow:
    """A version. Until the transaction ends, nobody else changes its status or adds a test run."""
    return await fetch_one(conn, RuleVersionRow, SELECT_VERSION_FOR_UPDATE, tenant, version_id, kind=VERSION_KIND)


async def lock_version_shared(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> RuleVersionRow:
    """A version. Until the transaction ends, nobody changes its status; others may take the same lock."""
    return await fetch_one(conn, RuleVersionRow, SELECT_VERSION_FOR_SHARE, tenant, version_id, kind=VERSION_KIND)


async def list_versions(
    conn: Connection, tenant: TenantId, package: RulePackageId, page: PageQuery
) -> Sequence[RuleVersionRow]:
    """The versions of a package, newest first."""
    return await fetch_rows(conn, RuleVersionRow, SELECT_VERSION_PAGE, tenant, *page, package)


async def load_sources(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> RuleSources:
    """The texts of a version. Raises `UnknownResource`."""
    return await fetch_one(conn, RuleSources, SELECT_SOURCES, tenant, version_id, kind=VERSION_KIND)


async def list_fields(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> Sequence[PackageField]:
    """The fields of a version, by path."""
    return await fetch_rows(conn, PackageField, SELECT_FIELDS, tenant, version_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePackageFilter:
    """Which packages to list: those that match every filter that is set.

    `text` is a part of the name or the description, `name` a part of the name, whatever the case.
    """

    name: str | None = None
    text: str | None = None
    status: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


async def list_packages(
    conn: Connection, tenant: TenantId, filters: RulePackageFilter, page: PageQuery
) -> Sequence[RulePackageRow]:
    """Packages, newest first."""
    conditions = ListConditions()
    conditions.add_text("name", filters.name)
    conditions.add_text("name || ' ' || coalesce(description, '')", filters.text)
    candidates = await find_candidates(conn, SELECT_IDS_BY_TEXT, filters.text, filters.name)
    conditions.add("rule_package_id = ANY({}::uuid[])", candidates)
    conditions.add_activity("is_active", filters.status)
    conditions.add_times("created_at", filters.created_after, filters.created_before)
    statement = make_page_query(SELECT_PACKAGES, time="created_at", key="rule_package_id", where=conditions.where)
    return await fetch_rows(conn, RulePackageRow, statement, tenant, *page, *conditions.values)


async def rename_package(
    conn: Connection,
    tenant: TenantId,
    package_id: RulePackageId,
    *,
    name: str | None = None,
    description: str | None = None,
    act: Act,
) -> RulePackageRow:
    """Give a package another name or description, and append an event if it is another; None leaves what it has."""
    package = await lock_package(conn, tenant, package_id)
    renamed_package = replace(package, name=name or package.name, description=description or package.description)
    payload = {"from": package.name, "to": renamed_package.name, "description": renamed_package.description}
    return await _update_package(conn, tenant, package, renamed_package, "RULE_PACKAGE_RENAMED", payload, act)


async def set_package_activity(
    conn: Connection, tenant: TenantId, package_id: RulePackageId, *, is_active: bool, reason: str | None, act: Act
) -> RulePackageRow:
    """Let its versions compile again, or nothing new, and append an event if that is a change."""
    package = await lock_package(conn, tenant, package_id)
    event_type = "RULE_PACKAGE_REACTIVATED" if is_active else "RULE_PACKAGE_DEACTIVATED"
    changed_package = replace(package, is_active=is_active)
    return await _update_package(conn, tenant, package, changed_package, event_type, {"reason": reason}, act)


async def _update_package(
    conn: Connection,
    tenant: TenantId,
    before: RulePackageRow,
    after: RulePackageRow,
    event_type: str,
    payload: dict[str, str | None],
    act: Act,
) -> RulePackageRow:
    if after != before:
        package = after.rule_package_id
        await conn.execute(UPDATE_PACKAGE, tenant, package, after.name, after.description, after.is_active)
        members = {name: value for name, value in payload.items() if value is not None}
        await events.append_act(conn, act, tenant, "RulePackage", package, event_type, members)
    return after

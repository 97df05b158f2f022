"""Catalogues of rule packages: their texts in other languages, a PO file each. Outside every hash, so replaceable.

A catalogue belongs to a package and answers for all its versions: a translation counts only for exactly the English
text that it was made for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.catalogue.number_format import Language
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import PassportVersionId, RulePackageId, TenantId
from bpc.storage.audit import events
from bpc.storage.connection import Connection, fetch_rows

UPSERT_CATALOGUE: Final[LiteralString] = """
    INSERT INTO rule_catalogues (tenant_id, rule_package_id, language, content, sha256, texts, stored_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (tenant_id, rule_package_id, language)
    DO UPDATE SET content = EXCLUDED.content, sha256 = EXCLUDED.sha256, texts = EXCLUDED.texts,
                  stored_at = EXCLUDED.stored_at
     WHERE rule_catalogues.sha256 <> EXCLUDED.sha256
    RETURNING 1
"""
SELECT_CATALOGUES: Final[LiteralString] = """
    SELECT rule_package_id, language, octet_length(content) AS size, sha256, texts, stored_at FROM rule_catalogues
     WHERE tenant_id = $1 AND rule_package_id = $2
"""
SELECT_CATALOGUE_LIST: Final[LiteralString] = f"{SELECT_CATALOGUES} ORDER BY language"
SELECT_CATALOGUE: Final[LiteralString] = f"{SELECT_CATALOGUES} AND language = $3"
SELECT_CONTENT: Final[LiteralString] = """
    SELECT content FROM rule_catalogues WHERE tenant_id = $1 AND rule_package_id = $2 AND language = $3
"""
SELECT_CONTENT_FOR_VERSION: Final[LiteralString] = """
    SELECT c.content
      FROM passport_versions v
      JOIN rule_package_versions r ON r.tenant_id = $1 AND r.rule_package_version_id = v.rule_package_version_id
      JOIN rule_catalogues c ON c.tenant_id = $1 AND c.rule_package_id = r.rule_package_id AND c.language = $3
     WHERE v.tenant_id = $1 AND v.passport_version_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCatalogueRow:
    """A catalogue without its text. `texts` is how many texts it has a translation for."""

    rule_package_id: RulePackageId
    language: Language
    size: int
    sha256: Digest
    texts: int
    stored_at: datetime


async def store_catalogue(
    conn: Connection,
    tenant: TenantId,
    package: RulePackageId,
    language: Language,
    content: bytes,
    *,
    texts: int,
    act: Act,
) -> RuleCatalogueRow:
    """Store the catalogue of a package and a language in place of an earlier one; append an event if it is another."""
    digest = sha256(content)
    if await conn.fetchval(UPSERT_CATALOGUE, tenant, package, language, content, digest, texts, act.at) is not None:
        payload = {"language": language, "sha256": to_hex(digest), "texts": texts}
        await events.append_act(conn, act, tenant, "RulePackage", package, "RULE_CATALOGUE_STORED", payload)
    rows = await fetch_rows(conn, RuleCatalogueRow, SELECT_CATALOGUE, tenant, package, language)
    return rows[0]


async def list_catalogues(conn: Connection, tenant: TenantId, package: RulePackageId) -> Sequence[RuleCatalogueRow]:
    """The catalogues of a package, by language."""
    return await fetch_rows(conn, RuleCatalogueRow, SELECT_CATALOGUE_LIST, tenant, package)


async def find_content(conn: Connection, tenant: TenantId, package: RulePackageId, language: Language) -> bytes | None:
    """The text of a catalogue; None if the package has none in this language."""
    content: bytes | None = await conn.fetchval(SELECT_CONTENT, tenant, package, language)
    return content


async def find_content_for_version(
    conn: Connection, tenant: TenantId, version: PassportVersionId, language: Language
) -> bytes | None:
    """The text of the catalogue for the rules that a passport version was made with."""
    content: bytes | None = await conn.fetchval(SELECT_CONTENT_FOR_VERSION, tenant, version, language)
    return content

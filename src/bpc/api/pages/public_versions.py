"""What pages show of a version, loaded once and kept: a signed version never changes.

    passport id ─► find_passport_owner ─► its tenant ─► PublicVersions.load ─► RequestedPassport, or None

What can change is read each time: which versions there are, what was signed about their status, the proof of logging
while it is pending, and how many compliance entries are waived.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import cache
from pathlib import Path
from typing import Final

from bpc.api.access.tenant_limits import HeavyRequestSlots
from bpc.api.http.request_context import Service
from bpc.core.exports.disclosure import (
    DisclosedPassport,
    ViewImpossible,
    disclose_opened,
    make_view,
    open_for_export,
)
from bpc.core.exports.field_origins import FieldOrigin, trace_origins
from bpc.core.exports.field_sources import FieldSources
from bpc.core.exports.json_ld import export_json_ld
from bpc.core.exports.page_completeness import Completeness, count_filled_points
from bpc.core.exports.page_state import VersionState
from bpc.core.formats.ids import PassportId, PassportVersionId, TenantId
from bpc.core.language.package import read_words
from bpc.core.language.typed import FieldAbout
from bpc.core.passport.bundle import Bundle
from bpc.runtime.settings import Settings
from bpc.storage.connection import Connection
from bpc.storage.database import begin_tenant_transaction
from bpc.storage.passports import exports, public_passports, status_rows, waivers
from bpc.storage.passports.public_passports import PublicVersionRow
from bpc.storage.rules import catalogues
from bpc.storage.tlog.log_rows import find_verifier, find_version_proof

MOST_KEPT: Final = 64
STATES: Final[dict[str, VersionState]] = {"ACTIVE": "in_force", "SUPERSEDED": "superseded", "REVOKED": "revoked"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicVersion:
    """What everybody may see of a version. `view` is None if its snapshot has no secret.

    `origins` and `completeness` are of its public fields, `abouts` of all that its rules have.
    """

    passport: DisclosedPassport
    view: bytes | None
    json_ld: bytes
    log_proof: str | None
    origins: Mapping[str, FieldOrigin]
    completeness: Completeness
    abouts: Mapping[str, FieldAbout]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPassport:
    """A version, and what is known of its passport now."""

    issuer: str
    version: PublicVersion
    row: PublicVersionRow
    versions: Sequence[PublicVersionRow]
    catalogue: bytes | None
    statements: Sequence[bytes]
    before: DisclosedPassport | None = None
    log_policy: str | None = None

    @property
    def state(self) -> VersionState:
        return STATES[self.row.status]


class PublicVersions:
    """Versions that were asked for lately. Those that were not asked for the longest time make room."""

    def __init__(self) -> None:
        self._kept: OrderedDict[PassportVersionId, PublicVersion] = OrderedDict()
        self._own_policy: str | None = None
        # Of its own: whoever reads pages must not take the slots of tenants.
        self._slots = HeavyRequestSlots(1, label="new public pages")

    async def load(
        self,
        service: Service,
        passport: PassportId,
        version: PassportVersionId | None,
        language: str,
        *,
        only_tenant: TenantId | None = None,
        with_before: bool = False,
    ) -> RequestedPassport | None:
        """A version of a passport, without a `version` the one in force or the last that was; None if there is none.

        With `only_tenant`, the passports of others are not there. `with_before` loads the version before it too.
        """
        async with service.database.plain() as conn:
            owner = await public_passports.find_passport_owner(conn, passport)
            if owner is None or only_tenant not in {None, owner.tenant_id}:
                return None
            tenant = owner.tenant_id
            async with begin_tenant_transaction(conn, tenant):
                rows = await public_passports.list_public_versions(conn, tenant, passport)
                row = _choose_version(rows, version)
                if row is None:
                    return None
                public_version = await self.load_version(conn, tenant, row.passport_version_id)
                waived_count = await waivers.count_waived(conn, tenant, row.passport_version_id)
                statements = await status_rows.list_statements(conn, tenant, row.passport_version_id)
                catalogue = await catalogues.find_content_for_version(conn, tenant, row.passport_version_id, language)
                before = await self._load_before(conn, tenant, rows, row) if with_before else None
                log_policy = await self._load_log_policy(service.settings, conn)
        waived_passport = replace(public_version.passport, waived=waived_count)
        return RequestedPassport(
            issuer=owner.issuer,
            version=replace(public_version, passport=waived_passport),
            row=row,
            versions=rows,
            catalogue=catalogue,
            statements=statements,
            before=before,
            log_policy=log_policy,
        )

    async def find_version_on(
        self, service: Service, passport: PassportId, day: date, *, only_tenant: TenantId | None = None
    ) -> PassportVersionId | None:
        """The version that was in force when a day ended, in UTC; None if there was none."""
        async with service.database.plain() as conn:
            owner = await public_passports.find_passport_owner(conn, passport)
            if owner is None or only_tenant not in {None, owner.tenant_id}:
                return None
            async with begin_tenant_transaction(conn, owner.tenant_id):
                rows = await public_passports.list_public_versions(conn, owner.tenant_id, passport)
        moment = get_end_of_day(day)
        return next((row.passport_version_id for row in rows if row.was_in_force_at(moment)), None)

    async def _load_before(
        self,
        conn: Connection,
        tenant: TenantId,
        rows: Sequence[PublicVersionRow],
        later: PublicVersionRow,
    ) -> DisclosedPassport | None:
        """The version that was in force before the shown one, to compare with; the first has none."""
        row = next((row for row in rows if row.activated_at < later.activated_at), None)
        if row is None:
            return None
        return (await self.load_version(conn, tenant, row.passport_version_id)).passport

    async def _load_log_policy(self, settings: Settings, conn: Connection) -> str | None:
        """What pages check the log with: the configured policy, or this installation's log without witnesses.

        The log's public key is in the database since the log began, and never changes. Its private half is not here.
        """
        if settings.tlog_policy_file is not None:
            return _read_policy_file(settings.tlog_policy_file)
        if self._own_policy is None and (verifier := await find_verifier(conn)) is not None:
            self._own_policy = f"log {verifier}\nquorum none\n"
        return self._own_policy

    async def load_version(self, conn: Connection, tenant: TenantId, version: PassportVersionId) -> PublicVersion:
        """What everybody may see of a version of a tenant."""
        public_version = self._kept.get(version)
        if public_version is None:
            bundle = await exports.load_bundle(conn, tenant, version, with_events=False)
            async with self._slots.take(tenant):
                public_version = await asyncio.to_thread(_build_version, bundle)
        if public_version.log_proof is None and (proof := await find_version_proof(conn, tenant, version)) is not None:
            public_version = replace(public_version, log_proof=proof.encode().decode())
        self._kept[version] = public_version
        self._kept.move_to_end(version)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return public_version


def get_end_of_day(day: date) -> datetime:
    """The last moment of a day in UTC."""
    return datetime.combine(day, time.max, tzinfo=UTC)


def _choose_version(rows: Sequence[PublicVersionRow], version: PassportVersionId | None) -> PublicVersionRow | None:
    if version is not None:
        return next((row for row in rows if row.passport_version_id == version), None)
    in_force = next((row for row in rows if row.status == "ACTIVE"), None)
    return in_force or next(iter(rows), None)


def _build_version(bundle: Bundle) -> PublicVersion:
    opened_bundle = open_for_export(bundle)
    passport = disclose_opened(opened_bundle, "public", 0)
    try:
        view = make_view(bundle, "public")
    except ViewImpossible:
        view = None
    log_proof, sources = bundle.entries.get("passport.tlog-proof"), FieldSources(opened_bundle)
    return PublicVersion(
        passport=passport,
        view=view,
        json_ld=export_json_ld(passport),
        log_proof=None if log_proof is None else log_proof.decode(),
        origins=trace_origins(sources, passport),
        completeness=count_filled_points(opened_bundle, passport, sources),
        abouts=read_words(bundle.entries["rules.bpc"]).fields,
    )


@cache
def _read_policy_file(path: Path) -> str:
    return path.read_text()

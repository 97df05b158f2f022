"""The gate before Activate: a version with compliance entries that block stays SIGNED until they are waived.

What blocks is a setting of the tenant at the time of the activation. A version that is ACTIVE stays ACTIVE, whatever
the setting becomes. A waiver names entries of one version; the version that is compiled next starts without any.

    check_gate ─► GateDecision, part of the event PASSPORT_ACTIVATED; or ComplianceBlocked
    load_compliance ─► ComplianceReport, to be shown
    waive ──────► passport_waivers, PASSPORT_WAIVED
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, Invalid, Refusal, combine_problems
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.core.language.evaluation import ComplianceEntry
from bpc.core.passport.gate import (
    WAIVABLE_STATUSES,
    ActivationBlocker,
    ComplianceBlocked,
    ComplianceCounts,
    EntryName,
    count_compliance,
    count_waivable,
    get_entry_name,
    list_blocking,
    read_compliance,
    to_entries,
)
from bpc.storage.access import tenant_settings
from bpc.storage.connection import Connection
from bpc.storage.evidence import snapshots
from bpc.storage.passports import passport_versions, waivers
from bpc.storage.passports.passport_versions import PassportVersionRow, PassportVersionStatus
from bpc.storage.passports.waivers import WaiverRow, describe_waivers

EntrySource: TypeAlias = Literal["rule", "finding"]

WAIVABLE_VERSIONS: Final[frozenset[PassportVersionStatus]] = frozenset({"COMPILING", "SIGNED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """Why a version may be activated: the setting in force, its counts, and what was waived."""

    activation_blocked_by: ActivationBlocker
    fail_count: int
    warn_count: int
    findings: ComplianceCounts
    waived: Sequence[WaiverRow]

    def to_event_payload(self) -> dict[str, object]:
        return {
            "activation_blocked_by": self.activation_blocked_by,
            "fail_count": self.fail_count,
            "warn_count": self.warn_count,
            "finding_fail_count": self.findings.fail,
            "finding_warn_count": self.findings.warn,
            "waived": describe_waivers(self.waived),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEntry:
    """A compliance entry, who reported it, and whether it is waived."""

    code: str
    field: str
    message: str
    status: str
    verdict: str
    args: Mapping[str, str]
    source: EntrySource
    waived: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplianceReport:
    """Everything that the gate looks at: the setting in force, counts, and all entries. Findings come first."""

    activation_blocked_by: ActivationBlocker
    fail_count: int
    warn_count: int
    findings: ComplianceCounts
    waived_count: int
    entries: Sequence[GateEntry]


async def load_compliance(conn: Connection, tenant: TenantId, version_id: PassportVersionId) -> ComplianceReport:
    """What the gate would look at if the version were activated now."""
    version = await passport_versions.get_version(conn, tenant, version_id)
    settings = await tenant_settings.load_settings(conn, tenant)
    waived_names = {row.name for row in await waivers.load_waivers(conn, tenant, version_id)}
    findings = to_entries(await snapshots.load_findings(conn, tenant, version.snapshot_id))
    rule_entries = await _load_payload_entries(conn, tenant, version_id)
    return ComplianceReport(
        activation_blocked_by=settings.activation_blocked_by,
        fail_count=version.fail_count,
        warn_count=version.warn_count,
        findings=count_compliance(findings),
        waived_count=version.waived_count,
        entries=[
            *(_to_gate_entry(entry, "finding", waived_names) for entry in findings),
            *(_to_gate_entry(entry, "rule", waived_names) for entry in rule_entries),
        ],
    )


def _to_gate_entry(entry: ComplianceEntry, source: EntrySource, waived_names: Collection[EntryName]) -> GateEntry:
    is_waived = entry.status in WAIVABLE_STATUSES and get_entry_name(entry) in waived_names
    args = dict(entry.args)
    return GateEntry(**entry.to_json(), verdict=entry.verdict, args=args, source=source, waived=is_waived)


async def check_gate(conn: Connection, tenant: TenantId, version: PassportVersionRow) -> GateDecision:
    """Decide whether the locked version may be activated. Raises `ComplianceBlocked` with every entry that blocks."""
    blocker = (await tenant_settings.load_settings(conn, tenant)).activation_blocked_by
    rows = await waivers.load_waivers(conn, tenant, version.passport_version_id)
    findings = to_entries(await snapshots.load_findings(conn, tenant, version.snapshot_id))
    entries = [*findings, *(await _load_rule_entries(conn, tenant, version))]
    blocking = list_blocking(entries, {row.name for row in rows}, blocker)
    if blocking:
        raise ComplianceBlocked(version.passport_version_id, blocker, blocking)
    return GateDecision(
        activation_blocked_by=blocker,
        fail_count=version.fail_count,
        warn_count=version.warn_count,
        findings=count_compliance(findings),
        waived=rows,
    )


async def waive(
    conn: Connection,
    tenant: TenantId,
    version_id: PassportVersionId,
    names: Collection[EntryName],
    *,
    reason: str,
    act: Act,
) -> Sequence[WaiverRow]:
    """Waive FAIL and WARN entries of a version that is not activated yet. Raises a refusal that names every problem."""
    version = await passport_versions.lock_version(conn, tenant, version_id)
    if version.status not in WAIVABLE_VERSIONS:
        raise Conflict(
            f"passport version `{version_id}` is {version.status}, and only one that is not activated yet has entries "
            "to waive",
            fix="compile a new version, and waive entries of that",
            details={"status": version.status},
        )
    findings = to_entries(await snapshots.load_findings(conn, tenant, version.snapshot_id))
    waivable = count_waivable([*findings, *(await _load_rule_entries(conn, tenant, version))])
    earlier = {row.name for row in await waivers.load_waivers(conn, tenant, version_id)}
    problems = [problem for name in names for problem in _find_problems(name, waivable, earlier)]
    if problems:
        raise combine_problems(problems)
    return await waivers.insert_waivers(
        conn, tenant, version_id, {name: waivable[name] for name in sorted(set(names))}, reason=reason, act=act
    )


def _find_problems(
    name: EntryName, waivable: Mapping[EntryName, int], earlier: Collection[EntryName]
) -> Sequence[Refusal]:
    details = name._asdict()
    if name in earlier:
        says = f"the entries `{name.code}` of field `{name.field}` are already waived"
        return [Conflict(says, fix="leave them out", details=details)]
    if name not in waivable:
        says = f"the version has no FAIL or WARN entry `{name.code}` of field `{name.field}`"
        return [Invalid(says, fix="name an entry as the refusal of the activation lists it", details=details)]
    return []


async def _load_rule_entries(
    conn: Connection, tenant: TenantId, version: PassportVersionRow
) -> Sequence[ComplianceEntry]:
    if not version.fail_count and not version.warn_count:
        return ()
    return await _load_payload_entries(conn, tenant, version.passport_version_id)


async def _load_payload_entries(
    conn: Connection, tenant: TenantId, version_id: PassportVersionId
) -> Sequence[ComplianceEntry]:
    payload = await passport_versions.load_artifact(conn, tenant, version_id, "payload")
    return await asyncio.to_thread(read_compliance, payload)  # it may have megabytes

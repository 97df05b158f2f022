"""The gate: which compliance entries of a passport block its activation.

Pure. Rules report entries with `emitCompliance`. What is implausible in the evidence is an entry, too, whether or not a
rule reports it: an error is a FAIL, a warning a WARN, and its field is the key of the finding. A setting of the tenant
says which statuses block, and a waiver takes away the entries of one version that have one code and one field.

    payload ── read_compliance ──► entries ─┐
    findings of the snapshot ── to_entries ─┤
    waivers of the version ─────────────────┼─► list_blocking ─► entries that block; none: the version may be activated
    setting of the tenant ──────────────────┘
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bpc.core.errors import Conflict
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import read_finding
from bpc.core.formats import canonical_json
from bpc.core.language.evaluation import ComplianceEntry

ActivationBlocker: TypeAlias = Literal["FAIL", "FAIL_AND_WARN", "NOTHING"]

BLOCKING_STATUSES: Final[Mapping[ActivationBlocker, frozenset[str]]] = {
    "FAIL": frozenset({"FAIL"}),
    "FAIL_AND_WARN": frozenset({"FAIL", "WARN"}),
    "NOTHING": frozenset(),
}
WAIVABLE_STATUSES: Final = frozenset({"FAIL", "WARN"})
FINDING_STATUSES: Final[Mapping[str, str]] = {"error": "FAIL", "warning": "WARN"}


class ComplianceCounts(NamedTuple):
    """How many entries of a passport are FAIL, and how many WARN."""

    fail: int
    warn: int


class EntryName(NamedTuple):
    """What a waiver calls entries: their code, and the field whose rule reported them."""

    code: str
    field: str


class ComplianceBlocked(Conflict):
    """Entries that nobody waived block the activation. All of them are in the details."""

    code = "COMPLIANCE_BLOCKED"

    def __init__(self, version: object, blocker: ActivationBlocker, entries: Sequence[ComplianceEntry]) -> None:
        counts = count_compliance(entries)
        parts = [f"{number} {status}" for number, status in ((counts.fail, "FAIL"), (counts.warn, "WARN")) if number]
        noun = "a compliance entry" if len(entries) == 1 else "compliance entries"
        super().__init__(
            f"passport version `{version}` has {noun} that nobody waived: {' and '.join(parts)}",
            fix="correct the evidence or the rules and compile again, or waive the entries with a reason",
            hint="waive entries",
            details={
                "passport_version_id": str(version),
                "activation_blocked_by": blocker,
                "entries": [entry.to_json() for entry in entries],
            },
        )


def read_compliance(payload: bytes) -> list[ComplianceEntry]:
    """The compliance entries of a payload, in its order."""
    members: Any = canonical_json.decode(payload)
    return [
        ComplianceEntry(**{**entry, "args": tuple(sorted(entry.get("args", {}).items()))})
        for entry in members["compliance"]
    ]


def to_entries(findings: Iterable[SnapshotFact]) -> list[ComplianceEntry]:
    """The entries that the findings of a snapshot stand for; notes stand for none."""
    entries = []
    for fact in sorted(findings, key=lambda fact: fact.fact_key):
        finding = read_finding(fact)
        status = FINDING_STATUSES.get(finding.severity)
        if status is not None:
            entries.append(ComplianceEntry(code=finding.code, field=fact.fact_key, message=finding.says, status=status))
    return entries


def count_compliance(entries: Iterable[ComplianceEntry]) -> ComplianceCounts:
    statuses = Counter(entry.status for entry in entries)
    return ComplianceCounts(fail=statuses["FAIL"], warn=statuses["WARN"])


def list_blocking(
    entries: Iterable[ComplianceEntry], waivers: Collection[EntryName], blocker: ActivationBlocker
) -> list[ComplianceEntry]:
    """The entries that block an activation, in their order."""
    statuses = BLOCKING_STATUSES[blocker]
    return [entry for entry in entries if entry.status in statuses and get_entry_name(entry) not in waivers]


def count_waivable(entries: Iterable[ComplianceEntry]) -> Mapping[EntryName, int]:
    """How many FAIL and WARN entries have each name."""
    return Counter(get_entry_name(entry) for entry in entries if entry.status in WAIVABLE_STATUSES)


def get_entry_name(entry: ComplianceEntry) -> EntryName:
    return EntryName(entry.code, entry.field)

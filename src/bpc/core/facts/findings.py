"""Findings: what is implausible in the facts of a product, sealed beside them as facts of type `Finding`.

Pure. Readiness, the gate and rules all read the same findings; a rule brings them into `compliance`. The order in which
findings come does not matter: they are sorted before they are numbered, so equal findings give equal facts.

    Findings of a product ── build_finding_facts ──► facts `finding:<sku>:<code>:<number>` ── read_finding ──► Finding
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from bpc.core.facts.fact_table import SnapshotFact, read_members
from bpc.core.language.types import FactRecordType

Severity: TypeAlias = Literal["error", "warning", "note"]

SEVERITIES: Final[Sequence[Severity]] = get_args(Severity)
FINDING_FACT_TYPE: Final = "Finding"
FINDING_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One implausible thing: the check that noticed it, the fact and members it is about, and a sentence with numbers.

    `points` are the data points that are in doubt because of it.
    """

    code: str
    severity: Severity
    fact_type: str
    fact_key: str
    members: tuple[str, ...]
    says: str
    points: tuple[int, ...] = ()


def build_finding_facts(sku: str, findings: Iterable[Finding]) -> list[SnapshotFact]:
    """The facts that seal the findings of a product, numbered from 1 for each code; the same finding twice is one."""
    facts = []
    counts: dict[str, int] = {}
    for finding in sorted(set(findings), key=_get_order):
        counts[finding.code] = counts.get(finding.code, 0) + 1
        facts.append(
            SnapshotFact(
                fact_type=FINDING_FACT_TYPE,
                # Four digits, so that the order of keys is the order of numbers.
                fact_key=f"finding:{sku}:{finding.code}:{counts[finding.code]:04d}",
                schema_version=FINDING_SCHEMA_VERSION,
                payload={
                    "sku": sku,
                    "code": finding.code,
                    "severity": finding.severity,
                    "fact_type": finding.fact_type,
                    "fact_key": finding.fact_key,
                    "members": list(finding.members),
                    "message": finding.says,
                    "points": list(finding.points),
                },
            )
        )
    return facts


def read_finding(fact: SnapshotFact) -> Finding:
    """The finding that a fact seals, an unknown severity as an error; `FactInvalid` if it does not fit its schema."""
    kind = FactRecordType(FINDING_FACT_TYPE, fact.schema_version)
    members: Mapping[str, Any] = read_members(kind, fact.fact_key, fact.payload)
    return Finding(
        code=members["code"] or "",
        severity=next((severity for severity in SEVERITIES if severity == members["severity"]), "error"),
        fact_type=members["fact_type"] or "",
        fact_key=members["fact_key"] or "",
        members=tuple(members["members"] or ()),
        says=members["message"] or "",
        points=tuple(members["points"] or ()),
    )


def _get_order(finding: Finding) -> tuple[str, str, str, tuple[str, ...], str, str, tuple[int, ...]]:
    return (
        finding.code,
        finding.fact_type,
        finding.fact_key,
        finding.members,
        finding.says,
        finding.severity,
        finding.points,
    )

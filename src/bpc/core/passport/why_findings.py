"""Why there is a finding: what it says, the values it is about, and the cell that each of them is from.

Pure. `bpc why` takes the code of a finding, or its key, in place of a field.

    facts of a snapshot ── explain_findings("RECYCLED_SUM") ──► a Reason for each finding with that code
"""

from collections.abc import Iterator, Mapping, Sequence

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import FINDING_FACT_TYPE, Finding, read_finding
from bpc.core.facts.provenance import ProvenanceIndex
from bpc.core.passport.why import Reason, format_member


def explain_findings(facts: Sequence[SnapshotFact], name: str) -> list[Reason]:
    """The findings with this code or key; empty if there is none."""
    by_name = {(fact.fact_type, fact.fact_key): fact for fact in facts}
    provenance = ProvenanceIndex(facts)
    findings = ((fact.fact_key, read_finding(fact)) for fact in facts if fact.fact_type == FINDING_FACT_TYPE)
    return [
        Reason(
            f"{finding.code} ({finding.severity}): {finding.says}",
            None,
            tuple(_explain_members(finding, by_name, provenance)),
        )
        for key, finding in findings
        if name in {finding.code, key}
    ]


def list_finding_codes(facts: Sequence[SnapshotFact]) -> list[str]:
    """The codes of the findings, each once."""
    return sorted({read_finding(fact).code for fact in facts if fact.fact_type == FINDING_FACT_TYPE})


def _explain_members(
    finding: Finding, facts: Mapping[tuple[str, str], SnapshotFact], provenance: ProvenanceIndex
) -> Iterator[Reason]:
    fact = facts.get((finding.fact_type, finding.fact_key))
    for member in finding.members:
        value = None if fact is None else fact.payload.get(member)
        origin = provenance.find_origin(finding.fact_type, finding.fact_key, member)
        says = f"{member} of {finding.fact_key} is {'absent' if value is None else format_member(member, value)}"
        because = () if origin is None else (Reason(origin.describe(), None),)
        yield Reason(says, None, because)

"""Findings: sealed as facts, and read again as they were."""

from hypothesis import given
from hypothesis import strategies as st

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import SEVERITIES, Finding, build_finding_facts, read_finding
from bpc.core.facts.snapshot import order_facts

VOLTAGE = Finding(
    code="VOLTAGE_ORDER",
    severity="error",
    fact_type="Battery",
    fact_key="battery:SKU-1",
    members=("minimum_voltage_v", "nominal_voltage_v"),
    says="the minimum voltage of 400 V is not below the nominal voltage of 350 V",
    points=(26, 27),
)
FINDINGS = st.builds(
    Finding,
    code=st.sampled_from(["VOLTAGE_ORDER", "SHARE_RANGE"]),
    severity=st.sampled_from(SEVERITIES),
    fact_type=st.sampled_from(["Battery", "Component"]),
    fact_key=st.text("ab:", max_size=4),
    members=st.lists(st.text("ab", max_size=2), max_size=2).map(tuple),
    says=st.text(max_size=4),
    points=st.lists(st.integers(1, 71), max_size=2).map(tuple),
)


def test_a_finding_becomes_a_fact_that_rules_can_read() -> None:
    assert build_finding_facts("SKU-1", [VOLTAGE]) == [
        SnapshotFact(
            fact_type="Finding",
            fact_key="finding:SKU-1:VOLTAGE_ORDER:0001",
            schema_version=1,
            payload={
                "sku": "SKU-1",
                "code": "VOLTAGE_ORDER",
                "severity": "error",
                "fact_type": "Battery",
                "fact_key": "battery:SKU-1",
                "members": ["minimum_voltage_v", "nominal_voltage_v"],
                "message": "the minimum voltage of 400 V is not below the nominal voltage of 350 V",
                "points": [26, 27],
            },
        )
    ]


@given(st.lists(FINDINGS, max_size=6))
def test_what_was_sealed_is_read_again(findings: list[Finding]) -> None:
    facts = build_finding_facts("SKU-1", findings)

    assert {read_finding(fact) for fact in facts} == set(findings)
    assert len(order_facts(facts).facts) == len(set(findings)), "every key is there once"


@given(st.lists(FINDINGS, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_findings_does_not_matter(findings: list[Finding], rng: object) -> None:
    shuffled = list(findings)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]

    assert build_finding_facts("SKU-1", shuffled) == build_finding_facts("SKU-1", findings)

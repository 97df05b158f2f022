"""What the evaluator did: every field with its operations, and no value of a battery."""

import json
from pathlib import Path

from bpc.core.passport.trace import trace_fields

GOLDEN = Path(__file__).parents[1] / "golden" / "reference-2"


def test_every_field_is_traced_in_order_with_its_operations_and_without_values() -> None:
    proof = (GOLDEN / "proof.json").read_bytes()

    traces = list(trace_fields(proof))

    document = json.loads(proof)
    assert [trace.node for trace in traces] == sorted(document["field_index"].values())
    assert {trace.path for trace in traces} == set(document["field_index"])
    by_path = {trace.path: trace for trace in traces}
    assert by_path["carbon.per_kwh"].operations["/"] >= 1
    assert sum(trace.nodes for trace in traces) <= len(document["nodes"])
    names = {name for trace in traces for name in trace.operations}
    assert "EV-400-NMC" not in str(traces)
    assert {"if", "FACT_GET", "requireSome"} <= names

"""What tests of the reference evaluator share: rule text and facts in, a derivation out, nodes shown on one line."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bpc.core.canon import Json
from bpc.core.facts import FactTable, SnapshotFact
from bpc.core.rules.failure import MAX_STEPS, RuleFailure
from bpc.core.rules.package import checked_program
from bpc.core.rules.reference.derive import Derivation, Node, derive
from bpc.core.rules.typed import Program
from bpc.core.rules.world import World


def component(part: str, **payload: Json) -> SnapshotFact:
    return SnapshotFact(
        fact_type="Component", fact_key=f"component:{part}", schema_version=1, payload={"part": part, **payload}
    )


def battery(**payload: Json) -> SnapshotFact:
    return SnapshotFact(fact_type="Battery", fact_key="battery:SKU-1", schema_version=1, payload=payload)


def read(rules: str, facts: Sequence[SnapshotFact] = ()) -> tuple[Program, World]:
    program = checked_program(rules.encode())
    table = FactTable.of(facts, program.facts)
    return program, World(product_sku="SKU-1", product_name="Cell", issued_on="2027-02-18", facts=table)


def derived(rules: str, facts: Sequence[SnapshotFact] = (), max_steps: int = MAX_STEPS) -> Derivation:
    program, world = read(rules, facts)
    return derive(program, world, battery_product={}, facts_hash="", salt=_salts, max_steps=max_steps)


def value_of(type_text: str, expression: str, facts: Sequence[SnapshotFact] = ()) -> Json:
    return derived(f"field f: {type_text} = {expression};", facts).fields["f"]


def failure_of(rules: str, facts: Sequence[SnapshotFact] = (), max_steps: int = MAX_STEPS) -> RuleFailure:
    try:
        derived(rules, facts, max_steps)
    except RuleFailure as failure:
        return failure
    raise AssertionError("the rules gave every field a value")


def steps_shown(rules: str, facts: Sequence[SnapshotFact] = ()) -> list[str]:
    """The steps of a derivation from its first on, without those that close a field."""
    made = derived(rules, facts)
    first = len(made.field_index) + 1
    shown = enumerate(made.nodes)
    return [_shown(at, node) for at, node in shown if at >= first and node.data.get("op") != "derivation"]


def nodes_of(made: Derivation, op: str) -> list[Node]:
    return [node for node in made.nodes if node.data.get("op") == op]


def _shown(at: int, node: Node) -> str:
    children = f" <- {', '.join(map(str, node.children))}" if node.children else ""
    return f"{at} {node.type} {_data(node.data)}{children}"


def _data(data: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={json.dumps(data[name], ensure_ascii=False)}" for name in data)


def _salts(path: str) -> tuple[str, str]:
    return f"salt of {path}", f"inner salt of {path}"

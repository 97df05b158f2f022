"""What tests of the reference evaluator share: rule text and facts in, a derivation out, nodes shown on one line."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluation import MAX_STEPS, RuleFailure, World
from bpc.core.language.package import read_program
from bpc.core.language.reference.derive import Derivation, DerivationNode, derive
from bpc.core.language.typed import Program


def create_component(part: str, **payload: Json) -> SnapshotFact:
    return SnapshotFact(
        fact_type="Component", fact_key=f"component:{part}", schema_version=1, payload={"part": part, **payload}
    )


def create_battery(**payload: Json) -> SnapshotFact:
    return SnapshotFact(fact_type="Battery", fact_key="battery:SKU-1", schema_version=1, payload=payload)


def read_program_and_facts(rules: str, facts: Sequence[SnapshotFact] = ()) -> tuple[Program, World]:
    program = read_program(rules.encode())
    table = FactTable.from_facts(facts, program.facts)
    return program, World(product_sku="SKU-1", product_name="Cell", issued_on="2027-02-18", facts=table)


def derive_rules(
    rules: str, facts: Sequence[SnapshotFact] = (), max_steps: int = MAX_STEPS, *, by_operator: bool = False
) -> Derivation:
    program, world = read_program_and_facts(rules, facts)
    return derive(
        program,
        world,
        battery_product={},
        facts_hash="",
        salt=_create_salts,
        max_steps=max_steps,
        by_operator=by_operator,
    )


def derive_value(type_text: str, expression: str, facts: Sequence[SnapshotFact] = ()) -> Json:
    return derive_rules(f"field f: {type_text} = {expression};", facts).fields["f"]


def catch_failure(rules: str, facts: Sequence[SnapshotFact] = (), max_steps: int = MAX_STEPS) -> RuleFailure:
    try:
        derive_rules(rules, facts, max_steps)
    except RuleFailure as failure:
        return failure
    raise AssertionError("the rules gave every field a value")


def format_steps(rules: str, facts: Sequence[SnapshotFact] = ()) -> list[str]:
    """The steps of a derivation by operator from its first on, without those that close a field."""
    derivation = derive_rules(rules, facts, by_operator=True)
    first = len(derivation.field_index) + 1
    numbered_nodes = enumerate(derivation.nodes)
    return [
        _format_node(at, node) for at, node in numbered_nodes if at >= first and node.data.get("op") != "derivation"
    ]


def find_nodes(derivation: Derivation, op: str) -> list[DerivationNode]:
    return [node for node in derivation.nodes if node.data.get("op") == op]


def _format_node(at: int, node: DerivationNode) -> str:
    children = f" <- {', '.join(map(str, node.children))}" if node.children else ""
    return f"{at} {node.type} {_format_data(node.data)}{children}"


def _format_data(data: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={json.dumps(data[name], ensure_ascii=False)}" for name in data)


def _create_salts(path: str) -> tuple[str, str]:
    return f"salt of {path}", f"inner salt of {path}"

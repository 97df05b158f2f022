"""The reference evaluator: a checked program and its world in, every node of the proof out.

Pure, small and plain: read it next to docs/rules/language.md and docs/formats/proof.md. It shares no code with the
production evaluator, so verification detects what a bug or a dishonest compiler put into a proof, and the tests detect
where the two disagree. It does not hash nodes.

    Program, World ── derive ──► Derivation: nodes in their final order, values, compliance, steps
                        └──────► RuleFailure
    one field      ── explain ─► Explanation: its nodes, and the result or the failure

In other files: values (arithmetic, comparison, built-ins, JSON), accounting (steps and nodes), the walk over
expressions, loops (bodies of lambdas, and what comes of them), definitions (the walk over fields and
definitions), and expressions (the nodes of rules of level 2).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluation import MAX_STEPS, ComplianceEntry, RuleFailure, World
from bpc.core.language.reference.accounting import (
    NO_NODE,
    DerivationNode,
    LoopElement,
    Meter,
    NodesTooLarge,
    NodeTable,
    keep_weights,
)
from bpc.core.language.reference.definitions import ProgramWalker
from bpc.core.language.reference.expressions import ExpressionWalker
from bpc.core.language.reference.values import value_to_json
from bpc.core.language.typed import Program, ProgramField

# Nobody could read more, and no proof is larger.
MAX_EXPLAINED_BYTES: Final = 20_000_000

__all__ = ["Derivation", "DerivationNode", "Explanation", "NodesTooLarge", "derive", "explain", "value_to_json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """A proof without its hashes. A node's id is its position in `nodes`: fields by path, root, steps."""

    nodes: list[DerivationNode]
    fields: dict[str, Json]
    compliance: list[ComplianceEntry]
    steps: int
    field_index: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How one field got its value, or why it has none.

    `nodes` are the steps of this field and those it needs; children are positions in this list. `result_node` is the
    field's derivation, None after a failure. `failed_node` is the condition or option of the failed assertion, if it
    has a node (inside a lambda it has none); `elements` are the loops around the failure, outermost first.
    """

    nodes: list[DerivationNode]
    value: Any
    result_node: int | None
    failure: RuleFailure | None
    failed_node: int | None
    elements: tuple[LoopElement, ...]
    compliance: list[ComplianceEntry]
    steps: int


def derive(
    program: Program,
    world: World,
    *,
    battery_product: Mapping[str, Json],
    facts_hash: str,
    salt: Callable[[str], tuple[str, str]],
    max_steps: int = MAX_STEPS,
    max_bytes: int | None = None,
    by_operator: bool = False,
) -> Derivation:
    """Evaluate every field in the program's order; the first `RuleFailure` ends it.

    The nodes are those of the proof. `by_operator` asks for a node for each operator of rules of level 2 too, whose
    proof has one for each expression.

    `salt(path)` is the field node's salt and the derivation node's. A caller that compares with a proof passes the
    proof's length as `max_bytes`: larger nodes (`NodesTooLarge`) cannot be equal and are not worth the memory.
    """
    by_path = sorted(program.fields, key=lambda field: field.path)
    meter, steps = Meter(max_steps, keep_weights(program)), NodeTable(len(by_path) + 1, max_bytes)
    walker = ProgramWalker if program.language == 1 or by_operator else ExpressionWalker
    walk = walker(program, world, meter, steps)
    for field in program.fields:
        walk.derive_field(field, salt(field.path)[1])
    fields = {field.path: value_to_json(field.type, walk.values[field.path]) for field in by_path}
    field_nodes = [_build_field_node(field, fields, walk, salt(field.path)[0]) for field in by_path]
    return Derivation(
        nodes=[*field_nodes, _build_root_node(by_path, battery_product, facts_hash), *steps.nodes],
        fields=fields,
        compliance=walk.compliance,
        steps=meter.steps,
        field_index={field.path: index for index, field in enumerate(by_path)},
    )


def explain(program: Program, world: World, path: str, *, max_steps: int = MAX_STEPS) -> Explanation:
    """Evaluate the field at `path` and those it needs, as `derive` would; a failure is part of the answer."""
    needed = _list_needed_fields(program, path)
    meter, steps = Meter(max_steps), NodeTable(0, MAX_EXPLAINED_BYTES)
    walk = ProgramWalker(program, world, meter, steps)
    failure = None
    try:
        for field in needed:
            # Nothing here is hashed; the path in place of a salt keeps equal derivations of two fields apart.
            walk.derive_field(field, field.path)
    except RuleFailure as error:
        failure = error
    return Explanation(
        nodes=steps.nodes,
        value=walk.values.get(path),
        result_node=walk.derivations.get(path),
        failure=failure,
        failed_node=None if walk.failed_node == NO_NODE else walk.failed_node,
        elements=tuple(walk.elements),
        compliance=walk.compliance,
        steps=meter.steps,
    )


def _list_needed_fields(program: Program, path: str) -> list[ProgramField]:
    """The field at `path` and all it reads, directly or not, in the program's order."""
    by_path = {field.path: field for field in program.fields}
    needed_paths: set[str] = set()
    pending = [path]
    while pending:
        current_path = pending.pop()
        if current_path not in needed_paths:
            needed_paths.add(current_path)
            pending.extend(by_path[current_path].needs)
    return [field for field in program.fields if field.path in needed_paths]


def _build_field_node(
    field: ProgramField, fields: Mapping[str, Json], walk: ProgramWalker, salt: str
) -> DerivationNode:
    data: dict[str, Json] = {
        "op": "field",
        "path": field.path,
        "access": list(field.access),
        "type": str(field.type),
        "value": fields[field.path],
        "salt": salt,
    }
    return DerivationNode("OP", data, [walk.derivations[field.path]], field.path, field.span)


def _build_root_node(
    by_path: list[ProgramField], battery_product: Mapping[str, Json], facts_hash: str
) -> DerivationNode:
    data: dict[str, Json] = {
        "op": "passport",
        "access": [list(field.access) for field in by_path],
        "battery_product": dict(battery_product),
        "facts_hash": facts_hash,
    }
    return DerivationNode("OP", data, list(range(len(by_path))), None, None)

"""The reference evaluator: a checked program and its world in, every node of the proof out.

Pure, small and plain: a stranger reads it beside docs/rules/language.md and docs/formats/proof.md. It shares no code
with the production evaluator, so `bpc verify` finds what a bug or a dishonest compiler put into a proof, and the tests
find where the two disagree. Hashing nodes is not its business.

    Program, World ── derive ──► Derivation: nodes in their final order, values, compliance, steps
                        └──────► RuleFailure
    one field      ── explain ─► Explained: the nodes made, and the result or the failure

In other files: values (arithmetic, comparison, writing), builtins, costs (BPC-COST-1), nodes (numbering), and the walk.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bpc.core.canon import Json
from bpc.core.rules.compliance import Compliance
from bpc.core.rules.failure import MAX_STEPS, RuleFailure
from bpc.core.rules.reference.costs import Meter
from bpc.core.rules.reference.nodes import NO_NODE, Node, NodesTooLarge, Steps
from bpc.core.rules.reference.values import written
from bpc.core.rules.reference.walk import Element, Walk
from bpc.core.rules.typed import Field, Program
from bpc.core.rules.world import World

# What nobody could read anyway; a proof is not larger either.
MAX_EXPLAINED_BYTES: Final = 20_000_000

__all__ = ["Derivation", "Element", "Explained", "Node", "NodesTooLarge", "derive", "explain", "written"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """Everything a proof says but its hashes. A node's id is its place in `nodes`: fields by path, root, steps."""

    nodes: list[Node]
    fields: dict[str, Json]
    compliance: list[Compliance]
    steps: int
    field_index: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """How one field came to its value, or why it has none.

    `nodes` are the steps of this field and those it needs; children are places in this list. `result` is the field's
    derivation, None after a failure. `failed` is the condition or option of the assertion that failed, if it has a node
    (inside a lambda it has none); `elements` are the loops around the failure, outermost first, and where each was.
    """

    nodes: list[Node]
    value: Any
    result: int | None
    failure: RuleFailure | None
    failed: int | None
    elements: tuple[Element, ...]
    compliance: list[Compliance]
    steps: int


def derive(
    program: Program,
    world: World,
    *,
    battery_product: Mapping[str, Json],
    facts_hash: str,
    salt: Callable[[str], tuple[str, str]],
    max_steps: int = MAX_STEPS,
    most_bytes: int | None = None,
) -> Derivation:
    """Evaluate every field in the program's order; the first `RuleFailure` ends it.

    `salt(path)` is the field node's salt and the derivation node's. Whoever compares with a given proof hands its
    length over as `most_bytes`: more than that (`NodesTooLarge`) cannot be equal, and is not worth the memory.
    """
    by_path = sorted(program.fields, key=lambda field: field.path)
    meter, steps = Meter(max_steps), Steps(len(by_path) + 1, most_bytes)
    walk = Walk(program.source, world, meter, steps)
    for field in program.fields:
        walk.field(field, salt(field.path)[1])
    fields = {field.path: written(field.type, walk.values[field.path]) for field in by_path}
    field_nodes = [_field_node(field, fields, walk, salt(field.path)[0]) for field in by_path]
    return Derivation(
        nodes=[*field_nodes, _root(by_path, battery_product, facts_hash), *steps.nodes],
        fields=fields,
        compliance=walk.compliance,
        steps=meter.steps,
        field_index={field.path: index for index, field in enumerate(by_path)},
    )


def explain(program: Program, world: World, path: str, *, max_steps: int = MAX_STEPS) -> Explained:
    """Evaluate the field at `path` and those it needs, as `derive` would; a failure is part of the answer."""
    needed = _needed(program, path)
    meter, steps = Meter(max_steps), Steps(0, MAX_EXPLAINED_BYTES)
    walk = Walk(program.source, world, meter, steps)
    failure = None
    try:
        for field in needed:
            # Nothing here is hashed; the path in place of a salt keeps equal derivations of two fields apart.
            walk.field(field, field.path)
    except RuleFailure as ended:
        failure = ended
    return Explained(
        nodes=steps.nodes,
        value=walk.values.get(path),
        result=walk.derivations.get(path),
        failure=failure,
        failed=None if walk.failed == NO_NODE else walk.failed,
        elements=tuple(walk.elements),
        compliance=walk.compliance,
        steps=meter.steps,
    )


def _needed(program: Program, path: str) -> list[Field]:
    """The field at `path` and all it reads, directly or not, in the program's order."""
    by_path = {field.path: field for field in program.fields}
    wanted: set[str] = set()
    waiting = [path]
    while waiting:
        here = waiting.pop()
        if here not in wanted:
            wanted.add(here)
            waiting.extend(by_path[here].needs)
    return [field for field in program.fields if field.path in wanted]


def _field_node(field: Field, fields: Mapping[str, Json], walk: Walk, salt: str) -> Node:
    data: dict[str, Json] = {
        "op": "field",
        "path": field.path,
        "access": list(field.access),
        "type": str(field.type),
        "value": fields[field.path],
        "salt": salt,
    }
    return Node("OP", data, [walk.derivations[field.path]], field.path, field.span)


def _root(by_path: list[Field], battery_product: Mapping[str, Json], facts_hash: str) -> Node:
    data: dict[str, Json] = {
        "op": "passport",
        "access": [list(field.access) for field in by_path],
        "battery_product": dict(battery_product),
        "facts_hash": facts_hash,
    }
    return Node("OP", data, list(range(len(by_path))), None, None)

"""Step `proof_steps`: the proof is the exact node list that the rules, evaluated once more, give for these facts.

Pure. The evaluator is the reference one, which shares no code with the one that compiles; so a mistake of either
shows as a difference. The first difference is named by field, node and place in the rules.

Checks:
  1. rules.bpc is a rule package without errors, and every fact it names fits its schema
  2. evaluating it ends without failure
  3. its fields are the proof's, by path
  4. every step has the type, data and children that evaluation gives, from the first to the last
  5. so has every field node, and the root
  6. the payload's compliance entries and salt are those that evaluation and the snapshot's secret give
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bpc.core import canon
from bpc.core.blinding import Salts, blinding_key
from bpc.core.canon import Json
from bpc.core.digest import sha256, to_hex
from bpc.core.rules.failure import RuleFailure
from bpc.core.rules.package import RulesRefused, checked_program
from bpc.core.rules.reference import derive as reference
from bpc.core.rules.reference.derive import Derivation
from bpc.core.rules.source import Source
from bpc.core.rules.typed import Program
from bpc.core.rules.world import world_of
from bpc.core.verify.proof import Node, described, nodes_of
from bpc.core.verify.report import Wrong, counted
from bpc.core.verify.structure import Opened

# Room above the proof's own size, so that the first difference can be named where the proof is too short.
_MORE_BYTES: Final = 1 << 20
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/"})


def check_proof_steps(opened: Opened) -> str:
    program = _program(opened)  # 1
    salts = Salts(blinding_key(opened.facts, opened.receipt.snapshot_id), opened.receipt.passport_version_id)
    made = _derived(opened, program, salts)  # 2
    nodes, count = nodes_of(opened)
    _check_fields(nodes[:count], made)  # 3
    for at in _in_order(max(len(nodes), len(made.nodes)), count):  # 4, 5
        found = nodes[at] if at < len(nodes) else None
        wanted = made.nodes[at] if at < len(made.nodes) else None
        if difference := _difference(found, wanted, made.nodes):
            raise Wrong(f"{_place(at, wanted, program.source)}: {difference}")
    _check_compliance(opened, made, salts)  # 6
    return f"evaluating rules.bpc again gives the same {counted(len(nodes), 'node')} in {counted(made.steps, 'step')}"


def _program(opened: Opened) -> Program:
    try:
        return checked_program(opened.entries["rules.bpc"])
    except RulesRefused as refused:
        raise Wrong(f"rules.bpc is not a rule package without errors: {refused.says}") from None


def _derived(opened: Opened, program: Program, salts: Salts) -> Derivation:
    product = opened.payload["battery_product"]
    issued_at = opened.receipt.issued_at
    world = world_of(opened.facts, program.facts, sku=product["sku"], name=product["name"], issued_at=issued_at)
    try:
        return reference.derive(
            program,
            world,
            battery_product=product,
            facts_hash=to_hex(sha256(opened.entries["facts.jsonl"])),
            salt=salts.field,
            most_bytes=len(opened.entries["proof.json"]) + _MORE_BYTES,
        )
    except reference.NodesTooLarge:
        raise Wrong("the rules make more nodes than the proof has") from None
    except RuleFailure as failure:
        at = program.source.place(failure.span.start)
        raise Wrong(
            f"field `{failure.field}` (rules.bpc:{at.line}:{at.column}): the rules give no value: {failure.says}"
        ) from None


def _check_fields(fields: Sequence[Node], made: Derivation) -> None:
    # What is no text was blamed on the structure already; here it is a field that no rule makes.
    proven = {str(node.data.get("path")) for node in fields}
    for path in made.field_index:
        if path not in proven:
            raise Wrong(f"field `{path}` is in the rules and not in the proof")
    for path in sorted(proven):
        if path not in made.field_index:
            raise Wrong(f"field `{path[:80]}` is in the proof and not in the rules")


def _in_order(total: int, count: int) -> Iterator[int]:
    """Steps first, as they are evaluated: what is wrong with a field is wrong with a step before."""
    yield from range(count + 1, total)
    yield from range(count + 1)


def _difference(found: Node | None, wanted: reference.Node | None, all_wanted: Sequence[reference.Node]) -> str | None:
    if found is None:
        return "the proof ends before it"
    if wanted is None:
        return f"the rules make no such node, and the proof has {described(found)}"
    if (
        found.type == wanted.type
        and found.children == wanted.children
        and found.encoded == canon.encode_typed(wanted.data)
    ):
        return None
    if found.type != wanted.type or found.data.get("op") != wanted.data.get("op"):
        return f"the rules make {_named(wanted)} here, and the proof has {described(found)}"
    return _other_member(found, wanted, all_wanted) or _other_children(found, wanted)


def _other_member(found: Node, wanted: reference.Node, all_wanted: Sequence[reference.Node]) -> str | None:
    for name in sorted(found.data.keys() | wanted.data.keys()):
        if name not in wanted.data:
            return f"{_named(wanted)} has a `{name[:80]}` in the proof, which does not belong there"
        if name not in found.data:
            return f"{_named(wanted)} has no `{name}` in the proof"
        ours, theirs = _shown(wanted.data[name]), _shown(found.data[name])
        if canon.encode_typed(wanted.data[name]) != canon.encode_typed(found.data[name]):
            if name == "value" and found.children == wanted.children:
                return f"{_worked_out(wanted, all_wanted)} is {ours}, not {theirs}"
            return f"the `{name}` of {_named(wanted)} is {ours}, not {theirs}"
    return None


def _other_children(found: Node, wanted: reference.Node) -> str:
    return f"{_named(wanted)} is made from nodes {_listed(wanted.children)}, not from {_listed(found.children)}"


def _worked_out(wanted: reference.Node, nodes: Sequence[reference.Node]) -> str:
    """`2 + 3` where both sides are at hand, else the node's name."""
    op = wanted.data.get("op")
    sides = [nodes[child].data for child in wanted.children]
    if op in _ARITHMETIC and all("value" in side for side in sides):
        return f" {op} ".join(_shown(side["value"]) for side in sides)
    return f"the value of {_named(wanted)}"


def _check_compliance(opened: Opened, made: Derivation, salts: Salts) -> None:
    found: Sequence[Mapping[str, str]] = opened.payload["compliance"]
    wanted = [
        {"code": entry.code, "field": entry.field, "message": entry.message, "status": entry.status}
        for entry in made.compliance
    ]
    for at in range(max(len(found), len(wanted))):
        if at >= len(wanted):
            code = found[at]["code"][:80]
            raise Wrong(f"compliance entry {at} of the payload, `{code}`, does not come from the rules")
        if at >= len(found) or found[at] != wanted[at]:
            code, field = wanted[at]["code"], wanted[at]["field"]
            raise Wrong(
                f"compliance entry {at}, `{code}` of field `{field}`, is not in the payload as the rules give it"
            )
    if opened.payload["salt"] != salts.payload():
        raise Wrong("the payload's `salt` is not made from the snapshot's secret")


def _place(at: int, wanted: reference.Node | None, source: Source) -> str:
    if wanted is None:
        return f"node {at}"
    field = "the passport itself" if wanted.field is None else f"field `{wanted.field}`"
    if wanted.span is None:
        return f"{field}, node {at}"
    place = source.place(wanted.span.start)
    return f"{field}, node {at} (rules.bpc:{place.line}:{place.column})"


def _named(node: reference.Node) -> str:
    op = node.data.get("op")
    return f"{node.type} `{op}`" if isinstance(op, str) else node.type


def _shown(value: Json) -> str:
    text = canon.encode_typed(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}…"


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:12])) + (" …" if len(ids) > 12 else "") if ids else "none"

"""Step `proof_steps`: the proof is the exact node list that the rules, evaluated once more, give for these facts.

Pure. The reference evaluator shares no code with the one that compiles, so a mistake in either shows as a difference.
The first difference is named by field, node and place in the rules.

Checks:
  1. rules.bpc is a rule package without errors, and every fact it names fits its schema
  2. the versions of the proof and the payload are those of the rules' level of the language
  3. evaluating the rules ends without failure
  4. their fields are the proof's, by path
  5. every step has the type, data and children that evaluation gives, from the first to the last
  6. so has every field node, and the root
  7. the payload's compliance entries and salt are those that evaluation and the snapshot's secret give
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.evaluation import RuleFailure, build_world
from bpc.core.language.package import RulesRefused
from bpc.core.language.ready_rules import load_program
from bpc.core.language.reference import derive as reference
from bpc.core.language.reference.derive import Derivation, DerivationNode
from bpc.core.language.source import Source
from bpc.core.language.typed import Program
from bpc.core.passport.payload import PAYLOAD_VERSIONS, Salts, find_blinding_key
from bpc.core.passport.proof import PROOF_VERSIONS
from bpc.core.verify import CheckFailed, format_count
from bpc.core.verify.canonical import OpenedBundle, require_form
from bpc.core.verify.proof_structure import PROOF_FORM, ParsedNode, describe_node, order_steps_first, parse_nodes

# Room above the proof's own size, so that the first difference can be named where the proof is too short.
_MORE_BYTES: Final = 1 << 20
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/"})


def check_proof_steps(bundle: OpenedBundle) -> str:
    program = _read_program(bundle)  # 1
    _check_version(bundle, program)  # 2
    salts = Salts(find_blinding_key(bundle.facts, bundle.receipt.snapshot_id), bundle.receipt.passport_version_id)
    derivation = _derive_again(bundle, program, salts)  # 3
    nodes, count = parse_nodes(bundle)
    _check_fields(nodes[:count], derivation)  # 4
    for at in order_steps_first(max(len(nodes), len(derivation.nodes)), count):  # 5, 6
        actual = nodes[at] if at < len(nodes) else None
        expected = derivation.nodes[at] if at < len(derivation.nodes) else None
        if difference := _describe_difference(actual, expected, derivation.nodes):
            raise CheckFailed(f"{_format_place(at, expected, program.source)}: {difference}")
    _check_compliance(bundle, derivation, salts, program.language)  # 7
    counts = f"{format_count(len(nodes), 'node')} in {format_count(derivation.steps, 'step')}"
    return f"evaluating rules.bpc again gives the same {counts}"


def _read_program(bundle: OpenedBundle) -> Program:
    try:
        return load_program(bundle.entries["rules.bpc"])
    except RulesRefused as refusal:
        raise CheckFailed(f"rules.bpc is not a rule package without errors: {refusal.says}") from None


def _check_version(bundle: OpenedBundle, program: Program) -> None:
    expected = PROOF_VERSIONS[program.language]
    actual = require_form("proof.json", bundle.proof, PROOF_FORM)["proof_version"]
    payload_version = bundle.payload["payload_version"]
    if payload_version != PAYLOAD_VERSIONS[program.language]:
        raise CheckFailed(f"the payload is a {payload_version}, which rules of level {program.language} do not give")
    if actual != expected:
        raise CheckFailed(f"the proof is a {actual}, but rules of level {program.language} have a {expected}")


def _derive_again(bundle: OpenedBundle, program: Program, salts: Salts) -> Derivation:
    product = bundle.payload["battery_product"]
    issued_at = bundle.receipt.issued_at
    world = build_world(bundle.facts, program.facts, sku=product["sku"], name=product["name"], issued_at=issued_at)
    try:
        return reference.derive(
            program,
            world,
            battery_product=product,
            facts_hash=to_hex(sha256(bundle.entries["facts.jsonl"])),
            salt=salts.derive_field_salts,
            max_bytes=len(bundle.entries["proof.json"]) + _MORE_BYTES,
        )
    except reference.NodesTooLarge:
        raise CheckFailed("the rules give more nodes than the proof has") from None
    except RuleFailure as failure:
        place = program.source.find_place(failure.span.start)
        raise CheckFailed(f"field `{failure.field}` ({place}): the rules give no value: {failure.says}") from None


def _check_fields(fields: Sequence[ParsedNode], derivation: Derivation) -> None:
    # A path that is not a text fails `proof_structure`; here it counts as a field that no rule computes.
    proven_paths = {str(node.data.get("path")) for node in fields}
    for path in derivation.field_index:
        if path not in proven_paths:
            raise CheckFailed(f"field `{path}` is in the rules and not in the proof")
    for path in sorted(proven_paths):
        if path not in derivation.field_index:
            raise CheckFailed(f"field `{path[:80]}` is in the proof and not in the rules")


def _describe_difference(
    actual: ParsedNode | None, expected: DerivationNode | None, expected_nodes: Sequence[DerivationNode]
) -> str | None:
    if actual is None:
        return "the proof ends before it"
    if expected is None:
        return f"the proof has {describe_node(actual)}, but the rules give no node here"
    if (
        actual.type == expected.type
        and actual.children == expected.children
        and actual.encoded == canonical_json.encode_typed(expected.data)
    ):
        return None
    if actual.type != expected.type or actual.data.get("op") != expected.data.get("op"):
        return f"expected {describe_node(expected)}, but the proof has {describe_node(actual)}"
    return _describe_member_difference(actual, expected, expected_nodes) or _describe_children_difference(
        actual, expected
    )


def _describe_member_difference(
    actual: ParsedNode, expected: DerivationNode, expected_nodes: Sequence[DerivationNode]
) -> str | None:
    for name in sorted(actual.data.keys() | expected.data.keys()):
        if name not in expected.data:
            return f"{describe_node(expected)} has a `{name[:80]}` in the proof, which the rules do not give"
        if name not in actual.data:
            return f"{describe_node(expected)} has no `{name}` in the proof"
        expected_text, actual_text = _format_value(expected.data[name]), _format_value(actual.data[name])
        if canonical_json.encode_typed(expected.data[name]) != canonical_json.encode_typed(actual.data[name]):
            if name == "value" and actual.children == expected.children:
                return f"{_describe_computation(expected, expected_nodes)} is {expected_text}, not {actual_text}"
            return f"the `{name}` of {describe_node(expected)} is {expected_text}, not {actual_text}"
    return None


def _describe_children_difference(actual: ParsedNode, expected: DerivationNode) -> str:
    expected_ids, actual_ids = _format_ids(expected.children), _format_ids(actual.children)
    return f"{describe_node(expected)} is made from nodes {expected_ids}, not from {actual_ids}"


def _describe_computation(expected: DerivationNode, nodes: Sequence[DerivationNode]) -> str:
    """`2 + 3` where both sides are at hand, else the node's name."""
    op = expected.data.get("op")
    sides = [nodes[child].data for child in expected.children]
    if op in _ARITHMETIC and all("value" in side for side in sides):
        return f" {op} ".join(_format_value(side["value"]) for side in sides)
    return f"the value of {describe_node(expected)}"


def _check_compliance(bundle: OpenedBundle, derivation: Derivation, salts: Salts, language: int) -> None:
    actual: Sequence[Mapping[str, Json]] = bundle.payload["compliance"]
    expected = [entry.to_payload_json(language) for entry in derivation.compliance]
    for at in range(max(len(actual), len(expected))):
        if at >= len(expected):
            code = str(actual[at]["code"])[:80]
            raise CheckFailed(f"compliance entry {at} of the payload, `{code}`, does not come from the rules")
        if at >= len(actual) or actual[at] != expected[at]:
            code, field = str(expected[at]["code"]), expected[at]["field"]
            raise CheckFailed(
                f"compliance entry {at}, `{code}` of field `{field}`, is not in the payload as the rules give it"
            )
    if bundle.payload["salt"] != salts.derive_payload_salt():
        raise CheckFailed("the payload's `salt` is not made from the snapshot's secret")


def _format_place(at: int, expected: DerivationNode | None, source: Source) -> str:
    if expected is None:
        return f"node {at}"
    field = "the passport itself" if expected.field is None else f"field `{expected.field}`"
    if expected.span is None:
        return f"{field}, node {at}"
    return f"{field}, node {at} ({source.find_place(expected.span.start)})"


def _format_value(value: Json) -> str:
    text = canonical_json.encode_typed(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}…"


def _format_ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:12])) + (" …" if len(ids) > 12 else "") if ids else "none"

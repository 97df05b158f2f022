"""Step `proof_steps` of a battery's bundle: its proof is exactly what the rules, evaluated once more, give.

Pure. The reference evaluator computes the values of the upper layers from their facts again, and the battery's fields
over them. It shares no code with the evaluator that compiles.

Checks:
  1. the rules of the model have no errors, and every fact they name fits its schema
  2. evaluating the layers ends without failure
  3. every step has the type, data and children that evaluation gives, from the first to the last
  4. so have the values, types and audiences of the fields, and every salt
  5. the payload's entries are those of evaluation; the verdict is that of all layers
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpc.core.errors import Refusal
from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.timestamps import format_time
from bpc.core.items.layer_pins import list_own_layers
from bpc.core.items.layer_proof import derive_layer_salts, hash_step
from bpc.core.items.model_places import (
    collect_model_entries,
    count_failures,
    find_definition_places,
    find_field_places,
    list_model_requirements,
    list_readable_definitions,
    summarise_requirements,
)
from bpc.core.language.evaluation import RuleFailure, World
from bpc.core.language.layers import ProgramLayers, assign_layers, get_fact_layer
from bpc.core.language.ready_rules import load_program
from bpc.core.language.reference.layers import (
    LayerDerivation,
    add_places,
    derive_layer,
    hold_model_values,
)
from bpc.core.language.typed import Layer, Program
from bpc.core.language.upper_values import ProofPlace, UpperValues
from bpc.core.passport.payload import find_blinding_key
from bpc.core.verify import CheckFailed, format_count
from bpc.core.verify.canonical import OpenedBundle
from bpc.core.verify.item_entries import OpenedItem
from bpc.core.verify.item_links import list_pins

_MORE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Above:
    """The layers above what is checked: their values, their facts, and how many of their entries are FAIL."""

    values: UpperValues
    facts: Sequence[SnapshotFact]
    fail_count: int


def check_item_steps(item: OpenedItem) -> str:
    try:
        program = load_program(item.model.entries["rules.bpc"])  # 1
        layers = assign_layers(program)
        above = _evaluate_above(item, program, layers)
        derivation = _derive(item, program, layers, above)
    except RuleFailure as failure:  # 2
        raise CheckFailed(f"evaluating the rules fails at field `{failure.field}`: {failure.says}") from None
    except Refusal as refusal:
        raise CheckFailed(f"the rules cannot be evaluated for these facts: {refusal.says}") from None
    _compare_steps(item, derivation)
    _compare_fields(item, program, derivation)
    _compare_entries(item, derivation, above)
    return f"the rules give these {format_count(len(derivation.steps), 'step')}"


def _evaluate_above(item: OpenedItem, program: Program, layers: ProgramLayers) -> _Above:
    above = _evaluate_model(item.model, program, layers)
    if not isinstance(item.above, OpenedItem):
        return above
    batch = item.above
    return _add_batch(batch, program, layers, above, _derive(batch, program, layers, above))


def _evaluate_model(model: OpenedBundle, program: Program, layers: ProgramLayers) -> _Above:
    proof: Any = model.proof
    facts = [fact for fact in model.facts if get_fact_layer(fact.fact_type) == "model"]
    world = _build_world(program, facts, model.payload["battery_product"], "")
    places = find_definition_places(program, layers, proof)
    fields, definitions = hold_model_values(program, layers, world, places)
    values = UpperValues(
        fields=add_places(fields, find_field_places(layers, proof)),
        definitions=add_places(definitions, places),
        requirements=(list_model_requirements(program, layers, proof),),
    )
    entries = collect_model_entries(layers, model.payload)
    return _Above(values=values, facts=facts, fail_count=count_failures(entries).fail)


def _add_batch(
    batch: OpenedItem, program: Program, layers: ProgramLayers, above: _Above, derivation: LayerDerivation
) -> _Above:
    hashes = {field["path"]: (field["id"], batch.root["fields"][field["id"]]) for field in batch.proof_fields}
    field_places = {
        path: ProofPlace("batch", *hashes[path])
        for path in derivation.held_fields
        if layers.fields[path].layer == "batch"
    }
    readable = list_readable_definitions(program, layers, "batch")
    definition_places = {
        name: ProofPlace("batch", held_value.step, hash_step(batch.steps[held_value.step]))
        for name, held_value in derivation.held_definitions.items()
        if name in readable and held_value.step is not None
    }
    nodes = {
        step["data"]["code"]: (hash_step(step), step["data"]["status"])
        for step in batch.steps
        if step["type"] == "COMPLIANCE_EMIT" and "at" in step["data"]
    }
    values = UpperValues(
        fields={**above.values.fields, **add_places(derivation.held_fields, field_places)},
        definitions={**above.values.definitions, **add_places(derivation.held_definitions, definition_places)},
        requirements=(*above.values.requirements, summarise_requirements("batch", program, layers, nodes)),
    )
    fail_count = above.fail_count + count_failures(batch.payload["compliance"]).fail
    return _Above(values=values, facts=(*above.facts, *batch.facts), fail_count=fail_count)


def _derive(item: OpenedItem, program: Program, layers: ProgramLayers, above: _Above) -> LayerDerivation:
    own_layers: Sequence[Layer] = list_own_layers(item.layer, list_pins(item))
    issued_on = format_time(item.receipt.issued_at)[: len("2027-02-18")]
    world = _build_world(program, [*above.facts, *item.facts], item.payload["battery_product"], issued_on)
    max_bytes = len(item.entries["proof.json"]) + _MORE_BYTES
    return derive_layer(program, layers, own_layers, above.values, world, max_bytes=max_bytes)


def _build_world(program: Program, facts: Sequence[SnapshotFact], product: Mapping[str, Any], issued_on: str) -> World:
    table = FactTable.from_facts(facts, program.facts)
    return World(product_sku=product["sku"], product_name=product["name"], issued_on=issued_on, facts=table)


def _compare_steps(item: OpenedItem, derivation: LayerDerivation) -> None:
    for at, (step, node) in enumerate(zip(item.steps, derivation.steps, strict=False)):  # 3
        expected: dict[str, Json] = {"children": list(node.children), "data": node.data, "type": node.type}
        if canonical_json.encode_typed(dict(step)) != canonical_json.encode_typed(expected):
            raise CheckFailed(f"step {at} of the proof, of field `{node.field}`, is not what the rules give")
    if len(item.steps) != len(derivation.steps):
        raise CheckFailed(f"the proof has {len(item.steps)} steps, and the rules give {len(derivation.steps)}")


def _compare_fields(item: OpenedItem, program: Program, derivation: LayerDerivation) -> None:
    key = find_blinding_key(item.facts, item.receipt.snapshot_id)
    if key is None:
        raise CheckFailed("the snapshot has no secret")
    salts = derive_layer_salts(key, item.receipt.passport_version_id, len(derivation.fields))
    fields_by_path = {field.path: field for field in program.fields}
    if [field["path"] for field in item.proof_fields] != list(derivation.fields):  # 4
        raise CheckFailed("the proof does not have exactly the fields that the rules give for this layer")
    for field, salt in zip(item.proof_fields, salts.fields, strict=True):
        path = field["path"]
        rule = fields_by_path[path]
        if canonical_json.encode_typed(field["value"]) != canonical_json.encode_typed(derivation.fields[path]):
            raise CheckFailed(f"`{path}` has another value than the rules give")
        if (field["access"], field["type"]) != (list(rule.access), str(rule.type)):
            raise CheckFailed(f"`{path}` has other audiences or another type than its rule")
        if field["salt"] != salt:
            raise CheckFailed(f"the salt of `{path}` is not made from the snapshot's secret")
    if (item.payload["salt"], item.proof["salt"]) != (salts.payload, salts.steps):
        raise CheckFailed("the salts of payload and steps are not made from the snapshot's secret")


def _compare_entries(item: OpenedItem, derivation: LayerDerivation, above: _Above) -> None:
    entries = [entry.to_payload_json(2) for entry in derivation.compliance]
    if item.payload["compliance"] != entries:  # 5
        raise CheckFailed("the payload's compliance entries are not those that the rules give")
    is_failed = above.fail_count or any(entry["status"] == "FAIL" for entry in entries)
    if item.payload["verdict"] != ("FAIL" if is_failed else "PASS"):
        raise CheckFailed("the verdict is not that of all layers")

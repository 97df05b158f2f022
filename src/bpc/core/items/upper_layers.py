"""The layers above a battery, opened once for all batteries below them.

Pure. The model is a passport of its product, BPC-PASSPORT-2, from its bundle. What the rules of a battery may read of
it are the fields and the definitions of the model's layer, each with its place in the model's proof, and its facts.
What the proof says is compared with what the rules give for these facts, so a bundle that was tampered with is refused.

    entries of the model's bundle ── open_model ──► UpperLayers
    UpperLayers, a batch          ── open_batch ──► UpperLayers        (in `compile`)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import RulePackageVersionId
from bpc.core.items.layer_pins import LayerMismatch, LayerPin
from bpc.core.items.model_places import (
    collect_model_entries,
    count_failures,
    find_definition_places,
    find_field_places,
    list_model_requirements,
)
from bpc.core.language.evaluating.machine import Machine, Session
from bpc.core.language.evaluating.values import value_to_json
from bpc.core.language.evaluation import ValueMissing, World
from bpc.core.language.layers import ProgramLayers, assign_layers, get_fact_layer
from bpc.core.language.package import read_program
from bpc.core.language.typed import Layer, Program
from bpc.core.language.types import FactRecordType
from bpc.core.language.upper_values import ProofPlace, UpperValue, UpperValues
from bpc.core.passport.compile import read_compile_input
from bpc.core.passport.compile_input import Product
from bpc.core.passport.gate import ComplianceCounts
from bpc.core.passport.receipt import read_receipt

LAYERED_LANGUAGE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperLayers:
    """Upper layers that belong together, ready to be read. `pins` are from the model on."""

    program: Program
    layers: ProgramLayers
    pins: tuple[LayerPin, ...]
    product: Product
    rule_package_version_id: RulePackageVersionId
    dsl_sha256: Digest
    tests_sha256: Digest
    values: UpperValues
    facts: Mapping[Layer, FactTable]
    counts: ComplianceCounts  # the entries of all upper layers


def open_model(entries: Mapping[str, bytes]) -> UpperLayers:
    """The model from the entries of its bundle; `LayerMismatch` if they do not belong together."""
    receipt = read_receipt(entries["receipt.json"])
    compile_input = read_compile_input(entries)
    if sha256(entries["payload.json"]) != receipt.payload_hash:
        raise LayerMismatch("the payload of the model is not the one that its receipt names")
    if sha256(compile_input.rules) != receipt.dsl_sha256:
        raise LayerMismatch("the rules of the model are not those that its receipt names")
    program = read_program(compile_input.rules)
    if program.language < LAYERED_LANGUAGE:
        raise LayerMismatch(
            "the rules of the model are of level 1 of the language",
            fix="batteries can have passports of their own below rules of level 2: begin the rules with `language 2;`",
        )
    layers = assign_layers(program)
    facts = build_layer_facts(compile_input.facts, program.facts, ("model",))
    proof: Any = canonical_json.decode(entries["proof.json"])
    payload: Any = canonical_json.decode(entries["payload.json"])
    world = World(
        product_sku=compile_input.product.sku, product_name=compile_input.product.name, issued_on="", facts=facts
    )
    session = Machine(program).open_session(world)
    return UpperLayers(
        program=program,
        layers=layers,
        pins=(LayerPin("model", receipt.passport_version_id, receipt.hash(), receipt.proof_root_hash),),
        product=compile_input.product,
        rule_package_version_id=receipt.rule_package_version_id,
        dsl_sha256=receipt.dsl_sha256,
        tests_sha256=receipt.tests_sha256,
        values=UpperValues(
            fields=dict(_read_fields(program, session, proof, find_field_places(layers, proof))),
            definitions=dict(_read_definitions(session, find_definition_places(program, layers, proof))),
            requirements=(list_model_requirements(program, layers, proof),),
        ),
        facts={"model": facts},
        counts=count_failures(collect_model_entries(layers, payload)),
    )


def build_layer_facts(
    facts: Sequence[SnapshotFact], fact_types: Sequence[FactRecordType], layers: Sequence[Layer]
) -> FactTable:
    """The facts of the types of some layers; those of other types are not looked at."""
    own_facts = [fact for fact in facts if get_fact_layer(fact.fact_type) in layers]
    return FactTable.from_facts(own_facts, [kind for kind in fact_types if get_fact_layer(kind.name) in layers])


def _read_fields(
    program: Program, session: Session, proof: Mapping[str, Any], places: Mapping[str, ProofPlace]
) -> Iterator[tuple[str, UpperValue]]:
    types = {field.path: field.type for field in program.fields}
    for path, place in places.items():
        value = session.compute_field(path)
        proven_value: Json = proof["nodes"][place.node]["data"]["value"]
        if value_to_json(types[path], value) != proven_value:
            raise LayerMismatch(f"the model's proof has another value for `{path}` than its rules give")
        yield path, UpperValue(value, place, session.find_missing_cause(path))


def _read_definitions(session: Session, places: Mapping[str, ProofPlace]) -> Iterator[tuple[str, UpperValue]]:
    for name, place in places.items():
        try:
            yield name, UpperValue(session.read_definition(name), place)
        except ValueMissing as missing:
            yield name, UpperValue(None, place, missing.cause)

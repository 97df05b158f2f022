"""Where the values that a battery reads stand in the proof of its model, and which entries of the model count for it.

Pure, and without any evaluator: compiling and verifying both read the model's artifacts with this.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.layers import ProgramLayers
from bpc.core.language.typed import Layer, Program, list_requirements
from bpc.core.language.types import contains_fact_record
from bpc.core.language.upper_values import ProofPlace, UpperRequirements
from bpc.core.passport.gate import ComplianceCounts


def find_field_places(layers: ProgramLayers, proof: Mapping[str, Any]) -> dict[str, ProofPlace]:
    """The field nodes of the model's layer, by path."""
    return {
        path: ProofPlace("model", node, proof["nodes"][node]["hash"])
        for path, node in proof["field_index"].items()
        if layers.fields[path].layer == "model"
    }


def find_definition_places(program: Program, layers: ProgramLayers, proof: Mapping[str, Any]) -> dict[str, ProofPlace]:
    """The nodes of the definitions of the model's layer, by name. Those that hold facts are evaluated where needed."""
    readable = list_readable_definitions(program, layers, "model")
    return {
        node["data"]["name"]: ProofPlace("model", node["id"], node["hash"])
        for node in proof["nodes"]
        if node["data"].get("op") == "definition" and node["data"]["name"] in readable
    }


def list_readable_definitions(program: Program, layers: ProgramLayers, layer: Layer) -> frozenset[str]:
    """The definitions of a layer whose values can be written, and so be read from its proof."""
    return frozenset(
        each.name
        for each in program.definitions
        if layers.definitions[each.name].layer == layer and not contains_fact_record(each.body.type)
    )


def list_model_requirements(program: Program, layers: ProgramLayers, proof: Mapping[str, Any]) -> UpperRequirements:
    """The requirements of the model's layer, by their nodes."""
    nodes = {
        node["data"]["code"]: (node["hash"], node["data"]["status"])
        for node in proof["nodes"]
        if node["type"] == "COMPLIANCE_EMIT" and "at" in node["data"]
    }
    return summarise_requirements("model", program, layers, nodes)


def summarise_requirements(
    layer: Layer, program: Program, layers: ProgramLayers, nodes: Mapping[str, tuple[str, str]]
) -> UpperRequirements:
    """`nodes` has for each code the hash of its node and its status."""
    codes = [each.code for each in list_requirements(program) if layers.requirements[each.code].layer == layer]
    code_hashes: list[Json] = [[code, nodes[code][0]] for code in codes]
    are_met = all(nodes[code][1] != "FAIL" for code in codes)
    return UpperRequirements(layer, len(codes), to_hex(sha256(canonical_json.encode_typed(code_hashes))), are_met)


def collect_model_entries(layers: ProgramLayers, payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries of the model's layer: of its requirements, and of its fields. The others are each battery's own."""
    return [entry for entry in payload["compliance"] if _is_of_model(layers, entry)]


def _is_of_model(layers: ProgramLayers, entry: Mapping[str, Any]) -> bool:
    requirement = layers.requirements.get(entry["code"])
    field = layers.fields[entry["field"]]
    if requirement is not None and entry["field"] == layers.requirements_path:
        return requirement.layer == "model"
    return field.layer == "model"


def count_failures(entries: Iterable[Mapping[str, Any]]) -> ComplianceCounts:
    statuses = [entry["status"] for entry in entries]
    return ComplianceCounts(fail=statuses.count("FAIL"), warn=statuses.count("WARN"))


def add_counts(one: ComplianceCounts, other: ComplianceCounts) -> ComplianceCounts:
    return ComplianceCounts(fail=one.fail + other.fail, warn=one.warn + other.warn)

"""Reads our own examples of public formats, as they are or with one value changed."""

import json
from typing import Any

from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.formats import canonical_json
from tests.core.documents.public_files import read_example

KINDS = ("BOM", "PCF", "DUE_DILIGENCE")
PER_KWH = {
    "gco2e_per_kwh": "130.000000",
    "raw_material_gco2e_per_kwh": "81.000000",
    "production_gco2e_per_kwh": "34.000000",
    "distribution_gco2e_per_kwh": "3.000000",
    "end_of_life_gco2e_per_kwh": "12.000000",
}


def read_facts(kind: str, document: bytes | object) -> DocumentFacts:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    outcome = read_document(kind, "application/json", content)
    assert isinstance(outcome, DocumentFacts), outcome
    return outcome


def list_problems(kind: str, document: object) -> list[tuple[str, str]]:
    outcome = read_document(kind, "application/json", json.dumps(document).encode())
    assert isinstance(outcome, DocumentProblems), outcome
    return [(note.at, note.says) for note in outcome.problems.first]


def list_faults(kind: str, document: object) -> list[tuple[str, str]]:
    """The problems of a document that is rejected, or the values that are left out of one that is accepted."""
    outcome = read_document(kind, "application/json", json.dumps(document).encode())
    if isinstance(outcome, DocumentProblems):
        return [(note.at, note.says) for note in outcome.problems.first]
    return [(lost.place, lost.says) for fact in outcome.facts for lost in fact.unreadable]


def list_warnings(outcome: DocumentFacts) -> list[tuple[str, str]]:
    return [(note.at, note.says) for note in outcome.warnings.first if note.at != "$"]


def decode_payloads(outcome: DocumentFacts) -> dict[str, dict[str, Any]]:
    return {fact.fact_key: canonical_json.decode(fact.payload_canonical) for fact in outcome.facts}  # type: ignore[misc]


def change_example(name: str, path: str, value: object) -> Any:
    """An example with another value at one place."""
    document = json.loads(read_example(name))
    *names, last = path.split(".")
    holder = document
    for step in names:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    holder[last] = value
    return document

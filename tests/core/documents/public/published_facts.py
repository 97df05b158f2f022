"""What becomes of a published file: its facts, its problems, its warnings."""

from collections.abc import Sequence
from typing import Any

from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.formats import canonical_json

KINDS = ("BOM", "PCF", "DUE_DILIGENCE")
A_SCHEMA = "is a JSON Schema, not a document about a battery"


def read_facts(kind: str, content: bytes) -> DocumentFacts:
    outcome = read_document(kind, "application/json", content)
    assert isinstance(outcome, DocumentFacts), outcome
    return outcome


def list_problems(kind: str, content: bytes) -> list[tuple[str, str]]:
    outcome = read_document(kind, "application/json", content)
    assert isinstance(outcome, DocumentProblems), outcome
    return [(note.at, note.says) for note in outcome.problems.first]


def list_keys(outcome: DocumentFacts) -> list[tuple[str, str]]:
    """The keys and places of all facts but the readings."""
    return [(fact.fact_key, fact.source_path) for fact in outcome.facts if fact.fact_type != "Reading"]


def decode_payload(outcome: DocumentFacts, key: str) -> dict[str, Any]:
    (decoded,) = [canonical_json.decode(fact.payload_canonical) for fact in outcome.facts if fact.fact_key == key]
    assert isinstance(decoded, dict)
    return decoded


def pick_members(members: dict[str, Any], names: Sequence[str]) -> list[Any]:
    return [members.get(name) for name in names]


def list_warnings(outcome: DocumentFacts) -> dict[str, str]:
    return {note.at: note.says for note in outcome.warnings.first}

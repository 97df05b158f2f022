"""Files that are published beside the formats and are no documents about a battery. They are told by name.

Each has the members it is known by and what it is, in words for the person who uploaded it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bpc.core.documents.values import Given


class Stranger(NamedTuple):
    members: frozenset[str]
    says: str


def _known_by(*members: str, says: str) -> Stranger:
    return Stranger(frozenset(members), says)


STRANGERS: Final = (
    _known_by("$schema", says="is a JSON Schema: it says what documents look like, and is none about a battery"),
    _known_by("openapi", says="is a description of an interface (OpenAPI), not a document about a battery"),
    _known_by("dataPoints", says="is a list of data points that passports must hold, not a document about a battery"),
    _known_by(
        "disclosure",
        "schemaVersions",
        says="is a table of who may see which data, not a document about a battery",
    ),
    _known_by(
        "assetAdministrationShells",
        says="is an Asset Administration Shell environment; upload the aspect it holds as JSON of its own",
    ),
    _known_by(
        "batteryIdentification",
        "electrochemicalProperties",
        says="is a Catena-X BatteryPass of version 3 or older; ask its sender for version 5 or later",
    ),
    _known_by("@graph", says="is a vocabulary or graph (JSON-LD), not a document about a battery"),
    _known_by(
        "properties", "type", says="is a JSON Schema: it says what documents look like, and is none about a battery"
    ),
)


# What a document in our own form has. Editors put the schema they check it with beside that.
OUR_OWN: Final = frozenset({"battery", "batteries", "sku"})


def stranger(document: Mapping[str, Given]) -> str | None:
    """What this file is, if it is known and says nothing about a battery."""
    if OUR_OWN & document.keys() or isinstance(document.get("components"), list):
        return None
    return next((known.says for known in STRANGERS if known.members <= document.keys()), None)

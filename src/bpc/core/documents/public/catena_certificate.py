"""Catena-X certificates about the life of a part: MaterialRecyclingCertificate 1.x, and those with the same members.

Recognised by an object `certificate` with `catenaXId` and `issueDate`. The SKU is `articleNumber`. The certificates of
recycling, waste, re-use, remanufacturing, refurbishing and repair have the same members. Only a document that names its
model (`specVersion`, `semanticId` …) says what happened to the battery; of any other the status is not read.
"""

from typing import Final

from bpc.core.documents.elements import FactElement, RawValue
from bpc.core.documents.public import DocumentNode, mapping
from bpc.core.documents.public.conversions import read_day_silently, read_text
from bpc.core.documents.public.mapping import MapRow, pick_by
from bpc.core.documents.readings import build_readings
from bpc.core.formats.ascii_case import lower_ascii

_MODEL_MEMBERS: Final = ("specVersion", "semanticId", "aspectModel", "modelReference", "type", "@type")
# Parts of the name of a model, and the status of a battery that has its certificate; None if it does not change it.
_STATUSES: Final = (
    ("materialrecycling", "waste"),
    ("waste", "waste"),
    ("remanufacturing", "remanufactured"),
    ("reuse", "re-used"),
    ("refurbishing", None),
    ("repair", None),
)

_ROWS: Final = (
    MapRow("serial_number", "partInstanceId", pick_by("key", "partInstanceId", "value")),
    MapRow("serial_number", "serialNumber"),
)


def _matches(document: dict[str, RawValue]) -> bool:
    certificate = document.get("certificate")
    return isinstance(certificate, dict) and {"catenaXId", "issueDate"} <= certificate.keys()


def _read_elements(node: DocumentNode) -> list[FactElement]:
    certificate = node.at("certificate")
    names = ("articleNumber", "catenaXId")
    sku = mapping.read_sku(*(certificate.at(name) for name in names))
    if sku is None:
        return []
    members = mapping.map_members("Battery", node, _ROWS)
    status, issue_date = _read_status(node), certificate.at("issueDate")
    if status is not None:
        members |= {"status": status, "state_recorded_on": read_day_silently(issue_date)}
    battery = FactElement("Battery", node.path, {"sku": sku, **members})
    return [battery, *build_readings(sku, issue_date.value, {"status": status}, issue_date.path)]


def _read_status(node: DocumentNode) -> RawValue:
    """The status that follows from the model of a certificate."""
    names = [read_text(node.at(name)) for name in _MODEL_MEMBERS if isinstance(node.at(name).value, str)]
    models = [lower_ascii(name).replace("_", "").replace("-", "") for name in names if isinstance(name, str)]
    for part, status in _STATUSES:
        if any(part in model for model in models):
            return status
    node.at("certificate").add_warning(
        "may be a certificate of recycling, waste, re-use, remanufacturing, refurbishing or repair: all have these"
        " members. The status was not read. Ask the sender to put `specVersion` with the name of the model beside"
        " `certificate`"
    )
    return None


FORMAT: Final = mapping.PublicFormat(
    name="a Catena-X certificate of recycling, waste or re-use",
    matches=_matches,
    list_kinds=mapping.serve_kinds("BOM"),
    read_elements=_read_elements,
    tables=(("Battery", _ROWS),),
)

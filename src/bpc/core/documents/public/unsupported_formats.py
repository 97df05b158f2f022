"""Formats that are known and not read: how each is recognised, and what to ask its sender for.

JSON is recognised by the names of its members, XML by the name of its root, an archive by the names of its files, a
workbook by its sheets. Nothing here looks at values that a person fills in.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from bpc.core.documents.elements import RawValue
from bpc.core.documents.public.linked_data import shorten_term
from bpc.core.formats.ascii_case import lower_ascii
from bpc.core.formats.file_types import BYTE_ORDER_MARK, ZIP_MARK


class KnownFile(NamedTuple):
    """A file that is not read: the names it is recognised by, all of them, and what to tell its sender."""

    names: frozenset[str]
    says: str


def _know(names: str, says: str) -> KnownFile:
    return KnownFile(frozenset(names.split()), says)


_SCHEMA: Final = "is a JSON Schema, not a document about a battery"
_ASK: Final = "ask its sender for"
_PASSPORT: Final = "a Catena-X BatteryPass, a BatteryPass-Ready passport or our template"
_ASPECTS: Final = "the values as JSON (BatteryPassDataModel, Catena-X BatteryPass) or in our template"
_AAS: Final = f"is an Asset Administration Shell, which is not supported; {_ASK} {_ASPECTS}"
_CREDENTIAL: Final = f"is a verifiable credential, which is not supported; {_ASK} the passport it is about: {_PASSPORT}"
_OLD_PASSPORT: Final = f"which is not supported; {_ASK} version 5 or later"

# These have members of formats that are read.
LOOKALIKES: Final = (
    _know(
        "batteryIdentification electrochemicalProperties",
        f"is a Catena-X BatteryPass of version 3 or older, {_OLD_PASSPORT}",
    ),
    _know("chemicalMaterial generalInformation", f"is a Catena-X BatteryPass of version 4, {_OLD_PASSPORT}"),
    _know("$schema properties", _SCHEMA),
    _know("properties type", _SCHEMA),
    _know("openapi", "is an OpenAPI description of an interface, not a document about a battery"),
    _know(
        "batteryCarbonFootprintPerFunctionalUnit",
        "is a flat list of BatteryPass-Ready attributes, which is not supported: some systems write its shares as"
        f" fractions and others in per cent; {_ASK} the grouped form with units (`IdentifiersAndProductData` …)",
    ),
)
OTHER_FILES: Final = (
    _know("$schema", _SCHEMA),
    _know("dataPoints", "is a list of data points that passports must hold, not a document about a battery"),
    _know("disclosure schemaVersions", "is a table of who may see which data, not a document about a battery"),
    _know("assetAdministrationShells", _AAS),
    _know("submodels conceptDescriptions", _AAS),
    _know("submodelElements", _AAS),
    _know("credentialSubject", _CREDENTIAL),
    _know("verifiableCredential", _CREDENTIAL),
    _know("payload signatures", f"is a signed message, which is not opened; {_ASK} the document inside it"),
    _know(
        "identification metadata sustainability",
        f"is a general Catena-X DigitalProductPassport, which does not have the data of a battery; {_ASK} {_PASSPORT}",
    ),
    _know(
        "secondaryMaterialContent",
        "is a Catena-X SecondaryMaterialContent, which is not supported: it does not name the metals of Art. 8;"
        f" {_ASK} the recycled shares in {_PASSPORT}",
    ),
    _know("tractionBatteryCode", f"is a Catena-X TractionBatteryCode, which is not supported; {_ASK} {_PASSPORT}"),
    _know(
        "localIdentifiers partTypeInformation",
        "is a Catena-X SerialPart or Batch, which has no data of a passport; put its `partTypeInformation` beside"
        " `childItems` of a SingleLevelBomAsBuilt",
    ),
    _know(
        "messageSender regulatoryInformation", f"is a GS1 regulatory notification, not a passport; {_ASK} {_PASSPORT}"
    ),
    _know("pfIds", "is a PACT notice that footprints were published; fetch the footprints and upload them"),
    _know("@graph", "is a vocabulary or graph (JSON-LD), not a document about a battery"),
)

_XML_ROOTS: Final[Mapping[str, str]] = {
    "aasenv": _AAS,
    "environment": _AAS,
    "maindeclaration": f"is an IPC-1752 declaration of materials, which is not supported; {_ASK} {_ASPECTS}",
    "mds": f"is an IMDS data sheet of materials, which is not supported; {_ASK} {_ASPECTS}",
    "imds": f"is an IMDS data sheet of materials, which is not supported; {_ASK} {_ASPECTS}",
    "declaration": f"is an IEC 62474 declaration of materials, which is not supported; {_ASK} {_ASPECTS}",
    "epcisdocument": f"is EPCIS as XML, which is not supported; {_ASK} EPCIS 2.0 as JSON",
    "html": "is a web page, not a document about a battery",
}
_ANY_XML: Final = f"is XML, which is not supported; {_ASK} JSON, CSV or XLSX"
_XML_ROOT: Final = re.compile(rb"<(?![?!])(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)")
_XML_START: Final = 4_000

_AASX_FILE: Final = b"aasx-origin"
_AASX: Final = f"is an AASX package (Asset Administration Shell), which is not supported; {_ASK} {_ASPECTS}"
_ARCHIVE_NAMES: Final = 100_000  # bytes at the end of an archive, where the names of its files are


def explain_lookalike(document: Mapping[str, RawValue]) -> str | None:
    """What this JSON document is, if it is not one of a format whose members it has."""
    return _find_known(LOOKALIKES, document)


def explain_json(document: Mapping[str, RawValue]) -> str | None:
    """What this JSON document of no format that is read is, if it is known."""
    return _find_known(OTHER_FILES, document)


def _find_known(files: Iterable[KnownFile], document: Mapping[str, RawValue]) -> str | None:
    data = document.get("data")
    names = {*document, *map(shorten_term, document), *(data if isinstance(data, dict) else ())}
    return next((file.says for file in files if file.names <= names), None)


def explain_bytes(content: bytes) -> str | None:
    """What this file is, if its bytes are those of a known format that is not read."""
    if content.startswith(ZIP_MARK):
        return _AASX if _AASX_FILE in content[-_ARCHIVE_NAMES:] else None
    start = content[:_XML_START].removeprefix(BYTE_ORDER_MARK).lstrip()
    if not start.startswith(b"<"):
        return None
    root = _XML_ROOT.search(start)
    return _XML_ROOTS.get(lower_ascii(root[1].decode()), _ANY_XML) if root else _ANY_XML


# The conflict minerals template has the same sheets as the extended one, without a list of mines.
_CMRT: Final = (
    "is a Conflict Minerals Reporting Template (CMRT), which is about tin, tantalum, tungsten and gold; due diligence"
    f" for batteries is about cobalt, lithium, nickel and natural graphite: {_ASK} an Extended Minerals Reporting"
    " Template (EMRT) 2.x"
)
_AMRT: Final = (
    "is an Additional Minerals Reporting Template (AMRT), which is not supported;"
    f" {_ASK} an Extended Minerals Reporting Template (EMRT) 2.x"
)


def explain_minerals_template(words: Collection[str]) -> str | None:
    """Which minerals template this is, if not the extended one. `words` are the texts at its top, in small letters."""
    if any("conflict minerals reporting" in word or "cmrt" in word for word in words):
        return _CMRT
    if any("additional minerals reporting" in word or "amrt" in word or "pilot reporting" in word for word in words):
        return _AMRT
    return None

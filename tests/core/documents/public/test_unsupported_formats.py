"""Known formats that are not read: each is named, with what to ask its sender for."""

import io
import json
import zipfile

import pytest

from bpc.core.documents.public.unsupported_formats import LOOKALIKES, OTHER_FILES, KnownFile
from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from tests.core.documents.public.example_outcomes import KINDS, list_problems, read_facts
from tests.core.documents.public_files import ROOT, read_example

STANDARDS = ROOT.parent / "shared" / "standards"


@pytest.mark.parametrize("known", [*LOOKALIKES, *OTHER_FILES], ids=lambda known: "-".join(sorted(known.names)))
@pytest.mark.parametrize("kind", KINDS)
def test_a_known_file_is_named_under_every_kind(known: KnownFile, kind: str) -> None:
    document: dict[str, object] = {name: {} for name in sorted(known.names)}

    assert list_problems(kind, document) == [("$", known.says)]


@pytest.mark.parametrize("known", [*LOOKALIKES, *OTHER_FILES], ids=lambda known: "-".join(sorted(known.names)))
def test_what_it_is_and_the_way_out_are_sentences(known: KnownFile) -> None:
    says = known.says

    assert says.startswith("is ")
    assert any(word in says for word in ("ask its sender for", "not a document about a battery", "upload", "beside"))


def read_problems(content: bytes, mime_type: str = "application/octet-stream") -> list[tuple[str, str]]:
    outcome = read_document("BOM", mime_type, content)
    assert isinstance(outcome, DocumentProblems)
    return [(note.at, note.says) for note in outcome.problems.first]


@pytest.mark.parametrize(
    ("content", "begins"),
    [
        (b'<?xml version="1.0"?><MainDeclaration xmlns="x"/>', "is an IPC-1752 declaration of materials"),
        (b"\xef\xbb\xbf <!-- made by us --><imds:MDS/>", "is an IMDS data sheet of materials"),
        (b'<aas:environment xmlns:aas="x"/>', "is an Asset Administration Shell"),
        (b"<epcis:EPCISDocument/>", "is EPCIS as XML"),
        (b"<!DOCTYPE html><html></html>", "is a web page"),
        (b"<rows><row/></rows>", "is XML, which is not supported; ask its sender for JSON, CSV or XLSX"),
        (b"<", "is XML"),
    ],
)
@pytest.mark.parametrize("mime_type", ["application/octet-stream", "application/xml", "text/xml", "text/csv"])
def test_xml_is_named_by_its_root_whatever_it_is_sent_as(content: bytes, begins: str, mime_type: str) -> None:
    [(at, says)] = read_problems(content, mime_type)

    assert (at, says[: len(begins)]) == ("$", begins)


def test_an_aasx_package_is_named() -> None:
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("aasx/aasx-origin", "Intentionally empty.")
        archive.writestr("aasx/data.json", "{}")

    assert read_problems(package.getvalue()) == [
        (
            "$",
            (
                "is an AASX package (Asset Administration Shell), which is not supported; ask its sender for the values"
                " as JSON (BatteryPassDataModel, Catena-X BatteryPass) or in our template"
            ),
        )
    ]


def test_a_passport_may_name_the_schema_it_was_checked_with() -> None:
    passport = {"$schema": "https://schemas.example/ev.json", **json.loads(read_example("batterypass-ready"))}

    assert isinstance(read_facts("BOM", passport), DocumentFacts)


def test_the_published_shells_are_named() -> None:
    folder = STANDARDS / "idta-02035"
    if not folder.is_dir():
        pytest.skip("the published templates are not on this machine")

    for file in sorted(folder.glob("*.json")):
        [(at, says)] = read_problems(file.read_bytes(), "application/json")
        assert (at, says.split(",")[0]) == ("$", "is an Asset Administration Shell"), file.name


def test_the_published_graphs_and_interfaces_are_refused_with_a_reason() -> None:
    if not STANDARDS.is_dir():
        pytest.skip("the published files are not on this machine")

    for file in sorted((*STANDARDS.rglob("*.json"), *STANDARDS.rglob("*.jsonld"), *STANDARDS.rglob("*.nq"))):
        outcome = read_document("BOM", "application/json", file.read_bytes())
        assert isinstance(outcome, DocumentProblems), file.name
        assert outcome.problems.total > 0, file.name

"""Step `canonical`: a bundle's bytes in, its entries read, or a list of what is not in its one form.

Pure. Later steps take what they need from `Opened`; what could not be read is not there, and the step that asks for
it is not checked.

Checks:
  1. the file is the zip that writing its entries gives, byte for byte, and it has the entries of a bundle
  2. every `.json` entry is canonical
  3. manifest, payload, receipt and snapshot have exactly their members, in its one spelling (hex, base64, ids, times)
  4. every line of facts.jsonl and events.jsonl is canonical and ends with a line feed; a fact has exactly its members
  5. qr.txt is ASCII
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from bpc.core import canon
from bpc.core.bundle import BadBundle, Bundle, Manifest
from bpc.core.canon import Json, NotCanonical
from bpc.core.errors import Invalid
from bpc.core.facts import SnapshotFact
from bpc.core.facts_file import read_fact
from bpc.core.receipt import BadReceipt, Receipt, read_receipt
from bpc.core.verify import forms
from bpc.core.verify.forms import Form, formed
from bpc.core.verify.report import NotChecked, Wrong

T = TypeVar("T")

FORMS: Final[Mapping[str, Form]] = {
    "payload.json": forms.PAYLOAD,
    "snapshot.json": forms.SNAPSHOT,
}
_SHOWN: Final = 5


class Opened:
    """A bundle's entries, each as far as it could be read; `wrong` is what was found on the way."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.entries = bundle.entries
        self.wrong: list[str] = []
        self._objects = {name: self._kept(partial(self._object, name)) for name in FORMS}
        self._manifest = self._kept(self._read_manifest)
        self._receipt = self._kept(self._read_receipt)
        self._proof = self._kept(self._read_proof)
        self._facts = self._kept(self._read_facts)
        self._events = self._kept(self._read_events)
        self._qr_text = self._kept(self._read_qr_text)

    @property
    def manifest(self) -> Manifest:
        """Its key is 32 bytes, and not yet one to rely on."""
        return _there("manifest.json", self._manifest)

    @property
    def payload(self) -> Mapping[str, Any]:
        return _there("payload.json", self._objects["payload.json"])

    @property
    def receipt(self) -> Receipt:
        """It is signed, though perhaps not by whom it should be."""
        return _there("receipt.json", self._receipt)

    @property
    def snapshot(self) -> Mapping[str, Any]:
        return _there("snapshot.json", self._objects["snapshot.json"])

    @property
    def proof(self) -> Json:
        found = _there("proof.json", self._proof)
        return found[0]

    @property
    def facts(self) -> tuple[SnapshotFact, ...]:
        return _there("facts.jsonl", self._facts)

    @property
    def events(self) -> tuple[Json, ...] | None:
        """The lines of events.jsonl, or None where the bundle has none."""
        return _there("events.jsonl", self._events) if "events.jsonl" in self.entries else None

    @property
    def qr_text(self) -> str:
        return _there("qr.txt", self._qr_text)

    def _kept(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Wrong as wrong:
            self.wrong.append(wrong.says)
            return None

    def _object(self, name: str) -> Mapping[str, Any]:
        return formed(name, decoded(name, self.entries[name]), FORMS[name])  # 2, 3

    def _read_manifest(self) -> Manifest:
        try:
            return self.bundle.manifest()  # 2, 3
        except BadBundle as refused:
            raise Wrong(refused.says) from None

    def _read_receipt(self) -> Receipt:
        return signed_receipt("receipt.json", self.entries["receipt.json"])  # 2, 3

    def _read_proof(self) -> tuple[Json]:
        return (decoded("proof.json", self.entries["proof.json"]),)  # 2

    def _read_facts(self) -> tuple[SnapshotFact, ...]:
        lines = enumerate(_lines("facts.jsonl", self.entries["facts.jsonl"]), 1)  # 4
        return tuple(_fact(f"facts.jsonl line {number}", value) for number, value in lines)

    def _read_events(self) -> tuple[Json, ...]:
        return tuple(_lines("events.jsonl", self.entries.get("events.jsonl", b"")))  # 4

    def _read_qr_text(self) -> str:
        try:
            return self.entries["qr.txt"].decode("ascii")  # 5
        except UnicodeDecodeError:
            raise Wrong("qr.txt is not ASCII") from None


def check_canonical(opened: Opened) -> str:
    if opened.wrong:
        more = len(opened.wrong) - _SHOWN
        raise Wrong("; ".join([*opened.wrong[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]))
    return f"{len(opened.entries)} entries, each in its one form"


def signed_receipt(where: str, data: bytes) -> Receipt:
    try:
        receipt = read_receipt(data)
    except BadReceipt as refused:
        raise Wrong(f"{where}: {refused.says}") from None
    if receipt.signature is None:
        raise Wrong(f"{where} has no `signature`")
    return receipt


def _fact(where: str, value: Json) -> SnapshotFact:
    try:
        return read_fact(value)
    except Invalid as refused:
        raise Wrong(f"{where}: {refused.says}") from None


def _there(name: str, found: T | None) -> T:
    if found is None:
        raise NotChecked(f"{name} could not be read")
    return found


def decoded(where: str, data: bytes) -> Json:
    try:
        return canon.decode(data)
    except NotCanonical as refused:
        raise Wrong(f"{where}: {refused.says}") from None


def _lines(name: str, data: bytes) -> Iterator[Json]:
    *lines, rest = data.split(b"\n")
    if rest:
        raise Wrong(f"{name} does not end with a line feed")
    for number, line in enumerate(lines, 1):
        yield decoded(f"{name} line {number}", line)

"""Step `canonical`: a bundle's bytes in, its entries read, or a list of what is not in its one form.

Pure. "Canonical" means that every value has exactly one spelling. A lenient decoder would let a changed text pass for
an unchanged one, so hex, base64, ids and times are read strictly, and a member that is not listed is refused by name.
Later steps take what they need from `OpenedBundle`. What could not be read is missing there, and a step that needs it
is reported as not checked.

Checks:
  1. the file is the zip that writing its entries gives, byte for byte, and it has the entries of a bundle
  2. every `.json` entry is canonical
  3. manifest, payload, receipt and snapshot have exactly their members, each in its one spelling
  4. every line of facts.jsonl and events.jsonl is canonical and ends with a line feed; a fact has exactly its members
  5. qr.txt is ASCII
  6. passport.tlog-proof is a proof in its one form, with the opening of its entry; status.json is a statement in its
     one form; one of them is there if and only if the manifest says BPC-BUNDLE-2
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.snapshot import read_fact, read_fact_lines
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json, NotCanonical
from bpc.core.formats.hashes import from_hex
from bpc.core.formats.ids import parse_uuid
from bpc.core.formats.timestamps import parse_time
from bpc.core.passport.bundle import (
    ENTRIES_OF_VERSION_2,
    LOG_PROOF_ENTRY,
    LOGGED_BUNDLE_VERSION,
    STATUS_ENTRY,
    BadBundle,
    Bundle,
    BundleManifest,
    read_manifest,
)
from bpc.core.passport.payload import PAYLOAD_VERSIONS
from bpc.core.passport.receipt import BadReceipt, Receipt, read_receipt
from bpc.core.status.statements import StatusStatement, read_statement
from bpc.core.tlog.entries import LogEntry, parse_opening
from bpc.core.tlog.proofs import LogProof, parse_log_proof
from bpc.core.verify import CheckFailed, NotChecked

VIEW_AUDIENCES: Final = ("authority", "interest", "public")
COMPLIANCE_STATUSES: Final = frozenset({"PASS", "FAIL", "WARN", "NOT_APPLICABLE"})
VERDICTS: Final = frozenset({"assessed", "not_yet_in_force", "undetermined", "expired", "out_of_scope"})

_ENTRY_MEMBERS: Final = frozenset({"code", "field", "message", "status"})
_MORE_ENTRY_MEMBERS: Final = frozenset({"args", "verdict"})

_MAX_PROBLEMS_SHOWN: Final = 5
T = TypeVar("T")

_SALT: Final = re.compile("[0-9a-f]{32}")


class Spelling(NamedTuple):
    """How a member is written, and the words for it in a message."""

    accepts: Callable[[Json], bool]
    description: str


def _can_parse(value: Json, parse: Callable[[str], object]) -> bool:
    try:
        return isinstance(value, str) and parse(value) is not None
    except Invalid:
        return False


def exactly(text: str) -> Spelling:
    return Spelling(lambda value: value == text, f"`{text}`")


def is_count(value: Json) -> bool:
    """Whether it is an integer from 0; `type`, because true is an integer to Python."""
    return type(value) is int and value >= 0


def is_audience_list(value: Json) -> bool:
    """Whether it is a list of audiences, sorted, none twice."""
    return isinstance(value, list) and value == [name for name in VIEW_AUDIENCES if name in value]


def may_see(access: Sequence[str], audience: str) -> bool:
    """Whether a field with these audiences is shown to `audience`. Public fields are shown to everybody."""
    return audience in access or "public" in access


def _is_compliance_entry(value: Json) -> bool:
    """Whether it is an entry of BPC-PASSPORT-1, or of BPC-PASSPORT-2, which has more members."""
    if not isinstance(value, dict) or value.keys() not in (_ENTRY_MEMBERS, _ENTRY_MEMBERS | _MORE_ENTRY_MEMBERS):
        return False
    texts = [part for name, part in value.items() if name != "args"]
    args = value.get("args", {})
    return (
        all(isinstance(part, str) for part in texts)
        and value["status"] in COMPLIANCE_STATUSES
        and value.get("verdict", "assessed") in VERDICTS
        and isinstance(args, dict)
        and all(isinstance(text, str) for text in args.values())
    )


def is_product(value: Json) -> bool:
    """Whether it is a battery product as payloads write it."""
    return (
        isinstance(value, dict)
        and value.keys() == {"battery_product_id", "name", "sku"}
        and all(isinstance(part, str) for part in value.values())
        and ID.accepts(value["battery_product_id"])
    )


TEXT: Final = Spelling(lambda value: isinstance(value, str), "a text")
OBJECT: Final = Spelling(lambda value: isinstance(value, dict), "an object")
COUNT: Final = Spelling(is_count, "a whole number")
LIST: Final = Spelling(lambda value: isinstance(value, list), "a list")
ID: Final = Spelling(lambda value: _can_parse(value, parse_uuid), "a lower-case uuid with hyphens")
HASH: Final = Spelling(lambda value: _can_parse(value, from_hex), "64 lower-case hex digits")
TIME: Final = Spelling(lambda value: _can_parse(value, parse_time), "a time like `2027-02-18T00:00:00.000000Z`")
SALT: Final = Spelling(
    lambda value: isinstance(value, str) and _SALT.fullmatch(value) is not None, "32 lower-case hex digits"
)
ACCESS: Final = Spelling(
    lambda value: isinstance(value, dict) and all(map(is_audience_list, value.values())),
    "each path's audiences in order",
)
COMPLIANCE: Final = Spelling(
    lambda value: isinstance(value, list) and all(map(_is_compliance_entry, value)),
    "a list of entries of code, field, message and status, at level 2 also of verdict and args",
)
PRODUCT: Final = Spelling(is_product, "a product of id, name and sku")

ObjectForm = Mapping[str, Spelling]

PAYLOAD_FORM: Final[ObjectForm] = {
    "access": ACCESS,
    "battery_product": PRODUCT,
    "compliance": COMPLIANCE,
    "fields": OBJECT,
    "issued_at": TIME,
    "passport_id": ID,
    "passport_version_id": ID,
    "payload_version": Spelling(
        lambda value: value in PAYLOAD_VERSIONS.values(), "`BPC-PASSPORT-1` or `BPC-PASSPORT-2`"
    ),
    "salt": SALT,
}
SNAPSHOT_FORM: Final[ObjectForm] = {"facts": LIST, "snapshot_id": ID, "snapshot_version": exactly("BPC-SNAPSHOT-1")}
SNAPSHOT_FACT_FORM: Final[ObjectForm] = {"fact_key": TEXT, "fact_type": TEXT, "payload_hash": HASH}
ENTRY_FORMS: Final[Mapping[str, ObjectForm]] = {"payload.json": PAYLOAD_FORM, "snapshot.json": SNAPSHOT_FORM}


def require_form(where: str, value: Json, form: ObjectForm) -> Mapping[str, Any]:
    """`value` as an object of exactly this form, or `CheckFailed` naming the first member that is not so."""
    if not isinstance(value, dict):
        raise CheckFailed(f"{where} is not an object")
    for name in form:
        if name not in value:
            raise CheckFailed(f"{where} has no `{name}`")
    for name in value:
        if name not in form:
            raise CheckFailed(f"{where} has an unknown member `{name[:80]}`")
    for name, spelling in form.items():
        if not spelling.accepts(value[name]):
            raise CheckFailed(f"{where}: `{name}` is not {spelling.description}")
    return value


def read_signed_receipt(where: str, data: bytes) -> Receipt:
    try:
        receipt = read_receipt(data)
    except BadReceipt as refusal:
        raise CheckFailed(f"{where}: {refusal.says}") from None
    if receipt.signature is None:
        raise CheckFailed(f"{where} has no `signature`")
    return receipt


def decode_canonical(where: str, data: bytes) -> Json:
    try:
        return canonical_json.decode(data)
    except NotCanonical as refusal:
        raise CheckFailed(f"{where}: {refusal.says}") from None


def _decode_lines(name: str, data: bytes) -> Iterator[Json]:
    *lines, tail = data.split(b"\n")
    if tail:
        raise CheckFailed(f"{name} does not end with a line feed")
    for number, line in enumerate(lines, 1):
        yield decode_canonical(f"{name} line {number}", line)


def _read_object(name: str, data: bytes) -> Mapping[str, Any]:
    return require_form(name, decode_canonical(name, data), ENTRY_FORMS[name])  # 2, 3


def _read_manifest(_: str, data: bytes) -> BundleManifest:
    try:
        return read_manifest(data)  # 2, 3
    except BadBundle as refusal:
        raise CheckFailed(refusal.says) from None


def _read_facts(name: str, data: bytes) -> tuple[SnapshotFact, ...]:
    *lines, tail = data.split(b"\n")
    if not tail:
        with suppress(Invalid):  # what is wrong is said line by line
            return read_fact_lines(lines)  # 4
    facts = []
    for number, value in enumerate(_decode_lines(name, data), 1):
        try:
            facts.append(read_fact(value))
        except Invalid as refusal:
            raise CheckFailed(f"{name} line {number}: {refusal.says}") from None
    return tuple(facts)


def _read_events(name: str, data: bytes) -> tuple[Json, ...]:
    return tuple(_decode_lines(name, data))  # 4


def _read_qr_text(name: str, data: bytes) -> str:
    try:
        return data.decode("ascii")  # 5
    except UnicodeDecodeError:
        raise CheckFailed(f"{name} is not ASCII") from None


class LoggedEntry(NamedTuple):
    """The proof of a bundle, and the entry of the log that it opens."""

    proof: LogProof
    entry: LogEntry


def _read_log_proof(name: str, data: bytes) -> LoggedEntry:
    try:
        proof = parse_log_proof(data)  # 6
        return LoggedEntry(proof, parse_opening(proof.extra or b""))
    except Invalid as refusal:
        raise CheckFailed(f"{name}: {refusal.says}") from None


def _read_status(name: str, data: bytes) -> StatusStatement:
    try:
        return read_statement(data)  # 6
    except Invalid as refusal:
        raise CheckFailed(f"{name}: {refusal.says}") from None


class BundleEntry(Generic[T]):
    """An entry of a bundle as an attribute of an `OpenedBundle`; `NotChecked` if it could not be read."""

    def __init__(self, name: str, read: Callable[[str, bytes], T]) -> None:
        self.name = name
        self.read = read

    def __get__(self, bundle: "OpenedBundle", _: object = None) -> T:
        if self.name not in bundle.values:
            raise NotChecked(f"{self.name} could not be read")
        value: T = bundle.values[self.name]
        return value


class OpenedBundle:
    """A bundle's entries, each as far as it could be read; `problems` says what could not.

    The receipt has a signature and the manifest a key of 32 bytes, which are not checked yet.
    """

    payload = BundleEntry("payload.json", _read_object)
    snapshot = BundleEntry("snapshot.json", _read_object)
    manifest = BundleEntry("manifest.json", _read_manifest)
    receipt = BundleEntry("receipt.json", read_signed_receipt)
    proof = BundleEntry("proof.json", decode_canonical)
    facts = BundleEntry("facts.jsonl", _read_facts)
    event_lines = BundleEntry("events.jsonl", _read_events)
    qr_text = BundleEntry("qr.txt", _read_qr_text)
    logged_entry = BundleEntry(LOG_PROOF_ENTRY, _read_log_proof)
    status_statement = BundleEntry(STATUS_ENTRY, _read_status)

    def __init__(self, bundle: Bundle) -> None:
        self.entries = bundle.entries
        self.values: dict[str, Any] = {}
        self.problems: list[str] = []
        for entry in vars(OpenedBundle).values():
            if isinstance(entry, BundleEntry) and entry.name in self.entries:
                try:
                    self.values[entry.name] = entry.read(entry.name, self.entries[entry.name])
                except CheckFailed as error:
                    self.problems.append(error.says)
        manifest = self.values.get("manifest.json")
        entry = next((name for name in ENTRIES_OF_VERSION_2 if name in self.entries), None)
        if manifest is not None and (manifest.bundle_version == LOGGED_BUNDLE_VERSION) != (entry is not None):  # 6
            has = "has no " + " and no ".join(ENTRIES_OF_VERSION_2) if entry is None else f"has {entry}"
            self.problems.append(f"the manifest says {manifest.bundle_version}, and the bundle {has}")

    @property
    def has_log_proof(self) -> bool:
        return LOG_PROOF_ENTRY in self.entries

    @property
    def statement(self) -> StatusStatement | None:
        """What names the place of its status, or None where the bundle has nothing of the kind."""
        return self.status_statement if STATUS_ENTRY in self.entries else None

    @property
    def logged(self) -> LoggedEntry | None:
        """The log proof and the entry that it opens, or None where the bundle has none."""
        return self.logged_entry if self.has_log_proof else None

    @property
    def events(self) -> tuple[Json, ...] | None:
        """The lines of events.jsonl, or None where the bundle has none."""
        return self.event_lines if "events.jsonl" in self.entries else None


def check_canonical(bundle: OpenedBundle) -> str:
    if bundle.problems:
        more = len(bundle.problems) - _MAX_PROBLEMS_SHOWN
        raise CheckFailed(
            "; ".join([*bundle.problems[:_MAX_PROBLEMS_SHOWN], *([f"and {more} more"] if more > 0 else [])])
        )
    return f"{len(bundle.entries)} entries, each in its one form"

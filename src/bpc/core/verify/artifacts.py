"""The steps that compare a bundle's entries with its receipt, and the receipt with its key.

Pure. A public key from the bundle itself proves only that nothing changed since somebody signed. Only a key that was
known before (a pinned key) shows that the signer was the issuer. A bundle made without a database has no events.

Checks:
  `payload_hash`
    1. payload.json has the hash the receipt names
  `snapshot`
    2. snapshot.json has the hash and the id the receipt names
    3. its facts are in order, each of its form, no two of one type and key
  `facts`
    4. facts.jsonl holds exactly the snapshot's facts, in its order, each with the payload hash the snapshot names
   17. each attached file has the hash that its entry is named by, and a fact of type Attachment names it
  `rules`
    5. rules.bpc and tests.bpc have the hashes the receipt names
  `receipt_hash`
    6. receipt, payload and manifest are of one passport version, issued at one time, for one product
    7. the receipt without its signature has the hash that the QR text carries
  `signature`
    8. the manifest names the key that the receipt names
    9. the public key is one signatures can be trusted under
   10. with pinned keys, it is one of them; if the pinned key has a name, the receipt uses that name
   11. the signature is that key's, over the receipt's hash
  `qr`
   12. qr.txt is the text made again from the receipt: its version's id, the hashes it names, and its own
   13. qr.png is a sound PNG (bpc.core.passport.qr lists what that is) with the pixels of the code made again
  `events`
   14. every line has exactly the members of an event, each in its one spelling
   15. there is at least one event, and all are of this passport version and its tenant
   16. the chain holds from version 1 on (bpc.core.audit.events lists what that is)
   18. with a log proof: the event that its entry names is in the chain; it and those before it are history
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from bpc.core.audit.events import AuditEvent, EventStream, StoredEvent, find_chain_faults
from bpc.core.audit.signing import PinnedKey, PublicKey, parse_public_key, to_base64
from bpc.core.facts.attachments import iterate_named_files
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, from_hex, sha256, to_hex
from bpc.core.formats.ids import ActorId, AggregateId, EventId, TenantId, parse_uuid, uuid_from_hash
from bpc.core.formats.timestamps import format_time, parse_time
from bpc.core.items.receipt import ItemReceipt
from bpc.core.passport.bundle import ATTACHMENT_PREFIX, format_receipt_qr_text
from bpc.core.passport.qr import NotAQrText, check_qr_png, read_qr_text
from bpc.core.passport.receipt import Receipt
from bpc.core.verify import CheckFailed, NotChecked, canonical, format_count
from bpc.core.verify.canonical import ObjectForm, OpenedBundle, Spelling, require_form

ISSUER_NOT_CHECKED = "the issuer was not checked, because no key was given"
Pin: TypeAlias = PublicKey | PinnedKey
AnyReceipt: TypeAlias = Receipt | ItemReceipt


EVENT_AGGREGATE: Final = "PassportVersion"


def _allow_null(spelling: Spelling) -> Spelling:
    return Spelling(lambda value: value is None or spelling.accepts(value), f"{spelling.description} or null")


EVENT_FORM: Final[ObjectForm] = {
    "actor_id": _allow_null(canonical.ID),
    "aggregate_id": canonical.ID,
    "aggregate_type": canonical.TEXT,
    "aggregate_version": canonical.COUNT,
    "event_hash": canonical.HASH,
    "event_type": canonical.TEXT,
    "occurred_at": canonical.TIME,
    "payload": canonical.OBJECT,
    "payload_hash": canonical.HASH,
    "prev_event_hash": _allow_null(canonical.HASH),
    "tenant_id": canonical.ID,
}


def check_payload_hash(bundle: OpenedBundle) -> str:
    return _require_hash(bundle, "payload.json", bundle.receipt.payload_hash)  # 1


def check_snapshot(bundle: OpenedBundle) -> str:
    says = _require_hash(bundle, "snapshot.json", bundle.receipt.snapshot_hash)  # 2
    if bundle.snapshot["snapshot_id"] != str(bundle.receipt.snapshot_id):
        raise CheckFailed("snapshot.json is of another snapshot than the receipt names")
    refs = _list_fact_refs(bundle)
    for before, after in pairwise(refs):
        if before[:2] == after[:2]:
            raise CheckFailed(f"snapshot.json holds two facts `{after[1]}` of type `{after[0]}`")
        if before > after:
            raise CheckFailed(f"snapshot.json is not in order: `{after[1]}` comes after `{before[1]}`")
    return says


def check_facts(bundle: OpenedBundle) -> str:
    refs = _list_fact_refs(bundle)
    facts = bundle.facts
    for number, (fact, ref) in enumerate(zip(facts, refs, strict=False), 1):  # 4
        if (fact.fact_type, fact.fact_key) != ref[:2]:
            raise CheckFailed(f"facts.jsonl line {number} is `{fact.fact_key}`, and the snapshot has `{ref[1]}` there")
        if fact.payload_hash() != ref[2]:
            raise CheckFailed(f"facts.jsonl line {number}: `{fact.fact_key}` does not have the hash the snapshot names")
    if len(facts) != len(refs):
        raise CheckFailed(f"facts.jsonl holds {len(facts)} facts, and the snapshot names {len(refs)}")
    attachment_count = _check_attachments(bundle)
    files = (
        f"; {format_count(attachment_count, 'attached file')}, each with the hash that a fact names"
        if attachment_count
        else ""
    )
    return f"{format_count(len(facts), 'fact')}, each with the hash the snapshot names{files}"


def _check_attachments(bundle: OpenedBundle) -> int:
    """The number of attached files. A bundle need not hold any."""
    named_hashes = {file.sha256 for file in iterate_named_files(bundle.facts)}
    names = [name for name in bundle.entries if name.startswith(ATTACHMENT_PREFIX)]
    for name in names:  # 17
        digest = name.removeprefix(ATTACHMENT_PREFIX)
        actual = to_hex(sha256(bundle.entries[name]))
        if actual != digest:
            raise CheckFailed(f"{name} has the hash {actual}")
        if digest not in named_hashes:
            raise CheckFailed(f"{name} is not named by any fact")
    return len(names)


def check_rules(bundle: OpenedBundle) -> str:
    _require_hash(bundle, "rules.bpc", bundle.receipt.dsl_sha256)  # 5
    _require_hash(bundle, "tests.bpc", bundle.receipt.tests_sha256)
    return "rules and tests have the hashes the receipt names"


def _list_fact_refs(bundle: OpenedBundle) -> list[tuple[str, str, str]]:
    refs = []
    for index, value in enumerate(bundle.snapshot["facts"]):  # 3
        fact = require_form(f"snapshot.json: fact {index}", value, canonical.SNAPSHOT_FACT_FORM)
        refs.append((fact["fact_type"], fact["fact_key"], fact["payload_hash"]))
    return refs


def _require_hash(bundle: OpenedBundle, entry: str, expected: Digest) -> str:
    actual = sha256(bundle.entries[entry])
    if actual != expected:
        raise CheckFailed(f"{entry} has the hash {to_hex(actual)}, and the receipt names {to_hex(expected)}")
    return f"{entry} is {to_hex(actual)}"


def check_receipt_hash(bundle: OpenedBundle) -> str:
    _require_same_passport(bundle)  # 6
    receipt_hash = bundle.receipt.hash()
    try:
        qr_hash = read_qr_text(bundle.qr_text).receipt_hash
    except NotAQrText as refusal:
        raise NotChecked(refusal.says) from None
    if receipt_hash != qr_hash:  # 7
        raise CheckFailed(f"the receipt has the hash {to_hex(receipt_hash)}, and qr.txt names {to_hex(qr_hash)}")
    return f"the receipt is {to_hex(receipt_hash)}"


def check_signature(bundle: OpenedBundle, pins: Sequence[Pin], *, require_pin: bool = False) -> str:
    manifest, receipt = bundle.manifest, bundle.receipt
    if manifest.signing_key_id != receipt.signing_key_id:  # 8
        raise CheckFailed(
            f"the manifest names the key `{manifest.signing_key_id}`, the receipt `{receipt.signing_key_id}`"
        )
    key = parse_public_key(manifest.public_key)  # 9
    pin = find_pin(pins, key, receipt)
    if pins:
        require_pinned_key(key, group_names_by_key(pins).get(key), receipt)  # 10
        require_same_tenant(pin, receipt)
    receipt.verify(key)  # 11
    if require_pin and not pins:
        raise NotChecked("no key is pinned, so anybody may have signed it; give the issuer's key")
    return describe_signature(receipt, pin, is_pinned=bool(pins))


def group_names_by_key(pins: Sequence[Pin]) -> dict[PublicKey, set[str | None]]:
    """The pinned keys, each with its names; None is one that goes by any."""
    names_by_key: dict[PublicKey, set[str | None]] = {}
    for pin in pins:
        key, name = (pin.public_key, pin.key_id) if isinstance(pin, PinnedKey) else (pin, None)
        names_by_key.setdefault(key, set()).add(name)
    return names_by_key


def find_pin(pins: Sequence[Pin], key: PublicKey, receipt: AnyReceipt) -> PinnedKey | None:
    """What you know of the key that signed the receipt; the entry with the key's name wins over one without."""
    same_key = [pin for pin in pins if isinstance(pin, PinnedKey) and pin.public_key == key]
    same_name = [pin for pin in same_key if pin.key_id == receipt.signing_key_id]
    return next(iter([*same_name, *same_key]), None)


def require_same_tenant(pin: PinnedKey | None, receipt: AnyReceipt) -> None:
    """`CheckFailed` if the key is of another tenant than the one that the receipt names."""
    if pin is not None and pin.tenant_id is not None and pin.tenant_id != str(receipt.tenant_id):
        name = pin.tenant or pin.tenant_id
        raise CheckFailed(
            f"the key `{receipt.signing_key_id}` belongs to the tenant `{name}`, "
            f"and the receipt is in the name of the tenant {receipt.tenant_id}"
        )


def require_pinned_key(key: PublicKey, names: Collection[str | None] | None, receipt: AnyReceipt) -> None:
    """`CheckFailed` unless the key is a pinned one, under a name that the receipt gives it."""
    if names is None:
        raise CheckFailed(f"the manifest's key {to_base64(key)} is not one of those you trust")
    if None not in names and receipt.signing_key_id not in names:
        key_names = " and ".join(f"`{name}`" for name in sorted(filter(None, names)))
        raise CheckFailed(
            f"the receipt names the key `{receipt.signing_key_id}`, but you trust this key as {key_names}"
        )


def describe_signature(receipt: AnyReceipt, pin: PinnedKey | None, *, is_pinned: bool) -> str:
    """Who signed, as far as your keys show it. Only a key of a tenant proves the tenant."""
    says = f"signed by key `{receipt.signing_key_id}`"
    if not is_pinned:
        return f"{says}; {ISSUER_NOT_CHECKED}"
    if pin is None:
        return f"{says}, which you trust; tenant not proven"
    if pin.tenant_id is None:
        return f"{says}, which you trust; installation key, tenant not proven"
    return f"{says} of the tenant `{pin.tenant or pin.tenant_id}`, which you trust"


def _require_same_passport(bundle: OpenedBundle) -> None:
    receipt, payload = bundle.receipt, bundle.payload
    member_pairs = {
        "passport_id": (payload["passport_id"], str(receipt.passport_id)),
        "passport_version_id": (payload["passport_version_id"], str(receipt.passport_version_id)),
        "issued_at": (payload["issued_at"], format_time(receipt.issued_at)),
        "battery_product_id": (payload["battery_product"]["battery_product_id"], str(receipt.battery_product_id)),
    }
    for name, (payload_value, receipt_value) in member_pairs.items():
        if payload_value != receipt_value:
            raise CheckFailed(f"payload.json has the {name} {payload_value}, and the receipt {receipt_value}")
    if bundle.manifest.passport_version_id != receipt.passport_version_id:
        raise CheckFailed("manifest.json is of another passport version than the receipt")


def check_qr(bundle: OpenedBundle) -> str:
    text = format_receipt_qr_text(bundle.receipt)
    if bundle.qr_text != text:  # 12
        raise CheckFailed(f"qr.txt is not the text of this passport, which is {text}")
    check_qr_png(bundle.entries["qr.png"], text)  # 13
    return "text and pixels are those of this passport"


def check_events(bundle: OpenedBundle) -> str:
    lines = bundle.events
    if lines is None:
        return "not part of this bundle"
    events = [_parse_event_line(number, line) for number, line in enumerate(lines, 1)]
    if not events:  # 15
        raise CheckFailed("events.jsonl holds no event")
    stream = EventStream(bundle.receipt.tenant_id, EVENT_AGGREGATE, AggregateId(bundle.receipt.passport_version_id))
    for number, event in enumerate(events, 1):
        if event.event.stream != stream:
            raise CheckFailed(f"events.jsonl line {number} belongs to {event.event.stream}, expected {stream}")
    fault = next(find_chain_faults(events), None)  # 16
    if fault is not None:
        raise CheckFailed(f"event {fault.version}: {fault.says}")
    return f"{format_count(len(events), 'event')}, each linked to the one before; {_find_logged_part(bundle, events)}"


def _find_logged_part(bundle: OpenedBundle, events: Sequence[StoredEvent]) -> str:
    """Which of the events the entry of the log vouches for; whether that entry is in a log is another step."""
    if not bundle.has_log_proof:
        return "no log entry vouches for them: do not take them for history"
    statement = bundle.logged_entry.entry.read_statement()
    version, event_hash = statement.get("aggregate_version"), statement.get("event_hash")
    logged_event = next((event.event for event in events if event.event.version == version), None)  # 18
    if logged_event is None or to_hex(logged_event.event_hash) != event_hash:
        raise CheckFailed(f"event {version} is not the one that the entry of the log names")
    later = len(events) - logged_event.version
    more = "" if not later else f"; no log entry vouches for the {later} after it: do not take them for history"
    return f"the entry of the log vouches for those up to {logged_event.version}{more}"


def _parse_event_line(number: int, line: Json) -> StoredEvent:
    members = require_form(f"events.jsonl line {number}", line, EVENT_FORM)  # 14
    payload = canonical_json.encode(members["payload"])
    return StoredEvent(event=_build_event(members, payload), payload_json=payload)


def _build_event(members: Mapping[str, Any], payload: bytes) -> AuditEvent:
    event_hash = from_hex(members["event_hash"])
    actor, prev_hash = members["actor_id"], members["prev_event_hash"]
    return AuditEvent(
        stream=EventStream(
            TenantId(parse_uuid(members["tenant_id"])),
            members["aggregate_type"],
            AggregateId(parse_uuid(members["aggregate_id"])),
        ),
        version=members["aggregate_version"],
        event_id=EventId(uuid_from_hash(event_hash)),
        event_type=members["event_type"],
        occurred_at=parse_time(members["occurred_at"]),
        actor_id=None if actor is None else ActorId(parse_uuid(actor)),
        payload_canonical=payload,
        payload_hash=from_hex(members["payload_hash"]),
        prev_event_hash=None if prev_hash is None else Digest(from_hex(prev_hash)),
        event_hash=event_hash,
    )

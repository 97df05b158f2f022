"""Whole passports for tests: three honest bundles, and a forger who signs whatever he wants.

`forged(bundle, change)` lets `change` do anything to a `Draft`, then makes all hashes, the receipt, the signature, the
QR code and the zip anew, so that nothing but the change itself can be found. What is not to be made anew is named in
`keep`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from bpc.core.audit.events import EMPTY_CHAIN, AuditEvent, ChainHead, EventStream, NewEvent
from bpc.core.audit.signing import Seed, Signer, derive_public_key, to_base64
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import (
    AggregateId,
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.formats.timestamps import format_time
from bpc.core.passport.bundle import Bundle, format_receipt_qr_text, read_bundle, write_bundle
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.compile_input import CompileInput, Product
from bpc.core.passport.payload import make_blinding_fact
from bpc.core.passport.qr import draw_qr_png
from bpc.core.passport.receipt import read_receipt, sign_receipt

SEED = Seed(bytes(range(32)))
KEY = derive_public_key(SEED)
OTHER_SEED = Seed(bytes(range(1, 33)))
OTHER_KEY = derive_public_key(OTHER_SEED)
ISSUED_AT = datetime(2027, 2, 18, 9, 30, tzinfo=UTC)
SNAPSHOT = SnapshotId(UUID("33333333-0000-4000-8000-000000000003"))

SMALL_RULES = b"""-- Two fields, as in the handbook.
field battery.capacity_kwh @public: Dec(6) =
  let b = getFact("Battery", "battery:SKU-1");
  let cap = requireSome(recordGet(requireSome(b, "E001", "battery missing"), "capacity_kwh"), "E002", "no capacity");
  toDec(6, cap);

field sustainability.pcf_gco2e_per_kwh @authority: Dec(2) =
  let p = getFact("PCF", "pcf:SKU-1");
  let total = requireSome(recordGet(requireSome(p, "E010", "pcf missing"), "total_gco2e"), "E011", "no total");
  toDec(2, toDec(2, total) / field("battery.capacity_kwh"));
"""
RICH_RULES = """-- Some of everything; gemäß Anhang XIII.
field battery.name @public: Text = productName();
field battery.capacity_kwh @public: Dec(6) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "battery missing");
  let unused = 2 + 3;
  requireSome(recordGet(b, "capacity_kwh"), "E002", "capacity missing");
field battery.chemistry @interest @authority: Opt(Text) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "battery missing");
  recordGet(b, "chemistry");
field arithmetic.four @authority: Int = 2 + 2;
field arithmetic.seven: Bool = 7 < 8;
field parts.masses @authority: List(Dec(6)) =
  map(getFactsByPrefix("Component", concat("component:", productSku(), ":")),
      fn(p) => unwrapOr(recordGet(p, "mass_g"), 0));
field parts.total @interest @authority: Qty(kg) =
  convert("g", "kg", sumQty("g", map(field("parts.masses"), fn(m) => toQty("g", m))));
field parts.critical @authority: List(Text) =
  map(filter(getFactsByPrefix("Component", concat("component:", productSku(), ":")),
             fn(p) => unwrapOr(recordGet(p, "critical"), false)),
      fn(p) => unwrapOr(recordGet(p, "part"), "?"));
field parts.heaviest: Dec(6) =
  fold(field("parts.masses"), 0, fn(most, m) => if (m > most) then m else most);
field pcf.per_kwh @public: Dec(2) =
  let p = requireSome(getFact("PCF", concat("pcf:", productSku())), "E010", "pcf missing");
  let total = requireSome(recordGet(p, "total_gco2e"), "E011", "total missing");
  assert(total > 0, "E012", "the footprint is not positive");
  toDec(2, total / field("battery.capacity_kwh"));
field pcf.class @public: Text =
  if (field("pcf.per_kwh") < 70) then "A" else if (field("pcf.per_kwh") < 90) then "B" else "C";
field duties.qr @public: Bool =
  emitCompliance("QR", if (issuedOn() >= date("2027-02-18")) then "PASS" else "NOT_APPLICABLE", "the code is due")
    && emitCompliance("MASS", if (field("parts.heaviest") > 100) then "WARN" else "PASS", "parts are light");
field summary: Record(label: Text, parts: Int) =
  { parts: count(field("parts.masses")), label: concat(field("battery.name"), " ", field("pcf.class")) };
""".encode()
TESTS = b"""example capacity: {
  fact b("Battery", "battery:SKU-1") = {"capacity_kwh": "75.5"};
} => expect(battery.capacity_kwh, == 75.5); ;
"""


def make_fact(fact_type: str, fact_key: str, **payload: Any) -> SnapshotFact:
    return SnapshotFact(fact_type=fact_type, fact_key=fact_key, schema_version=1, payload=payload)


BATTERY = make_fact("Battery", "battery:SKU-1", sku="SKU-1", capacity_kwh="75.500000", chemistry="NMC")
SPARE = make_fact("Battery", "battery:SKU-2", sku="SKU-2", capacity_kwh="80.000000", chemistry="LFP")
PCF = make_fact("PCF", "pcf:SKU-1", sku="SKU-1", total_gco2e="6040.00")
UNREAD_FACT = make_fact("Invoice", "invoice:1", amount="12")
PARTS = [
    make_fact("Component", f"component:SKU-1:{name}", part=name, mass_g=mass, critical=critical)
    for name, mass, critical in [("anode", "12.5", True), ("cathode", "80.25", True), ("foil", "0.75", False)]
]
BLINDING_FACT = make_blinding_fact(SNAPSHOT, bytes(range(100, 132)))


def make_compile_input(rules: bytes, facts: list[SnapshotFact], tests: bytes = b"", **changes: Any) -> CompileInput:
    members: dict[str, Any] = {
        "tenant_id": TenantId(UUID("11111111-0000-4000-8000-000000000001")),
        "passport_id": PassportId(UUID("22222222-0000-4000-8000-000000000002")),
        "passport_version_id": PassportVersionId(UUID("44444444-0000-4000-8000-000000000004")),
        "product": Product(
            battery_product_id=BatteryProductId(UUID("55555555-0000-4000-8000-000000000005")),
            sku="SKU-1",
            name="Traction battery",
        ),
        "snapshot_id": SNAPSHOT,
        "rule_package_version_id": RulePackageVersionId(UUID("66666666-0000-4000-8000-000000000006")),
        "issued_at": ISSUED_AT,
        "compiler_build_id": "bpc-test",
        "signing_key_id": "issuer-2027",
        "facts": tuple(facts),
        "rules": rules,
        "tests": tests,
    }
    return CompileInput(**{**members, **changes})


def make_bundle(compile_input: CompileInput, *, seed: Seed = SEED, events: bytes | None = None) -> bytes:
    """Compile, sign, draw and zip."""
    return write_bundle(issue_passport(compile_input, compile_passport(compile_input), Signer(seed), events=events))


def make_event_chain(compile_input: CompileInput, count: int = 3) -> list[AuditEvent]:
    stream = EventStream(compile_input.tenant_id, "PassportVersion", AggregateId(compile_input.passport_version_id))
    events: list[AuditEvent] = []
    head = EMPTY_CHAIN
    for number in range(count):
        new_event = NewEvent(
            event_type=f"STEP_{number}", payload={"number": number}, actor_id=None, occurred_at=ISSUED_AT
        )
        events.append(AuditEvent.chain_after(head, stream, new_event))
        head = ChainHead(events[-1].version, events[-1].event_hash)
    return events


def encode_event_line(event: AuditEvent) -> bytes:
    return (
        canonical_json.encode(
            {
                "actor_id": None if event.actor_id is None else str(event.actor_id),
                "aggregate_id": str(event.stream.aggregate_id),
                "aggregate_type": event.stream.aggregate_type,
                "aggregate_version": event.version,
                "event_hash": to_hex(event.event_hash),
                "event_type": event.event_type,
                "occurred_at": format_time(event.occurred_at),
                "payload": canonical_json.decode(event.payload_canonical),
                "payload_hash": to_hex(event.payload_hash),
                "prev_event_hash": None if event.prev_event_hash is None else to_hex(event.prev_event_hash),
                "tenant_id": str(event.stream.tenant_id),
            }
        )
        + b"\n"
    )


SMALL_INPUT = make_compile_input(SMALL_RULES, [BATTERY, PCF, BLINDING_FACT], TESTS)
RICH_INPUT = make_compile_input(RICH_RULES, [BATTERY, SPARE, PCF, UNREAD_FACT, *PARTS, BLINDING_FACT])


@cache
def make_small_bundle() -> bytes:
    return make_bundle(SMALL_INPUT)


@cache
def make_rich_bundle() -> bytes:
    return make_bundle(RICH_INPUT)


@cache
def make_audited_bundle() -> bytes:
    """One that comes from a database, without a secret and without facts."""
    compile_input = make_compile_input(b"field answer @public: Int = 6 * 7;\n", [])
    return make_bundle(compile_input, events=b"".join(map(encode_event_line, make_event_chain(compile_input))))


Node = dict[str, Any]


@dataclass
class BundleDraft:
    """A bundle opened for changes."""

    payload: dict[str, Any]
    proof: dict[str, Any]
    receipt: dict[str, Any]
    manifest: dict[str, Any]
    snapshot: dict[str, Any]
    facts: list[dict[str, Any]]
    entries: dict[str, bytes]
    # Texts that replace an entry after everything else is made.
    replaced: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def from_bundle(cls, data: bytes) -> "BundleDraft":
        entries = dict(read_bundle(data).entries)
        names = ("payload", "proof", "receipt", "manifest", "snapshot")
        return cls(
            **{name: json.loads(entries[f"{name}.json"]) for name in names},
            facts=[json.loads(line) for line in entries["facts.jsonl"].split(b"\n") if line],
            entries=entries,
        )

    @property
    def nodes(self) -> list[Node]:
        nodes: list[Node] = self.proof["nodes"]
        return nodes

    @property
    def field_count(self) -> int:
        return sum(node["data"].get("op") == "field" for node in self.nodes)

    @property
    def root(self) -> Node:
        return self.find_node(op="passport")

    def find_node(self, kind: str | None = None, **data: Any) -> Node:
        """The first node of this type with these data."""
        return next(
            node
            for node in self.nodes
            if kind in {None, node["type"]} and all(node["data"].get(name) == value for name, value in data.items())
        )

    def find_field(self, path: str) -> Node:
        return self.find_node(op="field", path=path)

    def find_result(self, path: str) -> Node:
        """The node a field's value comes from."""
        derivation = self.nodes[self.find_field(path)["children"][0]]
        result: int = derivation["children"][0]
        return self.nodes[result]

    def add_node(self, kind: str, data: Mapping[str, Any], children: list[int]) -> int:
        self.nodes.append({"children": children, "data": dict(data), "hash": "", "id": len(self.nodes), "type": kind})
        return len(self.nodes) - 1

    def set_value(self, path: str, value: Any) -> None:
        """In the payload and in the field's node, and nowhere else."""
        *folders, name = path.split(".")
        target = self.payload["fields"]
        for folder in folders:
            target = target[folder]
        target[name] = value
        self.find_field(path)["data"]["value"] = value

    def sort_nodes(self) -> None:
        """Put the nodes in a proper layout again: fields, root, and the steps that are needed, children first."""
        fields = sorted(
            (node for node in self.nodes if node["data"].get("op") == "field"), key=lambda node: node["data"]["path"]
        )
        order = [node["id"] for node in fields]
        needed: list[int] = []
        for node in fields:
            self._visit(node["children"][0], needed)
        steps: list[int] = []
        for step in sorted(needed):  # in the order they had, unless a child is newer than its parent
            self._visit(step, steps)
        order += [self.root["id"], *steps]
        at = {old: new for new, old in enumerate(order)}
        by_id = {node["id"]: node for node in self.nodes}
        self.proof["nodes"] = [
            {**by_id[old], "id": at[old], "children": [at[child] for child in by_id[old]["children"]]} for old in order
        ]
        self.nodes[len(fields)]["children"] = list(range(len(fields)))
        self.root["data"]["access"] = [node["data"]["access"] for node in fields]
        self.proof["field_index"] = {node["data"]["path"]: number for number, node in enumerate(fields)}

    def _visit(self, at: int, steps: list[int]) -> None:
        if at not in steps:
            for child in self.nodes[at]["children"]:
                self._visit(child, steps)
            steps.append(at)


def order_nodes(nodes: list[Node]) -> list[int]:
    """Children before parents, in any graph without cycles."""
    done: list[int] = []

    def visit(at: int, above: tuple[int, ...]) -> None:
        if at not in done and at not in above:
            for child in nodes[at]["children"]:
                if child < len(nodes):
                    visit(child, (*above, at))
            done.append(at)

    for at in range(len(nodes)):
        visit(at, ())
    return done


def hash_nodes(draft: BundleDraft) -> None:
    """BPC-PROOF-HASH-1, written here once more."""
    nodes = draft.nodes
    for at in order_nodes(nodes):
        node = nodes[at]
        children = [nodes[child]["hash"] if child < len(nodes) else "" for child in node["children"]]
        members = {"children_hashes": children, "data": node["data"], "id": node["id"], "type": node["type"]}
        node["hash"] = to_hex(sha256(canonical_json.encode(members)))
    draft.proof["root_hash"] = draft.root["hash"]


def forge_bundle(
    data: bytes,
    change: Callable[[BundleDraft], object],
    *,
    seed: Seed = SEED,
    keep: frozenset[str] | set[str] = frozenset(),
) -> bytes:
    """`keep`: snapshot, facts_hash, hashes, receipt, signature, manifest, qr."""
    draft = BundleDraft.from_bundle(data)
    change(draft)
    entries = draft.entries
    entries["facts.jsonl"] = b"".join(canonical_json.encode(line) + b"\n" for line in draft.facts)
    if "snapshot" not in keep:
        draft.snapshot["facts"] = [
            {
                "fact_key": line["fact_key"],
                "fact_type": line["fact_type"],
                "payload_hash": to_hex(sha256(canonical_json.encode(line["payload"]))),
            }
            for line in draft.facts
        ]
    if "facts_hash" not in keep:
        draft.root["data"]["facts_hash"] = to_hex(sha256(entries["facts.jsonl"]))
    if "hashes" not in keep:
        hash_nodes(draft)
    for name in ("payload", "proof", "snapshot"):
        entries[f"{name}.json"] = canonical_json.encode(getattr(draft, name))
    entries.update(draft.replaced)
    if "receipt" not in keep:
        draft.receipt |= {
            "payload_hash": to_hex(sha256(entries["payload.json"])),
            "proof_root_hash": draft.proof["root_hash"],
            "snapshot_hash": to_hex(sha256(entries["snapshot.json"])),
            "dsl_sha256": to_hex(sha256(entries["rules.bpc"])),
            "tests_sha256": to_hex(sha256(entries["tests.bpc"])),
        }
    entries["receipt.json"] = canonical_json.encode(draft.receipt)
    if "signature" not in keep:
        entries["receipt.json"] = sign_receipt(entries["receipt.json"], seed)
    if "manifest" not in keep:
        draft.manifest |= {"public_key": to_base64(derive_public_key(seed))}
    entries["manifest.json"] = canonical_json.encode(draft.manifest)
    if "qr" not in keep:
        text = format_receipt_qr_text(read_receipt(entries["receipt.json"]))
        entries |= {"qr.txt": text.encode(), "qr.png": draw_qr_png(text)}
    entries.update(draft.replaced)
    return write_bundle(Bundle(entries))

"""Replay, BPC-REPLAY-1: compile again from what was kept, and compare every byte.

Pure. What a passport was compiled from is in its bundle (or in the database, as the same bytes): ids and hashes in
the receipt, the product in the payload, facts, rules and tests as they were. If this build gives other bytes, the
first difference is named by artifact and place.

    payload.json, receipt.json, facts.jsonl, rules.bpc, tests.bpc ── replay ──► Compiled, byte for byte what was kept
                                                                        └─────► ReplayMismatch
"""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from bpc.core import canon
from bpc.core.canon import NotCanonical
from bpc.core.compile import CEILINGS, Compiled, compile_passport
from bpc.core.compile_input import CompileInput, Product
from bpc.core.errors import Invalid, Refusal
from bpc.core.facts_file import read_facts
from bpc.core.ids import BatteryProductId, parse_uuid
from bpc.core.receipt import read_receipt, unsigned
from bpc.core.rules.evaluating.evaluate import Machine

SHOWN: Final = 80
ABSENT: Final = object()


class ReplayMismatch(Refusal):
    """Compiling again gave something else than what was kept."""

    code = "REPLAY_MISMATCH"

    def __init__(self, artifact: str, place: str, kept: str, again: str) -> None:
        super().__init__(
            f"replay gives another {artifact}: at `{place}` it was {kept}, and compiling again gives {again}",
            details={"artifact": artifact, "place": place, "kept": kept, "again": again},
        )
        self.artifact = artifact
        self.place = place


class NotReplayable(Invalid):
    """What was kept does not say what it was compiled from."""


def replay(kept: Mapping[str, bytes], *, machine: Machine | None = None) -> Compiled:
    """Compile again; `ReplayMismatch` names the first difference. The signature is checked elsewhere.

    `kept` holds what a bundle holds, under the same names; the receipt may be signed or not.
    """
    # The facts need no comparing: reading them refuses whatever writing them again would not give.
    again = compile_passport(input_of(kept), limits=CEILINGS, machine=machine)
    compared = (
        ("snapshot", kept["snapshot.json"], again.snapshot),
        ("payload", kept["payload.json"], again.payload),
        ("proof", kept["proof.json"], again.proof),
        ("receipt", unsigned(kept["receipt.json"]), again.receipt),
    )
    for artifact, before, after in compared:
        if before != after:
            raise _mismatch(artifact, before, after)
    return again


def input_of(kept: Mapping[str, bytes]) -> CompileInput:
    """What the passport says it was compiled from; whether that is so, replay shows."""
    receipt = read_receipt(kept["receipt.json"])
    return CompileInput(
        tenant_id=receipt.tenant_id,
        passport_id=receipt.passport_id,
        passport_version_id=receipt.passport_version_id,
        product=_product(kept["payload.json"]),
        snapshot_id=receipt.snapshot_id,
        rule_package_version_id=receipt.rule_package_version_id,
        issued_at=receipt.issued_at,
        compiler_build_id=receipt.compiler_build_id,
        signing_key_id=receipt.signing_key_id,
        facts=read_facts(kept["facts.jsonl"]),
        rules=kept["rules.bpc"],
        tests=kept["tests.bpc"],
    )


def _product(payload: bytes) -> Product:
    found = canon.decode(payload)
    product: Any = found.get("battery_product") if isinstance(found, Mapping) else None
    if not isinstance(product, Mapping) or sorted(product) != ["battery_product_id", "name", "sku"]:
        raise NotReplayable("the payload does not say which product it is for")
    if not all(isinstance(text, str) for text in product.values()):
        raise NotReplayable("the payload's `battery_product` has a member that is not a text")
    return Product(
        battery_product_id=BatteryProductId(parse_uuid(product["battery_product_id"])),
        sku=product["sku"],
        name=product["name"],
    )


def _mismatch(artifact: str, before: bytes, after: bytes) -> ReplayMismatch:
    try:
        found = first_difference(canon.decode(before), canon.decode(after))
    except NotCanonical:  # what was kept is no JSON of ours
        found = None
    if found is None:
        pairs = enumerate(zip(before, after, strict=False))
        at = next((at for at, (one, other) in pairs if one != other), min(len(before), len(after)))
        return ReplayMismatch(artifact, f"byte {at}", _bytes_at(before, at), _bytes_at(after, at))
    return ReplayMismatch(artifact, found.place, found.before, found.after)


def _bytes_at(data: bytes, at: int) -> str:
    return f"{data[at : at + 16]!r}" if at < len(data) else "the end"


class Difference(NamedTuple):
    """Where two values differ first, and both as they are there, cut to a readable length."""

    place: str
    before: str
    after: str


def first_difference(before: Any, after: Any, place: str = "$") -> Difference | None:
    """The first place, in canonical order, at which two JSON values differ."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        names = sorted({*before, *after})
        parts = [(f"{place}.{name}", before.get(name, ABSENT), after.get(name, ABSENT)) for name in names]
    elif isinstance(before, list) and isinstance(after, list):
        pairs = enumerate(zip_longest(before, after, fillvalue=ABSENT))
        parts = [(f"{place}[{index}]", one, other) for index, (one, other) in pairs]
    else:
        return None if _same(before, after) else Difference(place, _shown(before), _shown(after))
    for at, one, other in parts:
        if one is ABSENT or other is ABSENT:
            return Difference(at, _shown(one), _shown(other))
        found = first_difference(one, other, at)
        if found is not None:
            return found
    return None


def _same(one: Any, other: Any) -> bool:
    # Bytes, because True == 1 to Python.
    return canon.encode(one) == canon.encode(other)


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "absent"
    text = canon.encode(value).decode()
    return f"`{text}`" if len(text) <= SHOWN else f"`{text[:SHOWN]}…`"

"""Disclosure: what one audience may see of a passport, as exports and as views.

Pure. A field is shown to the audiences that its rule names. A public field is shown to everybody, and the tenant that
owns the passport sees every field. Of hidden fields an export says only how many there are. A compliance entry belongs
to the field whose rule wrote it, and is shown to the same audiences.

    Bundle, audience ── disclose ───► DisclosedPassport(fields, compliance, receipt, …), or ExportRefused
                     └─ make_view ──► canonical bytes, which `verify_view` checks, or ViewImpossible

Nobody can check an export by itself, so it is made only from a bundle that passes these checks:
  1. every entry is in its one form
  2. the payload is the one the receipt names
  3. the proof is one hash-linked computation of this payload
  4. the receipt is this passport's, with the hash its QR code carries
  5. the key that the manifest names signed it
  6. its events, if it has any, are one hash-linked chain of this version
  7. the rules, which say what the fields are, are those that the receipt names

How many compliance entries were waived is not part of the signed payload, and neither is a revocation. A caller that
exports from a database knows both, and every audience sees them. A bundle does not tell them: nobody vouches for events
that came after its signature.

A view, BPC-VIEW-1, can be checked without seeing the rest: it holds the signed receipt, the proof's root with its
children's hashes, and the field nodes of that audience; of a hidden field it holds a salted hash and nothing else.
It is made only if it hides what it should and checks:
  1. the audience is one of the three
  2. the bundle's proof is laid out as its version says and hash-linked up to the receipt
  3. the snapshot has a secret, and every salt in the proof is made from it; or the audience sees every field
  4. what was made passes every check of a view, the signature's under the key of the bundle's manifest
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bpc.core.audit.signing import PublicKey, parse_public_key, to_base64
from bpc.core.catalogue.number_format import LANGUAGES, SOURCE_LANGUAGE, Language
from bpc.core.errors import Invalid, Refusal
from bpc.core.exports.data_points import find_exempt_points
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.ids import PassportVersionId
from bpc.core.language.package import list_overrides, read_words
from bpc.core.language.parsing.operands import TYPES_WITH_PARTS
from bpc.core.language.typed import AppliedOverride, FieldAbout
from bpc.core.language.types import (
    BOOL,
    DATE,
    INT,
    MAX_TYPE_DEPTH,
    TEXT,
    Dec,
    EnumType,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Type,
)
from bpc.core.passport.bundle import Bundle
from bpc.core.passport.payload import Salts, find_blinding_key
from bpc.core.passport.receipt import Receipt, unsigned_members
from bpc.core.status.statements import StatusPlace
from bpc.core.verify import CheckFailed, NotChecked
from bpc.core.verify.artifacts import (
    check_events,
    check_payload_hash,
    check_receipt_hash,
    check_rules,
    check_signature,
)
from bpc.core.verify.bundle import verify_view
from bpc.core.verify.canonical import VIEW_AUDIENCES, OpenedBundle, check_canonical, may_see
from bpc.core.verify.proof_structure import ParsedNode, check_proof_structure, parse_nodes

_SCALARS: Final = {str(kind): kind for kind in (BOOL, INT, TEXT, DATE)}
_WORD: Final = re.compile("[A-Za-z0-9_]+")
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_SCALE: Final = re.compile("[0-9]{1,2}")
_COMPOUND_TYPE: Final = re.compile(r"([A-Za-z]+)\((.*)\)")


class NotAType(Invalid):
    """A text that no type is written as."""

    def __init__(self, text: str) -> None:
        super().__init__(f"`{text[:80]}` is not a type of the rule language")


def parse_type(text: str) -> Type:
    """The type that a proof writes as `text`, such as `Opt(List(Dec(2)))`."""
    try:
        kind = _parse_type(text, 1)
    except NotAType:
        raise NotAType(text) from None
    if str(kind) != text:
        raise NotAType(text)
    return kind


def _parse_type(text: str, depth: int) -> Type:  # noqa: PLR0911 (one rule a case)
    if text in _SCALARS:
        return _SCALARS[text]
    if _NAME.fullmatch(text) and text not in TYPES_WITH_PARTS:  # an enumeration of the rules, which are not at hand
        return EnumType(text, (), {})
    parts = _COMPOUND_TYPE.fullmatch(text)
    if parts is None or depth > MAX_TYPE_DEPTH:
        raise NotAType(text)
    match parts.groups():
        case "Dec", scale if _SCALE.fullmatch(scale):
            return Dec(int(scale))
        case "Qty", unit if _WORD.fullmatch(unit):
            return Qty(unit)
        case "Opt", item:
            return Opt(_parse_type(item, depth + 1))
        case "List", item:
            return List(_parse_type(item, depth + 1))
        case "Map", items:
            return Map(_parse_type(items.removeprefix("Text, "), depth + 1))
        case "Record", members:
            return Record(tuple(_parse_member(member, depth + 1) for member in _split_members(members)))
        case _:
            raise NotAType(text)


def _split_members(text: str) -> Iterator[str]:
    """The parts between the commas that stand in no parentheses."""
    start = level = 0
    for at, letter in enumerate(text):
        level += (letter == "(") - (letter == ")")
        if letter == "," and level == 0:
            yield text[start:at]
            start = at + len(", ")
    yield text[start:]


def _parse_member(text: str, depth: int) -> tuple[str, Type]:
    name, _, kind = text.partition(": ")
    if _WORD.fullmatch(name) is None:
        raise NotAType(text)
    return name, _parse_type(kind, depth)


Audience: TypeAlias = Literal["public", "interest", "authority", "tenant"]

TENANT: Final = "tenant"
AUDIENCE_DESCRIPTIONS: Final[Mapping[Audience, str]] = {
    "public": "everybody",
    "interest": "persons with a legitimate interest",
    "authority": "notified bodies, market surveillance authorities and the Commission",
    "tenant": "the tenant whose passport it is: everything",
}


class ExportRefused(Invalid):
    """A bundle that does not check is not shown to anybody."""


@dataclass(frozen=True, slots=True)
class DisclosedField:
    """A field that may be seen: its value as passports write it, `kind` its type, `node` its place in the proof.

    `about` is what its rule says that it is, for people.
    """

    path: str
    kind: Type
    access: Sequence[str]
    value: Json
    node: int
    about: FieldAbout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisclosedPassport:
    """A passport version for one audience, its fields by path. `hidden` fields are not among them.

    `waived` of all its compliance entries, also of those of hidden fields, did not block its activation; None if it is
    not known. `place` is where its status is, if the bundle says so; `revoked_at` is when it was revoked, if it was.
    `weakened` is what its rules override of the rules they extend, if that could make them weaker.
    `citations` are what its requirements cite, by their codes; `exempt_points` are the data points that they do not ask
    for.
    """

    audience: Audience
    receipt: Receipt
    issued_at: str
    product: Mapping[str, str]
    fields: Sequence[DisclosedField]
    hidden: int
    compliance: Sequence[Mapping[str, Any]]
    waived: int | None
    public_key: PublicKey
    qr_text: str
    place: StatusPlace | None = None
    revoked_at: datetime | None = None
    weakened: Sequence[AppliedOverride] = ()
    citations: Mapping[str, str] = field(default_factory=dict)
    exempt_points: Set[int] = frozenset()


# Many passports are made with one package, whose text takes longer to read than a passport to print.
_read_words = lru_cache(maxsize=4)(read_words)


def disclose(bundle: Bundle, audience: Audience) -> DisclosedPassport:
    """What `audience` may see of the bundle's passport."""
    return disclose_opened(open_for_export(bundle), audience)


def open_for_export(bundle: Bundle) -> OpenedBundle:
    """The bundle, opened, if it is sound."""
    checked_bundle = OpenedBundle(bundle)
    try:
        check_canonical(checked_bundle)  # 1
        check_payload_hash(checked_bundle)  # 2
        check_proof_structure(checked_bundle)  # 3
        check_receipt_hash(checked_bundle)  # 4
        check_signature(checked_bundle, ())  # 5
        check_events(checked_bundle)  # 6
        check_rules(checked_bundle)  # 7
    except NotChecked as reason:
        raise _refuse_unsound(str(reason)) from None
    except Refusal as refusal:
        raise _refuse_unsound(refusal.says) from None
    return checked_bundle


def disclose_opened(
    bundle: OpenedBundle, audience: Audience, waived_count: int | None = None, revoked_at: datetime | None = None
) -> DisclosedPassport:
    """What `audience` may see of a bundle that is sound."""
    nodes, count = parse_nodes(bundle)
    words = _read_words(bundle.entries["rules.bpc"])
    fields = [
        _build_field(at, nodes[at], words.fields)
        for at in range(count)
        if may_see_export(nodes[at].data["access"], audience)
    ]
    paths, payload = {field.path for field in fields}, bundle.payload
    return DisclosedPassport(
        audience=audience,
        receipt=bundle.receipt,
        issued_at=payload["issued_at"],
        product=payload["battery_product"],
        fields=fields,
        hidden=count - len(fields),
        compliance=[entry for entry in payload["compliance"] if audience == TENANT or entry["field"] in paths],
        waived=waived_count,
        public_key=bundle.manifest.public_key,
        qr_text=bundle.qr_text,
        place=None if bundle.statement is None else bundle.statement.place,
        revoked_at=revoked_at,
        citations=words.citations,
        exempt_points=find_exempt_points(payload["compliance"]),
        weakened=[override for override in list_overrides(bundle.entries["rules.bpc"]) if override.weakens],
    )


def list_receipt_members(passport: DisclosedPassport) -> dict[str, str]:
    """The members of the receipt as text, with its hash, its signature and the public key to check it with."""
    return {
        **unsigned_members(passport.receipt),
        "receipt_hash": to_hex(passport.receipt.hash()),
        "signature": to_base64(passport.receipt.signature or b""),
        "public_key": to_base64(passport.public_key),
    }


def may_see_export(access: Sequence[str], audience: Audience) -> bool:
    """Whether a field for `access` is in the exports for `audience`. The tenant sees every field."""
    return audience == TENANT or may_see(access, audience)


def _build_field(at: int, node: ParsedNode, abouts: Mapping[str, FieldAbout]) -> DisclosedField:
    data: Mapping[str, Any] = node.data
    about = abouts.get(data["path"])
    return DisclosedField(data["path"], parse_type(data["type"]), data["access"], data["value"], at, about)


def _refuse_unsound(reason: str) -> ExportRefused:
    return ExportRefused(f"the bundle failed verification, so it is not exported: {reason}", hint="verify the bundle")


ExportFormat: TypeAlias = Literal["PDF", "JSON_LD", "XML", "DATA_POINTS", "BUNDLE"]


class FormatInfo(NamedTuple):
    """A format's media type, what its files begin and end with, and its audience by default."""

    mime_type: str
    prefix: str
    extension: str
    audience: Audience


EXPORT_FORMATS: Final[Mapping[ExportFormat, FormatInfo]] = {
    "PDF": FormatInfo("application/pdf", "passport", "pdf", "public"),
    "JSON_LD": FormatInfo("application/ld+json", "passport", "jsonld", "tenant"),
    "XML": FormatInfo("application/xml", "passport", "xml", "tenant"),
    "DATA_POINTS": FormatInfo("application/json", "data-points", "json", "tenant"),
    "BUNDLE": FormatInfo("application/zip", "bundle", "zip", "tenant"),
}


def choose_audience(name: ExportFormat, audience: Audience | None) -> Audience:
    """Whom an export is for: `audience`, or the default of the format."""
    if name == "BUNDLE" and audience not in {None, TENANT}:
        raise Invalid(
            "a bundle always holds every field",
            fix="leave out `audience`; for one audience use a view or another format",
        )
    return audience or EXPORT_FORMATS[name].audience


def choose_language(name: ExportFormat, language: str | None) -> Language:
    """The language of an export: `language`, or English. Only a PDF is in words; the others are the same in all."""
    if language is None:
        return SOURCE_LANGUAGE
    if language not in LANGUAGES:
        raise Invalid(
            f"`{language[:80]}` is not an official language of the EU", fix=f"use one of {', '.join(LANGUAGES)}"
        )
    if name != "PDF" and language != SOURCE_LANGUAGE:
        raise Invalid("only a PDF is in a language", fix="leave out `language`: the other formats are for programs")
    return language


def format_file_name(
    name: ExportFormat, audience: Audience, version: PassportVersionId, language: Language = SOURCE_LANGUAGE
) -> str:
    """What the export of a version is saved as: plain ASCII, and it says whom it is for."""
    info = EXPORT_FORMATS[name]
    suffix = "" if name == "BUNDLE" else f"-{audience}"
    suffix += "" if language == SOURCE_LANGUAGE else f"-{language}"
    return f"{info.prefix}-{version}{suffix}.{info.extension}"


class ViewImpossible(Invalid):
    """The view would show hidden values, or would not verify."""


def make_view(bundle: Bundle, audience: str) -> bytes:
    """The view of `audience`: public, interest or authority."""
    if audience not in VIEW_AUDIENCES:  # 1
        raise ViewImpossible(
            f"there is no audience `{audience[:80]}`", fix=f"the audiences are {', '.join(reversed(VIEW_AUDIENCES))}"
        )
    try:
        return _build_view(OpenedBundle(bundle), audience)
    except NotChecked as reason:
        raise _bundle_error(str(reason)) from None
    except CheckFailed as wrong:
        raise _bundle_error(wrong.says) from None


def _build_view(bundle: OpenedBundle, audience: str) -> bytes:
    check_proof_structure(bundle)  # 2
    nodes, count = parse_nodes(bundle)
    visible = [at for at in range(count) if may_see(nodes[at].data["access"], audience)]
    if len(visible) < count:
        _require_blinding(bundle, nodes, count)
    members: Mapping[str, Json] = {
        "audience": audience,
        "fields": [{"child": nodes[nodes[at].children[0]].hash, "data": nodes[at].data, "id": at} for at in visible],
        "receipt": canonical_json.decode(bundle.entries["receipt.json"]),
        "root": {"children": [node.hash for node in nodes[:count]], "data": nodes[count].data, "id": count},
        "view_version": "BPC-VIEW-1",
    }
    view = canonical_json.encode_typed(members)
    report = verify_view(view, pins=[parse_public_key(bundle.manifest.public_key)])  # 4
    for step in report.steps:
        if not step.ok:
            raise ViewImpossible(f"the view made from this bundle does not verify: {step.name}: {step.detail}")
    return view


def _bundle_error(reason: str) -> ViewImpossible:
    return ViewImpossible(f"the bundle is broken: {reason}", hint="verify the bundle")


def _require_blinding(bundle: OpenedBundle, nodes: Sequence[ParsedNode], count: int) -> None:
    secret = find_blinding_key(bundle.facts, bundle.receipt.snapshot_id)
    if secret is None:  # 3
        raise ViewImpossible(
            "the snapshot has no secret, so hidden values could be guessed and checked",
            fix="compile it over a snapshot with a `Blinding` fact, or name an audience that sees every field",
        )
    salts = Salts(secret, bundle.receipt.passport_version_id)
    for node in nodes[:count]:
        derivation = nodes[node.children[0]]
        if (node.data["salt"], derivation.data.get("salt")) != salts.derive_field_salts(node.data["path"]):
            raise ViewImpossible(f"the salts of `{node.data['path']}` are not made from the snapshot's secret")

"""What a passport is compiled from, and how it is read from a file.

Pure. A `CompileInput` holds everything a compile depends on: ids, product, moment, facts, rule and test text. There
is nothing else to know, which is what makes replay possible. Reading collects every mistake before it gives up, and
each names its member.

    INPUT.json ── read_input ──► CompileInput
                           └───► InputInvalid(problems)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.snapshot import fact_to_json, read_fact
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import (
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
    parse_uuid,
)
from bpc.core.formats.timestamps import format_time
from bpc.core.passport.receipt import RECEIPT_FORMAT, require_name

INPUT_MEMBERS: Final = (
    "tenant_id",
    "passport_id",
    "passport_version_id",
    "battery_product",
    "snapshot_id",
    "rule_package_version_id",
    "issued_at",
    "compiler_build_id",
    "signing_key_id",
    "facts",
)
# The members that are texts; a receipt writes them in the same way.
TEXT_FORMS: Final = {name: RECEIPT_FORMAT[name] for name in INPUT_MEMBERS if name in RECEIPT_FORMAT}
PRODUCT_MEMBERS: Final = ("battery_product_id", "sku", "name")
MAX_LISTED_PROBLEMS: Final = 8  # mistakes that a message names; its details have them all

T = TypeVar("T")


class InputInvalid(Invalid):
    """The compile input has mistakes; `problems` are all of them, each naming its member."""

    def __init__(self, problems: Sequence[str], *, fix: str | None = None) -> None:
        more = [f"and {len(problems) - MAX_LISTED_PROBLEMS} more"] if len(problems) > MAX_LISTED_PROBLEMS else []
        summary = "; ".join([*problems[:MAX_LISTED_PROBLEMS], *more])
        summary = (
            f"the compile input: {summary}"
            if len(problems) == 1
            else f"the compile input has {len(problems)} mistakes: {summary}"
        )
        super().__init__(summary, fix=fix, details={"problems": list(problems)})
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The battery product a passport is for, as its payload shows it. Its texts hold no U+0000."""

    battery_product_id: BatteryProductId
    sku: str
    name: str

    def __post_init__(self) -> None:
        for member, text in (("sku", self.sku), ("name", self.name)):
            if not _is_text(text):
                raise InputInvalid([f"`battery_product.{member}` holds U+0000 or a lone surrogate"])

    def as_json(self) -> dict[str, str]:
        return {"battery_product_id": str(self.battery_product_id), "name": self.name, "sku": self.sku}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileInput:
    """Everything a compile depends on. Build and key are called by names of 1 to 200 characters."""

    tenant_id: TenantId
    passport_id: PassportId
    passport_version_id: PassportVersionId
    product: Product
    snapshot_id: SnapshotId
    rule_package_version_id: RulePackageVersionId
    issued_at: datetime
    compiler_build_id: str
    signing_key_id: str
    facts: tuple[SnapshotFact, ...]
    rules: bytes
    tests: bytes = b""

    def __post_init__(self) -> None:
        for member, name in (("compiler_build_id", self.compiler_build_id), ("signing_key_id", self.signing_key_id)):
            try:
                canonical_json.encode(require_name(name))
            except Invalid as wrong:
                raise InputInvalid([f"`{member}`: {wrong.says}"]) from None
        format_time(self.issued_at)  # refused without a time zone


def encode_input(compile_input: CompileInput) -> bytes:
    """The canonical INPUT.json that `read_input` reads; rules and tests are files beside it."""
    return canonical_json.encode(
        {
            **{name: form.write(getattr(compile_input, name)) for name, form in TEXT_FORMS.items()},
            "battery_product": compile_input.product.as_json(),
            "facts": [fact_to_json(fact) for fact in compile_input.facts],
        }
    )


def read_input(data: bytes, *, rules: bytes, tests: bytes = b"") -> CompileInput:
    """The compile input a JSON text describes; it need not be canonical, but every value must have such a form."""
    document = canonical_json.read_json(data)
    if not isinstance(document, Mapping):
        raise InputInvalid(["it is not an object"], fix=f"its members are {', '.join(INPUT_MEMBERS)}")
    reader = _InputReader()
    members = reader.check_members(document, INPUT_MEMBERS, "")
    values: dict[str, Any] = {
        **{name: reader.read_value(members, name, form.parse) for name, form in TEXT_FORMS.items()},
        "product": reader.read_product(members),
        "facts": reader.read_facts(members),
    }
    if reader.problems:
        raise InputInvalid(reader.problems)
    # Without problems nothing above is None.
    return CompileInput(**values, rules=rules, tests=tests)


class _InputReader:
    """Reads member by member and keeps what is wrong with each."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def check_members(self, document: Mapping[str, Json], known_members: Sequence[str], at: str) -> Mapping[str, Json]:
        """The members that are there; those missing and those nobody knows are problems."""
        self.problems += [f"`{at}{name}` is missing" for name in known_members if name not in document]
        self.problems += [
            f"`{at}{name[:80]}` is not a known member" for name in sorted(document) if name not in known_members
        ]
        return document

    def read_value(self, members: Mapping[str, Json], name: str, parse: Callable[[str], T], at: str = "") -> T | None:
        value = members.get(name)
        if name not in members:
            return None
        if not isinstance(value, str):
            self.problems.append(f"`{at}{name}` is not a text")
            return None
        try:
            return parse(value)
        except Invalid as wrong:
            self.problems.append(f"`{at}{name}`: {wrong.says}")
            return None

    def read_product(self, members: Mapping[str, Json]) -> Product | None:
        product_members = members.get("battery_product")
        if "battery_product" not in members:
            return None
        if not isinstance(product_members, Mapping):
            self.problems.append("`battery_product` is not an object")
            return None
        at = "battery_product."
        product_members = self.check_members(product_members, PRODUCT_MEMBERS, at)
        product_id = self.read_value(product_members, "battery_product_id", parse_uuid, at)
        sku, name = (
            self.read_value(product_members, "sku", _require_text, at),
            self.read_value(product_members, "name", _require_text, at),
        )
        if product_id is None or sku is None or name is None:
            return None
        return Product(battery_product_id=BatteryProductId(product_id), sku=sku, name=name)

    def read_facts(self, members: Mapping[str, Json]) -> tuple[SnapshotFact, ...]:
        elements = members.get("facts")
        if "facts" not in members:
            return ()
        if not isinstance(elements, list):
            self.problems.append("`facts` is not a list")
            return ()
        return tuple(self._iterate_facts(elements))

    def _iterate_facts(self, elements: Sequence[Json]) -> Iterator[SnapshotFact]:
        for index, element in enumerate(elements):
            try:
                yield read_fact(element)
            except Invalid as wrong:
                self.problems.append(f"`facts[{index}]`: {wrong.says}")


def _require_text(text: str) -> str:
    if "\0" in text:
        raise Invalid("it holds U+0000")
    return text


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text

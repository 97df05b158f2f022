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

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.errors import Invalid
from bpc.core.facts import SnapshotFact
from bpc.core.facts_file import as_json, read_fact
from bpc.core.ids import (
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
    parse_uuid,
)
from bpc.core.receipt import MAX_NAME, is_name
from bpc.core.timestamps import format_time, parse_time

MEMBERS: Final = (
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
ID_MEMBERS: Final = ("tenant_id", "passport_id", "passport_version_id", "snapshot_id", "rule_package_version_id")
PRODUCT_MEMBERS: Final = ("battery_product_id", "sku", "name")
SHOWN: Final = 8  # mistakes that a message names; its details have them all

T = TypeVar("T")


class InputInvalid(Invalid):
    """The compile input has mistakes; `problems` are all of them, each naming its member."""

    def __init__(self, problems: Sequence[str], *, fix: str | None = None) -> None:
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        shown = "; ".join([*problems[:SHOWN], *more])
        shown = shown if len(problems) == 1 else f"{len(problems)} mistakes: {shown}"
        super().__init__(f"the compile input: {shown}", fix=fix, details={"problems": list(problems)})
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
            if not is_name(name) or not _is_text(name):
                raise InputInvalid([f"`{member}` is not a text of 1 to {MAX_NAME} characters without U+0000"])
        format_time(self.issued_at)  # refused without a time zone


def written_input(given: CompileInput) -> bytes:
    """The canonical INPUT.json that `read_input` reads as `given`; rules and tests are files beside it."""
    return canon.encode(
        {
            "tenant_id": str(given.tenant_id),
            "passport_id": str(given.passport_id),
            "passport_version_id": str(given.passport_version_id),
            "battery_product": given.product.as_json(),
            "snapshot_id": str(given.snapshot_id),
            "rule_package_version_id": str(given.rule_package_version_id),
            "issued_at": format_time(given.issued_at),
            "compiler_build_id": given.compiler_build_id,
            "signing_key_id": given.signing_key_id,
            "facts": [as_json(fact) for fact in given.facts],
        }
    )


def read_input(data: bytes, *, rules: bytes, tests: bytes = b"") -> CompileInput:
    """The compile input a JSON text describes; it need not be canonical, but every value must have such a form."""
    found = canon.read_json(data)
    if not isinstance(found, Mapping):
        raise InputInvalid(["it is not an object"], fix=f"its members are {', '.join(MEMBERS)}")
    read = _Reader()
    members = read.members(found, MEMBERS, "")
    parts: dict[str, Any] = {
        **{name: read.value(members, name, parse_uuid) for name in ID_MEMBERS},
        "product": read.product(members),
        "issued_at": read.value(members, "issued_at", parse_time),
        "compiler_build_id": read.value(members, "compiler_build_id", _name),
        "signing_key_id": read.value(members, "signing_key_id", _name),
        "facts": read.facts(members),
    }
    if read.problems:
        raise InputInvalid(read.problems)
    # Without problems nothing above is None.
    return CompileInput(**parts, rules=rules, tests=tests)


class _Reader:
    """Reads member by member and keeps what is wrong with each."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def members(self, found: Mapping[str, Json], known: Sequence[str], at: str) -> Mapping[str, Json]:
        """The members that are there; those missing and those nobody knows are problems."""
        self.problems += [f"`{at}{name}` is missing" for name in known if name not in found]
        self.problems += [f"`{at}{name[:80]}` is not a member" for name in sorted(found) if name not in known]
        return found

    def value(self, members: Mapping[str, Json], name: str, read: Callable[[str], T], at: str = "") -> T | None:
        given = members.get(name)
        if name not in members:
            return None
        if not isinstance(given, str):
            self.problems.append(f"`{at}{name}` is not a text")
            return None
        try:
            return read(given)
        except Invalid as wrong:
            self.problems.append(f"`{at}{name}`: {wrong.says}")
            return None

    def product(self, members: Mapping[str, Json]) -> Product | None:
        given = members.get("battery_product")
        if "battery_product" not in members:
            return None
        if not isinstance(given, Mapping):
            self.problems.append("`battery_product` is not an object")
            return None
        at = "battery_product."
        given = self.members(given, PRODUCT_MEMBERS, at)
        product_id = self.value(given, "battery_product_id", parse_uuid, at)
        sku, name = self.value(given, "sku", _text, at), self.value(given, "name", _text, at)
        if product_id is None or sku is None or name is None:
            return None
        return Product(battery_product_id=BatteryProductId(product_id), sku=sku, name=name)

    def facts(self, members: Mapping[str, Json]) -> tuple[SnapshotFact, ...]:
        given = members.get("facts")
        if "facts" not in members:
            return ()
        if not isinstance(given, list):
            self.problems.append("`facts` is not a list")
            return ()
        return tuple(self._facts(given))

    def _facts(self, given: Sequence[Json]) -> Iterator[SnapshotFact]:
        for index, element in enumerate(given):
            try:
                yield read_fact(element)
            except Invalid as wrong:
                self.problems.append(f"`facts[{index}]`: {wrong.says}")


def _name(text: str) -> str:
    if not is_name(text):
        raise Invalid(f"it has not 1 to {MAX_NAME} characters, or holds U+0000")
    return text


def _text(text: str) -> str:
    if "\0" in text:
        raise Invalid("it holds U+0000")
    return text


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text

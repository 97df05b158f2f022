"""What a public page shows that is not part of the signed passport: its state, its versions, its evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bpc.core.branding import Palette
from bpc.core.exports.disclosure import DisclosedPassport
from bpc.core.exports.field_origins import FieldOrigin
from bpc.core.exports.page_completeness import Completeness
from bpc.core.formats import canonical_json

VersionState: TypeAlias = Literal["in_force", "issued", "superseded", "revoked", "ceased"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLine:
    """One version in the list of versions."""

    passport_version_id: str
    state: VersionState
    day: str
    href: str
    start: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnVersion:
    """A version of a battery's own passport, and whether there is no newer one."""

    passport_version_id: str
    receipt_hash: str
    is_newest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryOnPage:
    """A single battery whose address was asked for: it ended, lives on elsewhere, or has the passport of its model."""

    serial_number: str
    address: str
    ceased_day: str | None = None
    successor: str | None = None
    model_address: str = ""
    own: OwnVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBrand:
    """What stands in the bar above the verdict. `logo` is where the picture is."""

    name: str = ""
    palette: Palette = "standard"
    logo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """What a page shows that is not part of the signed passport.

    `statements` are what the issuer signed about its status, `status_list` where the browser finds the list they name.
    A state that is `issued` is one of which this page knows no more. `before` is the version before this one.
    """

    state: VersionState
    issuer: str
    host: str
    address: str
    versions: Sequence[VersionLine]
    keys: canonical_json.Json
    log_proof: str | None = None
    policy: str | None = None
    statements: Sequence[str] = ()
    status_list: str | None = None
    has_view: bool = True
    exported_day: str | None = None
    battery: BatteryOnPage | None = None
    origins: Mapping[str, FieldOrigin] = field(default_factory=dict)
    completeness: Completeness | None = None
    before: DisclosedPassport | None = None
    brand: PageBrand = PageBrand()
    has_bundle: bool = False
    has_print: bool = False

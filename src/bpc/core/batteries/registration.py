"""Registration: rows of a file in, batteries that may be registered out, or everything that is wrong with the rows.

    FileRow ── check_entries(rows, products) ──► BatteryEntry, RowFault
    battery as it is stored ── encode_leaf ──► a leaf of the registration's Merkle tree ── compute_root ──► its root

Pure. One registration is one event, whatever its size. The hashes of its leaves are kept with it, so that a row that
was added, removed or changed since can be named.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from bpc.core.batteries.row_files import MAX_CELL_CHARS, FileRow, RowFault
from bpc.core.formats import canonical_json
from bpc.core.formats.ascii_case import lower_ascii, upper_ascii
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import BatteryBatchId, BatteryId, BatteryProductId, find_sku_fault
from bpc.core.formats.timestamps import NotASentTime, parse_sent_day
from bpc.core.identifiers.addresses import AddressScheme, Granularity, parse_identification_link
from bpc.core.identifiers.gs1 import BadIdentifier, parse_serial
from bpc.core.identifiers.operators import OperatorIdentifier
from bpc.core.tlog.merkle import hash_leaf, hash_tree, read_leaves

COLUMNS: Final = ("sku", "serial_number", "batch_number", "plant", "manufactured_on", "placed_on", "address")
REQUIRED: Final = ("sku", "serial_number")
MAX_SERIAL_CHARS: Final = 100
_DATE_COLUMNS: Final = ("manufactured_on", "placed_on")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductIdentity:
    """How the batteries of a product are identified."""

    battery_product_id: BatteryProductId
    is_active: bool
    granularity: Granularity
    scheme: AddressScheme


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryEntry:
    """A row that may be registered."""

    line: int
    battery_product_id: BatteryProductId
    serial_number: str
    batch_number: str | None = None
    plant: str | None = None
    manufactured_on: date | None = None
    placed_on: date | None = None
    link: str | None = None


def check_entries(
    rows: Iterable[FileRow], products: Mapping[str, ProductIdentity]
) -> tuple[list[BatteryEntry], list[RowFault]]:
    """The batteries that rows describe, and what is wrong with the others."""
    entries, faults = list[BatteryEntry](), list[RowFault]()
    lines = dict[tuple[BatteryProductId, str], int]()
    for row in rows:
        entry, row_faults = _check_entry(row, products)
        faults += row_faults
        if entry is not None:
            name = entry.battery_product_id, entry.serial_number
            if name in lines:
                faults.append(RowFault(row.line, f"has the serial number of line {lines[name]}", "serial_number"))
            lines.setdefault(name, row.line)
            entries.append(entry)
    return entries, faults


def find_serial_fault(serial: str, scheme: AddressScheme) -> str | None:
    """What keeps a text from being the serial number of a battery."""
    if scheme == "GS1":
        try:
            parse_serial(serial)
        except BadIdentifier as wrong:
            return wrong.problem
        return None
    if len(serial) > MAX_SERIAL_CHARS:
        return f"has more than {MAX_SERIAL_CHARS} characters"
    return find_sku_fault(serial)


def parse_party(text: str, name: str) -> str:
    """A place or an operator: `<scheme>:<identifier>`, such as `GLN:9521234000013`."""
    scheme, colon, value = text.partition(":")
    match upper_ascii(scheme):
        case "GLN" | "EORI" | "VAT" | "LEI" as name_of_scheme if colon:
            identifier = OperatorIdentifier.parse(name_of_scheme, value)
            return f"{identifier.scheme}:{identifier.value}"
        case _:
            problem = "does not name its scheme"
            raise BadIdentifier(name, problem, "write it like GLN:9521234000013; EORI, VAT and LEI are known too")


def encode_leaf(
    battery: BatteryId,
    product: BatteryProductId,
    serial: str,
    batch: BatteryBatchId | None,
    plant: str | None,
    manufactured_on: date | None,
    placed_on: date | None,
    link: str | None,
    predecessor: str | None = None,
) -> bytes:
    """What a registration says of one battery, canonical."""
    return canonical_json.encode(
        [
            str(battery),
            str(product),
            serial,
            None if batch is None else str(batch),
            plant,
            None if manufactured_on is None else manufactured_on.isoformat(),
            None if placed_on is None else placed_on.isoformat(),
            link,
            predecessor,
        ]
    )


def hash_leaves(leaves: Iterable[bytes]) -> list[Digest]:
    return [hash_leaf(leaf) for leaf in leaves]


def compute_root(leaf_hashes: Sequence[Digest]) -> Digest:
    """The root of the tree of RFC 6962 over these leaves."""
    return hash_tree(len(leaf_hashes), read_leaves(leaf_hashes))


def _check_entry(row: FileRow, products: Mapping[str, ProductIdentity]) -> tuple[BatteryEntry | None, list[RowFault]]:
    cells, faults = row.cells, list[RowFault]()
    sku, serial = cells.get("sku"), cells.get("serial_number")
    if sku is None or serial is None:
        return None, faults  # the reader of the file names what is missing
    faults += [
        RowFault(row.line, f"has more than {MAX_CELL_CHARS:,} characters", name)
        for name, cell in cells.items()
        if len(cell) > MAX_CELL_CHARS or "\0" in cell
    ]
    product = products.get(sku)
    product_fault = _find_product_fault(sku, product)
    if product is None or product_fault is not None:
        return None, [*faults, RowFault(row.line, product_fault or "", "sku")]
    if (fault := find_serial_fault(serial, product.scheme)) is not None:
        faults.append(RowFault(row.line, f"the serial number {fault}", "serial_number"))
    if (batch := cells.get("batch_number")) is not None and (fault := find_serial_fault(batch, product.scheme)):
        faults.append(RowFault(row.line, f"the batch number {fault}", "batch_number"))
    days = {name: _read_day(row, name, faults) for name in _DATE_COLUMNS}
    manufacture_day, market_day = days["manufactured_on"], days["placed_on"]
    if manufacture_day is not None and market_day is not None and market_day < manufacture_day:
        faults.append(RowFault(row.line, "is placed on the market before it is manufactured", "placed_on"))
    plant = _read_plant(row, faults)
    link = _read_link(row, product.scheme, faults)
    if faults:
        return None, faults
    return (
        BatteryEntry(
            line=row.line,
            battery_product_id=product.battery_product_id,
            serial_number=serial,
            batch_number=batch,
            plant=plant,
            manufactured_on=manufacture_day,
            placed_on=market_day,
            link=link,
        ),
        faults,
    )


def _find_product_fault(sku: str, product: ProductIdentity | None) -> str | None:
    if product is None:
        return f"there is no product `{sku[:80]}`"
    if not product.is_active:
        return f"product `{sku}` is deactivated"
    if product.granularity != "ITEM":
        return (
            f"product `{sku}` is identified by {lower_ascii(product.granularity)}, so its batteries are not registered"
        )
    return None


def _read_day(row: FileRow, name: str, faults: list[RowFault]) -> date | None:
    text = row.cells.get(name)
    if text is None:
        return None
    try:
        return parse_sent_day(text).date()
    except NotASentTime as wrong:
        faults.append(RowFault(row.line, wrong.problem, name))
        return None


def _read_plant(row: FileRow, faults: list[RowFault]) -> str | None:
    text = row.cells.get("plant")
    if text is None:
        return None
    try:
        return parse_party(text, "plant")
    except BadIdentifier as wrong:
        faults.append(RowFault(row.line, wrong.says, "plant"))
        return None


def _read_link(row: FileRow, scheme: AddressScheme, faults: list[RowFault]) -> str | None:
    text = row.cells.get("address")
    if (text is None) == (scheme == "IEC61406"):
        says = (
            "has no address, which IEC 61406 needs" if text is None else "has an address, which is made of its number"
        )
        faults.append(RowFault(row.line, says, "address"))
        return None
    if text is None:
        return None
    try:
        return parse_identification_link(text)
    except BadIdentifier as wrong:
        faults.append(RowFault(row.line, wrong.says, "address"))
        return None

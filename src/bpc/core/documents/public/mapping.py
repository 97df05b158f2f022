"""What public formats share: tables from their values to members of facts, SKUs and carbon footprints.

    MapRow("nominal_voltage_v", "performance.rated.voltage.nominal")
    MapRow("mass_kg", "netWeight", to_unit(KILOGRAMS))

Several rows of one member are alternatives: the first that has a value is used. A SKU contains no colon, because colons
separate the parts of the key of a fact.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bpc.core.documents import quote_text
from bpc.core.documents.elements import FACT_TYPES, ExactNumber, FactElement, NumberText, RawValue, parse_exact
from bpc.core.documents.fact_members import MAX_NAME_LENGTH
from bpc.core.documents.public import DocumentNode
from bpc.core.documents.public.conversions import Converter, get_last_part, read_text, to_plain_value
from bpc.core.documents.readings import RECORD_LISTS, build_readings
from bpc.core.facts.schemas import SCHEMA_VERSION, SCHEMAS, STATE_MEMBERS
from bpc.core.formats.ascii_case import lower_ascii
from bpc.core.language.types import TEXT, FactRecordType, List, Opt, Record, Type

ALL_KINDS: Final = tuple(FACT_TYPES)
STAGES: Final = ("raw_material", "production", "distribution", "end_of_life")
# Each metal by our name, with its name in other formats.
METALS: Final = {"cobalt": "Cobalt", "lithium": "Lithium", "nickel": "Nickel", "lead": "Lead"}

_GTIN: Final = re.compile(r"/01/([0-9]{8,14})(?=[/?#]|$)")
_SERIAL: Final = re.compile(r"/21/([^/?#]+)")
_SGTIN: Final = re.compile(r"urn:epc:id(?:pat)?:sgtin:([0-9]{6,12})\.([0-9]{1,7})\.([^:?#]+)")
_LAST_PART: Final = re.compile(r"[^/:#?]+(?=[/:#?]*$)")
# What formats call a stage, tried in this order: `raw material acquisition and pre-processing`, `MainProduction` …
_STAGE_NAMES: Final = (
    ("raw", "raw_material"),
    ("distribution", "distribution"),
    ("end of life", "end_of_life"),
    ("end-of-life", "end_of_life"),
    ("recycl", "end_of_life"),
    ("main", "production"),
    ("manufactur", "production"),
    ("production", "production"),
    ("total", "total"),
    ("whole", "total"),
    ("cradle", "total"),
    ("life cycle", "total"),
    ("lifecycle", "total"),
)


class MapRow(NamedTuple):
    """A member, the path of the value it comes from, and how the value is converted."""

    member: str
    source: str
    convert: Converter = to_plain_value


def map_members(fact_type: str, node: DocumentNode, rows: Iterable[MapRow]) -> dict[str, RawValue]:
    """The members of a fact of this type that have a value below `node`."""
    schema = SCHEMAS[FactRecordType(fact_type, SCHEMA_VERSION)]
    origins = node.state.find_origins(fact_type, node.path)
    members: dict[str, RawValue] = {}
    for row in rows:
        if row.member not in members:
            source = node.at(row.source)
            node.state.last_path = source.path
            node.state.notes.begin_capture()
            value = row.convert(source, schema[row.member])
            node.state.lose_member(origins, row.member)
            if value is not None:
                members[row.member] = value
                origins.places[row.member] = _choose_place(source, value)
    return members


def _choose_place(source: DocumentNode, value: RawValue) -> str:
    """The place of a value: `source`, or the item that the value was picked from."""
    last_path = source.state.last_path
    is_whole = isinstance(source.value, dict) or isinstance(value, list)
    return source.path if is_whole or not last_path.startswith(source.path) else last_path


def _map_rows(schema: Mapping[str, Type], node: DocumentNode, rows: Iterable[MapRow]) -> dict[str, RawValue]:
    members: dict[str, RawValue] = {}
    for member, source, convert in rows:
        if member not in members:
            kind = schema[member]
            value = convert(node.at(source), kind.item if isinstance(kind, Opt) else kind)
            if value is not None:
                members[member] = value
    return members


def map_records(*rows: MapRow) -> Converter:
    """A list of records, one from each item."""

    def convert(node: DocumentNode, kind: Type) -> RawValue:
        schema = dict(kind.item.members) if isinstance(kind, List) and isinstance(kind.item, Record) else {}
        records = [_map_rows(schema, item, rows) for item in node.items()]
        return [record for record in records if record] or None

    return convert


def map_texts(source: str, convert: Converter = to_plain_value) -> Converter:
    """A list of texts, one from each item."""

    def gather(node: DocumentNode, kind: Type) -> RawValue:
        item_type = kind.item if isinstance(kind, List) else kind
        values = [convert(item.at(source), item_type) for item in node.items()]
        return list(dict.fromkeys(text for text in values if isinstance(text, str))) or None

    return gather


def join_texts(source: str = "") -> Converter:
    """The texts of all items in one, with `; ` between them."""

    def gather(node: DocumentNode, kind: Type) -> RawValue:
        values = [to_plain_value(item.at(source), kind) for item in node.items()]
        return "; ".join(text for text in values if isinstance(text, str)) or None

    return gather


def pick_by(key: str, name: str, value: str, convert: Converter = to_plain_value) -> Converter:
    """The value of the first item whose `key` is `name`, or a URL that ends with `name`."""

    def pick(node: DocumentNode, kind: Type) -> RawValue:
        for item in node.items():
            item_name = item.at(key).value if isinstance(item.value, dict) else None
            if isinstance(item_name, str) and get_last_part(item_name) == name:
                item.at(key).take()
                return convert(item.at(value), kind)
        return None

    return pick


def map_marked_names(mark: str, read_name: Callable[[DocumentNode], RawValue]) -> Converter:
    """The names of the items whose `mark` is true."""

    def gather(node: DocumentNode, _: Type) -> RawValue:
        marked_items = [item for item in node.items() if isinstance(item.value, dict) and item.at(mark).value is True]
        return list(dict.fromkeys(name for name in map(read_name, marked_items) if isinstance(name, str))) or None

    return gather


def map_power_by_charge(read_power: Callable[[DocumentNode, str], RawValue]) -> Converter:
    """The power at a state of charge of 20 and 80 per cent."""

    def gather(node: DocumentNode, _: Type) -> RawValue:
        powers = [(charge, read_power(node, charge)) for charge in ("20", "80")]
        return [
            {"state_of_charge_pct": charge, "power_w": power} for charge, power in powers if power is not None
        ] or None

    return gather


def map_components(
    sku: str, nodes: Sequence[DocumentNode], rows: Sequence[MapRow], read_name: Callable[[DocumentNode], RawValue]
) -> list[FactElement]:
    """A component from each node. A repeated name gets a number, because the key of a fact names one part."""
    elements: list[FactElement] = []
    seen: dict[str, int] = {}
    for index, node in enumerate(nodes):
        members = map_members("Component", node, rows)
        name = read_name(node)
        part = name if isinstance(name, str) else f"part {index + 1}"
        if len(part) > MAX_NAME_LENGTH - 10:
            node.add_problem(f"has a name of {len(part)} characters; the limit for a part is {MAX_NAME_LENGTH - 10}")
        seen[part] = seen.get(part, 0) + 1
        unique_part = part if seen[part] == 1 else f"{part}#{seen[part]}"
        elements.append(FactElement("Component", node.path, {"sku": sku, "part": unique_part, **members}))
    return elements


def read_timed_states(
    sku: str, node: DocumentNode, rows: Iterable[MapRow], members: Mapping[str, RawValue], time_name: str
) -> list[FactElement]:
    """Readings of the states among `members` that have a time beside their value, or in each of their records.

    `rows` are those that the members were read by; of several rows of a member the first that has a value counts.
    """
    readings: list[FactElement] = []
    seen: set[str] = set()
    for member, path, _ in rows:
        source = node.at(path)
        if member not in STATE_MEMBERS or member not in members or member in seen or source.value is None:
            continue
        seen.add(member)
        if member in RECORD_LISTS:
            readings += _read_timed_records(sku, source, member, members[member], time_name)
        else:
            recorded_at = _take_time(node.at(path.rpartition(".")[0]), time_name)
            readings += build_readings(sku, recorded_at, {member: members[member]}, source.path)
    return readings


def _read_timed_records(
    sku: str, source: DocumentNode, member: str, records: RawValue, time_name: str
) -> list[FactElement]:
    """Readings of records. Where an item has a time, it is more exact than the day in the record."""
    items = source.items()
    if not isinstance(records, list) or len(records) != len(items):
        return []
    readings: list[FactElement] = []
    for record, item in zip(records, items, strict=True):
        recorded_at = _take_time(item, time_name)
        day = None if recorded_at is None else RECORD_LISTS[member].time
        values = record.items() if isinstance(record, dict) else ()
        content: dict[str, RawValue] = {name: value for name, value in values if name != day}
        readings += build_readings(sku, recorded_at, {member: [content]}, item.path)
    return readings


def _take_time(node: DocumentNode, name: str) -> RawValue:
    return node.at(name).take() if isinstance(node.value, dict) else None


def add_parts_list(documents: DocumentNode, address: str, battery: dict[str, RawValue]) -> None:
    """Name the document that lists the parts where their numbers belong, if no source of spare parts has numbers."""
    parts_list = pick_by("documentType", "BillOfMaterial", address)(documents, TEXT)
    sources = battery.get("spare_part_sources")
    records = [record for record in sources if isinstance(record, dict)] if isinstance(sources, list) else []
    if parts_list is None or any("part_numbers" in record for record in records):
        return
    first, *others = records or [{}]
    battery["spare_part_sources"] = [{**first, "part_numbers": [parts_list]}, *others]


def build_due_diligence(
    sku: str, node: DocumentNode, members: Mapping[str, RawValue], operator: RawValue
) -> list[FactElement]:
    """A due diligence fact, if it has members; the operator alone is not enough."""
    about_operator = {} if operator is None else {"operator": operator}
    return [FactElement("DueDiligence", node.path, {"sku": sku, **members, **about_operator})] if members else []


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFormat:
    """A published format: how its documents are recognised, as which kinds they may be uploaded, and how they are read.

    `matches` looks at names of members only, never at values that a person fills in. All facts of a document are read,
    whichever of its kinds it is uploaded as. `tables` are the fact types with their tables, for the documentation.
    """

    name: str
    matches: Callable[[dict[str, RawValue]], bool]
    list_kinds: Callable[[dict[str, RawValue]], tuple[str, ...]]
    read_elements: Callable[[DocumentNode], list[FactElement]]
    tables: tuple[tuple[str, Sequence[MapRow]], ...]


def serve_kinds(*kinds: str) -> Callable[[dict[str, RawValue]], tuple[str, ...]]:
    """The same kinds for every document of a format."""
    return lambda _: kinds


def read_sku(*nodes: DocumentNode) -> str | None:
    """The SKU from the first of these nodes that has a value; None and a problem if there is no SKU."""
    for node in nodes:
        identifier = read_text(node)
        if isinstance(identifier, str):
            sku = check_sku(node, shorten_identifier(identifier))
            if sku is not None and sku != identifier:
                node.add_warning(
                    f"is {quote_text(identifier)}; the SKU is {quote_text(sku)}: a SKU cannot contain a colon or a URL"
                )
            return sku
    nodes[0].add_problem("is missing; it identifies the product")
    return None


def check_sku(node: DocumentNode, sku: str | None) -> str | None:
    """The SKU, or None and a problem if it is missing or has no valid length."""
    if sku is not None and 1 <= len(sku) <= MAX_NAME_LENGTH:
        return sku
    node.add_problem(f"must identify a product in 1 to {MAX_NAME_LENGTH} characters")
    return None


def shorten_identifier(identifier: str) -> str | None:
    """The part of an identifier that has no colon and identifies the product; None if there is none."""
    item = parse_gs1_item(identifier)
    if item is not None:
        return item[0]
    if ":" not in identifier:
        return identifier
    last = _LAST_PART.search(identifier)
    return last[0] if last else None


def parse_gs1_item(identifier: str) -> tuple[str, str | None] | None:
    """The GTIN and the serial number, if the identifier is one of GS1."""
    link = _GTIN.search(identifier) if "://" in identifier else None
    if link:
        serial_number = _SERIAL.search(identifier, link.end())
        return link[1].rjust(14, "0"), serial_number[1] if serial_number else None
    sgtin = _SGTIN.fullmatch(identifier)
    if sgtin is None or len(sgtin[1]) + len(sgtin[2]) != 13:
        return None
    prefix, reference, serial = sgtin.groups()
    return _append_check_digit(reference[0] + prefix + reference[1:]), None if serial == "*" else serial


def _append_check_digit(digits: str) -> str:
    # GS1 General Specifications 7.9: weights 3 and 1 from the right; the digit completes the sum to a multiple of ten.
    total = sum(int(digit) * (3 if index % 2 == 0 else 1) for index, digit in enumerate(digits))
    return f"{digits}{-total % 10}"


def parse_stage(text: str) -> str | None:
    """The stage that a format calls by this name, or `total`; None for an unknown name."""
    name = lower_ascii(text)
    return next((stage for part, stage in _STAGE_NAMES if part in name), None)


def name_stage_member(stage: str, *, per_kwh: bool) -> str:
    """The member of a PCF that holds this stage's figure."""
    if stage == "total":
        return "gco2e_per_kwh" if per_kwh else "total_gco2e"
    return f"{stage}_gco2e_per_kwh" if per_kwh else f"{stage}_gco2e"


def has_figures(members: Mapping[str, RawValue]) -> bool:
    """Whether the members of a PCF hold a carbon footprint."""
    return any("gco2e" in member for member in members)


def warn_of_sums(node: DocumentNode, members: Mapping[str, RawValue]) -> None:
    """Warn if the sum of the four stages differs from the total."""
    for per_kwh in (True, False):
        total = _parse_figure(members.get(name_stage_member("total", per_kwh=per_kwh)))
        stages = [_parse_figure(members.get(name_stage_member(stage, per_kwh=per_kwh))) for stage in STAGES]
        parts = [stage for stage in stages if stage is not None]
        if total is None or len(parts) < len(STAGES):
            continue
        scale = max(value.scale for value in (total, *parts))
        stages_total = sum(value.at_scale(scale) or 0 for value in parts)
        if stages_total != total.at_scale(scale):
            unit = "g CO2e per kWh" if per_kwh else "g CO2e"
            node.add_warning(
                f"has a total of {total} {unit}, but its four stages add up to {ExactNumber(stages_total, scale)}"
            )


def warn_of_power(node: DocumentNode, members: Mapping[str, RawValue]) -> None:
    """Warn if the original power is above the permitted power."""
    original, maximum = _parse_figure(members.get("original_power_w")), _parse_figure(members.get("maximum_power_w"))
    if original and maximum and original.count * 10**maximum.scale > maximum.count * 10**original.scale:
        node.add_warning(f"has an original power of {original} W, above the permitted {maximum} W")


def _parse_figure(value: RawValue) -> ExactNumber | None:
    return parse_exact(value.text) if isinstance(value, NumberText) else None

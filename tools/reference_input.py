"""Write examples/reference: a made-up electric-vehicle battery with a bill of materials of 300 parts.

    input.json     what `bpc compile` takes
    documents/     the same facts as a manufacturer and its suppliers would send them
    files/         the files that are attached to data points

The same bytes every time: a part's figures come from its number, not from chance. `python tools/reference_input.py`
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "reference"
SKU = "EV-400-NMC"
PARTS = 300

# What a battery is made of: name, location, material, grams of one part, how many parts in 300, critical, active.
KINDS = (
    ("cathode sheets of a module", "cathode", "NMC811", 14_500_000, 6, True, True),
    ("anode sheets of a module", "anode", "natural graphite", 9_100_000, 6, True, True),
    ("electrolyte of a module", "electrolyte", "LiPF6 in carbonates", 2_480_000, 6, True, True),
    ("separators", "cell", "polyethylene", 45_000, 78, False, False),
    ("current collectors", "cell", "copper", 320_000, 48, True, False),
    ("cell cans", "cell", "aluminium", 405_000, 48, True, False),
    ("busbar", "module", "copper", 120_000, 36, True, False),
    ("module frame", "module", "steel", 1_900_000, 12, False, False),
    ("cooling plate", "pack", "aluminium", 2_300_000, 12, True, False),
    ("harness", "pack", "copper", 380_000, 12, True, False),
    ("control board", "pack", "electronics", 210_000, 12, False, False),
    ("housing part", "pack", "steel", 2_375_000, 24, False, False),
)

# Thousandths of each metal in active materials, by location.
METALS = {
    "cathode": {"nickel": 480, "cobalt": 60, "lithium": 72},
    "anode": {"nickel": 0, "cobalt": 0, "lithium": 0},
    "electrolyte": {"nickel": 0, "cobalt": 0, "lithium": 5},
}

BATTERY = {
    "sku": SKU,
    "name": "Traction battery 400 V, 84 kWh",
    "passport_uri": "https://passport.example/ev-400-nmc/0000417",
    "granularity": "item",
    "category": "ev",
    "vehicle_category": "M1",
    "model": "EV-400-NMC-84",
    "batch_number": "2027-06",
    "serial_number": "0000417",
    "operator_id": "urn:example:operator:4711",
    "operator_name": "Example Traction SE",
    "operator_address": "1 Example Way, 00000 Exampleville, DE",
    "manufacturer_id": "urn:example:operator:4711",
    "manufacturer_name": "Example Traction SE",
    "manufacturer_trade_mark": "ExampleCell",
    "manufacturer_address": "1 Example Way, 00000 Exampleville, DE",
    "manufacturer_url": "https://example.com",
    "manufacturer_email": "batteries@example.com",
    "manufacturing_place": "Plant 2, 00001 Exampleville, DE",
    "manufacturing_country": "DE",
    "facility_id": "urn:example:plant:2",
    "manufactured_on": "2027-06-01",
    "placed_on_market_on": "2027-09-01",
    "mass_kg": "480.5",
    "chemistry": "NMC811",
    "cathode": "lithium nickel manganese cobalt oxide",
    "anode": "natural graphite",
    "electrolyte": "lithium hexafluorophosphate in carbonates",
    "hazardous_substances": [
        {
            "name": "lithium hexafluorophosphate",
            "cas_number": "21324-40-3",
            "hazard_class": "Skin Corr. 1A",
            "concentration_pct": "1.2",
            "location": "electrolyte",
        },
        {"name": "nickel compounds", "hazard_class": "Carc. 1A", "concentration_pct": "9.75", "location": "cathode"},
    ],
    "mercury_pct": "0",
    "cadmium_pct": "0.0001",
    "lead_pct": "0.001",
    "extinguishing_agents": ["water, large amounts", "F-500 EA"],
    "recycled_lead_pct": "0",
    "recycled_content_year": 2026,
    "recycled_content_plant": "Plant 2",
    "renewable_content_pct": "0.4",
    "capacity_kwh": "84",
    "usable_energy_kwh": "79.8",
    "certified_energy_kwh": "79.8",
    "rated_capacity_ah": "210",
    "minimum_voltage_v": "300",
    "nominal_voltage_v": "400",
    "maximum_voltage_v": "450",
    "voltage_temperature_min_degc": "-20",
    "voltage_temperature_max_degc": "55",
    "original_power_w": "210000",
    "maximum_power_w": "230000",
    "original_power_by_charge": [
        {"state_of_charge_pct": "80", "power_w": "210000"},
        {"state_of_charge_pct": "20", "power_w": "165000"},
    ],
    "initial_round_trip_efficiency_pct": "95.4",
    "half_life_round_trip_efficiency_pct": "93.1",
    "initial_cell_resistance_ohm": "0.0011",
    "initial_pack_resistance_ohm": "0.052",
    "expected_cycles": 1500,
    "expected_cycles_test": "IEC 62660-1:2018, 7.8",
    "cycle_test_c_rate": "0.333",
    "expected_life_years": "15",
    "capacity_threshold_pct": "70",
    "idle_temperature_min_degc": "-40",
    "idle_temperature_max_degc": "60",
    "idle_temperature_test": "IEC 62660-2:2018, 6.3",
    "warranty_months": 96,
    "separate_collection_label_url": "https://example.com/labels/collection.svg",
    "declaration_of_conformity_id": "DOC-2027-0417",
    "declaration_of_conformity_url": "https://example.com/doc/2027-0417.pdf",
    "waste_prevention_url": "https://example.com/waste/a",
    "separate_collection_url": "https://example.com/waste/b",
    "collection_systems_url": "https://example.com/waste/c",
    "waste_safety_url": "https://example.com/waste/d",
    "label_meaning_url": "https://example.com/waste/e",
    "substance_impact_url": "https://example.com/waste/f",
    "spare_part_sources": [
        {"name": "Example Spares GmbH", "email": "spares@example.com", "url": "https://spares.example.com"}
    ],
    "exploded_diagram_url": "https://example.com/repair/diagram.pdf",
    "disassembly_sequence_url": "https://example.com/repair/sequence.pdf",
    "fastenings": ["48 × M8 hexagon", "12 × M6 Torx", "sealing bead, 3.1 m"],
    "disassembly_tools": ["insulated hexagon set", "sealant knife"],
    "disassembly_warnings": ["live parts up to 450 V", "do not pierce module frames"],
    "cell_count": 216,
    "cell_layout": "108s2p in 6 modules",
    "safety_measures_url": "https://example.com/repair/safety.pdf",
    "test_report_urls": ["https://example.com/tests/annex-v.pdf"],
    "state_recorded_on": "2027-09-01",
    "power_w": "209000",
    "internal_resistance_ohm": "0.0524",
    "round_trip_efficiency_pct": "95.2",
    "round_trip_efficiency_fade_pct": "0.21",
    "remaining_energy_kwh": "79.5",
    "remaining_capacity_ah": "209.2",
    "self_discharge_pct_per_month": "2.1",
    "status": "original",
    "full_cycles": 3,
    "negative_events": [],
    "deep_discharge_events": 0,
    "overcharge_events": 0,
    "minutes_in_extreme_heat": 0,
    "minutes_in_extreme_cold": 0,
    "state_of_charge_pct": "60",
}

PCF = {
    "sku": SKU,
    "study_url": "https://example.com/pcf/ev-400-nmc",
    "total_gco2e": "5460000",
    "raw_material_gco2e": "3822000.5",
    "production_gco2e": "1365000.25",
    "distribution_gco2e": "163799.25",
    "end_of_life_gco2e": "109200",
    "cycles_per_year": "60",
    "service_life_years": "8",
}

DUE_DILIGENCE = {
    "sku": SKU,
    "supplier": "Example Traction SE",
    "report_url": "https://example.com/diligence/2027.pdf",
    "audited_on": "2027-05-12",
    "conforms": True,
}


# Attached files: data point, name, what it is.
ATTACHED = (
    (40, "separate-collection.png", "Symbol for separate collection"),
    (42, "declaration-of-conformity.pdf", "EU declaration of conformity DOC-2027-0417"),
    (43, "waste-information.pdf", "Information on waste batteries"),
    (48, "dismantling.pdf", "Dismantling instructions"),
    (49, "safety-measures.pdf", "Safety measures"),
    (50, "test-report.pdf", "Test report, Annex V"),
)


def format_thousandths(count: int) -> str:
    """A count of thousandths as a plain decimal."""
    return f"{count // 1000}.{count % 1000:03d}"


def generate_parts() -> Iterator[dict[str, object]]:
    """The bill of materials; masses vary a little from part to part, so that sums are worth checking."""
    number = 0
    for name, location, material, milligrams, count, critical, active in KINDS:
        for _ in range(count):
            number += 1
            mass = milligrams + number * 37 % 1009
            part = {
                "sku": SKU,
                "part": f"{number:03d}",
                "name": name,
                "material": material,
                "location": location,
                "mass_g": format_thousandths(mass),
                "critical": critical,
                "active_material": active,
                "origin_country": ("DE", "FR", "PL", "SE")[number % 4],
            }
            if location == "pack":
                part["part_number"] = f"EX-{10_000 + number * 7}"
            yield {**part, **list_metals(location, mass, number)}


def list_metals(location: str, mass: int, number: int) -> dict[str, str]:
    """What is in active materials, in grams, and how much of it was recovered. None of a metal is said as 0."""
    members = {
        f"{metal}_g": format_thousandths(mass * share // 1000) for metal, share in METALS.get(location, {}).items()
    }
    if location in {"cathode", "electrolyte"}:
        members |= {"recycled_pre_pct": f"{number % 5}.25", "recycled_post_pct": f"{2 + number % 7}.5"}
    if number % 3 == 0:
        members["pcf_gco2e"] = format_thousandths(mass * 9)[:-1]
    return members


def make_pdf(title: str) -> bytes:
    """A PDF of one page that says its title."""
    text = f"BT /F1 18 Tf 60 760 Td ({title}) Tj 0 -30 Td (Made up, for the reference example.) Tj ET".encode()
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(text), text),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    pdf, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(pdf))
        pdf += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % len(pdf)
    return pdf + b"xref\n0 6\n0000000000 65535 f \n" + table + trailer


def make_png() -> bytes:
    """A PNG of 16 by 16 pixels with a cross, which stands for the crossed-out bin."""
    rows = b"".join(b"\x00" + bytes(0 if x in {y, 15 - y} else 255 for x in range(16)) for y in range(16))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 0)),
        (b"IEND", b""),
    )
    written = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def make_files() -> dict[str, bytes]:
    """The attached files by name."""
    return {name: make_png() if name.endswith(".png") else make_pdf(title) for _, name, title in ATTACHED}


def generate_attachments() -> Iterator[tuple[str, dict[str, object]]]:
    """The attached files as facts, each with its key."""
    files = make_files()
    for number, (point, name, title) in enumerate(ATTACHED, 1):
        digest = sha256(files[name]).hexdigest()
        payload = {
            "sku": SKU,
            "data_point": point,
            "title": title,
            "file_name": name,
            "mime_type": "image/png" if name.endswith(".png") else "application/pdf",
            "size": len(files[name]),
            "sha256": digest,
            "document_version_id": f"4e8d7c60-6000-4000-8000-00000000000{number}",
        }
        yield f"attachment:{SKU}:{point}:{digest[:16]}", payload


def make_fact(kind: str, key: str, payload: Mapping[str, object]) -> dict[str, object]:
    return {"fact_type": kind, "fact_key": key, "schema_version": 1, "payload": payload}


def make_input() -> dict[str, object]:
    """The compile input. Its blinding secret is public, like everything here: make your own for a real passport."""
    snapshot = "2d1f0a7e-4000-4000-8000-0c5f7e9a1b22"
    return {
        "tenant_id": "9f767c45-1111-4111-8111-b791bde5c099",
        "passport_id": "5a3c2b10-2000-4000-8000-7d1e6f0a9b31",
        "passport_version_id": "7e5d4c30-3000-4000-8000-1f2e3d4c5b6a",
        "battery_product": {
            "battery_product_id": "3b9a8c70-1000-4000-8000-6e5d4c3b2a19",
            "sku": SKU,
            "name": BATTERY["name"],
        },
        "snapshot_id": snapshot,
        "rule_package_version_id": "8c7b6a50-5000-4000-8000-2a1b0c9d8e7f",
        "issued_at": "2027-09-01T08:30:00.000000Z",
        "compiler_build_id": "bpc-example",
        "signing_key_id": "example-key",
        "facts": [
            make_fact("Battery", f"battery:{SKU}", BATTERY),
            make_fact("PCF", f"pcf:{SKU}", PCF),
            make_fact("DueDiligence", f"dd:{SKU}", DUE_DILIGENCE),
            *(make_fact("Component", f"component:{SKU}:{part['part']}", part) for part in generate_parts()),
            *(make_fact("Attachment", key, payload) for key, payload in generate_attachments()),
            make_fact("Blinding", f"blinding:{snapshot}", {"key": bytes(range(32)).hex()}),
        ],
    }


def format_input() -> str:
    """One fact a line: a bill of materials is read line by line."""
    *members, (_, facts) = make_input().items()
    head = "".join(f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in members)
    assert isinstance(facts, list)
    lines = ",\n".join(f"    {json.dumps(entry, ensure_ascii=False)}" for entry in facts)
    return f'{{\n{head}  "facts": [\n{lines}\n  ]\n}}\n'


def format_documents() -> dict[str, str]:
    """What the manufacturer and its suppliers send, by file name: the facts of the input, except the attached files."""
    documents = {
        "bom.json": {"battery": BATTERY, "components": list(generate_parts())},
        "pcf.json": PCF,
        "due-diligence.json": DUE_DILIGENCE,
    }
    return {name: f"{json.dumps(document, ensure_ascii=False, indent=1)}\n" for name, document in documents.items()}


def list_files() -> dict[Path, bytes]:
    """Every file of the example that this writes."""
    return {
        FOLDER / "input.json": format_input().encode(),
        **{FOLDER / "documents" / name: text.encode() for name, text in format_documents().items()},
        **{FOLDER / "files" / name: content for name, content in make_files().items()},
    }


if __name__ == "__main__":
    for path, content in list_files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)

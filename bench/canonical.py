"""Canonical JSON against orjson and the standard library, on a passport of about 130 kB."""

import json
from collections.abc import Callable, Iterable

import orjson

from bench import Table, measure_medians
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json


def make_passport(parts: int = 620) -> dict[str, Json]:
    """A payload shaped like a real one: nested fields, decimal strings, a long bill of materials."""
    return {
        "payload_version": "BPC-PASSPORT-1",
        "passport_id": "b2221a58-2222-4222-8222-7520cd447e35",
        "issued_at": "2027-02-18T00:00:00.000000Z",
        "salt": "1e2feb89414c343c1027c4d1c386bbc4cd613e30d8f16adf91b7584a2265b1f5",
        "access": {f"battery.field_{number}": ["authority", "public"] for number in range(120)},
        "compliance": [
            {
                "code": f"ART-{number}",
                "field": f"battery.field_{number}",
                "message": "erfüllt",
                "status": "PASS",
            }
            for number in range(60)
        ],
        "fields": {
            "battery": {f"field_{number}": {"unit": "kWh", "value": f"{number}.25"} for number in range(120)},
            "materials": [_make_part(number) for number in range(parts)],
        },
    }


def _make_part(number: int) -> dict[str, Json]:
    return {
        "part": f"SKU-{number:06d}",
        "name": "Gehäuse, Aluminium, pulverbeschichtet" if number % 7 == 0 else "cathode active material",
        "supplier": f"f17fd374-1111-4111-8111-{number:012d}",
        "count": number,
        "mass": {"unit": "g", "value": f"{number}.125"},
        "recycled": number % 2 == 0,
        "origin": None if number % 5 == 0 else "SE",
    }


def run() -> Iterable[Table]:
    payload = make_passport()
    text = canonical_json.encode(payload)
    big = {**payload, "big": 10**30}
    pretty = json.dumps(payload, indent=1).encode()
    title = f"Canonical JSON of a payload of {len(text) // 1000} kB"
    yield _build_table(
        f"{title}, writing",
        {
            "orjson.dumps, sorted": lambda: orjson.dumps(payload, option=orjson.OPT_SORT_KEYS),
            "json.dumps, sorted": lambda: _encode_with_json(payload),
            "canon.encode_typed": lambda: canonical_json.encode_typed(payload),
            "canon.encode": lambda: canonical_json.encode(payload),
            "canon.encode, one integer above 64 bits": lambda: canonical_json.encode(big),
        },
        note="goals: encode_typed within 2 of orjson, encode within 2 of json",
    )
    yield _build_table(
        f"{title}, reading",
        {
            "orjson.loads": lambda: orjson.loads(text),
            "json.loads": lambda: json.loads(text),
            "canon.decode": lambda: canonical_json.decode(text),
            "canon.read_json": lambda: canonical_json.read_json(text),
            "canon.canonicalize, from indented": lambda: canonical_json.canonicalize(pretty),
        },
        note="decode also writes the value again and compares; orjson and json accept what must be refused",
    )


def _encode_with_json(payload: object) -> bytes:
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _build_table(title: str, candidates: dict[str, Callable[[], object]], *, note: str) -> Table:
    times = measure_medians(candidates)
    fast, standard = list(times.values())[:2]
    rows = tuple(
        (name, f"{took * 1e6:.0f}", f"{took / fast:.2f}", f"{took / standard:.2f}") for name, took in times.items()
    )
    return Table(title=title, columns=("", "µs", "of orjson", "of json"), rows=rows, note=note)

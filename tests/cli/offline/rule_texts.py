"""Rules that the tests of `bpc rules` share, and how they write files."""

import json
from pathlib import Path

GOOD = """\
field price.net: Dec(2) = 12.50;

field price.gross: Dec(2) = toDec(2, field("price.net") * 1.19);

example gross: {} => expect(price.gross, == 14.88);;
"""
WRONG = 'field a: Int = "one";\nfield b: Qty(kWh) = qty(5, Wh);\n'
BATTERY = """\
field battery.capacity_kwh: Dec(6) =
  let battery = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "no data sheet");
  requireSome(recordGet(battery, "capacity_kwh"), "E002", "no capacity");

field battery.double: Dec(6) = field("battery.capacity_kwh") * 2;

field product: Text = productName();

field checks.day: Bool = emitCompliance("C1", if (issuedOn() < date("2027-02-18")) then "WARN" else "PASS", "day");
"""


def write(folder: Path, name: str, content: object) -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file

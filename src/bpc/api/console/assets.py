"""The files that pages of the console load, under names with their hash, so that they never change."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from bpc.core.formats.hashes import sha256, to_hex
from bpc.printing.web_page import ASSET_TYPES, PageAsset

FOLDER: Final = Path(__file__).parent / "static"
ASSETS_PATH: Final = "/console/assets/"
# By what they are called in the templates.
FILES: Final = {
    "style": "console.css",
    "theme": "theme.js",
    "script": "console.js",
    "htmx": "htmx.min.js",
    "editor": "editor.js",
    "proof": "proof.js",
    "icon": "icon.svg",
    "uplot": "uplot.min.js",
    "uplot_style": "uplot.min.css",
    "charts": "charts.js",
}


@cache
def load_console_assets() -> Mapping[str, PageAsset]:
    assets = {}
    for label, file_name in FILES.items():
        content = (FOLDER / file_name).read_bytes()
        stem, _, extension = file_name.partition(".")
        name = f"{stem}-{to_hex(sha256(content))[:16]}.{extension}"
        assets[label] = PageAsset(name, content, ASSET_TYPES[extension.rpartition(".")[2]])
    return assets


def find_console_asset(name: str) -> PageAsset | None:
    return next((asset for asset in load_console_assets().values() if asset.name == name), None)

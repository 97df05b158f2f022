"""The files that pages load: htmx and uPlot as they were published, and names that change with the content."""

from bpc.api.console.assets import FOLDER, find_console_asset, load_console_assets
from bpc.core.formats.hashes import sha256, to_hex
from tools.page_script import build_console_script

# htmx.org 4.0.1, dist/htmx.min.js of the package.
HTMX_SHA256 = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"
# uplot 1.6.32, dist/uPlot.iife.min.js and dist/uPlot.min.css of the package.
UPLOT_SHA256 = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
UPLOT_STYLE_SHA256 = "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"


def test_files_of_others_are_the_published_ones() -> None:
    published = {"htmx.min.js": HTMX_SHA256, "uplot.min.js": UPLOT_SHA256, "uplot.min.css": UPLOT_STYLE_SHA256}

    assert {name: to_hex(sha256((FOLDER / name).read_bytes())) for name in published} == published


def test_a_file_is_served_under_the_hash_of_its_content() -> None:
    for asset in load_console_assets().values():
        assert find_console_asset(asset.name) == asset
        assert to_hex(sha256(asset.content))[:16] in asset.name
    assert find_console_asset("../console.css") is None


def test_the_script_of_the_proof_explorer_is_made_of_the_verifier() -> None:
    assert (FOLDER / "proof.js").read_text() == build_console_script(), "run `make cases`"

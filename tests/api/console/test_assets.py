"""The files that pages load: htmx as it was published, and names that change with the content."""

from bpc.api.console.assets import FOLDER, find_console_asset, load_console_assets
from bpc.core.formats.hashes import sha256, to_hex
from tools.page_script import build_console_script

# htmx.org 4.0.1, dist/htmx.min.js of the package.
HTMX_SHA256 = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"


def test_htmx_is_the_published_file() -> None:
    assert to_hex(sha256((FOLDER / "htmx.min.js").read_bytes())) == HTMX_SHA256


def test_a_file_is_served_under_the_hash_of_its_content() -> None:
    for asset in load_console_assets().values():
        assert find_console_asset(asset.name) == asset
        assert to_hex(sha256(asset.content))[:16] in asset.name
    assert find_console_asset("../console.css") is None


def test_the_script_of_the_proof_explorer_is_made_of_the_verifier() -> None:
    assert (FOLDER / "proof.js").read_text() == build_console_script(), "run `make cases`"

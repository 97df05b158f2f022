"""Everything an image carries has a licence that is allowed, and docs/licences.md lists it."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "tools" / "licences.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_lists_what_is_installed_and_all_of_it_is_allowed() -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "tools" / "licences.py", "--check"], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stdout) == (0, "")


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-or-later", False),
        ("GPL-3.0-or-later OR MIT", True),
        ("MIT OR GPL-3.0-or-later", True),
        ("GPL-3.0-or-later AND MIT", False),
        ("MIT AND GPL-3.0-or-later", False),
        ("MIT AND (GPL-3.0-or-later OR Apache-2.0)", True),
        ("(MIT AND GPL-3.0-or-later) OR Apache-2.0", True),
        ("BSD License", False),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", False),
    ],
)
def test_one_side_of_or_is_enough_and_both_of_and_are_needed(
    licences: ModuleType, expression: str, allowed: bool
) -> None:
    assert licences.allows(frozenset({"MIT", "Apache-2.0"}), expression) is allowed


def test_only_what_the_image_installs_counts(licences: ModuleType) -> None:
    pins = "for-all==1 \\\n    --hash=sha256:00\nfor-windows==2 ; sys_platform == 'win32' \\\n    --hash=sha256:00\n"

    assert licences.list_image_packages(pins) == ["for-all"]


def test_every_file_of_others_in_our_source_has_its_licence_beside_it(licences: ModuleType) -> None:
    source = ROOT / "src" / "bpc"
    kinds = {".otf", ".ttf", ".woff", ".woff2", ".eot"}
    third_party = {
        file for file in source.rglob("*") if file.suffix in kinds or file.name.endswith((".min.js", ".min.css"))
    }

    vendored = {file for pattern in licences.VENDORED for file in source.glob(pattern)}

    assert third_party == vendored
    assert third_party
    for _, _, text in licences.VENDORED.values():
        assert (source / text).stat().st_size > 500

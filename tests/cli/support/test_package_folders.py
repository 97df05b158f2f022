"""Packages that are shipped: found by name and release, extended without a folder, named in every refusal."""

from pathlib import Path

import pytest

import bpc
from bpc.cli.support.package_folders import (
    SHIPPED_RULES,
    find_shipped_package,
    list_shipped_packages,
    locate_package,
    read_folder,
)
from bpc.core.errors import Invalid
from bpc.core.language.linking import link_package
from tests.cli.offline.test_rules_folder import EU, write_files
from tests.cli.program import Program


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    write_files(tmp_path / "shipped" / "eu-battery", EU)
    return tmp_path / "shipped"


def ship_release(shipped: Path, release: str) -> None:
    manifest = EU["package.bpc"].replace("2027.1", release)
    write_files(shipped / f"eu-battery-{release}", {**EU, "package.bpc": manifest})


def test_a_package_extends_a_shipped_one_by_name_and_release(tmp_path: Path, shipped: Path) -> None:
    own = write_files(
        tmp_path / "acme",
        {
            "package.bpc": 'package "acme" "1";\nextends "eu-battery" "2027.1";\n',
            "own.bpc": "field acme.heavy: Bool = true;\n",
        },
    )

    rules, tests = link_package(read_folder(own, shipped_folder=shipped))

    headers = [line.split(" sha256")[0] for line in rules.decode().splitlines() if line.startswith("-- file")]
    assert headers == [
        '-- file "eu-battery" "2027.1" "general.bpc"',
        '-- file "eu-battery" "2027.1" "limits.bpc"',
        '-- file "acme" "1" "own.bpc"',
    ]
    assert b"cases masses" in tests


def test_a_release_that_is_not_shipped_is_refused_with_those_that_are(tmp_path: Path, shipped: Path) -> None:
    ship_release(shipped, "2027.10")
    ship_release(shipped, "2027.9")
    own = write_files(tmp_path / "acme", {"package.bpc": 'package "acme" "1"; extends "eu-battery" "2028.1";'})

    with pytest.raises(Invalid) as refusal:
        read_folder(own, shipped_folder=shipped)

    assert refusal.value.says == "`eu-battery` 2028.1 is not shipped with bpc"
    assert "`eu-battery` 2027.1, `eu-battery` 2027.9, `eu-battery` 2027.10" in (refusal.value.fix or "")
    assert bpc.__version__ in (refusal.value.fix or "")


def test_an_argument_names_a_shipped_package(shipped: Path) -> None:
    assert locate_package("shipped:eu-battery", shipped_folder=shipped) == shipped / "eu-battery"
    assert locate_package(str(shipped / "eu-battery"), shipped_folder=shipped) == shipped / "eu-battery"
    assert locate_package("-", shipped_folder=shipped) is None
    assert locate_package(str(shipped / "eu-battery" / "limits.bpc"), shipped_folder=shipped) is None


def test_of_several_releases_the_argument_names_one(shipped: Path) -> None:
    ship_release(shipped, "2027.2")

    with pytest.raises(Invalid, match="several releases of `eu-battery` are shipped") as refusal:
        find_shipped_package("eu-battery", None, shipped_folder=shipped)

    assert refusal.value.fix == "write `shipped:eu-battery@2027.1` or `shipped:eu-battery@2027.2`"
    assert locate_package("shipped:eu-battery@2027.2", shipped_folder=shipped) == shipped / "eu-battery-2027.2"


def test_where_nothing_is_shipped_the_refusal_says_so(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="`other` is not shipped with bpc") as refusal:
        find_shipped_package("other", None, shipped_folder=tmp_path)

    assert ": none. " in (refusal.value.fix or "")


def test_the_command_lists_what_the_folder_has(bpc: Program) -> None:
    listed = bpc.run_ok("rules", "shipped", "--json").json()

    assert [(package["name"], package["release"]) for package in listed] == [
        (package.name, package.release) for package in list_shipped_packages(SHIPPED_RULES)
    ]
    assert bpc.run_ok("rules", "shipped").out.split()[:3] == ["PACKAGE", "RELEASE", "FOLDER"]


def test_commands_refuse_a_package_that_is_not_shipped(bpc: Program) -> None:
    for command in ("check", "test", "fmt", "mutate", "publish"):
        ended = bpc.run("rules", command, "shipped:nothing-of-this-name")

        assert ended.code == 1
        assert "VALIDATION_ERROR: `nothing-of-this-name` is not shipped with bpc" in ended.err


def test_the_repository_shows_the_packages_in_its_root() -> None:
    link = Path(__file__).resolve().parents[3] / "rules"

    assert link.is_symlink()
    assert link.resolve() == SHIPPED_RULES.resolve()

"""Quick fixes: what the help of a message says in code, tried before it is offered."""

from pathlib import Path

import pytest

from bpc.cli.language_server.packages import OpenPackage, PackageInput
from bpc.core.language.editing.edits import apply_edits, list_file_texts, propose_fixes
from bpc.core.language.editing.places import FileName
from bpc.core.language.package import read_package
from tools.rule_cases import FOLDER, read_case

FILES = sorted(FOLDER.glob("*.case"))


def check(rules: str, tests: str = "") -> OpenPackage:
    package = OpenPackage()
    content = PackageInput(rules=("rules.bpc", rules.encode()), tests=("tests.bpc", tests.encode()))
    package.check(content, {FileName("", name): Path(name) for name in ("rules.bpc", "tests.bpc")})
    return package


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ('field a.one: Int = 1; field b: Int = field("a.on");', 'field a.one: Int = 1; field b: Int = field("a.one");'),
        ("field a: Qty(kWh) = qty(5, Wh);", 'field a: Qty(kWh) = convert("Wh", "kWh", qty(5, Wh));'),
        ("field a: Bool = qty(1, kg) < qty(5, g);", 'field a: Bool = qty(1, kg) < convert("g", "kg", qty(5, g));'),
        ("field a: Int = counts([1]);", "field a: Int = count([1]);"),
        ("field a: Int = let b = 1; 2;", "field a: Int = let _b = 1; 2;"),
        ('field a: Int = "1";', "field a: Int = 1;"),
    ],
)  # fmt: skip
def test_a_fix_makes_the_rules_right(wrong: str, right: str) -> None:
    package = check(wrong)
    assert package.reading is not None
    [located] = package.reading.package.diagnostics

    fixes = package.list_fixes(located)

    results = [apply_edits(list_file_texts(package.reading), [edit])[FileName("", "rules.bpc")] for _, edit in fixes]
    assert right in results
    assert read_package(right.encode()).diagnostics == ()


@pytest.mark.slow
def test_fixes_of_every_message_are_edits_that_help() -> None:
    proposed = offered = 0
    for file in FILES:
        case = read_case(file.read_text(encoding="utf-8"))
        package = check(case.rules, case.tests or "")
        assert package.reading is not None
        for located in package.reading.package.diagnostics:
            proposed += len(propose_fixes(*located))
            offered += len(package.list_fixes(located))

    assert 40 < offered < proposed

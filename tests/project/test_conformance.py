"""docs/conformance.md names tests for each promise of the specification: they exist, and no case is left out."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text()
KEPT, OTHERWISE = PAGE.split("\n## Kept in another way\n")
ROWS = [line for line in KEPT.splitlines() if re.match(r"\| (?!specification )[^-]", line)]
CITED = re.compile(r"`((?:tests|packages)/[\w./-]+\.py)::(\w+)`")
# The test cases of the product by task, three each, and those of the worker by phase, with their number.
TASKS = ["P0-T1", "P0-T2", "P0-T3", "P0-T4", "P1-T1", "P1-T2", "P1-T3", "P1-T4", "P2-T1", "P2-T2", "P2-T3", "P2-T4"]
TASKS += ["P3-T1", "P3-T2", "P3-T3", "P3-T4", "P4-T1", "P4-T2", "P4-T3"]
PHASES = {"P0": 3, "P1": 9, "P2": 7, "P3": 4, "P4": 9, "P5": 7, "P6": 6, "P7": 5, "P8": 7}


@cache
def list_functions(path: str) -> set[str]:
    """The functions of a module, by name; none where there is no such file."""
    file = ROOT / path
    body = ast.parse(file.read_text()).body if file.is_file() else []
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_test_that_is_cited_exists() -> None:
    cited = CITED.findall(PAGE)

    assert len(cited) > 300
    assert [f"{path}::{name}" for path, name in cited if name not in list_functions(path)] == []


def test_every_promise_cites_a_test_and_nothing_else() -> None:
    assert len(ROWS) > 200
    for row in ROWS:
        _, where, promise, shown, _ = row.split("|")
        assert where.strip(), row
        assert promise.strip(), row
        assert re.fullmatch(r"`[^`]+`(, `[^`]+`)*", shown.strip()), row
        assert len(CITED.findall(shown)) == shown.count("`") // 2, row


def test_every_test_case_of_the_specification_is_there() -> None:
    cases = {f"TC-{task}-{number:02}" for task in TASKS for number in range(1, 4)}
    cases |= {f"TC-{phase}-{number:02}" for phase, count in PHASES.items() for number in range(1, count + 1)}

    assert cases - set(re.findall(r"TC-[\w-]+", KEPT)) == set()


def test_what_is_done_otherwise_or_not_yet_leads_to_a_page() -> None:
    otherwise, missing = OTHERWISE.split("\n## Not yet\n")

    rows = [line for line in otherwise.splitlines() if re.match(r"\| (?!specification )[^-]", line)]
    assert [row for row in rows if not re.search(r"\.md[#)]", row)] == []
    assert len([line for line in missing.splitlines() if line.startswith("| ")]) > 1

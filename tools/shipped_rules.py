"""Write docs/rules/eu-battery.md from the shipped package.

For each data point and category: the fields, who sees them, the requirement, what it cites, the number of test cases.
Then every requirement in a sentence, those that block a passport first.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bpc.cli.support.package_folders import SHIPPED_RULES, read_folder_manifest
from bpc.cli.support.rule_files import read_package_texts
from bpc.core.exports.data_points import CATEGORIES, POINTS, STATUSES, DataPoint, get_category, read_point_code
from bpc.core.language import typed
from bpc.core.language.package import read_program

PACKAGE = SHIPPED_RULES / "eu-battery"
PAGE = Path(__file__).parent.parent / "docs" / "rules" / "eu-battery.md"
HEADINGS = ("electric vehicle", "light transport", "industrial")
SEVERITIES = {"FAIL": "What blocks a passport", "WARN": "What only warns"}

HEAD = """\
# The rules of the Batteries Regulation

<!-- Made by tools/shipped_rules.py from src/bpc/rules/{name}; `make cases` rewrites it. -->

The package `{name}` {release} is shipped with bpc, and `bpc seed` publishes it. It computes the fields of a battery
passport under Regulation (EU) 2023/1542 from the [facts](facts.md) of a battery, and checks what the regulation asks
for. Its files are named after their subjects; [what it decides where the regulation is
open](../decisions/0074-eu-battery.md) has a page of its own.

```text
bpc rules check shipped:{name}
bpc rules test shipped:{name}
bpc compile input.json --rules shipped:{name} --out passport
```

| file | about |
| --- | --- |
{files}

- {fields} fields, {requirements} requirements, {cases:,} test cases.
- A requirement that is not met is an entry FAIL, and [blocks](../gate.md) the passport; one of severity warn is a WARN.
- A point that a category does not fill is absent there. Points 17, 18, 19 and 44 are computed for the owner and shown
  to nobody else before their rows in the table `shown_from` (`acts.bpc`) have a day.
- A requirement in force from a day is decided by the day on which the battery was placed on the market or put into
  service, and where neither is stated by the day of issue.

## The 71 data points

{statuses} A field without an audience is for its owner alone. *cases* are the test cases that expect something of the
point, in the three categories (a stationary battery is an industrial one).
"""


class PointRules(NamedTuple):
    """What a package has for a data point."""

    fields: Sequence[typed.ProgramField]
    requirement: typed.RequirementCheck | None
    cases: Counter[str]


def format_page() -> str:
    texts = read_package_texts(str(PACKAGE))
    program = read_program(texts.rules, texts.tests)
    return "\n".join([*_write_head(program), *_write_points(program), *_write_requirements(program), ""])


def _write_head(program: typed.Program) -> Iterator[str]:
    manifest = read_folder_manifest(PACKAGE)
    statuses = "; ".join(f"{letter} {says}" for letter, says in STATUSES.items())
    yield HEAD.format(
        name=manifest.name,
        release=manifest.release,
        files="\n".join(_list_files()),
        fields=len(program.fields) - 1,
        requirements=len(_list_requirements(program)),
        cases=len(program.examples),
        statuses=f"{statuses}.",
    )


def _list_files() -> Iterator[str]:
    """Each file with the first sentence of the comment at its head."""
    for path in sorted(PACKAGE.glob("*.bpc")):
        comments = [line[3:] for line in path.read_text().splitlines() if line.startswith("-- ")]
        sentence = " ".join(comments).split(". ")[0].rstrip(".") if comments else "name and release"
        yield f"| `{path.name}` | {sentence} |"


def _write_points(program: typed.Program) -> Iterator[str]:
    by_point = _collect_points(program)
    yield "| # | data point | " + " | ".join(HEADINGS) + " | fields, audience | requirement | cites | cases |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for point in POINTS:
        yield _format_point(point, by_point[point.number])


def _format_point(point: DataPoint, rules: PointRules) -> str:
    statuses = [point.get_status(category) for category in CATEGORIES]
    fields = "<br>".join(f"`{field.path}` {_format_access(field.access)}" for field in rules.fields) or "none"
    requirement = "" if rules.requirement is None else f"`{rules.requirement.code}` {rules.requirement.severity}"
    citations = dict.fromkeys(
        field.about.citation for field in rules.fields if field.about is not None and field.about.citation is not None
    )
    counts = " / ".join(str(rules.cases[category]) for category in CATEGORIES)
    cells = [str(point.number), point.name, *statuses, fields, requirement, "; ".join(citations), counts]
    return "| " + " | ".join(cells) + " |"


def _format_access(access: Iterable[str]) -> str:
    return " ".join(f"@{audience}" for audience in access) or "owner"


def _collect_points(program: typed.Program) -> dict[int, PointRules]:
    fields: dict[int, list[typed.ProgramField]] = {point.number: [] for point in POINTS}
    points_of_paths: dict[str, int] = {}
    for field in program.fields:
        number = None if field.about is None else field.about.point_number
        if number is not None:
            fields[number].append(field)
            points_of_paths[field.path] = number
    requirements = {read_point_code(check.code): check for check in _list_requirements(program)}
    cases: dict[int, Counter[str]] = {point.number: Counter() for point in POINTS}
    for example in program.examples:
        for number in _find_points(example, points_of_paths):
            cases[number].update(_find_categories(example))
    return {number: PointRules(fields[number], requirements.get(number), cases[number]) for number in fields}


def _find_points(example: typed.TypedExample, points_of_paths: dict[str, int]) -> set[int]:
    """The points that a test expects something of."""
    numbers: set[int | None] = set()
    for expectation in example.expectations:
        if isinstance(expectation, typed.TypedFindingExpectation):
            numbers.add(read_point_code(expectation.code))
        elif isinstance(expectation, typed.TypedExpectation):
            numbers.add(points_of_paths.get(expectation.path))
    return {number for number in numbers if number is not None}


def _find_categories(example: typed.TypedExample) -> list[str]:
    """The category of the battery; a test that states none is one of all categories."""
    payloads = [fact.payload or {} for fact in example.fixtures.facts if fact.fact.name == "Battery"]
    stated = [payload.get("category") for payload in payloads]
    category = get_category(stated[0]) if stated else None
    return list(CATEGORIES) if category is None else [category]


def _list_requirements(program: typed.Program) -> Sequence[typed.RequirementCheck]:
    bodies = [field.body for field in program.fields]
    return [check for body in bodies if isinstance(body, typed.RequirementsMet) for check in body.items]


def _write_requirements(program: typed.Program) -> Iterator[str]:
    """Every requirement in a sentence: those that block a passport, and those that warn."""
    counts = Counter(
        expectation.code
        for example in program.examples
        for expectation in example.expectations
        if isinstance(expectation, typed.TypedFindingExpectation)
    )
    for severity, heading in SEVERITIES.items():
        yield f"\n## {heading}\n"
        yield "| requirement | what must hold | cites | cases |"
        yield "| --- | --- | --- | --- |"
        for check in sorted(_list_requirements(program), key=_order_by_point):
            if check.severity == severity:
                title = _write_title(program, check)
                yield f"| `{check.code}` | {title} | {check.cite} | {counts[check.code]} |"


def _order_by_point(check: typed.RequirementCheck) -> tuple[int, str]:
    """Data points first, in their order, then the others by name."""
    return read_point_code(check.code) or len(POINTS) + 1, check.code


def _write_title(program: typed.Program, check: typed.RequirementCheck) -> str:
    """What the requirement says if it is met: constants with their numbers, everything else by its name."""
    text = program.source.text
    match = re.search(r'require\s+\w+\s+"([^"]*)"', text[check.extent.start : check.extent.end])
    if match is None:
        raise ValueError(f"`{check.code}` has no title")
    constants = dict(re.findall(r"^const (\w+)(?:: [^=]+)? = ([0-9.]+);", text, re.MULTILINE))
    return re.sub(r"\{(\w+): ([^}]*)\}", lambda argument: constants.get(argument[2], f"the {argument[1]}"), match[1])


if __name__ == "__main__":
    PAGE.write_text(format_page(), encoding="utf-8")

"""Why a field of a bundle has its value: the rules of the bundle are evaluated again, and every step is told.

bundle ──► explain_bundle(path) ──► Explanation, Reason
"""

from collections.abc import Sequence
from typing import Any

from bpc.core.errors import Conflict, NotFound
from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.timestamps import format_time
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH
from bpc.core.language.evaluation import World
from bpc.core.language.package import read_program
from bpc.core.language.reference.derive import Explanation, explain, value_to_json
from bpc.core.language.suggestions import Suggestions
from bpc.core.language.typed import Program, ProgramField, list_requirements
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.compile import read_compile_input
from bpc.core.passport.payload import get_at_path
from bpc.core.passport.why import Reason, explain_field, list_finding_codes

FACT_LABEL = "line {} of the facts"


def explain_bundle(data: bytes, path: str) -> tuple[Explanation, Reason]:
    """Explain a field of a bundle. Refuses a bundle whose value differs from its rules."""
    entries = read_bundle(data).entries
    compile_input = read_compile_input(entries)
    program = read_program(compile_input.rules)
    world = World(
        product_sku=compile_input.product.sku,
        product_name=compile_input.product.name,
        issued_on=format_time(compile_input.issued_at)[:10],
        facts=FactTable.from_facts(compile_input.facts, program.facts),
    )
    field, explanation, reason = explain_path(program, path, world, compile_input.facts, fact_label=FACT_LABEL)
    document: Any = canonical_json.decode(entries["payload.json"])
    stated_value = get_at_path(document["fields"], field.path)
    if explanation.failure is not None or stated_value != (value_to_json(field.type, explanation.value),):
        raise Conflict(
            f"the value of `{field.path}` in the bundle does not follow from its rules and facts",
            fix="`bpc verify` shows what was changed",
        )
    return explanation, reason


def explain_path(
    program: Program, path: str, world: World, facts: Sequence[SnapshotFact], *, fact_label: str
) -> tuple[ProgramField, Explanation, Reason]:
    """Explain a field by its path, or a requirement by its code."""
    requirement = next((check for check in list_requirements(program) if check.code == path), None)
    path = path if requirement is None else REQUIREMENTS_PATH
    field = next((field for field in program.fields if field.path == path), None)
    if field is None:
        paths = [field.path for field in program.fields]
        codes = [*list_finding_codes(facts), *(check.code for check in list_requirements(program))]
        fix = Suggestions().suggest(path, [*paths, *codes]) or f"known fields: {', '.join(sorted(paths)[:20])}"
        raise NotFound(f"no field is called `{path}`", fix=fix)
    explanation = explain(program, world, path)
    reason = explain_field(
        field,
        explanation,
        program.source,
        facts,
        tables=program.tables,
        fields=program.fields,
        number_format=fact_label,
        requirement=requirement,
    )
    return field, explanation, reason

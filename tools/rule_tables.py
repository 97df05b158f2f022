"""Write the tables that the evaluator in JavaScript needs: the members of facts by schema, and the units.

    python -m tools.rule_tables     writes packages/bpc-verify-js/src/rules/rule-tables.js

They are data that bundles refer to by name. The evaluator shares no code with this one.
"""

import json
from pathlib import Path
from typing import Final

from bpc.core.facts.schemas import KEY_PREFIXES, SCHEMAS
from bpc.core.facts.units import RELATIONS, UNITS

FILE: Final = Path(__file__).resolve().parents[1] / "packages" / "bpc-verify-js" / "src" / "rules" / "rule-tables.js"
HEAD: Final = "/** Fact schemas and units: tables that rules refer to by name. Made by tools/rule_tables.py. */\n"


def build_tables() -> str:
    members = {str(fact): {name: str(kind) for name, kind in schema.items()} for fact, schema in SCHEMAS.items()}
    prefixes = {name: list(prefix) for name, prefix in KEY_PREFIXES.items()}
    units = {name: [unit.dimension, unit.numerator, unit.denominator] for name, unit in UNITS.items()}
    tables = (
        (
            "FACT_MEMBERS",
            "Record<string, Record<string, string>>",
            "The members of fact types, and their types.",
            members,
        ),
        ("FACT_KEYS", "Record<string, [string, boolean]>", "How keys begin, and whether there is one fact.", prefixes),
        ("UNIT_FACTORS", "Record<string, [string, number, number]>", "Dimensions, and factors as fractions.", units),
        ("UNIT_RELATIONS", "[string, string, string][]", "Units a, b and c with a = b · c.", RELATIONS),
    )
    lines = [
        f"/** {says} @type {{{kind}}} */\nexport const {name} = {_write(value)};\n"
        for name, kind, says, value in tables
    ]
    return HEAD + "\n" + "\n".join(lines)


def _write(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    FILE.write_text(build_tables())

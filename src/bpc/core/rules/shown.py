"""A value as the rule language writes it, for reports: what is shown can be copied into a test.

Pure. Fact records cannot be written in the language and are shown by their key.
"""

import json
from typing import Any, Final, assert_never

from bpc.core.rules.evaluating.writing import written
from bpc.core.rules.typed import Value
from bpc.core.rules.types import BOOL, DATE, INT, Dec, Fact, List, Map, Opt, Qty, Record, Scalar, Type

LONGEST: Final = 400


def shown(kind: Type, value: Value) -> str:
    """`value` as a constant of the language, cut where a report would become unreadable."""
    text = _shown(kind, value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _shown(kind: Type, value: Any) -> str:  # noqa: PLR0911 (one row a type)
    match kind:
        case Scalar():
            return _scalar(kind, value)
        case Dec():
            return str(written(kind, value))
        case Qty(unit):
            amount: Any = written(kind, value)
            return f"qty({amount['value']}, {unit})"
        case Opt(item):
            return "none" if value is None else f"some({_shown(item, value)})"
        case List(item):
            return f"[{', '.join(_shown(item, part) for part in value)}]"
        case Map(item):
            return f"{{{', '.join(f'{_quoted(name)}: {_shown(item, part)}' for name, part in value.items())}}}"
        case Record(members):
            return f"{{{', '.join(f'{name}: {_shown(item, value[name])}' for name, item in members)}}}"
        case Fact():
            return f"{kind} {_quoted(value.key)}"
        case _:
            assert_never(kind)


def _scalar(kind: Scalar, value: Any) -> str:
    if kind == BOOL:
        return "true" if value else "false"
    if kind == INT:
        return str(value)
    return f"date({_quoted(value)})" if kind == DATE else _quoted(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

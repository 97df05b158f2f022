"""A refusal of what is missing, or conflicts, names the next step, or carries a hint that the edge puts into words."""

import ast
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src" / "bpc"
# A trigger's own sentence, which says what never changes: there is no way around it.
WITHOUT = {"storage/error_mapping.py: Conflict(message, details={'constraint': name})"}


def test_whatever_is_not_found_or_in_conflict_says_what_to_do_next() -> None:
    calls, classes = list[tuple[str, ast.Call]](), list[tuple[str, ast.ClassDef]]()
    for file in sorted(SOURCES.rglob("*.py")):
        name = file.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                classes.append((name, node))
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"NotFound", "Conflict"}:
                calls.append((name, node))
    kinds = _find_subclasses(classes, {"NotFound", "Conflict"})
    calls += [(name, call) for name, node in classes if node.name in kinds for call in _calls_super(node)]

    without = {
        f"{name}: {ast.unparse(call)}"
        for name, call in calls
        if not {keyword.arg for keyword in call.keywords} & {"fix", "hint", None}
    }

    assert len(calls) > 30
    assert without == WITHOUT


def _find_subclasses(classes: list[tuple[str, ast.ClassDef]], kinds: set[str]) -> set[str]:
    """These classes, and all that are made of them."""
    names = kinds | {node.name for _, node in classes if {getattr(base, "id", "") for base in node.bases} & kinds}
    return kinds if names == kinds else _find_subclasses(classes, names)


def _calls_super(node: ast.ClassDef) -> list[ast.Call]:
    """The call in a class that gives it its words, if it has its own."""
    within = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
    return [call for call in within if getattr(call.func, "attr", "") == "__init__"]

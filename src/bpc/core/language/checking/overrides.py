"""Overrides: an item that replaces one of the same kind and name before it, with a reason.

A package that extends another changes what it took over in this way only; without `override` a name that is used twice
is a mistake. What makes the rules of a regulation weaker, or could, is told apart: whoever reads a package sees it.
"""

from dataclasses import replace
from typing import Final

from bpc.core.language import syntax, typed
from bpc.core.language.checking.context import Findings
from bpc.core.language.linking import LinkedSource
from bpc.core.language.source import DiagnosticNote, Source, Span

# A field or definition that is computed in another way has to pass the tests of its package. All else is a demand, a
# number of the regulation, or a test.
_STRONG_WORDS: Final = frozenset({"field", "def", "fn"})


def apply_overrides(
    tree: syntax.SyntaxTree, findings: Findings, record: list[typed.AppliedOverride]
) -> syntax.SyntaxTree:
    """The tree without what is replaced. What was replaced why goes to `record`; to override nothing is a mistake."""
    if not tree.overrides:
        return tree
    items = list(tree.items)
    dropped_positions: set[int] = set()
    newest: dict[tuple[str, str], int] = {}
    reasons = {override.position: override for override in tree.overrides}
    for position, item in enumerate(tree.items):
        word, name = _get_first_word(item, findings.source), get_item_name(item)
        before = newest.get((word, name))
        override = reasons.get(position)
        if override is not None and before is None:
            message = f"there is no {word} `{name}` before it that it could override"
            hint = "leave `override` out, or correct the name"
            findings.error("bad-override", override.span, message, hint, ())
        elif override is not None and before is not None and _refuse_imported(items[before], item, override, findings):
            dropped_positions.add(position)
            continue
        elif override is not None and before is not None:
            dropped_positions.add(before)
            items[position] = _keep_about(items[before], item)
            weakens = word not in _STRONG_WORDS or _shows_more(tree.items[before], item)
            source, reason = findings.source, override.reason.value
            values = _compare_values(tree.items[before], item, source)
            record.append(typed.AppliedOverride(word, name, reason, weakens, source, override.span, *values))
        if before is None or override is not None:
            newest[word, name] = position
    kept_items = tuple(item for position, item in enumerate(items) if position not in dropped_positions)
    return syntax.SyntaxTree(kept_items, tree.comments, tree.language, tree.stated_at)


def _refuse_imported(before: syntax.Item, item: syntax.Item, override: syntax.Override, findings: Findings) -> bool:
    """Whether something imported is overridden, or overrides; then it is reported."""
    source = findings.source
    is_own_imported = source.is_imported(item.span)
    if not isinstance(source, LinkedSource) or not (is_own_imported or source.is_imported(before.span)):
        return False
    name, file = get_item_name(item), source.find_file_at(before.span.start)
    if is_own_imported or file is None:
        message, hint = f"`{name}` is in a package that is imported, which overrides nothing", "change the item itself"
    else:
        message = f"`{name}` is imported from `{file.package}` {file.release}, and cannot be overridden"
        hint = "give yours another name; what a package wants otherwise, it extends"
    note = DiagnosticNote(before.span, "it is declared here")
    findings.error("bad-override", override.span, message, hint, (note,))
    return True


def drop_overridden(tree: syntax.SyntaxTree, source: Source) -> syntax.SyntaxTree:
    """The tree without what is replaced, for a text that was checked."""
    return apply_overrides(tree, Findings(source), [])


def get_item_name(item: syntax.Item) -> str:
    if isinstance(item, syntax.Requirement):
        return item.code.text
    return item.dotted if isinstance(item, syntax.Rule) else item.name.text


def _get_first_word(item: syntax.Item, source: Source) -> str:
    """`field`, `const`, `example`: what kind of item it is, in the words of the text."""
    text = source.text
    end = item.span.start
    while end < len(text) and (text[end] == "_" or "a" <= text[end] <= "z"):
        end += 1
    return text[item.span.start : end]


def _keep_about(before: syntax.Item, item: syntax.Item) -> syntax.Item:
    """The item; a field that says nothing of what it is for people is still what it was."""
    if isinstance(before, syntax.Rule) and isinstance(item, syntax.Rule) and item.about is None:
        return replace(item, about=before.about)
    return item


def _shows_more(before: syntax.Item, item: syntax.Item) -> bool:
    """Whether a field is visible to more audiences than before."""
    if not isinstance(before, syntax.Rule) or not isinstance(item, syntax.Rule):
        return False
    earlier = {audience.text for audience in before.audiences}
    return "public" not in earlier and not {audience.text for audience in item.audiences} <= earlier


def _compare_values(before: syntax.Item, item: syntax.Item, source: Source) -> tuple[str, str] | tuple[()]:
    """What a constant was and is, in the words of the text; of a table, the rows that differ."""
    if isinstance(before, syntax.Definition) and isinstance(item, syntax.Definition) and item.is_constant:
        return _quote(source, before.body.span), _quote(source, item.body.span)
    if isinstance(before, syntax.TableDeclaration) and isinstance(item, syntax.TableDeclaration):
        rows = [[_quote(source, row.span) for row in table.rows] for table in (before, item)]
        earlier, later = ("; ".join(row for row in one if row not in other) for one, other in (rows, rows[::-1]))
        return earlier, later
    return ()


def _quote(source: Source, span: Span) -> str:
    return " ".join(source.text[span.start : span.end].split())

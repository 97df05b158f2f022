"""Imports: which names a file may use, and what an imported package may declare.

A text that was linked says which package imports which (`bpc.core.language.linking`). A file uses the names of its own
package and of those that its package imports, and no others: what an imported package means does not depend on who
imports it, so its tests hold wherever it is used. Packages that extend each other are one in this. An imported package
declares constants, definitions, functions, tables and enumerations. It has no fields and no requirements, so none of
them can get lost, and nothing of it can be overridden (`overrides.py`).
"""

from collections.abc import Container

from bpc.core.language import syntax
from bpc.core.language.checking.context import Checker
from bpc.core.language.source import DiagnosticNote, Span
from bpc.core.language.types import EnumType


def check_imported_items(checker: Checker, tree: syntax.SyntaxTree) -> None:
    """Report fields and requirements of imported packages."""
    source = checker.shared.linked
    if source is None or not source.imported_names:
        return
    for item in tree.items:
        file = source.find_file_at(item.span.start)
        if file is None or file.package not in source.imported_names:
            continue
        if isinstance(item, syntax.Rule):
            span, what = Span(item.path[0].span.start, item.path[-1].span.end), f"the field `{item.dotted}`"
        elif isinstance(item, syntax.Requirement):
            span, what = item.code.span, f"the requirement `{item.code.text}`"
        else:
            continue
        message = f"`{file.package}` {file.release} is imported, and declares {what}"
        hint = "what is imported has no fields and no requirements: extend the package, or move them out of it"
        checker.error("bad-import", span, message, hint)


def report_hidden(checker: Checker, name: str, span: Span, declaration: Span) -> None:
    """Report a name of a package that the package of `span` does not import."""
    source = checker.shared.linked
    user = None if source is None else source.find_file_at(span.start)
    owner = None if source is None else source.find_file_at(declaration.start)
    if source is None or user is None or owner is None:
        return
    note = DiagnosticNote(declaration, f"`{name}` is declared here")
    if owner.package in source.imported_names:
        message = f"`{name}` is of `{owner.package}` {owner.release}, which `{user.package}` does not import"
        hint = f'state it in `package.bpc` of `{user.package}`: `import "{owner.package}" "{owner.release}";`'
    else:
        message = (
            f"`{name}` is of `{owner.package}`, and `{user.package}` {user.release}, which is imported, cannot see it"
        )
        hint = "an imported package uses its own names and those that it imports: hand the value to a function of it"
    checker.error("not-imported", span, message, hint, note)


def list_member_enums(checker: Checker, name: str, span: Span) -> list[EnumType]:
    """The enumerations with a member of this name that can be used at a place."""
    shared = checker.shared
    return [
        kind for kind in shared.enums_by_member.get(name, ()) if checker.sees(span, shared.declared_at.get(kind.name))
    ]


def suggest_other_name(checker: Checker, *spans: Span) -> str | None:
    """What to do if a name is declared twice, once in an imported package."""
    source = checker.shared.linked
    files = [] if source is None else [source.find_file_at(span.start) for span in spans if source.is_imported(span)]
    names = [f"`{file.package}` {file.release}" for file in files if file is not None]
    return f"it is imported from {' and from '.join(names)}: one of them needs another name" if names else None


def suggest_other_item(checker: Checker, first: Span, again: Span, item: str) -> str | None:
    """What to do if a definition is declared twice; of two files, one may want to change what the other says."""
    files = [checker.findings.source.resolve(span)[0] for span in (first, again)]
    hint = suggest_other_name(checker, first, again)
    return hint if hint or files[0] is files[1] else f'to replace it, write `override "reason"` before `{item}`'


def is_function_name_free(checker: Checker, name: syntax.Name, builtin_names: Container[str]) -> bool:
    """Whether a function hides no enumeration, table or built-in function of another package; reports it otherwise."""
    source = checker.shared.linked
    if source is None or not source.imported_names:
        return True
    first = checker.shared.declared_at.get(name.text)
    if first is not None and (source.is_imported(first) or source.is_imported(name.span)):
        note, hint = DiagnosticNote(first, "it is first declared here"), suggest_other_name(checker, first, name.span)
        checker.error("duplicate-definition", name.span, f"`{name.text}` is declared twice", hint, note)
        return False
    if name.text in builtin_names and source.is_imported(name.span):
        message = f"`{name.text}` is a name of the language, and an imported package cannot declare it"
        checker.error("duplicate-definition", name.span, message, "choose another name")
        return False
    return True

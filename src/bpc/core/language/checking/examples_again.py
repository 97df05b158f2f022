"""The examples of a tests file, taken again: after an edit of the rules they are checked only if it matters to them.

What an example says depends on the fields that the rules declare, on the enumerations that their types name, and on the
codes and arguments of their findings. Where these and the tests file are as before, and there was no mistake, nothing
else can be found. Properties contain expressions, which depend on everything: a file with one is always checked.
"""

from collections.abc import Mapping
from typing import NamedTuple

from bpc.core.language import syntax, typed
from bpc.core.language.checking.context import Findings, PackageContext
from bpc.core.language.checking.testing_blocks import PackageTests
from bpc.core.language.source import Diagnostic
from bpc.core.language.types import Type


class _Declared(NamedTuple):
    """What examples depend on."""

    language: int
    fields: Mapping[str, tuple[Type | None, bool]]
    codes: frozenset[str]
    arguments: Mapping[str, frozenset[str]]


class _Known(NamedTuple):
    """A tests file, what it depends on, and what was found in it."""

    tree: syntax.SyntaxTree
    declaration: _Declared
    examples: list[typed.TypedExample]
    warnings: list[Diagnostic]


class CheckedExamples:
    """What was found in a tests file, beside rules that have no tests of their own and replace nothing."""

    def __init__(self, earlier: "CheckedExamples | None" = None) -> None:
        self._known: _Known | None = None if earlier is None else earlier._known

    def take_again(
        self, tree: syntax.SyntaxTree, tests: PackageTests, findings: Findings, context: PackageContext
    ) -> bool:
        """Take what was found the time before, if it is still true."""
        known_examples = self._known
        if known_examples is None or tree is not known_examples.tree:
            return False
        if known_examples.declaration != _describe(tests, context):
            return False
        tests.examples += known_examples.examples
        findings.warnings += known_examples.warnings
        return True

    def remember(
        self, tree: syntax.SyntaxTree, tests: PackageTests, findings: Findings, context: PackageContext
    ) -> None:
        """Keep what was found, unless it can change with more than the declarations. Called after `check_tests`."""
        is_kept = tests.complete and not findings.errors and not tree.overrides and not tests.properties
        self._known = _Known(tree, _describe(tests, context), tests.examples, findings.warnings) if is_kept else None


def _describe(tests: PackageTests, context: PackageContext) -> _Declared:
    fields = {path: (declaration.type, declaration.can_be_missing) for path, declaration in context.fields.items()}
    return _Declared(context.language, fields, tests.findings.codes, tests.findings.arguments)

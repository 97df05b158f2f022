"""Check what tests expect of findings: codes, statuses, verdicts and arguments that the rules have."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from bpc.core.language import syntax, typed
from bpc.core.language.checking import functions
from bpc.core.language.checking.context import Checker
from bpc.core.language.checking.definitions import get_missing_code
from bpc.core.language.checking.requirements import name_arguments
from bpc.core.language.source import Source
from bpc.core.language.tree_nodes import list_members

_EMIT: Final = "emitCompliance"
VERDICTS: Final = ("assessed", "not_yet_in_force", "undetermined", "expired", "out_of_scope")


class KnownFindings:
    """The findings that the rules of `source` can have, looked for when a test first asks for one."""

    def __init__(self, rules: tuple[syntax.Item, ...], source: Source) -> None:
        self._rules = rules
        self._source = source

    @cached_property
    def codes(self) -> frozenset[str]:
        declared_codes = {code for item in self._rules for code in _list_declared_codes(item)}
        return frozenset(declared_codes | set(_list_emitted_codes(self._rules, self._source.text)))

    @cached_property
    def arguments(self) -> Mapping[str, frozenset[str]]:
        """The names of the arguments of each requirement, by its code."""
        return {
            item.code.text: frozenset(
                name
                for text in (item.heading, item.message)
                if isinstance(text, syntax.Interpolation)
                for name in name_arguments(text, self._source)
                if name is not None
            )
            for item in self._rules
            if isinstance(item, syntax.Requirement)
        }


def _list_declared_codes(item: syntax.Item) -> Iterator[str]:
    if isinstance(item, syntax.Definition) and item.missing is not None:
        yield get_missing_code(item)
    elif isinstance(item, syntax.Requirement):
        yield item.code.text


def _list_emitted_codes(rules: tuple[syntax.Item, ...], text: str) -> Iterator[str]:
    """The codes in calls of `emitCompliance`, which most rules of level 2 have none of."""
    pending: list[Any] = [rules] if _EMIT in text else []
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            pending += node
        elif isinstance(node, syntax.SyntaxNode | syntax.ChainLink):
            if isinstance(node, syntax.Call) and node.function.text == _EMIT and node.arguments:
                code = node.arguments[0]
                yield from [code.value] if isinstance(code, syntax.TextLiteral) else []
            pending += [getattr(node, name) for name in list_members(node) if name != "span"]


def check_finding(
    checker: Checker, node: syntax.FindingExpectation, known_findings: KnownFindings
) -> typed.TypedFindingExpectation | None:
    """The expectation; None after a mistake that was reported."""
    before = len(checker.findings.errors)
    if node.code.value not in known_findings.codes:
        hint = checker.shared.suggestions.suggest(node.code.value, known_findings.codes, '"{}"')
        checker.error("unknown-finding", node.code.span, f"no rule has a finding `{node.code.value[:80]}`", hint)
    _check_word(checker, node.status, functions.STATUSES, "a status")
    _check_word(checker, node.verdict, VERDICTS, "a verdict")
    args = () if node.args is None else tuple(_read_arguments(checker, node, node.args, known_findings))
    if len(checker.findings.errors) > before:
        return None
    return typed.TypedFindingExpectation(
        node.code.value,
        None if node.status is None else node.status.value,
        None if node.message is None else node.message.value,
        node.span,
        None if node.because is None else node.because.value,
        None if node.verdict is None else node.verdict.value,
        args,
    )


def _check_word(checker: Checker, node: syntax.TextLiteral | None, words: Any, what: str) -> None:
    if node is not None and node.value not in words:
        hint = checker.shared.suggestions.suggest(node.value, words, '"{}"')
        checker.error("bad-status", node.span, f"`{node.value[:80]}` is not {what}", hint)


def _read_arguments(
    checker: Checker, node: syntax.FindingExpectation, args: syntax.JsonObject, known_findings: KnownFindings
) -> Iterator[tuple[str, str]]:
    """The arguments that are expected, by name; each is a text in the finding's message."""
    names = known_findings.arguments.get(node.code.value, frozenset())
    for name, value in args.members:
        if node.code.value in known_findings.codes and name.value not in names:
            hint = checker.shared.suggestions.suggest(name.value, names, '"{}"')
            message = f"the finding `{node.code.value[:80]}` has no argument `{name.value[:80]}`"
            checker.error("unknown-finding", name.span, message, hint)
        elif isinstance(value, syntax.JsonAtom) and isinstance(value.value, str | int):
            truth = "true" if value.value else "false"
            yield name.value, truth if isinstance(value.value, bool) else str(value.value)
        else:
            checker.error("wrong-type", value.span, "an argument is a text", 'write it like `"15.99"`')

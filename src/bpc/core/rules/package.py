"""A rule package: bytes in, a checked program out, or everything that is wrong with them.

    rules.bpc ─► read_source ─► parse ─┐
                                       ├─► check ─► Package(program, found)
    tests.bpc ─► read_source ─► parse ─┘

If a text could not be parsed as a whole, what could be is checked all the same; complaints that the missing part may
be to blame for are left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bpc.core.errors import Refusal
from bpc.core.rules import syntax, typed
from bpc.core.rules.checking.check import Found, check
from bpc.core.rules.parsing.parse import Parsed, parse
from bpc.core.rules.source import Diagnostic, Source, as_json, in_order, read_source

# What may be wrong only because a part of the text could not be parsed.
_FOLLOW_UPS: Final = frozenset({"unknown-field", "nothing-expected"})


@dataclass(frozen=True, slots=True)
class Package:
    """`program` is there exactly if nothing found is an error."""

    program: typed.Program | None
    found: tuple[Found, ...]


class RulesRefused(Refusal):
    """Rules with mistakes. `code` is the first error's; the details hold all of them."""

    code = "RULE_PARSE_ERROR"

    def __init__(self, found: tuple[Found, ...]) -> None:
        errors = [each for each in found if each.diagnostic.is_error]
        source, first = errors[0]
        place = source.place(first.span.start)
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(
            f"{source.name}:{place.line}:{place.column}: {first.says}{more}",
            fix=first.help,
            details={"diagnostics": [as_json(each.source, each.diagnostic) for each in found]},
        )
        self.found = found
        # Every kind of diagnostic has its own code; a class attribute holds only one.
        self.__dict__["code"] = first.code


def read_package(
    rules: bytes, tests: bytes = b"", *, name: str = "rules.bpc", tests_name: str = "tests.bpc"
) -> Package:
    """Read, parse and check a package."""
    text = _read(name, rules, tests_only=False)
    beside = _read(tests_name, tests, tests_only=True)
    pair = (beside.source, beside.parsed.tree) if tests else None
    checked = check(text.source, text.parsed.tree, pair, unread=text.parsed.unread)
    wrong = (*text.wrong, *beside.wrong)
    if not wrong:
        return Package(checked.program, checked.found)
    found = [*wrong, *(each for each in checked.found if _stands(each, text.source.text))]
    return Package(None, (*_about(text.source, found), *_about(beside.source, found)))


def checked_program(rules: bytes, tests: bytes = b"", **names: str) -> typed.Program:
    """The program; `RulesRefused` if there is an error."""
    package = read_package(rules, tests, **names)
    if package.program is None:
        raise RulesRefused(package.found)
    return package.program


class _Text(NamedTuple):
    source: Source
    parsed: Parsed
    wrong: tuple[Found, ...]


def _read(name: str, data: bytes, *, tests_only: bool) -> _Text:
    source = read_source(name, data)
    if isinstance(source, Diagnostic):
        nothing = Source(name, "")
        return _Text(nothing, Parsed(syntax.Tree(()), (source,)), (Found(nothing, source),))
    parsed = parse(source, tests_only=tests_only)
    return _Text(source, parsed, tuple(Found(source, each) for each in parsed.diagnostics))


def _about(source: Source, found: Sequence[Found]) -> list[Found]:
    """What was found in one text, as a reader meets it."""
    return [Found(source, each) for each in in_order(each.diagnostic for each in found if each.source is source)]


def _stands(found: Found, rules: str) -> bool:
    """Whether a finding is true whatever the part of the text says that could not be parsed.

    A field that is not known but looks declared somewhere is one that could not be read.
    """
    source, said = found
    if said.kind not in _FOLLOW_UPS:
        return said.is_error
    path = source.text[said.span.start : said.span.end].strip('"')
    declaration = rf"(?<![A-Za-z0-9_.]){re.escape(path)}[ \t\r\n]*[:@]"
    return said.kind == "unknown-field" and rules != "" and re.search(declaration, rules) is None

"""What a service says of rules, shown as if it was found here: in the files as they are called here."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bpc.cli.output import print_refusal, say
from bpc.cli.rules_diagnostics import print_diagnostics
from bpc.cli.rules_failure import print_given, print_place
from bpc.core import canon
from bpc.core.rules.checking.findings import Found
from bpc.core.rules.source import Diagnostic, Note, Source, Span
from bpc.core.rules.testing.verdict import command_for

if TYPE_CHECKING:
    from bpc.client.models import RuleTestCase, RuleTestFailure


class Sources(NamedTuple):
    """The files that were sent."""

    rules: Source
    tests: Source

    def called(self, name: str) -> Source:
        """By the name that the service gives them."""
        return self.tests if name == "tests.bpc" else self.rules


def print_mistakes(diagnostics: Sequence[Mapping[str, Any]], sources: Sources) -> None:
    try:
        found = [_found(each, sources) for each in diagnostics]
    except (LookupError, TypeError, ValueError):  # a newer service finds what we have no words for
        first = next(each for each in diagnostics if each["severity"] == "error")
        source = sources.called(first["file"])
        says = f"{source.name}:{first['line']}:{first['column']}: {first['message']}"
        print_refusal(first["code"], says, first["help"], {}, as_json=False)
    else:
        print_diagnostics(found)


def print_failed(failure: "RuleTestFailure", sources: Sources, seed: int) -> None:
    say(f"failed[{failure.test}]: {failure.message}", colour="red")
    source = sources.called(failure.file)
    start, end = source.offset(failure.line, failure.column), source.offset(failure.end_line, failure.end_column)
    print_place(source, Span(start, end))
    error = failure.error
    if (
        error is not None
        and error.line is not None
        and error.column is not None
        and (error.line, error.column) != (1, 1)
    ):
        say("the error comes from" if error.field is None else f"the error comes from field `{error.field}`")
        said_in = sources.called(error.file)
        at = said_in.offset(error.line, error.column)
        print_place(said_in, Span(at, at + 1))
    if failure.case is not None:
        _print_case(failure.case, failure, sources, seed)


def _print_case(case: "RuleTestCase", failure: "RuleTestFailure", sources: Sources, seed: int) -> None:
    say("the simplest case found that fails so")
    for fact in case.facts:
        print_given(fact.fact_type, fact.schema_version, fact.fact_key, fact.payload)
    for name, value in case.variables.items():
        say(f"  {name} = {canon.encode(value).decode()}")
    tests = sources.called(failure.file)
    command = command_for(sources.rules, tests, seed=seed, test=failure.test, case=case.number)
    say(f"run it alone: {command}")


def _found(said: Mapping[str, Any], sources: Sources) -> Found:
    source = sources.called(said["file"])
    start = source.offset(said["line"], said["column"])
    end = source.offset(said["end_line"], said["end_column"])
    notes = tuple(_note(note, source) for note in said["notes"])
    return Found(
        source,
        Diagnostic(kind=said["kind"], says=said["message"], span=Span(start, end), help=said["help"], notes=notes),
    )


def _note(said: Mapping[str, Any], source: Source) -> Note:
    at = source.offset(said["line"], said["column"])
    return Note(Span(at, at + 1), said["message"])

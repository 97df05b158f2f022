"""`bpc rules lsp`: the language server, over standard input and output; and the child process that runs tests for it.

    PackageTexts ── run_in_child ──► TestOutcome, and what is said of the tests that failed

Tests run in a child, so that the editor gets its answers meanwhile. It gets the texts over its standard input and
answers with one line of JSON.
"""

import asyncio
import json
import resource
import sys
from typing import Annotated, Any, Final, NamedTuple

import typer

from bpc.cli.support.output import AsJson
from bpc.core.language.editing.outline import TestOutcome
from bpc.core.language.package import PackageTexts, read_package
from bpc.core.language.testing.run import run_tests


def serve_language(
    memory_only: Annotated[
        bool, typer.Option("--memory-only", help="Read no file: know only the documents that the editor opens.")
    ] = False,
    memory_mib: Annotated[
        int | None, typer.Option("--memory-mib", min=256, help="Use at most so many MiB of memory; then it ends.")
    ] = None,
    as_json: AsJson = False,  # noqa: ARG001 (a refusal is JSON then; all else is the protocol's)
) -> None:
    """Serve an editor: mistakes while you type, completion, hover, definitions, renaming, formatting.

    Speaks the Language Server Protocol over standard input and output, so that an editor starts it;
    docs/rules/editor.md says how. It reads rule files of the folder that is open in the editor, and nothing else.

    \b
    bpc rules lsp
    """
    from bpc.cli.language_server.server import run_server  # noqa: PLC0415 (slow to import)

    if memory_mib is not None:
        limit_memory(memory_mib)
    run_server(memory_only=memory_only)


def limit_memory(mib: int) -> None:
    """Bound the address space of this process and of what it starts."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    size = mib * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size, most))


_SEED: Final = 0
_SHOWN_FAILURES: Final = 20


class FinishedRun(NamedTuple):
    """How tests ended, and a line for each of the first that failed."""

    outcome: TestOutcome
    failures: tuple[str, ...]


async def run_in_child(texts: PackageTexts) -> FinishedRun | None:
    """Run all tests of a package; None if it has a mistake. Cancelling ends the child."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bpc.cli.language_server.command",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        request = json.dumps([texts.rules.decode(), texts.tests.decode()]).encode()
        output, _ = await child.communicate(request)
    except (asyncio.CancelledError, UnicodeDecodeError):
        if child.returncode is None:
            child.kill()
            await child.wait()
        raise
    return read_answer(json.loads(output)) if child.returncode == 0 else None


def read_answer(answer: Any) -> FinishedRun | None:
    if answer is None:
        return None
    outcome = TestOutcome(answer["cases"], frozenset(answer["failed"]), frozenset(answer["unreached"]))
    return FinishedRun(outcome, tuple(answer["failures"]))


def run_texts(rules: bytes, tests: bytes) -> dict[str, Any] | None:
    """Run all tests; what the child answers."""
    program = read_package(rules, tests).program
    if program is None:
        return None
    report = run_tests(program, seed=_SEED)
    return {
        "cases": report.cases,
        "failed": sorted({failure.test for failure in report.failures}),
        "unreached": report.coverage.list_untested_fields(),
        "failures": [
            f"{failure.test}: {failure.says} ({failure.source.find_place(failure.span.start)})"
            for failure in report.failures[:_SHOWN_FAILURES]
        ],
    }


if __name__ == "__main__":
    rules_text, tests_text = json.loads(sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(run_texts(rules_text.encode(), tests_text.encode())))

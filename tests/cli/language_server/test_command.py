"""The child process that runs tests for the language server."""

from bpc.cli.language_server.command import read_answer, run_in_child, run_texts
from bpc.core.language.package import PackageTexts

RULES = (
    b"field a: Int = 1; field b: Int = 2; example good: {} => expect(a, == 1);; example bad: {} => expect(a, == 2);;"
)


def test_tests_are_counted_and_what_failed_is_named() -> None:
    finished = read_answer(run_texts(RULES, b""))

    assert finished is not None
    assert finished.outcome == (2, frozenset({"bad"}), frozenset({"b"}))
    assert [line.partition(":")[0] for line in finished.failures] == ["bad"]
    assert read_answer(run_texts(b"field a: Int = ;", b"")) is None


async def test_tests_run_in_a_child_process() -> None:
    finished = await run_in_child(PackageTexts(RULES))

    assert finished == read_answer(run_texts(RULES, b""))

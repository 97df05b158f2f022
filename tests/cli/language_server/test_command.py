"""`bpc rules lsp` without its extra, and the child process that runs tests."""

import sys

import pytest

from bpc.cli.language_server.command import read_answer, run_in_child, run_texts, serve_language
from bpc.core.errors import Invalid
from bpc.core.language.package import PackageTexts

RULES = (
    b"field a: Int = 1; field b: Int = 2; example good: {} => expect(a, == 1);; example bad: {} => expect(a, == 2);;"
)


def test_without_the_extra_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygls", None)
    for name in [name for name in sys.modules if name.startswith(("pygls.", "bpc.cli.language_server.s"))]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(Invalid) as refusal:
        serve_language(memory_only=False)

    assert refusal.value.says == "the language server needs `pygls`, which is not installed"
    assert refusal.value.fix == "install it: pip install 'bpc[lsp]'"


def test_tests_are_counted_and_what_failed_is_named() -> None:
    finished = read_answer(run_texts(RULES, b""))

    assert finished is not None
    assert finished.outcome == (2, frozenset({"bad"}), frozenset({"b"}))
    assert [line.partition(":")[0] for line in finished.failures] == ["bad"]
    assert read_answer(run_texts(b"field a: Int = ;", b"")) is None


async def test_tests_run_in_a_child_process() -> None:
    finished = await run_in_child(PackageTexts(RULES))

    assert finished == read_answer(run_texts(RULES, b""))

"""How pages of the documentation are read, and how the terminal behaves that their commands run in."""

import pytest

from tests.project.documented_pages import find_missing, find_unknown_words, open_terminal, read_blocks

PAGE = """\
Text with `$ nothing` to run.

```console
$ bpc version
bpc 0.1.0
$ bpc rules check \\
    cell.bpc
ok
…
2 rules in ...

```

<!-- not run: it stays until Ctrl-C -->

```console
$ bpc up
```

```sh
$ not a console
```

`cell.bpc`:

<!-- file: cell.bpc -->

```bpc
field a: Int =
  1;
```

<!-- another terminal -->

```console
$ bpc up
```
"""


def test_commands_and_their_output_are_read_from_console_blocks_only() -> None:
    first, second, *_ = read_blocks(PAGE)

    assert [(command.line, command.text, command.output) for command in first.commands] == [
        (4, "bpc version", ["bpc 0.1.0"]),
        (6, "bpc rules check cell.bpc", ["ok", "…", "2 rules in ..."]),
    ]
    assert (second.line, second.not_run) == (16, "it stays until Ctrl-C")


def test_files_and_what_runs_in_another_terminal_are_read_by_the_comment_above_them() -> None:
    *_, file, third = read_blocks(PAGE)

    assert (file.file, file.lines, file.commands) == ("cell.bpc", ["field a: Int =", "  1;"], [])
    assert (third.stays, [command.text for command in third.commands]) == (True, ["bpc up"])


@pytest.mark.parametrize(
    ("expected", "gap"),
    [
        (["one", "three"], None),
        (["one", "…", "th…"], None),
        (["t...o 2"], None),
        (["three", "one"], "one"),
        (["two"], "two"),
    ],
)
def test_shown_output_must_appear_in_order(expected: list[str], gap: str | None) -> None:
    assert find_missing(expected, "one\ntwo  2\nthree\n") == gap


def test_a_command_that_fails_fails_the_page() -> None:
    with open_terminal() as shell, pytest.raises(pytest.fail.Exception, match="exited 3; it said:\nno"):
        shell.run("echo no; exit 3")


def test_what_a_page_exports_and_writes_is_there_for_its_next_command() -> None:
    with open_terminal() as shell:
        shell.run("export GREETING=hello")
        shell.run("NAME=$(date +%N)")
        shell.run('greet() { echo "$GREETING $NAME" > file; }')
        shell.run("greet")
        first = shell.run("cat file")
        shell.run("greet")

        assert first.startswith("hello ")
        assert shell.run("cat file") == first


def test_another_terminal_goes_on_until_the_page_ends() -> None:
    with open_terminal() as shell:
        key = f"bpc_{'k' * 30}"
        text = f":8080 is up, {key}"
        shell.start(f"python3 -u -c 'import time; print(\"{text}\"); time.sleep(600)'", [":8080 is up, bpc_…"])
        (process,) = shell.started
        assert process.poll() is None
        assert shell.run("echo bpc_… :8080") == f"{key} :8080\n"

    assert process.returncode is not None


def test_a_page_whose_other_terminal_says_something_else_fails() -> None:
    with open_terminal() as shell, pytest.raises(pytest.fail.Exception, match="did not say what the page shows"):
        shell.start("echo no", ["yes"])


def test_make_is_not_run_but_its_targets_must_exist() -> None:
    assert find_unknown_words("make check")
    assert find_unknown_words("DATABASE_URL=postgresql://localhost/x make test-external")
    with pytest.raises(AssertionError, match="not a target of the Makefile"):
        find_unknown_words("make coffee")

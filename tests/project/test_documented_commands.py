"""The documentation's commands work, and print what it says they print.

In a fenced `console` block a line `$ command` is a command (a trailing backslash continues it on the next
line) and the lines below it are its output: each must appear, in that order, `…` or `...` standing for
anything. The commands of a page run in one folder, in order, each within two minutes.

Not run, by rule: `git clone` and `cd`; `make TARGET`, of which we check that the target exists; and blocks
below a comment `<!-- not run: reason -->`, which are listed as skipped.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import RUN_FOLDER

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120

FENCE = re.compile(r"\s*(?P<ticks>`{3,}|~{3,})\s*(?P<language>[\w-]*)")
NOT_RUN = re.compile(r"\s*<!-- not run: (?P<reason>.*\S) -->\s*")
TARGET = re.compile(r"^(?P<name>[a-z][a-z-]*):(?!=)", re.MULTILINE)
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")


@dataclass(slots=True, kw_only=True)
class Command:
    """One command of a page, where it stands, and the output the page shows."""

    line: int
    text: str
    output: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Block:
    """One fenced `console` block; `not_run` is why it is not run."""

    line: int
    not_run: str | None
    commands: list[Command] = field(default_factory=list)

    def add(self, number: int, line: str) -> None:
        before = self.commands[-1] if self.commands else None
        if before and not before.output and before.text.endswith("\\"):
            before.text = f"{before.text[:-1]}{line.removeprefix('> ')}"
        elif line.startswith("$ "):
            self.commands.append(Command(line=number, text=line.removeprefix("$ ")))
        elif before and line.strip():
            before.output.append(line)


def blocks(page: str) -> list[Block]:
    """Return the console blocks of `page`."""
    found: list[Block] = []
    closing: str | None = None
    inside: Block | None = None
    reason: str | None = None
    for number, line in enumerate(page.splitlines(), 1):
        fence = FENCE.match(line)
        if closing is not None:
            if line.strip() == closing:
                closing = inside = None
            elif inside is not None:
                inside.add(number, line.strip())
        elif fence:
            closing = fence["ticks"]
            if fence["language"] == "console":
                inside = Block(line=number, not_run=reason)
                found.append(inside)
            reason = None
        elif comment := NOT_RUN.fullmatch(line):
            reason = comment["reason"]
        elif line.strip():
            reason = None
    return found


def missing(expected: list[str], actual: str) -> str | None:
    """Return the first line of `expected` that does not follow the ones before it in `actual`."""
    lines = iter(" ".join(line.split()) for line in actual.splitlines())
    for line in expected:
        parts = re.split(r"…|\.\.\.", " ".join(line.split()))
        if not any(parts):
            continue
        wanted = re.compile(".*".join(re.escape(part) for part in parts))
        if not any(wanted.fullmatch(said) for said in lines):
            return line
    return None


def pages() -> list[Path]:
    named = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in named if page.exists() and blocks(page.read_text())]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@dataclass(slots=True, kw_only=True)
class Terminal:
    """A folder like a newcomer's, and what was exported in it."""

    folder: Path
    exported: list[str] = field(default_factory=list)

    def run(self, command: str) -> str:
        """Run `command` and return what it printed; a command that fails fails the test."""
        script = "\n".join([*self.exported, command])
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", script],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            pytest.fail(f"`{command}` was not done after {SECONDS} s; it said:\n{said}")
        if process.returncode != 0:
            pytest.fail(f"`{command}` exited {process.returncode}; it said:\n{said}")
        if command.startswith("export "):
            self.exported.append(command)
        return said

    def _environment(self) -> dict[str, str]:
        """The machine's environment, without settings of ours, coverage, or a server of the machine's."""
        foreign = ("BPC_", "COVERAGE_", "DATABASE_URL", "PG", "MAKE", "MFLAGS")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        return clean | {
            "PATH": f"{Path(sys.prefix, 'bin')}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "BPC_DATA_DIR": str(self.folder / "data"),
            "BPC_ENV": "dev",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "COLUMNS": "120",
        }


@contextmanager
def terminal() -> Iterator[Terminal]:
    where = os.environ[RUN_FOLDER]
    with tempfile.TemporaryDirectory(prefix="page-", dir=where, ignore_cleanup_errors=True) as made:
        folder = Path(made)
        # As root the database runs as another user, who has to be able to enter.
        folder.chmod(0o755)
        if (ROOT / "examples").is_dir():
            shutil.copytree(ROOT / "examples", folder / "examples")
        try:
            yield Terminal(folder=folder)
        finally:
            stop_servers(folder)


def stop_servers(folder: Path) -> None:
    """Stop a PostgreSQL that the commands left running in `folder`: SIGINT is its fast shutdown."""
    for file in folder.rglob("postmaster.pid"):
        with suppress(OSError, ValueError, IndexError):
            os.kill(int(file.read_text().splitlines()[0]), signal.SIGINT)


def left_out(command: str) -> bool:
    """Return whether `command` is not run by rule; a target of make that does not exist fails."""
    words = [word for word in shlex.split(command) if not ASSIGNMENT.fullmatch(word)]
    if words[:1] == ["make"]:
        known = {found["name"] for found in TARGET.finditer((ROOT / "Makefile").read_text())}
        unknown = [word for word in words[1:] if not word.startswith("-") and word not in known]
        assert unknown == [], f"`{command}`: not a target of the Makefile"
        return True
    return words[:2] == ["git", "clone"] or words[:1] == ["cd"]


RUN = [pytest.param(page, id=name(page)) for page in pages()]
LISTED = [
    pytest.param(
        page,
        id=f"{name(page)}:{block.line}",
        marks=pytest.mark.skip(f"{name(page)}:{block.line}: {block.not_run}"),
    )
    for page in pages()
    for block in blocks(page.read_text())
    if block.not_run
]


@pytest.mark.parametrize("page", RUN + LISTED)
def test_the_commands_on_the_page_work_as_shown(page: Path) -> None:
    commands = [command for block in blocks(page.read_text()) if block.not_run is None for command in block.commands]

    with terminal() as shell:
        for command in commands:
            if left_out(command.text):
                continue
            said = shell.run(command.text)
            line = missing(command.output, said)
            assert line is None, f"{name(page)}:{command.line}: `{line}` is not printed; it said:\n{said}"


# The reader of pages itself

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
"""


def test_commands_and_their_output_are_read_from_console_blocks_only() -> None:
    first, second = blocks(PAGE)

    assert [(each.line, each.text, each.output) for each in first.commands] == [
        (4, "bpc version", ["bpc 0.1.0"]),
        (6, "bpc rules check cell.bpc", ["ok", "…", "2 rules in ..."]),
    ]
    assert (second.line, second.not_run) == (16, "it stays until Ctrl-C")


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
    assert missing(expected, "one\ntwo  2\nthree\n") == gap


def test_a_command_that_fails_fails_the_page() -> None:
    with terminal() as shell, pytest.raises(pytest.fail.Exception, match="exited 3; it said:\nno"):
        shell.run("echo no; exit 3")


def test_what_a_page_exports_and_writes_is_there_for_its_next_command() -> None:
    with terminal() as shell:
        shell.run("export GREETING=hello")
        shell.run('echo "$GREETING" > file')

        assert shell.run("cat file") == "hello\n"


def test_make_is_not_run_but_its_targets_must_exist() -> None:
    assert left_out("make check")
    assert left_out("DATABASE_URL=postgresql://localhost/x make test-external")
    with pytest.raises(AssertionError, match="not a target of the Makefile"):
        left_out("make coffee")

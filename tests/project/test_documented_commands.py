"""The documentation's commands work, and print what it says they print.

In a fenced `console` block a line `$ command` is a command (a trailing backslash continues it on the next
line) and the lines below it are its output: each must appear, in that order, `…` or `...` standing for
anything. The commands of a page run in one folder, in order, each within two minutes, and what one of them sets is
there for the next.

    <!-- file: pack.bpc -->       the fenced block below is what the reader writes into this file
    <!-- another terminal -->     the command of the console block below is started there, and stays until the page ends
    <!-- after: tutorial.md -->   this page goes on in the terminal of that one, with what is there
    <!-- not run: reason -->      the console block below is not run, and is listed as skipped

Not run, by rule: `git clone`, `cd` and entering the environment; `make TARGET`, of which we check that the target
exists. In `docs/`, `make demo` is run as what it is, `bpc demo`. Pages say ports 8080 and 8090; each runs on free ones,
so that several can at a time. Where a command says `bpc_…`, it is given the key that another terminal has printed. All
pages together start `bpc` some hundred times: it is forked from one that has imported everything (tests.cli.forked).
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from bpc.db import embedded
from tests.cli import forked
from tests.conftest import RUN_FOLDER
from tests.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120

FENCE = re.compile(r"\s*(?P<ticks>`{3,}|~{3,})\s*(?P<language>[\w-]*)")
NOT_RUN = re.compile(r"\s*<!-- not run: (?P<reason>.*\S) -->\s*")
FILE = re.compile(r"\s*<!-- file: (?P<name>[\w.-]+) -->\s*")
AFTER = re.compile(r"^<!-- after: (?P<page>[\w./-]+) -->$", re.MULTILINE)
ANOTHER_TERMINAL = "<!-- another terminal -->"
PORTS = ("8080", "8090")
KEY = re.compile(r"\bbpc_\w{20,}")
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
    """One fenced block: commands of a console, or the `lines` of the `file` that the reader writes.

    `not_run` is why a console is not run; what is typed into one that `stays` goes on until the page ends.
    """

    line: int
    not_run: str | None = None
    stays: bool = False
    file: str | None = None
    lines: list[str] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def add(self, number: int, line: str) -> None:
        if self.file is not None:
            self.lines.append(line)
            return
        line = line.strip()
        before = self.commands[-1] if self.commands else None
        if before and not before.output and before.text.endswith("\\"):
            before.text = f"{before.text[:-1]}{line.removeprefix('> ')}"
        elif line.startswith("$ "):
            self.commands.append(Command(line=number, text=line.removeprefix("$ ")))
        elif before and line.strip():
            before.output.append(line)


def blocks(page: str) -> list[Block]:
    """Return the console blocks and the files of `page`."""
    found: list[Block] = []
    closing: str | None = None
    inside: Block | None = None
    said = ""
    for number, line in enumerate(page.splitlines(), 1):
        fence = FENCE.match(line)
        if closing is not None:
            if line.strip() == closing:
                closing = inside = None
            elif inside is not None:
                inside.add(number, line)
        elif fence:
            closing = fence["ticks"]
            reason, file = NOT_RUN.fullmatch(said), FILE.fullmatch(said)
            if fence["language"] == "console" or file:
                inside = Block(
                    line=number,
                    not_run=reason and reason["reason"],
                    stays=said == ANOTHER_TERMINAL,
                    file=file and file["name"],
                )
                found.append(inside)
            said = ""
        elif line.strip():
            said = line.strip()
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


def page_before(page: Path) -> Path | None:
    """Return the page after which `page` is read, in the same terminal."""
    said = AFTER.search(page.read_text())
    return (page.parent / said["page"]).resolve() if said else None


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def other_ports() -> dict[str, str]:
    """Return a free port for each that pages name."""
    return {said: str(port) for said, port in zip(PORTS, free_ports(len(PORTS)), strict=True)}


@dataclass(slots=True, kw_only=True)
class Terminal:
    """A folder like a newcomer's, what was set in it, and what was started beside it."""

    folder: Path
    ports: dict[str, str] = field(default_factory=other_ports)
    key: str | None = None
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    held: ExitStack = field(default_factory=ExitStack)
    holds: bool = False

    def run(self, command: str) -> str:
        """Run `command` and return what it printed; a command that fails fails the test."""
        kept = self.folder / ".set-by-the-page"
        script = "\n".join(
            [
                f"[ -f {kept} ] && . {kept}",
                f"trap '{{ export -p; declare -f; }} > {kept}' EXIT",
                "set -a",  # a reader's shell knows its variables until it is closed, exported or not
                self._here(command),
            ]
        )
        process = self._process(["bash", "-o", "pipefail", "-c", script], stdout=subprocess.PIPE)
        try:
            said, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            pytest.fail(f"`{command}` was not done after {SECONDS} s; it said:\n{said}")
        if process.returncode != 0:
            pytest.fail(f"`{command}` exited {process.returncode}; it said:\n{said}")
        self._hold_the_database()
        return self._there(said)

    def start(self, command: str, output: list[str]) -> None:
        """Start `command` beside the others, and wait until it has said `output`."""
        log = self.folder / f".terminal-{len(self.started)}"
        with log.open("w") as stdout:
            process = self._process(["bash", "-c", f"exec env {self._here(command)}"], stdout=stdout)
        self.started.append(process)
        until = time.monotonic() + SECONDS
        while missing(output, self._there(log.read_text())) is not None:
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"`{command}` did not say what the page shows; it said:\n{log.read_text()}")
            time.sleep(0.05)
        if printed := KEY.search(log.read_text()):
            self.key = printed[0]

    def write(self, name: str, lines: list[str]) -> None:
        (self.folder / name).write_text(self._here("\n".join(lines) + "\n"))

    def _hold_the_database(self) -> None:
        """Use it as long as the page lasts, or every command would start it and stop it again."""
        data = self.folder / "data"
        if not self.holds and (data / "postgres" / "PG_VERSION").exists():
            self.held.enter_context(embedded.use(data))
            self.holds = True

    def close(self) -> None:
        """Press Ctrl-C in every other terminal."""
        self.held.close()
        for process in self.started:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
        for process in self.started:
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        stop_servers(self.folder)

    def _process(self, words: list[str], stdout: int | IO[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _here(self, text: str) -> str:
        """A command of a page, as it is run here."""
        for said, port in self.ports.items():
            text = re.sub(rf"\b{said}\b", port, text)
        return text if self.key is None else text.replace("bpc_…", self.key)

    def _there(self, text: str) -> str:
        """What a command said here, as the page shows it."""
        for said, port in self.ports.items():
            text = re.sub(rf"\b{port}\b", said, text)
        return text

    def _environment(self) -> dict[str, str]:
        """The machine's environment, without settings of ours, coverage, or a server of the machine's."""
        foreign = ("BPC_", "COVERAGE_", "DATABASE_URL", "PG", "MAKE", "MFLAGS")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        return clean | {
            "PATH": os.pathsep.join([str(self.folder / ".bin"), str(Path(sys.prefix, "bin")), os.environ["PATH"]]),
            "HOME": str(self.folder),
            "BPC_DATA_DIR": str(self.folder / "data"),
            "BPC_ENV": "dev",
            "BPC_HTTP_PORT": self.ports["8080"],
            "BPC_URL": f"http://127.0.0.1:{self.ports['8080']}",
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
        (folder / ".bin").mkdir()
        forked.put_command(folder / ".bin")
        shell = Terminal(folder=folder)
        try:
            yield shell
        finally:
            shell.close()


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
    return words[:2] in (["git", "clone"], ["source", ".venv/bin/activate"]) or words[:1] == ["cd"]


RUN = [pytest.param(page, id=name(page)) for page in pages() if page_before(page) is None]
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
    with terminal() as shell:
        follow(page, shell)
        for after in pages():
            if page_before(after) == page:
                follow(after, shell)


def follow(page: Path, shell: Terminal) -> None:
    """Do what `page` says."""
    for block in blocks(page.read_text()):
        if block.file is not None:
            shell.write(block.file, block.lines)
        for command in block.commands if block.not_run is None else []:
            text = "bpc demo" if command.text == "make demo" and page != ROOT / "README.md" else command.text
            if left_out(text):
                continue
            if block.stays:
                shell.start(text, command.output)
                continue
            said = shell.run(text)
            line = missing(shown(command.output), said)
            assert line is None, f"{name(page)}:{command.line}: `{line}` is not printed; it said:\n{said}"


def shown(output: list[str]) -> list[str]:
    """`output` with anything in place of times, which pages show for what they are like."""
    return [re.sub(r"\(\d+ ms\)", "(… ms)", line) for line in output]


def test_a_page_is_read_after_one_that_is_run() -> None:
    before = {name(page): page_before(page) for page in pages()}

    assert {page: first for page, first in before.items() if first and before.get(name(first), first)} == {}


def test_the_readme_shows_of_the_demo_what_the_quickstart_does() -> None:
    first, whole = (
        [line for block in blocks(page.read_text()) for command in block.commands for line in command.output]
        for page in (ROOT / "README.md", ROOT / "docs" / "quickstart.md")
    )

    of_the_demo = [line for line in first if "✓" in line or line.startswith(("8 checks", "caught:"))]
    assert len(of_the_demo) > 5
    assert [line for line in of_the_demo if line not in whole] == []


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
    first, second, *_ = blocks(PAGE)

    assert [(each.line, each.text, each.output) for each in first.commands] == [
        (4, "bpc version", ["bpc 0.1.0"]),
        (6, "bpc rules check cell.bpc", ["ok", "…", "2 rules in ..."]),
    ]
    assert (second.line, second.not_run) == (16, "it stays until Ctrl-C")


def test_files_and_what_runs_in_another_terminal_are_read_by_the_comment_above_them() -> None:
    *_, file, third = blocks(PAGE)

    assert (file.file, file.lines, file.commands) == ("cell.bpc", ["field a: Int =", "  1;"], [])
    assert (third.stays, [each.text for each in third.commands]) == (True, ["bpc up"])


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
        shell.run("NAME=$(date +%N)")
        shell.run('greet() { echo "$GREETING $NAME" > file; }')
        shell.run("greet")
        first = shell.run("cat file")
        shell.run("greet")

        assert first.startswith("hello ")
        assert shell.run("cat file") == first


def test_another_terminal_goes_on_until_the_page_ends() -> None:
    with terminal() as shell:
        key = f"bpc_{'k' * 30}"
        said = f":8080 is up, {key}"
        shell.start(f"python3 -u -c 'import time; print(\"{said}\"); time.sleep(600)'", [":8080 is up, bpc_…"])
        (process,) = shell.started
        assert process.poll() is None
        assert shell.run("echo bpc_… :8080") == f"{key} :8080\n"

    assert process.returncode is not None


def test_a_page_whose_other_terminal_says_something_else_fails() -> None:
    with terminal() as shell, pytest.raises(pytest.fail.Exception, match="did not say what the page shows"):
        shell.start("echo no", ["yes"])


def test_make_is_not_run_but_its_targets_must_exist() -> None:
    assert left_out("make check")
    assert left_out("DATABASE_URL=postgresql://localhost/x make test-external")
    with pytest.raises(AssertionError, match="not a target of the Makefile"):
        left_out("make coffee")

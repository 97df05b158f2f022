"""Pages of the documentation as a reader follows them: their commands, what those print, and a terminal to run them in.

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
pages together start `bpc` some hundred times: it is forked from one process that
has imported everything (tests.cli.fork_server).
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
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from bpc.runtime import postgres
from tests.cli import fork_server
from tests.fixtures import RUN_FOLDER
from tests.ports import find_free_ports

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120

FENCE = re.compile(r"\s*(?P<ticks>`{3,}|~{3,})\s*(?P<language>[\w-]*)")
NOT_RUN = re.compile(r"\s*<!-- not run: (?P<reason>.*\S) -->\s*")
FILE = re.compile(r"\s*<!-- file: (?P<name>[\w./-]+) -->\s*")
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


def read_blocks(page: str) -> list[Block]:
    """Return the console blocks and the files of `page`."""
    result: list[Block] = []
    closing: str | None = None
    inside: Block | None = None
    comment = ""
    for number, line in enumerate(page.splitlines(), 1):
        fence = FENCE.match(line)
        if closing is not None:
            if line.strip() == closing:
                closing = inside = None
            elif inside is not None:
                inside.add(number, line)
        elif fence:
            closing = fence["ticks"]
            reason, file = NOT_RUN.fullmatch(comment), FILE.fullmatch(comment)
            if fence["language"] == "console" or file:
                inside = Block(
                    line=number,
                    not_run=reason and reason["reason"],
                    stays=comment == ANOTHER_TERMINAL,
                    file=file and file["name"],
                )
                result.append(inside)
            comment = ""
        elif line.strip():
            comment = line.strip()
    return result


def find_missing(expected: list[str], actual: str) -> str | None:
    """Return the first line of `expected` that does not follow the ones before it in `actual`."""
    lines = iter(" ".join(line.split()) for line in actual.splitlines())
    for line in expected:
        parts = re.split(r"…|\.\.\.", " ".join(line.split()))
        if not any(parts):
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in parts))
        if not any(pattern.fullmatch(actual_line) for actual_line in lines):
            return line
    return None


def list_pages() -> list[Path]:
    named = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in named if page.exists() and read_blocks(page.read_text())]


def find_page_before(page: Path) -> Path | None:
    """Return the page after which `page` is read, in the same terminal."""
    match = AFTER.search(page.read_text())
    return (page.parent / match["page"]).resolve() if match else None


def name_page(page: Path) -> str:
    return str(page.relative_to(ROOT))


def choose_ports() -> dict[str, str]:
    """Return a free port for each that pages name."""
    return {page_port: str(port) for page_port, port in zip(PORTS, find_free_ports(len(PORTS)), strict=True)}


@dataclass(slots=True, kw_only=True)
class Terminal:
    """A folder like a newcomer's, what was set in it, and what was started beside it.

    `environment` is set in it from the beginning.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    ports: dict[str, str] = field(default_factory=choose_ports)
    key: str | None = None
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    held: ExitStack = field(default_factory=ExitStack)
    holds: bool = False

    def run(self, command: str) -> str:
        """Run `command` and return what it printed; a command that fails fails the test."""
        environment_file = self.folder / ".set-by-the-page"
        script = "\n".join(
            [
                f"[ -f {environment_file} ] && . {environment_file}",
                f"trap '{{ export -p; declare -f; }} > {environment_file}' EXIT",
                "set -a",  # a reader's shell knows its variables until it is closed, exported or not
                self._use_our_ports(command),
            ]
        )
        process = self._process(["bash", "-o", "pipefail", "-c", script], stdout=subprocess.PIPE)
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            pytest.fail(f"`{command}` was not done after {SECONDS} s; it said:\n{output}")
        if process.returncode != 0:
            pytest.fail(f"`{command}` exited {process.returncode}; it said:\n{output}")
        self._hold_the_database()
        return self._use_page_ports(output)

    def start(self, command: str, output: list[str]) -> None:
        """Start `command` beside the others, and wait until it has said `output`."""
        log = self.folder / f".terminal-{len(self.started)}"
        with log.open("w") as stdout:
            process = self._process(["bash", "-c", f"exec env {self._use_our_ports(command)}"], stdout=stdout)
        self.started.append(process)
        until = time.monotonic() + SECONDS
        while find_missing(output, self._use_page_ports(log.read_text())) is not None:
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"`{command}` did not say what the page shows; it said:\n{log.read_text()}")
            time.sleep(0.05)
        if printed := KEY.search(log.read_text()):
            self.key = printed[0]

    def write(self, name: str, lines: list[str]) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._use_our_ports("\n".join(lines) + "\n"))

    def _hold_the_database(self) -> None:
        """Use it as long as the page lasts, or every command would start it and stop it again."""
        data = self.folder / "data"
        if not self.holds and (data / "postgres" / "PG_VERSION").exists():
            self.held.enter_context(postgres.use_server(data))
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

    def _use_our_ports(self, text: str) -> str:
        """A command of a page, as it is run here."""
        for page_port, port in self.ports.items():
            text = re.sub(rf"\b{page_port}\b", port, text)
        return text if self.key is None else text.replace("bpc_…", self.key)

    def _use_page_ports(self, text: str) -> str:
        """What a command said here, as the page shows it."""
        for page_port, port in self.ports.items():
            text = re.sub(rf"\b{port}\b", page_port, text)
        return text

    def _environment(self) -> dict[str, str]:
        """The machine's environment, without settings of ours, coverage, or a server of the machine's."""
        foreign = ("BPC_", "COVERAGE_", "DATABASE_URL", "PG", "MAKE", "MFLAGS")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        ours = {
            "PATH": os.pathsep.join([str(self.folder / ".bin"), str(Path(sys.prefix, "bin")), os.environ["PATH"]]),
            "HOME": str(self.folder),
            "BPC_WORKER_NICE": "0",  # else it waits for the tests that run beside it
            "BPC_DATA_DIR": str(self.folder / "data"),
            "BPC_ENV": "dev",
            "BPC_HTTP_PORT": self.ports["8080"],
            "BPC_URL": f"http://127.0.0.1:{self.ports['8080']}",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "COLUMNS": "120",
        }
        return clean | ours | self.environment


@contextmanager
def open_terminal(environment: dict[str, str] | None = None, *, forks: bool = True) -> Iterator[Terminal]:
    """Open a terminal. Without `forks` every `bpc` is a program of its own, as a reader's is."""
    where = os.environ[RUN_FOLDER]
    with tempfile.TemporaryDirectory(prefix="page-", dir=where, ignore_cleanup_errors=True) as path:
        folder = Path(path)
        # As root the database runs as another user, who has to be able to enter.
        folder.chmod(0o755)
        if (ROOT / "examples").is_dir():
            shutil.copytree(ROOT / "examples", folder / "examples")
        (folder / ".bin").mkdir()
        if forks:
            fork_server.install_command(folder / ".bin")
        shell = Terminal(folder=folder, environment=environment or {})
        try:
            yield shell
        finally:
            shell.close()


def stop_servers(folder: Path) -> None:
    """Stop a PostgreSQL that the commands left running in `folder`: SIGINT is its fast shutdown."""
    for file in folder.rglob("postmaster.pid"):
        with suppress(OSError, ValueError, IndexError):
            os.kill(int(file.read_text().splitlines()[0]), signal.SIGINT)


def find_unknown_words(command: str) -> bool:
    """Return whether `command` is not run by rule; a target of make that does not exist fails."""
    words = [word for word in shlex.split(command) if not ASSIGNMENT.fullmatch(word)]
    if words[:1] == ["make"]:
        known = {match["name"] for match in TARGET.finditer((ROOT / "Makefile").read_text())}
        unknown = [word for word in words[1:] if not word.startswith("-") and word not in known]
        assert unknown == [], f"`{command}`: not a target of the Makefile"
        return True
    return words[:2] in (["git", "clone"], ["source", ".venv/bin/activate"]) or words[:1] == ["cd"]


def follow_page(page: Path, shell: Terminal) -> None:
    """Do what `page` says."""
    follow_blocks(page, read_blocks(page.read_text()), shell)


def follow_blocks(page: Path, blocks: Iterable[Block], shell: Terminal) -> None:
    """Do what some blocks of `page` say."""
    for block in blocks:
        if block.file is not None:
            shell.write(block.file, block.lines)
        for command in block.commands if block.not_run is None else []:
            text = "bpc demo" if command.text == "make demo" and page != ROOT / "README.md" else command.text
            if find_unknown_words(text):
                continue
            if block.stays:
                shell.start(text, command.output)
                continue
            output = shell.run(text)
            line = find_missing(normalise_output(command.output), output)
            assert line is None, f"{name_page(page)}:{command.line}: `{line}` is not printed; it said:\n{output}"


def normalise_output(output: list[str]) -> list[str]:
    """`output` with anything in place of times, which pages show for what they are like."""
    return [re.sub(r"\(\d+ ms\)", "(… ms)", line) for line in output]

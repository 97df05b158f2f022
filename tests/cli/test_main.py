"""`bpc` itself: help, version, completion, and how every command ends."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bpc import __version__
from bpc.cli.main import COMMANDS, SINGULARS, load_command
from bpc.cli.support.output import choose_exit_code
from bpc.core.errors import CODES
from tests.cli.conftest import Installation
from tests.cli.program import Program, RunResult
from tests.terminal import list_completions, run_on_terminal

NAMES = [name for section in COMMANDS.values() for name in section]
GROUPS = ["tenants", "apikeys", "audit", "jobs", "rules", "passports", "documents", "runs"]
RAISES = """
    import sys
    from bpc.cli.offline import canonicalize
    from bpc.cli.main import main

    def broken(file):
        raise ZeroDivisionError("the reason")

    canonicalize.read_bytes = broken
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_command(bpc: Program, option: str) -> None:
    output = bpc.run_ok(option).out

    assert output.startswith("Usage: bpc [OPTIONS] COMMAND")
    assert [name for name in NAMES if f"\n  {name} " not in output] == []
    assert "Exit codes: 0 done" in output


def test_without_a_command_the_help_is_shown_and_it_is_wrong_usage(bpc: Program) -> None:
    ended = bpc.run()

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == bpc.run("--help").out


@pytest.mark.parametrize("name", NAMES)
def test_the_list_says_of_a_command_what_its_own_help_says_first(name: str) -> None:
    _, summary = next(section[name] for section in COMMANDS.values() if name in section)

    assert load_command(name).help.split("\n")[0] == summary


@pytest.mark.parametrize("group", GROUPS)
def test_no_line_of_a_list_of_commands_is_cut_off(bpc: Program, group: str) -> None:
    output = bpc.run_ok(group, "--help").out.split("Commands:")[1]

    assert "..." not in output


def list_leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Every command below `command` that does something, with what is typed for it."""
    if not hasattr(command, "commands"):
        yield " ".join(path), command
        return
    for name, nested in command.commands.items():
        yield from list_leaves(nested, (*path, name))


def test_every_command_has_json_and_help() -> None:
    leaves = dict(leaf for name in NAMES for leaf in list_leaves(load_command(name), (name,)))

    assert len(leaves) > 70
    options = {path: {name for parameter in leaf.params for name in parameter.opts} for path, leaf in leaves.items()}
    assert [path for path, names in options.items() if "--json" not in names] == []
    assert [path for path, leaf in leaves.items() if not leaf.help] == []


def test_a_noun_may_be_typed_in_the_singular(bpc: Program) -> None:
    for singular, plural in SINGULARS.items():
        assert bpc.run_ok(singular, "--help").out == bpc.run_ok(plural, "--help").out
    assert {"passport", "document", "fact", "snapshot", "job", "tenant", "apikey", "rule"} <= SINGULARS.keys()
    assert not SINGULARS.keys() & set(NAMES)


def test_the_version_is_printed(bpc: Program) -> None:
    assert bpc.run_ok("--version").out == f"bpc {__version__}\n"


def test_a_command_that_does_not_exist_is_wrong_usage_and_the_nearest_is_named(bpc: Program) -> None:
    ended = bpc.run("tenannt")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("USAGE: no such command 'tenannt'. Did you mean 'tenants'?\n")
    assert "`bpc --help`" in ended.err


def test_wrong_usage_says_what_is_wrong_and_where_to_read_on(bpc: Program) -> None:
    ended = bpc.run("keygen")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "USAGE: missing option '--out'\n  see `bpc keygen --help`\n"


def test_wrong_usage_names_the_choices_in_one_line(bpc: Program) -> None:
    ended = bpc.run("export", "bundle.zip")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "USAGE: missing option '--format'. Choose from: pdf, json-ld, xml, data-points\n  see `bpc export --help`\n"
    )
    assert bpc.run("export", "bundle.zip", "--json").json()["error"]["code"] == "USAGE"


def test_with_json_a_refusal_is_json_too(bpc: Program) -> None:
    ended = bpc.run("keygen", "--json", "--out", "/nonexistent/key")

    assert (ended.code, ended.err) == (1, "")
    assert ended.json()["error"]["code"] == "VALIDATION_ERROR"
    assert ended.json()["error"].keys() == {"code", "message", "fix", "details"}


def test_every_code_has_one_of_the_promised_exit_codes() -> None:
    assert {choose_exit_code(code) for code in CODES} == {1, 2, 69, 70, 78}
    assert choose_exit_code("DB_UNAVAILABLE") == choose_exit_code("OUTBOUND_FAILED") == 69
    assert choose_exit_code("UNREACHABLE") == 69
    assert choose_exit_code("USAGE") == 2
    assert choose_exit_code("PORT_IN_USE") == 78
    assert choose_exit_code("CONFIG_MISSING") == choose_exit_code("SCHEMA_MISMATCH") == 78


def test_a_bug_is_one_sentence_with_a_reference_and_the_trace_goes_to_the_log(bpc: Program) -> None:
    ended = run_python(bpc, RAISES, "canonicalize")

    *logged, message, advice = ended.err.rstrip("\n").split("\n")
    (line,) = [json.loads(entry) for entry in logged]
    assert (ended.code, ended.out) == (70, "")
    assert message.startswith("INTERNAL_ERROR: ")
    assert line["correlation_id"] in message
    assert line["exception"][0]["exc_type"] == "ZeroDivisionError"
    assert "report" in advice


def test_a_bug_is_json_for_a_program(bpc: Program) -> None:
    ended = run_python(bpc, RAISES.replace("sys.argv[1:]", "['canonicalize', '--', '--json']"))

    assert ended.code == 70
    assert ended.json()["error"]["details"]["correlation_id"] in ended.err


def test_ctrl_c_ends_a_command_quietly(bpc: Program) -> None:
    waiting = bpc.start("canonicalize", "-")
    assert waiting.stdin is not None
    # It reads its input to the end: once the pipe is full and taken up, it is in the middle of that.
    waiting.stdin.write("[" + "1," * 100_000)
    waiting.stdin.flush()

    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate()

    assert (waiting.returncode, out, err) == (130, "", "")


def test_ctrl_c_ends_the_wait_for_a_server_that_is_being_stopped(bpc: Program) -> None:
    with (bpc.data_dir / "postgres.users").open("w") as stopping:
        fcntl.flock(stopping, fcntl.LOCK_EX)
        waiting = bpc.start("tenant", "list")
        opened = psutil.Process(waiting.pid)
        while not any(file.path == stopping.name for file in opened.open_files()):
            time.sleep(0.01)

        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=60)

    assert (waiting.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["canonicalize", "{}"], ["keygen", "--json", "--out", "/nonexistent/key"]]
)
def test_a_reader_that_goes_away_is_no_reason_to_complain(bpc: Program, tmp_path: Path, arguments: list[str]) -> None:
    document = tmp_path / "document.json"
    document.write_text("[" + ",".join("1" * 50_000) + "]")
    reading, writing = os.pipe()
    os.close(reading)

    command = bpc.command(*(argument.replace("{}", str(document)) for argument in arguments))
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=bpc.environment(), check=False)
    os.close(writing)

    assert (done.returncode, done.stderr) == (1, b"")


def test_colours_are_for_terminals_that_want_them(bpc: Program) -> None:
    assert "\x1b[" not in bpc.run("nothing").err
    assert "\x1b[31m" in run_on_terminal(bpc, "nothing")
    assert "\x1b[" not in run_on_terminal(bpc.with_settings(NO_COLOR="1"), "nothing")
    assert "\x1b[" not in run_on_terminal(bpc.with_settings(TERM="dumb"), "nothing")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")  # noqa: PTH110
def test_output_that_finds_no_room_is_refused_on_standard_error(bpc: Program) -> None:
    for arguments in (("canonicalize", "-"), ("rules", "check", "--json", "-")):
        with open("/dev/full", "wb") as full:  # noqa: PTH123
            done = subprocess.run(
                bpc.command(*arguments),
                input=b"1",
                stdout=full,
                stderr=subprocess.PIPE,
                env=bpc.environment(),
                check=False,
            )

        assert done.returncode == 1
        assert done.stderr.startswith(b"VALIDATION_ERROR: the output cannot be written: No space left on device")


def test_a_closed_standard_output_is_named(bpc: Program) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *bpc.command("canonicalize", "-")],
        input=b"1",
        stderr=subprocess.PIPE,
        env=bpc.environment(),
        check=False,
    )

    assert (done.returncode, done.stderr.split(b"\n")[0]) == (1, b"VALIDATION_ERROR: there is no standard output")


def test_control_characters_in_an_argument_are_shown_and_not_obeyed(bpc: Program) -> None:
    ended = bpc.run("canonicalize", "\x1b[2Jgone\nINTERNAL_ERROR: no")

    assert ended.err.startswith(r"VALIDATION_ERROR: `\x1b[2Jgone\x0aINTERNAL_ERROR: no` cannot be read")
    assert ended.err.count("\n") == 1


def test_a_terminal_that_cannot_show_a_character_gets_it_escaped(bpc: Program, tmp_path: Path) -> None:
    ended = bpc.with_settings(PYTHONIOENCODING="latin-1").run("keygen", "--out", tmp_path / "ключ")

    assert ended.code == 0
    assert r"/\u043a\u043b\u044e\u0447 (keep it secret" in ended.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_values(bpc: Program, shell: str) -> None:
    assert "tenant" in list_completions(bpc, shell, "bpc ten")
    assert "apikey" not in list_completions(bpc, shell, "bpc ten")
    assert "ComplianceOfficer" in list_completions(bpc, shell, "bpc apikeys create --role ")


def test_completion_can_be_shown_and_installed(bpc: Program, tmp_path: Path) -> None:
    at_home = bpc.with_settings(HOME=str(tmp_path))

    output = run_in_bash(at_home, "--show-completion")
    installed = run_in_bash(at_home, "--install-completion")

    assert "_BPC_COMPLETE=complete_bash" in output
    assert "bash completion installed in" in installed
    assert any("_BPC_COMPLETE" in file.read_text() for file in tmp_path.rglob("*") if file.is_file())


def test_a_command_without_a_database_waits_for_no_driver(bpc: Program) -> None:
    slow = ["asyncpg", "pydantic", "structlog", "rich", "psutil", "cryptography"]
    code = f"""
        import sys
        from bpc.cli.main import main
        main(["canonicalize", "/dev/null"]), main(["--help"])
        print([name for name in {slow} if name in sys.modules])
    """

    assert run_python(bpc, code).out.rstrip().endswith("[]")


def test_a_command_that_asks_an_api_waits_for_nothing_that_only_the_service_needs(bpc: Program) -> None:
    slow = ["asyncpg", "structlog", "rich", "psutil", "cryptography", "bpc.storage", "bpc.settings"]
    code = f"""
        import sys
        from bpc.cli.main import main
        print(main(["get", "/v1/documents", "--url", "http://127.0.0.1:9"]))
        print([name for name in {slow} if name in sys.modules])
    """

    assert run_python(bpc.with_settings(BPC_API_KEY="bpc_x_y"), code).out == "69\n[]\n"


def test_checking_rule_files_waits_for_nothing_but_what_checks(bpc: Program) -> None:
    slow = ["httpx2", "bpc_client", "asyncpg", "pydantic", "asyncio", "multiprocessing"]
    slow += ["bpc.core.language.evaluating", "bpc.core.language.testing"]
    code = f"""
        import sys
        before = set(sys.modules)  # what measures coverage has modules of its own
        from bpc.cli.main import main
        print(main(["rules", "check", "/dev/null", "--tests", "/dev/null", "--json"]))
        print([name for name in {slow} if name in sys.modules and name not in before])
    """

    assert run_python(bpc, code).out.endswith("0\n[]\n")


def test_verifying_waits_for_nothing_that_it_does_not_use(bpc: Program) -> None:
    slow = ["pydantic", "asyncio", "httpx2", "bpc_client", "asyncpg", "structlog", "rich", "multiprocessing"]
    code = f"""
        import sys
        before = set(sys.modules)  # what measures coverage has modules of its own
        from bpc.cli.main import main
        print(main(["verify", "/dev/null", "--keys", "/dev/null", "--status", "/dev/null", "--json"]))
        print([name for name in {slow} if name in sys.modules and name not in before])
    """

    assert run_python(bpc, code).out.endswith("[]\n")


def test_no_garbage_is_looked_for_while_a_command_is_imported(bpc: Program) -> None:
    code = """
        import gc
        from bpc.cli.support.arguments import import_command
        rounds = []
        gc.collect()
        gc.callbacks.append(lambda phase, info: rounds.append(phase))
        import_command("offline.verify:verify")
        print(rounds, gc.isenabled(), gc.get_freeze_count() > 0)
    """

    assert run_python(bpc, code).out == "[] True True\n"


def test_a_path_that_may_not_be_read_is_named_as_wrong_usage(bpc: Program, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("")
    secret.chmod(0)
    if os.access(secret, os.R_OK):
        pytest.skip("this user may read every file")

    ended = bpc.run("verify", "/dev/null", "--keys", str(secret))

    assert ended.code == 2
    assert "is not readable" in ended.err


def test_what_a_table_holds_is_one_line_for_other_programs(installation: Installation) -> None:
    long = "x" * 300

    installation.bpc.run_ok("tenant", "create", "long-name", "--name", f"{long}\x1b[31m")
    (row,) = [
        line for line in installation.bpc.run_ok("tenant", "list").out.split("\n") if line.startswith("long-name")
    ]

    assert rf"{long}\x1b[31m " in row
    assert row.split()[3] == "yes"


def run_python(bpc: Program, code: str, *arguments: str) -> RunResult:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=bpc.environment(), check=False)
    return RunResult(done.returncode, done.stdout, done.stderr)


def run_in_bash(bpc: Program, option: str) -> str:
    """Run it below a shell, which it recognises; `true` keeps the shell from giving way to it."""
    command = ["bash", "-c", f'"{sys.executable}" -m bpc {option}; true']
    done = subprocess.run(command, capture_output=True, text=True, env=bpc.environment(), check=False)
    assert done.stderr == ""
    return done.stdout

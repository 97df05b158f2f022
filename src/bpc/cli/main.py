"""`bpc`: the commands, and how each of them ends.

    arguments ─► the one command that was named is imported and run ─► exit code

A refusal prints its code first and exits as the table of codes says; a bug exits 70 with its correlation id, and
the trace goes to the log, not to the person. Every command is the file of its name, whose `app` it is; importing
them all would make `bpc canonicalize` wait for a database driver.
"""

import errno
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand
from typer.main import get_command

from bpc import __version__
from bpc.cli.flags import QuickGroup
from bpc.cli.output import INTERRUPTED, OUR_BUG, REFUSED, WRONG_USAGE, Refusing, exit_code, print_refusal

# What `bpc --help` shows. A test keeps each line equal to the first line of the command's own help.
COMMANDS: Final[Mapping[str, Mapping[str, str]]] = {
    "Try it and run it": {
        "demo": "Show what bpc does, printed as it goes.",
        "up": "Start everything that runs and stay until Ctrl-C.",
        "api": "Serve the API alone and stay until Ctrl-C.",
        "worker": "Run jobs and stay until Ctrl-C.",
        "jobs": "List, watch, retry and cancel jobs.",
        "doctor": "Find out what is wrong with this installation.",
    },
    "Set it up": {
        "migrate": "Bring the database's tables up to date.",
        "seed": "Register the signing key; outside prod, make a tenant.",
        "tenant": "Create, list, deactivate and reactivate tenants.",
        "apikey": "Create, list and revoke API keys.",
        "keys": "List, add and retire signing keys.",
        "audit": "Verify the audit log, or sign where it stands.",
        "retention": "Remove what has outlived its time, or stop that.",
        "backup": "Back up everything that is stored.",
        "restore": "Restore a backup into an empty place and check it.",
    },
    "Over the API": {
        "upload": "Upload a document over the API.",
        "passports": "Compile passports of many products at once, over the API.",
        "bundle": "Fetch the bundle of a passport version over the API.",
        "get": "Get anything from the API, printed as it is.",
    },
    "Without a database": {
        "template": "Write the file that a supplier fills in.",
        "rules": "Check, format, test, try out and publish rules.",
        "compile": "Compile a passport from files.",
        "verify": "Check a bundle or a view, step by step.",
        "view": "Show one audience its part of a passport, checkably.",
        "export": "Print a passport, or write it in another form.",
        "keygen": "Make a new signing key.",
        "canonicalize": "Write the canonical bytes of a JSON document.",
        "why": "Tell how a field came to its value.",
    },
}
# How writing to a stream fails that has nowhere to put it. Files we open ourselves are refused where they are written.
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
EPILOG: Final = (
    "Settings are environment variables; docs/configuration.md lists them.\n\n"
    "Exit codes: 0 done, 1 refused or a check failed, 2 wrong usage, 69 something is unavailable, 70 a bug of bpc, "
    "78 configuration."
)


class Commands(QuickGroup):
    """Lists every command without importing it; the one that is run, or completed, is imported then."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for section in COMMANDS.values():
            for name, summary in section.items():
                self.add_command(TyperCommand(name, help=summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, None if listed is None else loaded(str(listed.name)), rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (typer's signature)
        width = max(len(name) for section in COMMANDS.values() for name in section)
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in section.items()])


def loaded(name: str) -> Any:
    """The command `name`, from the file of that name."""
    return get_command(importlib.import_module(f"bpc.cli.{name}").app)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bpc {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    help="Battery Passport Compiler: supplier documents in, signed EU battery passports that anyone can check out.\n\n"
    "Start with `bpc demo`, then `bpc up`. Every command takes --help, and those that report something take --json.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def everything(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of `bpc` itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    _print_anything()
    try:
        return _run(given, as_json=as_json)
    except BrokenPipeError:  # whoever read our output has heard enough
        _print_no_more()
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(given: Sequence[str], *, as_json: bool) -> int:
    try:
        code = get_command(app).main(args=given, prog_name="bpc", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.TyperException as wrong:
        return _wrong_usage(wrong, as_json=as_json)
    except Exception as error:  # noqa: BLE001 (the last line of defence: a person gets a sentence, the log the trace)
        if isinstance(error, Refusing):
            print_refusal(error.code, error.says, error.fix, error.details, as_json=as_json)
            return exit_code(error.code)
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
            return _not_printed(error)
        return _our_bug(error, as_json=as_json)


def _print_anything() -> None:
    """A name that the terminal's encoding cannot show is shown escaped; it does not end the program."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _print_no_more() -> None:
    """For the flush at the very end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _not_printed(failed: OSError) -> int:
    """What reads our output cannot take it, a full disk for one: only standard error is left to say so."""
    _print_no_more()
    says = f"the output cannot be written: {failed.strerror}"
    print_refusal("VALIDATION_ERROR", says, "make room where it goes to", {}, as_json=False)
    return REFUSED


def _wrong_usage(wrong: typer.TyperException, *, as_json: bool) -> int:
    says = wrong.format_message()
    if says.startswith("Usage:"):  # no command was named: the help is the answer
        typer.echo(says, err=True)
        return WRONG_USAGE
    command = getattr(getattr(wrong, "ctx", None), "command_path", "bpc")
    says = says.removeprefix("Invalid value: ").replace("Value error, ", "").rstrip(".")
    sentence = says[:1].lower() + says[1:]
    print_refusal("VALIDATION_ERROR", sentence, f"`{command} --help` shows how it is called", {}, as_json=as_json)
    return WRONG_USAGE


def _our_bug(error: Exception, *, as_json: bool) -> int:
    from bpc.cli import bug  # noqa: PLC0415 (logging is slow to import, and there is hardly ever a bug)

    reference = bug.logged(error)
    print_refusal(
        "INTERNAL_ERROR",
        f"bpc made a mistake; the log has the trace under correlation id {reference}",
        "report it together with that trace",
        {"correlation_id": reference},
        as_json=as_json,
    )
    return OUR_BUG

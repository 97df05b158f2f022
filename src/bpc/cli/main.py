"""`bpc`: the list of commands, and the exit code of each.

    arguments ─► import and run the one command ─► exit code

A refusal prints its code first and exits as the table of codes says; a bug exits 70 with its correlation id, and
the trace goes to the log. `COMMANDS` says where each command is; only that module is imported, so that
`bpc canonicalize` does not load a database driver.
"""

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand
from typer.main import get_command

from bpc import __version__
from bpc.cli.support.arguments import QuickGroup, import_command
from bpc.cli.support.output import (
    INTERNAL_ERROR,
    INTERRUPTED,
    REFUSED,
    USAGE,
    WRONG_USAGE,
    RefusalLike,
    choose_exit_code,
    find_fix,
    print_refusal,
)

# The sections of `bpc --help`. For each command: its module and the function or app in it, and its line of the help,
# which a test keeps equal to the first line of the command's own help.
COMMANDS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Try it and run it": {
        "demo": ("run.demo:run_demo", "Show all eight steps with an example battery."),
        "up": ("run.up:start_all", "Start the database, the API and workers; run until Ctrl-C."),
        "api": ("run.api:serve_api", "Run only the API until Ctrl-C."),
        "worker": ("run.worker:start_worker", "Run a worker until Ctrl-C."),
        "signer": ("run.signer:start_signer", "Run the process that holds private keys until Ctrl-C."),
        "jobs": ("run.jobs:jobs_app", "List, watch, retry and cancel jobs."),
        "doctor": ("run.doctor:examine_installation", "Check this installation for problems."),
    },
    "Set it up": {
        "migrate": ("setup.database:migrate_tables", "Bring the database's tables up to date."),
        "seed": ("setup.seed:seed_installation", "Register the signing key; outside prod, create a tenant."),
        "tenants": (
            "setup.access:tenant_app",
            "Create, list, deactivate and reactivate tenants; show and change settings.",
        ),
        "apikeys": ("setup.access:apikey_app", "Create, list and revoke API keys."),
        "console": ("setup.console:console_app", "Make a link that signs in to the console."),
        "keys": ("setup.signing_keys:keys_app", "List, create, add and retire signing keys."),
        "audit": ("setup.audit:audit_app", "Verify the audit log, or write a signed checkpoint."),
        "log": ("setup.transparency_log:log_app", "Audit, prove, serve and witness the transparency log."),
        "retention": ("setup.retention:retention_app", "Delete data whose retention period is over."),
        "backup": ("setup.database:back_up", "Back up everything that is stored."),
        "restore": ("setup.database:restore", "Restore a backup into an empty database and check it."),
    },
    "Over the API": {
        "upload": ("online.transfer:upload", "Upload documents over the API."),
        "documents": (
            "online.documents:documents_app",
            "List and show documents; correct and withdraw what they say.",
        ),
        "facts": ("online.facts:facts_app", "List and show facts: what was read from documents, each with its place."),
        "suppliers": ("online.suppliers:suppliers_app", "List, add and change who sends documents."),
        "products": ("online.products:products_app", "Find, rename, deactivate and reactivate products."),
        "batteries": (
            "online.batteries.item_commands:batteries_app",
            "Register batteries, issue their passports, find them, print labels, send readings, end their lives.",
        ),
        "attachments": ("online.attachments:attachments_app", "Attach files to data points of products."),
        "snapshots": (
            "online.snapshots:snapshots_app",
            "Create, list and show snapshots: what was known at a time.",
        ),
        "passports": (
            "online.passports:passports_app",
            "Show, compile, check, activate, compare, explain, replay and revoke passports.",
        ),
        "runs": (
            "online.compile_runs:runs_app",
            "List, show and cancel runs, each of which compiles passports for many products.",
        ),
        "webhooks": (
            "online.webhooks:webhooks_app",
            "Where events are sent: list, add, test and disable endpoints; send again what failed.",
        ),
        "approvals": (
            "setup.approvals:approvals_app",
            "List, confirm and reject what waits for a second person.",
        ),
        "grants": (
            "setup.view_grants:grants_app",
            "Grant others the view of an audience; answer who asks for it, and see what they read.",
        ),
        "granted": (
            "setup.granted:granted_app",
            "Fetch what a grant lets you read, with the code that the issuer sent you.",
        ),
        "listen": ("online.listen:listen", "Print events as they happen, or forward them to a local URL."),
        "bundle": ("online.transfer:fetch_bundle", "Download a passport version as a bundle."),
        "get": ("online.transfer:get_path", "Send a GET request to the API and print the answer."),
    },
    "Without a database": {
        "template": ("offline.template:write_template", "Write an empty form for suppliers."),
        "check": (
            "offline.check:check_files",
            "Say what is wrong in files, cell by cell; exit 1 if there is an error.",
        ),
        "rules": ("offline.rules:rules_app", "Check, format, test, try out and publish rules."),
        "compile": ("offline.compile:compile_files", "Compile a passport from files."),
        "verify": ("offline.verify:verify", "Check a bundle or a view, step by step."),
        "view": ("offline.bundles:write_view", "Write the part of a passport that one audience may see."),
        "export": ("offline.bundles:write_export", "Export a passport as PDF, JSON-LD, XML or a table."),
        "keygen": ("setup.signing_keys:generate_key", "Generate a new signing key."),
        "page": ("offline.pages:page_app", "Export the public page of a passport."),
        "canonicalize": ("offline.canonicalize:canonicalize_app", "Write JSON in canonical form: one exact spelling."),
        "why": ("offline.bundles:print_explanation", "Explain how a field got its value, or what a finding is about."),
        "diff": ("offline.differences:print_difference", "Show what differs between two passports, and why."),
    },
}
# Nouns are plural. The singular, which reads better with one thing, is accepted and not listed.
SINGULARS: Final[Mapping[str, str]] = {
    name.removesuffix("s"): name
    for section in COMMANDS.values()
    for name, (place, _) in section.items()
    if name.endswith("s") and place.endswith("_app")
}
# Errors of a stream whose disk is full. Files that we open ourselves are refused where they are written.
OUTPUT_FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
EPILOG: Final = (
    "Settings are environment variables; docs/configuration.md lists them.\n\n"
    "Exit codes: 0 done, 1 refused or a check failed, 2 wrong usage, 69 something is unavailable, 70 internal error, "
    "78 configuration."
)


class CommandGroup(QuickGroup):
    """Lists every command without importing it; the one that is run, or completed, is imported then."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for section in COMMANDS.values():
            for name, (_, summary) in section.items():
                self.add_command(TyperCommand(name, help=summary))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, SINGULARS.get(cmd_name, cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, placeholder, remaining = super().resolve_command(ctx, args)
        if placeholder is None:
            return name, None, remaining
        return placeholder.name, load_command(str(placeholder.name)), remaining

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (typer's signature)
        width = max(len(name) for section in COMMANDS.values() for name in section)
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in section.items()])


def load_command(name: str) -> Any:
    """Import the module of the command `name` and return the command."""
    return import_command(next(section[name][0] for section in COMMANDS.values() if name in section))


def _show_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"bpc {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=CommandGroup,
    help="Battery Passport Compiler: turns supplier documents into signed EU battery passports that anyone can verify."
    "\n\n"
    "Start with `bpc demo`, then `bpc up`. Every command has --help; commands that report something have --json.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def accept_global_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of `bpc` itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    argument_list = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in argument_list
    _escape_unprintable()
    try:
        return _run_command(argument_list, as_json=as_json)
    except BrokenPipeError:  # the reader of our output closed it, for example `| head`
        _discard_output()
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED


def _run_command(arguments: Sequence[str], *, as_json: bool) -> int:
    try:
        code = get_command(app).main(args=arguments, prog_name="bpc", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.TyperException as wrong:
        return _report_wrong_usage(wrong, as_json=as_json)
    except Exception as error:  # noqa: BLE001 (the last line of defence: a person gets a sentence, the log the trace)
        if isinstance(error, RefusalLike):
            print_refusal(error.code, error.says, find_fix(error), error.details, as_json=as_json)
            return choose_exit_code(error.code)
        if isinstance(error, OSError) and error.errno in OUTPUT_FULL_ERRORS and error.filename is None:
            return _report_full_output(error)
        return _report_bug(error, as_json=as_json)


def _escape_unprintable() -> None:
    """Escape characters that the terminal's encoding does not have, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """So that Python's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_full_output(error: OSError) -> int:
    """Standard output cannot be written, for example to a full disk: say so on standard error."""
    _discard_output()
    says = f"the output cannot be written: {error.strerror}"
    print_refusal("VALIDATION_ERROR", says, "free some space there", {}, as_json=False)
    return REFUSED


def _report_wrong_usage(wrong: typer.TyperException, *, as_json: bool) -> int:
    says = wrong.format_message()
    if says.startswith("Usage:"):  # no command: print the help
        typer.echo(says, err=True)
        return WRONG_USAGE
    command = getattr(getattr(wrong, "ctx", None), "command_path", "bpc")
    # A list of choices comes in lines of its own: one sentence has one line.
    says = " ".join(says.removeprefix("Invalid value: ").replace("Value error, ", "").split()).rstrip(".")
    sentence = says[:1].lower() + says[1:]
    print_refusal(USAGE, sentence, f"see `{command} --help`", {}, as_json=as_json)
    return WRONG_USAGE


def _report_bug(error: Exception, *, as_json: bool) -> int:
    from bpc.cli.support import session  # noqa: PLC0415 (logging is slow to import)

    reference = session.log_bug(error)
    print_refusal(
        "INTERNAL_ERROR",
        f"internal error in bpc; the log has the details under correlation id {reference}",
        "please report it with those log lines",
        {"correlation_id": reference},
        as_json=as_json,
    )
    return INTERNAL_ERROR

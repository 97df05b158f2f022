"""Arguments and options that several commands share, and how a command is declared.

Nothing here is slow to import: `bpc canonicalize` and `bpc rules check` load this module too.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final, ParamSpec, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from bpc.core.errors import Invalid

P = ParamSpec("P")
T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

LOCAL_API_URL: Final = "http://127.0.0.1:8080"
LONGEST_SUMMARY: Final = 400

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help=f"Address of the API [default: BPC_URL, else the running `bpc up`, else {LOCAL_API_URL}].",
    ),
]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Maximum number to show.")]
HostOption = Annotated[
    str | None,
    typer.Option("--host", metavar="HOST", help="Address to listen on [default: BPC_HTTP_HOST, else 127.0.0.1]."),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        min=0,
        max=65_535,
        help="Port of the API [default: BPC_HTTP_PORT]. 0 means any free port.",
    ),
]
ChannelOption = Annotated[
    int | None, typer.Option("--line", hidden=True, help="Descriptor of the channel to the parent process.")
]


def require_utf8(name: str, text: str) -> str:
    """Return `text`; refuse bytes that are not UTF-8, which the database cannot store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{name} is not UTF-8 text", fix="check the encoding of the terminal") from None
    return text


def make_utf8_check(name: str) -> Callable[[str | None], str | None]:
    """The same check as the callback of an option."""
    return lambda text: None if text is None else require_utf8(name, text)


check_slug = make_utf8_check("the slug")

TenantOption = Annotated[
    str, typer.Option("--tenant", metavar="SLUG", help="The tenant's short name.", callback=check_slug)
]
AnyTenantOption = Annotated[
    str | None,
    typer.Option("--tenant", metavar="SLUG", help="One tenant [default: all tenants].", callback=check_slug),
]


class AsyncTyper(typer.Typer):
    """An app whose commands may be `async def`."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Command], Command]:
        add_command = super().command(name, **options)

        def add(function: Command) -> Command:
            add_command(_run_in_loop(function) if inspect.iscoroutinefunction(function) else function)
            return function

        return add


def _run_in_loop(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    @functools.wraps(function)  # typer reads the parameters
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio  # noqa: PLC0415 (slow to import)

        return asyncio.run(function(*args, **kwargs))

    return run


def single_command(function: Callable[..., object]) -> typer.Typer:
    """An app with one command, which takes its name from `bpc.cli.main`."""
    app = AsyncTyper(add_completion=False, rich_markup_mode=None)
    app.command()(function)
    return app


def command_group(help_text: str) -> typer.Typer:
    """An app with several commands."""
    return AsyncTyper(
        help=help_text, cls=CommandList, no_args_is_help=True, add_completion=False, rich_markup_mode=None
    )


class CommandList(TyperGroup):
    """A group whose help has the whole first sentence of each command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        width = max(len(name) for name, _ in commands)
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name.ljust(width), command.get_short_help_str(limit=LONGEST_SUMMARY))
                    for name, command in commands
                    if command is not None
                ]
            )


class FalseFlags:
    """Mixed into a command or a group: a flag that is left out is False, without typer's slow conversion."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.default is None and getattr(param, "is_flag", False):
                param.default = False
        return params


class QuickCommand(FalseFlags, TyperCommand):
    """A command whose arguments and options need no conversion."""


class QuickGroup(FalseFlags, TyperGroup):
    """A group whose options need no conversion, so that commands start fast."""

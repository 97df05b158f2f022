"""Arguments and options that several commands share, and how a command is declared.

Nothing here is slow to import: `bpc canonicalize` and `bpc rules check` load this module too.
"""

import functools
import gc
import importlib
import inspect
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

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
        add_command = super().command(name, **{"cls": QuickCommand, **options})

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


def single_command(function: Callable[..., object], **options: Any) -> typer.Typer:
    """An app with one command, which takes its name from `bpc.cli.main`."""
    app = AsyncTyper(add_completion=False, rich_markup_mode=None)
    app.command(**options)(function)
    return app


def import_command(place: str) -> Any:
    """Import the module of a command and return the command; `place` is `offline.rules_check:check_app`."""
    module, _, attribute = place.partition(":")
    # What an import makes stays. To look for garbage in it takes a fifth of the time of the import, and goes on for as
    # long as the process runs.
    gc.disable()
    try:
        command = getattr(importlib.import_module(f"bpc.cli.{module}"), attribute)
    finally:
        gc.freeze()
        gc.enable()
    return get_command(command if isinstance(command, typer.Typer) else single_command(command))


def imported_group(help_text: str, places: Mapping[str, str]) -> typer.Typer:
    """An app with several commands, each in a module that is imported when it is run, or when all are shown."""

    class ImportedCommandList(FalseFlags, CommandList):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands = ImportedCommands(places)  # type: ignore[assignment] # typer only reads it

    app = typer.Typer(
        help=help_text, cls=ImportedCommandList, no_args_is_help=True, add_completion=False, rich_markup_mode=None
    )
    app.callback()(lambda: None)
    return app


class ImportedCommands(Mapping[str, Any]):
    """Commands by name, imported when they are asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> Any:
        command = import_command(self._places[name])
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


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
    """A command whose texts and paths are taken as they are; typer converts the rest, and takes long to import."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        for param in params:
            make = _QUICK_KINDS.get(param.type_descriptor.annotation)
            if make is not None and not _has_demands(param.type_descriptor.parameter_info):
                param.get_runtime_param = functools.partial(_QuickParam, make, param.get_runtime_param)
        return params


def _has_demands(info: Any) -> bool:
    """Whether typer is asked to look at the value, and not only to hand it over."""
    return bool(
        info.parser or info.exists or info.writable or info.resolve_path or info.allow_dash or info.path_type
    ) or not (info.file_okay and info.dir_okay)


def _take_text(text: str) -> str | None:
    return text


def _take_path(text: str) -> Path | None:
    """None for what is there and cannot be read: typer says what is wrong with it."""
    return Path(text) if os.access(text, os.R_OK) or not os.path.lexists(text) else None


_QUICK_KINDS: Final[Mapping[Any, Callable[[str], str | Path | None]]] = {
    str: _take_text,
    str | None: _take_text,
    list[str]: _take_text,
    list[str] | None: _take_text,
    Path: _take_path,
    Path | None: _take_path,
    list[Path]: _take_path,
    list[Path] | None: _take_path,
}


class _QuickParam:
    """Gives texts and paths as they are, as typer would after importing much."""

    def __init__(self, take: Callable[[str], str | Path | None], get_typers_own: Callable[[], Any]) -> None:
        self._take = take
        self._get_typers_own = get_typers_own

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_list = param.multiple or param.nargs == -1
        if value is None:
            return () if is_list else None
        texts = value if is_list and not isinstance(value, str) else [value]
        taken = [self._take(text) if isinstance(text, str) else None for text in texts]
        if isinstance(value, str) == is_list or None in taken:
            return self._get_typers_own().coerce(value, param=param, ctx=ctx)
        return taken if is_list else taken[0]


class QuickGroup(FalseFlags, TyperGroup):
    """A group whose options need no conversion, so that commands start fast."""

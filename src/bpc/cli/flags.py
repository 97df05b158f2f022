"""Flags that are False when they are not given, for commands that should answer at once.

typer leaves its own flags (--help, --install-completion) None and imports pydantic to convert whatever is not a
bool already. That takes longer than everything else `bpc canonicalize` does.
"""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class PlainFlags:
    """Mixed into a command or a group."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.default is None and getattr(param, "is_flag", False):
                param.default = False
        return params


class QuickCommand(PlainFlags, TyperCommand):
    """A command without converted arguments or options."""


class QuickGroup(PlainFlags, TyperGroup):
    """A group that costs its commands nothing."""

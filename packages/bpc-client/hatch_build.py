# ruff: noqa: INP001 (beside the package, not in it)
"""Build hook: write the modules that are generated from openapi.json, in a wheel and in an editable install."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GenerateClient(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before the wheel is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (hatchling calls it)
        sys.path.insert(0, self.root)
        try:
            from client_generator import generate  # noqa: PLC0415 (a file beside this one, not of an installed package)
        finally:
            sys.path.remove(self.root)
        build_data["artifacts"] += [str(path.relative_to(Path(self.root).resolve())) for path in generate()]

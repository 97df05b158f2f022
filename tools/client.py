"""Write packages/bpc-client/openapi.json from the application, then generate the client's modules from it."""

import json
import sys
from pathlib import Path
from typing import Any, Final

from bpc.api.http.app import create_app

PACKAGE: Final = Path(__file__).parent.parent / "packages" / "bpc-client"
sys.path.insert(0, str(PACKAGE))  # the generator is part of the package's source, not of the installed package

from client_generator import DOCUMENT, generate  # noqa: E402


def format_document() -> str:
    """The OpenAPI document as the application serves it, with a line for each path and each schema."""
    return _format_object(create_app().openapi(), ("paths", "webhooks", "components", "schemas")) + "\n"


def _format_object(value: dict[str, Any], opened: tuple[str, ...], indent: str = " ") -> str:
    """JSON with a line for each member; the members named in `opened` get a line for each of theirs."""
    lines = [
        f"{indent}{json.dumps(name)}: "
        + (_format_object(member, opened, indent + " ") if name in opened else json.dumps(member, ensure_ascii=False))
        for name, member in value.items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent[1:]}}}"


def main() -> None:
    DOCUMENT.write_text(format_document(), encoding="utf-8")
    generate()


if __name__ == "__main__":
    main()

"""Write `docs/openapi.yaml`: the OpenAPI document as the application serves it."""

from pathlib import Path
from typing import Final

import yaml

from bpc.api.http.app import create_app

TARGET: Final = Path(__file__).parent.parent / "docs" / "openapi.yaml"


class PlainDumper(yaml.CSafeDumper):
    """Without anchors: what is the same twice is written twice."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _write_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    # Readers of YAML 1.1 take `0952` for a text, because of its 9; those of 1.2 take it for a number.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if text.isdecimal() else None)


PlainDumper.add_representer(str, _write_text)


def format_document() -> str:
    """The document, in the order the application gives it."""
    return yaml.dump(create_app().openapi(), Dumper=PlainDumper, sort_keys=False, allow_unicode=True, width=120)


def main() -> None:
    TARGET.write_text(format_document(), encoding="utf-8")


if __name__ == "__main__":
    main()

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


def format_document() -> str:
    """The document, in the order the application gives it."""
    return yaml.dump(create_app().openapi(), Dumper=PlainDumper, sort_keys=False, allow_unicode=True, width=120)


def main() -> None:
    TARGET.write_text(format_document(), encoding="utf-8")


if __name__ == "__main__":
    main()

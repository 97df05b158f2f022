"""Write `.env.example` and `docs/configuration.md` from the settings model."""

from pathlib import Path

from bpc.settings.reference import env_example, markdown

ROOT = Path(__file__).parent.parent


def main() -> None:
    (ROOT / ".env.example").write_text(env_example(), encoding="utf-8")
    (ROOT / "docs" / "configuration.md").write_text(markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()

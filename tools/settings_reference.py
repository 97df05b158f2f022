"""Write `.env.example` and `docs/configuration.md` from the settings model, so that they cannot differ from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from bpc.runtime.settings.model import VARIABLES, Settings
from bpc.runtime.settings.value_types import describe_type

ROOT: Final = Path(__file__).parent.parent
# The first setting of each section, in the model's order.
SECTIONS: Final = {
    "signer_address": "Signer",
    "console_idle_minutes": "Console",
    "env": "Process",
    "http_host": "API",
    "database_url": "Database",
    "signing_ed25519_private_key_base64": "Keys",
    "worker_id": "Worker and jobs",
    "queue_enabled": "RabbitMQ",
    "payload_max_bytes": "Limits of a passport",
    "retention_events_days": "Retention",
    "log_level": "Logs and metrics",
}

PAGE_INTRODUCTION: Final = """\
# Configuration

Every setting is an environment variable, read once at the start. In `dev` and `test` a file `.env` in the
current folder is read too (`.env.example` is a start); the environment wins over it, and `prod` does not read
it. An empty value counts as not set. All missing or wrong settings are reported in one error, by name and never
by value; a name that is similar to one of these is reported as a warning.

`prod` needs `BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64`, `BPC_API_KEY_PEPPER_BASE64`, and `BPC_DB_PASSWORD` or
`DATABASE_URL`. In `dev` and `test` key and pepper are generated at the first start and stored in the folder
`keys` of the data folder, readable by its owner only.

Without `DATABASE_URL` and `BPC_DB_HOST` the embedded PostgreSQL is used, even where another one listens on
localhost.

## Production

With `BPC_ENV=prod`, `bpc up`, `bpc api` and `bpc worker` do not start, and `bpc doctor` fails, with:

| what | instead |
|---|---|
| a signing key that is published in a standard or in our tests, or that is a text | `bpc keygen` |
| a pepper of fewer than 32 bytes, or one that is not random | `openssl rand -base64 32` |
| a password of the database or of RabbitMQ that everybody tries first | a random one |
| a remote database without TLS | `sslmode=verify-full`, or `plaintext-database` in `BPC_PROD_ALLOW` |
| a login that passes row-level security, as superusers do | [a plain login](database.md), or `superuser-database` |
| the embedded PostgreSQL | `DATABASE_URL`, or `embedded-database` |

This page is made from the code: `python tools/settings_reference.py` writes it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingEntry:
    """One line of the reference. `default` is the value to write, `default_text` the text for readers."""

    section: str
    name: str
    kind: str
    default: str
    default_text: str
    description: str


def list_settings() -> tuple[SettingEntry, ...]:
    """Every setting, in the order of the model."""
    return tuple(_iter_settings())


def write_env_example() -> str:
    """`.env.example`: everything commented out, so that copying it changes nothing."""
    lines = ["# Copy to .env (read in dev and test only) and uncomment what you change. Made from the code."]
    section = ""
    for setting in list_settings():
        if setting.section != section:
            section = setting.section
            lines += ["", f"## {section}"]
        lines += ["", f"# {setting.description}", f"# {setting.name}={setting.default}"]
    return "\n".join(lines) + "\n"


def write_markdown() -> str:
    """`docs/configuration.md`: a table per section."""
    lines = [PAGE_INTRODUCTION.rstrip()]
    section = ""
    for setting in list_settings():
        if setting.section != section:
            section = setting.section
            lines += [
                "",
                f"## {section}",
                "",
                "| name | type | default | what it does |",
                "|---|---|---|---|",
            ]
        lines.append(f"| `{setting.name}` | {setting.kind} | {setting.default_text} | {setting.description} |")
    return "\n".join(lines) + "\n"


def _iter_settings() -> Iterator[SettingEntry]:
    section = ""
    for name, field in VARIABLES.items():
        info = Settings.model_fields[field]
        section = SECTIONS.get(field, section)
        default = _format_default(info)
        yield SettingEntry(
            section=section,
            name=name,
            kind=describe_type(info).removeprefix("a "),
            default=default,
            default_text=_describe_default(info) or (f"`{default}`" if default else ""),
            description=info.description or "",
        )


def _describe_default(info: FieldInfo) -> str:
    """The default in words, where it is not the same everywhere."""
    extra = info.json_schema_extra
    return str(extra["default"]) if isinstance(extra, dict) else ""


def _format_default(info: FieldInfo) -> str:
    if _describe_default(info):
        return ""
    value = info.default.get_secret_value() if isinstance(info.default, SecretStr) else info.default
    if value is None or value == ():
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> None:
    (ROOT / ".env.example").write_text(write_env_example(), encoding="utf-8")
    (ROOT / "docs" / "configuration.md").write_text(write_markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The reference: `.env.example` and `docs/configuration.md`, made from the model, so they cannot drift."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from bpc.settings.kinds import expected
from bpc.settings.model import VARIABLES, Settings

# The first setting of each section, in the model's order.
SECTIONS: Final = {
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

INTRODUCTION: Final = """\
# Configuration

Every setting is an environment variable, read once at the start. In `dev` and `test` a file `.env` in the
current folder is read too (`.env.example` is a start); the environment wins over it, and `prod` does not read
it. An empty value counts as not set. Whatever is missing or wrong is reported in one error, by name and never
by value; a name that is nearly one of these is reported as a warning.

`prod` needs `BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64`, `BPC_API_KEY_PEPPER_BASE64`, and `BPC_DB_PASSWORD` or
`DATABASE_URL`. In `dev` and `test` key and pepper are made at the first start and kept in the folder `keys`
of the data folder, readable by its owner only.

Without `DATABASE_URL` and `BPC_DB_HOST` the embedded PostgreSQL is used, even where another one listens on
localhost.

This page is made from the code: `python tools/settings_reference.py` writes it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One line of the reference. `default` is what to write to get it, `shown` how a reader is told of it."""

    section: str
    name: str
    kind: str
    default: str
    shown: str
    description: str


def reference() -> tuple[Setting, ...]:
    """Every setting, in the order of the model."""
    return tuple(_settings())


def env_example() -> str:
    """`.env.example`: everything commented out, so that copying it changes nothing."""
    lines = ["# Copy to .env (read in dev and test only) and uncomment what you change. Made from the code."]
    section = ""
    for setting in reference():
        if setting.section != section:
            section = setting.section
            lines += ["", f"## {section}"]
        lines += ["", f"# {setting.description}", f"# {setting.name}={setting.default}"]
    return "\n".join(lines) + "\n"


def markdown() -> str:
    """`docs/configuration.md`: a table per section."""
    lines = [INTRODUCTION.rstrip()]
    section = ""
    for setting in reference():
        if setting.section != section:
            section = setting.section
            lines += [
                "",
                f"## {section}",
                "",
                "| name | type | default | what it does |",
                "|---|---|---|---|",
            ]
        lines.append(f"| `{setting.name}` | {setting.kind} | {setting.shown} | {setting.description} |")
    return "\n".join(lines) + "\n"


def _settings() -> Iterator[Setting]:
    section = ""
    for name, field in VARIABLES.items():
        info = Settings.model_fields[field]
        section = SECTIONS.get(field, section)
        default = _default(info)
        yield Setting(
            section=section,
            name=name,
            kind=expected(info).removeprefix("a "),
            default=default,
            shown=_told(info) or (f"`{default}`" if default else ""),
            description=info.description or "",
        )


def _told(info: FieldInfo) -> str:
    """The default in words, where it is not the same everywhere."""
    extra = info.json_schema_extra
    return str(extra["default"]) if isinstance(extra, dict) else ""


def _default(info: FieldInfo) -> str:
    if _told(info):
        return ""
    value = info.default.get_secret_value() if isinstance(info.default, SecretStr) else info.default
    if value is None or value == ():
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Load: the environment in, checked settings out, or every gap named at once.

    environ ─┐                  ┌─► Settings (with warnings)
             ├─► load ──────────┤
    .env ────┘ (dev, test only) └─► ConfigMissing(problems)

The environment is read here and nowhere else, once. What is set there wins over `.env`; an empty value counts
as not set. No value is ever repeated in an error.
"""

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, DotEnvSettingsSource

from bpc.settings.data_dir import default_data_dir, home
from bpc.settings.kinds import expected
from bpc.settings.model import VARIABLES, Settings, variable_of
from bpc.settings.problems import READ_MORE, ConfigMissing, Problem

DATA_DIR: Final = variable_of("data_dir")
BUILD_ID: Final = variable_of("compiler_build_id")
PASSWORD: Final = variable_of("db_password")
DATABASE: Final = variable_of("db_name")
PATHS: Final = (DATA_DIR, variable_of("signing_keys_dir"))

# They start like ours and are not settings: those of commands that ask an API, our tests' own, and what Kubernetes sets
# for a service `bpc-…`.
FOREIGN: Final = re.compile(
    r"BPC_URL|BPC_API_KEY|BPC_EFFORT|BPC_TEST_\w+|BPC_\w+_SERVICE_(HOST|PORT\w*)|BPC_\w+_PORT_\d+_\w+"
)
SERVICE_URL: Final = ("tcp://", "udp://")
SERVER: Final = tuple(variable_of(f"db_{part}") for part in ("host", "port", "user", "password", "name", "sslmode"))


def load(environ: Mapping[str, str], *, cwd: Path) -> Settings:
    """The settings of this process.

    Raises `ConfigMissing` with every missing or wrong setting. What only looks like a mistake, such as a name
    that is nearly one of ours, is in `settings.warnings`.
    """
    dotenv, problems = _dotenv(environ, cwd)
    given = {**_present(dotenv), **_present(environ)}
    problems += _place(given, environ, cwd)
    checked = _checked(given)
    if isinstance(checked, Settings) and not problems:
        return checked.model_copy(update={"warnings": tuple(_warnings(checked, {**dotenv, **environ}))})
    if not isinstance(checked, Settings):
        problems += checked
    raise ConfigMissing(problems, fix=f"set them in the environment{_or_dotenv(given)}; {READ_MORE}")


class _File(BaseSettings):
    """Only tells the parser that there are no fields: the file is read as it is."""


def _dotenv(environ: Mapping[str, str], cwd: Path) -> tuple[Mapping[str, str], list[Problem]]:
    """The variables of `.env`, a convenience of dev and test: prod takes nothing from the current folder."""
    name = variable_of("env")
    if environ.get(name, "").strip() not in {"", "dev", "test"}:
        return {}, []
    try:
        found = DotEnvSettingsSource(_File, env_file=cwd / ".env", case_sensitive=True).env_vars
    except (OSError, UnicodeDecodeError):
        return {}, [Problem(name=".env", sentence="`.env` in the current folder cannot be read as UTF-8 text")]
    values = {key: value for key, value in found.items() if value is not None}
    if values.get(name, "").strip() == "prod" and not environ.get(name):
        says = f"`{name}` cannot be `prod` in `.env`, which is not read in prod: set it in the environment"
        return values, [Problem(name=name, sentence=says)]
    return values, []


def _present(source: Mapping[str, str]) -> dict[str, str]:
    """Our variables that have a value, without the white space that files and secret stores leave."""
    ours = {name: _trimmed(name, value) for name, value in source.items() if name in VARIABLES}
    # An empty build id is kept: prod refuses it instead of taking the default.
    return {name: value for name, value in ours.items() if value or name == BUILD_ID}


def _trimmed(name: str, value: str) -> str:
    return value.rstrip("\r\n") if name == PASSWORD else value.strip()


def _place(given: dict[str, str], environ: Mapping[str, str], cwd: Path) -> list[Problem]:
    """Make the paths in `given` absolute and fill in the data folder."""
    try:
        for name in PATHS:
            if name in given:
                given[name] = str(_absolute(given[name], environ, cwd))
        if DATA_DIR not in given:
            given[DATA_DIR] = str(default_data_dir(environ, root=os.geteuid() == 0))
    except ConfigMissing as nowhere:
        given[DATA_DIR] = str(cwd)  # not used: the problem is reported, and the other settings are still checked
        return list(nowhere.problems)
    return []


def _absolute(value: str, environ: Mapping[str, str], cwd: Path) -> Path:
    # `~` in .env has met no shell.
    path = Path(value)
    return home(environ).joinpath(*path.parts[1:]) if path.parts[0] == "~" else cwd / path


def _checked(given: Mapping[str, str]) -> Settings | list[Problem]:
    """Settings, or all problems: those of single fields, and those between the fields that are right."""
    problems = _attempt(given)
    if isinstance(problems, Settings):
        return problems
    wrong = {problem.name for problem in problems}
    rest = _attempt({name: value for name, value in given.items() if name not in wrong - {DATA_DIR}})
    if not isinstance(rest, Settings):
        problems += [problem for problem in rest if wrong.isdisjoint({problem.name, *problem.also})]
    return problems


def _attempt(given: Mapping[str, str]) -> Settings | list[Problem]:
    try:
        return Settings.model_validate(given)
    except ValidationError as wrong:
        errors = wrong.errors(include_url=False, include_input=False)
    # Outside the handler, so that no traceback leads back to an error that saw the values.
    return [problem for error in errors for problem in _problems(error, given)]


def _problems(error: ErrorDetails, given: Mapping[str, str]) -> list[Problem]:
    context = error.get("ctx", {})
    if error["type"] == "contradiction":
        found: list[Problem] = context["problems"]
        return found
    name = str(error["loc"][0])
    words = str(context["error"]) if error["type"] == "value_error" else _must_be(name, given)
    return [Problem(name=name, sentence=f"`{name}` {words}")]


def _must_be(name: str, given: Mapping[str, str]) -> str:
    words = f"must be {expected(Settings.model_fields[VARIABLES[name]])}"
    if name.endswith("_PORT") and given[name].startswith(SERVICE_URL):
        return f"{words}; Kubernetes set it: use `enableServiceLinks: false`"
    return words


def _or_dotenv(given: Mapping[str, str]) -> str:
    return " or in `.env`" if given.get(variable_of("env"), "dev") in {"dev", "test"} else ""


def _warnings(settings: Settings, source: Mapping[str, str]) -> list[str]:
    return [_unknown(name) for name in sorted(source) if _looks_ours(name, source[name])] + _unused(settings)


def _looks_ours(name: str, value: str) -> bool:
    foreign = FOREIGN.fullmatch(name) or (name.endswith("_PORT") and value.startswith(SERVICE_URL))
    return name.startswith("BPC_") and name not in VARIABLES and not foreign


def _unknown(name: str) -> str:
    near = get_close_matches(name, VARIABLES, n=1, cutoff=0.8)
    return f"`{name}` is not a setting and is ignored" + (f"; did you mean `{near[0]}`?" if near else "")


def _unused(settings: Settings) -> list[str]:
    """Parts of a database address that nothing uses: whoever set them expects another database."""
    parts = [name for name in SERVER if VARIABLES[name] in settings.model_fields_set]
    if settings.database_url is not None:
        why = "`DATABASE_URL` is set"
    elif settings.db_host is None:
        why = "without `BPC_DB_HOST` the embedded PostgreSQL is used"
        parts = [name for name in parts if name != DATABASE]  # the embedded server names its database so too
    else:
        parts, why = [], ""
    return [f"{', '.join(f'`{name}`' for name in parts)} ignored: {why}"] if parts else []

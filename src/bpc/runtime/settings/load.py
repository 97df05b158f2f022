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

from bpc.runtime.settings.data_dir import choose_default_data_dir, find_home
from bpc.runtime.settings.model import VARIABLES, Settings, name_variable
from bpc.runtime.settings.problems import READ_MORE, ConfigMissing, SettingProblem
from bpc.runtime.settings.value_types import describe_type

DATA_DIR_VARIABLE: Final = name_variable("data_dir")
BUILD_ID_VARIABLE: Final = name_variable("compiler_build_id")
PASSWORD_VARIABLE: Final = name_variable("db_password")
DATABASE_NAME_VARIABLE: Final = name_variable("db_name")
PRIVATE_KEY_VARIABLES: Final = (
    name_variable("signing_ed25519_private_key_base64"),
    name_variable("tlog_ed25519_private_key_base64"),
)
# What only the signer needs: others get an environment without it.
SIGNER_VARIABLES: Final = frozenset({*PRIVATE_KEY_VARIABLES, name_variable("signer_pkcs11_pin")})
PATH_VARIABLES: Final = (DATA_DIR_VARIABLE, name_variable("signing_keys_dir"))

# They start like ours and are not settings: those of commands that ask an API, our tests' own, and what Kubernetes sets
# for a service `bpc-…`.
FOREIGN_VARIABLE: Final = re.compile(
    r"BPC_URL|BPC_API_KEY|BPC_EFFORT|BPC_TEST_\w+|BPC_\w+_SERVICE_(HOST|PORT\w*)|BPC_\w+_PORT_\d+_\w+"
)
SERVICE_URL_SCHEMES: Final = ("tcp://", "udp://")
SERVER_VARIABLES: Final = tuple(
    name_variable(f"db_{part}") for part in ("host", "port", "user", "password", "name", "sslmode")
)


def load_settings(environ: Mapping[str, str], *, cwd: Path, holds_keys: bool = True) -> Settings:
    """The settings of this process. One that holds no private keys does not read the signing key, and needs none.

    Raises `ConfigMissing` with every missing or wrong setting. What only looks like a mistake, such as a name
    that is nearly one of ours, is in `settings.warnings`.
    """
    dotenv, problems = _read_dotenv(environ, cwd)
    values = {**_keep_present(dotenv), **_keep_present(environ)}
    if not holds_keys:
        for name in PRIVATE_KEY_VARIABLES:
            values.pop(name, None)
    problems += _resolve_paths(values, environ, cwd)
    outcome = _check_all(values, holds_keys=holds_keys)
    if isinstance(outcome, Settings) and not problems:
        return outcome.model_copy(update={"warnings": tuple(_collect_warnings(outcome, {**dotenv, **environ}))})
    if not isinstance(outcome, Settings):
        problems += outcome
    raise ConfigMissing(problems, fix=f"set them in the environment{_mention_dotenv(values)}; {READ_MORE}")


class _DotenvParser(BaseSettings):
    """Only tells the parser that there are no fields: the file is read as it is."""


def _read_dotenv(environ: Mapping[str, str], cwd: Path) -> tuple[Mapping[str, str], list[SettingProblem]]:
    """The variables of `.env`, a convenience of dev and test: prod takes nothing from the current folder."""
    name = name_variable("env")
    if environ.get(name, "").strip() not in {"", "dev", "test"}:
        return {}, []
    try:
        variables = DotEnvSettingsSource(_DotenvParser, env_file=cwd / ".env", case_sensitive=True).env_vars
    except (OSError, UnicodeDecodeError):
        return {}, [SettingProblem(name=".env", sentence="`.env` in the current folder cannot be read as UTF-8 text")]
    values = {key: value for key, value in variables.items() if value is not None}
    if values.get(name, "").strip() == "prod" and not environ.get(name):
        sentence = f"`{name}` cannot be `prod` in `.env`, which is not read in prod: set it in the environment"
        return values, [SettingProblem(name=name, sentence=sentence)]
    return values, []


def _keep_present(source: Mapping[str, str]) -> dict[str, str]:
    """Our variables that have a value, without the white space that files and secret stores leave."""
    values = {name: _trim(name, value) for name, value in source.items() if name in VARIABLES}
    # An empty build id is kept: prod refuses it instead of taking the default.
    return {name: value for name, value in values.items() if value or name == BUILD_ID_VARIABLE}


def _trim(name: str, value: str) -> str:
    return value.rstrip("\r\n") if name == PASSWORD_VARIABLE else value.strip()


def _resolve_paths(values: dict[str, str], environ: Mapping[str, str], cwd: Path) -> list[SettingProblem]:
    """Make the paths in `given` absolute and fill in the data folder."""
    try:
        for name in PATH_VARIABLES:
            if name in values:
                values[name] = str(_make_absolute(values[name], environ, cwd))
        if DATA_DIR_VARIABLE not in values:
            values[DATA_DIR_VARIABLE] = str(choose_default_data_dir(environ, root=os.geteuid() == 0))
    except ConfigMissing as error:
        values[DATA_DIR_VARIABLE] = str(
            cwd
        )  # not used: the problem is reported, and the other settings are still checked
        return list(error.problems)
    return []


def _make_absolute(value: str, environ: Mapping[str, str], cwd: Path) -> Path:
    # `~` in .env has met no shell.
    path = Path(value)
    return find_home(environ).joinpath(*path.parts[1:]) if path.parts[0] == "~" else cwd / path


def _check_all(values: Mapping[str, str], *, holds_keys: bool) -> Settings | list[SettingProblem]:
    """Settings, or all problems: those of single fields, and those between the fields that are right."""
    problems = _validate(values, holds_keys=holds_keys)
    if isinstance(problems, Settings):
        return problems
    wrong_names = {problem.name for problem in problems}
    outcome = _validate(
        {name: value for name, value in values.items() if name not in wrong_names - {DATA_DIR_VARIABLE}},
        holds_keys=holds_keys,
    )
    if not isinstance(outcome, Settings):
        problems += [problem for problem in outcome if wrong_names.isdisjoint({problem.name, *problem.also})]
    return problems


def _validate(values: Mapping[str, str], *, holds_keys: bool) -> Settings | list[SettingProblem]:
    try:
        return Settings.model_validate(values, context={"holds_keys": holds_keys})
    except ValidationError as wrong:
        errors = wrong.errors(include_url=False, include_input=False)
    # Outside the handler, so that no traceback leads back to an error that saw the values.
    return [problem for error in errors for problem in _to_problems(error, values)]


def _to_problems(error: ErrorDetails, values: Mapping[str, str]) -> list[SettingProblem]:
    context = error.get("ctx", {})
    if error["type"] == "contradiction":
        contradictions: list[SettingProblem] = context["problems"]
        return contradictions
    name = str(error["loc"][0])
    words = str(context["error"]) if error["type"] == "value_error" else _describe_expected(name, values)
    return [SettingProblem(name=name, sentence=f"`{name}` {words}")]


def _describe_expected(name: str, values: Mapping[str, str]) -> str:
    words = f"must be {describe_type(Settings.model_fields[VARIABLES[name]])}"
    if name.endswith("_PORT") and values[name].startswith(SERVICE_URL_SCHEMES):
        return f"{words}; Kubernetes set it: use `enableServiceLinks: false`"
    return words


def _mention_dotenv(values: Mapping[str, str]) -> str:
    return " or in `.env`" if values.get(name_variable("env"), "dev") in {"dev", "test"} else ""


def _collect_warnings(settings: Settings, source: Mapping[str, str]) -> list[str]:
    return [_warn_unknown(name) for name in sorted(source) if _looks_like_setting(name, source[name])] + _warn_unused(
        settings
    )


def _looks_like_setting(name: str, value: str) -> bool:
    foreign = FOREIGN_VARIABLE.fullmatch(name) or (name.endswith("_PORT") and value.startswith(SERVICE_URL_SCHEMES))
    return name.startswith("BPC_") and name not in VARIABLES and not foreign


def _warn_unknown(name: str) -> str:
    matches = get_close_matches(name, VARIABLES, n=1, cutoff=0.8)
    return f"`{name}` is not a setting and is ignored" + (f"; did you mean `{matches[0]}`?" if matches else "")


def _warn_unused(settings: Settings) -> list[str]:
    """Parts of a database address that nothing uses: the person who set them expects another database."""
    parts = [name for name in SERVER_VARIABLES if VARIABLES[name] in settings.model_fields_set]
    if settings.database_url is not None:
        why = "`DATABASE_URL` is set"
    elif settings.db_host is None:
        why = "without `BPC_DB_HOST` the embedded PostgreSQL is used"
        parts = [
            name for name in parts if name != DATABASE_NAME_VARIABLE
        ]  # the embedded server names its database so too
    else:
        parts, why = [], ""
    return [f"{', '.join(f'`{name}`' for name in parts)} ignored: {why}"] if parts else []

"""The operator's file of sign-in providers: read once, with the secrets that it names."""

import tomllib
from typing import Final

from bpc.core.openid.providers import OidcProvider, ProviderFileWrong, list_secret_files, parse_providers
from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.settings.model import name_variable

VARIABLE: Final = name_variable("console_providers_file")
READ_MORE: Final = "docs/console-sign-in.md has examples"


def load_providers(settings: Settings) -> tuple[OidcProvider, ...]:
    """The providers that people sign in with; none without such a file. Raises `ConfigMissing`."""
    file = settings.console_providers_file
    if file is None:
        return ()
    try:
        content = tomllib.loads(file.read_text())
        secrets = {name: (file.parent / name).read_text() for name in list_secret_files(content)}
        return parse_providers(content, secrets)
    except OSError as error:
        says = f"`{VARIABLE}`: `{error.filename}` cannot be read"
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        says = f"`{VARIABLE}`: `{file}` is not TOML: {error}"
    except ProviderFileWrong as error:
        says = f"`{VARIABLE}`: in `{file}`, {error}"
    raise ConfigMissing.for_setting(VARIABLE, says, fix=READ_MORE) from None

"""The keys that secrets are stored with, from the settings."""

from bpc.core.secret_box import SecretBox
from bpc.runtime.settings import Settings
from bpc.runtime.settings.data_dir import load_stored_secret_keys


def load_secret_box(settings: Settings) -> SecretBox:
    """Encrypts with the current key of the installation, and decrypts with every key it has."""
    return SecretBox(materials=load_stored_secret_keys(settings))

"""Settings: the environment, read once, all gaps named at once. Imports nothing else of ours."""

from bpc.settings.data_dir import default_data_dir, prepare
from bpc.settings.keys import (
    further_seed,
    key_file,
    next_pepper,
    pepper,
    pepper_is_at_hand,
    previous_pepper,
    signing_is_at_hand,
    signing_seed,
)
from bpc.settings.load import load
from bpc.settings.model import Settings
from bpc.settings.problems import ConfigMissing, Problem

__all__ = [
    "ConfigMissing",
    "Problem",
    "Settings",
    "default_data_dir",
    "further_seed",
    "key_file",
    "load",
    "next_pepper",
    "pepper",
    "pepper_is_at_hand",
    "prepare",
    "previous_pepper",
    "signing_is_at_hand",
    "signing_seed",
]

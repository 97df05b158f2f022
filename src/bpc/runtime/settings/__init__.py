"""Settings: the environment, read once, all gaps named at once. Imports nothing else of ours."""

from bpc.runtime.settings.load import load_settings
from bpc.runtime.settings.model import Settings
from bpc.runtime.settings.problems import ConfigMissing, SettingProblem

__all__ = ["ConfigMissing", "SettingProblem", "Settings", "load_settings"]

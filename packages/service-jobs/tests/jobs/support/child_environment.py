"""The environment of Python processes that tests start: they can import the tests."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[5]


def build_child_environment() -> dict[str, str]:
    paths = [str(ROOT), str(ROOT / "packages" / "service-jobs"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}

"""docs/api.md: its journey runs against a real `bpc up`, word for word; its errors are those of the table of codes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bpc.core.errors import CODES
from tests.running_installation import RunningInstallation

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text()
SCRIPT = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (?P<code>[A-Z_]+) \| (?P<status>\d+) \| (?P<again>yes|no) \| (?P<help>.+) \|$", re.MULTILINE)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl, and there is none")
def test_the_journey_goes_as_it_is_written(running_installation: RunningInstallation, tmp_path: Path) -> None:
    settings = running_installation.create_tenant().settings
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    script = "\n".join(["set -euo pipefail", *SCRIPT.findall(PAGE)])

    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={
            "PATH": f"{Path(sys.prefix, 'bin')}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "BPC_URL": settings["BPC_URL"],
            "BPC_API_KEY": settings["BPC_API_KEY"],
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "ACTIVE\nOK\n" in done.stdout
    assert '"capacity_kwh"' in done.stdout
    assert '"passportId"' in done.stdout


def test_the_table_of_errors_is_the_table_of_codes() -> None:
    documented_codes = {row["code"]: (int(row["status"]), row["again"] == "yes") for row in ROW.finditer(PAGE)}

    assert documented_codes == {name: (code.http, code.retryable) for name, code in CODES.items()}

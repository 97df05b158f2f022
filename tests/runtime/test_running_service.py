"""Where a service runs is written down while it runs, for its owner alone."""

import os
import subprocess
import sys
from pathlib import Path

from bpc.runtime.running_service import RunningService, announce_service, find_service

SERVICE = RunningService(url="http://127.0.0.1:8080", api_key="bpc_x_y")
OTHER = """
import sys
from pathlib import Path
from bpc.runtime.running_service import RunningService, announce_service
with announce_service(Path(sys.argv[1]), RunningService(url="http://127.0.0.1:9090", api_key=None)):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_it_is_found_while_it_runs_and_not_after(tmp_path: Path) -> None:
    with announce_service(tmp_path, SERVICE):
        [file] = (tmp_path / "running").iterdir()
        during, mode = find_service(tmp_path), file.stat().st_mode & 0o777

    assert (during, mode) == (SERVICE, 0o600)
    assert find_service(tmp_path) is None
    assert list((tmp_path / "running").iterdir()) == []


def test_the_newest_of_several_is_found_and_a_killed_one_is_forgotten(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OTHER, str(tmp_path)]
    with announce_service(tmp_path, SERVICE):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            os.utime(tmp_path / "running" / f"{os.getpid()}.json", (0, 0))
            newest = find_service(tmp_path)
            other.kill()
            other.wait()
        left = find_service(tmp_path)
        files = sorted(file.name for file in (tmp_path / "running").iterdir())
    with announce_service(tmp_path, SERVICE):
        cleaned = [file.name for file in (tmp_path / "running").iterdir()]

    assert newest == RunningService(url="http://127.0.0.1:9090", api_key=None)
    assert left == SERVICE
    assert files == sorted([f"{os.getpid()}.json", f"{other.pid}.json"])
    assert cleaned == [f"{os.getpid()}.json"]


def test_what_is_no_description_of_a_service_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / "1.json").write_text("no JSON")

    assert find_service(tmp_path) is None
    assert find_service(tmp_path / "nowhere") is None


def test_a_folder_that_cannot_be_written_to_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "running").write_text("a file")

    with announce_service(tmp_path, SERVICE):
        assert find_service(tmp_path) is None

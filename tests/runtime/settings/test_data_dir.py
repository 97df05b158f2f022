"""The data folder: where it is, who can enter it, and which ones are refused."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bpc.runtime.settings import ConfigMissing
from bpc.runtime.settings.data_dir import choose_default_data_dir, prepare_data_dir

AS_ROOT = os.geteuid() == 0


def read_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("environ", "root", "expected"),
    [
        ({"HOME": "/root"}, True, "/var/lib/bpc"),
        ({"HOME": "/home/ada"}, False, "/home/ada/.local/share/bpc"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}, False, "/data/bpc"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "data"}, False, "/home/ada/.local/share/bpc"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": ""}, False, "/home/ada/.local/share/bpc"),
    ],
)
def test_the_default_is_where_the_system_keeps_data(environ: dict[str, str], root: bool, expected: str) -> None:
    assert choose_default_data_dir(environ, root=root) == Path(expected)


def test_without_a_home_the_list_of_users_is_asked() -> None:
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)

    assert choose_default_data_dir({}, root=False) == home / ".local" / "share" / "bpc"


def test_it_is_made_with_its_parents_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "bpc"

    assert prepare_data_dir(path) == path
    assert read_mode(path) == (0o711 if AS_ROOT else 0o700)
    assert prepare_data_dir(path) == path


@pytest.mark.root
@pytest.mark.skipif(not AS_ROOT, reason="needs root")
def test_as_root_the_database_user_can_pass_through_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        prepare_data_dir(tmp_path / "bpc")
    finally:
        os.umask(before)

    assert read_mode(tmp_path / "bpc") == 0o711


@pytest.mark.root
@pytest.mark.skipif(not AS_ROOT, reason="needs root")
def test_a_normal_user_gets_a_folder_nobody_else_can_enter() -> None:
    home = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    os.chown(home, 65534, 65534)
    code = (
        "import os, sys; from pathlib import Path; from bpc.runtime.settings.data_dir import prepare_data_dir;"
        "os.setgid(65534); os.setuid(65534); prepare_data_dir(Path(sys.argv[1]))"
    )

    subprocess.run([sys.executable, "-c", code, str(home / "bpc")], check=True)

    assert read_mode(home / "bpc") == 0o700
    with pytest.raises(ConfigMissing, match="belongs to another user"):
        prepare_data_dir(home / "bpc")
    shutil.rmtree(home)


def test_a_folder_that_exists_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "bpc"
    path.mkdir()
    path.chmod(0o750)

    prepare_data_dir(path)

    assert read_mode(path) == 0o750


def test_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bpc"
    path.touch()

    with pytest.raises(ConfigMissing) as raised:
        prepare_data_dir(path)

    assert raised.value.says == f"the data folder `{path}` is a file, not a folder"
    assert raised.value.fix == "set BPC_DATA_DIR to a folder"


def test_a_folder_everybody_can_write_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "our data"
    path.mkdir()
    path.chmod(0o777)

    with pytest.raises(ConfigMissing) as raised:
        prepare_data_dir(path)

    assert raised.value.says == f"the data folder `{path}` can be written to by others"
    assert raised.value.fix == f"chmod go-w '{path}', or set BPC_DATA_DIR to a folder that you own"
    assert raised.value.problems[0].name == "BPC_DATA_DIR"


@pytest.mark.skipif(os.geteuid() != 0, reason="a person's own group may write to it; only root is stricter")
def test_root_trusts_no_folder_a_group_can_write_to(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.mkdir()
    os.chown(path, 0, 65534)
    path.chmod(0o770)

    with pytest.raises(ConfigMissing, match="can be written to by others"):
        prepare_data_dir(path)


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare_data_dir(tmp_path / "bpc")
    monkeypatch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)

    with pytest.raises(ConfigMissing, match="belongs to another user") as raised:
        prepare_data_dir(path)

    assert raised.value.fix == "run as its owner, or set BPC_DATA_DIR to a folder that you own"


def test_a_path_that_cannot_be_made_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loose").symlink_to(tmp_path / "gone")

    with pytest.raises(ConfigMissing, match="cannot be used: Not a directory"):
        prepare_data_dir(tmp_path / "file" / "deeper" / "bpc")
    with pytest.raises(ConfigMissing, match="cannot be used: No such file or directory"):
        prepare_data_dir(tmp_path / "loose")


def test_nobody_is_told_to_change_the_rights_of_tmp(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)

    with pytest.raises(ConfigMissing, match="can be written to by others") as raised:
        prepare_data_dir(shared)

    assert raised.value.fix == "set BPC_DATA_DIR to a folder that you own"

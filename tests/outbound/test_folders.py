"""Files of open folders: what is named there is read, and nothing beside it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bpc.core.errors import Refusal
from bpc.outbound.folders import AllowedFolders


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "open"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "bom.json").write_bytes(b"0123456789")
    (tmp_path / "secret.txt").write_bytes(b"secret")
    return folder


async def read_file(
    folders: AllowedFolders, url: str, start: int = 0, validator: str | None = None
) -> tuple[int, bytes]:
    async with folders.open_url(url, start=start, validator=validator) as response:
        return response.status, b"".join([piece async for piece in response.chunks(4)])


async def test_a_file_is_read_from_where_it_is_asked_for_as_long_as_it_is_the_same(open_folder: Path) -> None:
    folders, file = AllowedFolders(allow=("example.com", str(open_folder))), open_folder / "below" / "bom.json"
    async with folders.open_url(file.as_uri(), start=0, validator=None) as response:
        etag = response.headers["ETag"]

    assert await read_file(folders, file.as_uri()) == (200, b"0123456789")
    assert await read_file(folders, file.as_uri(), 6, etag) == (206, b"6789")
    assert await read_file(folders, file.as_uri(), 6, '"another"') == (200, b"0123456789")
    assert await read_file(folders, file.as_uri(), 10, etag) == (200, b"0123456789")
    file.write_bytes(b"other")
    assert await read_file(folders, file.as_uri(), 2, etag) == (200, b"other")


async def test_a_name_with_other_characters_is_written_in_percent(open_folder: Path) -> None:
    (open_folder / "Stückliste 1.json").write_bytes(b"{}")

    url = f"file://{open_folder}/St%C3%BCckliste%201.json"

    assert await read_file(AllowedFolders(allow=(str(open_folder),)), url) == (200, b"{}")


@pytest.mark.parametrize(
    "path",
    ["{0}/../secret.txt", "{0}/%2e%2e/secret.txt", "{0}/a%00b", "{0}/x?y", "{0}/x#y", "{0}/ä", "{0}/%zz"],
)
def test_a_path_that_goes_up_or_is_malformed_is_refused(open_folder: Path, path: str) -> None:
    with pytest.raises(Refusal) as refused:
        AllowedFolders(allow=(str(open_folder),)).locate_file("file://" + path.format(open_folder))

    assert refused.value.code == "VALIDATION_ERROR"


@pytest.mark.parametrize("url", ["file://host{0}/x", "file:{0}/x", "file://"])
def test_only_the_plain_form_is_taken(open_folder: Path, url: str) -> None:
    with pytest.raises(Refusal, match="must be `file://` and an absolute path"):
        AllowedFolders(allow=(str(open_folder),)).locate_file(url.format(open_folder))


@pytest.mark.parametrize("url", ["file:///etc/passwd", "file://{0}", "file://{0}-more/x", "file:///"])
def test_what_is_not_below_an_open_folder_is_blocked(open_folder: Path, url: str) -> None:
    for folders in (AllowedFolders(allow=(str(open_folder), "127.0.0.1")), AllowedFolders()):
        with pytest.raises(Refusal) as refused:
            folders.locate_file(url.format(open_folder))
        assert refused.value.code == "OUTBOUND_BLOCKED"


def _make_file_link(folder: Path) -> None:
    (folder / "x").symlink_to(folder.parent / "secret.txt")


def _make_folder_link(folder: Path) -> None:
    (folder / "up").symlink_to(folder.parent)
    (folder / "x").symlink_to("up/secret.txt")


def _make_pipe(folder: Path) -> None:
    os.mkfifo(folder / "x")


def _make_folder(folder: Path) -> None:
    (folder / "x").mkdir()


@pytest.mark.parametrize("create_entry", [_make_file_link, _make_folder_link, _make_pipe, _make_folder, lambda _: None])
async def test_no_link_is_followed_and_only_plain_files_are_read(
    open_folder: Path, create_entry: Callable[[Path], None]
) -> None:
    create_entry(open_folder)
    folders = AllowedFolders(allow=(str(open_folder),))

    assert await read_file(folders, f"file://{open_folder}/x") == (404, b"")
    assert await read_file(folders, f"file://{open_folder}/up/secret.txt") == (404, b"")

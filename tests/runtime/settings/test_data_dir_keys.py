"""Keys: from the environment, or made once and kept where only their owner can read them."""

import os
import stat
import subprocess
import sys
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.settings import (
    ConfigMissing,
    Settings,
    further_seed,
    next_pepper,
    pepper,
    pepper_is_at_hand,
    previous_pepper,
    signing_seed,
)
from bpc.settings.material import pepper_from, seed_from
from tests.settings.values import PEPPER, PROD, PUBLIC, SEED, loaded, refused

repeatable = settings(derandomize=True, max_examples=100)
SIGNING = "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64"
RACE = (
    "import sys; from pathlib import Path; from bpc.settings import Settings, pepper, signing_seed;"
    "settings = Settings(data_dir=Path(sys.argv[1]));"
    "print('ready', flush=True); sys.stdin.readline();"
    "print(pepper(settings).hex(), signing_seed(settings).hex())"
)


def encoded(raw: bytes) -> str:
    return b64encode(raw).decode()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_keys_of_the_environment_are_used() -> None:
    found = loaded(PROD)

    assert signing_seed(found) == SEED
    assert pepper(found) == PEPPER


def test_a_seed_may_be_followed_by_its_public_key() -> None:
    assert signing_seed(loaded({SIGNING: encoded(SEED + PUBLIC)})) == SEED


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("not base64!", "must be standard base64 with its padding"),
        (encoded(SEED).rstrip("="), "must be standard base64 with its padding"),
        (encoded(SEED)[:-2] + "9=", "must be standard base64 with its padding"),
        ("ä" * 44, "must be standard base64 with its padding"),
        (encoded(SEED[:31]), "must hold 32 bytes (a seed) or 64 bytes (seed and public key), and holds 31"),
        (
            encoded(SEED + PUBLIC[:8]),
            "must hold 32 bytes (a seed) or 64 bytes (seed and public key), and holds 40",
        ),
        (encoded(SEED + SEED), "holds 64 bytes whose second half is not the public key of the first"),
    ],
)
def test_a_signing_key_that_is_none_is_refused_by_name(value: str, says: str) -> None:
    assert refused({SIGNING: value}).says == f"`{SIGNING}` {says}"


def test_a_short_pepper_is_refused() -> None:
    says = refused({"BPC_API_KEY_PEPPER_BASE64": encoded(b"fifteen bytes..")}).says

    assert says == "`BPC_API_KEY_PEPPER_BASE64` must hold at least 16 bytes, and holds 15"


@repeatable
@given(st.binary(min_size=16, max_size=100), st.integers(min_value=0), st.sampled_from(range(7)))
def test_a_flipped_bit_never_reads_as_the_same_pepper(raw: bytes, at: int, bit: int) -> None:
    text = bytearray(b64encode(raw))
    text[at % len(text)] ^= 1 << bit

    with suppress(ValueError):
        assert pepper_from(text.decode("ascii")) != raw


def test_outside_prod_keys_are_made_once_and_kept(tmp_path: Path) -> None:
    found = Settings(data_dir=tmp_path / "bpc")

    first = (signing_seed(found), pepper(found))

    assert (signing_seed(found), pepper(found)) == first
    assert len(first[0]) == len(first[1]) == 32
    assert first[0] != first[1]


def test_kept_keys_are_base64_files_that_only_their_owner_can_read(tmp_path: Path) -> None:
    found = Settings(data_dir=tmp_path / "bpc")

    seed, mixed_in = signing_seed(found), pepper(found)

    keys = tmp_path / "bpc" / "keys"
    assert sorted(file.name for file in keys.iterdir()) == ["pepper.key", "signing.key"]
    assert mode_of(keys) == 0o700
    assert {mode_of(file) for file in keys.iterdir()} == {0o600}
    assert b64decode((keys / "signing.key").read_text()) == seed
    assert b64decode((keys / "pepper.key").read_text()) == mixed_in
    assert seed_from((keys / "signing.key").read_text().strip()) == seed


def test_two_data_folders_have_different_keys(tmp_path: Path) -> None:
    assert pepper(Settings(data_dir=tmp_path / "a")) != pepper(Settings(data_dir=tmp_path / "b"))


def test_ten_processes_that_start_at_once_agree_on_one_value(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACE, str(tmp_path / "bpc")]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(10)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"

    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    said = {racer.communicate()[0] for racer in racers}

    assert [racer.returncode for racer in racers] == [0] * 10
    assert len(said) == 1
    assert sorted(file.name for file in (tmp_path / "bpc" / "keys").iterdir()) == [
        "pepper.key",
        "signing.key",
    ]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_key_that_others_could_read_is_refused_with_the_way_out(tmp_path: Path, mode: int) -> None:
    found = Settings(data_dir=tmp_path / "our data")
    pepper(found)
    file = tmp_path / "our data" / "keys" / "pepper.key"
    file.chmod(mode)

    with pytest.raises(ConfigMissing) as raised:
        pepper(found)

    assert raised.value.says == f"`{file}` can be read by other users"
    assert raised.value.fix == f"chmod 600 '{file}'"
    assert raised.value.problems[0].name == "BPC_API_KEY_PEPPER_BASE64"


def test_a_key_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    keys.chmod(0o755)

    with pytest.raises(ConfigMissing) as raised:
        signing_seed(Settings(data_dir=tmp_path))

    assert raised.value.fix == f"chmod 700 {keys}"
    assert list(keys.iterdir()) == []


def test_a_key_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Settings(data_dir=tmp_path)
    pepper(found)
    monkeypatch.setattr("bpc.settings.keys.prepare", lambda path: path)
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)

    with pytest.raises(ConfigMissing, match="belongs to another user"):
        pepper(found)


@pytest.mark.parametrize("content", [b"", b"c2hvcnQ=\n", b"\xff\xfe", b"x" * 5000])
def test_a_damaged_key_is_not_replaced_by_a_new_one(tmp_path: Path, content: bytes) -> None:
    found = Settings(data_dir=tmp_path)
    signing_seed(found)
    file = tmp_path / "keys" / "signing.key"
    file.write_bytes(content)

    with pytest.raises(ConfigMissing) as raised:
        signing_seed(found)

    assert raised.value.fix == "restore it from a backup: what was made with it will not fit another"
    assert raised.value.says.startswith(f"`{file}` must ")
    assert file.read_bytes() == content


def test_a_folder_that_cannot_hold_keys_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "keys").touch()

    with pytest.raises(ConfigMissing, match="cannot be used: File exists"):
        pepper(Settings(data_dir=tmp_path))


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(ConfigMissing, match="No space left on device"):
        pepper(Settings(data_dir=tmp_path))

    assert list((tmp_path / "keys").iterdir()) == []


# Further keys


@pytest.fixture
def further(tmp_path: Path) -> Settings:
    """Settings with a folder of further keys, in which `old-key.key` is one."""
    folder = tmp_path / "further"
    folder.mkdir(mode=0o700)
    path = folder / "old-key.key"
    path.write_text(f"{encoded(SEED)}\n")
    path.chmod(0o600)
    return Settings(data_dir=tmp_path, signing_keys_dir=folder)


def test_a_further_key_is_found_by_its_name(further: Settings) -> None:
    assert further_seed(further, "old-key") == SEED


@pytest.mark.parametrize("name", ["another", "../further/old-key", "", ".", "old-key/", "old\0key", "x" * 300])
def test_a_name_without_a_file_or_that_leaves_the_folder_has_no_key(further: Settings, name: str) -> None:
    assert further_seed(further, name) is None


def test_without_a_folder_there_are_no_further_keys(tmp_path: Path) -> None:
    assert further_seed(Settings(data_dir=tmp_path), "old-key") is None


def test_a_further_key_that_others_could_have_read_is_not_used(further: Settings, tmp_path: Path) -> None:
    (tmp_path / "further" / "old-key.key").chmod(0o644)

    with pytest.raises(ConfigMissing, match="can be read by other users"):
        further_seed(further, "old-key")


def test_a_further_key_that_is_none_is_refused_without_showing_it(further: Settings, tmp_path: Path) -> None:
    (tmp_path / "further" / "old-key.key").write_text("hunter2")

    with pytest.raises(ConfigMissing, match="must be standard base64") as raised:
        further_seed(further, "old-key")

    assert "hunter2" not in str(raised.value)


def test_a_folder_in_place_of_a_further_key_is_refused(further: Settings, tmp_path: Path) -> None:
    (tmp_path / "further" / "folder.key").mkdir()

    with pytest.raises(ConfigMissing, match="cannot be read"):
        further_seed(further, "folder")


NEXT, PREVIOUS = "BPC_API_KEY_PEPPER_NEXT_BASE64", "BPC_API_KEY_PEPPER_PREVIOUS_BASE64"
CURRENT = "BPC_API_KEY_PEPPER_BASE64"


def test_peppers_that_are_accepted_besides_the_one_in_use() -> None:
    found = loaded({**PROD, NEXT: encoded(b"n" * 16), PREVIOUS: encoded(b"p" * 16)})

    assert (pepper(found), next_pepper(found), previous_pepper(found)) == (PEPPER, b"n" * 16, b"p" * 16)
    assert (next_pepper(loaded(PROD)), previous_pepper(loaded(PROD))) == (None, None)


@pytest.mark.parametrize("name", [NEXT, PREVIOUS])
def test_they_are_checked_as_the_one_in_use_is(name: str) -> None:
    assert [problem.sentence for problem in refused({**PROD, name: encoded(b"short")}).problems] == [
        f"`{name}` must hold at least 16 bytes, and holds 5"
    ]


@pytest.mark.parametrize(("one", "other"), [(CURRENT, NEXT), (CURRENT, PREVIOUS), (NEXT, PREVIOUS)])
def test_a_step_done_by_halves_is_refused(one: str, other: str) -> None:
    value = encoded(b"the same in both")

    assert [problem.sentence for problem in refused({**PROD, one: value, other: value}).problems] == [
        f"`{other}` is the same pepper as `{one}`"
    ]


def test_whether_there_is_a_pepper_can_be_asked_without_making_one(tmp_path: Path) -> None:
    here = Settings(data_dir=tmp_path)

    assert not pepper_is_at_hand(here)
    assert list(tmp_path.iterdir()) == []
    pepper(here)
    assert pepper_is_at_hand(here)
    assert pepper_is_at_hand(loaded(PROD))

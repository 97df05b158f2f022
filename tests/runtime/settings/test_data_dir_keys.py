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

from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.settings.data_dir import (
    has_pepper,
    load_named_seed,
    load_next_pepper,
    load_pepper,
    load_previous_pepper,
    load_signing_seed,
)
from bpc.runtime.settings.value_types import decode_pepper, decode_seed
from tests.measurements import choose_examples
from tests.runtime.settings.values import PEPPER, PROD, PUBLIC, SEED, load_from, load_refused

repeatable = settings(derandomize=True, max_examples=choose_examples(100))
SIGNING = "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64"
RACE = (
    "import sys; from pathlib import Path; from bpc.runtime.settings import Settings;"
    "from bpc.runtime.settings.data_dir import load_pepper, load_signing_seed;"
    "settings = Settings(data_dir=Path(sys.argv[1]));"
    "print('ready', flush=True); sys.stdin.readline();"
    "print(load_pepper(settings).hex(), load_signing_seed(settings).hex())"
)


def encode_base64(raw: bytes) -> str:
    return b64encode(raw).decode()


def read_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_keys_of_the_environment_are_used() -> None:
    settings = load_from(PROD)

    assert load_signing_seed(settings) == SEED
    assert load_pepper(settings) == PEPPER


def test_a_seed_may_be_followed_by_its_public_key() -> None:
    assert load_signing_seed(load_from({SIGNING: encode_base64(SEED + PUBLIC)})) == SEED


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("not base64!", "must be standard base64 with its padding"),
        (encode_base64(SEED).rstrip("="), "must be standard base64 with its padding"),
        (encode_base64(SEED)[:-2] + "9=", "must be standard base64 with its padding"),
        ("ä" * 44, "must be standard base64 with its padding"),
        (encode_base64(SEED[:31]), "must hold 32 bytes (a seed) or 64 bytes (seed and public key) but holds 31"),
        (
            encode_base64(SEED + PUBLIC[:8]),
            "must hold 32 bytes (a seed) or 64 bytes (seed and public key) but holds 40",
        ),
        (encode_base64(SEED + SEED), "holds 64 bytes whose second half is not the public key of the first"),
    ],
)
def test_an_invalid_signing_key_is_refused_by_name(value: str, says: str) -> None:
    assert load_refused({SIGNING: value}).says == f"`{SIGNING}` {says}"


def test_a_short_pepper_is_refused() -> None:
    says = load_refused({"BPC_API_KEY_PEPPER_BASE64": encode_base64(b"fifteen bytes..")}).says

    assert says == "`BPC_API_KEY_PEPPER_BASE64` must hold at least 16 bytes but holds 15"


@repeatable
@given(st.binary(min_size=16, max_size=100), st.integers(min_value=0), st.sampled_from(range(7)))
def test_a_flipped_bit_never_reads_as_the_same_pepper(raw: bytes, at: int, bit: int) -> None:
    text = bytearray(b64encode(raw))
    text[at % len(text)] ^= 1 << bit

    with suppress(ValueError):
        assert decode_pepper(text.decode("ascii")) != raw


def test_outside_prod_keys_are_made_once_and_kept(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "bpc")

    first = (load_signing_seed(settings), load_pepper(settings))

    assert (load_signing_seed(settings), load_pepper(settings)) == first
    assert len(first[0]) == len(first[1]) == 32
    assert first[0] != first[1]


def test_kept_keys_are_base64_files_that_only_their_owner_can_read(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "bpc")

    seed, mixed_in = load_signing_seed(settings), load_pepper(settings)

    keys = tmp_path / "bpc" / "keys"
    assert sorted(file.name for file in keys.iterdir()) == ["pepper.key", "signing.key"]
    assert read_mode(keys) == 0o700
    assert {read_mode(file) for file in keys.iterdir()} == {0o600}
    assert b64decode((keys / "signing.key").read_text()) == seed
    assert b64decode((keys / "pepper.key").read_text()) == mixed_in
    assert decode_seed((keys / "signing.key").read_text().strip()) == seed


def test_two_data_folders_have_different_keys(tmp_path: Path) -> None:
    assert load_pepper(Settings(data_dir=tmp_path / "a")) != load_pepper(Settings(data_dir=tmp_path / "b"))


@pytest.mark.long
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
    outputs = {racer.communicate()[0] for racer in racers}

    assert [racer.returncode for racer in racers] == [0] * 10
    assert len(outputs) == 1
    assert sorted(file.name for file in (tmp_path / "bpc" / "keys").iterdir()) == [
        "pepper.key",
        "signing.key",
    ]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_key_that_others_could_read_is_refused_with_the_way_out(tmp_path: Path, mode: int) -> None:
    settings = Settings(data_dir=tmp_path / "our data")
    load_pepper(settings)
    file = tmp_path / "our data" / "keys" / "pepper.key"
    file.chmod(mode)

    with pytest.raises(ConfigMissing) as raised:
        load_pepper(settings)

    assert raised.value.says == f"`{file}` can be read by other users"
    assert raised.value.fix == f"chmod 600 '{file}'"
    assert raised.value.problems[0].name == "BPC_API_KEY_PEPPER_BASE64"


def test_a_key_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    keys.chmod(0o755)

    with pytest.raises(ConfigMissing) as raised:
        load_signing_seed(Settings(data_dir=tmp_path))

    assert raised.value.fix == f"chmod 700 {keys}"
    assert list(keys.iterdir()) == []


def test_a_key_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data_dir=tmp_path)
    load_pepper(settings)
    monkeypatch.setattr("bpc.runtime.settings.data_dir.prepare_data_dir", lambda path: path)
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)

    with pytest.raises(ConfigMissing, match="belongs to another user"):
        load_pepper(settings)


@pytest.mark.parametrize("content", [b"", b"c2hvcnQ=\n", b"\xff\xfe", b"x" * 5000])
def test_a_damaged_key_is_not_replaced_by_a_new_one(tmp_path: Path, content: bytes) -> None:
    settings = Settings(data_dir=tmp_path)
    load_signing_seed(settings)
    file = tmp_path / "keys" / "signing.key"
    file.write_bytes(content)

    with pytest.raises(ConfigMissing) as raised:
        load_signing_seed(settings)

    lost = "signatures and key hashes made with it do not work with another one"
    assert raised.value.fix == f"restore it from a backup: {lost}"
    assert raised.value.says.startswith(f"`{file}` must ")
    assert file.read_bytes() == content


def test_a_folder_that_cannot_hold_keys_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "keys").touch()

    with pytest.raises(ConfigMissing, match="cannot be used: File exists"):
        load_pepper(Settings(data_dir=tmp_path))


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(ConfigMissing, match="No space left on device"):
        load_pepper(Settings(data_dir=tmp_path))

    assert list((tmp_path / "keys").iterdir()) == []


# Further keys


@pytest.fixture
def key_folder(tmp_path: Path) -> Settings:
    """Settings with a folder of further keys, in which `old-key.key` is one."""
    folder = tmp_path / "further"
    folder.mkdir(mode=0o700)
    path = folder / "old-key.key"
    path.write_text(f"{encode_base64(SEED)}\n")
    path.chmod(0o600)
    return Settings(data_dir=tmp_path, signing_keys_dir=folder)


def test_a_further_key_is_found_by_its_name(key_folder: Settings) -> None:
    assert load_named_seed(key_folder, "old-key") == SEED


@pytest.mark.parametrize("name", ["another", "../further/old-key", "", ".", "old-key/", "old\0key", "x" * 300])
def test_a_name_without_a_file_or_that_leaves_the_folder_has_no_key(key_folder: Settings, name: str) -> None:
    assert load_named_seed(key_folder, name) is None


def test_without_a_folder_there_are_no_further_keys(tmp_path: Path) -> None:
    assert load_named_seed(Settings(data_dir=tmp_path), "old-key") is None


def test_a_further_key_that_others_could_have_read_is_not_used(key_folder: Settings, tmp_path: Path) -> None:
    (tmp_path / "further" / "old-key.key").chmod(0o644)

    with pytest.raises(ConfigMissing, match="can be read by other users"):
        load_named_seed(key_folder, "old-key")


def test_an_invalid_key_file_is_refused_without_showing_it(key_folder: Settings, tmp_path: Path) -> None:
    (tmp_path / "further" / "old-key.key").write_text("hunter2")

    with pytest.raises(ConfigMissing, match="must be standard base64") as raised:
        load_named_seed(key_folder, "old-key")

    assert "hunter2" not in str(raised.value)


def test_a_folder_in_place_of_a_further_key_is_refused(key_folder: Settings, tmp_path: Path) -> None:
    (tmp_path / "further" / "folder.key").mkdir()

    with pytest.raises(ConfigMissing, match="cannot be read"):
        load_named_seed(key_folder, "folder")


NEXT, PREVIOUS = "BPC_API_KEY_PEPPER_NEXT_BASE64", "BPC_API_KEY_PEPPER_PREVIOUS_BASE64"
CURRENT = "BPC_API_KEY_PEPPER_BASE64"


def test_peppers_that_are_accepted_besides_the_one_in_use() -> None:
    settings = load_from({**PROD, NEXT: encode_base64(b"n" * 16), PREVIOUS: encode_base64(b"p" * 16)})

    assert (load_pepper(settings), load_next_pepper(settings), load_previous_pepper(settings)) == (
        PEPPER,
        b"n" * 16,
        b"p" * 16,
    )
    assert (load_next_pepper(load_from(PROD)), load_previous_pepper(load_from(PROD))) == (None, None)


@pytest.mark.parametrize("name", [NEXT, PREVIOUS])
def test_they_are_checked_as_the_one_in_use_is(name: str) -> None:
    assert [problem.sentence for problem in load_refused({**PROD, name: encode_base64(b"short")}).problems] == [
        f"`{name}` must hold at least 16 bytes but holds 5"
    ]


@pytest.mark.parametrize(("one", "other"), [(CURRENT, NEXT), (CURRENT, PREVIOUS), (NEXT, PREVIOUS)])
def test_a_step_done_by_halves_is_refused(one: str, other: str) -> None:
    value = encode_base64(b"the same in both")

    assert [problem.sentence for problem in load_refused({**PROD, one: value, other: value}).problems] == [
        f"`{other}` is the same pepper as `{one}`"
    ]


def test_whether_there_is_a_pepper_can_be_asked_without_making_one(tmp_path: Path) -> None:
    here = Settings(data_dir=tmp_path)

    assert not has_pepper(here)
    assert list(tmp_path.iterdir()) == []
    load_pepper(here)
    assert has_pepper(here)
    assert has_pepper(load_from(PROD))

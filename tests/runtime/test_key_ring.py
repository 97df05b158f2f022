"""Specification of the key ring: which private keys a process can sign with."""

from base64 import b64encode
from pathlib import Path

import pytest

from bpc.core.audit.signing import derive_public_key, parse_seed
from bpc.runtime import key_ring as key_ring_module
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.runtime.settings.data_dir import load_named_seed, load_signing_seed


def test_a_key_file_can_be_added_or_replaced_between_two_loads(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", signing_key_id="ours", signing_keys_dir=tmp_path)
    key_ring = KeyRing.from_settings(settings)
    assert key_ring.load().find("old") is None

    seed = bytes(range(32))
    (tmp_path / "old.key").touch(mode=0o600)
    (tmp_path / "old.key").write_bytes(b64encode(seed))
    own_key, old = key_ring.load().find("ours"), key_ring.load().find("old")

    assert own_key is not None
    assert own_key.public_key == derive_public_key(parse_seed(load_signing_seed(settings)))
    assert old is not None
    assert old.public_key == derive_public_key(parse_seed(seed))
    (tmp_path / "old.key").write_bytes(b64encode(bytes(32)))
    replaced = key_ring.load().find("old")
    assert replaced is not None
    assert replaced.public_key == derive_public_key(parse_seed(bytes(32)))
    (tmp_path / "old.key").chmod(0o644)
    assert key_ring.load().find("old") is None


def test_a_file_that_is_not_a_key_leaves_the_other_keys_usable(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", signing_key_id="ours", signing_keys_dir=tmp_path)
    (tmp_path / "broken.key").touch(mode=0o600)
    (tmp_path / "broken.key").write_bytes(b"not a key")
    (tmp_path / "notes.txt").write_bytes(b"not a key file")

    keys = KeyRing.from_settings(settings).load()

    assert keys.find("ours") is not None
    assert keys.find("broken") is None
    assert keys.find("notes") is None
    assert keys.by_id.keys() == {"ours", "broken"}


def test_a_key_file_is_read_again_only_after_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data_dir=tmp_path / "data", signing_key_id="ours", signing_keys_dir=tmp_path)
    key_ring, file, reads = KeyRing.from_settings(settings), tmp_path / "old.key", list[str]()

    def load_and_count(read_settings: Settings, key_id: str) -> bytes | None:
        reads.append(key_id)
        return load_named_seed(read_settings, key_id)

    monkeypatch.setattr(key_ring_module, "load_named_seed", load_and_count)
    monkeypatch.setattr(key_ring_module, "SETTLED_SECONDS", -60.0)  # as if the file had been there for long
    file.touch(mode=0o600)
    file.write_bytes(b64encode(bytes(32)))
    assert key_ring.load().find("old") is not None
    assert key_ring.load().find("old") is not None
    assert reads == ["old"]

    file.rename(tmp_path / "new.key")

    assert key_ring.load().by_id.keys() == {"ours", "new"}
    assert reads == ["old", "new"]
    (tmp_path / "new.key").chmod(0o644)
    assert key_ring.load().find("new") is None
    (tmp_path / "new.key").unlink()
    assert key_ring.load().by_id.keys() == {"ours"}

"""A witness keeps what it cosigned: after a restart it still refuses every other history."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bpc.core.errors import Conflict, Invalid
from bpc.core.tlog.cosignatures import read_cosignature_time
from bpc.core.tlog.notes import SignedNote, parse_note, parse_signature_line
from bpc.core.tlog.witness import WitnessRefusal, WitnessRequest
from bpc.runtime.witness_state import WitnessState, open_witness
from tests.core.tlog.sample_log import ORIGIN, SampleLog, make_log

AT = datetime(2027, 2, 18, 12, 0, tzinfo=UTC)
LOG = make_log(40)


def open_here(folder: Path) -> WitnessState:
    return open_witness(folder, "witness.example/w1", {ORIGIN: LOG.signer.verifier}, now=lambda: AT)


def make_request(old_size: int, new_size: int, log: SampleLog = LOG) -> bytes:
    proof = log.prove_growth(old_size, new_size)
    return WitnessRequest(old_size=old_size, proof=proof, note=log.sign_checkpoint(new_size)).encode()


def test_it_cosigns_with_both_keys_and_keeps_the_note(tmp_path: Path) -> None:
    witness = open_here(tmp_path)

    lines = witness.add_checkpoint(make_request(0, 30)).decode().split("\n")

    note = SignedNote(LOG.sign_checkpoint(30).text, tuple(map(parse_signature_line, lines[:-1])))
    times = [read_cosignature_time(note, cosigner.key) for cosigner in witness.cosigners]
    assert times == [int(AT.timestamp())] * 2
    stored = witness.read_note("ab" * 32), witness.find_last(ORIGIN)
    assert stored == (None, LOG.make_checkpoint(30))
    witness.close()


def test_after_a_restart_it_has_the_same_keys_and_the_same_memory(tmp_path: Path) -> None:
    witness = open_here(tmp_path)
    witness.add_checkpoint(make_request(0, 30))
    keys = [cosigner.key for cosigner in witness.cosigners]
    witness.close()
    fork = SampleLog()
    fork.append([*LOG.entries[:20], b"another", *LOG.entries[21:]])

    again = open_here(tmp_path)

    assert [cosigner.key for cosigner in again.cosigners] == keys
    for request, status in [
        (make_request(0, 40), 409),
        (make_request(30, 40, fork), 422),
        (make_request(20, 20), 409),
        (make_request(30, 30, fork), 422),
    ]:
        with pytest.raises(WitnessRefusal) as refusal:
            again.add_checkpoint(request)
        assert refusal.value.status == status
    assert again.add_checkpoint(make_request(30, 40))
    assert len(parse_note((tmp_path / next(iter(find_notes(tmp_path)))).read_bytes()).signatures) == 3
    again.close()


def find_notes(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if len(path.name) == 64]


def test_one_process_is_the_witness_of_a_folder(tmp_path: Path) -> None:
    witness = open_here(tmp_path)

    with pytest.raises(Conflict, match="another process uses"):
        open_here(tmp_path)
    witness.close()


def test_keys_are_for_their_owner_only_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    open_here(tmp_path).close()

    assert (tmp_path / "ed25519.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "ml-dsa-44.key").write_text("broken")
    with pytest.raises(Invalid, match=r"ml-dsa-44\.key"):
        open_here(tmp_path)

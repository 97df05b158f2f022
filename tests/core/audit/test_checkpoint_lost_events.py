"""A checkpoint finds what a database has lost since."""

from bpc.core.audit.checkpoint import find_missing_events
from bpc.core.audit.events import ChainFault, ChainHead
from tests.core.audit.sample_checkpoints import AT, NOW, ONE, TAKEN, TWO, make_digest, make_stream


def test_nothing_is_missing_while_chains_only_grow() -> None:
    grown = {**NOW, make_stream(9): ChainHead(1, make_digest("new"))}

    assert find_missing_events(TAKEN, TAKEN.heads, AT) == []
    assert find_missing_events(TAKEN, grown, AT) == []


def test_a_cut_end_is_found() -> None:
    now = {**NOW, ONE: ChainHead(2, make_digest("one 2"))}

    assert find_missing_events(TAKEN, now, {**AT, ONE: None}) == [
        ChainFault(stream=ONE, version=2, says="the chain ends here, but the checkpoint saw version 3")
    ]


def test_a_deleted_chain_is_found() -> None:
    now = {ONE: NOW[ONE]}

    assert find_missing_events(TAKEN, now, {ONE: AT[ONE], TWO: None}) == [
        ChainFault(stream=TWO, version=1, says="the whole chain is gone since the checkpoint")
    ]


def test_a_replaced_event_is_found_however_far_the_chain_went_on() -> None:
    assert find_missing_events(TAKEN, NOW, {**AT, ONE: make_digest("forged 3")}) == [
        ChainFault(stream=ONE, version=3, says="the checkpoint saw another event here")
    ]


def test_an_old_state_that_was_restored_and_written_on_is_found() -> None:
    # Before the checkpoint: chain one at 2, chain two not there. Since the restore: one has new events 3 and 4.
    now = {ONE: ChainHead(4, make_digest("other 4"))}

    faults = find_missing_events(TAKEN, now, {ONE: make_digest("other 3"), TWO: None})

    assert {(fault.stream, fault.says) for fault in faults} == {
        (ONE, "the checkpoint saw another event here"),
        (TWO, "the whole chain is gone since the checkpoint"),
    }


def test_a_database_without_anything_has_lost_everything() -> None:
    assert [fault.stream for fault in find_missing_events(TAKEN, {}, {})] == [ONE, TWO]


def test_what_retention_removed_is_not_missing() -> None:
    # Everything up to event 4 is gone, with an anchor; event 5 is there.
    assert find_missing_events(TAKEN, NOW, {**AT, ONE: None}) == []


def test_a_chain_that_retention_removed_to_its_anchor_is_not_missing() -> None:
    # The anchor is where the chain stands, and has the hash of the last event removed.
    now = {**NOW, ONE: ChainHead(3, make_digest("one 3"))}

    assert find_missing_events(TAKEN, now, AT) == []
    assert find_missing_events(TAKEN, now, {**AT, ONE: make_digest("a forged anchor")}) == [
        ChainFault(stream=ONE, version=3, says="the checkpoint saw another event here")
    ]

"""Pictures of the public page: lengths and places that say what the values say."""

from typing import Any

import pytest

from bpc.core.exports.disclosure import DisclosedField
from bpc.core.exports.page_pictures import (
    BAR_WIDTH,
    CURVE_HEIGHT,
    CURVE_WIDTH,
    draw_health_curve,
    find_health,
    list_recycled_shares,
    scale_share,
)
from bpc.core.language.types import DATE, TEXT, Dec, List, Opt, Record, Type

HISTORY = List(Record((("on", DATE), ("share_pct", Dec(2)))))


def make_field(path: str, kind: Type, value: Any) -> DisclosedField:
    return DisclosedField(path, kind, ("public",), value, 0)


@pytest.mark.parametrize(("share", "length"), [("0", 0), ("8.08", 24), ("100", 300), ("250", 300), ("-3", 0)])
def test_a_share_has_its_length_and_never_leaves_the_bar(share: str, length: int) -> None:
    assert scale_share(share, BAR_WIDTH) == length


def test_each_metal_with_a_share_is_shown_beside_its_minimums() -> None:
    fields = [make_field("recycled.cobalt_pct", Opt(Dec(2)), "16.00"), make_field("recycled.plant", TEXT, "Example")]

    [cobalt] = list_recycled_shares(fields)

    assert (cobalt.metal.symbol, cobalt.width, [least for _, least in cobalt.metal.shares]) == ("Co", 48, [16, 26])


def test_a_public_state_of_health_is_a_dial_and_its_history_a_curve() -> None:
    history = [{"on": "2027-01-01", "share_pct": "100.00"}, {"on": "2029-01-01", "share_pct": "80.00"}]
    dial = make_field("state.health_pct", Dec(2), "91.50")

    curve = draw_health_curve([dial, make_field("state.health_history", HISTORY, history[::-1])])

    assert find_health([make_field("state.health_note", TEXT, "good"), dial]) is dial
    assert curve is not None
    assert curve.line == f"0,0 {CURVE_WIDTH},{CURVE_HEIGHT - 72}"
    assert (curve.first, curve.last) == (("2027-01-01", "100.00"), ("2029-01-01", "80.00"))


def test_one_day_is_no_curve_and_a_text_no_dial() -> None:
    one_day = make_field("a.health_history", HISTORY, [{"on": "2027-01-01", "share_pct": "100.00"}])

    assert draw_health_curve([one_day, make_field("b.soh_history", List(TEXT), ["a"])]) is None
    assert find_health([one_day]) is None

"""The name somebody probably meant: found wherever there is one, and not looked for without end."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.facts.schemas import SCHEMA_MEMBERS
from bpc.core.language.suggestions import Suggestions, _count_edits
from tests.measurements import choose_effort

KNOWN = [name for members in SCHEMA_MEMBERS.values() for name in members]


@st.composite
def build_slips(draw: st.DrawFn) -> str:
    """A known name with some letters more, less or other."""
    name = draw(st.sampled_from(KNOWN))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(name)))
        name = name[:at] + draw(st.sampled_from(["", "a", "_"])) + name[at + draw(st.integers(0, 1)) :]
    return name


@settings(max_examples=choose_effort(test=30, shown=300, campaign=3_000))
@given(build_slips())
def test_no_name_that_is_near_is_passed_over(name: str) -> None:
    allowed = max(1, len(name) // 3)
    near = {known: _count_edits(name, known, 100) for known in KNOWN if known != name}
    least = min(near.values())

    suggestion = Suggestions().find_nearest(name, KNOWN)

    assert suggestion == (next(known for known, edits in near.items() if edits == least) if least <= allowed else None)


def test_it_stops_when_looking_would_take_long() -> None:
    suggestions = Suggestions(5_000)
    slipped = [f"{name[:-1]}~" for name in KNOWN]

    answers = [suggestions.find_nearest(name, KNOWN) for name in slipped]

    assert all(answers[:10])
    assert not any(answers[len(answers) // 2 :])

"""The order of fields (BPC-GRAPH-1), and the circles among them."""

from random import Random  # noqa: TID251

import pytest

from bpc.core.rules.checking.dependencies import cycles, evaluation_order


def test_of_all_that_could_come_next_the_least_path_does() -> None:
    assert evaluation_order({"c": [], "b": ["c"], "a": ["b"], "d": [], "B": []}) == ["B", "c", "b", "a", "d"]


def test_the_order_does_not_depend_on_the_order_of_the_text() -> None:
    needs = {f"f{n}": [f"f{m}" for m in range(n + 1, 30) if (n * m) % 7 == 1] for n in range(30)}
    shuffled = list(needs)
    Random(1).shuffle(shuffled)

    assert evaluation_order({path: needs[path] for path in shuffled}) == evaluation_order(needs)


def test_what_is_in_or_behind_a_circle_has_no_place() -> None:
    assert evaluation_order({"a": ["b"], "b": ["a"], "c": ["a"], "d": []}) == ["d"]


@pytest.mark.parametrize("seed", range(200))
def test_every_group_of_fields_that_need_each_other_has_exactly_one_circle(seed: int) -> None:
    random = Random(seed)
    count = random.randint(1, 12)
    names = [f"f{n}" for n in range(count)]
    needs = {name: random.sample(names, random.randint(0, min(3, count))) for name in names}

    found = cycles(needs)

    for circle in found:
        for one, other in zip(circle, [*circle[1:], circle[0]], strict=True):
            assert other in needs[one]
        assert len(set(circle)) == len(circle)
    assert sorted(circle[0] for circle in found if len(circle) == 1) == sorted(n for n in names if n in needs[n])
    groups = {frozenset(group) for group in _groups_slowly(needs) if len(group) > 1}
    assert len(groups) == len([circle for circle in found if len(circle) > 1])
    for circle in found:
        if len(circle) > 1:
            assert any(set(circle) <= group for group in groups)


def _groups_slowly(needs: dict[str, list[str]]) -> list[frozenset[str]]:
    """Which fields reach each other, by looking at all of them again and again."""
    reach = {name: set(read) for name, read in needs.items()}
    for _ in needs:
        for name in needs:
            reach[name] |= {further for other in reach[name] for further in reach[other]}
    return [frozenset({name, *[o for o in needs if o in reach[name] and name in reach[o]]}) for name in needs]


def test_ten_thousand_fields_in_a_circle_are_one_circle() -> None:
    needs = {f"f{n}": [f"f{(n + 1) % 10_000}"] for n in range(10_000)}

    (circle,) = cycles(needs)

    assert len(circle) == 10_000
    assert circle[:3] == ["f0", "f1", "f2"]


def test_ten_thousand_fields_in_a_row_have_an_order() -> None:
    needs = {f"f{n}": [f"f{n + 1}"] for n in range(9_999)} | {"f9999": []}

    assert evaluation_order(needs) == [f"f{n}" for n in range(9_999, -1, -1)]

"""The rules a process compiled last: one job makes them ready to run, and those that came meanwhile wait for it."""

import asyncio

import pytest

from bpc.pipeline.rule_cache import RuleTexts


async def test_the_first_use_is_alone_and_later_ones_are_not() -> None:
    texts, running, most_running = RuleTexts(dsl=b"", tests=b""), 0, []

    async def use() -> None:
        nonlocal running
        async with texts.wait_until_ready():
            running += 1
            await asyncio.sleep(0)
            most_running.append(running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*[use() for _ in range(4)])

    assert most_running[0] == 1
    assert max(most_running[1:]) == 3


async def test_rules_whose_first_use_fails_are_made_ready_by_the_next() -> None:
    texts = RuleTexts(dsl=b"", tests=b"")
    with pytest.raises(ValueError, match="no"):
        async with texts.wait_until_ready():
            raise ValueError("no")

    async with texts.wait_until_ready():
        second = asyncio.create_task(texts.wait_until_ready().__aenter__())
        await asyncio.sleep(0)
        assert not second.done()
    await second

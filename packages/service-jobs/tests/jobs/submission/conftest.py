"""Two handlers."""

import pytest
from service_jobs.context import Context
from service_jobs.handler import Handler, Handlers
from tests.jobs.submission.submission_queries import Page


@pytest.fixture
def paint(handlers: Handlers) -> Handler[str, None]:
    @handlers.job("paint")
    async def paint(ctx: Context, colour: str) -> None: ...

    return paint


@pytest.fixture
def printing(handlers: Handlers) -> Handler[Page, None]:
    @handlers.job("print")
    async def printing(ctx: Context, page: Page) -> None: ...

    return printing

"""A web service with background jobs: FastAPI takes orders, a worker in the same process or elsewhere does the work.

    export DATABASE_URL=postgresql://localhost/shop
    service-jobs install
    uvicorn fastapi_service:app                                  # WORKER_HERE=no leaves the work to the next line
    service-jobs worker fastapi_service:handlers --concurrency 8

An order and the job that packs it are written in one transaction: there is never one without the other.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID

import asyncpg
from fastapi import Depends, FastAPI, HTTPException, Request, status
from pydantic import BaseModel
from service_jobs import Context, Handlers, JobNotFound, Jobs, Worker

CREATE_TABLE = "CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, article text NOT NULL, parcel text)"
SHOP = UUID("0190a7c4-0000-7000-8000-000000000001")  # the tenant; a service for many takes it from the caller

handlers = Handlers()


class Order(BaseModel):
    """What a customer sends."""

    article: str


class Parcel(BaseModel):
    """What a finished job has as its result."""

    order_id: int
    number: str


class Receipt(BaseModel):
    """What a customer gets at once: where to ask later."""

    order_id: int
    job_id: UUID


class JobState(BaseModel):
    """How far a job is."""

    status: str
    parcel: Parcel | None


@handlers.job("pack")
async def pack(ctx: Context, order_id: int) -> Parcel:
    """The parcel's number and the end of the job are committed together: no order is packed twice."""
    conn = await ctx.transaction()
    parcel = Parcel(order_id=order_id, number=f"P-{order_id:06}")
    await conn.execute("UPDATE orders SET parcel = $2 WHERE id = $1", order_id, parcel.number)
    return parcel


@asynccontextmanager
async def run_service(app: FastAPI) -> AsyncIterator[None]:
    url = os.environ["DATABASE_URL"]
    async with asyncpg.create_pool(url, min_size=1, max_size=4) as pool, Jobs.connect(url, handlers) as jobs:
        await pool.execute(CREATE_TABLE)
        app.state.pool, app.state.jobs = pool, jobs
        if os.environ.get("WORKER_HERE") == "no":
            yield
            return
        worker = Worker(jobs)
        running = asyncio.create_task(worker.run())
        yield
        worker.stop()
        await running


app = FastAPI(title="Shop", lifespan=run_service)


def get_jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


JobsDependency = Annotated[Jobs, Depends(get_jobs)]


@app.post("/orders", status_code=status.HTTP_202_ACCEPTED)
async def create_order(order: Order, jobs: JobsDependency, request: Request) -> Receipt:
    async with request.app.state.pool.acquire() as conn, conn.transaction():
        order_id: int = await conn.fetchval("INSERT INTO orders (article) VALUES ($1) RETURNING id", order.article)
        job_id = await jobs.submit(pack, order_id, tenant=SHOP, key=f"order-{order_id}", conn=conn)
    return Receipt(order_id=order_id, job_id=job_id)


@app.get("/jobs/{job_id}")
async def show_job(job_id: UUID, jobs: JobsDependency, wait: float = 0) -> JobState:
    """With `wait`, the answer comes when the job is over, or after that many seconds."""
    try:
        job = await jobs.wait(SHOP, job_id, timeout=min(wait, 30)) if wait else await jobs.get_job(SHOP, job_id)
    except TimeoutError:
        job = await jobs.get_job(SHOP, job_id)
    except JobNotFound as error:
        raise HTTPException(status.HTTP_404_NOT_FOUND, error.says) from error
    if job.status != "SUCCEEDED":
        return JobState(status=job.status, parcel=None)
    parcel = await jobs.get_result(pack, SHOP, job_id)
    return JobState(status=job.status, parcel=parcel)

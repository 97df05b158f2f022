"""Inputs and outputs that no database could keep: jobs in memory get the very values."""

import gc
import weakref
from dataclasses import dataclass

import pytest
from service_jobs.context import Context
from service_jobs.handler import Handler, Handlers
from service_jobs.job import (
    InvalidInput,
    JobConflict,
    Status,
    new_id,
)
from service_jobs.job_spec import JobSpec
from service_jobs.memory.engine import MemoryEngine
from service_jobs.memory.store import JobOrigin
from service_jobs.steps import register_steps
from tests.jobs.memory_engine.manual_clock import ACME, ManualClock, wait_until_settled

# What no database could keep


class Camera:
    """Nothing that JSON could say."""

    def __init__(self) -> None:
        self.shots = 0


@dataclass
class Shoot:
    """A dataclass of something that pydantic does not know."""

    camera: Camera


async def test_an_input_and_an_output_need_not_be_json(handlers: Handlers, engine: MemoryEngine) -> None:
    approved: list[Camera] = []

    @handlers.job("shoot", restartable=False)
    async def shoot(ctx: Context, camera: Camera) -> Camera:
        camera.shots += 1
        return camera

    @shoot.on_success
    async def done(ctx: Context, output: Camera) -> None:
        approved.append(output)

    camera = Camera()
    engine.start()
    job_id = engine.submit(shoot, camera, tenant=ACME)
    assert engine.get_result_value(ACME, job_id) == (Status.RUNNING, None, None)
    await engine.wait(ACME, job_id)

    assert engine.get_result_value(ACME, job_id) == (Status.SUCCEEDED, camera, None)
    assert (camera.shots, approved) == (1, [camera])
    with pytest.raises(InvalidInput, match="instance of Camera"):
        engine.submit(shoot, "none", tenant=ACME)  # type: ignore[misc]


async def test_every_attempt_is_given_the_same_value(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock
) -> None:
    inputs: list[Shoot] = []

    @handlers.job("shoot", restartable=False)
    async def shoot(ctx: Context, shoot: Shoot) -> None:
        inputs.append(shoot)
        if len(inputs) < 3:
            raise OSError("blurred") if ctx.attempt == 1 else JobConflict("no film")

    value = Shoot(Camera())
    engine.start()
    job_id = engine.submit(shoot, value, tenant=ACME)
    await clock.move(2)
    assert engine.get_job(ACME, job_id).status is Status.FAILED
    engine.redrive(ACME, job_id)
    await clock.move(1)

    assert engine.get_job(ACME, job_id).status is Status.SUCCEEDED
    assert all(got is value for got in inputs)
    assert len(inputs) == 3


async def test_an_output_of_the_wrong_type_is_refused_without_being_told(
    handlers: Handlers, engine: MemoryEngine
) -> None:
    @handlers.job("shoot", restartable=False)
    async def shoot(ctx: Context, name: str) -> Camera:
        return name  # type: ignore[return-value]

    engine.start()
    job = await engine.wait(ACME, engine.submit(shoot, "secret", tenant=ACME))

    assert job.last_error is not None
    assert (job.status, job.last_error.code) == (Status.FAILED, "VALIDATION_ERROR")
    assert "instance of Camera" in job.last_error.message
    assert "secret" not in job.last_error.message


async def test_a_job_that_will_not_run_again_holds_nothing_of_its_input(
    handlers: Handlers, engine: MemoryEngine
) -> None:
    @handlers.job("shoot", restartable=False)
    async def shoot(ctx: Context, camera: Camera) -> None: ...

    camera = Camera()
    watched = weakref.ref(camera)
    engine.start()
    job_id = engine.submit(shoot, camera, tenant=ACME, key="k")
    del camera
    await engine.wait(ACME, job_id)
    await wait_until_settled()
    gc.collect()

    assert watched() is None
    assert engine.submit(shoot, Camera(), tenant=ACME, key="k") == job_id


async def test_a_follow_up_is_given_the_very_value(handlers: Handlers, engine: MemoryEngine) -> None:
    shots: list[Camera] = []

    @handlers.job("shoot", restartable=False)
    async def shoot(ctx: Context, camera: Camera) -> None:
        shots.append(camera)

    @handlers.job("lead", restartable=False)
    async def lead(ctx: Context, camera: Camera | None) -> None:
        ctx.submit(shoot, camera or Camera())

    camera = Camera()
    engine.start()
    engine.submit(lead, camera, tenant=ACME)
    engine.submit(lead, None, tenant=ACME)
    await wait_until_settled()

    assert shots[0] is camera
    assert len(shots) == 2


async def test_a_wish_with_a_payload_only_is_carried_out_with_that(
    handlers: Handlers, engine: MemoryEngine, echo: Handler[str, str]
) -> None:
    spec = JobSpec(handler=echo, job_id=new_id(), payload=echo.encode_input("by mail"))
    engine.start()
    engine.add(spec, ACME, JobOrigin(None, None, None))
    await engine.wait(ACME, spec.job_id)

    assert engine.get_result_value(ACME, spec.job_id)[1] == "by mail"


async def test_steps_hand_on_what_is_not_json_and_go_on_with_it(
    handlers: Handlers, engine: MemoryEngine, clock: ManualClock
) -> None:
    seen: list[tuple[str, Camera]] = []

    async def buy(ctx: Context, value: None) -> Camera:
        camera = Camera()
        seen.append(("buy", camera))
        return camera

    async def use(ctx: Context, camera: Camera) -> int:
        seen.append(("use", camera))
        if ctx.attempt == 1:
            raise OSError("no light")
        return 1

    handler = register_steps(handlers, "film", buy, use, restartable=False)
    engine.start()
    job_id = engine.submit(handler, None, tenant=ACME)
    await clock.move(2)

    assert engine.get_result_value(ACME, job_id)[1] == 1
    assert [name for name, _ in seen] == ["buy", "use", "use"]
    assert len({id(camera) for _, camera in seen}) == 1


async def test_a_step_of_the_wrong_type_fails_for_good(handlers: Handlers, engine: MemoryEngine) -> None:
    async def buy(ctx: Context, value: None) -> Camera:
        return "a picture of one"  # type: ignore[return-value]

    async def use(ctx: Context, camera: Camera) -> None: ...

    handler = register_steps(handlers, "film", buy, use, restartable=False)
    engine.start()
    job = await engine.wait(ACME, engine.submit(handler, None, tenant=ACME))

    assert job.last_error is not None
    assert (job.status, job.last_error.code) == (Status.FAILED, "VALIDATION_ERROR")

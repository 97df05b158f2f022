"""`bpc jobs types`, `schedules` and `schedule`: how each type of job is run, and which run by the clock."""

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from service_jobs import schedules as stored_schedules
from service_jobs.cron import CatchUp
from service_jobs.job_spec import JobSpecBuilder

from bpc.cli.run import job_output
from bpc.cli.support.arguments import TenantOption, require_utf8
from bpc.cli.support.output import AsJson, print_json, print_result
from bpc.cli.support.session import load_settings_and_logs, make_operator_act, open_tenant
from bpc.core.errors import Invalid
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.storage import schedules as audited_schedules
from bpc.storage.access.tenants_and_actors import find_tenant
from bpc.storage.database import Database, open_migrated_database
from bpc.storage.jobs import make_job_defaults

if TYPE_CHECKING:
    from service_jobs.schedules import Schedule, StoredSchedule

    from bpc.tasks.job_types import JobTypes


def _declare_job_types(settings: Settings, database: Database) -> "JobTypes":
    from bpc.tasks.job_types import declare_job_types  # noqa: PLC0415 (imports the whole pipeline)

    return declare_job_types(settings, database=database, key_ring=KeyRing({}))


async def list_types(as_json: AsJson = False) -> None:
    """List the types of jobs: timeout, attempts, pauses, and how long a finished one is kept."""
    from bpc.tasks.schedules import PERMISSION_BY_TYPE  # noqa: PLC0415 (as above)

    settings = load_settings_and_logs("jobs")
    async with open_migrated_database(settings) as database:
        handlers = _declare_job_types(settings, database).handlers
    specs = JobSpecBuilder(handlers, make_job_defaults(settings)).describe_types()
    if as_json:
        print_json([{**asdict(spec), "schedulable": spec.type in PERMISSION_BY_TYPE} for spec in specs])
    else:
        job_output.print_types(specs)


async def list_schedules(
    tenant: TenantOption,
    pause: Annotated[str | None, typer.Option("--pause", metavar="NAME", help="Stop creating jobs.")] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="NAME", help="Continue with the next due time.")
    ] = None,
    remove: Annotated[
        str | None, typer.Option("--remove", metavar="NAME", help="Delete the schedule; its jobs stay.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List a tenant's schedules; pause, resume or remove one. `bpc jobs schedule` creates and changes them."""
    options = (
        (pause, audited_schedules.pause_schedule),
        (resume, audited_schedules.resume_schedule),
        (remove, audited_schedules.remove_schedule),
    )
    changes = [(require_utf8("the name", name), change) for name, change in options if name is not None]
    if len(changes) > 1:
        raise typer.BadParameter("Use only one of --pause, --resume and --remove.")
    async with open_tenant(load_settings_and_logs("jobs"), tenant) as (tenant_id, conn):
        for name, change in changes:
            await change(conn, tenant_id, name, act=make_operator_act())
        entries = await stored_schedules.list_schedules(conn, tenant_id)
    if as_json:
        print_json([job_output.schedule_to_json(entry) for entry in entries])
    else:
        job_output.print_schedules(entries)


async def put_schedule(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.", show_default=False)],
    tenant: TenantOption,
    job_type: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE", help="INGEST_DOCUMENT, RENEW_ITEMS or REPLAY_AUDIT; never changes."),
    ] = None,
    cron: Annotated[str | None, typer.Option("--cron", metavar="CRON", help='When, like "30 5 * * 1".')] = None,
    time_zone: Annotated[
        str | None, typer.Option("--time-zone", metavar="ZONE", help="Like Europe/Berlin [default: UTC].")
    ] = None,
    catch_up: Annotated[
        CatchUp | None,
        typer.Option("--catch-up", help="Jobs for moments that passed while no worker ran [default: one]."),
    ] = None,
    job_input: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="What each job gets; it is never shown.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a schedule, or change what the options name.

    \b
    bpc jobs schedule audit-more --tenant acme --type REPLAY_AUDIT --cron "0 4 * * *" --input '{"sample": 500}'
    bpc jobs schedule audit-more --tenant acme --cron "0 5 * * *"
    """
    from bpc.tasks.schedules import build_schedule  # noqa: PLC0415 (imports the whole pipeline)

    settings, act, value = load_settings_and_logs("jobs"), make_operator_act(), _parse_input(job_input)
    schedule_name = require_utf8("the name", name)
    async with open_migrated_database(settings) as database:
        tenant_id = (await find_tenant(database, tenant)).tenant_id
        async with database.tenant(tenant_id) as conn:
            entries = await stored_schedules.list_schedules(conn, tenant_id)
            present = next((entry.schedule for entry in entries if entry.schedule.name == schedule_name), None)
            wanted_type = _choose_type(present, job_type)
            if present is not None and value is None:
                options: dict[str, Any] = {"cron": cron, "time_zone": time_zone, "catch_up": catch_up}
                schedule = replace(present, **{key: option for key, option in options.items() if option is not None})
            else:
                schedule = await build_schedule(
                    conn,
                    tenant_id,
                    _declare_job_types(settings, database).task_jobs,
                    name=schedule_name,
                    job_type=wanted_type,
                    job_input=value,
                    cron=_choose_cron(present, cron),
                    time_zone=time_zone or (present.time_zone if present else "UTC"),
                    catch_up=catch_up or (present.catch_up if present else CatchUp.ONE),
                    actor=act.actor_id,
                    defaults=make_job_defaults(settings),
                )
            store = audited_schedules.create_schedule if present is None else audited_schedules.change_schedule
            entry = await store(conn, tenant_id, schedule, act=act)
    _print_stored(entry, "created" if present is None else "changed", as_json=as_json)


def _choose_type(present: "Schedule | None", job_type: str | None) -> str:
    if present is None and job_type is None:
        raise Invalid("a new schedule needs a type", fix="add --type, --cron and --input; `bpc jobs types` lists types")
    if present is not None and job_type not in {None, present.type}:
        raise Invalid(
            f"schedule `{present.name}` submits {present.type}, and its type never changes",
            fix="choose another name, or remove it first",
        )
    return require_utf8("the type", job_type) if present is None and job_type is not None else present.type  # type: ignore[union-attr]


def _choose_cron(present: "Schedule | None", cron: str | None) -> str:
    if cron is not None:
        return require_utf8("the expression", cron)
    if present is None:
        raise Invalid("a new schedule needs a cron expression", fix='add one, like --cron "30 5 * * 1"')
    return present.cron


def _parse_input(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(require_utf8("the input", text))
    except ValueError:
        raise Invalid("the input is not JSON", fix="""write an object, like --input '{"sample": 100}'""") from None


def _print_stored(entry: "StoredSchedule", verb: str, *, as_json: bool) -> None:
    document = job_output.schedule_to_json(entry)
    says = f"{verb} schedule {entry.schedule.name}: {entry.schedule.type} at `{entry.schedule.cron}`"
    moment = "it is paused" if entry.paused else f"next at {document['next_at']}"
    print_result(document, f"{says} ({entry.schedule.time_zone}), {moment}", as_json=as_json)

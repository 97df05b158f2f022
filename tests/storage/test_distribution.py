"""Tables that can be spread over nodes by tenant: every key holds inside one tenant, and the proof of it can fail."""

import re
from typing import Final

from tests.storage.probes import Superuser
from tools.distribution import (
    LOCAL,
    REFERENCE,
    STATEMENTS,
    list_problems,
    load_catalog,
    parse_statements,
    plan_placement,
    write_statements,
)

TENANT: Final = "tenant_id uuid NOT NULL REFERENCES tenants"
GOOD: Final = f"CREATE TABLE good ({TENANT}, id uuid, PRIMARY KEY (tenant_id, id))"
KEYED: Final = f"CREATE TABLE bad ({TENANT}, id uuid, a int, PRIMARY KEY (tenant_id, id))"
LOOSE: Final = "{0} of public.bad does not contain tenant_id"
# By what is found.
BAD: Final = {
    "public.bad is distributed and has no tenant_id": ["CREATE TABLE bad (id uuid PRIMARY KEY)"],
    "public.bad is distributed and may have no value in tenant_id": [
        "CREATE TABLE bad (tenant_id uuid REFERENCES tenants, id uuid, UNIQUE (tenant_id, id))"
    ],
    "public.bad is distributed and has no key": [f"CREATE TABLE bad ({TENANT})"],
    LOOSE.format("bad_pkey"): [f"CREATE TABLE bad ({TENANT}, id uuid PRIMARY KEY)"],
    LOOSE.format("unique_key"): [KEYED, "ALTER TABLE bad ADD CONSTRAINT unique_key UNIQUE (a)"],
    LOOSE.format("partial"): [KEYED, "CREATE UNIQUE INDEX partial ON bad (a) WHERE a > 0"],
    LOOSE.format("included"): [KEYED, "CREATE UNIQUE INDEX included ON bad (id) INCLUDE (tenant_id)"],
    LOOSE.format("computed"): [KEYED, "CREATE UNIQUE INDEX computed ON bad (left(tenant_id::text, 8), id)"],
    LOOSE.format("apart"): [KEYED, "ALTER TABLE bad ADD CONSTRAINT apart EXCLUDE USING btree (a WITH =)"],
    LOOSE.format("overlap"): [
        KEYED,
        "ALTER TABLE bad ADD COLUMN during int4range, ADD CONSTRAINT overlap EXCLUDE USING gist (during WITH &&)",
    ],
    "crossed of public.bad does not take tenant_id to tenant_id of public.good": [
        GOOD,
        KEYED,
        "ALTER TABLE good ADD UNIQUE (id, tenant_id)",
        "ALTER TABLE bad ADD CONSTRAINT crossed FOREIGN KEY (tenant_id, id) REFERENCES good (id, tenant_id)",
    ],
    "back: public.tenants is reference and refers to public.good, which is distributed": [
        GOOD,
        "ALTER TABLE tenants ADD COLUMN good_id uuid",
        "ALTER TABLE tenants ADD CONSTRAINT back FOREIGN KEY (tenant_id, good_id) REFERENCES good",
    ],
    "out: jobs.schedule is local and refers to public.good, which is distributed": [
        GOOD,
        "ALTER TABLE jobs.schedule ADD COLUMN good_id uuid",
        "ALTER TABLE jobs.schedule ADD CONSTRAINT out FOREIGN KEY (tenant_id, good_id) REFERENCES good",
    ],
    "home: public.bad is distributed and refers to jobs.job, which is only on the coordinator": [
        KEYED,
        "ALTER TABLE bad ADD CONSTRAINT home FOREIGN KEY (tenant_id, id) REFERENCES jobs.job",
    ],
    "policy looks of public.good has a subquery": [
        GOOD,
        "CREATE POLICY looks ON good USING (tenant_id = (SELECT min(tenant_id::text)::uuid FROM tenants))",
    ],
    "public.bad is not an ordinary table": ["CREATE MATERIALIZED VIEW bad AS SELECT tenant_id FROM tenants"],
}


async def find_problems(superuser: Superuser, statements: str | None = None) -> list[str]:
    catalog = await load_catalog(superuser)
    return list_problems(catalog, parse_statements(statements or write_statements(catalog)))


async def test_every_table_is_distributed_or_reference_and_every_key_contains_the_tenant(superuser: Superuser) -> None:
    catalog = await load_catalog(superuser)

    assert list_problems(catalog, parse_statements(STATEMENTS.read_text())) == []
    assert {*REFERENCE, *LOCAL} <= set(catalog.tables)
    places = list(plan_placement(catalog).values())
    assert places.count("distributed") > 25
    assert len([key for key in catalog.keys if plan_placement(catalog)[key.table] == "distributed"]) > 45


async def test_the_statements_match_the_catalog(superuser: Superuser) -> None:
    assert STATEMENTS.read_text() == write_statements(await load_catalog(superuser)), "run tools/distribution.py"


async def test_each_table_comes_after_the_tables_it_refers_to(superuser: Superuser) -> None:
    catalog, text = await load_catalog(superuser), STATEMENTS.read_text()
    order = [table for table, place in parse_statements(text) if place != "local"]
    taken_off = set(re.findall(r"DROP CONSTRAINT (\w+);", text))

    for key in catalog.foreign_keys:
        if key.table in order and key.table != key.target and key.name not in taken_off:
            assert order.index(key.target) < order.index(key.table), key.name

    assert taken_off == set(re.findall(r"ADD CONSTRAINT (\w+) ", text))


async def test_the_plain_sql_part_keeps_keys_and_policies(superuser: Superuser) -> None:
    before = await load_catalog(superuser)
    plain = re.findall(r"^(?:ALTER (?:POLICY|TABLE)|DROP POLICY) .*?;", STATEMENTS.read_text(), re.MULTILINE)

    transaction = superuser.transaction()
    await transaction.start()
    await superuser.execute("\n".join(plain))
    after = await load_catalog(superuser)
    await transaction.rollback()

    assert (after.tables, after.keys, after.foreign_keys) == (before.tables, before.keys, before.foreign_keys)
    spread = [policy for policy in after.policies if policy.table not in LOCAL]
    assert len(spread) == len([policy for policy in before.policies if policy.table not in LOCAL]) - 1
    assert [policy for policy in spread if "SELECT" in f"{policy.using_expression} {policy.check_expression}"] == []
    own = [policy for policy in spread if policy.name == "own_tenant"]
    assert {(policy.using_expression, policy.check_expression) for policy in own} == {
        ("(tenant_id = current_tenant())",) * 2
    }


async def test_the_proof_fails_for_whatever_citus_would_refuse(superuser: Superuser) -> None:
    for problem, statements in BAD.items():
        transaction = superuser.transaction()
        await transaction.start()
        await superuser.execute("; ".join(statements))
        problems_found = await find_problems(superuser)
        await transaction.rollback()
        assert problem in problems_found, statements


async def test_tables_with_the_tenant_in_every_key_are_no_problem(superuser: Superuser) -> None:
    await superuser.execute(GOOD)
    await superuser.execute(
        f"CREATE TABLE better ({TENANT}, id uuid, good_id uuid, PRIMARY KEY (id, tenant_id),"
        " FOREIGN KEY (tenant_id, good_id) REFERENCES good);"
        "CREATE UNIQUE INDEX ON better (good_id, tenant_id) WHERE good_id IS NOT NULL"
    )

    assert await find_problems(superuser) == []


async def test_a_table_that_the_statements_forget_or_name_twice_is_found(superuser: Superuser) -> None:
    await superuser.execute(GOOD)
    written_file = STATEMENTS.read_text()
    twice = written_file.replace(
        "-- local: jobs.batch\n", "-- local: jobs.batch\nSELECT create_reference_table('jobs.batch');\n"
    )
    other_column = written_file.replace("'public.facts', 'tenant_id'", "'public.facts', 'fact_id'")
    unknown_table = written_file.replace("'public.facts'", "'public.fact'")

    assert await find_problems(superuser, written_file) == ["public.good is named 0 times"]
    assert "jobs.batch is named 2 times" in await find_problems(superuser, twice)
    assert "public.facts is named 0 times" in await find_problems(superuser, other_column)
    assert "public.fact is named and does not exist" in await find_problems(superuser, unknown_table)

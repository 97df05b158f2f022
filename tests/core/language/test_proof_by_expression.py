"""BPC-PROOF-2: a node for each expression, over what it has read. Both evaluators give these nodes."""

from typing import Any

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from tests.core.language.evaluating.evaluation import create_fact, create_machine, create_world, evaluate, prove
from tests.core.language.reference.derivation import derive_rules

BATTERY = create_fact("Battery", "battery:S-1", capacity_kwh="75.5")


def list_steps(rules: str, *facts: SnapshotFact) -> list[tuple[str, dict[str, Any], list[int]]]:
    """The nodes behind the root: their data, without salts, and children."""
    machine = create_machine(f"language 2; {rules}")
    proof: Any = canonical_json.decode(prove(machine, create_world(machine, *facts)).proof)
    steps = proof["nodes"][len(proof["field_index"]) + 1 :]
    return [
        (node["type"], {name: value for name, value in node["data"].items() if name != "salt"}, node["children"])
        for node in steps
    ]


def test_a_field_without_reads_is_one_node_that_says_where_it_stands() -> None:
    assert list_steps("field a: Int = 2 + 2;") == [("OP", {"at": [27, 32], "op": "derivation"}, [])]


def test_a_place_is_counted_in_bytes() -> None:
    ((_, data, _),) = list_steps('field a: Text = concat("ä", "b"); -- ß')

    assert data["at"] == [28, 45]


def test_a_definition_is_a_node_over_the_facts_it_reads_and_its_readers_have_it_as_child() -> None:
    rules = (
        'def sheet = getFact("Battery", "battery:S-1"); def energy = sheet.capacity_kwh; '
        "field a: Opt(Dec(6)) = energy; field b: Bool = energy is present && sheet is present;"
    )

    steps = list_steps(rules, BATTERY)

    assert steps[0] == (
        "FACT_GET",
        {
            "fact_type": "Battery",
            "key": "battery:S-1",
            "payload_hash": to_hex(sha256(canonical_json.encode({"capacity_kwh": "75.5"}))),
            "schema_version": 1,
        },
        [],
    )
    assert [(data.get("name"), data.get("value"), children) for _, data, children in steps[1:]] == [
        ("sheet", None, [3]),
        ("energy", "75.500000", [4]),
        (None, None, [5]),
        (None, None, [5, 4]),
    ]
    assert "value" not in steps[1][1]


def test_a_definition_without_a_value_that_is_not_missing_says_null() -> None:
    rules = 'language 2; def mass = (Battery for "x").mass_kg; field a: Opt(Dec(6)) = mass;'

    (shown,) = (node.data for node in derive_rules(rules).nodes if node.data.get("name") == "mass")
    (data,) = (data for _, data, _ in list_steps(rules.removeprefix("language 2; ")) if data.get("name") == "mass")

    assert data == shown
    assert data["value"] is None


def test_a_field_that_is_read_is_a_child_by_its_derivation() -> None:
    steps = list_steps('field a: Int = 1; field b: Int = field("a") + field("a");')

    assert [children for _, _, children in steps] == [[], [3]]


def test_a_loop_over_many_facts_is_one_read() -> None:
    facts = [create_fact("Component", f"component:{part:03d}", mass_g="2") for part in range(300)]
    rules = (
        'def parts = getFactsByPrefix("Component", "component:"); '
        "field mass: Dec(6) = sum(present(map(filter(parts, fn(p) => p.mass_g is present), fn(p) => p.mass_g)));"
    )

    steps = list_steps(rules, *facts)

    assert [(kind, data.get("count"), children) for kind, data, children in steps] == [
        ("FACT_GET", 300, []),
        ("OP", None, [2]),
        ("OP", None, [3]),
    ]


def test_what_is_asked_for_in_a_loop_is_in_the_order_of_asking() -> None:
    rules = 'field a: List(Bool) = map(["y", "x", "y"], fn(k) => getFact("Battery", k) is present);'

    steps = list_steps(rules)

    assert [data.get("key") for _, data, _ in steps] == ["y", "x", None]
    assert steps[-1][2] == [2, 3]


def test_what_reads_nothing_follows_from_the_rules_and_has_no_node() -> None:
    rules = "const LIMIT = 2; def twice = LIMIT * 2; fn add(x: Int): Int = x + twice; field a: Int = add(LIMIT);"

    assert [data["op"] for _, data, _ in list_steps(rules)] == ["derivation"]


def test_what_is_missing_is_said_by_all_that_need_it() -> None:
    rules = (
        'def sheet = Battery for "x" else missing("none"); def twin = sheet; '
        'field a: Int = count([twin]); field b: Int = field("a");'
    )

    steps = list_steps(rules)

    missing = {"code": "MISSING_SHEET", "message": "none"}
    assert [(data.get("name"), data["missing"], children) for _, data, children in steps[1:]] == [
        ("sheet", missing, [3]),
        ("twin", missing, [4]),
        (None, missing, [5]),
        (None, missing, [6]),
    ]


def test_a_definition_that_is_missing_without_having_read_has_a_node() -> None:
    steps = list_steps(
        'def never: Int = if 1 > 2 then some(1) else none else missing("E1", "never"); field a: Int = never;'
    )

    assert [data.get("name") for _, data, _ in steps] == ["never", None]


def test_a_long_value_of_a_definition_is_shown_by_its_hash() -> None:
    listed = ["1"] * 64
    rules = (
        'def sheet = getFact("Battery", "battery:S-1"); '
        'def short = map({count}, fn(x) => if sheet is present then "1" else ""); field a: Int = count(short);'
    )

    (just,) = (
        data for _, data, _ in list_steps(rules.format(count=[*range(64)][:63]), BATTERY) if data.get("name") == "short"
    )
    (long,) = (
        data for _, data, _ in list_steps(rules.format(count=[*range(64)]), BATTERY) if data.get("name") == "short"
    )

    assert just["value"] == listed[:63]
    assert long["value_hash"] == to_hex(sha256(canonical_json.encode(listed)))


def test_a_requirement_is_the_node_of_its_entry() -> None:
    rules = (
        'def sheet = Battery for "S-1" else missing("none"); '
        'require A "is {sheet.capacity_kwh ?? 0}": true; require B "b": false severity warn;'
    )

    steps = list_steps(rules, BATTERY)

    kind, data, children = steps[2]
    text = f"language 2; {rules}"
    assert (kind, children) == ("COMPLIANCE_EMIT", [3])
    assert text[slice(*data["at"])] == 'require A "is {sheet.capacity_kwh ?? 0}": true;'
    assert data == {
        "args": {"sheet.capacity_kwh ?? 0": "75.5"},
        "at": data["at"],
        "code": "A",
        "field": "requirements.met",
        "index": 0,
        "message": "is 75.5",
        "status": "PASS",
        "verdict": "assessed",
    }
    assert steps[3][1]["status"] == "WARN"
    assert steps[4] == ("OP", {"op": "derivation"}, [4, 5])


def test_a_requirement_that_needs_what_is_missing_has_it_as_child() -> None:
    steps = list_steps('def sheet = Battery for "x" else missing("none"); require A "a": sheet.mass_kg is present;')

    assert [(kind, children) for kind, _, children in steps] == [
        ("FACT_GET", []),
        ("OP", [2]),
        ("COMPLIANCE_EMIT", [3]),
        ("OP", [4]),
    ]
    assert (steps[2][1]["message"], steps[2][1]["status"]) == ("none", "FAIL")


def test_an_entry_of_a_field_is_a_child_of_its_derivation() -> None:
    steps = list_steps('field a: Bool = emitCompliance("C", "WARN", "look");')

    assert [(kind, data.get("index"), children) for kind, data, children in steps] == [
        ("COMPLIANCE_EMIT", 0, []),
        ("OP", None, [2]),
    ]


def test_the_reference_evaluator_can_still_give_a_node_for_each_operator() -> None:
    rules = "language 2; field a: Int = 1 + 2 * 3;"

    assert [node.data.get("op") for node in derive_rules(rules).nodes[2:]] == ["derivation"]
    assert [node.data.get("op") for node in derive_rules(rules, by_operator=True).nodes[2:]] == [
        *(None, None, None),
        *("*", "+"),
        "derivation",
    ]


def test_a_function_of_the_rules_beside_a_grouping_is_called() -> None:
    rules = (
        "language 2; fn twice(x: Int): Int = x * 2; "
        "field a: Int = count(groupBy([1, 1, 2], fn(x) => x)); field b: Int = twice(4);"
    )

    assert evaluate(rules).fields == {"a": 2, "b": 8}

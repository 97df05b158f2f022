"""Folds of rules: packages with their catalogues, versions with their fields and test runs."""

from bpc.core.audit.state import ExpectedRows, StateEvent, take


def fold_rule_package(rows: ExpectedRows, event: StateEvent) -> None:
    """A rule package, and its catalogues."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "RULE_PACKAGE_CREATED":
            times = {"created_at": event.at, "created_by": event.actor_id}
            rows.put("rule_packages", key, is_active=True, **take(payload, "name", "description"), **times)
        case "RULE_PACKAGE_RENAMED":
            rows.change("rule_packages", key, name=payload["to"], **take(payload, "description"))
        case "RULE_PACKAGE_DEACTIVATED" | "RULE_PACKAGE_REACTIVATED":
            rows.change("rule_packages", key, is_active=event.type == "RULE_PACKAGE_REACTIVATED")
        case "RULE_CATALOGUE_STORED":
            columns = take(payload, "sha256", "texts", content="sha256")
            rows.put("rule_catalogues", key, payload["language"], stored_at=event.at, **columns)
        case _:
            pass


def fold_rule_version(rows: ExpectedRows, event: StateEvent) -> None:
    """A version of a rule package, and its test runs. The texts and the fields are compared by their hashes."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "RULE_VERSION_CREATED":
            columns = take(
                payload,
                "rule_package_id",
                "version",
                "compiler_min_build",
                "dsl_sha256",
                "tests_sha256",
                dsl_source="dsl_sha256",
                tests_source="tests_sha256",
                fields="fields_sha256",
            )
            times = {"created_at": event.at, "published_at": None}
            rows.put("rule_package_versions", key, status="DRAFT", **columns, **times)
        case "TESTS_RUN":
            rows.change("rule_package_versions", key, status=payload["status"])
            columns = take(payload, "seed", "cases", "passed", "failed", "discarded", status="result")
            columns |= take(payload, details="details_sha256")
            row_key = payload["run_id"]
            rows.put("rule_tests_runs", row_key, rule_package_version_id=key, **columns)
        case "RULES_PUBLISHED":
            rows.change("rule_package_versions", key, status="PUBLISHED", published_at=event.at)
        case "RULES_DEPRECATED":
            rows.change("rule_package_versions", key, status="DEPRECATED")
        case "RULES_RETIRED":
            rows.change("rule_package_versions", key, status="RETIRED")
        case _:
            pass

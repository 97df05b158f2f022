"""Folds of passports: products, passports, their versions with waivers and exports, bulk compiles."""

from bpc.core.audit.state import ExpectedRows, StateEvent, take, take_time

_IDENTIFICATION = ("granularity", "scheme", "gtin", "base_url", "operator_scheme", "operator_id")


def fold_product(rows: ExpectedRows, event: StateEvent) -> None:
    """A product, and how its batteries are identified."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "PRODUCT_CREATED":
            rows.put("battery_products", key, created_at=event.at, is_active=True, **take(payload, "sku", "name"))
        case "PRODUCT_RENAMED":
            rows.change("battery_products", key, name=payload["to"])
        case "PRODUCT_DEACTIVATED" | "PRODUCT_REACTIVATED":
            rows.change("battery_products", key, is_active=event.type == "PRODUCT_REACTIVATED")
        case "PRODUCT_IDENTIFIED":
            columns = {name: payload.get(name) for name in _IDENTIFICATION}
            rows.put("battery_identifications", key, changed_at=event.at, **columns)
        case _:
            pass


def fold_passport(rows: ExpectedRows, event: StateEvent) -> None:
    """A passport. Its current version is the active one, whose status follows from that version's events."""
    if event.type == "PASSPORT_CREATED":
        columns = take(event.payload, "battery_product_id")
        rows.put("passports", event.aggregate_id, created_at=event.at, **columns)


def fold_passport_version(rows: ExpectedRows, event: StateEvent) -> None:
    """A version of a passport, its waivers, and its exports that are ready."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "PASSPORT_COMPILED":
            _put_version(rows, event)
        case "PASSPORT_SIGNED":
            rows.forget("passport_versions", key, "receipt_canonical", "signature")  # signing rewrites the receipt
            columns = take(payload, "signing_key_id", receipt_canonical="receipt_sha256", signature="signature_sha256")
            rows.change("passport_versions", key, status="SIGNED", **columns)
        case "QR_GENERATED":
            rows.forget("passport_versions", key, "qr_png")
            rows.change("passport_versions", key, **take(payload, "qr_payload", qr_png="qr_png_sha256"))
        case "PASSPORT_ACTIVATED":
            rows.change("passport_versions", key, status="ACTIVE", activated_at=event.at)
        case "PASSPORT_SUPERSEDED":
            rows.change("passport_versions", key, status="SUPERSEDED", superseded_at=event.at)
        case "PASSPORT_REVOKED":
            rows.change("passport_versions", key, status="REVOKED", revoked_at=event.at)
        case "PASSPORT_VERSION_ABANDONED":
            rows.change("passport_versions", key, abandoned_at=event.at, abandon_reason=payload["reason"])
        case "PASSPORT_REPLAYED" | "REPLAY_MISMATCH":
            rows.change("passport_versions", key, replayed_at=event.at)
        case "PASSPORT_WAIVED" | "EXPORT_CREATED":
            _put_belongings(rows, event)
        case _:
            pass


def _put_belongings(rows: ExpectedRows, event: StateEvent) -> None:
    """What belongs to a version: waivers and exports."""
    key, payload = event.aggregate_id, event.payload
    for waiver in payload.get("waived", ()):
        columns = take(waiver, "code", "field", "entries") | take(payload, "reason")
        times = {"waived_at": event.at, "waived_by": event.actor_id}
        rows.put("passport_waivers", waiver["waiver_id"], passport_version_id=key, **columns, **times)
    if event.type == "EXPORT_CREATED":
        columns = take(payload, "format", "audience", "sha256", content="sha256")
        rows.put("passport_exports", payload["export_id"], **columns)


def _put_version(rows: ExpectedRows, event: StateEvent) -> None:
    payload = event.payload
    copied_names = "passport_id", "snapshot_id", "rule_package_version_id", "compiler_build_id", "payload_hash"
    columns = take(
        payload,
        *copied_names,
        "proof_root_hash",
        "receipt_hash",
        "fail_count",
        "warn_count",
        payload_canonical="payload_hash",
        proof_canonical="proof_sha256",
        receipt_canonical="receipt_sha256",
    )
    issue_time = take_time(payload, "issued_at")
    empty = dict.fromkeys(
        (
            "signing_key_id",
            "signature",
            "qr_payload",
            "qr_png",
            "activated_at",
            "superseded_at",
            "revoked_at",
            "abandoned_at",
            "abandon_reason",
            "replayed_at",
        )
    )
    times = {} if not issue_time else {"created_at": issue_time["issued_at"]}
    rows.put("passport_versions", event.aggregate_id, status="COMPILING", **empty, **columns, **times)


def fold_compile_run(rows: ExpectedRows, event: StateEvent) -> None:
    """A bulk compile."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "COMPILE_RUN_REQUESTED":
            columns = take(payload, "rule_package_version_id", "activate", "skip_unchanged", total="rows")
            times = {"created_at": event.at, "created_by": event.actor_id, "cancelled_at": None}
            rows.put("compile_runs", key, **columns, **times)
        case "COMPILE_RUN_CANCELLED":
            rows.change("compile_runs", key, cancelled_at=event.at)
        case _:
            pass

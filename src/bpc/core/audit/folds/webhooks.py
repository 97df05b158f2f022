"""Folds of webhooks: endpoints and subscriptions."""

from bpc.core.audit.state import ExpectedRows, StateEvent, take


def fold_endpoint(rows: ExpectedRows, event: StateEvent) -> None:
    """Where webhooks are sent, how, and whether."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "WEBHOOK_ENDPOINT_CREATED":
            rows.put(
                "webhook_endpoints",
                key,
                is_active=True,
                created_at=event.at,
                created_by=event.actor_id,
                rotated_at=None,
                disabled_at=None,
                disabled_reason=None,
                timeout_seconds=None,
                retry_client_errors=False,
                **take(payload, "url"),
            )
            rows.change("webhook_endpoints", key, **take(payload, "timeout_seconds", "retry_client_errors"))
        case "WEBHOOK_ENDPOINT_CHANGED":
            rotation = {"rotated_at": event.at} if "secret" in payload["changed"] else {}
            rows.change(
                "webhook_endpoints", key, **rotation, **take(payload, "url", "timeout_seconds", "retry_client_errors")
            )
        case "WEBHOOK_ENDPOINT_DELETED" | "WEBHOOK_ENDPOINT_ENABLED":
            is_active = event.type == "WEBHOOK_ENDPOINT_ENABLED"
            rows.change("webhook_endpoints", key, is_active=is_active, disabled_at=None, disabled_reason=None)
        case "WEBHOOK_ENDPOINT_DISABLED":
            reason = payload["reason"]
            rows.change("webhook_endpoints", key, is_active=False, disabled_at=event.at, disabled_reason=reason)
        case _:
            pass


def fold_subscription(rows: ExpectedRows, event: StateEvent) -> None:
    """Which type of event is sent to an endpoint."""
    key = event.aggregate_id
    match event.type:
        case "WEBHOOK_SUBSCRIPTION_CREATED":
            columns = take(event.payload, "webhook_endpoint_id", "event_type")
            rows.put("webhook_subscriptions", key, created_at=event.at, **columns)
        case "WEBHOOK_SUBSCRIPTION_DELETED":
            rows.drop("webhook_subscriptions", key)
        case _:
            pass

"""Webhooks: endpoints and subscriptions, deliveries, and the fan-out of an event to deliveries and jobs."""

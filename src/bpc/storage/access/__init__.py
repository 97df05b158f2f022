"""Who may do what: tenants, roles, actors, API keys, policies, and what a request needs before its route runs."""

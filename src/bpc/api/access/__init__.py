"""Who may call the API: authentication, permissions, policies about bodies, limits per tenant, recorded denials."""

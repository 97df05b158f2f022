"""What the provider says of a person: their name and the groups they are in."""

from typing import Any

from oauth2_provider.oauth2_validators import OAuth2Validator


class GroupClaims(OAuth2Validator):  # type: ignore[misc]  # it has no types
    """Adds the groups to ID tokens and to the page about the person."""

    oidc_claim_scope = None

    def get_additional_claims(self, request: Any) -> dict[str, Any]:
        groups = request.user.groups.values_list("name", flat=True)
        return {"name": request.user.get_full_name(), "groups": list(groups)}

    def validate_silent_login(self, request: Any) -> bool:
        """The library leaves prompt=none to whoever uses it; its own page has refused strangers before this."""
        return True

    def validate_silent_authorization(self, request: Any) -> bool:
        return True

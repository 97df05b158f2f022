"""Four eyes: actions that a second person confirms, where a tenant says so. Pure."""

from collections.abc import Collection
from typing import Final, Literal, get_args

# What a tenant switches on; the last one comes with any of the others.
SwitchableAction = Literal["publish", "activate", "waive", "revoke", "transfer", "role_grants", "key_changes"]
FourEyesAction = Literal["publish", "activate", "waive", "revoke", "transfer", "role_grants", "key_changes", "settings"]
SWITCHABLE_ACTIONS: Final = get_args(SwitchableAction)
# With any of them, nobody may make themselves a second person.
ALWAYS_WITH_OTHERS: Final = frozenset({"role_grants", "key_changes", "settings"})
# Who can confirm it: another holder of the permission.
PERMISSION_BY_ACTION: Final = {
    "publish": "rules:publish",
    "activate": "passport:compile",
    "waive": "passport:waive",
    "revoke": "passport:revoke",
    "transfer": "battery:transfer",
    "role_grants": "access:admin",
    "key_changes": "access:admin",
    "settings": "tenant:admin",
}


def needs_two(action: FourEyesAction, switched_on: Collection[str]) -> bool:
    """Whether an action waits for a second person."""
    return action in switched_on or (bool(switched_on) and action in ALWAYS_WITH_OTHERS)


def list_needed_permissions(switched_on: Collection[str]) -> list[str]:
    """The permissions of which there must be two holders, or nothing could be confirmed."""
    actions = {*switched_on, *(ALWAYS_WITH_OTHERS if switched_on else ())}
    return sorted({PERMISSION_BY_ACTION[action] for action in actions})

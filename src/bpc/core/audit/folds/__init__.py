"""How rows follow from events: one fold for each type of aggregate.

A fold applies one event to the rows that its aggregate has so far. Events that change no row are passed over. Which
tables and columns are compared with the rows of a fold is said by bpc.storage.audit.state_tables.
"""

from collections.abc import Mapping
from typing import Final

from bpc.core.audit.folds.access import (
    fold_actor,
    fold_api_key,
    fold_approval,
    fold_policy,
    fold_role,
    fold_session,
    fold_signing_key,
    fold_tenant,
    fold_view_grant,
    fold_view_request,
)
from bpc.core.audit.folds.batteries import (
    fold_batch,
    fold_battery,
    fold_delivery,
    fold_item_run,
    fold_registration,
    fold_transfer,
)
from bpc.core.audit.folds.evidence import fold_document, fold_document_version, fold_snapshot, fold_supplier
from bpc.core.audit.folds.passports import fold_compile_run, fold_passport, fold_passport_version, fold_product
from bpc.core.audit.folds.rules import fold_rule_package, fold_rule_version
from bpc.core.audit.folds.webhooks import fold_endpoint, fold_subscription
from bpc.core.audit.state import Fold

FOLDS: Final[Mapping[str, Fold]] = {
    "Actor": fold_actor,
    "ApiKey": fold_api_key,
    "Approval": fold_approval,
    "Battery": fold_battery,
    "BatteryBatch": fold_batch,
    "BatteryProduct": fold_product,
    "BatteryRegistration": fold_registration,
    "BatteryTransfer": fold_transfer,
    "CompileRun": fold_compile_run,
    "ConsoleSession": fold_session,
    "DataSnapshot": fold_snapshot,
    "Document": fold_document,
    "DocumentVersion": fold_document_version,
    "ItemRun": fold_item_run,
    "Passport": fold_passport,
    "PassportVersion": fold_passport_version,
    "Policy": fold_policy,
    "ReadingDelivery": fold_delivery,
    "Role": fold_role,
    "RulePackage": fold_rule_package,
    "RulePackageVersion": fold_rule_version,
    "SigningKey": fold_signing_key,
    "Supplier": fold_supplier,
    "Tenant": fold_tenant,
    "ViewGrant": fold_view_grant,
    "ViewRequest": fold_view_request,
    "WebhookEndpoint": fold_endpoint,
    "WebhookSubscription": fold_subscription,
}

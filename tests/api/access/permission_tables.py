"""Who may do what, written down once more: roles and routes with their permissions, to be compared with the code."""

# Permission, Admin, ComplianceOfficer, Auditor.
MATRIX = """
    passport:read     yes yes yes
    passport:compile  yes yes no
    passport:sign     yes no  no
    passport:replay   yes yes no
    passport:revoke   yes no  no
    passport:waive    yes no  no
    rules:read        yes yes yes
    rules:write       yes no  no
    rules:publish     yes no  no
    rules:test        yes no  no
    docs:upload       yes no  no
    docs:read         yes yes no
    snapshot:build    yes yes no
    snapshot:seal     yes yes no
    audit:read        yes no  yes
    access:admin      yes no  no
    tenant:admin      yes no  no
    jobs:read         yes yes no
    jobs:admin        yes no  no
    passport:bundle   yes yes yes
    approval:decide   yes yes yes
    battery:register  yes yes no
    battery:readings  yes yes no
    battery:status    yes yes no
    battery:transfer  yes yes no
    view:interest     yes no  no
    view:authority    yes no  no
"""
# Method, path, permission: each is a route.
DECLARED = """
    GET    /v1/health/live                                                  -
    GET    /v1/health/ready                                                 -
    GET    /v1/health/reads                                                 -
    GET    /v1/metrics                                                      -
    GET    /v1/openapi.json                                                 -
    POST   /v1/documents                                                    docs:upload
    GET    /v1/documents                                                    docs:read
    GET    /v1/documents/{document_id}                                      docs:read
    PATCH  /v1/documents/{document_id}                                      docs:upload
    PUT    /v1/documents/by-ref/{external_ref:path}                         docs:upload
    POST   /v1/documents:propose-mapping                                    docs:upload
    POST   /v1/suppliers                                                    docs:upload
    GET    /v1/suppliers                                                    docs:read
    GET    /v1/suppliers/{supplier_id}                                      docs:read
    PATCH  /v1/suppliers/{supplier_id}                                      docs:upload
    POST   /v1/suppliers/{supplier_id}:rank                                 snapshot:build
    POST   /v1/suppliers/{supplier_id}/column-mappings                      docs:upload
    GET    /v1/suppliers/{supplier_id}/column-mappings                      docs:read
    POST   /v1/documents/{document_id}/versions                             docs:upload
    POST   /v1/documents/{document_id}/ingest                               docs:upload
    POST   /v1/documents/{document_id}:withdraw                             docs:upload
    POST   /v1/documents/{document_id}:deactivate                           docs:upload
    POST   /v1/documents/{document_id}:reactivate                           docs:upload
    POST   /v1/attachments                                                  docs:upload
    GET    /v1/attachments                                                  docs:read
    GET    /v1/attachments/{attachment_id}                                  docs:read
    POST   /v1/attachments/{attachment_id}:withdraw                         docs:upload
    GET    /v1/passport-versions/{passport_version_id}/attachments/{sha256} passport:read
    GET    /v1/conflicts                                                    docs:read
    POST   /v1/conflicts:resolve                                            snapshot:build
    GET    /v1/document-versions/{document_version_id}                      docs:read
    GET    /v1/document-versions/{document_version_id}/content              docs:read
    GET    /v1/document-versions/{document_version_id}/text                 docs:read
    GET    /v1/facts                                                        docs:read
    POST   /v1/snapshots                                                    snapshot:build
    GET    /v1/snapshots                                                    snapshot:build
    GET    /v1/snapshots/{snapshot_id}                                      snapshot:build
    POST   /v1/snapshots/{snapshot_id}/items                                snapshot:build
    DELETE /v1/snapshots/{snapshot_id}/items/{fact_id}                      snapshot:build
    POST   /v1/snapshots/{snapshot_id}/seal                                 snapshot:seal
    POST   /v1/rule-packages                                                rules:write
    GET    /v1/rule-packages                                                rules:read
    GET    /v1/rule-packages/{rule_package_id}                              rules:read
    PATCH  /v1/rule-packages/{rule_package_id}                              rules:write
    POST   /v1/rule-packages/{rule_package_id}:deactivate                   rules:publish
    POST   /v1/rule-packages/{rule_package_id}:reactivate                   rules:publish
    PUT    /v1/rule-packages/{rule_package_id}/catalogues/{language}        rules:write
    GET    /v1/rule-packages/{rule_package_id}/catalogues                   rules:read
    GET    /v1/rule-packages/{rule_package_id}/catalogues/{language}        rules:read
    POST   /v1/rule-packages/{rule_package_id}/versions                     rules:write
    GET    /v1/rule-package-versions/{rule_package_version_id}              rules:read
    DELETE /v1/rule-package-versions/{rule_package_version_id}              rules:publish
    POST   /v1/rule-package-versions/{rule_package_version_id}/tests:run    rules:test
    POST   /v1/rule-package-versions/{rule_package_version_id}:publish      rules:publish
    POST   /v1/rule-package-versions/{rule_package_version_id}:deprecate    rules:publish
    POST   /v1/rules:check                                                  rules:read
    POST   /v1/battery-products                                             tenant:admin
    GET    /v1/battery-products                                             passport:read
    GET    /v1/battery-products/{battery_product_id}                        passport:read
    PATCH  /v1/battery-products/{battery_product_id}                        tenant:admin
    POST   /v1/battery-products/{battery_product_id}:deactivate             tenant:admin
    POST   /v1/battery-products/{battery_product_id}:reactivate             tenant:admin
    GET    /v1/battery-products/{battery_product_id}/identification         passport:read
    PUT    /v1/battery-products/{battery_product_id}/identification         battery:register
    POST   /v1/batches                                                      battery:register
    GET    /v1/batches                                                      passport:read
    GET    /v1/batches/{battery_batch_id}                                   passport:read
    POST   /v1/batches/{battery_batch_id}:issue                             passport:compile
    GET    /v1/batches/{battery_batch_id}/passport-versions                 passport:read
    GET    /v1/batches/{battery_batch_id}/passport                          passport:read
    GET    /v1/batches/{battery_batch_id}/payload                           passport:read
    GET    /v1/batches/{battery_batch_id}/bundle                            passport:bundle
    POST   /v1/batteries                                                    battery:register
    POST   /v1/batteries:register                                           battery:register
    GET    /v1/batteries                                                    passport:read
    GET    /v1/batteries:lookup                                             passport:read
    GET    /v1/batteries/{battery_id}                                       passport:read
    POST   /v1/batteries/{battery_id}:place-on-market                       battery:register
    POST   /v1/batteries/{battery_id}/readings                              battery:readings
    POST   /v1/batteries:readings                                           battery:readings
    GET    /v1/batteries/{battery_id}/readings                              passport:read
    GET    /v1/batteries/{battery_id}/series                                passport:read
    GET    /v1/batteries/{battery_id}/readings.svg                          passport:read
    POST   /v1/batteries:events                                             battery:status
    GET    /v1/batteries/{battery_id}/changes                               passport:read
    POST   /v1/batteries/{battery_id}:repair                                battery:status
    POST   /v1/batteries/{battery_id}:declare-waste                         battery:status
    POST   /v1/batteries/{battery_id}:recycle                               battery:status
    POST   /v1/batteries/{battery_id}:begin-other-life                      battery:status
    POST   /v1/item-runs                                                    passport:compile
    POST   /v1/item-runs:rebase                                             passport:compile
    GET    /v1/item-runs                                                    passport:read
    GET    /v1/item-runs/{run_id}                                           passport:read
    POST   /v1/item-runs/{run_id}:stop                                      passport:compile
    POST   /v1/item-runs/{run_id}:resume                                    passport:compile
    GET    /v1/batteries/{battery_id}/passport-versions                     passport:read
    GET    /v1/batteries/{battery_id}/passport                              passport:read
    GET    /v1/batteries/{battery_id}/payload                               passport:read
    GET    /v1/batteries/{battery_id}/bundle                                passport:bundle
    POST   /v1/transfers                                                    battery:transfer
    GET    /v1/transfers                                                    passport:read
    GET    /v1/transfers:incoming                                           passport:read
    GET    /v1/transfers/{transfer_id}                                      passport:read
    GET    /v1/transfers/{transfer_id}/statements                           passport:read
    POST   /v1/transfers/{transfer_id}:accept                               battery:transfer
    POST   /v1/transfers/{transfer_id}:decline                              battery:transfer
    POST   /v1/transfers/{transfer_id}:withdraw                             battery:transfer
    GET    /v1/tenant                                                       passport:read
    GET    /v1/overview                                                     passport:read
    GET    /p/{passport_id}                                                 -
    OPTIONS /p/{passport_id}                                                -
    GET    /p/{passport_id}/v/{passport_version_id}                         -
    GET    /p/{passport_id}/v/{passport_version_id}/{file}                  -
    GET    /page-assets/{name}                                              -
    GET    /verify                                                          -
    GET    /status/lists/{list_id}                                          -
    GET    /status/statements/{passport_version_id}                         -
    GET    /01/{digital_link:path}                                          -
    OPTIONS /01/{digital_link:path}                                         -
    POST   /v1/passports                                                    passport:compile
    GET    /v1/passports                                                    passport:read
    GET    /v1/passports/{passport_id}                                      passport:read
    GET    /v1/passports/{passport_id}/versions                             passport:read
    POST   /v1/passports/{passport_id}/compile                              passport:compile
    POST   /v1/passports:bulk-compile                                       passport:compile
    POST   /v1/passports:check                                              passport:compile
    POST   /v1/passports:what-if                                            passport:compile
    GET    /v1/passport-versions                                            passport:read
    GET    /v1/passport-versions/{passport_version_id}                      passport:read
    GET    /v1/passport-versions/{passport_version_id}/payload              passport:read
    GET    /v1/passport-versions/{passport_version_id}/proof                passport:read
    GET    /v1/passport-versions/{passport_version_id}/why                  passport:read
    GET    /v1/passport-versions/{passport_version_id}/receipt              passport:read
    GET    /v1/passport-versions/{passport_version_id}/qr.png               passport:read
    GET    /v1/passport-versions/{passport_version_id}/bundle               passport:bundle
    GET    /v1/passport-versions/{passport_version_id}/view                 passport:read
    GET    /v1/passport-versions/{passport_version_id}/diff/{other_version_id} passport:read
    POST   /v1/passport-versions/{passport_version_id}/activate             passport:compile
    POST   /v1/passport-versions/{passport_version_id}/revoke               passport:revoke
    POST   /v1/passport-versions/{passport_version_id}:waive                passport:waive
    POST   /v1/passport-versions/{passport_version_id}:sign                 passport:sign
    POST   /v1/passport-versions/{passport_version_id}:abandon              passport:compile
    GET    /v1/passport-versions/{passport_version_id}/waivers              passport:read
    GET    /v1/passport-versions/{passport_version_id}/compliance           passport:read
    GET    /v1/tenant/settings                                              passport:read
    PUT    /v1/tenant/settings                                              tenant:admin
    GET    /v1/tenant/storage                                               passport:read
    GET    /v1/tenant/branding                                              passport:read
    PUT    /v1/tenant/branding                                              tenant:admin
    GET    /v1/tenant/four-eyes                                             approval:decide
    PUT    /v1/tenant/four-eyes                                             tenant:admin
    GET    /v1/view-requests                                                access:admin
    GET    /v1/view-requests/{view_request_id}                              access:admin
    POST   /v1/view-requests/{view_request_id}:approve                      access:admin
    POST   /v1/view-requests/{view_request_id}:reject                       access:admin
    POST   /v1/view-requests/{view_request_id}:remove-words                 access:admin
    GET    /v1/view-grants                                                  access:admin
    POST   /v1/view-grants                                                  access:admin
    GET    /v1/view-grants/{view_grant_id}                                  access:admin
    GET    /v1/view-grants/{view_grant_id}/reads                            access:admin
    POST   /v1/view-grants/{view_grant_id}:revoke                           access:admin
    GET    /v1/granted                                                      -
    POST   /v1/granted:accept-terms                                         -
    POST   /v1/granted:delegate                                             -
    GET    /v1/granted/passports/{passport_id}/view                         -
    GET    /v1/granted/passports/{passport_id}/pdf                          -
    GET    /v1/granted/passports/{passport_id}/bundle                       -
    GET    /p/{passport_id}/access                                          -
    POST   /p/{passport_id}/access                                          -
    GET    /p/{passport_id}/access/page                                     -
    POST   /p/{passport_id}/access/terms                                    -
    POST   /p/{passport_id}/access/requests                                 -
    GET    /v1/approvals                                                    approval:decide
    GET    /v1/approvals/{approval_id}                                      approval:decide
    POST   /v1/approvals/{approval_id}:approve                              approval:decide
    POST   /v1/approvals/{approval_id}:reject                               approval:decide
    POST   /v1/passport-versions/{passport_version_id}/replay               passport:replay
    POST   /v1/passport-versions/{passport_version_id}/exports              passport:read
    GET    /v1/passport-versions/{passport_version_id}/exports              passport:read
    GET    /v1/exports/{export_id}                                          passport:read
    GET    /v1/exports/{export_id}/content                                  passport:read
    GET    /v1/contexts/passport.jsonld                                     -
    GET    /v1/schemas/passport.xsd                                         -
    GET    /v1/jobs                                                         jobs:read
    GET    /v1/jobs/{job_id}                                                jobs:read
    GET    /v1/jobs/{job_id}/result                                         jobs:read
    POST   /v1/jobs/{job_id}:cancel                                         jobs:admin
    POST   /v1/jobs/{job_id}:retry                                          jobs:admin
    GET    /v1/jobs/{job_id}/dependencies                                   jobs:read
    GET    /v1/job-types                                                    jobs:read
    GET    /v1/job-statistics                                               jobs:read
    POST   /v1/schedules                                                    jobs:admin
    GET    /v1/schedules                                                    jobs:read
    GET    /v1/schedules/{schedule_id}                                      jobs:read
    PUT    /v1/schedules/{schedule_id}                                      jobs:admin
    DELETE /v1/schedules/{schedule_id}                                      jobs:admin
    POST   /v1/schedules/{schedule_id}:pause                                jobs:admin
    POST   /v1/schedules/{schedule_id}:resume                               jobs:admin
    GET    /v1/audit/events                                                 audit:read
    GET    /v1/audit/verify                                                 audit:read
    POST   /v1/graphql                                                      passport:read
    POST   /v1/webhook-endpoints                                            tenant:admin
    GET    /v1/webhook-endpoints                                            tenant:admin
    DELETE /v1/webhook-endpoints/{webhook_endpoint_id}                      tenant:admin
    POST   /v1/webhook-endpoints/{webhook_endpoint_id}:rotate               tenant:admin
    POST   /v1/webhook-endpoints/{webhook_endpoint_id}:test                 tenant:admin
    POST   /v1/webhook-subscriptions                                        tenant:admin
    GET    /v1/webhook-subscriptions                                        tenant:admin
    DELETE /v1/webhook-subscriptions/{webhook_subscription_id}              tenant:admin
    POST   /v1/webhook-deliveries/{webhook_delivery_id}:redeliver           tenant:admin
    GET    /v1/webhook-events                                               audit:read
    GET    /v1/actors                                                       access:admin
    GET    /v1/roles                                                        access:admin
    GET    /v1/api-keys                                                     access:admin
    POST   /v1/api-keys                                                     access:admin
    POST   /v1/api-keys/{api_key_id}:revoke                                 access:admin
    POST   /v1/api-keys/{api_key_id}:rotate                                 access:admin
    GET    /v1/policies                                                     access:admin
    POST   /v1/policies                                                     access:admin
    POST   /v1/policies/{policy_id}/versions                                access:admin
    POST   /v1/policies:dry-run                                             access:admin
    GET    /v1/signing-keys                                                 passport:sign
    POST   /v1/signing-keys                                                 passport:sign
    POST   /v1/signing-keys/{key_id}:retire                                 passport:sign
    POST   /v1/signing-keys/{key_id}:report-compromise                      passport:sign
"""
# What DECLARED names and comes with the work behind it; a route that has come must leave this list.
LATER: set[str] = set()
# Whole families; the first line that fits a route decides, after DECLARED.
FAMILIES = """
    *      /v1/actors*              access:admin
    *      /v1/roles*               access:admin
    *      /v1/api-keys*            access:admin
    *      /v1/policies*            access:admin
    GET    /v1/permissions          access:admin
    *      /v1/webhook-*            tenant:admin
    *      /v1/signing-keys*        passport:sign
    GET    /v1/documents*           docs:read
    GET    /v1/document-versions*   docs:read
    GET    /v1/facts*               docs:read
    *      /v1/snapshots*           snapshot:build
    GET    /v1/rule-package*        rules:read
    GET    /v1/battery-products*    passport:read
    GET    /v1/passport*            passport:read
    GET    /v1/compile-runs*        passport:read
    POST   /v1/compile-runs*        passport:compile
    GET    /v1/jobs*                jobs:read
    GET    /v1/audit/*              audit:read
    GET    /.well-known/*           -
    GET    /log/*                   -
    GET    /v1/openapi*             -
    GET    /v1/docs*                -
    GET    /v1/schemas/*            -
    GET    /v1/templates/*          -
"""

-- What a tenant decides about its public pages: their branding, who may have whole bundles, how long words of requests are kept.

ALTER TABLE tenant_settings
  ADD COLUMN bundles_for text NOT NULL DEFAULT 'NOBODY'
    CONSTRAINT tenant_settings_bundles_for_check CHECK (bundles_for IN ('NOBODY', 'AUTHORITIES', 'GRANTEES', 'EVERYBODY')),
  ADD COLUMN request_words_days integer NOT NULL DEFAULT 365
    CONSTRAINT tenant_settings_request_words_days_check CHECK (request_words_days BETWEEN 1 AND 3650),
  ADD COLUMN brand_name text
    CONSTRAINT tenant_settings_brand_name_check CHECK (length(brand_name) BETWEEN 1 AND 60),
  ADD COLUMN brand_palette text NOT NULL DEFAULT 'standard',
  ADD COLUMN brand_logo bytea
    CONSTRAINT tenant_settings_brand_logo_check CHECK (length(brand_logo) BETWEEN 1 AND 250000);
GRANT UPDATE (bundles_for, request_words_days, brand_name, brand_palette, brand_logo) ON tenant_settings TO bpc_app;

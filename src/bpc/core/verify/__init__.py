"""Checking bundles and views, step by step: `verify_bundle` in bundle.py, `verify_view` in view.py."""

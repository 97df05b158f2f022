"""Signing in with a provider (OpenID Connect), as far as it is decided without network, clock and disk.

providers.py   which providers there are, and which roles their groups give in which tenant
attempt.py     what a browser carries from its way to the provider back to us
id_token.py    the checks of an ID token: who it says somebody is
"""

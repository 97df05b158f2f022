"""Commands about single batteries."""

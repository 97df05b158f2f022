"""The routes, one file for each family of resources. `http/app.py` lists them."""

"""A typed client of the API. A library of its own: it imports nothing else of this product.

async with Client("http://127.0.0.1:8080", api_key) as bpc:
    document = await bpc.create_document(kind="BOM")
    async for each in bpc.list_all(bpc.list_documents):
        ...
"""

from bpc.client.calls import Patience
from bpc.client.client import Client
from bpc.client.errors import ApiError, JobFailed, StillWaiting, UnexpectedAnswer, Unreachable
from bpc.client.shapes import Page, Stored

__all__ = [
    "ApiError",
    "Client",
    "JobFailed",
    "Page",
    "Patience",
    "StillWaiting",
    "Stored",
    "UnexpectedAnswer",
    "Unreachable",
]

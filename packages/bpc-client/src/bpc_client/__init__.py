"""A typed client of the Battery Passport Compiler's API, asynchronous and synchronous.

async with Client("http://127.0.0.1:8080", api_key) as bpc:
    document = await bpc.create_document(kind="BOM")
    async for document in bpc.list_all(bpc.list_documents):
        ...

with SyncClient("http://127.0.0.1:8080", api_key) as bpc:
    document = bpc.create_document(kind="BOM")
"""

from bpc_client.base_models import Page, StoredBytes
from bpc_client.calls import RetryPolicy
from bpc_client.client import Client, SyncClient
from bpc_client.errors import ApiError, ApprovalPending, JobFailed, UnexpectedAnswer, Unreachable, WaitTimeout

__all__ = [
    "ApiError",
    "ApprovalPending",
    "Client",
    "JobFailed",
    "Page",
    "RetryPolicy",
    "StoredBytes",
    "SyncClient",
    "UnexpectedAnswer",
    "Unreachable",
    "WaitTimeout",
]

__version__ = "0.1.0"

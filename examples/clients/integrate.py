"""Use the API with the package that openapi-python-client makes of its document. Prints what it did as JSON.

BPC_URL is the address of the API, BPC_API_KEY a key, BPC_PASSPORT_VERSION_ID a passport version with a QR code.
"""

import io
import json
import os
from hashlib import sha256
from uuid import UUID, uuid4

from bpc_api import AuthenticatedClient
from bpc_api.api.artifacts import get_bundle, get_qr_code
from bpc_api.api.documents import get_document, get_document_content, get_template, list_documents, upload_document
from bpc_api.api.jobs import get_job
from bpc_api.models import DocumentPage, ErrorEnvelope, Job, UploadDocumentKindType0, UploadMade
from bpc_api.types import File

SKU = f"PYTHON-{uuid4()}"
BOM = json.dumps({"battery": {"sku": SKU, "capacity_kwh": 75.5}}).encode()

client = AuthenticatedClient(base_url=os.environ["BPC_URL"], token=os.environ["BPC_API_KEY"])
version_id = UUID(os.environ["BPC_PASSPORT_VERSION_ID"])

# Bytes in, bytes out.
upload = upload_document.sync(
    SKU,
    client=client,
    kind=UploadDocumentKindType0.BOM,
    body=File(payload=io.BytesIO(BOM)),
    idempotency_key=str(uuid4()),
)
assert isinstance(upload, UploadMade), upload
content = get_document_content.sync_detailed(upload.document_version_id, client=client).content

# A job, until it has ended. The service answers when that is so, or after ten seconds.
while True:
    job = get_job.sync(upload.job_id, client=client.with_timeout(20), wait_seconds=10)
    assert isinstance(job, Job), job
    if job.status.value not in {"QUEUED", "RUNNING"}:
        break

# A list, page by page.
documents, cursor = [], None
while True:
    page = list_documents.sync(client=client, limit=1, cursor=cursor)
    assert isinstance(page, DocumentPage), page
    documents += page.items
    cursor = page.next_cursor
    if cursor is None:
        break

# An error is a type of its own.
error = get_document.sync(uuid4(), client=client)
assert isinstance(error, ErrorEnvelope), error

print(
    json.dumps(
        {
            "content": content == BOM,
            "job": job.status.value,
            "documents": len(documents),
            "error": error.error.code,
            "qr": sha256(get_qr_code.sync_detailed(version_id, client=client).content).hexdigest(),
            "bundle": sha256(get_bundle.sync_detailed(version_id, client=client).content).hexdigest(),
            "template": get_template.sync_detailed("ev", client=client).content[:2].decode(),
        }
    )
)

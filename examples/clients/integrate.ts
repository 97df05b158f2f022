// Use the API with the types that openapi-typescript makes of its document. Prints what it did as JSON.
//
// BPC_URL is the address of the API, BPC_API_KEY a key, BPC_PASSPORT_VERSION_ID a passport version with a QR code.

import { createHash, randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const sku = `TYPESCRIPT-${randomUUID()}`;
const BOM = new TextEncoder().encode(JSON.stringify({ battery: { sku, capacity_kwh: 75.5 } }));
const versionId = process.env.BPC_PASSPORT_VERSION_ID!;
const api = createClient<paths>({
  baseUrl: process.env.BPC_URL!,
  headers: { Authorization: `Bearer ${process.env.BPC_API_KEY}` },
});

function fail(error: components["schemas"]["ErrorEnvelope"]): never {
  throw new Error(`${error.error.code}: ${error.error.message}`);
}

function hash(content: ArrayBuffer): string {
  return createHash("sha256").update(new Uint8Array(content)).digest("hex");
}

async function download(path: "/v1/passport-versions/{passport_version_id}/qr.png" | "/v1/passport-versions/{passport_version_id}/bundle") {
  const { data } = await api.GET(path, { params: { path: { passport_version_id: versionId } }, parseAs: "arrayBuffer" });
  return hash(data as ArrayBuffer);
}

// Bytes in, bytes out.
const { data: upload, error: refusal } = await api.PUT("/v1/documents/by-ref/{external_ref}", {
  params: {
    path: { external_ref: sku },
    query: { kind: "BOM" },
    header: { "Idempotency-Key": randomUUID() },
  },
  body: BOM as unknown as string,
  bodySerializer: (body) => body as unknown as BodyInit,
  headers: { "Content-Type": "application/octet-stream" },
});
if (refusal) fail(refusal);
const stored = await api.GET("/v1/document-versions/{document_version_id}/content", {
  params: { path: { document_version_id: upload!.document_version_id } },
  parseAs: "arrayBuffer",
});

// A job, until it has ended. The service answers when that is so, or after ten seconds.
let status: components["schemas"]["Job"]["status"];
do {
  const { data: job, error } = await api.GET("/v1/jobs/{job_id}", {
    params: { path: { job_id: upload!.job_id! }, query: { wait_seconds: 10 } },
  });
  if (error) fail(error);
  status = job!.status;
} while (status === "QUEUED" || status === "RUNNING");

// A list, page by page.
let documents = 0;
let cursor: string | null | undefined;
do {
  const { data: page, error } = await api.GET("/v1/documents", { params: { query: { limit: 1, cursor } } });
  if (error) fail(error);
  documents += page!.items.length;
  cursor = page!.next_cursor;
} while (cursor);

// An error is a type of its own.
const missing = await api.GET("/v1/documents/{document_id}", { params: { path: { document_id: randomUUID() } } });
const template = await api.GET("/v1/templates/{category}", { params: { path: { category: "ev" } }, parseAs: "arrayBuffer" });

console.log(
  JSON.stringify({
    content: Buffer.from(stored.data as unknown as ArrayBuffer).equals(Buffer.from(BOM)),
    job: status,
    documents,
    error: missing.error!.error.code,
    qr: await download("/v1/passport-versions/{passport_version_id}/qr.png"),
    bundle: await download("/v1/passport-versions/{passport_version_id}/bundle"),
    template: Buffer.from(template.data as unknown as ArrayBuffer).subarray(0, 2).toString(),
  }),
);

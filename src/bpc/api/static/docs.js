// Shows the API. A write that is tried out gets an Idempotency-Key of its own unless one is typed.
"use strict";

const KEY = "Idempotency-Key";

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function withOptionalKeys(document) {
  const parameter = document.components.parameters.IdempotencyKey;
  parameter.required = false;
  parameter.description += " Left empty here, a new one is made.";
  return document;
}

function show(spec) {
  SwaggerUIBundle({
    spec,
    dom_id: "#page",
    deepLinking: true,
    displayOperationId: true,
    defaultModelsExpandDepth: 0,
    docExpansion: "list",
    validatorUrl: null, // never ask another site
    persistAuthorization: false, // a key is not written to the browser's storage
    requestInterceptor: (request) => {
      if (!["GET", "HEAD"].includes((request.method || "GET").toUpperCase()) && !request.headers[KEY]) {
        request.headers[KEY] = newKey();
      }
      return request;
    },
  });
}

fetch("/v1/openapi.json")
  .then((answer) => answer.json())
  .then((document) => show(withOptionalKeys(document)));

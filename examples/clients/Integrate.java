// Use the API with the classes that OpenAPI Generator makes of its document. Prints what it did as JSON.
//
// BPC_URL is the address of the API, BPC_API_KEY a key, BPC_PASSPORT_VERSION_ID a passport version with a QR code.

import bpc.ApiClient;
import bpc.ApiException;
import bpc.api.ArtifactsApi;
import bpc.api.DocumentsApi;
import bpc.api.JobsApi;
import bpc.model.DocumentPage;
import bpc.model.ErrorEnvelope;
import bpc.model.Job;
import bpc.model.UploadMade;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.ser.std.StdSerializer;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Set;
import java.util.UUID;

public class Integrate {
  static final String SKU = "JAVA-" + UUID.randomUUID();
  static final byte[] BOM =
      ("{\"battery\": {\"sku\": \"" + SKU + "\", \"capacity_kwh\": 75.5}}").getBytes();

  public static void main(String[] arguments) throws Exception {
    ApiClient client = new ApiClient();
    client.setObjectMapper(
        client.getObjectMapper().registerModule(new SimpleModule().addSerializer(new RawFile())));
    client.updateBaseUri(System.getenv("BPC_URL"));
    client.setRequestInterceptor(
        request -> request.header("Authorization", "Bearer " + System.getenv("BPC_API_KEY")));
    DocumentsApi documents = new DocumentsApi(client);
    JobsApi jobs = new JobsApi(client);
    ArtifactsApi artifacts = new ArtifactsApi(client);
    UUID version = UUID.fromString(System.getenv("BPC_PASSPORT_VERSION_ID"));

    // Bytes in, bytes out.
    Path file = Files.write(Files.createTempFile("bom", ".json"), BOM);
    UploadMade upload =
        documents.uploadDocument(
            DocumentsApi.APIUploadDocumentRequest.newBuilder()
                .externalRef(SKU)
                .idempotencyKey(UUID.randomUUID().toString())
                .body(file.toFile())
                .kind("BOM")
                .build());
    File content =
        documents.getDocumentContent(
            DocumentsApi.APIGetDocumentContentRequest.newBuilder()
                .documentVersionId(upload.getDocumentVersionId())
                .build());

    // A job, until it has ended. The service answers when that is so, or after ten seconds.
    Job job;
    do {
      job =
          jobs.getJob(
              JobsApi.APIGetJobRequest.newBuilder()
                  .jobId(upload.getJobId())
                  .waitSeconds(10)
                  .build());
    } while (Set.of("QUEUED", "RUNNING").contains(job.getStatus().getValue()));

    // A list, page by page.
    int count = 0;
    String cursor = null;
    do {
      DocumentPage page =
          documents.listDocuments(
              DocumentsApi.APIListDocumentsRequest.newBuilder().limit(1).cursor(cursor).build());
      count += page.getItems().size();
      cursor = page.getNextCursor();
    } while (cursor != null);

    // An error has its code in the body.
    String error = "";
    try {
      documents.getDocument(
          DocumentsApi.APIGetDocumentRequest.newBuilder().documentId(UUID.randomUUID()).build());
    } catch (ApiException refusal) {
      error =
          client.getObjectMapper()
              .readValue(refusal.getResponseBody(), ErrorEnvelope.class)
              .getError()
              .getCode();
    }

    File qr =
        artifacts.getQrCode(
            ArtifactsApi.APIGetQrCodeRequest.newBuilder().passportVersionId(version).build());
    File bundle =
        artifacts.getBundle(
            ArtifactsApi.APIGetBundleRequest.newBuilder().passportVersionId(version).build());
    File template =
        documents.getTemplate(
            DocumentsApi.APIGetTemplateRequest.newBuilder().category("ev").build());
    System.out.printf(
        "{\"content\": %b, \"job\": \"%s\", \"documents\": %d, \"error\": \"%s\", \"qr\": \"%s\","
            + " \"bundle\": \"%s\", \"template\": \"%s\"}%n",
        Arrays.equals(Files.readAllBytes(content.toPath()), BOM),
        job.getStatus().getValue(),
        count,
        error,
        hash(qr),
        hash(bundle),
        new String(Files.readAllBytes(template.toPath()), 0, 2));
  }

  /** Sends a file as the bytes that it has. Without it, generated code would send its path as JSON. */
  static class RawFile extends StdSerializer<File> {
    RawFile() {
      super(File.class);
    }

    @Override
    public void serialize(File file, JsonGenerator body, SerializerProvider provider)
        throws IOException {
      Files.copy(file.toPath(), (OutputStream) body.getOutputTarget());
    }
  }

  static String hash(File file) throws Exception {
    byte[] digest = MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file.toPath()));
    return HexFormat.of().formatHex(digest);
  }
}

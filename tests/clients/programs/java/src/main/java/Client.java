import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.AwsSessionCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.awscore.exception.AwsServiceException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.S3ClientBuilder;
import software.amazon.awssdk.services.s3.S3Configuration;
import software.amazon.awssdk.services.s3.model.CompletedPart;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.S3Error;
import software.amazon.awssdk.services.s3.model.S3Object;
import software.amazon.awssdk.services.s3.presigner.S3Presigner;

/** The AWS SDK for Java, version 2: does the operations named by the arguments, and prints a line of JSON for each. */
public final class Client {
  private static final String ENDPOINT = System.getenv("S3_ENDPOINT");
  private static final String REGION = System.getenv("S3_REGION");
  private static final String ACCESS_KEY = System.getenv("S3_ACCESS_KEY");
  private static final String SECRET_KEY = System.getenv("S3_SECRET_KEY");
  private static final String BUCKET = System.getenv("S3_BUCKET");
  private static final String PREFIX = System.getenv("S3_PREFIX");
  /** Null without a lock. */
  private static final String TOKEN = System.getenv("FENCE_TOKEN");
  private static final boolean IN_HEADER = "header".equals(System.getenv("FENCE_CARRIER"));
  private static final int PART_BYTES = 8 << 20;

  // docs:begin
  static AwsCredentialsProvider credentials(String token) {
    return StaticCredentialsProvider.create(token == null
        ? AwsBasicCredentials.create(ACCESS_KEY, SECRET_KEY)
        : AwsSessionCredentials.create(ACCESS_KEY, SECRET_KEY, "fence:" + token));
  }

  static S3ClientBuilder client(String token) {
    return S3Client.builder()
        .endpointOverride(URI.create(ENDPOINT))
        .region(Region.of(REGION))
        .credentialsProvider(credentials(token))
        .forcePathStyle(true);
  }
  // docs:end

  // docs:begin header
  static S3ClientBuilder clientWithHeader(String token) {
    return client(null).overrideConfiguration(config -> config.putHeader("X-Fence-Token", token));
  }
  // docs:end

  private final S3Client s3 = (IN_HEADER && TOKEN != null ? clientWithHeader(TOKEN) : client(TOKEN)).build();

  /** An answer that is a success by its status and a refusal by its content. */
  private static final class KeysRefused extends RuntimeException {
    private final String code;

    KeysRefused(List<S3Error> errors) {
      super(errors.toString());
      code = errors.get(0).code();
    }
  }

  private Map<String, Object> run(String operation) throws Exception {
    return switch (operation) {
      case "put" -> put();
      case "get" -> Map.of("body",
          s3.getObjectAsBytes(b -> b.bucket(BUCKET).key(PREFIX + "/source")).asString(StandardCharsets.UTF_8));
      case "list" -> Map.of("keys", s3.listObjectsV2(b -> b.bucket(BUCKET).prefix(PREFIX + "/listed/"))
          .contents().stream().map(S3Object::key).toList());
      case "copy" -> copy();
      case "multipart" -> multipart();
      case "delete-batch" -> deleteBatch();
      case "presign" -> presign();
      default -> throw new IllegalArgumentException(operation);
    };
  }

  private Map<String, Object> put() {
    s3.putObject(b -> b.bucket(BUCKET).key(PREFIX + "/put"), Path.of(System.getenv("SMALL_FILE")));
    return Map.of();
  }

  private Map<String, Object> copy() {
    s3.copyObject(b -> b.sourceBucket(BUCKET).sourceKey(PREFIX + "/source")
        .destinationBucket(BUCKET).destinationKey(PREFIX + "/copy"));
    return Map.of();
  }

  private Map<String, Object> multipart() throws Exception {
    var content = Files.readAllBytes(Path.of(System.getenv("LARGE_FILE")));
    var key = PREFIX + "/multipart";
    var upload = s3.createMultipartUpload(b -> b.bucket(BUCKET).key(key)).uploadId();
    List<CompletedPart> parts = new ArrayList<>();
    for (int from = 0; from < content.length; from += PART_BYTES) {
      int number = parts.size() + 1;
      var part = java.util.Arrays.copyOfRange(content, from, Math.min(from + PART_BYTES, content.length));
      var answer = s3.uploadPart(b -> b.bucket(BUCKET).key(key).uploadId(upload).partNumber(number),
          RequestBody.fromBytes(part));
      parts.add(CompletedPart.builder().partNumber(number).eTag(answer.eTag())
          .checksumCRC32(answer.checksumCRC32()).build());
    }
    s3.completeMultipartUpload(b -> b.bucket(BUCKET).key(key).uploadId(upload).multipartUpload(m -> m.parts(parts)));
    return Map.of();
  }

  private Map<String, Object> deleteBatch() {
    var objects = Stream.of("a", "b", "c")
        .map(name -> ObjectIdentifier.builder().key(PREFIX + "/batch/" + name).build()).toList();
    var answer = s3.deleteObjects(b -> b.bucket(BUCKET).delete(d -> d.objects(objects)));
    if (answer.hasErrors()) {
      throw new KeysRefused(answer.errors());
    }
    return Map.of();
  }

  private Map<String, Object> presign() {
    try (var presigner = S3Presigner.builder()
        .endpointOverride(URI.create(ENDPOINT))
        .region(Region.of(REGION))
        .credentialsProvider(credentials(TOKEN))
        .serviceConfiguration(S3Configuration.builder().pathStyleAccessEnabled(true).build())
        .build()) {
      var put = presigner.presignPutObject(b -> b.signatureDuration(Duration.ofMinutes(1))
          .putObjectRequest(o -> o.bucket(BUCKET).key(PREFIX + "/presigned")));
      var get = presigner.presignGetObject(b -> b.signatureDuration(Duration.ofMinutes(1))
          .getObjectRequest(o -> o.bucket(BUCKET).key(PREFIX + "/source")));
      return Map.of("links", Map.of("PUT", put.url().toString(), "GET", get.url().toString()));
    }
  }

  public static void main(String[] operations) {
    var client = new Client();
    for (var operation : operations) {
      Map<String, Object> result = new LinkedHashMap<>();
      result.put("operation", operation);
      result.put("ok", true);
      try {
        result.putAll(client.run(operation));
      } catch (Exception error) {
        result.put("ok", false);
        result.put("said", String.valueOf(error));
        if (error instanceof AwsServiceException refused) {
          result.put("status", refused.statusCode());
          result.put("code", refused.awsErrorDetails().errorCode());
        } else if (error instanceof KeysRefused refused) {
          result.put("code", refused.code);
        }
      }
      System.out.println(json(result));
    }
  }

  private static String json(Object value) {
    if (value instanceof Map<?, ?> map) {
      return map.entrySet().stream().map(e -> json(e.getKey()) + ":" + json(e.getValue()))
          .collect(Collectors.joining(",", "{", "}"));
    }
    if (value instanceof List<?> list) {
      return list.stream().map(Client::json).collect(Collectors.joining(",", "[", "]"));
    }
    if (value instanceof String text) {
      return '"' + text.chars().mapToObj(c -> c == '"' || c == '\\' ? "\\" + (char) c
          : c < ' ' ? String.format("\\u%04x", c) : String.valueOf((char) c)).collect(Collectors.joining()) + '"';
    }
    return String.valueOf(value);
  }
}

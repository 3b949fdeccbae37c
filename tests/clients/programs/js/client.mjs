// The AWS SDK for JavaScript, version 3.

import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import {
  CopyObjectCommand, DeleteObjectsCommand, GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

const {
  S3_ENDPOINT, S3_REGION, S3_ACCESS_KEY, S3_SECRET_KEY, S3_BUCKET: Bucket, S3_PREFIX: prefix,
  FENCE_TOKEN, FENCE_CARRIER, SMALL_FILE, LARGE_FILE,
} = process.env;

// docs:begin
function client(token, more) {
  return new S3Client({
    endpoint: S3_ENDPOINT,
    region: S3_REGION,
    credentials: {
      accessKeyId: S3_ACCESS_KEY,
      secretAccessKey: S3_SECRET_KEY,
      sessionToken: token && `fence:${token}`,
    },
    forcePathStyle: true,
    ...more,
  });
}
// docs:end

// docs:begin header
function clientWithHeader(token) {
  const s3 = client();
  s3.middlewareStack.add(
    (next) => (args) => {
      args.request.headers["x-fence-token"] = token;
      return next(args);
    },
    { step: "build", name: "fenceToken" },
  );
  return s3;
}
// docs:end

const s3 = FENCE_TOKEN && FENCE_CARRIER === "header" ? clientWithHeader(FENCE_TOKEN) : client(FENCE_TOKEN);

const operations = {
  async put() {
    await s3.send(new PutObjectCommand({ Bucket, Key: `${prefix}/put`, Body: await readFile(SMALL_FILE) }));
  },
  async get() {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key: `${prefix}/source` }));
    return { body: await Body.transformToString() };
  },
  async list() {
    const { Contents } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: `${prefix}/listed/` }));
    return { keys: Contents.map(({ Key }) => Key) };
  },
  async copy() {
    await s3.send(new CopyObjectCommand({ Bucket, Key: `${prefix}/copy`, CopySource: `${Bucket}/${prefix}/source` }));
  },
  async multipart() {
    const params = { Bucket, Key: `${prefix}/multipart`, Body: createReadStream(LARGE_FILE) };
    await new Upload({ client: s3, params, partSize: 8 << 20 }).done();
  },
  async "delete-batch"() {
    const Objects = ["a", "b", "c"].map((name) => ({ Key: `${prefix}/batch/${name}` }));
    const { Errors } = await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
    return Errors?.length ? { ok: false, code: Errors[0].Code, said: JSON.stringify(Errors) } : {};
  },
  async presign() {
    // Otherwise the link holds the checksum of an empty body.
    const signer = client(FENCE_TOKEN, { requestChecksumCalculation: "WHEN_REQUIRED" });
    const link = (Command, name) =>
      getSignedUrl(signer, new Command({ Bucket, Key: `${prefix}/${name}` }), { expiresIn: 60 });
    return { links: { PUT: await link(PutObjectCommand, "presigned"), GET: await link(GetObjectCommand, "source") } };
  },
};

for (const operation of process.argv.slice(2)) {
  let result;
  try {
    result = await operations[operation]();
  } catch (error) {
    result = { ok: false, status: error.$metadata?.httpStatusCode, code: error.name, said: String(error) };
  }
  console.log(JSON.stringify({ operation, ok: true, ...result }));
}

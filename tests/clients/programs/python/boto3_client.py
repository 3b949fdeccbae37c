"""boto3."""

from __future__ import annotations

import boto3
from botocore.client import BaseClient
from botocore.config import Config
from botocore.exceptions import ClientError

from report import (
    ACCESS_KEY,
    BATCH,
    BUCKET,
    CA_FILE,
    ENDPOINT,
    IN_HEADER,
    LARGE_FILE,
    LINK_SECONDS,
    PREFIX,
    REGION,
    SECRET_KEY,
    SMALL_FILE,
    TOKEN,
    Refused,
    run,
)


# docs:begin
def client(token: str | None) -> BaseClient:
    return boto3.client(
        "s3",
        endpoint_url=ENDPOINT,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        aws_session_token=f"fence:{token}" if token else None,
        verify=CA_FILE,
        # For links: boto3's own choice is an older signature, which holds no token.
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
# docs:end


# docs:begin header
def client_with_header(token: str) -> BaseClient:
    def add_header(request, **_):
        request.headers["X-Fence-Token"] = token

    s3 = client(None)
    s3.meta.events.register("before-sign.s3", add_header)
    return s3
# docs:end


s3 = client_with_header(TOKEN) if TOKEN and IN_HEADER else client(TOKEN)


def delete_batch() -> None:
    answer = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in BATCH]})
    for error in answer.get("Errors", []):
        raise Refused(error["Code"], str(answer["Errors"]))


def presign() -> dict[str, object]:
    def link(method: str, name: str) -> str:
        return s3.generate_presigned_url(method, {"Bucket": BUCKET, "Key": f"{PREFIX}/{name}"}, ExpiresIn=LINK_SECONDS)

    return {"links": {"PUT": link("put_object", "presigned"), "GET": link("get_object", "source")}}


def refusal(error: Exception) -> dict[str, object]:
    # `upload_file` wraps what it was refused with.
    while error is not None and not isinstance(error, ClientError):
        error = error.__cause__ or error.__context__
    if error is None:
        return {}
    answer = error.response
    return {"status": answer["ResponseMetadata"]["HTTPStatusCode"], "code": answer["Error"]["Code"]}


run(
    {
        "put": lambda: s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/put", Body=SMALL_FILE.read_bytes()) and None,
        "get": lambda: {"body": s3.get_object(Bucket=BUCKET, Key=f"{PREFIX}/source")["Body"].read().decode()},
        "list": lambda: {"keys": [
            entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{PREFIX}/listed/")["Contents"]
        ]},
        "copy": lambda: s3.copy_object(
            Bucket=BUCKET, Key=f"{PREFIX}/copy", CopySource={"Bucket": BUCKET, "Key": f"{PREFIX}/source"},
        ) and None,
        "multipart": lambda: s3.upload_file(str(LARGE_FILE), BUCKET, f"{PREFIX}/multipart"),
        "delete-batch": delete_batch,
        "presign": presign,
    },
    refusal,
)

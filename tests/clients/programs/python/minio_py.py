"""minio-py."""

from __future__ import annotations

from datetime import timedelta

import urllib3
from minio import Minio
from minio.commonconfig import CopySource
from minio.deleteobjects import DeleteObject
from minio.error import S3Error

from report import (
    ACCESS_KEY,
    ADDRESS,
    BATCH,
    BUCKET,
    CA_FILE,
    LARGE_FILE,
    LINK_SECONDS,
    PART_BYTES,
    PREFIX,
    REGION,
    SECRET_KEY,
    SECURE,
    SMALL_FILE,
    TOKEN,
    Refused,
    run,
)


# docs:begin
def client(token: str | None) -> Minio:
    return Minio(
        ADDRESS,
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        session_token=f"fence:{token}" if token else None,
        region=REGION,
        secure=SECURE,
        http_client=urllib3.PoolManager(ca_certs=CA_FILE),
    )
# docs:end


s3 = client(TOKEN)


def delete_batch() -> None:
    errors = list(s3.remove_objects(BUCKET, [DeleteObject(key) for key in BATCH]))
    for error in errors:
        raise Refused(error.code, str([vars(each) for each in errors]))


def presign() -> dict[str, object]:
    expires = timedelta(seconds=LINK_SECONDS)
    return {"links": {
        "PUT": s3.presigned_put_object(BUCKET, f"{PREFIX}/presigned", expires),
        "GET": s3.presigned_get_object(BUCKET, f"{PREFIX}/source", expires),
    }}


def refusal(error: Exception) -> dict[str, object]:
    return {"status": error.response.status, "code": error.code} if isinstance(error, S3Error) else {}


run(
    {
        "put": lambda: s3.fput_object(BUCKET, f"{PREFIX}/put", str(SMALL_FILE)) and None,
        "get": lambda: {"body": s3.get_object(BUCKET, f"{PREFIX}/source").data.decode()},
        "list": lambda: {"keys": [entry.object_name for entry in s3.list_objects(BUCKET, f"{PREFIX}/listed/")]},
        "copy": lambda: s3.copy_object(BUCKET, f"{PREFIX}/copy", CopySource(BUCKET, f"{PREFIX}/source")) and None,
        "multipart": lambda: s3.fput_object(
            BUCKET, f"{PREFIX}/multipart", str(LARGE_FILE), part_size=PART_BYTES,
        ) and None,
        "delete-batch": delete_batch,
        "presign": presign,
    },
    refusal,
)

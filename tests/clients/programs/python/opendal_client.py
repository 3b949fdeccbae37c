"""Apache OpenDAL, by its Python binding."""

from __future__ import annotations

import asyncio

import opendal

from report import (
    ACCESS_KEY,
    BUCKET,
    ENDPOINT,
    LARGE_FILE,
    LINK_SECONDS,
    PART_BYTES,
    PREFIX,
    REGION,
    SECRET_KEY,
    SMALL_FILE,
    TOKEN,
    run,
)


# docs:begin
def settings(token: str | None) -> dict[str, str]:
    return {
        "bucket": BUCKET,
        "endpoint": ENDPOINT,
        "region": REGION,
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
        **({"session_token": f"fence:{token}"} if token else {}),
    }


s3 = opendal.Operator("s3", **settings(TOKEN))
# docs:end


def multipart() -> None:
    with s3.open(f"{PREFIX}/multipart", "wb", chunk=PART_BYTES) as target, LARGE_FILE.open("rb") as source:
        while piece := source.read(PART_BYTES):
            target.write(piece)


async def presign() -> dict[str, object]:
    operator = opendal.AsyncOperator("s3", **settings(TOKEN))
    put = await operator.presign_write(f"{PREFIX}/presigned", LINK_SECONDS)
    get = await operator.presign_read(f"{PREFIX}/source", LINK_SECONDS)
    return {"links": {"PUT": put.url, "GET": get.url}}


run({
    "put": lambda: s3.write(f"{PREFIX}/put", SMALL_FILE.read_bytes()) and None,
    "get": lambda: {"body": bytes(s3.read(f"{PREFIX}/source")).decode()},
    "list": lambda: {"keys": [entry.path for entry in s3.list(f"{PREFIX}/listed/")]},
    "copy": lambda: s3.copy(f"{PREFIX}/source", f"{PREFIX}/copy"),
    "multipart": multipart,
    "delete-batch": lambda: s3.remove_all(f"{PREFIX}/batch/"),
    "presign": lambda: asyncio.run(presign()),
})

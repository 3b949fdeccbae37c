"""object_store (Rust), the store of delta-rs, Polars, DataFusion and others, by its Python binding obstore."""

from __future__ import annotations

from datetime import timedelta

import obstore
from obstore.store import S3Store

from report import (
    ACCESS_KEY,
    BATCH,
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
def store(token: str | None) -> S3Store:
    return S3Store(
        BUCKET,
        endpoint=ENDPOINT,
        region=REGION,
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        **({"session_token": f"fence:{token}"} if token else {}),
        client_options={"allow_http": True},
    )
# docs:end


s3 = store(TOKEN)


def presign() -> dict[str, object]:
    def link(method: str, name: str) -> str:
        return obstore.sign(s3, method, f"{PREFIX}/{name}", timedelta(seconds=LINK_SECONDS))

    return {"links": {"PUT": link("PUT", "presigned"), "GET": link("GET", "source")}}


run({
    "put": lambda: obstore.put(s3, f"{PREFIX}/put", SMALL_FILE.read_bytes()) and None,
    "get": lambda: {"body": bytes(obstore.get(s3, f"{PREFIX}/source").bytes()).decode()},
    "list": lambda: {"keys": [entry["path"] for entry in obstore.list(s3, f"{PREFIX}/listed").collect()]},
    "copy": lambda: obstore.copy(s3, f"{PREFIX}/source", f"{PREFIX}/copy"),
    "multipart": lambda: obstore.put(
        s3, f"{PREFIX}/multipart", LARGE_FILE, use_multipart=True, chunk_size=PART_BYTES,
    ) and None,
    "delete-batch": lambda: obstore.delete(s3, BATCH),
    "presign": presign,
})

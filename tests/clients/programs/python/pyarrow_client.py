"""pyarrow, whose S3 client is the AWS SDK for C++."""

from __future__ import annotations

import shutil

from pyarrow.fs import FileSelector, S3FileSystem

from report import (
    ACCESS_KEY,
    ADDRESS,
    BUCKET,
    CA_FILE,
    LARGE_FILE,
    PREFIX,
    REGION,
    SECRET_KEY,
    SECURE,
    SMALL_FILE,
    TOKEN,
    run,
)


# docs:begin
def filesystem(token: str | None) -> S3FileSystem:
    return S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        session_token=f"fence:{token}" if token else None,
        region=REGION,
        scheme="https" if SECURE else "http",
        endpoint_override=ADDRESS,
        tls_ca_file_path=CA_FILE,
    )
# docs:end


s3 = filesystem(TOKEN)
root = f"{BUCKET}/{PREFIX}"


def upload(source: object, name: str) -> None:
    with source.open("rb") as file, s3.open_output_stream(f"{root}/{name}") as target:
        shutil.copyfileobj(file, target, 1 << 20)


def read() -> dict[str, object]:
    with s3.open_input_stream(f"{root}/source") as stream:
        return {"body": stream.read().decode()}


run({
    "put": lambda: upload(SMALL_FILE, "put"),
    "get": read,
    "list": lambda: {"keys": [entry.path for entry in s3.get_file_info(FileSelector(f"{root}/listed"))]},
    "copy": lambda: s3.copy_file(f"{root}/source", f"{root}/copy"),
    "multipart": lambda: upload(LARGE_FILE, "multipart"),
    "delete-batch": lambda: s3.delete_dir_contents(f"{root}/batch"),
})

"""DuckDB with its extension httpfs."""

from __future__ import annotations

from pathlib import Path

import duckdb
import duckdb_extension_httpfs

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

database = duckdb.connect()
# Users write `INSTALL httpfs; LOAD httpfs`. This one comes with a Python package instead.
extension = next(Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension"))
database.execute(f"LOAD '{extension}'")
if CA_FILE:
    database.execute(f"SET ca_cert_file = '{CA_FILE}'")
    database.execute("SET enable_server_cert_verification = true")

# docs:begin
database.execute(f"""
    CREATE SECRET proxy (
        TYPE s3,
        KEY_ID '{ACCESS_KEY}',
        SECRET '{SECRET_KEY}',
        SESSION_TOKEN '{f"fence:{TOKEN}" if TOKEN else ""}',
        REGION '{REGION}',
        ENDPOINT '{ADDRESS}',
        URL_STYLE 'path',
        USE_SSL {SECURE}
    )
""")
# docs:end

root = f"s3://{BUCKET}/{PREFIX}"
# The smallest that makes it cut 30 MiB into parts of 5 MiB.
database.execute("SET s3_uploader_max_filesize = '50GB'")


def lines(source: object) -> str:
    """A table with the lines of a file, which DuckDB writes back as they were."""
    return f"SELECT * FROM read_csv('{source}', columns = {{'line': 'VARCHAR'}}, header = false)"


def write(source: object, name: str) -> None:
    database.execute(f"COPY ({lines(source)}) TO '{root}/{name}' (FORMAT csv, HEADER false)")


def rows(query: str) -> list[str]:
    return [row[0] for row in database.execute(query).fetchall()]


run({
    "put": lambda: write(SMALL_FILE, "put"),
    "get": lambda: {"body": rows(f"SELECT content FROM read_text('{root}/source')")[0]},
    "list": lambda: {"keys": rows(f"SELECT file FROM glob('{root}/listed/*')")},
    "multipart": lambda: write(LARGE_FILE, "multipart"),
})

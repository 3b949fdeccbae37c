//! The table of profiles: one [`Behaviour`] for each, and where each of its answers is from.
//!
//! *wire* is the project's collection of facts about wires (its sections by number), *matrix* the
//! measurements of stores that run on a development machine, *live* the runs of vdavid/cmdr against
//! the services themselves (`docs/notes/s3/live-verification-2026-10.md` and
//! `crates/cmdr-s3/DETAILS.md` there). What no source says is called an assumption.

use super::behaviour::{
    Absent, Behaviour, Buckets, Commit, CopyHeaders, DeleteAbsent, Dialect, Honours, Interleaving,
    Keys, Offer, Reads, Spelling, Tags, TooFast, Trailers,
};
use std::time::Duration;

/// The pause of [`Commit::CheckThenAct`]: long enough for requests that arrive together.
const RACE_WINDOW: Duration = Duration::from_millis(25);

/// The pause of [`Commit::CheckThenSwap`]: long enough for two requests at once to be in it.
const SWAP_WINDOW: Duration = Duration::from_millis(3);

/// Amazon S3, general purpose buckets with SSE-S3; the other rows are differences from it.
///
/// - Which operation takes what: wire §1, first table (botocore's model); `CreateMultipartUpload`
///   takes no conditions (user guide, "Conditional writes").
/// - 412, 404 on what is absent or under a delete marker, 409 for what lands meanwhile, even with
///   the same tag, and for Complete since Create: wire §1, "Responses" (open-io/swift,
///   `test/s3api/test_conditional_write.py`, run against the service).
/// - The tag is the MD5 of the bytes, whatever the metadata: wire §2.
/// - `If-None-Match` knows nothing but `*` (API reference, `PutObject`); an empty `If-Match`
///   refused is an assumption.
const AMAZON: Behaviour = Behaviour {
    put: Honours::ALWAYS,
    create_upload: Honours::NEVER,
    complete: Honours::ALWAYS,
    copy: Honours::ALWAYS,
    delete: Honours::ALWAYS,
    delete_objects: Honours::ALWAYS,
    reads: Reads::Judged,
    copy_source: Reads::Judged,
    copy_headers: CopyHeaders::Plain,
    spelling: Spelling::Amazon,
    absent: Absent::NoSuchKey,
    delete_absent: DeleteAbsent::Succeeds,
    tags: Tags::Md5,
    interleaving: Interleaving::Detected,
    commit: Commit::Atomic,
    keys: Keys::Bytes,
    write_interval: Duration::ZERO,
    too_fast: TooFast::TooManyRequests,
    versioning: Offer::Offered,
    trailers: Trailers::Taken,
    dialect: Dialect::S3,
};

/// `Profile::Aws`.
pub(super) static AWS: Behaviour = AMAZON;

/// `Profile::AwsKms`: a tag that is no MD5 and differs for the same bytes (wire §2: quiltdata/quilt
/// PR #2790, aws-sdk-java-v2 #7082; AWS documents no uniqueness).
pub(super) static AWS_KMS: Behaviour = Behaviour { tags: Tags::RandomHex, ..AMAZON };

/// `Profile::AwsExpress`: directory buckets. Tags are "random alphanumeric strings unique to the
/// object" (wire §1, "Directory buckets": botocore's model, `ObjectIdentifier.ETag`), and there are
/// no versions. Not imitated: `CreateSession`, and listings in no order. Assumptions: interleaving
/// is noticed as in general purpose buckets, and the status of `PutBucketVersioning`.
pub(super) static AWS_EXPRESS: Behaviour =
    Behaviour { tags: Tags::Opaque, versioning: Offer::Refused, ..AMAZON };

/// `Profile::Minio`, RELEASE.2025-09-07T16-13-09Z or newer. All from its source (wire §2).
///
/// - PUT, Create and Complete judge under the lock that the write holds; DELETE and
///   `DeleteObjects` do not look (`cmd/erasure-object.go`).
/// - `CopyObject` judges `x-amz-copy-source-if-*` only (`cmd/object-handlers.go`,
///   `CopyObjectHandler`: its one `CheckPrecondFn` is on the source).
/// - One tag in either header, quotes dropped, `*` any tag, an empty header none
///   (`cmd/object-handlers-common.go`, `checkPreconditionsPUT`, `isETagEqual`).
/// - Keys: `unescapePath` drops a leading slash, `IsValidObjectPrefix` refuses `//`, `.` and `..`.
pub(super) static MINIO: Behaviour = Behaviour {
    create_upload: Honours::ALWAYS,
    copy: Honours::NEVER,
    delete: Honours::NEVER,
    delete_objects: Honours::NEVER,
    spelling: Spelling::Single,
    interleaving: Interleaving::JudgedAtCommit,
    keys: Keys::Paths,
    ..AMAZON
};

/// `Profile::R2`, Cloudflare.
///
/// - Which operation takes what, lists and `*`, and "fails" for `If-Match` on what is absent:
///   developers.cloudflare.com/r2/api/s3/conditional-operations/. Its table has no DELETE, and no
///   source says that one is looked at: ignored is the careful assumption.
/// - Copy: `cf-copy-destination-if-*` alone (…/r2/api/s3/extensions/); plain `If-None-Match` is
///   ignored (wire §2; live).
/// - One write in a second to a key, else 429 `TooManyRequests`; keys in normalisation form C
///   (wire §2; live). That the limit counts DELETE too, and is judged before the condition, is an
///   assumption.
/// - No `PutBucketVersioning` (…/r2/api/s3/api/). Interleaving judged at commit is an assumption.
pub(super) static R2: Behaviour = Behaviour {
    create_upload: Honours::ALWAYS,
    delete: Honours::NEVER,
    delete_objects: Honours::NEVER,
    copy_headers: CopyHeaders::Cloudflare,
    spelling: Spelling::List,
    absent: Absent::PreconditionFailed,
    interleaving: Interleaving::JudgedAtCommit,
    keys: Keys::Nfc,
    write_interval: Duration::from_secs(1),
    versioning: Offer::Refused,
    ..AMAZON
};

/// `Profile::Ceph`, RGW 16, all measured (matrix, column `ceph-rgw16`; rows in quotes).
///
/// - PUT alone is conditional: "Complete If-Match:stale", "Copy dest If-Match:wrong", "DELETE
///   If-Match:wrong" and "DeleteObjects ETag right / wrong" change things; and
///   "x-amz-copy-source-if-match:wrong" copies.
/// - On a versioned bucket `If-None-Match: *` is ignored ("versioned: PUT If-None-Match:*
///   existing"), `If-Match` is not ("versioned: PUT If-Match:stale").
/// - Tags bare only: "PUT If-Match:<right etag, quoted>" is 412, "no quotes" is 200; `""`, a list
///   and a weak tag are 412; `If-None-Match` of a tag or a quoted star overwrites. (The rows that
///   call a right tag 412, of an empty object or a multipart one, sent it quoted.)
/// - `If-Match` on what is absent, or a delete marker, is 412.
/// - A swap that loses a race gets 500 `UnknownError` two times in three ("RACE PUT If-Match same
///   etag"), a create 412; a body that is overtaken 412 ("SLOW A").
/// - No trailers: 400 `XAmzContentSHA256Mismatch`.
pub(super) static CEPH: Behaviour = Behaviour {
    put: Honours { create: Buckets::Unversioned, swap: Buckets::All },
    complete: Honours::NEVER,
    copy: Honours::NEVER,
    delete: Honours::NEVER,
    delete_objects: Honours::NEVER,
    copy_source: Reads::Ignored,
    spelling: Spelling::Bare,
    absent: Absent::PreconditionFailed,
    interleaving: Interleaving::JudgedAtCommit,
    commit: Commit::CheckThenSwap(SWAP_WINDOW),
    trailers: Trailers::Refused,
    ..AMAZON
};

/// `Profile::Wasabi`: `If-None-Match` on PUT, Complete and Copy is answered with 200 and
/// overwrites, and `x-amz-copy-source-if-match` is ignored (wire §2; live). Assumptions: what does
/// that ignores `If-Match` and conditions of DELETE too, and reads are judged.
pub(super) static WASABI: Behaviour =
    Behaviour { copy_source: Reads::Ignored, ..IGNORES_WRITE_CONDITIONS };

/// `Profile::Garage`: no condition of a write is looked at, those of reads and of copy sources are
/// (matrix, column `garage`; wire §2: its source). A signed trailer is 400 `InvalidRequest` and
/// versions are 501 (matrix). Its other differences (an upload ends when its key is written, small
/// parts pass) are not imitated.
pub(super) static GARAGE: Behaviour = Behaviour {
    versioning: Offer::Refused,
    trailers: Trailers::Unsigned,
    ..IGNORES_WRITE_CONDITIONS
};

/// `Profile::Spaces`, `DigitalOcean`: `If-None-Match` enforced on PUT, ignored on Complete and Copy,
/// and `x-amz-copy-source-if-match` ignored (wire §2; live). `If-Match` on PUT is **untested**:
/// honoured is an assumption, and so are the 412 for what is absent, DELETE ignoring it, and
/// conditions on versioned buckets being honoured.
pub(super) static SPACES: Behaviour = Behaviour {
    put: Honours::ALWAYS,
    copy_source: Reads::Ignored,
    absent: Absent::PreconditionFailed,
    ..IGNORES_WRITE_CONDITIONS
};

/// `Profile::Gcs`, Google Cloud Storage through its XML API. What is behind the front (`gcs`, with
/// the sources for what is there):
///
/// - `If-Match` and `If-None-Match` are ignored on every write and judged on reads; conditions on
///   generations, which the front reads, are judged at once with the write (wire §3; live: of six
///   races one writer won each).
/// - DELETE of what is absent is 404 `NoSuchKey` (…/xml-api/delete-object).
/// - A key with CR or LF is 400 `InvalidObjectName` (live).
/// - A key takes about one write in a second, more for a while, else 429 `SlowDown` (Altinity's runs).
///   How many more is not known, so there is no limit here unless the builder sets one.
/// - Trailers: not known, so refused.
/// - Assumptions: an overtaken write is judged at commit; the tag of a multipart object has the form
///   of Amazon's.
pub(super) static GCS: Behaviour = Behaviour {
    delete_absent: DeleteAbsent::NoSuchKey,
    keys: Keys::NoLineBreaks,
    too_fast: TooFast::SlowDown,
    trailers: Trailers::Refused,
    dialect: Dialect::Gcs,
    ..IGNORES_WRITE_CONDITIONS
};

/// What several stores have in common.
const IGNORES_WRITE_CONDITIONS: Behaviour = Behaviour {
    put: Honours::NEVER,
    create_upload: Honours::NEVER,
    complete: Honours::NEVER,
    copy: Honours::NEVER,
    delete: Honours::NEVER,
    delete_objects: Honours::NEVER,
    interleaving: Interleaving::JudgedAtCommit,
    ..AMAZON
};

/// `Profile::Liar`, of no store: ignores what there is to ignore.
pub(super) static LIAR: Behaviour =
    Behaviour { reads: Reads::Ignored, copy_source: Reads::Ignored, ..IGNORES_WRITE_CONDITIONS };

/// `Profile::Racy`: honours everything, but not at once, as s3s-fs does (matrix, its `RACE` rows).
pub(super) static RACY: Behaviour = Behaviour {
    interleaving: Interleaving::JudgedAtCommit,
    commit: Commit::CheckThenAct(RACE_WINDOW),
    ..AMAZON
};

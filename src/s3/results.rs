//! The documents that say what an operation has made, for when the store's own was lost.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;

use super::xml::Writer;
use super::{Bucket, ObjectKey};

/// `CompleteMultipartUploadResult`. `etag` is without quotes.
#[must_use]
pub fn complete_upload_result(bucket: &Bucket, key: &ObjectKey, etag: &str) -> String {
    let mut xml = Writer::new("CompleteMultipartUploadResult");
    xml.element("Location", &format!("/{bucket}/{key}"));
    xml.element("Bucket", bucket.as_str());
    xml.element("Key", &String::from_utf8_lossy(key.as_bytes()));
    xml.element("ETag", &format!("\"{etag}\""));
    xml.finish("CompleteMultipartUploadResult")
}

/// `CopyObjectResult`. `etag` is without quotes.
#[must_use]
pub fn copy_result(etag: &str, modified: SystemTime) -> String {
    let seconds = modified.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    let modified = DateTime::from_secs(i64::try_from(seconds).unwrap_or_default());
    let mut xml = Writer::new("CopyObjectResult");
    xml.element("LastModified", &modified.fmt(Format::DateTime).unwrap_or_default());
    xml.element("ETag", &format!("\"{etag}\""));
    xml.finish("CopyObjectResult")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_documents_say_what_s3_says() {
        let key = ObjectKey::new("a b&c").unwrap();
        let xml = complete_upload_result(&Bucket::new("buc"), &key, "e-2");
        let body = "<Location>/buc/a%20b%26c</Location><Bucket>buc</Bucket><Key>a b&amp;c</Key>\
                    <ETag>&quot;e-2&quot;</ETag></CompleteMultipartUploadResult>";
        assert!(xml.ends_with(body), "{xml}");
        let xml = copy_result("e", UNIX_EPOCH + Duration::from_secs(86_400));
        let body = "<LastModified>1970-01-02T00:00:00Z</LastModified>\
                    <ETag>&quot;e&quot;</ETag></CopyObjectResult>";
        assert!(xml.ends_with(body), "{xml}");
    }
}

//! What forms ask for, and how they are answered.

use super::*;

fn form(fields: &[(&str, &str)]) -> PostForm {
    let mut form = PostForm::default();
    for (name, value) in fields {
        form.add(name, (*value).to_owned()).unwrap();
    }
    form
}

fn headers(fields: &[(&str, &str)]) -> Result<Vec<(String, String)>, FormError> {
    let form = form(&[&[("key", "k")], fields].concat());
    let headers = PostObject::of(&form)?.headers;
    let text = |value: &HeaderValue| String::from_utf8(value.as_bytes().into()).unwrap();
    Ok(headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect())
}

#[test]
fn fields_become_the_headers_of_a_put() {
    let rows = [
        ("acl", "public-read", "x-amz-acl"),
        ("x-amz-acl", "public-read", "x-amz-acl"),
        ("Content-Type", "text/html", "content-type"),
        ("Cache-Control", "no-cache", "cache-control"),
        ("Content-Disposition", "attachment", "content-disposition"),
        ("Content-Encoding", "gzip", "content-encoding"),
        ("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==", "content-md5"),
        ("Expires", "Thu, 01 Jan 1970 00:00:00 GMT", "expires"),
        ("X-Amz-Meta-Name", "J\u{fc}rgen", "x-amz-meta-name"),
        ("x-amz-storage-class", "STANDARD_IA", "x-amz-storage-class"),
        ("x-amz-server-side-encryption", "AES256", "x-amz-server-side-encryption"),
        (
            "x-amz-server-side-encryption-aws-kms-key-id",
            "1",
            "x-amz-server-side-encryption-aws-kms-key-id",
        ),
        ("x-amz-checksum-crc32", "AAAAAA==", "x-amz-checksum-crc32"),
        ("x-amz-website-redirect-location", "/x", "x-amz-website-redirect-location"),
        ("x-amz-tagging", "a=b", "x-amz-tagging"),
    ];
    for (field, value, header) in rows {
        let expected = vec![(header.to_owned(), value.to_owned())];
        assert_eq!(headers(&[(field, value)]), Ok(expected), "{field}");
        assert_eq!(headers(&[(field, "")]), Ok(Vec::new()), "{field} that was not filled in");
    }
    let ignored = [
        ("policy", "p"),
        ("x-amz-signature", "s"),
        ("x-amz-credential", "c"),
        ("x-amz-security-token", "fence:7"),
        ("x-fence-token", "7"),
        ("success_action_status", "201"),
        ("x-ignore-a", "b"),
        ("submit", "Upload"),
        ("if-match", "*"),
        ("host", "elsewhere"),
        ("transfer-encoding", "chunked"),
    ];
    assert_eq!(headers(&ignored), Ok(Vec::new()));
}

#[test]
fn what_cannot_be_a_header_is_refused() {
    for (field, value) in [
        ("x-amz-copy-source", "/b/k"),
        ("x-amz-rename-source", "/b/k"),
        ("x-amz-write-offset-bytes", "3"),
        ("x-amz-unheard-of", "1"),
        ("x-amz-meta-a", "1\r\nx-amz-copy-source: /b/k"),
        ("x-amz-meta-a b", "1"),
        ("content-type", "a\0b"),
        ("tagging", "a=b"),
    ] {
        let error = headers(&[(field, value)]).expect_err(field);
        assert_eq!(error.code(), "InvalidArgument", "{field}");
        assert_eq!(error.elements(), [("ArgumentName", field.to_owned())]);
    }
    let twice = headers(&[("acl", "private"), ("x-amz-acl", "public-read")]);
    assert_eq!(twice.unwrap_err().code(), "InvalidArgument");
}

#[test]
fn tags_become_a_header() {
    let tags = |inner: &str| headers(&[("tagging", &format!("<Tagging>{inner}</Tagging>"))]);
    let tag = |key: &str, value: &str| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>");
    let set = format!("<TagSet>{}{}</TagSet>", tag("a&amp;b", "1 2"), tag("c", ""));
    assert_eq!(tags(&set), Ok(vec![("x-amz-tagging".into(), "a%26b=1%202&c=".into())]));
    for bad in [
        "",
        "<TagSet/><TagSet/>",
        "<Set/>",
        "<TagSet><Tag><Key>a</Key></Tag></TagSet>",
        "<TagSet><Tag><Value>a</Value><Key>a</Key></Tag></TagSet>",
        "<TagSet><Other><Key>a</Key><Value>a</Value></Other></TagSet>",
    ] {
        assert!(tags(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_key_is_the_forms() {
    let key = |key: &str| PostObject::of(&form(&[("Key", key)])).map(|post| post.key);
    assert_eq!(key("a//b/../\u{e9}"), Ok(ObjectKey::new("a//b/../\u{e9}").unwrap()));
    assert_eq!(key(&"k".repeat(1025)), Err(FormError::KeyTooLong));
    assert_eq!(key("").unwrap_err().code(), "InvalidArgument");
    assert_eq!(PostObject::of(&form(&[])), Err(FormError::Missing("key")));
}

fn answer(fields: &[(&str, &str)]) -> (u16, String, String) {
    let form = form(&[&[("key", "a b&c")], fields].concat());
    let post = PostObject::of(&form).unwrap();
    let bucket = Bucket::new("buc");
    let (status, location, body) =
        post.on_success.answer("http://h/buc/k", &bucket, &post.key, "e-1");
    (status.as_u16(), location.unwrap().to_str().unwrap().to_owned(), body)
}

#[test]
fn a_success_is_answered_as_the_form_asks() {
    let nothing = |status| (status, "http://h/buc/k".to_owned(), String::new());
    assert_eq!(answer(&[]), nothing(204));
    assert_eq!(answer(&[("success_action_status", "200")]), nothing(200));
    assert_eq!(answer(&[("success_action_status", "204")]), nothing(204));
    assert_eq!(answer(&[("success_action_status", "404")]), nothing(204));
    let (status, location, body) = answer(&[("success_action_status", "201")]);
    assert_eq!((status, &*location), (201, "http://h/buc/k"));
    assert_eq!(
        body,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<PostResponse>\
         <Location>http://h/buc/k</Location><Bucket>buc</Bucket><Key>a b&amp;c</Key>\
         <ETag>&quot;e-1&quot;</ETag></PostResponse>"
    );
}

#[test]
fn a_browser_is_sent_on_to_a_web_page_only() {
    let result = "bucket=buc&key=a%20b%26c&etag=%22e%2D1%22";
    for (url, expected) in [
        ("http://h/done", format!("http://h/done?{result}")),
        ("https://h:8443/done?x=1#part", format!("https://h:8443/done?x=1&{result}")),
        ("http://h", format!("http://h/?{result}")),
    ] {
        let fields = [("success_action_redirect", url), ("success_action_status", "201")];
        assert_eq!(answer(&fields), (303, expected.clone(), String::new()), "{url}");
        assert_eq!(answer(&[("redirect", url)]), (303, expected, String::new()), "{url}");
    }
    for url in [
        "/done",
        "//h/done",
        "javascript:alert(1)",
        "ftp://h/",
        "http://u@h/",
        "http://",
        "",
        "no\r\nurl",
    ] {
        assert_eq!(answer(&[("success_action_redirect", url)]).0, 204, "{url}");
    }
}

//! Lists of keys, as clients send them and as stores answer them.

use super::*;

fn parse(inner: &str) -> Result<DeleteObjectsRequest, DocumentError> {
    parse_delete_objects(format!("<Delete>{inner}</Delete>").as_bytes())
}

fn object(key: &str) -> ObjectToDelete {
    ObjectToDelete {
        key: ObjectKey::new(key).unwrap(),
        version_id: None,
        etag: None,
        last_modified_time: None,
        size: None,
    }
}

fn deleted(key: &str) -> DeletedObject {
    DeletedObject {
        key: ObjectKey::new(key).unwrap(),
        outcome: DeleteOutcome::Deleted {
            version_id: None,
            delete_marker: None,
            delete_marker_version_id: None,
        },
    }
}

fn failed(key: &str, code: &str, message: &str) -> DeletedObject {
    DeletedObject {
        key: ObjectKey::new(key).unwrap(),
        outcome: DeleteOutcome::Failed {
            code: code.into(),
            message: message.into(),
            version_id: None,
        },
    }
}

/// Keys that a careless writer or reader changes.
const HARD_KEYS: [&str; 12] = [
    " ",
    " a ",
    "a\tb\nc\rd\r\ne",
    "\u{1}\u{8}\u{b}\u{1f}\u{7f}\u{85}",
    "<&>\"'",
    "&amp;",
    "&#65;",
    "]]>",
    "a%2Fb+c",
    "e\u{301}/\u{e9}/\u{1f600}",
    "\u{2028}\u{fffd}\u{fffe}\u{ffff}",
    "//../.",
];

#[test]
fn keys_stay_in_order_and_are_decoded_once() {
    let request = parse(
        "<Object><Key>b</Key></Object>\n  <Object><Key>a&amp;amp;&#x1;</Key></Object>\
         <Object><Key>b</Key></Object>",
    );
    let request = request.unwrap();
    assert!(!request.quiet);
    assert_eq!(request.objects, [object("b"), object("a&amp;\u{1}"), object("b")]);
}

#[test]
fn every_namespace_will_do() {
    for (start, end) in [
        ("<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">", "</Delete>"),
        ("<Delete xmlns=\"urn:other\">", "</Delete>"),
        ("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Delete>", "</Delete>\n"),
        ("<s3:Delete xmlns:s3=\"http://s3.amazonaws.com/doc/2006-03-01/\">", "</s3:Delete>"),
    ] {
        let body = format!("{start}<Quiet>true</Quiet><Object><Key>a</Key></Object>{end}");
        let request = parse_delete_objects(body.as_bytes()).unwrap();
        assert_eq!(request, DeleteObjectsRequest { quiet: true, objects: vec![object("a")] });
    }
}

#[test]
fn quiet_is_true_or_false() {
    let quiet = |text: &str| {
        parse(&format!("<Quiet>{text}</Quiet><Object><Key>a</Key></Object>")).map(|r| r.quiet)
    };
    assert_eq!(quiet("true"), Ok(true));
    assert_eq!(quiet(" 1\n"), Ok(true));
    assert_eq!(quiet("false"), Ok(false));
    assert!(quiet("yes").is_err());
    assert!(quiet("").is_err());
    assert!(parse("<Quiet>true</Quiet><Quiet>true</Quiet><Object><Key>a</Key></Object>").is_err());
}

#[test]
fn conditions_are_kept_as_they_were_written() {
    let request = parse(
        "<Object><ETag>&quot;e&quot;</ETag><Key>a</Key><VersionId>v</VersionId>\
         <LastModifiedTime>Sun, 29 Nov 2026 00:00:00 GMT</LastModifiedTime><Size>3</Size></Object>",
    );
    let expected = ObjectToDelete {
        version_id: Some("v".into()),
        etag: Some("\"e\"".into()),
        last_modified_time: Some("Sun, 29 Nov 2026 00:00:00 GMT".into()),
        size: Some("3".into()),
        ..object("a")
    };
    assert_eq!(request.unwrap().objects, [expected]);
}

#[test]
fn a_condition_that_is_not_known_is_named() {
    let error = parse("<Object><Key>a</Key><IfColour>red</IfColour></Object>").unwrap_err();
    assert_eq!(error.code(), "MalformedXML");
    assert!(error.to_string().ends_with("IfColour in Object"), "{error}");
    let error = parse("<Object><Key>a</Key></Object><Bypass>true</Bypass>").unwrap_err();
    assert!(error.to_string().ends_with("Bypass in Delete"), "{error}");
}

#[test]
fn what_names_no_objects_is_refused() {
    let many = "<Object><Key>a</Key></Object>".repeat(1001);
    let long = format!("<Object><Key>{}</Key></Object>", "\u{e9}".repeat(513));
    for inner in [
        "",
        "<Quiet>true</Quiet>",
        "<Object></Object>",
        "<Object/>",
        "<Object>a</Object>",
        "<Object><Key></Key></Object>",
        "<Object><Key/></Object>",
        "<Object><Key>a</Key><Key>b</Key></Object>",
        "<Object><Key><b>a</b></Key></Object>",
        "<Object>a<Key>b</Key></Object>",
        "<Object><key>a</key></Object>",
        "<Object><Key>a</Key><VersionId></VersionId></Object>",
        "<Object><Key>a</Key>",
        &many,
        &long,
    ] {
        let error = parse(inner).expect_err(inner);
        assert_eq!(error.code(), "MalformedXML", "{inner}");
    }
    assert!(parse_delete_objects(b"<Remove><Object><Key>a</Key></Object></Remove>").is_err());
    let most = "<Object><Key>a</Key></Object>".repeat(1000);
    assert_eq!(parse(&most).unwrap().objects.len(), 1000);
    let longest = format!("<Object><Key>{}</Key></Object>", "\u{e9}".repeat(512));
    assert!(parse(&longest).is_ok());
}

#[test]
fn a_request_is_read_as_it_was_written() {
    let mut objects: Vec<ObjectToDelete> = HARD_KEYS.map(object).into();
    objects[0].version_id = Some("v<&".into());
    objects[1].etag = Some("\"e\"".into());
    objects[2].last_modified_time = Some("then".into());
    objects[3].size = Some("3".into());
    for quiet in [true, false] {
        let request = DeleteObjectsRequest { quiet, objects: objects.clone() };
        let body = write_delete_objects(&request).unwrap();
        assert_eq!(parse_delete_objects(body.as_bytes()), Ok(request));
    }
    let not_text = ObjectToDelete { key: ObjectKey::new(b"\xff").unwrap(), ..object("a") };
    let request = DeleteObjectsRequest { quiet: false, objects: vec![not_text] };
    assert_eq!(write_delete_objects(&request), None);
}

#[test]
fn an_answer_is_read_as_it_was_written() {
    let mut results: Vec<DeletedObject> = HARD_KEYS.map(deleted).into();
    results.push(failed("a", "StaleFenceToken", "<late> & \"gone\""));
    results.push(deleted("a"));
    results.push(DeletedObject {
        key: ObjectKey::new("marked").unwrap(),
        outcome: DeleteOutcome::Deleted {
            version_id: Some("1".into()),
            delete_marker: Some("true".into()),
            delete_marker_version_id: Some("2".into()),
        },
    });
    results.push(DeletedObject {
        key: ObjectKey::new("b").unwrap(),
        outcome: DeleteOutcome::Failed {
            code: "AccessDenied".into(),
            message: String::new(),
            version_id: Some("3".into()),
        },
    });
    let body = write_delete_result(&results, false);
    assert_eq!(parse_delete_result(body.as_bytes()).as_deref(), Ok(&results[..]));
    let body = write_delete_result(&results, true);
    results.retain(|result| matches!(result.outcome, DeleteOutcome::Failed { .. }));
    assert_eq!(parse_delete_result(body.as_bytes()).as_deref(), Ok(&results[..]));
    assert_eq!(results.len(), 2);
}

#[test]
fn an_answer_in_s3s_own_words() {
    let body = write_delete_result(&[deleted("a&\n"), failed("b", "C", "M")], false);
    assert_eq!(
        body,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Deleted><Key>a&amp;&#xA;</Key></Deleted>\
         <Error><Key>b</Key><Code>C</Code><Message>M</Message></Error></DeleteResult>"
    );
}

#[test]
fn an_answer_that_does_not_say_what_became_of_a_key_is_no_answer() {
    for body in [
        "<Error><Code>InternalError</Code></Error>",
        "<DeleteResult><Deleted/></DeleteResult>",
        "<DeleteResult><Error><Key>a</Key></Error></DeleteResult>",
        "<DeleteResult><Deleted><Key>a</Key></Deleted>",
        "",
    ] {
        assert!(parse_delete_result(body.as_bytes()).is_err(), "{body}");
    }
    let more = "<DeleteResult><New>1</New><Deleted><Key>a</Key><More/></Deleted></DeleteResult>";
    assert_eq!(parse_delete_result(more.as_bytes()), Ok(vec![deleted("a")]));
}

/// Whatever bytes come, a list that is taken says the same when it is sent on.
#[test]
fn what_is_read_from_a_damaged_list_can_be_written() {
    let whole = "<?xml version=\"1.0\"?><s:Delete xmlns:s='u'><Quiet>true</Quiet><!-- c --><Object>\
                 <Key>a&amp;&#x1;<![CDATA[<b>]]></Key><VersionId>v</VersionId><ETag>\"e\"</ETag>\
                 </Object>\r\n<Object><Key>c</Key><Size>3</Size></Object></s:Delete>";
    let mut state = 1_u64;
    let mut below = |bound: usize| {
        // A linear congruential generator: the same damage in every run.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut body = whole.as_bytes().to_vec();
        for _ in 0..=below(3) {
            let (at, from) = (below(body.len()), below(body.len()));
            match below(3) {
                0 => body[at] = u8::try_from(below(256)).unwrap(),
                1 => body[at] = body[from],
                _ => drop(body.remove(at)),
            }
        }
        let Ok(request) = parse_delete_objects(&body) else { continue };
        taken += 1;
        let written = write_delete_objects(&request).unwrap();
        assert_eq!(parse_delete_objects(written.as_bytes()), Ok(request));
    }
    assert!(taken > 100, "only {taken} lists were taken");
}

//! `DeleteObjects`: the list of keys in its body, and the list of results in its answer.
//!
//! Both are read and written here, because a list is taken apart: keys that are fenced go one by
//! one, the others go to the store together, and the client gets one answer in its own order.

use super::ObjectKey;
use super::target::KEY_BYTES_MAX;
use super::xml::{DocumentError, Element, Writer, fill, malformed};

/// How many objects one request may name.
const OBJECTS_MAX: usize = 1000;

/// The body of a `DeleteObjects` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteObjectsRequest {
    /// Whether the answer tells of failures only.
    pub quiet: bool,
    /// From 1 to 1000, in the client's order. One that is named twice is there twice.
    pub objects: Vec<ObjectToDelete>,
}

/// An object, or one version of it, and the conditions under which it is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectToDelete {
    /// Its key.
    pub key: ObjectKey,
    /// The version.
    pub version_id: Option<String>,
    /// What `If-Match` is to a single delete, as the client wrote it.
    pub etag: Option<String>,
    /// A condition of directory buckets, as the client wrote it.
    pub last_modified_time: Option<String>,
    /// A condition of directory buckets, as the client wrote it.
    pub size: Option<String>,
}

/// What became of one of the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedObject {
    /// Its key.
    pub key: ObjectKey,
    /// What became of it.
    pub outcome: DeleteOutcome,
}

/// What became of an object that was to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It is gone, or was not there.
    Deleted {
        /// The version that was named.
        version_id: Option<String>,
        /// Whether a delete marker was made, or was what was deleted: `true` or `false`.
        delete_marker: Option<String>,
        /// The version id of that marker.
        delete_marker_version_id: Option<String>,
    },
    /// It was not deleted.
    Failed {
        /// The S3 error code.
        code: String,
        /// What to tell the client.
        message: String,
        /// The version that was named.
        version_id: Option<String>,
    },
}

/// Reads the body of a `DeleteObjects` request.
///
/// # Errors
///
/// [`DocumentError`], also for an element that is not known: it may be a condition.
pub fn parse_delete_objects(body: &[u8]) -> Result<DeleteObjectsRequest, DocumentError> {
    let root = Element::parse(body, "Delete")?;
    let mut quiet = None;
    let mut objects = Vec::new();
    for element in &root.children {
        match element.name.as_str() {
            "Quiet" => fill(&mut quiet, element)?,
            "Object" => objects.push(parse_object(element)?),
            name => {
                return Err(DocumentError::UnknownElement { parent: "Delete", child: name.into() });
            }
        }
    }
    let quiet = match quiet.as_deref().map(str::trim) {
        Some("true" | "1") => true,
        Some("false" | "0") | None => false,
        Some(_) => return Err(malformed("Quiet is neither true nor false")),
    };
    if (1..=OBJECTS_MAX).contains(&objects.len()) {
        Ok(DeleteObjectsRequest { quiet, objects })
    } else {
        Err(malformed(format!("it names {} objects, not 1 to {OBJECTS_MAX}", objects.len())))
    }
}

fn parse_object(element: &Element) -> Result<ObjectToDelete, DocumentError> {
    let (mut key, mut version_id, mut etag) = (None, None, None);
    let (mut last_modified_time, mut size) = (None, None);
    for child in &element.children {
        let slot = match child.name.as_str() {
            "Key" => &mut key,
            "VersionId" => &mut version_id,
            "ETag" => &mut etag,
            "LastModifiedTime" => &mut last_modified_time,
            "Size" => &mut size,
            name => {
                return Err(DocumentError::UnknownElement { parent: "Object", child: name.into() });
            }
        };
        fill(slot, child)?;
    }
    // Some stores take an empty one for none, and delete the newest version.
    if version_id.as_deref() == Some("") {
        return Err(malformed("a VersionId is empty"));
    }
    let key = parse_key(key)?;
    Ok(ObjectToDelete { key, version_id, etag, last_modified_time, size })
}

fn parse_key(text: Option<String>) -> Result<ObjectKey, DocumentError> {
    let text = text.ok_or_else(|| malformed("an object has no Key"))?;
    if text.len() > KEY_BYTES_MAX {
        return Err(malformed(format!("a Key has more than {KEY_BYTES_MAX} bytes")));
    }
    ObjectKey::new(text).ok_or_else(|| malformed("a Key is empty"))
}

/// Writes the body of a `DeleteObjects` request. `None` when a key is not UTF-8, which XML cannot
/// say; none that was read from such a body is.
#[must_use]
pub fn write_delete_objects(request: &DeleteObjectsRequest) -> Option<String> {
    let mut xml = Writer::new("Delete");
    for object in &request.objects {
        xml.open("Object");
        xml.element("Key", std::str::from_utf8(object.key.as_bytes()).ok()?);
        xml.optional("VersionId", object.version_id.as_deref());
        xml.optional("ETag", object.etag.as_deref());
        xml.optional("LastModifiedTime", object.last_modified_time.as_deref());
        xml.optional("Size", object.size.as_deref());
        xml.close("Object");
    }
    if request.quiet {
        xml.element("Quiet", "true");
    }
    Some(xml.finish("Delete"))
}

/// Writes the body of an answer, in the order of `objects`; to a `quiet` request, failures alone.
#[must_use]
pub fn write_delete_result(objects: &[DeletedObject], quiet: bool) -> String {
    let mut xml = Writer::new("DeleteResult");
    for object in objects {
        let key = String::from_utf8_lossy(object.key.as_bytes());
        match &object.outcome {
            DeleteOutcome::Deleted { .. } if quiet => {}
            DeleteOutcome::Deleted { version_id, delete_marker, delete_marker_version_id } => {
                xml.open("Deleted");
                xml.element("Key", &key);
                xml.optional("VersionId", version_id.as_deref());
                xml.optional("DeleteMarker", delete_marker.as_deref());
                xml.optional("DeleteMarkerVersionId", delete_marker_version_id.as_deref());
                xml.close("Deleted");
            }
            DeleteOutcome::Failed { code, message, version_id } => {
                xml.open("Error");
                xml.element("Key", &key);
                xml.optional("VersionId", version_id.as_deref());
                xml.element("Code", code);
                xml.element("Message", message);
                xml.close("Error");
            }
        }
    }
    xml.finish("DeleteResult")
}

/// Reads the body of a store's answer. Elements that are not known say nothing that is needed.
///
/// # Errors
///
/// [`DocumentError`] when it is not a `DeleteResult`, or one that does not say of which keys it
/// speaks.
pub fn parse_delete_result(body: &[u8]) -> Result<Vec<DeletedObject>, DocumentError> {
    let root = Element::parse(body, "DeleteResult")?;
    let results = root.children.iter().filter_map(|element| match element.name.as_str() {
        "Deleted" => Some(parse_deleted(element)),
        "Error" => Some(parse_failed(element)),
        _ => None,
    });
    results.collect()
}

fn parse_deleted(element: &Element) -> Result<DeletedObject, DocumentError> {
    let (mut key, mut version_id) = (None, None);
    let (mut delete_marker, mut delete_marker_version_id) = (None, None);
    for child in &element.children {
        match child.name.as_str() {
            "Key" => fill(&mut key, child)?,
            "VersionId" => fill(&mut version_id, child)?,
            "DeleteMarker" => fill(&mut delete_marker, child)?,
            "DeleteMarkerVersionId" => fill(&mut delete_marker_version_id, child)?,
            _ => {}
        }
    }
    let outcome = DeleteOutcome::Deleted { version_id, delete_marker, delete_marker_version_id };
    Ok(DeletedObject { key: parse_key(key)?, outcome })
}

fn parse_failed(element: &Element) -> Result<DeletedObject, DocumentError> {
    let (mut key, mut version_id, mut code, mut message) = (None, None, None, None);
    for child in &element.children {
        match child.name.as_str() {
            "Key" => fill(&mut key, child)?,
            "VersionId" => fill(&mut version_id, child)?,
            "Code" => fill(&mut code, child)?,
            "Message" => fill(&mut message, child)?,
            _ => {}
        }
    }
    let code = code.ok_or_else(|| malformed("an Error has no Code"))?;
    let message = message.unwrap_or_default();
    let outcome = DeleteOutcome::Failed { code, message, version_id };
    Ok(DeletedObject { key: parse_key(key)?, outcome })
}

#[cfg(test)]
#[path = "delete_objects_tests.rs"]
mod tests;

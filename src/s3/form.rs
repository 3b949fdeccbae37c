//! Browser forms: the fields of a `multipart/form-data` body, and the file at its end.
//!
//! Fields come first and are small, so that they can be read, and judged, before the file is. What
//! follows the file is ignored, as on AWS.

use bytes::Bytes;
use http::StatusCode;
use http_body::Body;

use super::multipart::{BoxError, Multipart};

/// How many bytes the fields before the file may have, names and values. S3's limit.
const FIELD_BYTES_MAX: usize = 20 * 1024;

/// How many fields there may be before the file.
const FIELDS_MAX: usize = 256;

/// The field that is the file.
const FILE: &str = "file";

/// Stands for the name of the file in the values of fields.
const FILE_NAME_VARIABLE: &str = "${filename}";

/// Fields that are taken literally, because a signature or a fence depends on them.
const LITERAL: [&str; 7] = [
    "policy",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-signature",
    "x-amz-security-token",
    "x-fence-token",
];

/// The fields of a form before its file. Each is there once; names are in lower case, because S3
/// does not tell `Key` from `key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostForm(Vec<(String, String)>);

/// Why a form is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// Its type is another one.
    #[error("Bucket POST must be of the enclosure-type multipart/form-data")]
    NotAForm,
    /// It is not what its type says.
    #[error("The body of your POST request is not well-formed multipart/form-data: {0}")]
    Malformed(String),
    /// It ended too early, or broke off.
    #[error("The form did not arrive whole: {0}")]
    Incomplete(String),
    /// Too many, or too large.
    #[error("Your POST request fields preceding the upload file were too large.")]
    FieldsTooLarge,
    /// There is no file in it.
    #[error("POST requires exactly one file upload per request.")]
    NoFile,
    /// A field that can have one meaning only was given twice.
    #[error("The form field {0} was given more than once")]
    Repeated(String),
    /// A field that is needed is not there.
    #[error(
        "Bucket POST must contain a field named '{0}'. If it is specified, please check the order \
         of the fields."
    )]
    Missing(&'static str),
    /// A field whose value cannot be what it has to be, or that is not known here.
    #[error("The form field {name} {problem}")]
    Invalid {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// S3's limit for keys.
    #[error("Your key is too long.")]
    KeyTooLong,
    /// The file has more bytes than its policy allows, or than fit here.
    #[error("Your proposed upload exceeds the maximum allowed size: {max} bytes in a form")]
    FileTooLarge {
        /// The most that would have been taken.
        max: u64,
    },
    /// The file has fewer bytes than its policy wants.
    #[error("Your proposed upload is smaller than the minimum allowed size")]
    FileTooSmall {
        /// What it has.
        size: u64,
        /// What it should have.
        min: u64,
    },
}

impl FormError {
    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NotAForm => StatusCode::PRECONDITION_FAILED,
            Self::Malformed(_)
            | Self::Incomplete(_)
            | Self::FieldsTooLarge
            | Self::NoFile
            | Self::Repeated(_)
            | Self::Missing(_)
            | Self::Invalid { .. }
            | Self::KeyTooLong
            | Self::FileTooLarge { .. }
            | Self::FileTooSmall { .. } => StatusCode::BAD_REQUEST,
        }
    }

    /// The S3 error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAForm => "PreconditionFailed",
            Self::Malformed(_) => "MalformedPOSTRequest",
            Self::Incomplete(_) => "IncompleteBody",
            Self::FieldsTooLarge => "MaxPostPreDataLengthExceeded",
            Self::NoFile => "IncorrectNumberOfFilesInPostRequest",
            Self::Repeated(_) | Self::Missing(_) | Self::Invalid { .. } => "InvalidArgument",
            Self::KeyTooLong => "KeyTooLongError",
            Self::FileTooLarge { .. } => "EntityTooLarge",
            Self::FileTooSmall { .. } => "EntityTooSmall",
        }
    }

    /// Further elements of the error document, as AWS names them.
    #[must_use]
    pub fn elements(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Repeated(name) | Self::Invalid { name, .. } => {
                vec![("ArgumentName", name.clone())]
            }
            Self::Missing(name) => vec![("ArgumentName", (*name).to_owned())],
            Self::FileTooLarge { max } => vec![("MaxSizeAllowed", max.to_string())],
            Self::FileTooSmall { size, min } => {
                vec![("ProposedSize", size.to_string()), ("MinSizeAllowed", min.to_string())]
            }
            Self::NotAForm
            | Self::Malformed(_)
            | Self::Incomplete(_)
            | Self::FieldsTooLarge
            | Self::NoFile
            | Self::KeyTooLong => Vec::new(),
        }
    }
}

impl PostForm {
    /// The value of a field, by its name in lower case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Name and value of every field, in the form's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Adds a field. Values of user metadata under one name become a list, as in headers.
    ///
    /// # Errors
    ///
    /// [`FormError::Repeated`].
    pub fn add(&mut self, name: &str, value: String) -> Result<(), FormError> {
        let name = name.to_ascii_lowercase();
        match self.0.iter_mut().find(|(found, _)| *found == name) {
            None => self.0.push((name, value)),
            Some((_, values)) if name.starts_with("x-amz-meta-") => {
                values.push(',');
                values.push_str(&value);
            }
            Some(_) => return Err(FormError::Repeated(name)),
        }
        Ok(())
    }

    /// Puts the name of the file where fields ask for it.
    fn expand(&mut self, file_name: Option<&str>) {
        let name = file_name.unwrap_or_default();
        // Some browsers send a whole path.
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        for (field, value) in &mut self.0 {
            if !LITERAL.contains(&field.as_str()) && value.contains(FILE_NAME_VARIABLE) {
                *value = value.replace(FILE_NAME_VARIABLE, name);
            }
        }
    }
}

/// Reads the fields of a form up to its file.
///
/// # Errors
///
/// [`FormError`].
pub async fn read_form<B>(content_type: &str, body: B) -> Result<(PostForm, FormFile<B>), FormError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut parts = Multipart::new(content_type, body)?;
    let mut form = PostForm::default();
    let mut left = FIELD_BYTES_MAX;
    for _ in 0..=FIELDS_MAX {
        let Some(part) = parts.next_part().await? else { return Err(FormError::NoFile) };
        if part.name.eq_ignore_ascii_case(FILE) {
            form.expand(part.file_name.as_deref());
            return Ok((form, FormFile(parts)));
        }
        let value = parts.read_field().await?;
        left = left.checked_sub(part.name.len() + value.len()).ok_or(FormError::FieldsTooLarge)?;
        form.add(&part.name, value)?;
    }
    Err(FormError::FieldsTooLarge)
}

/// The file of a form, not yet read.
pub struct FormFile<B>(Multipart<B>);

impl<B> FormFile<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// Reads the file, and the form to its end: the body is whole when this returns `Ok`.
    ///
    /// # Errors
    ///
    /// [`FormError::FileTooLarge`] as soon as there are more than `bytes_max`.
    pub async fn read(mut self, bytes_max: u64) -> Result<Bytes, FormError> {
        let file = self.0.read_file(bytes_max).await?;
        self.0.skip_rest().await?;
        Ok(file)
    }
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;

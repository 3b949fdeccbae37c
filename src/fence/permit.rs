//! The leave to change an object, which only the fence can give.
//!
//! `upstream` consumes a [`WritePermit`] with every request that can change something, and nothing
//! outside this module can make one:
//!
//! ```compile_fail,E0451
//! use fencepost::fence::{Terms, WritePermit};
//! fn forge(terms: Terms) -> WritePermit {
//!     WritePermit { terms }
//! }
//! ```
//!
//! A permit is not cloned either, so that one permit is one request:
//!
//! ```compile_fail,E0599
//! fn twice(permit: fencepost::fence::WritePermit) {
//!     let again = permit.clone();
//! }
//! ```

use super::{IntentId, OperationId, Tag, Token};

/// The precondition that a request carries (F3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Precondition {
    /// `If-Match` with this ETag, held without quotes.
    IfMatch(String),
    /// `If-None-Match: *`.
    IfNoneMatchAny,
}

impl Precondition {
    /// The precondition that holds on `tag` and on nothing else.
    #[must_use]
    pub fn on(tag: &Tag) -> Self {
        match tag {
            Tag::Absent => Self::IfNoneMatchAny,
            Tag::Version(etag) => Self::IfMatch(etag.clone()),
        }
    }
}

/// In which form an object's bytes are written: the two leave different tags (F4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// One request.
    Plain,
    /// A multipart upload of one part.
    OnePart,
}

/// What a fenced request has to look like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The operation, stamped on the object (F10).
    pub operation: OperationId,
    /// The token, stamped on the object (F10).
    pub token: Token,
    /// The intent that announced the request, if it needed one.
    pub intent: Option<IntentId>,
    /// The tag that the request expects to find.
    pub expects: Tag,
    /// Whether the store enforces the precondition. If not, it is sent all the same.
    pub exclusive: bool,
    /// The form to write in.
    pub form: Form,
    /// The tag that it is going to leave, as far as it is known before.
    pub leaves: Option<Tag>,
    /// The time to sign the request with, in seconds since the Unix epoch (F9).
    pub signed_at: u64,
}

impl Terms {
    /// The precondition that the request carries.
    #[must_use]
    pub fn precondition(&self) -> Precondition {
        Precondition::on(&self.expects)
    }
}

/// The leave to send one request that changes an object.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is not used leaves its intent open"]
pub struct WritePermit {
    terms: Terms,
}

impl WritePermit {
    pub(super) fn new(terms: Terms) -> Self {
        Self { terms }
    }

    /// What the request has to look like.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }
}

/// The leave to start sending a body under a precondition, but not to complete it: that takes a
/// [`WritePermit`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a body that is not begun cannot be fenced"]
pub struct StreamPermit {
    terms: Terms,
}

impl StreamPermit {
    pub(super) fn new(terms: Terms) -> Self {
        Self { terms }
    }

    /// What the request has to look like.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }
}

/// The leave to send a request that no fence guards: its scope is `off`, or `if-fenced` and no
/// token has been seen in it (F13).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit is for sending one request"]
pub struct UnfencedPermit(());

impl UnfencedPermit {
    pub(super) fn new() -> Self {
        Self(())
    }

    /// For what the doctor writes: scratch objects of its own, which nobody holds a lock on.
    /// `tests/tidy.rs` sees to it that nobody else takes this way.
    pub(crate) fn for_examination() -> Self {
        Self(())
    }
}

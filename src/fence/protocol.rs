//! What a run of the protocol is told: the operation, and what the store is known to enforce.

use super::{Bearer, KeyId, OperationId, Tag, Token};

/// Whether a store enforces the precondition of an operation, atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Enforcement {
    /// It does: the operation is fenced by its own precondition (F3).
    Conditional,
    /// It does not, or not soundly: the operation is fenced exclusively (F8).
    Exclusive,
}

/// Whether an object's tag can come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tags {
    /// The same bytes have the same tag. The safe assumption.
    Repeat,
    /// Every write has a tag of its own: SSE-KMS, S3 Express, GCS generations.
    Unique,
}

/// How many keys a scope holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keys {
    /// One object.
    One,
    /// Every key under a prefix. Every write is announced in the record, so that the next token can
    /// shut out what it has not written itself (F5).
    Many,
}

/// How a token is compared with the record's (F1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// An equal token is admitted.
    AtLeast,
    /// An equal token is refused too: a token is good for one operation.
    StrictlyGreater,
}

impl Compare {
    /// Whether `highest`, once admitted, shuts `token` out.
    #[must_use]
    pub fn refuses(self, token: Token, highest: Token) -> bool {
        match self {
            Self::AtLeast => token < highest,
            Self::StrictlyGreater => token <= highest,
        }
    }
}

/// The rules that a model or a test can switch off, to show that each of them is needed.
///
/// Nothing outside tests does so: the proxy uses [`Rules::ALL`], and `tests/tidy.rs` holds it to
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    pub(super) register: bool,
    pub(super) avoid: bool,
    pub(super) barrier: bool,
    pub(super) keep_dead: bool,
    pub(super) keep_unknown: bool,
    pub(super) tag_before_record: bool,
}

/// A rule that [`Rules::without`] can switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// F2: register before acting.
    Register,
    /// F4: avoid the tags that lower intents expect.
    Avoid,
    /// F5: the barrier over all keys of a scope.
    Barrier,
    /// F6: a dead intent stays.
    KeepDead,
    /// F7: an intent whose outcome is unknown stays.
    KeepUnknown,
    /// F12: where tags are unique, a tag is learnt before the record is loaded.
    TagBeforeRecord,
}

impl Rules {
    /// The protocol.
    pub const ALL: Self = Self {
        register: true,
        avoid: true,
        barrier: true,
        keep_dead: true,
        keep_unknown: true,
        tag_before_record: true,
    };

    /// The protocol with one rule less. For models and tests, to find what the rule prevents.
    #[doc(hidden)]
    #[must_use]
    pub const fn without(mut self, rule: Rule) -> Self {
        match rule {
            Rule::Register => self.register = false,
            Rule::Avoid => self.avoid = false,
            Rule::Barrier => self.barrier = false,
            Rule::KeepDead => self.keep_dead = false,
            Rule::KeepUnknown => self.keep_unknown = false,
            Rule::TagBeforeRecord => self.tag_before_record = false,
        }
        self
    }
}

/// What the store enforces, and the limits of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// Whether the bucket's tags repeat.
    pub tags: Tags,
    /// How many keys the scope holds.
    pub keys: Keys,
    /// Whether `If-Match` on DELETE is sound.
    pub delete: Enforcement,
    /// Whether a precondition on the `CompleteMultipartUpload` of an upload that was created just
    /// now is sound. That of a client's own upload is said with the operation ([`Assembly`]).
    pub complete: Enforcement,
    /// Whether a PUT may be written as a multipart upload of one part where the tag of the plain form
    /// is taken (F4). Not where a completion can be fenced in no way.
    pub one_part: bool,
    /// How tokens are compared.
    pub compare: Compare,
    /// How many intents one record may hold.
    pub intents_max: usize,
    /// How many times one operation starts over after losing a race.
    pub rounds_max: u32,
    /// How many times the object is read back after an unknown outcome.
    pub read_backs_max: u32,
    /// For how long the store accepts a signature of a request with a body, in seconds (F9).
    pub signature_seconds: u64,
    /// After how long a request without a body has certainly been refused or carried out, counted
    /// from its signature, in seconds (F9). It is signed in the query, with an expiry of its own.
    /// What has a small body is signed in the same way and is given `body_stall_seconds` more, and
    /// what has work to do before it takes effect `assembly_seconds` more than that.
    pub bodiless_life_seconds: u64,
    /// After how long the store has cut off a body that stopped arriving, in seconds (F9).
    pub body_stall_seconds: u64,
    /// How long the store may take to carry out a copy or the completion of an upload, in seconds
    /// (F9).
    pub assembly_seconds: u64,
    /// The rules in force.
    pub rules: Rules,
}

/// The tags that the two forms of the same bytes leave behind (F4).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forms {
    /// After a plain PUT.
    pub plain: Tag,
    /// After a multipart upload of one part.
    pub one_part: Tag,
}

/// The bytes of a PUT.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Contents {
    /// Held in memory: they can be sent again, and what they leave behind is known.
    Buffered(Forms),
    /// Streamed: they can be sent once, and what they leave behind is known when they have all
    /// passed through.
    Streamed,
}

/// An object made, in one request, of bytes that the store has already: the parts of a client's
/// multipart upload, or another object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assembly {
    /// The tag that it is going to leave, if that is known beforehand.
    pub leaves: Option<Tag>,
    /// Whether the store enforces a precondition on it, atomically.
    pub enforcement: Enforcement,
    /// Whether the bytes are those of a multipart upload. A store may answer a second completion
    /// as it answered the first and change nothing (AWS does), so a success is looked after.
    pub of_upload: bool,
}

/// What an operation does to its object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Writes it.
    Put(Contents),
    /// Writes it, of bytes that are in the store.
    Assemble(Assembly),
    /// Deletes it.
    Delete,
    /// Changes what belongs to it and leaves its bytes and its tag: tags, ACL, retention. There is
    /// no precondition for it, and nothing to recognise it by afterwards.
    Touch,
    /// Deletes one version of it, which may bring an older one, and its tag, back.
    DeleteVersion,
    /// Changes nothing: the token enters, and every lower one is out when it is acknowledged (F14).
    /// Where that takes a changed tag, the object is rewritten onto itself.
    Claim,
}

/// One client operation, as it is handed to [`Attempt`](super::Attempt).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Its random id.
    pub id: OperationId,
    /// What is stamped on what it writes (F10). Its id; or, of a client's multipart upload, which
    /// was stamped when it was created and which several operations may try to complete, the
    /// upload's.
    pub stamp: OperationId,
    /// The token that its client holds.
    pub token: Token,
    /// Whose token it is, as far as the client says.
    pub bearer: Bearer,
    /// The key it changes. Of a claim on many keys: none of them.
    pub key: KeyId,
    /// What it does.
    pub change: Change,
    /// The client's own precondition.
    pub condition: ClientCondition,
    /// The time that every request sent for it is signed with: seconds since the Unix epoch,
    /// taken once, before anything is registered. However long the proxy is paused in between,
    /// no request of this operation outlives the intent's expiry (F9).
    pub signed_at: u64,
}

impl Operation {
    /// Whether no precondition of the store's guards its request (F8). Of a PUT that depends on
    /// the form it takes, and is decided at its admission.
    #[must_use]
    pub fn is_exclusive(&self, protocol: &Protocol) -> bool {
        match &self.change {
            Change::Put(_) => false,
            // Where tags are unique, the tag has to change after the token has entered the record:
            // nothing else shuts out writes that are not on record. Only the exclusive order of
            // record and object sees to that.
            Change::Assemble(assembly) => {
                assembly.enforcement == Enforcement::Exclusive || protocol.tags == Tags::Unique
            }
            Change::Delete => protocol.delete == Enforcement::Exclusive,
            Change::Touch | Change::DeleteVersion => true,
            Change::Claim => protocol.tags == Tags::Unique && protocol.keys == Keys::One,
        }
    }
}

/// The client's own `If-Match` and `If-None-Match`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientCondition {
    /// `If-Match`.
    pub if_match: Option<ClientMatch>,
    /// `If-None-Match: *`.
    pub if_none_match_any: bool,
}

/// The value of the client's `If-Match`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientMatch {
    /// `*`: any object.
    Any,
    /// The ETag, without quotes, where it is the tag.
    Version(String),
    /// The ETag, without quotes, where the tag is `<generation>/<etag>`: what the client names is
    /// the part behind the slash.
    Etag(String),
}

/// Why the client's own precondition failed. This is no refusal of the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionFailure {
    /// `If-Match`, and there is no object: 404, as AWS answers it.
    NoSuchKey,
    /// `If-Match`, and the object is another: 412.
    IfMatch,
    /// `If-None-Match: *`, and there is an object: 412.
    IfNoneMatch,
}

impl ClientCondition {
    /// Whether the client asked for anything.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.if_match.is_none() && !self.if_none_match_any
    }

    /// Judges the object's state as AWS does.
    ///
    /// # Errors
    ///
    /// The precondition that does not hold.
    pub fn check(&self, tag: &Tag) -> Result<(), ConditionFailure> {
        if self.if_none_match_any && *tag != Tag::Absent {
            return Err(ConditionFailure::IfNoneMatch);
        }
        match (&self.if_match, tag) {
            (None, _) | (Some(ClientMatch::Any), Tag::Version(_)) => Ok(()),
            (Some(_), Tag::Absent) => Err(ConditionFailure::NoSuchKey),
            (Some(ClientMatch::Version(wanted)), Tag::Version(found)) if wanted == found => Ok(()),
            (Some(ClientMatch::Etag(wanted)), Tag::Version(found))
                if found.split_once('/').is_some_and(|(_, etag)| etag == wanted) =>
            {
                Ok(())
            }
            (Some(ClientMatch::Version(_) | ClientMatch::Etag(_)), Tag::Version(_)) => {
                Err(ConditionFailure::IfMatch)
            }
        }
    }
}

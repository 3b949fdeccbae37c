//! Generations: the numbers that Cloud Storage gives to the versions of an object, and the
//! conditions on them.
//!
//! Pure. Every version has one, in every profile; only the `gcs` profile shows them. Metadata is
//! never changed in place here, so the metageneration of every version is 1.

use http::Extensions;
use std::sync::{Arc, Mutex, PoisonError};

use super::checksum::Algorithm;
use super::object::Version;

/// The metageneration of every version.
pub(super) const METAGENERATION: u64 = 1;

/// What a request wants a generation and a metageneration to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Generations {
    /// `x-goog-if-generation-match`; 0 wants the object absent.
    pub(super) generation: Option<u64>,
    /// `x-goog-if-metageneration-match`.
    pub(super) metageneration: Option<u64>,
}

impl Generations {
    /// Whether nothing is wanted.
    pub(super) fn are_free(self) -> bool {
        self == Self::default()
    }

    /// Whether they are as wanted, of an object whose generation is `current`; 0 when it is absent.
    pub(super) fn hold(self, current: u64) -> bool {
        let metageneration = if current == 0 { 0 } else { METAGENERATION };
        self.generation.is_none_or(|wanted| wanted == current)
            && self.metageneration.is_none_or(|wanted| wanted == metageneration)
    }
}

/// A request that the front has let in: its signature is good, and this is what it wants. In the
/// extensions of a request, where no client can put it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Admitted {
    /// Of the key that is read or written.
    pub(super) conditions: Generations,
    /// Of the source of a copy.
    pub(super) source: Generations,
}

impl Admitted {
    /// What the front has left with a request; nothing is wanted where there is no front.
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or_default()
    }
}

/// The version that an answer is about, left for the front.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown(Arc<Mutex<Option<Stamp>>>);

/// What the front shows of a version.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    pub(super) generation: u64,
    /// In hex, where it is known.
    pub(super) md5: Option<String>,
    /// In base64, where it is known.
    pub(super) crc32c: Option<String>,
}

impl Shown {
    /// Leaves the version that a request read or wrote, if somebody wants to know.
    pub(super) fn leave(extensions: &Extensions, version: &Version) {
        let Some(Self(slot)) = extensions.get() else { return };
        let content = version.content.as_ref();
        let stamp = Stamp {
            generation: version.generation,
            md5: content.and_then(|content| content.md5.clone()),
            crc32c: content.and_then(|content| content.checksums.get(Algorithm::Crc32c)).cloned(),
        };
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(stamp);
    }

    /// What was left.
    pub(super) fn take(&self) -> Option<Stamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_on_generations() {
        let wanted = |generation, metageneration| Generations { generation, metageneration };
        let table = [
            (wanted(None, None), true, true),
            (wanted(Some(0), None), true, false),
            (wanted(Some(7), None), false, true),
            (wanted(Some(6), None), false, false),
            (wanted(None, Some(1)), false, true),
            (wanted(None, Some(2)), false, false),
            (wanted(Some(7), Some(2)), false, false),
        ];
        for (wanted, of_absent, of_seven) in table {
            assert_eq!(wanted.hold(0), of_absent, "{wanted:?}");
            assert_eq!(wanted.hold(7), of_seven, "{wanted:?}");
        }
    }
}

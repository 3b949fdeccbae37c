//! Whose token it is: the lock it belongs to, and the holder it was given to.
//!
//! A token is a number, and says neither. A client may say both: then the tokens of two locks are
//! never compared with each other, and a number that a source has handed out twice is noticed.

use super::Token;

/// How a lock is held, as a Chubby sequencer tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// By one holder.
    Exclusive,
    /// By several at a time, all with the same token.
    Shared,
}

/// A lock by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lock {
    /// Its name in the lock service.
    pub name: String,
    /// How it is held.
    pub mode: LockMode,
}

/// What a request, or a record, says of the one that a token belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bearer {
    /// The lock.
    pub lock: Option<Lock>,
    /// The holder.
    pub holder: Option<String>,
}

/// Why a token is not compared with the record's, whatever its number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mismatch {
    /// It is of another lock than this, which the record's is of.
    Lock(Lock),
    /// The same number has been given to two holders.
    Holder(Token),
}

impl Bearer {
    /// Whether a record that holds `self` with the token `recorded` shuts `other` out, who comes
    /// with `token`. Who says nothing is not shut out.
    ///
    /// # Errors
    ///
    /// What does not fit.
    pub fn admits(&self, recorded: Token, other: &Self, token: Token) -> Result<(), Mismatch> {
        if let (Some(own), Some(others)) = (&self.lock, &other.lock) {
            let same_mode = own.mode == others.mode || token > recorded;
            if own.name != others.name || !same_mode {
                return Err(Mismatch::Lock(own.clone()));
            }
        }
        let shared =
            |bearer: &Self| bearer.lock.as_ref().is_some_and(|lock| lock.mode == LockMode::Shared);
        match (&self.holder, &other.holder) {
            (Some(own), Some(others))
                if token == recorded && own != others && !shared(self) && !shared(other) =>
            {
                Err(Mismatch::Holder(token))
            }
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    /// What the record holds after `other` has entered it with `token`.
    #[must_use]
    pub fn after(&self, recorded: Token, other: &Self, token: Token) -> Self {
        if token > recorded {
            let lock = other.lock.clone().or_else(|| self.lock.clone());
            return Self { lock, holder: other.holder.clone() };
        }
        Self {
            lock: self.lock.clone().or_else(|| other.lock.clone()),
            holder: self.holder.clone().or_else(|| other.holder.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(value: u64) -> Token {
        Token::new(value).unwrap()
    }

    fn bearer(lock: Option<(&str, LockMode)>, holder: Option<&str>) -> Bearer {
        let lock = lock.map(|(name, mode)| Lock { name: name.into(), mode });
        Bearer { lock, holder: holder.map(str::to_owned) }
    }

    const X: LockMode = LockMode::Exclusive;
    const S: LockMode = LockMode::Shared;

    #[test]
    fn tokens_of_two_locks_are_not_compared() {
        let own = bearer(Some(("a", X)), None);
        let admits = |other: &Bearer, value| own.admits(token(7), other, token(value));
        assert_eq!(admits(&own, 7), Ok(()));
        assert_eq!(admits(&Bearer::default(), 7), Ok(()));
        for value in [1, 7, 8] {
            let other = admits(&bearer(Some(("b", X)), None), value);
            assert!(matches!(other, Err(Mismatch::Lock(_))), "{value}");
        }
        let shared = bearer(Some(("a", S)), None);
        assert!(matches!(admits(&shared, 7), Err(Mismatch::Lock(_))));
        assert_eq!(admits(&shared, 8), Ok(()), "the next holder may hold it otherwise");
    }

    #[test]
    fn an_equal_token_of_another_holder_is_noticed() {
        let own = bearer(None, Some("a"));
        let other = bearer(None, Some("b"));
        assert!(own.admits(token(7), &own, token(7)).is_ok());
        assert!(own.admits(token(7), &Bearer::default(), token(7)).is_ok());
        assert!(own.admits(token(7), &other, token(8)).is_ok());
        let refused = own.admits(token(7), &other, token(7));
        assert_eq!(refused, Err(Mismatch::Holder(token(7))));
        let (one, two) = (bearer(Some(("l", S)), Some("a")), bearer(Some(("l", S)), Some("b")));
        assert!(one.admits(token(7), &two, token(7)).is_ok(), "a shared lock has many");
    }

    #[test]
    fn a_newer_token_brings_its_own_holder_and_keeps_the_lock() {
        let own = bearer(Some(("l", X)), Some("a"));
        let nobody = Bearer::default();
        assert_eq!(own.after(token(7), &nobody, token(8)), bearer(Some(("l", X)), None));
        assert_eq!(own.after(token(7), &nobody, token(7)), own);
        assert_eq!(nobody.after(token(7), &own, token(7)), own);
    }
}

//! Leases: a lock whose record is the fence's own, so that the order of its tokens is the order in
//! which it was acquired, and acquiring it is the claim.
//!
//! Which record may follow which, as pure functions; compare-and-swap makes one of them true. Time
//! is the store's, in whole seconds. A lease that has run out stands in nobody's way, and that is
//! all that its end means: what shuts its holder out is the next token, not the clock.

use super::{Bearer, Record, Snapshot, StoreTime, Token};

/// The secret name of one lease: whoever knows it may renew and release it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u128);

impl std::fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LeaseId(…)")
    }
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Its name, which only its holder knows.
    pub id: LeaseId,
    /// Who has it, for people.
    pub holder: String,
    /// The token that was handed out with it.
    pub token: Token,
    /// How long it lasts from each renewal on, in seconds.
    pub ttl_seconds: u64,
    /// When it was acquired.
    pub acquired_at: StoreTime,
    /// The last second of it.
    pub expires_at: StoreTime,
}

/// What the record keeps of leases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Leasing {
    /// The highest token that was ever handed out. It never goes down, not even by a reset.
    pub issued: Option<Token>,
    /// The lease that was acquired last, unless it was released.
    pub lease: Option<Box<Lease>>,
}

/// What an acquisition asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The name of the new lease; a repeat of the same request has the same.
    pub id: LeaseId,
    /// Who asks.
    pub holder: String,
    /// For how long, in seconds.
    pub ttl_seconds: u64,
}

/// Why there is no lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLease {
    /// Another has it, at this time.
    Held(Lease, StoreTime),
    /// It has run out, was released, or has been overtaken by a newer token.
    Lost,
    /// The scope has had the largest token there is.
    Exhausted,
    /// The store has not told its time.
    TimeUnknown,
}

/// What an acquisition does to the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The lease is in the record already: the request is a repeat.
    Already(Lease),
    /// The record has to become this.
    Next(Record, Lease),
}

impl Lease {
    /// Whether its time is over. Its last second counts in full: the store's clock tells no less.
    #[must_use]
    pub fn has_expired(&self, now: StoreTime) -> bool {
        now > self.expires_at
    }
}

/// The lease that shuts others out: it has not run out, and no newer token has come.
#[must_use]
pub fn standing(record: &Record, now: StoreTime) -> Option<&Lease> {
    let lease = record.leasing.lease.as_deref()?;
    (lease.token == record.token && !lease.has_expired(now)).then_some(lease)
}

/// Acquires the lease, if nobody has it.
///
/// # Errors
///
/// [`NoLease`].
pub fn acquire(snapshot: &Snapshot, ask: &Acquire) -> Result<Acquired, NoLease> {
    let now = snapshot.time.ok_or(NoLease::TimeUnknown)?;
    let record = snapshot.record.as_ref();
    match record.and_then(|record| standing(record, now)) {
        Some(lease) if lease.id == ask.id => return Ok(Acquired::Already(lease.clone())),
        Some(lease) => return Err(NoLease::Held(lease.clone(), now)),
        None => {}
    }
    let issued = record.and_then(|record| record.leasing.issued);
    let highest = issued.max(snapshot.highest()).map_or(0, Token::get);
    let token = highest.checked_add(1).and_then(Token::new).ok_or(NoLease::Exhausted)?;
    let lease = Lease {
        id: ask.id,
        holder: ask.holder.clone(),
        token,
        ttl_seconds: ask.ttl_seconds,
        acquired_at: now,
        expires_at: StoreTime(now.0.saturating_add(ask.ttl_seconds)),
    };
    let mut next = record.cloned().unwrap_or_else(|| Record::new(token, Vec::new()));
    next.bearer = next.bearer.after(next.token, &Bearer::default(), token);
    next.token = token;
    next.leasing = Leasing { issued: Some(token), lease: Some(Box::new(lease.clone())) };
    Ok(Acquired::Next(next, lease))
}

/// The record in which the lease lasts `ttl_seconds` from now on, or as long as before.
///
/// # Errors
///
/// [`NoLease::Lost`] and [`NoLease::TimeUnknown`].
pub fn renew(
    snapshot: &Snapshot,
    id: LeaseId,
    ttl_seconds: Option<u64>,
) -> Result<(Record, Lease), NoLease> {
    let now = snapshot.time.ok_or(NoLease::TimeUnknown)?;
    let record = snapshot.record.as_ref().ok_or(NoLease::Lost)?;
    let lease = standing(record, now).filter(|lease| lease.id == id).ok_or(NoLease::Lost)?;
    let ttl_seconds = ttl_seconds.unwrap_or(lease.ttl_seconds);
    let expires_at = StoreTime(now.0.saturating_add(ttl_seconds));
    let lease = Lease { ttl_seconds, expires_at, ..lease.clone() };
    let leasing = Leasing { lease: Some(Box::new(lease.clone())), ..record.leasing.clone() };
    Ok((Record { leasing, ..record.clone() }, lease))
}

/// The record without the lease, which may have run out meanwhile.
///
/// # Errors
///
/// [`NoLease::Lost`] when the lease is another's, so that a late release frees nobody else's.
pub fn release(snapshot: &Snapshot, id: LeaseId) -> Result<(Record, Lease), NoLease> {
    let record = snapshot.record.as_ref().ok_or(NoLease::Lost)?;
    let lease = record.leasing.lease.as_deref().filter(|lease| lease.id == id);
    let lease = lease.ok_or(NoLease::Lost)?.clone();
    let leasing = Leasing { lease: None, ..record.leasing.clone() };
    Ok((Record { leasing, ..record.clone() }, lease))
}

//! A ledger in memory: for tests, and for a proxy that stands alone and may forget.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Binding, Ledger, LedgerUnavailable, Scope, ScopePage, SwapOutcome, Upload};
use crate::clock;
use crate::fence::{Record, RecordVersion, Snapshot, StoreTime};
use crate::s3::Bucket;

/// Records in a map, lost with the process.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    records: Mutex<HashMap<Scope, (Record, u64)>>,
    bindings: Mutex<HashMap<Upload, Binding>>,
}

fn version(number: u64) -> RecordVersion {
    RecordVersion::Tag(number.to_string())
}

#[async_trait::async_trait]
impl Ledger for MemoryLedger {
    async fn load(&self, scope: &Scope) -> Result<Snapshot, LedgerUnavailable> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let found = records.get(scope);
        Ok(Snapshot {
            record: found.map(|(record, _)| record.clone()),
            version: found.map_or(RecordVersion::Absent, |(_, number)| version(*number)),
            time: Some(store_time(clock::now())),
        })
    }

    async fn swap(
        &self,
        scope: &Scope,
        base: &RecordVersion,
        next: &Record,
    ) -> Result<SwapOutcome, LedgerUnavailable> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let (current, number) = records
            .get(scope)
            .map_or((RecordVersion::Absent, 0), |(_, number)| (version(*number), *number));
        if current != *base {
            return Ok(SwapOutcome::Lost);
        }
        records.insert(scope.clone(), (next.clone(), number + 1));
        Ok(SwapOutcome::Swapped(version(number + 1)))
    }

    async fn scopes(
        &self,
        bucket: Option<&Bucket>,
        after: Option<&str>,
        max: usize,
    ) -> Result<ScopePage, LedgerUnavailable> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let mut named: Vec<(String, &Scope)> = records
            .keys()
            .filter(|scope| bucket.is_none_or(|bucket| scope.bucket == *bucket))
            .map(|scope| (scope.to_string(), scope))
            .filter(|(name, _)| after.is_none_or(|after| name.as_str() > after))
            .collect();
        named.sort_unstable();
        let more = named.len() > max;
        named.truncate(max);
        let next = named.last().filter(|_| more).map(|(name, _)| name.clone());
        let time = Some(store_time(clock::now()));
        let snapshot = |scope: &Scope| {
            let (record, number) = &records[scope];
            Snapshot { record: Some(record.clone()), version: version(*number), time }
        };
        let scopes = named.iter().map(|(_, scope)| ((*scope).clone(), snapshot(scope))).collect();
        Ok(ScopePage { scopes, next })
    }

    async fn bind(&self, upload: &Upload, binding: &Binding) -> Result<(), LedgerUnavailable> {
        let mut bindings = self.bindings.lock().unwrap_or_else(PoisonError::into_inner);
        bindings.insert(upload.clone(), *binding);
        Ok(())
    }

    async fn binding(&self, upload: &Upload) -> Result<Option<Binding>, LedgerUnavailable> {
        let bindings = self.bindings.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(bindings.get(upload).copied())
    }

    async fn unbind(&self, upload: &Upload) -> Result<(), LedgerUnavailable> {
        let mut bindings = self.bindings.lock().unwrap_or_else(PoisonError::into_inner);
        bindings.remove(upload);
        Ok(())
    }
}

/// Whole seconds since the epoch; 0 for a clock before it, which expires nothing.
pub(super) fn store_time(time: SystemTime) -> StoreTime {
    StoreTime(time.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs()))
}

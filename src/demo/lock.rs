//! A small lock service, like the ones in use: a lease, and a number that rises with every grant.
//!
//! It serves TCP: one request and one answer a connection ([`wire::Acquire`], [`wire::Grant`]). A
//! lock that is taken is granted again when its lease has run out, and not before; nobody can give
//! one back, because nobody in the demo wants to. It knows nothing of stores, proxies and fences:
//! the number is what etcd's revision, ZooKeeper's `zxid` or a row's counter is.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::wire::{self, Acquire, Grant};
use super::{DemoError, timeline};
use crate::clock;

/// How long a lock is granted for.
pub(super) const LEASE: Duration = Duration::from_secs(2);

/// The number of a lock's first grant: as if it had been granted before.
pub(super) const FIRST_TOKEN: u64 = 33;

/// What a watcher of the service gets to know.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Somebody asks for a lock that is taken.
    Waiting {
        /// Who has it.
        holder: String,
        /// How much of the lease is left.
        left: Duration,
    },
    /// The lease that somebody waits for has run out.
    Expired {
        /// Whose it was.
        holder: String,
    },
}

/// The service. It ends when it is dropped.
pub(super) struct LockService {
    address: SocketAddr,
    events: mpsc::UnboundedReceiver<Event>,
    task: JoinHandle<()>,
}

impl LockService {
    /// Serves on a free loopback port.
    pub(super) async fn start() -> Result<Self, DemoError> {
        let doing = || DemoError::io("the lock service cannot listen");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(doing())?;
        let address = listener.local_addr().map_err(doing())?;
        // Unbounded in type; in fact two events for each of the demo's eight grants.
        let (sender, events) = mpsc::unbounded_channel();
        let locks = Arc::new(Locks { held: Mutex::default(), events: sender });
        Ok(Self { address, events, task: tokio::spawn(serve(listener, locks)) })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next thing that happens.
    pub(super) async fn event(&mut self) -> Result<Event, DemoError> {
        self.events.recv().await.ok_or(DemoError::Lock)
    }
}

impl Drop for LockService {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, locks: Arc<Locks>) {
    // The clients' tasks end with this one.
    let mut clients = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let locks = Arc::clone(&locks);
        clients.spawn(async move {
            // A client that has gone away does not want its lock.
            let _gone = answer(stream, &locks).await;
        });
    }
}

async fn answer(mut stream: TcpStream, locks: &Locks) -> std::io::Result<()> {
    let (from, mut to) = stream.split();
    if let Some(Acquire { lock, owner }) = wire::receive(&mut BufReader::new(from)).await? {
        let grant = locks.acquire(&lock, &owner).await;
        wire::send(&mut to, &grant).await?;
    }
    Ok(())
}

/// The locks that were ever granted, by name.
struct Locks {
    held: Mutex<HashMap<String, Held>>,
    events: mpsc::UnboundedSender<Event>,
}

struct Held {
    owner: String,
    token: u64,
    until: Instant,
}

impl Locks {
    async fn acquire(&self, lock: &str, owner: &str) -> Grant {
        loop {
            let (holder, until) = match self.try_acquire(lock, owner) {
                Ok(grant) => return grant,
                Err(taken) => taken,
            };
            let left = until.saturating_duration_since(clock::monotonic());
            self.tell(Event::Waiting { holder: holder.clone(), left });
            tokio::time::sleep_until(until.into()).await;
            self.tell(Event::Expired { holder });
        }
    }

    /// Grants the lock, or says who has it and until when.
    fn try_acquire(&self, lock: &str, owner: &str) -> Result<Grant, (String, Instant)> {
        let now = clock::monotonic();
        let mut locks = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let token = match locks.get(lock) {
            Some(held) if now < held.until => return Err((held.owner.clone(), held.until)),
            Some(held) => held.token + 1,
            None => FIRST_TOKEN,
        };
        locks.insert(lock.to_owned(), Held { owner: owner.to_owned(), token, until: now + LEASE });
        Ok(Grant { token, lease_ms: timeline::milliseconds(LEASE) })
    }

    fn tell(&self, event: Event) {
        // Nobody has to watch.
        let _unwatched = self.events.send(event);
    }
}

/// Asks for a lock, and waits until it is granted.
pub(super) async fn acquire(
    service: SocketAddr,
    lock: &str,
    owner: &str,
) -> std::io::Result<Grant> {
    let mut stream = TcpStream::connect(service).await?;
    let (from, mut to) = stream.split();
    wire::send(&mut to, &Acquire { lock: lock.to_owned(), owner: owner.to_owned() }).await?;
    let grant = wire::receive(&mut BufReader::new(from)).await?;
    grant.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_is_granted_again_when_its_lease_is_over_with_a_higher_token() {
        let mut service = LockService::start().await.unwrap();
        let first = acquire(service.address(), "l", "A").await.unwrap();
        let granted = clock::monotonic();
        let other = acquire(service.address(), "other", "A").await.unwrap();
        let second = acquire(service.address(), "l", "B").await.unwrap();
        assert!(clock::monotonic() - granted > LEASE * 9 / 10);
        assert_eq!((first.token, other.token, second.token), (33, 33, 34));
        assert!(
            matches!(service.event().await, Ok(Event::Waiting { holder, .. }) if holder == "A")
        );
        assert!(matches!(service.event().await, Ok(Event::Expired { holder }) if holder == "A"));
    }
}

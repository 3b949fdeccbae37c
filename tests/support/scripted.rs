//! A store that does what a test tells it to, byte by byte.
//!
//! Requests for the data bucket are answered by the test's script, one call for each connection;
//! everything else (the ledger, the probe at start) goes to the store behind. [`Caller`] is the
//! other end: a client that sees every byte of an answer, and how its connection ended.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{Backend, soon};

/// The store.
pub(crate) struct Scripted {
    address: SocketAddr,
    heads: Heads,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

/// The heads of all requests for the data bucket, oldest first.
type Heads = Arc<Mutex<Vec<String>>>;

/// A request as the store got it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// Request line and headers, with the empty line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// One connection, from the store's side.
pub(crate) struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
    heads: Heads,
    /// How many connections there were before this one.
    pub(crate) number: usize,
}

impl Scripted {
    /// A store in front of `backend`.
    pub(crate) async fn before<F, S>(backend: &Backend, script: S) -> Self
    where
        S: Fn(Wire) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Heads::default();
        let connections = Arc::<AtomicUsize>::default();
        let ours = Ours {
            behind: backend.endpoint.strip_prefix("http://").unwrap().to_owned(),
            bucket: backend.bucket.clone(),
            heads: Arc::clone(&heads),
            connections: Arc::clone(&connections),
        };
        let task = tokio::spawn(accept(listener, ours, Arc::new(script)));
        Self { address, heads, connections, task }
    }

    /// A store that passes everything on, and takes note of the heads.
    pub(crate) async fn recording(backend: &Backend) -> Self {
        let behind = backend.endpoint.strip_prefix("http://").unwrap().to_owned();
        let pass = move |wire: Wire| {
            let behind = behind.clone();
            async move { pass_once(wire, &behind).await }
        };
        Self::before(backend, pass).await
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections there have been for the data bucket.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The heads of all requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// The method and the target of all requests so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |head: String| head.split(" HTTP/1.1\r\n").next().unwrap().to_owned();
        self.heads().into_iter().map(line).collect()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the accepting side knows.
struct Ours {
    behind: String,
    bucket: String,
    heads: Heads,
    connections: Arc<AtomicUsize>,
}

impl Ours {
    /// Whether the script answers the connection that begins with this head.
    fn is_for_script(&self, head: &str) -> bool {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let rest = target.strip_prefix('/').and_then(|rest| rest.strip_prefix(&*self.bucket));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
    }

    /// Whether it is what a proxy asks of a bucket before its first fenced write.
    fn asks_for_versions(&self, head: &str) -> bool {
        let target = head.split(' ').nth(1).unwrap_or_default();
        target == format!("/{}?versioning", self.bucket)
    }
}

/// Passes one request on, and its answer back.
async fn pass_once(mut wire: Wire, behind: &str) {
    let Some(request) = wire.request().await else { return };
    let mut store = TcpStream::connect(behind).await.unwrap();
    // One answer for each connection, so that its end need not be understood.
    let head = request.head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    store.write_all(head.as_bytes()).await.unwrap();
    store.write_all(&request.body).await.unwrap();
    let mut answer = Vec::new();
    store.read_to_end(&mut answer).await.unwrap();
    wire.send(answer).await;
}

async fn accept<F, S>(listener: TcpListener, ours: Ours, script: Arc<S>)
where
    S: Fn(Wire) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let ours = Arc::new(ours);
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (script, ours) = (Arc::clone(&script), Arc::clone(&ours));
        tokio::spawn(async move {
            let heads = Arc::clone(&ours.heads);
            let mut wire = Wire { stream, unread: Vec::new(), heads, number: 0 };
            let Some(head) = wire.peek_head().await else { return };
            if ours.asks_for_versions(&head) {
                // Of no interest to a test that looks at what was sent.
                wire.heads = Heads::default();
                return pass_once(wire, &ours.behind).await;
            }
            if ours.is_for_script(&head) {
                wire.number = ours.connections.fetch_add(1, Ordering::SeqCst);
                return script(wire).await;
            }
            let mut store = TcpStream::connect(&ours.behind).await.unwrap();
            store.write_all(&wire.unread).await.unwrap();
            // Either side may end it.
            let _ = tokio::io::copy_bidirectional(&mut wire.stream, &mut store).await;
        });
    }
}

impl Wire {
    /// The next request's head; `None` when the proxy has closed the connection.
    pub(crate) async fn head(&mut self) -> Option<String> {
        let head = self.peek_head().await?;
        self.unread.drain(..head.len());
        self.heads.lock().unwrap().push(head.clone());
        Some(head)
    }

    /// The next request, whole.
    pub(crate) async fn request(&mut self) -> Option<Received> {
        let head = self.head().await?;
        let length = header(&head, "content-length").map_or(0, |text| text.parse().unwrap());
        let body = self.bytes(length).await?;
        Some(Received { head, body })
    }

    /// The next bytes of a body, so many of them.
    pub(crate) async fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.unread.len() < count {
            if self.stream.read_buf(&mut self.unread).await.ok()? == 0 {
                return None;
            }
        }
        Some(self.unread.drain(..count).collect())
    }

    async fn peek_head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = position(&self.unread, b"\r\n\r\n") {
                return Some(String::from_utf8_lossy(&self.unread[..end + 4]).into_owned());
            }
            if self.stream.read_buf(&mut self.unread).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// Sends these bytes of an answer.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The same where the proxy may have gone.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Cuts the connection as a crash does: with a reset. Dropped, it is ended in order.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

/// A client that sends and reads bytes.
pub(crate) struct Caller {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// How long a connection that must not end is watched.
const MOMENT: Duration = Duration::from_millis(100);

impl Caller {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, unread: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The next bytes up to and including `end`.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        let what = format!("{end:?} from the proxy");
        soon(&what, async {
            loop {
                if let Some(at) = position(&self.unread, end.as_bytes()) {
                    let taken: Vec<u8> = self.unread.drain(..at + end.len()).collect();
                    return String::from_utf8_lossy(&taken).into_owned();
                }
                let read = self.stream.read_buf(&mut self.unread).await.unwrap();
                let seen = String::from_utf8_lossy(&self.unread);
                assert!(read > 0, "the connection ended before {end:?}: {seen:?}");
            }
        })
        .await
    }

    /// A head, and a body of the length that it says.
    pub(crate) async fn answer(&mut self) -> (String, Vec<u8>) {
        let head = self.until("\r\n\r\n").await;
        let length = header(&head, "content-length").map_or(0, |text| text.parse().unwrap());
        let body = self.take(length).await;
        (head, body)
    }

    /// The next bytes, so many of them.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<u8> {
        soon("bytes from the proxy", async {
            while self.unread.len() < count {
                let read = self.stream.read_buf(&mut self.unread).await.unwrap();
                assert!(
                    read > 0,
                    "the connection ended {} bytes too early",
                    count - self.unread.len()
                );
            }
        })
        .await;
        self.unread.drain(..count).collect()
    }

    /// Whatever comes up to the end of the connection, be it in order or not.
    pub(crate) async fn rest(mut self) -> Vec<u8> {
        soon("the end of the connection", async {
            while self.stream.read_buf(&mut self.unread).await.is_ok_and(|read| read > 0) {}
        })
        .await;
        self.unread
    }

    /// Whether nothing comes for a moment.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.unread);
        tokio::time::timeout(MOMENT, read).await.is_err()
    }
}

/// The value of a header in the text of a head.
pub(crate) fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

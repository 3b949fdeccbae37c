//! An HTTP/2 client that sees frames: the h2 crate, and raw bytes where a client breaks rules.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use fencepost::listener::Limits;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::{PATIENCE, Server, connect, server};

/// What a client sends first, and an empty SETTINGS frame.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// One connection, or its share of one.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) requests: SendRequest<Bytes>,
    ended: Arc<Mutex<JoinHandle<Result<(), h2::Error>>>>,
}

/// A request whose answer may still come.
pub(crate) struct Open {
    pub(crate) body: SendStream<Bytes>,
    pub(crate) answer: h2::client::ResponseFuture,
}

/// An answer to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes no longer than that")
}

/// A server, and a connection to it.
pub(crate) async fn connected(limits: Limits) -> (Server, Connection) {
    let server = server(limits).await;
    let connection = Connection::open(server.address).await;
    (server, connection)
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::with(&Builder::new(), address).await
    }

    pub(crate) async fn with(builder: &Builder, address: SocketAddr) -> Self {
        Self::over(builder, TcpStream::connect(address).await.unwrap()).await
    }

    pub(crate) async fn over<S>(builder: &Builder, stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, connection) = soon(builder.handshake(stream)).await.unwrap();
        Self { requests, ended: Arc::new(Mutex::new(tokio::spawn(connection))) }
    }

    /// Waits for the server to end the connection; an error where it does not end well.
    pub(crate) async fn ended(self) -> Result<(), h2::Error> {
        soon(&mut *self.ended.lock().await).await.unwrap()
    }

    /// Ends it as if the process were gone.
    pub(crate) async fn vanish(self) {
        self.ended.lock().await.abort();
    }

    pub(crate) async fn begin(&mut self, request: Request<()>, has_body: bool) -> Open {
        let mut requests = soon(self.requests.clone().ready()).await.unwrap();
        let (answer, body) = requests.send_request(request, !has_body).unwrap();
        Open { body, answer }
    }

    /// A request without a body.
    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.begin(get(path), false).await.answer().await.unwrap()
    }

    /// A request with a body, as much of it as the server wants.
    pub(crate) async fn put(&mut self, path: &str, body: impl Into<Bytes>) -> Answer {
        let mut open = self.begin(put(path), true).await;
        open.send(body.into()).await.unwrap();
        open.answer().await.unwrap()
    }
}

impl Open {
    /// Sends a body as fast as the server takes it; whether that was the whole of it.
    pub(crate) async fn send(&mut self, mut body: Bytes) -> Result<bool, h2::Error> {
        while !body.is_empty() {
            self.body.reserve_capacity(body.len());
            let room = soon(std::future::poll_fn(|cx| self.body.poll_capacity(cx))).await;
            // None: the stream has been reset.
            let Some(room) = room.transpose()? else { return Ok(false) };
            self.body.send_data(body.split_to(room.min(body.len())), body.is_empty())?;
        }
        Ok(true)
    }

    pub(crate) async fn head(&mut self) -> Result<Response<RecvStream>, h2::Error> {
        soon(&mut self.answer).await
    }

    pub(crate) async fn answer(&mut self) -> Result<Answer, h2::Error> {
        let (head, mut body) = self.head().await?.into_parts();
        let mut bytes = Vec::new();
        while let Some(data) = soon(body.data()).await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            bytes.extend_from_slice(&data);
        }
        let body = String::from_utf8(bytes).unwrap();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// Waits for the server to reset the stream.
    pub(crate) async fn reset(&mut self) -> Reason {
        soon(std::future::poll_fn(|cx| self.body.poll_reset(cx))).await.unwrap()
    }
}

pub(crate) fn request(method: Method, uri: &str) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri.parse().unwrap();
    request
}

pub(crate) fn get(path: &str) -> Request<()> {
    request(Method::GET, &format!("http://a{path}"))
}

pub(crate) fn put(path: &str) -> Request<()> {
    request(Method::PUT, &format!("http://a{path}"))
}

/// One frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    let head = [&length.to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [head, payload.to_vec()].concat()
}

/// Sends these bytes after the preface, then nothing, until the server closes the connection.
pub(crate) fn send_and_wait(address: SocketAddr, bytes: &[u8]) {
    let mut stream = connect(address);
    stream.write_all(PREFACE).unwrap();
    stream.write_all(bytes).unwrap();
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
}

//! Memory does not grow with the size of objects: many large uploads and downloads at once through
//! the program in a process of its own, whose peak is looked at afterwards.
//!
//! Bodies of 8 MiB are tried as well: that is the size of the parts of boto3 and aws-cli.
//!
//! The store takes bodies in, more slowly than the clients would send them, and keeps nothing but
//! their MD5. `FENCEPOST_TEST_MEMORY=full` makes it 64 bodies of 256 MiB at once; the short form is
//! held to the same limit.

#![cfg(all(target_os = "linux", feature = "embedded-store"))]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod support;

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use fencepost::clock;
use fencepost::config::Environment;
use fencepost::devstore::{ACCESS_KEY_ID, Profile, SECRET_ACCESS_KEY};
use md5::{Digest as _, Md5};
use support::{Backend, Caller, Scripted, Wire, header};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// What the program may take at its peak, whatever passes through it.
const RESIDENT_MIB_MAX: usize = 200;

const MIB: usize = 1024 * 1024;

/// How much is written or read at a time.
const PIECE: usize = 256 * 1024;

/// Fenced, but for one prefix.
const SETTINGS: &str = "auth.mode = \"none\"\nledger.create = true\nlisten = \"127.0.0.1:0\"\n\
                        admin_listen = \"127.0.0.1:0\"\n\
                        [[scope]]\nbucket = \"data\"\nprefix = \"plain/\"\nmode = \"off\"\n";

/// How many bodies at once, and how large they are.
#[derive(Clone, Copy, Debug)]
struct Load {
    bodies: usize,
    mib: usize,
}

fn load() -> Load {
    match Environment::of_process().get("FENCEPOST_TEST_MEMORY") {
        Some("full") => Load { bodies: 64, mib: 256 },
        Some(other) => panic!("FENCEPOST_TEST_MEMORY is {other:?}, and can be \"full\""),
        None => Load { bodies: 16, mib: 32 },
    }
}

/// `fencepost serve` in a process of its own.
struct Program {
    child: Child,
    data: SocketAddr,
}

impl Program {
    async fn serve(store: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("fencepost.toml");
        std::fs::write(&file, SETTINGS).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_fencepost"))
            .args(["serve", "--backend", store, "--config"])
            .arg(&file)
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let data = support::soon("a line with the address", async {
            loop {
                let line = lines.next_line().await.unwrap().expect("it did not start");
                if let Some((_, rest)) = line.split_once("listening data=") {
                    break rest.split(' ').next().unwrap().parse().unwrap();
                }
            }
        })
        .await;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, data }
    }

    /// The most memory that it has had at once, in MiB.
    fn peak_mib(&self) -> usize {
        let path = format!("/proc/{}/status", self.child.id().unwrap());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() / 1024
    }
}

/// A store that keeps nothing. The key of an object to be read says how large it is.
async fn bottomless(mut wire: Wire) {
    while let Some(head) = wire.head().await {
        let target = head.split(' ').nth(1).unwrap();
        if head.starts_with("HEAD ") {
            wire.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
        } else if target.ends_with("?versioning") {
            wire.send("HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n").await;
        } else if head.starts_with("GET ") {
            let mib: usize = target.rsplit('/').next().unwrap().parse().unwrap();
            let length = mib * MIB;
            wire.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")).await;
            let piece = vec![b'd'; PIECE];
            for _ in 0..length / PIECE {
                wire.send(&piece).await;
            }
        } else {
            let mut left: usize = header(&head, "content-length").unwrap().parse().unwrap();
            let mut md5 = Md5::new();
            while left > 0 {
                let Some(piece) = wire.bytes(left.min(PIECE)).await else { return };
                left -= piece.len();
                md5.update(&piece);
            }
            let etag = hex::encode(md5.finalize());
            wire.send(format!("HTTP/1.1 200 OK\r\nETag: \"{etag}\"\r\nContent-Length: 0\r\n\r\n"))
                .await;
        }
    }
}

async fn upload(proxy: SocketAddr, target: String, headers: &str, mib: usize) {
    let mut caller = Caller::to(proxy).await;
    let length = mib * MIB;
    let head =
        format!("PUT {target} HTTP/1.1\r\nHost: p\r\nContent-Length: {length}\r\n{headers}\r\n");
    caller.send(head).await;
    let piece = vec![b'u'; PIECE];
    for _ in 0..length / PIECE {
        caller.send(&piece).await;
    }
    let (head, body) = caller.answer().await;
    let body = String::from_utf8_lossy(&body);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{target}: {head}{body}");
}

/// Reads more slowly than the store sends.
async fn download(proxy: SocketAddr, target: String, mib: usize) {
    let mut caller = Caller::to(proxy).await;
    caller.send(format!("GET {target} HTTP/1.1\r\nHost: p\r\n\r\n")).await;
    let head = caller.until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{target}: {head}");
    for number in 0..mib * MIB / PIECE {
        caller.take(PIECE).await;
        if number % 16 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_does_not_grow_with_what_passes_through() {
    let load = load();
    let backend = Backend::embedded(Profile::Aws).await;
    let store = Scripted::before(&backend, bottomless).await;
    let program = Program::serve(&store.endpoint()).await;
    let proxy = program.data;
    println!("{load:?}; at the start: {} MiB", program.peak_mib());
    let parts = Load { bodies: 64, mib: 8 };
    let ways = [
        ("parts", parts),
        ("unfenced uploads", load),
        ("fenced uploads", load),
        ("downloads", load),
    ];
    for (way, Load { bodies, mib }) in ways {
        let began = clock::monotonic();
        let all = (0..bodies).map(|number| {
            tokio::spawn(async move {
                match way {
                    "parts" | "unfenced uploads" => {
                        upload(proxy, format!("/data/plain/{number}"), "", mib).await;
                    }
                    "fenced uploads" => {
                        let token = "X-Fence-Token: 7\r\n";
                        upload(proxy, format!("/data/fenced/{number}"), token, mib).await;
                    }
                    _ => download(proxy, format!("/data/{number}/{mib}"), mib).await,
                }
            })
        });
        for one in futures_util::future::join_all(all).await {
            one.unwrap();
        }
        let (peak, took) = (program.peak_mib(), began.elapsed().as_secs_f32());
        println!("{way}: peak {peak} MiB, {took:.1} s");
        assert!(peak < RESIDENT_MIB_MAX, "{way}: {peak} MiB");
    }
    let written = store.lines().iter().filter(|line| line.starts_with("PUT ")).count();
    assert_eq!(
        written,
        parts.bodies + 2 * load.bodies,
        "everything has been streamed to the store once"
    );
}

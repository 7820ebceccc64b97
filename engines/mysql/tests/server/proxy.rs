//! A proxy between the engine and its server that cuts a connection at its commit.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

/// Where to cut the next connection that sends a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// As soon as the group begins: its statements may arrive, and no commit.
    AtBegin,
    /// The commit does not arrive.
    Before,
    /// The commit arrives, and nobody waits for what comes of it.
    During,
    /// The server has answered, and the answer does not arrive.
    After,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    next: Arc<Mutex<Option<Cut>>>,
    refuse_after_cut: Arc<AtomicBool>,
    is_refusing: Arc<AtomicBool>,
    cuts: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) fn new(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (next, cuts) = (Arc::new(Mutex::new(None)), Arc::new(AtomicU64::new(0)));
        let is_refusing = Arc::new(AtomicBool::new(false));
        let refuse_after_cut = Arc::new(AtomicBool::new(false));
        let this = Self {
            port,
            next: next.clone(),
            refuse_after_cut: refuse_after_cut.clone(),
            is_refusing: is_refusing.clone(),
            cuts: cuts.clone(),
        };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_refusing.load(Ordering::SeqCst) {
                    continue; // closes it
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                let link = Arc::new(Link {
                    client,
                    server,
                    next: next.clone(),
                    is_swallowing: AtomicBool::new(false),
                    is_cut: AtomicBool::new(false),
                    refuse_after_cut: refuse_after_cut.clone(),
                    is_refusing: is_refusing.clone(),
                    cuts: cuts.clone(),
                });
                let other = link.clone();
                thread::spawn(move || link.carry_requests());
                thread::spawn(move || other.carry_answers());
            }
        });
        this
    }

    /// Cuts the next commit.
    pub(crate) fn cut_next(&self, cut: Cut) {
        *self.next.lock().unwrap() = Some(cut);
    }

    /// Connections that were cut.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }

    /// Lets the server be reached again.
    pub(crate) fn accept_again(&self) {
        self.refuse_after_cut.store(false, Ordering::SeqCst);
        self.is_refusing.store(false, Ordering::SeqCst);
    }

    /// Lets the server be out of reach from the next cut on.
    pub(crate) fn refuse_after_cut(&self) {
        self.refuse_after_cut.store(true, Ordering::SeqCst);
    }
}

struct Link {
    client: TcpStream,
    server: TcpStream,
    next: Arc<Mutex<Option<Cut>>>,
    /// Answers are not passed on any more.
    is_swallowing: AtomicBool,
    is_cut: AtomicBool,
    refuse_after_cut: Arc<AtomicBool>,
    is_refusing: Arc<AtomicBool>,
    cuts: Arc<AtomicU64>,
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

impl Link {
    fn carry_requests(&self) {
        let mut buffer = [0; 16 << 10];
        let mut tail = Vec::new();
        while let Ok(length @ 1..) = (&self.client).read(&mut buffer) {
            let bytes = &buffer[..length];
            tail.extend_from_slice(bytes);
            let (begins, commits) =
                (holds(&tail, b"START TRANSACTION\n;SAVEPOINT"), holds(&tail, b"\n;COMMIT"));
            // Words may be split between two reads, and are found once.
            let kept = if begins || commits { 0 } else { tail.len().min(64) };
            tail.drain(..tail.len() - kept);
            let cut = {
                let mut next = self.next.lock().unwrap();
                let is_due = match *next {
                    Some(Cut::AtBegin) => begins,
                    Some(_) => commits,
                    None => false,
                };
                if is_due { next.take() } else { None }
            };
            match cut {
                None => {}
                Some(Cut::Before) => return self.cut(),
                Some(Cut::AtBegin | Cut::During) => {
                    self.is_swallowing.store(true, Ordering::SeqCst);
                    drop((&self.server).write_all(bytes));
                    return self.cut();
                }
                Some(Cut::After) => {
                    self.is_swallowing.store(true, Ordering::SeqCst);
                    drop((&self.server).write_all(bytes));
                    return; // cut by the answer
                }
            }
            if (&self.server).write_all(bytes).is_err() {
                break;
            }
        }
        self.close();
    }

    fn carry_answers(&self) {
        let mut buffer = [0; 16 << 10];
        while let Ok(length @ 1..) = (&self.server).read(&mut buffer) {
            if self.is_swallowing.load(Ordering::SeqCst) {
                return self.cut();
            }
            if (&self.client).write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        self.close();
    }

    fn cut(&self) {
        if !self.is_cut.swap(true, Ordering::SeqCst) {
            self.cuts.fetch_add(1, Ordering::SeqCst);
            if self.refuse_after_cut.load(Ordering::SeqCst) {
                self.is_refusing.store(true, Ordering::SeqCst);
            }
        }
        self.close();
    }

    fn close(&self) {
        for stream in [&self.client, &self.server] {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

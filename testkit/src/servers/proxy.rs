//! A proxy between an engine and its server that cuts a connection at a commit.
//!
//! It reads along with the client, and knows a group's begin and its commit by words that the engine
//! sends ([`Marks`]). A cut closes both ends of the connection at once.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering},
    },
    thread,
};

/// How much of what was sent is kept, since words may be split between two reads: bytes.
const WORDS_BYTES_MAX: usize = 64;

/// The words by which an engine's requests are known; each at most 64 bytes.
#[derive(Debug, Clone, Copy)]
pub struct Marks {
    /// What a group begins with.
    pub begin: &'static [u8],
    /// What its commit ends with.
    pub commit: &'static [u8],
}

/// Where to cut a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// As soon as the group begins: its statements may arrive, and no commit.
    AtBegin,
    /// The commit does not arrive.
    Before,
    /// The commit arrives, and nobody waits for what comes of it.
    During,
    /// The server has answered, and the answer does not arrive.
    After,
}

/// The proxy; its threads end with the connections and with the process.
#[derive(Debug)]
pub struct Proxy {
    /// Where clients connect to, on the loopback.
    pub port: u16,
    orders: Arc<Orders>,
}

/// What the proxy is told, and what it did.
#[derive(Debug, Default)]
struct Orders {
    next: Mutex<Option<Due>>,
    refuse_after_cut: AtomicBool,
    is_refusing: AtomicBool,
    cuts: AtomicU64,
    connections: AtomicU64,
    /// The port of the server that new connections are led to.
    server: AtomicU16,
}

/// A cut that is to be made.
#[derive(Debug, Clone, Copy)]
struct Due {
    cut: Cut,
    /// Begins or commits, whichever the cut is made at, to let pass before.
    pass: u32,
}

impl Proxy {
    /// A proxy before the server that listens on the port `server` of the loopback.
    ///
    /// # Errors
    ///
    /// What kept it from listening.
    pub fn new(server: u16, marks: Marks) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let this = Self { port: listener.local_addr()?.port(), orders: Arc::default() };
        let orders = this.orders.clone();
        orders.server.store(server, Ordering::SeqCst);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if orders.is_refusing.load(Ordering::SeqCst) {
                    continue; // closes it
                }
                orders.connections.fetch_add(1, Ordering::SeqCst);
                let server = ("127.0.0.1", orders.server.load(Ordering::SeqCst));
                let Ok(server) = TcpStream::connect(server) else { continue };
                drop([client.set_nodelay(true), server.set_nodelay(true)]);
                let link = Arc::new(Link {
                    client,
                    server,
                    marks,
                    orders: orders.clone(),
                    is_swallowing: AtomicBool::new(false),
                    is_cut: AtomicBool::new(false),
                });
                let other = link.clone();
                thread::spawn(move || link.carry_requests());
                thread::spawn(move || other.carry_answers());
            }
        });
        Ok(this)
    }

    /// Cuts at the next group.
    pub fn cut_next(&self, cut: Cut) {
        self.cut_later(0, cut);
    }

    /// Lets so many begins or commits pass, whichever the cut is made at, and cuts at the one after.
    pub fn cut_later(&self, pass: u32, cut: Cut) {
        *self.orders.due() = Some(Due { cut, pass });
    }

    /// Connections that were cut.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.orders.cuts.load(Ordering::SeqCst)
    }

    /// Connections that were let through, to whichever server, or would have been had it listened.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.orders.connections.load(Ordering::SeqCst)
    }

    /// Leads the connections to come to the server that listens on this port of the loopback.
    pub fn lead_to(&self, server: u16) {
        self.orders.server.store(server, Ordering::SeqCst);
    }

    /// Lets the server be reached again.
    pub fn accept_again(&self) {
        self.orders.refuse_after_cut.store(false, Ordering::SeqCst);
        self.orders.is_refusing.store(false, Ordering::SeqCst);
    }

    /// Lets the server be out of reach from the next cut on.
    pub fn refuse_after_cut(&self) {
        self.orders.refuse_after_cut.store(true, Ordering::SeqCst);
    }
}

impl Orders {
    fn due(&self) -> std::sync::MutexGuard<'_, Option<Due>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cut to make at words that were read, if it is its turn.
    fn take(&self, begins: bool, commits: bool) -> Option<Cut> {
        let mut next = self.due();
        let due = next.as_mut()?;
        if !(if due.cut == Cut::AtBegin { begins } else { commits }) {
            return None;
        }
        if due.pass > 0 {
            due.pass -= 1;
            return None;
        }
        next.take().map(|due| due.cut)
    }
}

/// One client's connection, and the one to the server that belongs to it.
struct Link {
    client: TcpStream,
    server: TcpStream,
    marks: Marks,
    orders: Arc<Orders>,
    /// Answers are not passed on any more.
    is_swallowing: AtomicBool,
    is_cut: AtomicBool,
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
                (holds(&tail, self.marks.begin), holds(&tail, self.marks.commit));
            // Found once.
            let kept = if begins || commits { 0 } else { tail.len().min(WORDS_BYTES_MAX) };
            tail.drain(..tail.len() - kept);
            match self.orders.take(begins, commits) {
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
            self.orders.cuts.fetch_add(1, Ordering::SeqCst);
            if self.orders.refuse_after_cut.load(Ordering::SeqCst) {
                self.orders.is_refusing.store(true, Ordering::SeqCst);
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

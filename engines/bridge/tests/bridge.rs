//! What a bridge promises, against a client made for it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    cell::Cell,
    future::Future as _,
    io,
    pin::pin,
    rc::Rc,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
};

use groupcommit_bridge::{Bridge, Connect, Failure, Limits};

/// A server that counts, and can be out of reach.
#[derive(Default)]
struct Server {
    made: AtomicUsize,
    open: AtomicUsize,
    open_peak: AtomicUsize,
    is_down: AtomicBool,
}

#[derive(Clone)]
struct Door(Arc<Server>);

/// Not `Send`, as many blocking clients are not.
struct Client {
    server: Arc<Server>,
    number: usize,
    is_broken: Rc<Cell<bool>>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.server.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connect for Door {
    type Connection = Client;
    type Error = io::Error;

    fn connect(&self) -> io::Result<Client> {
        if self.0.is_down.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let open = self.0.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.open_peak.fetch_max(open, Ordering::SeqCst);
        let number = self.0.made.fetch_add(1, Ordering::SeqCst);
        Ok(Client { server: self.0.clone(), number, is_broken: Rc::default() })
    }

    fn is_broken(&self, connection: &mut Client) -> bool {
        connection.is_broken.get()
    }
}

fn bridge(connections: usize, waiting: usize) -> (Bridge<Door>, Arc<Server>) {
    let server = Arc::new(Server::default());
    (Bridge::new(Door(server.clone()), Limits { connections, waiting }), server)
}

/// Occupies the only connection of a bridge until it is told to go on.
fn occupy(bridge: &Bridge<Door>) -> (mpsc::Sender<()>, thread::JoinHandle<()>) {
    let (go_on, told) = mpsc::channel::<()>();
    let (began, waits) = mpsc::channel();
    let bridge = bridge.clone();
    let caller = thread::spawn(move || {
        bridge
            .call_blocking(move |_| {
                began.send(()).unwrap();
                told.recv().unwrap();
            })
            .unwrap();
    });
    waits.recv().unwrap();
    (go_on, caller)
}

#[test]
fn ten_thousand_calls_at_once_use_no_more_than_the_connections_allowed() {
    let (bridge, server) = bridge(4, 16);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answers = runtime.block_on(async {
        // The first four meet, so that there are four.
        let meeting = Arc::new(Barrier::new(4));
        let calls: Vec<_> = (0..10_000)
            .map(|number| {
                let meeting = meeting.clone();
                let call = bridge.call(move |_| {
                    if number < 4 {
                        meeting.wait();
                    }
                    number
                });
                tokio::spawn(call)
            })
            .collect();
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.await.unwrap().unwrap());
        }
        answers
    });
    assert_eq!(answers, (0..10_000).collect::<Vec<_>>());
    assert_eq!(server.open_peak.load(Ordering::SeqCst), 4);
    let stats = bridge.stats();
    assert_eq!((stats.threads, stats.connections, stats.connections_peak), (4, 4, 4));
    bridge.close();
    assert_eq!(server.open.load(Ordering::SeqCst), 0);
    assert_eq!(bridge.stats().threads, 0);
}

#[test]
fn a_task_may_block_however_often_at_a_time() {
    let (bridge, _server) = bridge(1, 4);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for number in 0..1_000 {
            assert_eq!(bridge.call_blocking(move |_| number).unwrap(), number);
        }
    });
}

#[test]
fn a_full_queue_refuses_who_does_not_wait_and_keeps_who_does() {
    let (bridge, _) = bridge(1, 1);
    let (go_on, caller) = occupy(&bridge);
    let waiting = bridge.try_call(|_| 1).unwrap();
    assert!(matches!(bridge.try_call(|_| 2), Err(Failure::Overloaded)));
    let mut admission = pin!(bridge.call(|_| 3));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(admission.as_mut().poll(&mut cx).is_pending());
    go_on.send(()).unwrap();
    caller.join().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(waiting).unwrap(), 1);
    assert_eq!(runtime.block_on(admission).unwrap(), 3);
}

#[test]
fn a_call_whose_caller_has_gone_is_not_run_and_leaves_its_place() {
    let (bridge, _) = bridge(1, 2);
    let (go_on, caller) = occupy(&bridge);
    let has_run = Arc::new(AtomicBool::new(false));
    {
        let has_run = has_run.clone();
        let mut call = Box::pin(bridge.call(move |_| has_run.store(true, Ordering::SeqCst)));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(call.as_mut().poll(&mut cx), Poll::Pending));
    }
    // Nor one that was never admitted.
    drop(bridge.call(|_| unreachable!("never polled")));
    go_on.send(()).unwrap();
    caller.join().unwrap();
    for _ in 0..10 {
        bridge.call_blocking(|_| ()).unwrap();
    }
    assert!(!has_run.load(Ordering::SeqCst));
}

#[test]
fn a_call_that_panics_fails_alone_and_its_connection_goes() {
    let (bridge, server) = bridge(1, 1);
    assert_eq!(bridge.call_blocking(|client| client.number).unwrap(), 0);
    let panicked = bridge.call_blocking(|_| -> () { panic!("no answer to {}", 6 * 9) });
    assert!(
        matches!(&panicked, Err(Failure::Panicked(message)) if message == "no answer to 54"),
        "{panicked:?}"
    );
    assert_eq!(bridge.call_blocking(|client| client.number).unwrap(), 1);
    assert_eq!(server.open.load(Ordering::SeqCst), 1);
}

#[test]
fn a_broken_connection_is_made_anew_and_a_server_out_of_reach_is_tried_again() {
    let (bridge, server) = bridge(1, 1);
    let first = bridge.call_blocking(|client| {
        client.is_broken.set(true);
        client.number
    });
    assert_eq!(first.unwrap(), 0);
    server.is_down.store(true, Ordering::SeqCst);
    let refused = bridge.call_blocking(|client| client.number);
    assert!(matches!(refused, Err(Failure::Connect(_))), "{refused:?}");
    server.is_down.store(false, Ordering::SeqCst);
    assert_eq!(bridge.call_blocking(|client| client.number).unwrap(), 1);
}

#[test]
fn closing_runs_what_was_admitted_and_refuses_the_rest() {
    let (bridge, server) = bridge(1, 10);
    let (go_on, caller) = occupy(&bridge);
    let done = Arc::new(AtomicUsize::new(0));
    let admitted: Vec<_> = (0..10)
        .map(|_| {
            let done = done.clone();
            bridge.try_call(move |_| done.fetch_add(1, Ordering::SeqCst)).unwrap()
        })
        .collect();
    let mut waiting = Box::pin(bridge.call(|_| ()));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    let closer = thread::spawn({
        let bridge = bridge.clone();
        move || bridge.close()
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // Who waits for admission is told as soon as closing has begun.
    assert!(matches!(runtime.block_on(waiting), Err(Failure::Closed)));
    go_on.send(()).unwrap();
    caller.join().unwrap();
    closer.join().unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 10);
    for call in admitted {
        runtime.block_on(call).unwrap();
    }
    assert!(matches!(bridge.call_blocking(|_| ()), Err(Failure::Closed)));
    assert_eq!(server.open.load(Ordering::SeqCst), 0);
}

#[test]
fn dropping_the_last_clone_ends_the_threads_once_all_is_answered() {
    let (bridge, server) = bridge(2, 2);
    let answer = bridge.try_call(|_| 7).unwrap();
    drop(bridge);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(answer).unwrap(), 7);
    // The thread ends, and with it the only other owner.
    while Arc::strong_count(&server) > 1 {
        thread::yield_now();
    }
    assert_eq!(server.open.load(Ordering::SeqCst), 0);
}

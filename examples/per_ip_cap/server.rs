//! A server with a thread for each connection, and so many connections for each address.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::ledger::Ledger;
use super::limiter::Limiter;

pub(crate) const WELCOME: &str = "welcome\n";
pub(crate) const REFUSED: &str = "refused\n";
pub(crate) const PING: &str = "ping\n";
pub(crate) const PONG: &str = "pong\n";
pub(crate) const QUIT: &str = "quit\n";
pub(crate) const PANIC: &str = "panic\n";

pub(crate) struct Server<'s> {
    limiter: &'s dyn Limiter,
    ledger: &'s Ledger,
    panics: AtomicUsize,
    closing: AtomicBool,
}

impl<'s> Server<'s> {
    pub(crate) fn new(limiter: &'s dyn Limiter, ledger: &'s Ledger) -> Self {
        Self {
            limiter,
            ledger,
            panics: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
        }
    }

    /// Runs the server while `clients` do what they do with its address.
    pub(crate) fn serve_while<R>(&self, clients: impl FnOnce(SocketAddr) -> R) -> R {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound listener");
        thread::scope(|scope| {
            scope.spawn(move || self.accept_all(listener));
            let _closing = Closing {
                server: self,
                address,
            };
            clients(address)
        })
    }

    /// Workers that panicked.
    pub(crate) fn panics(&self) -> usize {
        self.panics.load(Ordering::Relaxed)
    }

    fn accept_all(&self, listener: TcpListener) {
        thread::scope(|scope| {
            for stream in listener.incoming() {
                if self.closing.load(Ordering::Relaxed) {
                    break;
                }
                let stream = stream.expect("a connection");
                scope.spawn(move || self.contain(|| self.serve(&stream)));
            }
        });
    }

    /// Runs a worker; what befalls it stays with it.
    fn contain(&self, worker: impl FnOnce() -> io::Result<()>) {
        match panic::catch_unwind(AssertUnwindSafe(worker)) {
            Ok(_) => {} // if it is an error, the client is gone
            Err(payload) if payload.is::<Injected>() => {
                self.panics.fetch_add(1, Ordering::Relaxed);
            }
            Err(genuine) => panic::resume_unwind(genuine),
        }
    }

    /// The place is free before the stream is closed, so that who sees its end can come again.
    fn serve(&self, mut stream: &TcpStream) -> io::Result<()> {
        let ip = stream.peer_addr()?.ip();
        let Some(_visit) = self.ledger.admit(self.limiter, ip) else {
            return stream.write_all(REFUSED.as_bytes());
        };
        stream.write_all(WELCOME.as_bytes())?;
        let mut requests = BufReader::new(stream);
        let mut request = String::new();
        while requests.read_line(&mut request)? > 0 {
            match request.as_str() {
                PING => stream.write_all(PONG.as_bytes())?,
                PANIC => inject_panic(),
                _ => break,
            }
            request.clear();
        }
        Ok(())
    }
}

/// Stops the server on drop, also if a client panics.
struct Closing<'s> {
    server: &'s Server<'s>,
    address: SocketAddr,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.server.closing.store(true, Ordering::Relaxed);
        // Wakes it, if it has not failed.
        let _ = TcpStream::connect(self.address);
    }
}

/// The payload of injected panics.
struct Injected;

/// Not by `panic!`, which would print a message for each.
fn inject_panic() -> ! {
    panic::resume_unwind(Box::new(Injected))
}

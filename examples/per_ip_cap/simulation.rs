//! A server and its clients: they come from many addresses, in their different ways, more of them than the cap
//! lets in.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client;
use super::ledger::Ledger;
use super::limiter::{MakeLimiter, Rules};
use super::plan::Plan;
use super::report::{Findings, Report};
use super::server::Server;

/// How many connections are over, and how many were refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) served: usize,
    pub(crate) refused: usize,
}

pub(crate) fn run(plan: &Plan, make: MakeLimiter, observe: &dyn Fn(Progress)) -> Report {
    const TICK: Duration = Duration::from_millis(20);
    let started = Instant::now();
    let ledger = Ledger::default();
    let hook = |_| {
        if plan.yields {
            thread::yield_now();
        }
    };
    let limiter = make(Rules {
        cap: plan.cap,
        hook: &hook,
        ledger: &ledger,
    });
    let server = Server::new(&*limiter, &ledger);
    let welcomed = AtomicUsize::new(0);
    let start = Barrier::new(plan.threads);

    server.serve_while(|address| {
        thread::scope(|scope| {
            let connect = |thread| {
                start.wait();
                for connection in (thread..plan.connections).step_by(plan.threads) {
                    let (ip, conduct) = (plan.ip(connection), plan.conduct(connection));
                    let admitted = client::call(address, ip, conduct)
                        .unwrap_or_else(|error| panic!("{conduct:?} client at {ip}: {error}"));
                    welcomed.fetch_add(usize::from(admitted), Ordering::Relaxed);
                }
            };
            let spawn = |thread| scope.spawn(move || connect(thread));
            let clients: Vec<_> = (0..plan.threads).map(spawn).collect();
            while !clients.iter().all(|client| client.is_finished()) {
                thread::sleep(TICK);
                limiter.sweep();
                observe(Progress {
                    served: ledger.admitted(),
                    refused: ledger.refused(),
                });
            }
        });
    });

    let panics = server.panics();
    Report {
        findings: Findings::of(limiter, &ledger, plan.cap, 0),
        admitted: ledger.admitted(),
        refused: ledger.refused(),
        welcomed: welcomed.into_inner(),
        panics,
        elapsed: started.elapsed(),
    }
}

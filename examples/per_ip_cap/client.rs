//! Clients of all sorts.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use super::server::{PANIC, PING, QUIT, WELCOME};

/// What a client does once it is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// Asks once and takes its leave.
    Brief,
    /// Asks now and then.
    Long,
    /// Sends nothing at all.
    Silent,
    /// Goes without a word, in the middle of a request.
    Abrupt,
    /// Makes the worker that serves it panic.
    Poisonous,
}

/// How long a silent client stays, and one that asks now and then pauses.
const SILENCE: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(1);
const LONG: usize = 5;

/// Connects from `ip`, and tells whether that was admitted. Unless the client was to be silent or abrupt, its
/// place is free when this returns.
pub(crate) fn call(server: SocketAddr, ip: IpAddr, conduct: Conduct) -> io::Result<bool> {
    let stream = connect(server, ip)?;
    let mut replies = BufReader::new(&stream);
    let mut greeting = String::new();
    replies.read_line(&mut greeting)?;
    if greeting != WELCOME {
        return Ok(false);
    }
    let send = |line: &str| (&stream).write_all(line.as_bytes());
    match conduct {
        Conduct::Brief => {
            send(PING)?;
            send(QUIT)?;
        }
        Conduct::Long => {
            for _ in 0..LONG {
                send(PING)?;
                replies.read_line(&mut String::new())?;
                thread::sleep(PAUSE);
            }
            send(QUIT)?;
        }
        Conduct::Poisonous => send(PANIC)?,
        Conduct::Silent => {
            thread::sleep(SILENCE);
            return Ok(true);
        }
        Conduct::Abrupt => {
            send(&PING[..1])?;
            let reset_at_once = Some(Duration::ZERO);
            SockRef::from(&stream).set_linger(reset_at_once)?;
            return Ok(true);
        }
    }
    replies.read_to_end(&mut Vec::new())?;
    Ok(true)
}

/// Connects from `ip`.
pub(crate) fn connect(server: SocketAddr, ip: IpAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((ip, 0)).into())?;
    socket.connect(&server.into())?;
    Ok(socket.into())
}

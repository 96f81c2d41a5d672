//! How large a simulation is, and which connection comes from where and does what. All of it follows from the
//! seed, except for the order in which the threads get to it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::client::Conduct;
use super::random;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) addresses: usize,
    pub(crate) connections: usize,
    /// So many connections of an address may be live at once.
    pub(crate) cap: usize,
    /// So many clients are connected at once.
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    /// Yield where the limiter has hooks. Without it two cores often miss a race after a look-up.
    pub(crate) yields: bool,
}

impl Plan {
    /// Half of the connections come from a tenth of the addresses.
    pub(crate) fn ip(&self, connection: usize) -> IpAddr {
        let dice = self.dice(connection);
        let hot = dice % 2 == 0;
        let addresses = if hot {
            self.addresses.div_ceil(10)
        } else {
            self.addresses
        };
        nth_ip((dice >> 32) as usize % addresses)
    }

    pub(crate) fn conduct(&self, connection: usize) -> Conduct {
        match (self.dice(connection) >> 1) % 16 {
            0 => Conduct::Silent,
            1 => Conduct::Abrupt,
            2 => Conduct::Poisonous,
            3 | 4 => Conduct::Long,
            _ => Conduct::Brief,
        }
    }

    fn dice(&self, connection: usize) -> u64 {
        random::nth(self.seed, connection as u64)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} connections from {} addresses, {} clients at once, at most {} an address",
            self.connections, self.addresses, self.threads, self.cap,
        )
    }
}

/// 127.0.0.2 and those that follow: all of 127.0.0.0/8 is this machine.
pub(crate) fn nth_ip(n: usize) -> IpAddr {
    let nth = u32::try_from(n).expect("fewer than 2^24 addresses");
    Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + 1 + nth).into()
}

//! The shares of the file descriptors: how many connections of each kind there may be.

use super::Config;
use tallymesh_node_engine::settings::GossipLimits;
use tallymesh_node_ground::descriptors::{TooFew, reserve};

/// How many connections of each kind there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    /// Connections of HTTP.
    http: u64,
    /// Redis clients; 0 if none are served.
    redis: u64,
    /// Descriptors for connections with nodes. A third more than the limit on connections is
    /// reserved, for members and for connections that are being set up.
    peers: u64,
}

impl Shares {
    fn all(self) -> u64 {
        let all = self.http.saturating_add(self.redis);
        all.saturating_add(self.peers)
    }

    /// Reduces these to the available descriptors. Nodes get a quarter, and clients share the rest.
    fn within(self, descriptors: u64) -> Shares {
        if self.all() <= descriptors {
            return self;
        }
        let peers = self.peers.min(descriptors / 4).max(1);
        let rest = descriptors.saturating_sub(peers);
        let half = match self.redis {
            0 => 0,
            _ => rest / 2,
        };
        let http = self.http.min(rest - half.min(self.redis)).max(1);
        let redis = self.redis.min(rest.saturating_sub(http));
        Shares { http, redis, peers }
    }
}

/// The number of connections for which these descriptors are enough.
fn connections_of(peers: u64) -> u32 {
    u32::try_from(peers - peers / 3).unwrap_or(u32::MAX)
}

/// Reserves the descriptors of the node itself, and sizes the limits of the configuration by the rest.
/// It logs each limit that it lowers.
///
/// # Errors
/// Fails when there are too few descriptors for a node.
pub fn fit(config: &mut Config) -> Result<(), TooFew> {
    let Some((limit, shared)) = reserve()? else {
        return Ok(());
    };
    let gossip = &mut config.gossip.limits;
    let wanted = Shares {
        http: config.http_rules.clients_max as u64,
        redis: config.resp.as_ref().map_or(0, |it| it.clients_max as u64),
        peers: u64::from(gossip.connections).div_ceil(2) * 3,
    };
    let shares = wanted.within(shared);
    let usual = GossipLimits::default();
    if shares.peers < wanted.peers {
        let asked = gossip.connections;
        gossip.connections = connections_of(shares.peers).min(asked);
        gossip.incoming = gossip
            .incoming
            .min(GossipLimits::incoming_of(gossip.connections))
            .max(1);
        gossip.pending = gossip.pending.min(gossip.connections.div_ceil(2));
        told(
            "connections",
            asked.into(),
            gossip.connections.into(),
            usual.connections.into(),
            limit,
        );
    }
    if shares.http < wanted.http {
        config.http_rules.clients_max = shares.http as usize;
        told("http-clients", wanted.http, shares.http, 4096, limit);
    }
    if let Some(resp) = &mut config.resp
        && shares.redis < wanted.redis
    {
        resp.clients_max = shares.redis as usize;
        told("resp-clients", wanted.redis, shares.redis, 10_000, limit);
    }
    tracing::info!(
        limit,
        http_clients = shares.http,
        resp_clients = shares.redis,
        connections = config.gossip.limits.connections,
        "descriptors are shared out"
    );
    Ok(())
}

/// Logs that a limit is lower than configured; a warning if the limit is not the default.
fn told(setting: &str, asked: u64, given: u64, usual: u64, limit: u64) {
    const TEXT: &str = "a limit on connections is lowered to the descriptors that there are";
    match asked == usual {
        true => tracing::info!(setting, asked, given, limit, "{TEXT}"),
        false => tracing::warn!(setting, asked, given, limit, "{TEXT}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_the_descriptors_that_there_are() {
        let wanted = Shares {
            http: 4096,
            redis: 10_000,
            peers: 384,
        };
        assert_eq!(wanted.within(1 << 20), wanted);
        for descriptors in [4, 5, 24, 64, 160, 980, 5000, 14_479] {
            let given = wanted.within(descriptors);
            assert!(given.all() <= descriptors, "{descriptors}: {given:?}");
            assert!(
                given.all() > descriptors * 9 / 10,
                "{descriptors}: {given:?}"
            );
            assert!(given.http > 0 && given.redis > 0 && given.peers > 0);
            let alone = Shares { redis: 0, ..wanted }.within(descriptors);
            assert!(alone.all() <= descriptors, "{descriptors}: {alone:?}");
            assert_eq!(alone.redis, 0);
            assert!(alone.http >= given.http);
        }
        // The part of a share that is not needed goes to the other shares.
        let few = Shares { redis: 3, ..wanted }.within(100);
        assert_eq!((few.http, few.redis, few.peers), (72, 3, 25));
        let few = Shares { http: 3, ..wanted }.within(100);
        assert_eq!((few.http, few.redis, few.peers), (3, 72, 25));
    }
}

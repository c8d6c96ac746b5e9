//! Who is linked with whom in a simulated mesh, and over which links gossip passes pushes on, by the
//! rules of a node's address book and of gossipsub.

use super::converge::LINKS_MIN;
use crate::random::Random;

/// Gossip looks for so many peers, once it has fewer than the least, and takes no more than the most:
/// gossipsub's defaults, which nodes have.
const GOSSIP_PEERS: usize = 6;
const GOSSIP_PEERS_MIN: usize = 5;
const GOSSIP_PEERS_MAX: usize = 12;

/// How often each node looks: more than it takes.
const LOOKS: usize = 20;

/// The links of each node, by their nodes' numbers.
pub(super) struct Overlay {
    pub(super) links: Vec<Vec<usize>>,
    /// Of these, the ones over which pushes of others are passed on.
    pub(super) gossip: Vec<Vec<usize>>,
}

impl Overlay {
    /// Nodes come one after the other, and dial others by chance until they have links enough.
    pub(super) fn new(nodes: usize, random: &mut Random) -> Overlay {
        let mut links = vec![Vec::new(); nodes];
        for there in 2..=nodes {
            // The new one, and those that were there before there were enough.
            for node in (0..there).rev() {
                dial(&mut links[..there], node, random);
            }
        }
        let gossip = gossip(&links, random);
        Overlay { links, gossip }
    }

    /// How many links a node has on average.
    pub(super) fn degree(&self) -> f64 {
        let ends: usize = self.links.iter().map(Vec::len).sum();
        ends as f64 / self.links.len() as f64
    }
}

fn dial(links: &mut [Vec<usize>], node: usize, random: &mut Random) {
    while links[node].len() < LINKS_MIN.min(links.len() - 1) {
        let other = random.below(links.len());
        if other != node && !links[node].contains(&other) {
            links[node].push(other);
            links[other].push(node);
        }
    }
}

fn gossip(links: &[Vec<usize>], random: &mut Random) -> Vec<Vec<usize>> {
    let mut gossip: Vec<Vec<usize>> = vec![Vec::new(); links.len()];
    let mut order: Vec<usize> = (0..links.len()).collect();
    for _ in 0..LOOKS {
        random.shuffle(&mut order);
        for &node in &order {
            if gossip[node].len() >= GOSSIP_PEERS_MIN {
                continue;
            }
            let mut others = links[node].clone();
            random.shuffle(&mut others);
            for other in others {
                let enough = gossip[node].len() >= GOSSIP_PEERS;
                let full = gossip[other].len() >= GOSSIP_PEERS_MAX;
                if !enough && !full && !gossip[node].contains(&other) {
                    gossip[node].push(other);
                    gossip[other].push(node);
                }
            }
        }
    }
    gossip
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_enough_and_both_ways_and_gossip_goes_over_links() {
        for nodes in [2, 3, 10, 50, 200] {
            let overlay = Overlay::new(nodes, &mut Random::new(nodes as u64));
            for (node, links) in overlay.links.iter().enumerate() {
                assert!(
                    links.len() >= LINKS_MIN.min(nodes - 1),
                    "{nodes}: {links:?}"
                );
                assert!(links.iter().all(|it| overlay.links[*it].contains(&node)));
                let gossip = &overlay.gossip[node];
                assert!(gossip.len() >= GOSSIP_PEERS_MIN.min(nodes - 1), "{nodes}");
                assert!(gossip.len() <= GOSSIP_PEERS_MAX, "{nodes}: {gossip:?}");
                assert!(gossip.iter().all(|it| links.contains(it)));
            }
        }
    }
}

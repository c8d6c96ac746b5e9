//! Which members are linked: a set of pairs of places, where the last place is that of a copy.

/// Most members of a config.
pub(super) const MEMBERS_MAX: usize = 5;
/// The members, and a copy of one of them.
pub(super) const PLACES_MAX: usize = MEMBERS_MAX + 1;
/// The place of the copy.
pub(super) const COPY: usize = MEMBERS_MAX;

/// The pairs that are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Links(u16);

/// The bit of a pair.
fn bit(a: usize, b: usize) -> u16 {
    let (a, b) = (a.min(b), a.max(b));
    1 << (b * (b - 1) / 2 + a)
}

impl Links {
    /// All places are linked.
    pub(super) const ALL: Links = Links((1 << (PLACES_MAX * (PLACES_MAX - 1) / 2)) - 1);

    pub(super) fn has(self, a: usize, b: usize) -> bool {
        a != b && self.0 & bit(a, b) != 0
    }

    /// Swaps two places.
    pub(super) fn swapped(self, a: usize, b: usize) -> Links {
        let other = |at: usize| match at {
            at if at == a => b,
            at if at == b => a,
            at => at,
        };
        let mut links = Links(0);
        for high in 1..PLACES_MAX {
            for low in (0..high).filter(|low| self.has(*low, high)) {
                links.0 |= bit(other(low), other(high));
            }
        }
        links
    }

    /// The places of these that are linked with this one, over others too, and itself. Ascending.
    pub(super) fn group(self, at: usize, up: &[usize]) -> Vec<usize> {
        let mut group = vec![at];
        let mut next = 0;
        while next < group.len() {
            let from = group[next];
            let more = up.iter().copied().filter(|to| self.has(from, *to));
            let more: Vec<usize> = more.filter(|to| !group.contains(to)).collect();
            group.extend(more);
            next += 1;
        }
        group.sort_unstable();
        group
    }

    /// The ways in which these members may be linked: each set of pairs for up to three. For more of them, all
    /// are linked, or they are parted in two groups. The copy is linked with the first group.
    pub(super) fn choices(members: usize) -> Vec<Links> {
        if members <= 3 {
            let pairs = (1..members).flat_map(|high| (0..high).map(move |low| bit(low, high)));
            let pairs: Vec<u16> = pairs.collect();
            let all: u16 = pairs.iter().sum();
            let chosen = |mask: u16| {
                let cut = (0..pairs.len()).filter(|at| mask >> at & 1 == 1);
                Links(Links::ALL.0 & !all | cut.map(|at| pairs[at]).sum::<u16>())
            };
            return (0..1u16 << pairs.len()).map(chosen).collect();
        }
        let parted = |mask: usize| {
            let second = (1..members).filter(|at| mask >> at & 1 == 1);
            Links::parted(&second.collect::<Vec<_>>())
        };
        (0..1 << (members - 1))
            .map(|mask: usize| parted(mask << 1))
            .collect()
    }

    /// These places are linked with each other, and the others are.
    pub(super) fn parted(side: &[usize]) -> Links {
        let mut links = Links::ALL;
        for high in 1..PLACES_MAX {
            let is_cut = |low: &usize| side.contains(low) != side.contains(&high);
            (0..high)
                .filter(is_cut)
                .for_each(|low| links.0 &= !bit(low, high));
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_linked_in_each_way() {
        let of = |members: usize| Links::choices(members).len();
        assert_eq!([of(1), of(2), of(3), of(5)], [1, 2, 8, 16]);
        assert!(Links::choices(3).contains(&Links::ALL));
        assert!(Links::choices(5).contains(&Links::ALL));
    }

    #[test]
    fn a_group_is_linked_over_others() {
        let line = Links(bit(0, 1) | bit(1, 2));
        assert_eq!(line.group(2, &[0, 1, 2]), [0, 1, 2]);
        assert_eq!(line.group(2, &[0, 2]), [2]);
        assert_eq!(line.swapped(0, 1), Links(bit(0, 1) | bit(0, 2)));
    }
}

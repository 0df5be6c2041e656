//! Sets of code points, and the partition that a list of sets makes.

/// A sorted list of ranges that neither touch nor overlap, both ends included.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Set(Vec<(u32, u32)>);

/// The last code point.
const LAST: u32 = 0x10_FFFF;

impl Set {
    /// The set of these ranges.
    pub fn new(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().filter(|(a, b)| a <= b).collect();
        ranges.sort_unstable();
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            match out.last_mut() {
                Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
                _ => out.push((start, end)),
            }
        }
        Self(out)
    }

    /// One character.
    pub fn char(c: char) -> Self {
        Self(vec![(c as u32, c as u32)])
    }

    /// All code points for which `f` holds.
    pub fn of(f: impl Fn(char) -> bool) -> Self {
        Self::new((0..=LAST).filter_map(char::from_u32).filter(|c| f(*c)).map(|c| (c as u32, c as u32)))
    }

    /// All code points.
    pub fn all() -> Self {
        Self(vec![(0, LAST)])
    }

    /// The ranges.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The only member, if there is one alone.
    pub fn single(&self) -> Option<char> {
        match self.0[..] {
            [(a, b)] if a == b => char::from_u32(a),
            _ => None,
        }
    }

    /// What is in either.
    pub fn union(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).copied())
    }

    /// What is not in the set.
    pub fn complement(&self) -> Self {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for &(start, end) in &self.0 {
            if start > next {
                out.push((next, start - 1));
            }
            next = end + 1;
        }
        if next <= LAST {
            out.push((next, LAST));
        }
        Self(out)
    }

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        self.complement().union(&other.complement()).complement()
    }

    /// Whether a code point is in the set.
    pub fn contains(&self, code: u32) -> bool {
        self.0
            .binary_search_by(|&(a, b)| {
                if b < code {
                    std::cmp::Ordering::Less
                } else if a > code {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Equal
                }
            })
            .is_ok()
    }
}

/// The coarsest partition of the code points in which each given set is a union of classes.
#[derive(Debug)]
pub struct Partition {
    /// Ranges in ascending order with their class; they cover all code points.
    pub ranges: Vec<(u32, u32, u8)>,
    /// Number of classes.
    pub count: usize,
    /// For each given set: whether each class is in it.
    pub members: Vec<Vec<bool>>,
}

impl Partition {
    /// The partition by `sets`, or `None` when it has more than 255 classes.
    pub fn new(sets: &[Set]) -> Option<Self> {
        // Each edge flips the membership of one set.
        let mut edges: Vec<(u32, usize)> = Vec::new();
        for (i, set) in sets.iter().enumerate() {
            for &(start, end) in set.ranges() {
                edges.push((start, i));
                edges.push((end + 1, i));
            }
        }
        edges.sort_unstable();
        let mut classes: std::collections::HashMap<Vec<u64>, u8> = std::collections::HashMap::new();
        let mut signatures: Vec<Vec<u64>> = Vec::new();
        let mut ranges: Vec<(u32, u32, u8)> = Vec::new();
        let mut now = vec![0u64; sets.len().div_ceil(64).max(1)];
        let mut start = 0u32;
        let mut at = 0;
        while start <= LAST {
            while at < edges.len() && edges[at].0 <= start {
                let i = edges[at].1;
                now[i / 64] ^= 1 << (i % 64);
                at += 1;
            }
            let end = edges.get(at).map_or(LAST, |edge| (edge.0 - 1).min(LAST));
            let class = match classes.get(&now) {
                Some(class) => *class,
                None => {
                    let class = u8::try_from(signatures.len()).ok().filter(|c| *c < 255)?;
                    classes.insert(now.clone(), class);
                    signatures.push(now.clone());
                    class
                }
            };
            match ranges.last_mut() {
                Some(last) if last.2 == class => last.1 = end,
                _ => ranges.push((start, end, class)),
            }
            start = end + 1;
        }
        let members =
            (0..sets.len()).map(|i| signatures.iter().map(|s| s[i / 64] >> (i % 64) & 1 != 0).collect()).collect();
        Some(Self { ranges, count: signatures.len(), members })
    }

    /// A code point's class.
    pub fn class(&self, code: u32) -> u8 {
        let i = self.ranges.partition_point(|r| r.1 < code);
        self.ranges[i].2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_separates_what_the_sets_separate() {
        let a = Set::new([(0, 9), (20, 29)]);
        let b = Set::new([(5, 24)]);
        let p = Partition::new(&[a.clone(), b.clone(), a.complement()]).unwrap();
        assert_eq!(p.count, 4);
        for code in 0..40 {
            assert_eq!(p.members[0][p.class(code) as usize], a.contains(code));
            assert_eq!(p.members[1][p.class(code) as usize], b.contains(code));
            assert_eq!(p.members[2][p.class(code) as usize], !a.contains(code));
        }
        assert_eq!(a.intersection(&b), Set::new([(5, 9), (20, 24)]));
    }
}

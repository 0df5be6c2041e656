//! Lookup of tokens by their bytes, and of numbers by their pair: hash tables walked in place.

use super::section::{MAX_ID, NONE, Section, Words, field, flag, table};
use super::text::char_len;

/// FNV-1a over 64 bits: the hash of a longer string continues that of its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Hash(u64);

impl Hash {
    /// Hash of the empty string.
    pub const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    /// The hash with `bytes` appended.
    #[inline]
    pub fn with(self, bytes: &[u8]) -> Self {
        let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(bytes.iter().fold(self.0, step))
    }

    /// Well mixed bits: slot from the low half, fingerprint from the top.
    #[inline]
    pub fn mixed(self) -> u64 {
        let h = (self.0 ^ self.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h ^ h >> 32
    }
}

/// Slot of a table of `slots` for a mixed hash.
#[inline]
pub fn slot_of(mixed: u64, slots: usize) -> usize {
    ((mixed & 0xffff_ffff).wrapping_mul(slots as u64) >> 32) as usize
}

/// Fingerprint of a mixed hash.
#[inline]
pub fn fingerprint(mixed: u64) -> u32 {
    (mixed >> 54) as u32
}

/// The bit of a vocabulary slot that says: the model gives this token for exactly these bytes.
pub const WHOLE: u32 = 1 << 21;

/// Mixed hash of a pair of ids.
#[inline]
pub fn pair_hash(left: u32, right: u32) -> u64 {
    let key = u64::from(left) << 21 | u64::from(right);
    let h = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^ h >> 32
}

/// The tokens by their bytes.
#[derive(Clone, Copy, Debug)]
pub struct Vocab<'a> {
    slots: Words<'a>,
    count: usize,
    offsets: Words<'a>,
    bytes: &'a [u8],
}

impl<'a> Vocab<'a> {
    /// The section's vocabulary.
    pub fn new(section: &Section<'a>) -> Self {
        let slots = section.words(table::VOCAB);
        Self { slots, count: slots.len32(), offsets: section.words(table::OFFSETS), bytes: section.table(table::BYTES) }
    }

    /// Bytes of token `id`, empty where there is none.
    #[inline]
    pub fn bytes(&self, id: u32) -> &'a [u8] {
        let i = id as usize;
        let (Some(start), Some(end)) = (self.offsets.u32(i), self.offsets.u32(i.wrapping_add(1))) else { return &[] };
        self.bytes.get(start as usize..end as usize).unwrap_or(&[])
    }

    /// The slot of the token whose bytes are those of `parts` one after the other; `hash` is their hash.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    pub fn find(&self, hash: Hash, [first, second]: [&[u8]; 2]) -> Option<u32> {
        let mixed = hash.mixed();
        let wanted = fingerprint(mixed);
        let mut at = slot_of(mixed, self.count);
        loop {
            let slot = self.slots.u32(at)?;
            if slot == NONE {
                return None;
            }
            if slot >> 22 == wanted && self.bytes(slot & MAX_ID).strip_prefix(first) == Some(second) {
                return Some(slot);
            }
            at = at.wrapping_add(1);
            if at == self.count {
                at = 0;
            }
        }
    }

    /// The id of the token with these bytes.
    pub fn id(&self, bytes: &[u8]) -> Option<u32> {
        self.find(Hash::EMPTY.with(bytes), [bytes, &[]]).map(|slot| slot & MAX_ID)
    }

    /// Calls `found` with the end and the id of each token that is `prefix` and the piece from `start` to that end.
    pub fn each(
        &self,
        section: &Section<'_>,
        prefix: &[u8],
        piece: &[u8],
        start: usize,
        found: &mut dyn FnMut(usize, u32),
    ) {
        let mut hash = Hash::EMPTY.with(prefix);
        let mut end = start;
        let limit = piece.len().min(start.saturating_add(section.field(field::MAX_TOKEN) as usize));
        while end < limit {
            let next = end.wrapping_add(unit_len(section, piece, end)).min(piece.len());
            hash = hash.with(piece.get(end..next).unwrap_or(&[]));
            end = next;
            if let Some(slot) = self.find(hash, [prefix, piece.get(start..end).unwrap_or(&[])]) {
                found(end, slot & MAX_ID);
            }
        }
    }
}

/// Bytes of the unit at `at`.
pub fn unit_len(section: &Section<'_>, piece: &[u8], at: usize) -> usize {
    if section.has(flag::BYTE_UNITS) { 1 } else { char_len(piece.get(at).copied().unwrap_or(0)) }
}

/// Numbers below 2^22 by pairs of numbers below 2^21.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    slots: Words<'a>,
    count: usize,
}

impl<'a> Pairs<'a> {
    /// The pairs of a table.
    pub fn new(slots: Words<'a>) -> Self {
        Self { slots, count: slots.0.len() / 8 }
    }

    /// The number of a pair, [`NONE`] where there is none.
    #[inline]
    pub fn get(&self, left: u32, right: u32) -> u32 {
        let key = u64::from(left) << 21 | u64::from(right);
        let mut at = slot_of(pair_hash(left, right), self.count);
        loop {
            let Some(entry) = self.slots.u64(at) else { return NONE };
            if entry & 0x3ff_ffff_ffff == key {
                return (entry >> 42) as u32;
            }
            if entry == u64::MAX {
                return NONE;
            }
            at = at.wrapping_add(1);
            if at == self.count {
                at = 0;
            }
        }
    }
}

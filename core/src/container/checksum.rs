//! XXH64 with seed 0, and the checksum of a file: the hash with the checksum's own bytes taken as zero.

use super::header;
use crate::bytes::copy;
use crate::kernels::prefetch;

const P1: u64 = 0x9E37_79B1_85EB_CA87;
const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P3: u64 = 0x1656_67B1_9E37_79F9;
const P4: u64 = 0x85EB_CA77_C2B2_AE63;
const P5: u64 = 0x27D4_EB2F_1656_67C5;

/// Bytes the four accumulators take at a time.
const STRIPE: usize = 32;

/// A running XXH64.
#[derive(Clone, Debug)]
pub struct Xxh64 {
    acc: [u64; 4],
    /// Bytes that do not fill a stripe yet.
    held: [u8; STRIPE],
    held_len: usize,
    total: u64,
}

impl Default for Xxh64 {
    fn default() -> Self {
        Self::new()
    }
}

fn round(acc: u64, word: u64) -> u64 {
    acc.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

#[inline(never)]
fn take_stripes(kept: &mut [u64; 4], stripes: &[[u8; STRIPE]]) {
    let mut acc = *kept;
    for bytes in stripes {
        prefetch(bytes);
        for (acc, word) in acc.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *acc = round(*acc, u64::from_le_bytes(*word));
        }
    }
    *kept = acc;
}

impl Xxh64 {
    /// The hash of nothing, seed 0.
    pub const fn new() -> Self {
        Self { acc: [P1.wrapping_add(P2), P2, 0, 0u64.wrapping_sub(P1)], held: [0; STRIPE], held_len: 0, total: 0 }
    }

    /// Takes more bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.total = self.total.wrapping_add(bytes.len() as u64);
        if self.held_len > 0 {
            let room = self.held.get_mut(self.held_len..).unwrap_or(&mut []);
            let take = room.len().min(bytes.len());
            let (head, tail) = bytes.split_at_checked(take).unwrap_or((bytes, &[]));
            copy(room, head);
            self.held_len = self.held_len.saturating_add(take);
            bytes = tail;
            if self.held_len < STRIPE {
                return;
            }
            take_stripes(&mut self.acc, core::slice::from_ref(&self.held));
            self.held_len = 0;
        }
        let (stripes, rest) = bytes.as_chunks::<STRIPE>();
        take_stripes(&mut self.acc, stripes);
        copy(&mut self.held, rest);
        self.held_len = rest.len();
    }

    /// The hash of all bytes taken so far.
    pub fn finish(&self) -> u64 {
        self.finish_with(self.held.get(..self.held_len).unwrap_or(&[]))
    }

    /// The same with what does not fill a stripe.
    fn finish_with(&self, held: &[u8]) -> u64 {
        let mut hash = if self.total < STRIPE as u64 {
            P5
        } else {
            let rotated = self.acc.iter().zip([1, 7, 12, 18]).map(|(acc, by)| acc.rotate_left(by));
            let mixed = rotated.fold(0u64, u64::wrapping_add);
            self.acc.iter().fold(mixed, |hash, &acc| (hash ^ round(0, acc)).wrapping_mul(P1).wrapping_add(P4))
        };
        hash = hash.wrapping_add(self.total);
        let (words, rest) = held.as_chunks::<8>();
        for word in words {
            hash = (hash ^ round(0, u64::from_le_bytes(*word))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        }
        let (words, rest) = rest.as_chunks::<4>();
        for word in words {
            let word = u64::from(u32::from_le_bytes(*word));
            hash = (hash ^ word.wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
        }
        for &byte in rest {
            hash = (hash ^ u64::from(byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
        hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
        hash ^ (hash >> 32)
    }
}

/// The stripe the checksum's own bytes stand in.
const OWN: usize = header::CHECKSUM / STRIPE;

/// The checksum of `file` as its header has to state it, whatever stands in the checksum's bytes. Never 0. The file is as
/// long as the shortest there is, 128 bytes.
pub fn checksum(file: &[u8]) -> u64 {
    let (stripes, rest) = file.as_chunks::<STRIPE>();
    let (before, own) = stripes.split_at_checked(OWN).unwrap_or((stripes, &[]));
    let mut hash = Xxh64 { total: file.len() as u64, ..Xxh64::new() };
    take_stripes(&mut hash.acc, before);
    if let Some((own, after)) = own.split_first() {
        let mut own = *own;
        if let Some(bytes) = own.get_mut(header::CHECKSUM % STRIPE..header::CHECKSUM % STRIPE + 8) {
            bytes.fill(0);
        }
        take_stripes(&mut hash.acc, &[own]);
        take_stripes(&mut hash.acc, after);
    }
    match hash.finish_with(rest) {
        0 => 1,
        hash => hash,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn of(bytes: &[u8]) -> u64 {
        let mut hash = Xxh64::new();
        hash.update(bytes);
        hash.finish()
    }

    #[test]
    fn published_values() {
        assert_eq!(of(b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(of(b"a"), 0xD24E_C4F1_A98C_6E5B);
        assert_eq!(of(b"abc"), 0x44BC_2CF5_AD77_0999);
        assert_eq!(of(b"Nobody inspects the spammish repetition"), 0xFBCE_A83C_8A37_8BF1);
    }

    #[test]
    fn pieces_give_the_hash_of_the_whole() {
        let bytes: Vec<u8> = (0..300u32).map(|i| (i * 7 + i / 5) as u8).collect();
        for cut in 0..bytes.len() {
            for second in [cut, (cut + 3).min(300), (cut + 40).min(300)] {
                let mut hash = Xxh64::new();
                hash.update(&bytes[..cut]);
                hash.update(&bytes[cut..second]);
                hash.update(&bytes[second..]);
                assert_eq!(hash.finish(), of(&bytes));
            }
        }
    }
}

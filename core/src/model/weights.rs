//! The tensors by their roles.

use super::tensors::Role;
use super::{Linear, Matrix, Model};
use crate::bytes::rows;
use crate::container::{DType, RESERVED};
use crate::error::{Code, Error};
use crate::kernels::{prefetch, prefetch_behind};
use bytemuck::Pod;

/// The weights of one layer, by their roles.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'m, 'a> {
    model: &'m Model<'a>,
    /// Its first directory entry.
    first: usize,
}

impl<'a> Layer<'_, 'a> {
    /// The matrix of a role. Its bias is the role behind it.
    pub fn linear(&self, role: Role) -> Linear<'a> {
        let place = role as usize;
        Linear { matrix: self.model.matrix(self.entry(place)), bias: self.floats(place.saturating_add(1)) }
    }

    /// The norm of a role, where the model has it.
    pub fn norm(&self, role: Role) -> Option<&'a [f32]> {
        self.floats(role as usize)
    }

    /// Directory index of the role at this place of [`Role::ALL`]; beyond the last for one the model lacks.
    fn entry(&self, place: usize) -> usize {
        match self.model.slots.get(place) {
            Some(&slot) if slot != Model::ABSENT => self.first.saturating_add(usize::from(slot)),
            _ => usize::MAX,
        }
    }

    fn floats(&self, place: usize) -> Option<&'a [f32]> {
        Some(self.model.vector(self.entry(place))).filter(|floats| !floats.is_empty())
    }
}

impl<'a> Model<'a> {
    /// The weights of layer `index`, which must be below `layer_count`.
    pub fn layer(&self, index: usize) -> Layer<'_, 'a> {
        let before = index.saturating_mul(self.layer_entries);
        Layer { model: self, first: RESERVED.len().saturating_add(1).saturating_add(before) }
    }

    /// The embedding `[vocab_size, hidden_size]`.
    pub fn embedding(&self) -> Matrix<'a> {
        self.matrix(RESERVED.len())
    }

    /// The norm before the head, `[hidden_size]`.
    pub fn final_norm(&self) -> &'a [f32] {
        self.vector(self.after_layers())
    }

    /// The head `[vocab_size, hidden_size]`; the embedding itself where they are tied.
    pub fn head(&self) -> Matrix<'a> {
        if self.config.tied { self.embedding() } else { self.matrix(self.after_layers().saturating_add(1)) }
    }

    fn after_layers(&self) -> usize {
        let in_layers = self.config.layer_count.saturating_mul(self.layer_entries);
        RESERVED.len().saturating_add(1).saturating_add(in_layers)
    }

    fn vector(&self, index: usize) -> &'a [f32] {
        bytemuck::try_cast_slice(self.container.payload(index)).unwrap_or(&[])
    }

    fn matrix(&self, index: usize) -> Matrix<'a> {
        let [rows, cols] = self.container.shape(index);
        let dtype = self.container.dtype(index).unwrap_or(DType::F32);
        Matrix { dtype, rows, cols, data: self.container.payload(index) }
    }
}

/// Refuses values that are not finite: those of f32 and bf16 payloads, scales and minimums of groups. The payload stands at
/// `base` in the file.
///
/// # Errors
/// `WeightNotFinite` or `ScaleNotFinite`, with the offset of the first.
pub(super) fn check_values(dtype: DType, payload: &[u8], base: u64) -> Result<(), Error> {
    let fail = |code, at: usize| Err(Error::new(code).at(base.saturating_add(at as u64)));
    let group_bytes = dtype.group_bytes();
    if group_bytes == 0 {
        let first = match dtype {
            DType::Bf16 => first_of::<u16>(payload, |half| half & 0x7f80 == 0x7f80),
            _ => first_of::<u32>(payload, |word| word & 0x7f80_0000 == 0x7f80_0000),
        };
        return match first {
            Ok(None) => Ok(()),
            Ok(Some(at)) => fail(Code::WeightNotFinite, at),
            Err(Misaligned) => fail(Code::ModelMisaligned, 0),
        };
    }
    let scales = dtype.group_scales();
    let mut start = 0usize;
    for group in rows(payload, group_bytes) {
        let words = group.as_chunks::<8>().0.get(..scales / 4).unwrap_or(&[]);
        // The memory between the scales is not read, so that the processor does not look ahead by itself.
        prefetch_behind(words, group_bytes.saturating_mul(GROUPS_AHEAD));
        if words.iter().fold(0, |any, word| any | not_finite(u64::from_le_bytes(*word))) != 0 {
            let infinite = |scale: &[u8; 2]| u16::from_le_bytes(*scale) & 0x7c00 == 0x7c00;
            let at = group.as_chunks::<2>().0.iter().position(infinite).unwrap_or(0);
            return fail(Code::ScaleNotFinite, start.saturating_add(at.saturating_mul(2)));
        }
        start = start.saturating_add(group_bytes);
    }
    Ok(())
}

/// Groups between the one that is checked and the one whose scales are asked for.
const GROUPS_AHEAD: usize = 32;

/// Of four f16, the sign bit of each that is infinite or not a number: only its exponent carries into that bit.
const fn not_finite(halves: u64) -> u64 {
    (halves & 0x7c00_7c00_7c00_7c00).wrapping_add(0x0400_0400_0400_0400) & 0x8000_8000_8000_8000
}

/// A payload that does not begin where its values may.
struct Misaligned;

/// Offset in the payload of the first value for which this holds.
#[inline(always)]
fn first_of<T: Pod>(payload: &[u8], holds: impl Fn(&T) -> bool) -> Result<Option<usize>, Misaligned> {
    let values = bytemuck::try_cast_slice::<_, T>(payload).map_err(|_| Misaligned)?;
    let mut first = 0usize;
    // Pieces keep the search vectorised.
    for piece in values.chunks(64) {
        prefetch(piece);
        if piece.iter().fold(false, |any, value| any | holds(value)) {
            let at = first.saturating_add(piece.iter().position(&holds).unwrap_or(0));
            return Ok(Some(at.saturating_mul(size_of::<T>())));
        }
        first = first.saturating_add(piece.len());
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn a_half_is_found_among_the_others() {
        for (place, others) in [0x0000u16, 0x7bff, 0xfbff, 0x8000].into_iter().enumerate() {
            for half in 0..=u16::MAX {
                let mut halves = [others; 4];
                halves[place] = half;
                let found = not_finite(u64::from_le_bytes(bytemuck::cast(halves.map(u16::to_le_bytes))));
                assert_eq!(found != 0, half & 0x7c00 == 0x7c00, "{half:04x} at {place}");
            }
        }
    }

    #[test]
    fn every_scale_of_a_group_is_checked_and_named() {
        for dtype in [DType::Q8_0, DType::Q4_0, DType::Q4_1] {
            let (bytes, scales) = (dtype.group_bytes(), 2 * dtype.group_scales());
            // Codes of all ones are not scales.
            let mut payload = vec![0xff; 3 * bytes];
            for group in payload.chunks_mut(bytes) {
                group[..scales].as_chunks_mut::<2>().0.fill(0xfbffu16.to_le_bytes());
            }
            assert_eq!(check_values(dtype, &payload, 64), Ok(()));
            for at in (0..payload.len()).step_by(2).filter(|at| at % bytes < scales) {
                let mut broken = payload.clone();
                broken[at..at + 2].copy_from_slice(&0xfc00u16.to_le_bytes());
                let expected = Error::new(Code::ScaleNotFinite).at(64 + at as u64);
                assert_eq!(check_values(dtype, &broken, 64), Err(expected), "{dtype:?}");
            }
        }
    }
}

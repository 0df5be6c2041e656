//! `@sampling`: the publisher's generation defaults.

use crate::bytes::{Bound, bound, check_bounds, u32_at, u64_at};
use crate::error::{Code, Error};

/// Bytes of the record where it is not empty.
pub const LENGTH: usize = 80;
/// The only version.
pub const SAMPLING_VERSION: u32 = 1;
/// Position of `present`.
pub const PRESENT: usize = 4;
/// Position of `do_sample`.
pub const DO_SAMPLE: usize = 8;
/// Position of `top_k`.
pub const TOP_K: usize = 12;
/// Position of `temperature`, the first of seven f64.
pub const TEMPERATURE: usize = 16;
/// Position of `max_new_tokens`.
pub const MAX_NEW_TOKENS: usize = 72;
/// Position of the reserved word.
pub const RESERVED: usize = 76;

/// The defaults; `None` where the publisher states nothing.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[allow(missing_docs)]
pub struct SamplingDefaults {
    pub do_sample: Option<bool>,
    /// 0: off.
    pub top_k: Option<u32>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub min_p: Option<f64>,
    pub typical_p: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub max_new_tokens: Option<u32>,
}

impl SamplingDefaults {
    /// What a checked record states. An empty record states nothing.
    pub(super) fn of(record: &[u8]) -> Self {
        let present = u32_at(record, PRESENT);
        let word = |bit: u32, at: usize| (present >> bit & 1 != 0).then(|| u32_at(record, at));
        let float = |at: usize| {
            let has = present >> at.saturating_add(2) & 1 != 0;
            has.then(|| f64::from_bits(u64_at(record, at.saturating_mul(8).saturating_add(TEMPERATURE))))
        };
        Self {
            do_sample: word(0, DO_SAMPLE).map(|word| word == 1),
            top_k: word(1, TOP_K),
            temperature: float(0),
            top_p: float(1),
            min_p: float(2),
            typical_p: float(3),
            repetition_penalty: float(4),
            frequency_penalty: float(5),
            presence_penalty: float(6),
            max_new_tokens: word(9, MAX_NEW_TOKENS),
        }
    }

    /// The bytes of the record.
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        let floats = [
            self.temperature,
            self.top_p,
            self.min_p,
            self.typical_p,
            self.repetition_penalty,
            self.frequency_penalty,
            self.presence_penalty,
        ];
        let has = [self.do_sample.is_some(), self.top_k.is_some()]
            .into_iter()
            .chain(floats.iter().map(Option::is_some))
            .chain([self.max_new_tokens.is_some()]);
        let present = has.zip(0u32..).fold(0u32, |bits, (has, bit)| bits | u32::from(has) << bit);
        let mut put = |at: usize, bytes: &[u8]| {
            for (to, from) in out.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        put(0, &SAMPLING_VERSION.to_le_bytes());
        put(PRESENT, &present.to_le_bytes());
        put(DO_SAMPLE, &u32::from(self.do_sample.unwrap_or(false)).to_le_bytes());
        put(TOP_K, &self.top_k.unwrap_or(0).to_le_bytes());
        for (at, float) in (TEMPERATURE..).step_by(8).zip(floats) {
            put(at, &float.unwrap_or(0.0).to_le_bytes());
        }
        put(MAX_NEW_TOKENS, &self.max_new_tokens.unwrap_or(0).to_le_bytes());
        out
    }
}

/// Checks the record, which stands at `base` in the file.
///
/// # Errors
/// The first rule that does not hold, with its offset.
#[inline(never)]
pub(super) fn check(record: &[u8], base: u64) -> Result<(), Error> {
    let fail = |code, field: usize| Err(Error::new(code).at(base.saturating_add(field as u64)));
    if record.is_empty() {
        return Ok(());
    }
    if record.len() != LENGTH {
        return fail(Code::SamplingLength, record.len());
    }
    check_bounds(record, base, &BOUNDS)?;
    let present = u32_at(record, PRESENT);
    // A bit per field. From the third on they have eight bytes each; the reserved word belongs to the last.
    for bit in 0..10 {
        let field = if bit < 2 { DO_SAMPLE | bit << 2 } else { bit << 3 };
        let value = if bit < 2 { u64::from(u32_at(record, field)) } else { u64_at(record, field) };
        if value != 0 && (present >> bit & 1 == 0 || !f64::from_bits(value).is_finite()) {
            return fail(Code::SamplingValue, field);
        }
    }
    Ok(())
}

const BOUNDS: [Bound; 4] = [
    bound(0, SAMPLING_VERSION, SAMPLING_VERSION, Code::SamplingVersion),
    bound(PRESENT, 0, (1 << 10) - 1, Code::SamplingPresent),
    bound(DO_SAMPLE, 0, 1, Code::SamplingValue),
    bound(RESERVED, 0, 0, Code::SamplingReserved),
];

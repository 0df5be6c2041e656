//! The records in which a host states sampling and stops (`SPEC.md` section 10.5 and 10.4).

use tinyrustlm_core::error::{Code, Error};
use tinyrustlm_core::sampler::{OnAllMasked, PrngKind, SamplerConfig, StageOrder};
use tinyrustlm_core::session::{Limits, LoopRule};

/// Bytes of the sampling record.
pub const LENGTH: usize = 96;

const PENALISE_SPECIAL: u32 = 1;
const TEMPERATURE_LAST: u32 = 2;
const PCG32: u32 = 4;
const FORCE_EOS: u32 = 8;
const IGNORE_EOS: u32 = 16;
const INCLUDE_STOP: u32 = 32;
const PARSE_SPECIALS: u32 = 64;
const SHOW_SPECIAL: u32 = 128;

/// How the next generations sample and end.
#[derive(Clone, Copy)]
pub struct Profile {
    /// Sampling.
    pub sampler: SamplerConfig,
    /// What ends a generation; `max_new_tokens` is that of the call.
    pub limits: Limits,
    /// A completed stop string is shown.
    pub include_stop: bool,
    /// Special tokens are also found in what people wrote, as the reference does.
    pub parse_specials: bool,
}

impl Profile {
    /// Greedy, with nothing else.
    pub const GREEDY: Self =
        Self { sampler: SamplerConfig::GREEDY, limits: Limits::DEFAULT, include_stop: false, parse_specials: false };

    /// Reads the record.
    ///
    /// # Errors
    /// `InvalidLength` for another length, an unknown flag or a reserved byte that is not 0; the field out of range.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = Error::new(Code::InvalidLength);
        let record: &[u8; LENGTH] = bytes.try_into().map_err(|_| wrong)?;
        let (doubles, _) = record.as_chunks::<8>();
        let (words, _) = record.as_chunks::<4>();
        let double = |index: usize| doubles.get(index).map_or(0.0, |field| f64::from_le_bytes(*field));
        let word = |index: usize| words.get(index).map_or(0, |field| u32::from_le_bytes(*field));
        let flags = word(19);
        let flag = |bit: u32| flags & bit != 0;
        if flags >= 2 * SHOW_SPECIAL || word(23) != 0 {
            return Err(wrong);
        }
        let sampler = SamplerConfig {
            temperature: double(0),
            top_p: double(1),
            min_p: double(2),
            typical_p: double(3),
            repetition_penalty: double(4),
            frequency_penalty: double(5),
            presence_penalty: double(6),
            seed: double(7).to_bits(),
            top_k: word(16),
            stream: word(17),
            penalise_special: flag(PENALISE_SPECIAL),
            order: if flag(TEMPERATURE_LAST) { StageOrder::TemperatureLast } else { StageOrder::TemperatureFirst },
            prng: if flag(PCG32) { PrngKind::Pcg32 } else { PrngKind::Philox },
            on_all_masked: if flag(FORCE_EOS) { OnAllMasked::ForceEos } else { OnAllMasked::Fail },
        };
        sampler.validate()?;
        let rule = LoopRule { max_period: word(20), repetitions: word(21) };
        let limits = Limits {
            min_new_tokens: word(18),
            ignore_eos: flag(IGNORE_EOS),
            show_special: flag(SHOW_SPECIAL),
            loops: (rule.max_period > 0).then_some(rule),
            logprobs: word(22),
            ..Limits::DEFAULT
        };
        Ok(Self { sampler, limits, include_stop: flag(INCLUDE_STOP), parse_specials: flag(PARSE_SPECIALS) })
    }
}

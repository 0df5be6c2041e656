//! What a sampling profile says, its limits and the presets.

use crate::error::{Code, Error};
use crate::limits::MAX_CANDIDATES;
use crate::model::SamplingDefaults;

/// Largest magnitude of a penalty, a temperature or a bias. Keeps every score a finite f64.
pub const MAX_FACTOR: f64 = 1e6;

/// Where temperature stands among the stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StageOrder {
    /// Before truncation, as the reference framework does it.
    TemperatureFirst,
    /// After truncation, before the final renormalisation.
    TemperatureLast,
}

/// The generator of uniform draws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrngKind {
    /// Philox-4x32-10, addressed by seed, stream, turn, step and draw.
    Philox,
    /// PCG32 (XSH-RR 64/32), one sequence per seed, stream and turn.
    Pcg32,
}

/// What happens when no token may be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnAllMasked {
    /// [`Code::AllTokensMasked`].
    Fail,
    /// The lowest end-of-sequence id is chosen; without one it is an error all the same.
    ForceEos,
}

/// A sampling profile. [`SamplerConfig::validate`] states the range of each field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SamplerConfig {
    /// 0 is greedy; else the scores are divided by it.
    pub temperature: f64,
    /// Candidates kept by rank; 0 is off.
    pub top_k: u32,
    /// Nucleus mass; 1 is off.
    pub top_p: f64,
    /// Least probability relative to the best; 0 is off.
    pub min_p: f64,
    /// Mass of the locally typical set; 1 is off.
    pub typical_p: f64,
    /// Divides positive and multiplies negative scores of every token of the transcript; 1 is off.
    pub repetition_penalty: f64,
    /// Subtracted once per generated occurrence; 0 is off.
    pub frequency_penalty: f64,
    /// Subtracted once from every generated token; 0 is off.
    pub presence_penalty: f64,
    /// Whether penalties also apply to special tokens, as the reference framework has it.
    pub penalise_special: bool,
    /// Where temperature stands.
    pub order: StageOrder,
    /// The generator.
    pub prng: PrngKind,
    /// Key of the generator.
    pub seed: u64,
    /// Independent stream under the same seed.
    pub stream: u32,
    /// Policy for a step without any allowed token.
    pub on_all_masked: OnAllMasked,
}

impl SamplerConfig {
    /// Always the best token; nothing else switched on.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        typical_p: 1.0,
        repetition_penalty: 1.0,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        penalise_special: false,
        order: StageOrder::TemperatureFirst,
        prng: PrngKind::Philox,
        seed: 0,
        stream: 0,
        on_all_masked: OnAllMasked::Fail,
    };

    /// Checks every field: temperature 0 to 10^6, top_k 0 to 1,024, top_p and min_p 0 to 1, typical_p above 0 to 1,
    /// repetition penalty above 0 to 10^6, the other penalties within 10^6 of 0.
    ///
    /// # Errors
    /// The first field out of range, each with a number of its own. NaN is out of every range.
    pub fn validate(&self) -> Result<(), Error> {
        let within = |value: f64, low: f64, high: f64| low <= value && value <= high;
        let factor = |value: f64| value > 0.0 && value <= MAX_FACTOR;
        Err(Error::new(match () {
            () if !within(self.temperature, 0.0, MAX_FACTOR) => Code::InvalidTemperature,
            () if self.top_k as usize > MAX_CANDIDATES => Code::InvalidTopK,
            () if !within(self.top_p, 0.0, 1.0) => Code::InvalidTopP,
            () if !within(self.min_p, 0.0, 1.0) => Code::InvalidMinP,
            () if !(self.typical_p > 0.0 && self.typical_p <= 1.0) => Code::InvalidTypicalP,
            () if !factor(self.repetition_penalty) => Code::InvalidRepetitionPenalty,
            () if !within(self.frequency_penalty, -MAX_FACTOR, MAX_FACTOR) => Code::InvalidFrequencyPenalty,
            () if !within(self.presence_penalty, -MAX_FACTOR, MAX_FACTOR) => Code::InvalidPresencePenalty,
            () => return Ok(()),
        }))
    }

    /// The publisher's profile: sampling where the defaults say so, with temperature 1 and top-k 50 (the reference's own
    /// defaults) for what they leave open; else greedy. Penalties count in either case.
    pub fn of_publisher(defaults: &SamplingDefaults) -> Self {
        let penalised = Self {
            repetition_penalty: defaults.repetition_penalty.unwrap_or(1.0),
            frequency_penalty: defaults.frequency_penalty.unwrap_or(0.0),
            presence_penalty: defaults.presence_penalty.unwrap_or(0.0),
            ..Self::GREEDY
        };
        if defaults.do_sample != Some(true) {
            return penalised;
        }
        Self {
            temperature: defaults.temperature.unwrap_or(1.0),
            top_k: defaults.top_k.unwrap_or(50),
            top_p: defaults.top_p.unwrap_or(1.0),
            min_p: defaults.min_p.unwrap_or(0.0),
            typical_p: defaults.typical_p.unwrap_or(1.0),
            ..penalised
        }
    }

    /// Whether any penalty changes a score.
    pub(super) fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0
    }
}

/// Named profiles for common uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// Conversation: varied, but close to the likely.
    Chat,
    /// Questions with one right answer.
    Precise,
    /// Stories and ideas.
    Creative,
    /// Programs.
    Code,
    /// Near-greedy, for output that a parser reads. It constrains nothing: valid JSON needs a token mask.
    Json,
}

impl Preset {
    /// Every preset with the name users give.
    pub const ALL: [(&'static str, Preset); 5] = [
        ("chat", Preset::Chat),
        ("precise", Preset::Precise),
        ("creative", Preset::Creative),
        ("code", Preset::Code),
        ("json", Preset::Json),
    ];

    /// The preset of a name.
    ///
    /// # Errors
    /// [`Code::UnknownPreset`].
    pub fn named(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, preset)| *preset).ok_or_else(|| Error::new(Code::UnknownPreset))
    }

    /// The profile and its limit of new tokens. Seed, stream, order and generator stay at their defaults.
    pub const fn profile(self) -> (SamplerConfig, u32) {
        let base = SamplerConfig::GREEDY;
        match self {
            Preset::Chat => {
                let config = SamplerConfig {
                    temperature: 0.7,
                    top_k: 40,
                    top_p: 0.9,
                    min_p: 0.05,
                    repetition_penalty: 1.05,
                    ..base
                };
                (config, 512)
            }
            Preset::Precise => {
                (SamplerConfig { temperature: 0.2, top_k: 20, top_p: 0.9, repetition_penalty: 1.05, ..base }, 512)
            }
            Preset::Creative => {
                let config = SamplerConfig {
                    temperature: 0.9,
                    top_k: 80,
                    top_p: 0.95,
                    min_p: 0.03,
                    typical_p: 0.95,
                    repetition_penalty: 1.03,
                    frequency_penalty: 0.1,
                    presence_penalty: 0.2,
                    ..base
                };
                (config, 1024)
            }
            Preset::Code => {
                (SamplerConfig { temperature: 0.2, top_k: 50, top_p: 0.95, repetition_penalty: 1.03, ..base }, 1024)
            }
            Preset::Json => (SamplerConfig { temperature: 0.1, top_k: 10, repetition_penalty: 1.01, ..base }, 512),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_its_own_error() {
        let bad = [
            (SamplerConfig { temperature: -1.0, ..SamplerConfig::GREEDY }, Code::InvalidTemperature),
            (SamplerConfig { temperature: f64::NAN, ..SamplerConfig::GREEDY }, Code::InvalidTemperature),
            (SamplerConfig { temperature: f64::INFINITY, ..SamplerConfig::GREEDY }, Code::InvalidTemperature),
            (SamplerConfig { top_k: 1025, ..SamplerConfig::GREEDY }, Code::InvalidTopK),
            (SamplerConfig { top_p: 1.5, ..SamplerConfig::GREEDY }, Code::InvalidTopP),
            (SamplerConfig { min_p: -0.1, ..SamplerConfig::GREEDY }, Code::InvalidMinP),
            (SamplerConfig { typical_p: 0.0, ..SamplerConfig::GREEDY }, Code::InvalidTypicalP),
            (SamplerConfig { repetition_penalty: 0.0, ..SamplerConfig::GREEDY }, Code::InvalidRepetitionPenalty),
            (SamplerConfig { frequency_penalty: 2e6, ..SamplerConfig::GREEDY }, Code::InvalidFrequencyPenalty),
            (SamplerConfig { presence_penalty: f64::NAN, ..SamplerConfig::GREEDY }, Code::InvalidPresencePenalty),
        ];
        for (config, code) in bad {
            assert_eq!(config.validate().unwrap_err().code(), code);
        }
    }

    #[test]
    fn presets_are_valid() {
        for (name, preset) in Preset::ALL {
            assert!(preset.profile().0.validate().is_ok(), "{name}");
        }
    }
}

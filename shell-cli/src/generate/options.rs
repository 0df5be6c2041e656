//! The options of sampling and stopping, and the profile they make.

use crate::failure::{Failure, Kind};
use crate::kv_cache::KvCacheArgs;
use crate::pages::PagesArgs;
use tinyrustlm::core::kernels::Isa;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::sampler::{Bias, OnAllMasked, Preset, PrngKind, SamplerConfig, StageOrder};
use tinyrustlm::core::session::{Limits, LoopRule};
use tinyrustlm::{Threads, describe, detect};

/// Which defaults apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Completion of a text: greedy unless the model's publisher samples, 256 tokens.
    Run,
    /// Conversation: preset chat unless the model's publisher samples, 512 tokens.
    Chat,
}

/// Options of sampling and stopping.
#[derive(clap::Args, Clone, Debug)]
pub struct SamplingArgs {
    /// Most new tokens [default: 256 for run, 512 for chat, or the preset's].
    #[arg(short = 'n', long = "max-tokens")]
    pub max_tokens: Option<u32>,
    /// Fewest new tokens: end tokens are banned before.
    #[arg(long, default_value_t = 0)]
    pub min_tokens: u32,
    /// A named profile: chat, precise, creative, code or json. Further options override it.
    #[arg(long)]
    pub preset: Option<String>,
    /// 0 is greedy.
    #[arg(long, allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// Keep so many candidates, at most 1024; 0 is off.
    #[arg(long)]
    pub top_k: Option<u32>,
    /// Keep the best candidates up to this mass; 1 is off.
    #[arg(long, allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// Keep candidates at least this probable relative to the best; 0 is off.
    #[arg(long, allow_negative_numbers = true)]
    pub min_p: Option<f64>,
    /// Keep the most typical candidates up to this mass; 1 is off.
    #[arg(long, allow_negative_numbers = true)]
    pub typical_p: Option<f64>,
    /// Factor against tokens of the transcript; 1 is off.
    #[arg(long, allow_negative_numbers = true)]
    pub repetition_penalty: Option<f64>,
    /// Subtracted per generated occurrence; 0 is off.
    #[arg(long, allow_negative_numbers = true)]
    pub frequency_penalty: Option<f64>,
    /// Subtracted from every generated token; 0 is off.
    #[arg(long, allow_negative_numbers = true)]
    pub presence_penalty: Option<f64>,
    /// Penalties also apply to special tokens.
    #[arg(long)]
    pub penalise_special: bool,
    /// Seed of the draws: the same seed and options give the same tokens on every machine.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Independent stream of draws under the same seed.
    #[arg(long, default_value_t = 0)]
    pub stream: u32,
    /// Generator of the draws.
    #[arg(long, value_enum, default_value_t = Prng::Philox)]
    pub prng: Prng,
    /// Whether temperature comes before or after truncation.
    #[arg(long, value_enum, default_value_t = Order::TemperatureFirst)]
    pub order: Order,
    /// When no token may be chosen, end instead of failing.
    #[arg(long)]
    pub force_eos: bool,
    /// End at this text, which is not shown. May be given several times.
    #[arg(long)]
    pub stop: Vec<String>,
    /// End at this token. May be given several times.
    #[arg(long)]
    pub stop_id: Vec<u32>,
    /// Show a completed stop text.
    #[arg(long)]
    pub include_stop: bool,
    /// The model's end tokens do not end generation.
    #[arg(long)]
    pub ignore_eos: bool,
    /// End when the last PERIOD tokens or fewer stand COUNT times in a row, e.g. 16:4.
    #[arg(long, value_name = "PERIOD:COUNT", value_parser = parse_loop)]
    pub stop_loops: Option<LoopRule>,
    /// Report so many log-probabilities per token (with --json, at most 32).
    #[arg(long, default_value_t = 0)]
    pub logprobs: u32,
    /// Show how each token was chosen: a table of so many candidates on stderr, or `steps` with --json.
    #[arg(long, value_name = "ROWS", num_args = 0..=1, default_value_t = 0, default_missing_value = "8")]
    pub explain: usize,
    /// Add VALUE to the logit of token ID; -inf bans it. May be given several times.
    #[arg(long, value_name = "ID=VALUE", value_parser = parse_bias)]
    pub bias: Vec<Bias>,
    /// Positions to plan memory for [default: the model's, at most 2048].
    #[arg(long)]
    pub context: Option<usize>,
    /// How keys and values are kept.
    #[command(flatten)]
    pub kv_cache: KvCacheArgs,
    /// Special tokens are shown, and nothing is added to the output.
    #[arg(long)]
    pub raw: bool,
    /// Threads [default: as many as cores]. The result is the same.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Use portable code only. The result is the same.
    #[arg(long)]
    pub scalar: bool,
    /// How the model comes into memory.
    #[command(flatten)]
    pub pages: PagesArgs,
}

/// Generators.
#[derive(Clone, Copy, clap::ValueEnum, Debug)]
pub enum Prng {
    /// Philox-4x32-10.
    Philox,
    /// PCG32.
    Pcg32,
}

/// Places of temperature.
#[derive(Clone, Copy, clap::ValueEnum, Debug)]
pub enum Order {
    /// Before truncation.
    TemperatureFirst,
    /// After truncation.
    TemperatureLast,
}

fn parse_loop(text: &str) -> Result<LoopRule, String> {
    let parsed = text.split_once(':').and_then(|(p, c)| Some((p.parse().ok()?, c.parse().ok()?)));
    let (max_period, repetitions) = parsed.ok_or("two numbers with a colon between them")?;
    Ok(LoopRule { max_period, repetitions })
}

fn parse_bias(text: &str) -> Result<Bias, String> {
    let parsed = text.split_once('=').and_then(|(id, value)| Some((id.parse().ok()?, value.parse().ok()?)));
    let (id, value) = parsed.ok_or("a token id, an equals sign and a number")?;
    Ok(Bias { id, value })
}

impl SamplingArgs {
    /// The instruction set.
    pub fn isa(&self) -> Isa {
        if self.scalar { Isa::Scalar } else { detect() }
    }

    /// The threads that compute.
    ///
    /// # Errors
    /// What the system says.
    pub fn workers(&self) -> Result<Threads, Failure> {
        Ok(Threads::new(self.threads.unwrap_or_else(Threads::default_count))?)
    }

    /// The profile and the limits: the preset or else the publisher's defaults, then every option given.
    ///
    /// # Errors
    /// An unknown preset or a value out of range.
    pub fn resolve(&self, model: &Model<'_>, purpose: Purpose) -> Result<(SamplerConfig, Limits), Failure> {
        let usage = |e| Failure::new(Kind::Usage, describe(e, None));
        let preset = self.preset.as_deref().map(Preset::named).transpose().map_err(|_| {
            let names: Vec<&str> = Preset::ALL.iter().map(|(name, _)| *name).collect();
            Failure::new(Kind::Usage, format!("no such preset; there are {}", names.join(", ")))
        })?;
        let publisher = SamplerConfig::of_publisher(&model.sampling());
        let samples = publisher.temperature > 0.0;
        let (mut config, usual) = match (preset, purpose) {
            (Some(preset), _) => preset.profile(),
            (None, Purpose::Run) => (publisher, 256),
            (None, Purpose::Chat) if samples => (publisher, 512),
            (None, Purpose::Chat) => Preset::Chat.profile(),
        };
        let truncates =
            self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some() || self.typical_p.is_some();
        if truncates && config.temperature == 0.0 {
            config.temperature = model.sampling().temperature.filter(|&t| t > 0.0).unwrap_or(1.0);
        }
        config.temperature = self.temperature.unwrap_or(config.temperature);
        config.top_k = self.top_k.unwrap_or(config.top_k);
        config.top_p = self.top_p.unwrap_or(config.top_p);
        config.min_p = self.min_p.unwrap_or(config.min_p);
        config.typical_p = self.typical_p.unwrap_or(config.typical_p);
        config.repetition_penalty = self.repetition_penalty.unwrap_or(config.repetition_penalty);
        config.frequency_penalty = self.frequency_penalty.unwrap_or(config.frequency_penalty);
        config.presence_penalty = self.presence_penalty.unwrap_or(config.presence_penalty);
        config.penalise_special = self.penalise_special;
        config.seed = self.seed;
        config.stream = self.stream;
        config.prng = match self.prng {
            Prng::Philox => PrngKind::Philox,
            Prng::Pcg32 => PrngKind::Pcg32,
        };
        config.order = match self.order {
            Order::TemperatureFirst => StageOrder::TemperatureFirst,
            Order::TemperatureLast => StageOrder::TemperatureLast,
        };
        if self.force_eos {
            config.on_all_masked = OnAllMasked::ForceEos;
        }
        config.validate().map_err(usage)?;
        let limits = Limits {
            max_new_tokens: self.max_tokens.unwrap_or(usual),
            min_new_tokens: self.min_tokens,
            ignore_eos: self.ignore_eos,
            show_special: self.raw,
            continues: purpose == Purpose::Run,
            loops: self.stop_loops,
            logprobs: self.logprobs,
        };
        Ok((config, limits))
    }
}

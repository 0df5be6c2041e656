//! How keys and values are kept.

use tinyrustlm::core::kv_cache::KvType;

/// The option of every command that computes.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct KvCacheArgs {
    /// How keys and values are kept. q8_0 takes little more than a quarter of the memory and is faster at long contexts, but
    /// its results are not those of the reference.
    #[arg(long = "kv-cache", value_name = "TYPE", value_parser = parse, default_value = "f32")]
    pub kv_type: KvType,
}

/// The type of that name.
///
/// # Errors
/// The names there are.
pub fn parse(text: &str) -> Result<KvType, String> {
    KvType::named(text).ok_or_else(|| format!("one of {}", KvType::ALL.map(KvType::name).join(", ")))
}

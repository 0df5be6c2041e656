//! Every fixed capacity, with its unit and its reason.

/// Alignment of every payload in a file and of every region in memory, in bytes.
pub const ALIGN: usize = 64;

/// Candidates the sampler keeps of one vocabulary.
pub const MAX_CANDIDATES: usize = 1024;

/// Default ceiling of one model transfer, in bytes. A host may raise it explicitly.
pub const MAX_MODEL_BYTES: u64 = 134_217_728;

/// Steps one rendering of a template may take. An ordinary conversation takes some ten thousand.
pub const TEMPLATE_STEPS: u32 = 1 << 24;

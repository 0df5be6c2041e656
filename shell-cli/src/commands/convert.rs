//! `slm convert`: a published checkpoint to a `.slm` file.

use crate::convert::blocks::Dtype;
use crate::convert::{Options, Quant, convert, default_output};
use crate::failure::Failure;
use std::path::PathBuf;

/// Arguments of `slm convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slm convert SmolLM2-135M-Instruct -o smollm2.slm
  slm convert SmolLM2-135M-Instruct -o smollm2-q8.slm --quant q8_0
  slm convert SmolLM2-135M-Instruct -o smollm2-exact.slm --quant exact
  slm convert model/ -o model.slm --override eos_token_id=2 --receipt receipt.json

Exit codes: 0 done, 1 a check failed, 2 usage, 3 the publisher's files contradict each other, 4 cannot be run exactly,
5 damaged input, 6 reading or writing failed. A conversion that fails leaves no output file.")]
pub struct Args {
    /// Hugging Face folder (config.json, tokenizer.json, safetensors weights), GGUF file or llama2.c checkpoint (.bin)
    source: PathBuf,
    /// The file to write [default: the source's name with .slm, in the current folder].
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// How matrices are stored. auto: the grid the weights lie on where there is one, else q8_0. exact: every value as it
    /// is, in the fewest bytes: the source's own codes, bf16 where it holds all of a matrix, else f32. bf16 gives the bits
    /// of f32 in half the bytes, and is refused where it does not hold a weight. Norms and biases stay f32; embedding and
    /// head stay q8_0 under q4_0 and q4_1.
    #[arg(long, value_name = "DTYPE", default_value = "auto", value_parser = parse_quant)]
    quant: Quant,
    /// Lower the context the file admits.
    #[arg(long, value_name = "N")]
    context: Option<u32>,
    /// Settle a contradiction, or replace a field of config.json. The message that stops a conversion names the key.
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Write a machine-readable receipt of the conversion, or of the contradictions that stopped it.
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Do not measure how far lossy dtypes move the model on 64 built-in prompts; scales are then rounded plainly.
    #[arg(long)]
    no_drift: bool,
    /// Measure on this text, a prompt per line, instead of the built-in prompts.
    #[arg(long, value_name = "FILE", conflicts_with = "no_drift")]
    calibration: Option<PathBuf>,
    /// dtype of the matrices whose name matches, e.g. 'layers.*.w2.weight=f32'; the first match wins.
    #[arg(long, value_name = "PATTERN=DTYPE")]
    tensor_type: Vec<String>,
    /// Largest file, in bytes. Matrices off any grid get the dtypes that lose least within it.
    #[arg(long, value_name = "N")]
    target_bytes: Option<u64>,
    /// Fail with exit code 1, leaving no file, unless the file meets this band: q8, q6, q5 or q4.
    #[arg(long, value_name = "BAND")]
    require_band: Option<String>,
}

fn parse_quant(text: &str) -> Result<Quant, String> {
    match text {
        "auto" => Ok(Quant::Auto),
        "exact" => Ok(Quant::Exact),
        _ => Dtype::from_name(text)
            .map(Quant::All)
            .ok_or_else(|| format!("use auto, exact or one of {}", Dtype::ALL.map(Dtype::name).join(", "))),
    }
}

/// Converts and says what came of it and what to type next.
pub fn run(args: Args) -> Result<(), Failure> {
    let output = args.output.unwrap_or_else(|| default_output(&args.source));
    let options = Options {
        source: args.source,
        output: output.clone(),
        quant: args.quant,
        context: args.context,
        overrides: args.overrides,
        receipt: args.receipt,
        drift: !args.no_drift,
        calibration: args.calibration,
        tensor_types: args.tensor_type,
        target_bytes: args.target_bytes,
        require_band: args.require_band,
    };
    let summary = convert(&options, &mut |line| eprintln!("{line}"))?;
    eprintln!("wrote     {} bytes, sha256 {}", summary.bytes, summary.sha256);
    eprintln!("next      slm run {} -p \"The capital of France is\"", output.display());
    Ok(())
}

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
  slm convert model/ -o model.slm --override eos_token_id=2 --receipt receipt.json

Exit codes: 0 done, 1 a check failed, 2 usage, 3 the publisher's files contradict each other, 4 cannot be run exactly,
5 damaged input, 6 reading or writing failed. A conversion that fails leaves no output file.")]
pub struct Args {
    /// Hugging Face folder with config.json, tokenizer.json and safetensors weights.
    source: PathBuf,
    /// The file to write [default: the source's name with .slm, in the current folder].
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// How matrices are stored. auto: the grid the weights lie on where there is one, else q8_0. Norms and biases stay
    /// f32; embedding and head stay q8_0 under q4_0 and q4_1.
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
}

fn parse_quant(text: &str) -> Result<Quant, String> {
    match text {
        "auto" => Ok(Quant::Auto),
        _ => Dtype::from_name(text).map(Quant::All).ok_or_else(|| "use auto, f32, q8_0, q4_0 or q4_1".into()),
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
    };
    let summary = convert(&options, &mut |line| eprintln!("{line}"))?;
    eprintln!("wrote     {} bytes, sha256 {}", summary.bytes, summary.sha256);
    eprintln!("next      slm run {} -p \"The capital of France is\"", output.display());
    Ok(())
}

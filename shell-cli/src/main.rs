//! `slm`: convert, inspect, run and check compact language models.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use tinyrustlm_cli::commands;

#[derive(Parser)]
#[command(name = "slm", version, about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a .slm file from a published checkpoint.
    Convert(commands::convert::Args),
    /// Show what a .slm file holds and where it came from.
    Inspect(commands::inspect::Args),
    /// Complete a text.
    Run(commands::run::Args),
    /// Talk with a model.
    Chat(commands::chat::Args),
    /// Turn text into ids.
    Tokenize(commands::tokenize::Args),
    /// Turn ids into text.
    Detokenize(commands::detokenize::Args),
    /// Turn conversations into prompts, JSON lines in and out.
    Render(commands::render::Args),
    /// Print the logits of id lists, JSON lines in and out.
    Logits(commands::logits::Args),
    /// Time a model against what this machine's memory allows.
    Bench(commands::bench::Args),
    /// Print a file's size and check it against a budget.
    Size(commands::size::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Convert(args) => commands::convert::run(args),
        Command::Inspect(args) => commands::inspect::run(args),
        Command::Run(args) => commands::run::run(args),
        Command::Chat(args) => commands::chat::run(args),
        Command::Tokenize(args) => commands::tokenize::run(args),
        Command::Detokenize(args) => commands::detokenize::run(args),
        Command::Render(args) => commands::render::run(args),
        Command::Logits(args) => commands::logits::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Size(args) => commands::size::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

//! `slm run`: completes a text.

use crate::failure::{Failure, Kind};
use crate::generate::{Purpose, Room, SamplingArgs, encode, failure_json, generate, parse, table};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use tinyrustlm::core::kernels::Workers;
use tinyrustlm::core::{Code, Error};
use tinyrustlm::describe;

/// Arguments of `slm run`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    slm run model.slm -p \"The capital of France is\" -n 16\n  \
    slm run model.slm -p \"Once upon a time\" --preset creative --seed 7\n  \
    slm run model.slm --ids 1,2,3 --ignore-eos --json\n\n\
    The prompt is raw text, completed as it is; `slm chat` uses the model's template. Without sampling options the\n\
    model's own generation config decides, and greedy where it is silent. The answer goes to stdout, the rest to stderr.")]
pub struct Args {
    /// The model, a .slm file.
    model: Option<PathBuf>,
    /// The text to complete. `-` reads it from stdin.
    #[arg(short, long, required_unless_present = "ids", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// The prompt as token ids, in place of a text.
    #[arg(long, value_delimiter = ',', conflicts_with = "prompt")]
    ids: Option<Vec<u32>>,
    /// Do not put the tokenizer's own ids around the prompt.
    #[arg(long)]
    no_specials: bool,
    /// Print one object: text, ids, prompt_ids, stop_reason, diagnostics.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Completes the prompt.
pub fn run(args: Args) -> Result<(), Failure> {
    let Some(path) = args.model.as_deref() else {
        return Err(Failure::new(Kind::Usage, "no model: this program has none embedded; name a .slm file"));
    };
    let tokens = args.sampling.max_tokens.map_or(usize::MAX, |tokens| tokens as usize);
    let file = args.sampling.pages.open(path, tokens)?;
    let (model, tokenizer) = parse(&file, path)?;
    let (config, limits) = args.sampling.resolve(&model, Purpose::Run)?;
    let prompt = match (&args.ids, args.prompt.as_deref()) {
        (Some(ids), _) => ids.clone(),
        (None, Some("-")) => {
            let text = std::io::read_to_string(std::io::stdin())?;
            encode(&model, &tokenizer, &text, !args.no_specials).map_err(malformed)?
        }
        (None, text) => encode(&model, &tokenizer, text.unwrap_or_default(), !args.no_specials).map_err(malformed)?,
    };
    let workers = args.sampling.workers()?;
    let mut room = Room::new(&model, args.sampling.context, args.sampling.kv_cache.kv_type, workers.count())?;
    let mut generation = room.generation(&model, &tokenizer, &args.sampling, &config)?;

    let mut stdout = std::io::stdout().lock();
    let mut broken = None;
    let explain = args.sampling.explain;
    let result = generate(&mut generation, &workers, &prompt, 0, &limits, explain, |text| {
        if !args.json && broken.is_none() {
            broken = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).err();
        }
        broken.is_none()
    });
    if let Some(error) = broken {
        return Err(error.into());
    }
    match result {
        Ok(answer) if args.json => writeln!(stdout, "{}", answer.json())?,
        Ok(answer) => {
            if !args.sampling.raw {
                writeln!(stdout)?;
            }
            answer.steps.iter().filter(|_| explain > 0).for_each(|step| eprint!("{}", table(step)));
            if std::io::stderr().is_terminal() && !args.sampling.raw {
                eprintln!("{}", answer.summary());
            }
        }
        Err((error, answer)) => {
            if args.json {
                writeln!(stdout, "{}", failure_json(error, &answer))?;
            }
            return Err(explained(error, generation.session().context()));
        }
    }
    Ok(())
}

fn malformed(error: Error) -> Failure {
    Failure::new(Kind::Malformed, describe(error, None))
}

/// The failure of a generation, with what the user can do.
pub fn explained(error: Error, context: usize) -> Failure {
    match error.code() {
        Code::ContextExceeded => Failure::new(
            Kind::Usage,
            format!(
                "the prompt has {} tokens and {context} positions are planned: see --context",
                error.index().unwrap_or(0)
            ),
        ),
        Code::EmptyPrompt => Failure::new(Kind::Usage, "the prompt has no tokens"),
        Code::TokenRange | Code::InvalidMinimumLength | Code::InvalidLoopRule => {
            Failure::new(Kind::Usage, describe(error, None))
        }
        _ => malformed(error),
    }
}

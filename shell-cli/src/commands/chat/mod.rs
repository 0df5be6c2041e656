//! `slm chat`: a conversation through the model's template.

mod command;
mod dialogue;
mod interrupt;

use super::lines::{self, LineError};
use super::render::{Specials, clock, ids_of};
use crate::convert::provenance::sha256;
use crate::failure::{Failure, Kind};
use crate::generate::{Answer, Purpose, Room, SamplingArgs, failure_json, generate, parse};
use crate::template::{Renderer, Text};
use dialogue::Dialogue;
use serde_json::{Map, Value, json};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use tinyrustlm::core::kernels::Workers;
use tinyrustlm::core::session::{Generation, Limits};
use tinyrustlm::core::template::{Now, Template};
use tinyrustlm::core::tokenizer::Tokenizer;
use tinyrustlm::{Threads, describe};

/// Arguments of `slm chat`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    slm chat model.slm\n  \
    echo \"Why is the sky blue?\" | slm chat model.slm --system \"Answer in one sentence.\"\n  \
    echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | slm chat model.slm --json\n\n\
    Each line of the input is a message of the user or a command: /help lists them. The end of the input ends the\n\
    conversation. What the cache already holds is not computed again; when the context is full, the oldest turns are left\n\
    out, the system message never. A script (input not from a terminal) ends at the first line that fails.\n\n\
    With --json each line is a conversation of its own, {\"messages\":[..],\"tools\":[..]}, and each line of the output an\n\
    object as of `slm run --json`, with what the template made under `template`.")]
pub struct Args {
    /// The model, a .slm file with a template.
    model: Option<PathBuf>,
    /// The first message, as the system.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// One question instead of a conversation.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Conversations in, results out, one JSON object per line.
    #[arg(long)]
    json: bool,
    /// Whether text of messages that spells a special token becomes one.
    #[arg(long, value_enum, default_value_t = Specials::Data)]
    content_specials: Specials,
    /// Say after each reply what it took and why it ended, on stderr.
    #[arg(long)]
    stats: bool,
    /// The time the template sees, as 2026-01-15T12:00:00; without it, that of the machine in UTC.
    #[arg(long, value_name = "TIME", value_parser = super::render::parse_now)]
    now: Option<Now>,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// A turn that came to nothing.
enum Refused {
    Line(Value),
    Model(tinyrustlm::core::Error, Box<Answer>),
}

/// Conversations as objects.
struct Chat<'t, 'a, 'm> {
    template: &'t Template<'a>,
    renderer: Renderer,
    generation: Generation<'a, 'm>,
    workers: &'t Threads,
    limits: Limits,
    now: Option<Now>,
    specials: Specials,
    explain: usize,
}

impl Chat<'_, '_, '_> {
    /// Renders the conversation and generates the reply.
    fn reply(&mut self, conversation: &Value) -> Result<Answer, Refused> {
        let mut input = conversation.clone();
        if let Some(object) = input.as_object_mut() {
            object.entry("add_generation_prompt").or_insert(Value::Bool(true));
        }
        let rendered = self
            .renderer
            .render(self.template, &input.to_string(), self.now.unwrap_or_else(clock))
            .map_err(|refused| Refused::Line(LineError::from(refused).to_json()))?;
        let tokenizer = *self.generation.tokenizer();
        let ids = ids_of(&tokenizer, &rendered, self.specials).map_err(|e| Refused::Model(e, Box::default()))?;
        // Every line is a conversation of its own, so its draws are those of a first turn.
        let result = generate(&mut self.generation, self.workers, &ids, 0, &self.limits, self.explain, |_| true);
        let log = template_log(&tokenizer, &rendered, &ids, self.specials);
        match result {
            Ok(answer) => Ok(Answer { template: Some(log), ..answer }),
            Err((error, answer)) => Err(Refused::Model(error, Box::new(Answer { template: Some(log), ..*answer }))),
        }
    }
}

/// What the template made: text, hash, who wrote BOS and EOS, and the special tokens that stand in it.
fn template_log(tokenizer: &Tokenizer<'_>, rendered: &Text, ids: &[u32], specials: Specials) -> Value {
    let mut found: Vec<u32> = ids.iter().copied().filter(|&id| tokenizer.is_special(id)).collect();
    found.sort_unstable();
    found.dedup();
    let special = |&id: &u32| {
        let text = String::from_utf8_lossy(tokenizer.token_bytes(id));
        json!({ "id": id, "text": text, "count": ids.iter().filter(|&&other| other == id).count() })
    };
    json!({
        "rendered": String::from_utf8_lossy(&rendered.text),
        "sha256": sha256(&rendered.text),
        "writes_bos": rendered.has_bos,
        "writes_eos": rendered.has_eos,
        "content_specials": if specials == Specials::Data { "data" } else { "parse" },
        "special_tokens": found.iter().map(special).collect::<Vec<_>>(),
    })
}

/// Talks until the input ends.
pub fn run(args: Args) -> Result<(), Failure> {
    let Some(path) = args.model.as_deref() else {
        return Err(Failure::new(Kind::Usage, "no model: this program has none embedded; name a .slm file"));
    };
    let file = args.sampling.pages.open(path, usize::MAX)?;
    let (model, tokenizer) = parse(&file, path)?;
    let template = Template::parse(model.template_bytes())
        .map_err(|e| Failure::new(Kind::Malformed, format!("{}: {}", path.display(), describe(e, None))))?;
    if template.is_empty() {
        let message = "the model has no chat template: complete text with slm run instead";
        return Err(Failure::new(Kind::Unsupported, message));
    }
    let (config, limits) = args.sampling.resolve(&model, Purpose::Chat)?;
    let workers = args.sampling.workers()?;
    let mut room = Room::new(&model, args.sampling.context, args.sampling.kv_cache.kv_type, workers.count())?;
    let generation = room.generation(&model, &tokenizer, &args.sampling, &config)?;
    if !args.json {
        return Dialogue { template: &template, generation, workers: &workers, limits, args: &args }.run();
    }
    let mut chat = Chat {
        template: &template,
        renderer: Renderer::default(),
        generation,
        workers: &workers,
        limits,
        now: args.now,
        specials: args.content_specials,
        explain: args.sampling.explain,
    };
    converse_json(&mut chat)
}

fn converse_json(chat: &mut Chat<'_, '_, '_>) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = match lines::parse::<Map<String, Value>>(&line) {
            Err(error) => error.to_json(),
            Ok(conversation) => match chat.reply(&Value::Object(conversation)) {
                Ok(answer) => answer.json(),
                Err(Refused::Line(error)) => error,
                Err(Refused::Model(error, answer)) => failure_json(error, &answer),
            },
        };
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(())
}

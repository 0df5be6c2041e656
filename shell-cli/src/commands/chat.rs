//! `slm chat`: a conversation through the model's template.

use super::lines::{self, LineError};
use super::render::clock;
use super::run::explained;
use crate::failure::{Failure, Kind};
use crate::generate::{Answer, Purpose, Room, SamplingArgs, failure_json, generate, open, parse, table};
use crate::template::Renderer;
use serde_json::{Map, Value, json};
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use tinyrustlm::core::kernels::Workers;
use tinyrustlm::core::session::{Generation, Limits};
use tinyrustlm::core::template::{Now, Template};
use tinyrustlm::core::tokenizer::Encode;
use tinyrustlm::{Threads, describe};

/// Arguments of `slm chat`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    slm chat model.slm\n  \
    echo \"Why is the sky blue?\" | slm chat model.slm --system \"Answer in one sentence.\"\n  \
    echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | slm chat model.slm --json\n\n\
    Each line of the input is a message of the user; an empty line is skipped and the end of the input ends the\n\
    conversation. With --json each line is a conversation of its own, {\"messages\":[..],\"tools\":[..]}, and each line of\n\
    the output an object as of `slm run --json`. What the cache already holds is not computed again.")]
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
    #[arg(long, value_enum, default_value_t = Content::Data)]
    content_specials: Content,
    /// The time the template sees, as 2026-01-15T12:00:00; without it, that of the machine in UTC.
    #[arg(long, value_name = "TIME", value_parser = super::render::parse_now)]
    now: Option<Now>,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// What text of messages is.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
enum Content {
    /// Text and nothing else.
    Data,
    /// Parsed for special tokens, as the reference does it.
    Parse,
}

/// A turn that came to nothing.
enum Refused {
    Line(Value),
    Model(tinyrustlm::core::Error, Box<Answer>),
}

struct Chat<'t, 'a, 'm> {
    template: &'t Template<'a>,
    renderer: Renderer,
    generation: Generation<'a, 'm>,
    workers: &'t Threads,
    limits: Limits,
    now: Option<Now>,
    parse_content: bool,
    explain: usize,
    turn: u32,
}

impl Chat<'_, '_, '_> {
    /// Renders the conversation and generates the reply.
    fn reply(&mut self, conversation: &Value, show: impl FnMut(&str)) -> Result<Answer, Refused> {
        let mut input = conversation.clone();
        if let Some(object) = input.as_object_mut() {
            object.entry("add_generation_prompt").or_insert(Value::Bool(true));
        }
        let rendered = self
            .renderer
            .render(self.template, &input.to_string(), self.now.unwrap_or_else(clock))
            .map_err(|refused| Refused::Line(LineError::from(refused).to_json()))?;
        let content = (!self.parse_content).then_some(rendered.content.as_slice());
        let how = Encode { add_special_tokens: false, content };
        let tokenizer = *self.generation.tokenizer();
        let mut scratch = vec![0; tokenizer.scratch_words(rendered.text.len())];
        let mut ids = vec![0; tokenizer.max_ids(rendered.text.len())];
        let len = tokenizer
            .encode(&rendered.text, how, &mut scratch, &mut ids)
            .map_err(|e| Refused::Model(e, Box::default()))?;
        let turn = self.turn;
        self.turn += 1;
        generate(&mut self.generation, self.workers, &ids[..len], turn, &self.limits, self.explain, show)
            .map_err(|(error, answer)| Refused::Model(error, answer))
    }
}

/// Talks until the input ends.
pub fn run(args: Args) -> Result<(), Failure> {
    let Some(path) = args.model.as_deref() else {
        return Err(Failure::new(Kind::Usage, "no model: this program has none embedded; name a .slm file"));
    };
    let file = open(path)?;
    let (model, tokenizer) = parse(&file, path)?;
    let template = Template::parse(model.template_bytes())
        .map_err(|e| Failure::new(Kind::Malformed, format!("{}: {}", path.display(), describe(e, None))))?;
    if template.is_empty() {
        let message = "the model has no chat template: complete text with slm run instead";
        return Err(Failure::new(Kind::Unsupported, message));
    }
    let (config, limits) = args.sampling.resolve(&model, Purpose::Chat)?;
    let workers = args.sampling.workers()?;
    let mut room = Room::new(&model, args.sampling.context, workers.count())?;
    let generation = room.generation(&model, &tokenizer, &args.sampling, &config)?;
    let mut chat = Chat {
        template: &template,
        renderer: Renderer::default(),
        generation,
        workers: &workers,
        limits,
        now: args.now,
        parse_content: args.content_specials == Content::Parse,
        explain: args.sampling.explain,
        turn: 0,
    };
    if args.json { converse_json(&mut chat) } else { converse(&mut chat, &args) }
}

fn converse_json(chat: &mut Chat<'_, '_, '_>) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        // Every line is a conversation of its own, so its draws are those of a first turn.
        chat.turn = 0;
        let answer = match lines::parse::<Map<String, Value>>(&line) {
            Err(error) => error.to_json(),
            Ok(conversation) => match chat.reply(&Value::Object(conversation), |_| ()) {
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

fn converse(chat: &mut Chat<'_, '_, '_>, args: &Args) -> Result<(), Failure> {
    let mut messages: Vec<Value> = Vec::new();
    if let Some(text) = &args.system {
        messages.push(json!({ "role": "system", "content": text }));
    }
    let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && args.prompt.is_none();
    let mut questions: Box<dyn Iterator<Item = std::io::Result<String>>> = match &args.prompt {
        Some(text) => Box::new(std::iter::once(Ok(text.clone()))),
        None => Box::new(std::io::stdin().lock().lines()),
    };
    let mut stdout = std::io::stdout().lock();
    loop {
        if asks {
            eprint!("> ");
        }
        let Some(question) = questions.next() else { break };
        let question = question.map_err(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => Failure::new(Kind::Malformed, "the input is not UTF-8"),
            _ => e.into(),
        })?;
        if question.trim().is_empty() {
            continue;
        }
        messages.push(json!({ "role": "user", "content": question }));
        let mut broken = None;
        let reply = chat.reply(&json!({ "messages": messages }), |text| {
            if broken.is_none() {
                broken = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).err();
            }
        });
        if let Some(error) = broken {
            return Err(error.into());
        }
        match reply {
            Ok(answer) => {
                writeln!(stdout)?;
                answer.steps.iter().filter(|_| chat.explain > 0).for_each(|step| eprint!("{}", table(step)));
                if asks {
                    eprintln!("[{}]", answer.summary());
                }
                messages.push(json!({ "role": "assistant", "content": answer.text }));
            }
            Err(Refused::Line(error)) => {
                let message = error["error"]["message"].as_str().unwrap_or("the template refused").to_owned();
                return Err(Failure::new(Kind::Malformed, message));
            }
            Err(Refused::Model(error, _)) => return Err(explained(error, chat.generation.session().context())),
        }
    }
    if asks {
        eprintln!();
    }
    Ok(())
}

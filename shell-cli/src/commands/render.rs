//! `slm render`: conversations to prompts.

use super::lines::{self, LineError};
use crate::failure::{Failure, Kind};
use crate::template::{self, Refused, Renderer, Text};
use crate::tokenizer;
use serde_json::{Value, json};
use std::path::PathBuf;
use tinyrustlm_core::Error;
use tinyrustlm_core::template::{Now, bit};
use tinyrustlm_core::tokenizer::{Encode, Tokenizer};

/// Arguments of `slm render`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Reads JSON lines {\"messages\":[..],\"tools\":[..],\"documents\":[..],\"add_generation_prompt\":true,\"vars\":{..}}\n\
    and writes {\"text\":\"..\",\"ids\":[..]}; no ids without a model.\n\nExamples:\n  \
    echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":true}' | slm render model.slm\n  \
    slm render --template chat_template.jinja --now 2026-01-15T12:00:00 < lines.jsonl"
)]
pub struct Args {
    /// A `.slm` file or a Hugging Face folder.
    model: Option<PathBuf>,
    /// Compile this Jinja file and render with it instead of the model's template.
    #[arg(long, value_name = "FILE.jinja")]
    template: Option<PathBuf>,
    /// Of a folder with several templates, the one with this name.
    #[arg(long, value_name = "NAME")]
    template_name: Option<String>,
    /// The time `strftime_now` sees, as 2026-01-15T12:00:00; without it, that of the machine in UTC.
    #[arg(long, value_name = "TIME", value_parser = parse_now)]
    now: Option<Now>,
    /// Whether special tokens are found in what came from messages, tools and documents.
    #[arg(long, value_enum, default_value_t = Specials::Data)]
    content_specials: Specials,
    /// Show which parts of the text the template wrote and which came from the conversation, and the ids of each.
    #[arg(long)]
    explain: bool,
}

/// What becomes of text in a conversation that looks like a special token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Specials {
    /// It is text.
    Data,
    /// It is a special token, as in the reference.
    Parse,
}

/// Reads `YYYY-MM-DDTHH:MM:SS`.
pub fn parse_now(text: &str) -> Result<Now, String> {
    let bad = || "expected a time like 2026-01-15T12:00:00".to_owned();
    let numbers: Vec<u16> =
        text.split(['-', 'T', ' ', ':']).map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
    let [year, month, day, hour, minute, second] = numbers[..] else { return Err(bad()) };
    let within = (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !within || hour > 23 || minute > 59 || second > 59 {
        return Err(bad());
    }
    let small = |number: u16| number as u8;
    Ok(Now {
        year,
        month: small(month),
        day: small(day),
        hour: small(hour),
        minute: small(minute),
        second: small(second),
    })
}

/// The machine's time in UTC.
pub fn clock() -> Now {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days, with years that begin in March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + (month <= 2) as u64;
    Now {
        year: year as u16,
        month: month as u8,
        day: day as u8,
        hour: (rest / 3600) as u8,
        minute: (rest / 60 % 60) as u8,
        second: (rest % 60) as u8,
    }
}

impl From<Refused> for LineError {
    fn from(refused: Refused) -> Self {
        let (code, offset) = (refused.error.number(), refused.error.offset());
        Self { code, name: refused.name.to_owned(), message: refused.message, offset }
    }
}

/// The ids of a rendered text, which is encoded as one, without added tokens.
///
/// # Errors
/// Those of the tokenizer.
pub fn ids_of(tokenizer: &Tokenizer<'_>, rendered: &Text, specials: Specials) -> Result<Vec<u32>, Error> {
    let length = rendered.text.len();
    let mut scratch = vec![0; tokenizer.scratch_words(length)];
    let mut ids = vec![0; tokenizer.max_ids(length)];
    let content = (specials == Specials::Data).then_some(&rendered.content[..]);
    let how = Encode { add_special_tokens: false, content };
    let count = tokenizer.encode(&rendered.text, how, &mut scratch, &mut ids)?;
    ids.truncate(count);
    Ok(ids)
}

/// The text cut where its origin changes.
fn spans(rendered: &Text) -> Vec<Value> {
    let mut spans = Vec::new();
    let mut start = 0;
    for end in 1..=rendered.text.len() {
        let origin = bit(&rendered.content, start);
        // A character stays whole.
        let inside = rendered.text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80);
        if end == rendered.text.len() || !inside && bit(&rendered.content, end) != origin {
            let text = String::from_utf8_lossy(&rendered.text[start..end]);
            spans.push(json!({"origin": if origin { "content" } else { "template" }, "text": text, "start": start, "end": end}));
            start = end;
        }
    }
    spans
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let opened = match (&args.template, &args.model) {
        (Some(file), model) => template::open_file(file, model.as_deref())?,
        (None, Some(model)) => template::open(model, args.template_name.as_deref())?,
        (None, None) => return Err(Failure::new(Kind::Usage, "give a model or --template FILE.jinja")),
    };
    let template = opened.template()?;
    let tokens = args.model.as_deref().map(tokenizer::open).transpose()?;
    let tokenizer = tokens.as_ref().map(|opened| opened.tokenizer()).transpose()?;
    let now = args.now.unwrap_or_else(clock);
    let mut renderer = Renderer::default();
    lines::answer(|line| {
        let line = std::str::from_utf8(line).map_err(|error| Refused::invalid_utf8(error.valid_up_to()))?;
        let rendered = renderer.render(&template, line, now)?;
        let mut answer = json!({ "text": String::from_utf8_lossy(&rendered.text) });
        let ids =
            tokenizer.as_ref().map(|tokenizer| ids_of(tokenizer, &rendered, args.content_specials)).transpose()?;
        if let Some(ids) = &ids {
            answer["ids"] = json!(ids);
        }
        if args.explain {
            answer["spans"] = json!(spans(&rendered));
            answer["writes_bos"] = rendered.has_bos.into();
            answer["writes_eos"] = rendered.has_eos.into();
            if let (Some(ids), Some(tokenizer)) = (&ids, &tokenizer) {
                let token = |id: &u32| json!({"id": id, "text": String::from_utf8_lossy(tokenizer.token_bytes(*id)), "special": tokenizer.is_special(*id)});
                answer["tokens"] = ids.iter().map(token).collect();
            }
        }
        Ok(answer)
    })
}

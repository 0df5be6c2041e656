//! `slm render`: conversations to prompts.

use crate::failure::{Failure, Kind};
use crate::template::{self, Refused, Renderer};
use serde_json::{Map, Value, json};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use tinyrustlm_core::template::{Now, Template};

/// Renders conversations, JSON lines in and out.
///
/// In:  {"messages":[..],"tools":[..],"documents":[..],"add_generation_prompt":true,"vars":{..}}
/// Out: {"text":".."} or {"error":{..}}
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":true}' | slm render --template chat_template.jinja"
)]
pub struct Args {
    /// Compile this Jinja file and render with it.
    #[arg(long, value_name = "FILE.jinja")]
    template: Option<PathBuf>,
    /// The time `strftime_now` sees, as 2026-01-15T12:00:00; without it, that of the machine in UTC.
    #[arg(long, value_name = "TIME", value_parser = parse_now)]
    now: Option<Now>,
}

/// Reads `YYYY-MM-DDTHH:MM:SS`.
fn parse_now(text: &str) -> Result<Now, String> {
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

/// A refusal as it stands in a line of output.
pub fn error_json(refused: &Refused) -> Value {
    let mut error = json!({"code": refused.error.number(), "name": refused.name, "message": refused.message});
    if let (Some(offset), Some(object)) = (refused.error.offset, error.as_object_mut()) {
        object.insert("offset".to_owned(), Value::from(offset));
    }
    json!({ "error": error })
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let Some(path) = &args.template else {
        return Err(Failure::new(Kind::Usage, "give a model or --template FILE.jinja"));
    };
    let source = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Kind::Io, format!("{}: {error}", path.display())))?;
    let compiled = template::compile(&source, "", &Map::new())?;
    let template = Template::parse(&compiled.section).map_err(|error| Failure::new(Kind::Malformed, error))?;
    let now = args.now.unwrap_or_else(clock);
    let mut renderer = Renderer::default();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let rendered = match std::str::from_utf8(&line) {
            Ok(line) => renderer.render(&template, line, now),
            Err(error) => Err(Refused::invalid_utf8(error.valid_up_to())),
        };
        let answer = match rendered {
            Ok(done) => json!({ "text": String::from_utf8_lossy(&done.text) }),
            Err(refused) => error_json(&refused),
        };
        writeln!(out, "{answer}")?;
    }
    out.flush()?;
    Ok(())
}

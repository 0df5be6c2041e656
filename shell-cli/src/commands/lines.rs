//! JSON lines in, JSON lines out: a bad line gives an error object and the run goes on.

use crate::failure::Failure;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use tinyrustlm_core::{Code, Error};

/// Error of a tool, or of the core, for one line.
#[derive(Debug)]
pub struct LineError {
    /// Number; tools' own begin at 1000.
    pub code: u32,
    /// Name as in SPEC 11.
    pub name: String,
    /// For people.
    pub message: String,
    /// Offset in the line or the text, where there is one.
    pub offset: Option<u64>,
}

/// A line is not the JSON that was asked for.
const INVALID_JSON: u32 = 1000;

impl From<Error> for LineError {
    fn from(error: Error) -> Self {
        Self {
            code: error.number(),
            name: error.code().name().into(),
            message: error.to_string(),
            offset: error.offset(),
        }
    }
}

impl LineError {
    /// A line that is not the JSON asked for.
    pub fn json(message: impl Into<String>) -> Self {
        Self { code: INVALID_JSON, name: "InvalidJson".into(), message: message.into(), offset: None }
    }

    /// The error object.
    pub fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "name": self.name, "message": self.message});
        if let Some(offset) = self.offset {
            error["offset"] = offset.into();
        }
        json!({ "error": error })
    }
}

/// Reads one line.
///
/// # Errors
/// Error 3 with its offset for ill-formed UTF-8 and for a lone surrogate, error 1000 for anything else.
pub fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, LineError> {
    let text =
        std::str::from_utf8(line).map_err(|error| Error::new(Code::InvalidUtf8).at(error.valid_up_to() as u64))?;
    serde_json::from_str(text).map_err(|error| match lone_surrogate(text) {
        Some(at) => {
            let mut error: LineError = Error::new(Code::InvalidUtf8).at(at as u64).into();
            error.message = format!("lone surrogate at offset {at}");
            error
        }
        None => LineError::json(error.to_string()),
    })
}

/// Offset of the first `\uD800`-`\uDFFF` escape that is not half of a pair.
fn lone_surrogate(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let unit = |at: usize| -> Option<u32> {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => return Some(at),
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    None
}

/// Answers each line of standard input with one line. Lines end in `\n` alone; empty lines are passed over.
pub fn answer(mut work: impl FnMut(&[u8]) -> Result<Value, LineError>) -> Result<(), Failure> {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = work(line).unwrap_or_else(|error| error.to_json());
        let written = serde_json::to_writer(&mut output, &answer).map_err(std::io::Error::from);
        let written = written.and_then(|()| output.write_all(b"\n"));
        // An answer stands there before the next question is read, so that the command serves in a dialogue.
        if let Err(error) = written.and_then(|()| output.flush()) {
            return if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error.into()) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_are_found_where_they_stand() {
        assert_eq!(lone_surrogate(r#"{"text":"\ud83d\ude00"}"#), None);
        assert_eq!(lone_surrogate(r#"{"text":"a\ud83d"}"#), Some(10));
        assert_eq!(lone_surrogate(r#"{"text":"\\ud83d \udc00"}"#), Some(17));
    }
}

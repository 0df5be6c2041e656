//! Renders one conversation with a compiled template, in memory that grows as far as it must.

use super::line_and_column;
use serde_json::value::RawValue;
use std::collections::HashMap;
use tinyrustlm_core::template::{Now, Refusal, Template};
use tinyrustlm_core::{Code, Error};

/// Largest text a rendering may give, in bytes.
const MAX_OUTPUT: usize = 1 << 24;

/// A rendered conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    /// The text.
    pub text: Vec<u8>,
    /// One bit per byte, lowest first: set where the byte came from messages, tools or documents.
    pub content: Vec<u8>,
    /// The template wrote BOS in front.
    pub has_bos: bool,
    /// The template wrote EOS at the end.
    pub has_eos: bool,
}

/// Why there is no text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The condition.
    pub error: Error,
    /// Its name: the reference's name of an exception, or ours.
    pub name: &'static str,
    /// The template's own message, or ours.
    pub message: String,
}

impl Refused {
    /// A line that is not UTF-8 from this byte on.
    pub fn invalid_utf8(offset: usize) -> Self {
        let error = Error::new(Code::InvalidUtf8).at(offset as u64);
        let message = format!("the input is not UTF-8 at byte {offset}");
        Self { error, name: Code::InvalidUtf8.name(), message }
    }

    /// What a rendering of `template` came to; `spoken` is the template's own message, where it gave one.
    pub fn of(template: &Template<'_>, refusal: Refusal, spoken: &[u8]) -> Self {
        let (error, name) = (refusal.error, error_name(refusal.error.code()));
        let of_input = matches!(error.code(), Code::JsonSyntax | Code::JsonNumber | Code::InvalidUtf8);
        let place = match error.offset() {
            Some(offset) if of_input => format!(" at byte {offset} of the input"),
            Some(offset) => {
                let source = std::str::from_utf8(template.source()).unwrap_or("");
                let (line, column) = line_and_column(source, offset as usize);
                format!(" in line {line}, column {column} of the template")
            }
            None => String::new(),
        };
        let message = match spoken {
            [] => format!("{name}{place}"),
            spoken => String::from_utf8_lossy(spoken).into_owned(),
        };
        Self { error, name, message }
    }
}

/// The reference's name of an exception that a template raises; else our name of the condition.
pub fn error_name(code: Code) -> &'static str {
    match code {
        Code::TemplateRaised => "raise_exception",
        Code::TemplateTypeError => "TypeError",
        Code::TemplateUndefinedError => "UndefinedError",
        Code::TemplateRuntimeError => "TemplateRuntimeError",
        Code::TemplateSecurityError => "SecurityError",
        Code::TemplateValueError => "ValueError",
        Code::TemplateZeroDivision => "ZeroDivisionError",
        Code::TemplateOverflow => "OverflowError",
        Code::TemplateAttributeError => "AttributeError",
        Code::TemplateKeyError => "KeyError",
        Code::TemplateIndexError => "IndexError",
        other => other.name(),
    }
}

/// Working memory, kept from one rendering to the next.
#[derive(Debug, Default)]
pub struct Renderer {
    memory: Vec<u64>,
    out: Vec<u8>,
    content: Vec<u8>,
}

impl Renderer {
    /// Renders `input`, the JSON object the core takes, after the changes the reference makes to messages.
    ///
    /// # Errors
    /// What the template raised, a limit, or bad input.
    pub fn render(&mut self, template: &Template<'_>, input: &str, now: Now) -> Result<Text, Refused> {
        let prepared = prepare(input);
        let input = prepared.as_deref().unwrap_or(input);
        let mut size = input.len() * 4 + (1 << 16);
        let mut words = Template::memory_words(input.len());
        loop {
            self.memory.resize(words.max(self.memory.len()), 0);
            self.out.resize(size.max(self.out.len()), 0);
            self.content.resize(self.out.len().div_ceil(8), 0);
            let result = template.render(input.as_bytes(), now, &mut self.memory, &mut self.out, &mut self.content);
            match result {
                Ok(done) => {
                    return Ok(Text {
                        text: self.out[..done.len].to_vec(),
                        content: self.content[..done.len.div_ceil(8)].to_vec(),
                        has_bos: done.has_bos,
                        has_eos: done.has_eos,
                    });
                }
                Err(refusal) => match refusal.error.code() {
                    Code::OutputBufferExceeded if size < MAX_OUTPUT => size *= 4,
                    Code::TemplateMemory | Code::TemplateStack if words < MAX_OUTPUT / 4 => words *= 4,
                    _ => return Err(Refused::of(template, refusal, self.out.get(..refusal.message).unwrap_or(&[]))),
                },
            }
        }
    }
}

type Members<'j> = Vec<(String, &'j RawValue)>;

fn members(json: &str) -> Option<Members<'_>> {
    struct Collect;
    impl<'de> serde::de::Visitor<'de> for Collect {
        type Value = Members<'de>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(entry) = map.next_entry()? {
                all.push(entry);
            }
            Ok(all)
        }
    }
    serde::Deserializer::deserialize_map(&mut serde_json::Deserializer::from_str(json), Collect).ok()
}

fn object(members: &[(String, &str)]) -> String {
    let members: Vec<String> =
        members.iter().map(|(key, value)| format!("{}:{value}", serde_json::Value::from(key.as_str()))).collect();
    format!("{{{}}}", members.join(","))
}

/// What the reference does to messages before it renders: reasoning text is given under each of the names that templates
/// use. `None` when there is nothing to do.
fn prepare(input: &str) -> Option<String> {
    if !["reasoning", "thinking"].iter().any(|word| input.contains(word)) {
        return None;
    }
    let outer = members(input)?;
    let mut changed = HashMap::new();
    for (index, (key, value)) in outer.iter().enumerate().filter(|(_, (key, _))| key == "messages") {
        let messages: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
        let prepared: Option<Vec<String>> = messages.iter().map(|message| prepare_message(message.get())).collect();
        changed.insert(index, format!("[{}]", prepared?.join(",")));
        debug_assert_eq!(key, "messages");
    }
    let outer: Vec<(String, &str)> = outer
        .iter()
        .enumerate()
        .map(|(index, (key, value))| (key.clone(), changed.get(&index).map_or(value.get(), String::as_str)))
        .collect();
    Some(object(&outer))
}

fn prepare_message(message: &str) -> Option<String> {
    let Some(all) = members(message) else { return Some(message.to_owned()) };
    let mut kept: Vec<(String, &str)> = Vec::new();
    for (key, value) in &all {
        match kept.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.get(),
            None => kept.push((key.clone(), value.get())),
        }
    }
    let find = |name: &str, kept: &[(String, &str)]| kept.iter().position(|(key, _)| key == name);
    let stated = |name: &&str| find(name, &kept).filter(|&index| kept[index].1 != "null");
    let reasoning = ["reasoning_content", "thinking", "reasoning"].iter().find_map(stated);
    if let Some(reasoning) = reasoning.map(|index| kept[index].1) {
        let thinking = match find("thinking", &kept) {
            Some(index) => kept.remove(index),
            None => ("thinking".to_owned(), reasoning),
        };
        kept.insert(0, thinking);
        match find("reasoning_content", &kept) {
            Some(index) => kept[index].1 = reasoning,
            None => kept.push(("reasoning_content".to_owned(), reasoning)),
        }
    }
    Some(object(&kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_prepared_as_the_reference_does() {
        let prepared = |message: &str| prepare(&format!(r#"{{"messages":[{message}]}}"#)).unwrap();
        let whole = |message: &str| format!(r#"{{"messages":[{message}]}}"#);
        let null = r#"{"role":"x","reasoning":null}"#;
        assert_eq!(prepared(null), whole(null));
        assert_eq!(
            prepared(r#"{"role":"x","reasoning":"r"}"#),
            whole(r#"{"thinking":"r","role":"x","reasoning":"r","reasoning_content":"r"}"#)
        );
        let again = r#"{"thinking":"r","role":"x","reasoning_content":"r"}"#;
        assert_eq!(prepared(again), whole(again));
        assert_eq!(prepare(r#"{"messages":[{"role":"x","content":"y"}]}"#), None);
    }
}

//! A conversation on the terminal or from a script: lines in, replies out.

use super::command::{HELP, Line, parse};
use super::{Args, interrupt};
use crate::commands::render::{Specials, clock};
use crate::commands::run::explained;
use crate::failure::{Failure, Kind};
use crate::generate::{Answer, generate, table};
use crate::template::Refused;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use tinyrustlm::core::kernels::Workers;
use tinyrustlm::core::session::conversation::{Conversation, ConversationPlan, Prompt, PromptOptions};
use tinyrustlm::core::session::{Generation, Limits};
use tinyrustlm::core::template::Template;
use tinyrustlm::core::{Code, Error};
use tinyrustlm::{Memory, Threads, describe};

/// Bytes of a transcript: a hundred contexts of two thousand tokens would not fill it with what they can hold.
const TRANSCRIPT: usize = 1 << 18;

/// Where the conversation stands, and what replies.
pub struct Dialogue<'t, 'a, 'm> {
    pub template: &'t Template<'a>,
    pub generation: Generation<'a, 'm>,
    pub workers: &'t Threads,
    pub limits: Limits,
    pub args: &'t Args,
}

/// The last turn.
struct Turn {
    prompt: Prompt,
    answer: Answer,
}

/// A message: role and content.
type Message = (String, String);

fn messages_of(value: &Value) -> Option<Vec<Message>> {
    let list = value.get("messages").unwrap_or(value).as_array()?;
    let text = |message: &Value, key| Some(message.get(key)?.as_str()?.to_owned());
    list.iter().map(|message| Some((text(message, "role")?, text(message, "content")?))).collect()
}

fn kept(talk: &Conversation<'_>) -> Vec<Message> {
    let text = format!("[{}]", String::from_utf8_lossy(talk.transcript()));
    serde_json::from_str(&text).ok().as_ref().and_then(messages_of).unwrap_or_default()
}

fn full(error: Error) -> Failure {
    let message = match error.code() {
        Code::ConversationFull => "the conversation is full: /save it, then /reset".to_owned(),
        _ => describe(error, None),
    };
    Failure::new(Kind::Usage, message)
}

/// Puts other messages in place of those there are; on an error all is as before.
fn replace(talk: &mut Conversation<'_>, messages: &[Message]) -> Result<(), Failure> {
    let before = kept(talk);
    talk.reset();
    let mut all = messages.iter();
    let result = all.try_for_each(|(role, content)| talk.push(role, content));
    if result.is_err() {
        talk.reset();
        before.iter().try_for_each(|(role, content)| talk.push(role, content)).map_err(full)?;
    }
    result.map_err(full)
}

fn load(talk: &mut Conversation<'_>, path: &str) -> Result<usize, Failure> {
    let text = std::fs::read(Path::new(path)).map_err(|e| Failure::new(Kind::Io, format!("{path}: {e}")))?;
    let bad = |why: String| Failure::new(Kind::Malformed, format!("{path}: {why}"));
    let value: Value = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
    let wanted = "not a conversation: {\"messages\":[{\"role\":\"..\",\"content\":\"..\"},..]}";
    let messages = messages_of(&value).ok_or_else(|| bad(wanted.into()))?;
    replace(talk, &messages)?;
    Ok(messages.len())
}

fn save(talk: &Conversation<'_>, path: &str) -> Result<(), Failure> {
    let text = [b"{\"messages\":[", talk.transcript(), b"]}\n"].concat();
    std::fs::write(path, text).map_err(|e| Failure::new(Kind::Io, format!("{path}: {e}")))
}

impl Dialogue<'_, '_, '_> {
    /// Talks until the input ends.
    ///
    /// # Errors
    /// On a terminal only the input's and the output's own; a script ends at the first line that fails.
    pub fn run(mut self) -> Result<(), Failure> {
        let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && self.args.prompt.is_none();
        let sizes = ConversationPlan::new(self.generation.tokenizer(), TRANSCRIPT);
        let mut memory = Memory::of_blocks(sizes.blocks())?;
        let mut talk = Conversation::new(&sizes, memory.blocks()).map_err(full)?;
        if let Some(text) = &self.args.system {
            talk.push("system", text).map_err(full)?;
        }
        if let Some(text) = &self.args.prompt {
            let turn = self.say(&mut talk, text)?;
            self.show_turn(&turn, false);
            return Ok(());
        }
        if asks {
            interrupt::install();
            eprintln!("/help lists the commands");
        }
        let mut last = None;
        let mut lines = std::io::stdin().lock().lines();
        loop {
            if asks {
                eprint!("> ");
            }
            let Some(line) = lines.next() else { break };
            let line = line.map_err(|e| match e.kind() {
                std::io::ErrorKind::InvalidData => Failure::new(Kind::Malformed, "the input is not UTF-8"),
                _ => e.into(),
            })?;
            let done = parse(&line).map_err(|text| Failure::new(Kind::Usage, text)).and_then(|line| match line {
                Line::Quit => Ok(true),
                line => self.obey(line, &mut talk, &mut last, asks).map(|()| false),
            });
            match done {
                Ok(true) => return Ok(()),
                Ok(false) => (),
                Err(failure) if asks && failure.kind != Kind::Io => eprintln!("{}", failure.message),
                Err(failure) => return Err(failure),
            }
        }
        if asks {
            eprintln!();
        }
        Ok(())
    }

    fn obey(
        &mut self,
        line: Line<'_>,
        talk: &mut Conversation<'_>,
        last: &mut Option<Turn>,
        asks: bool,
    ) -> Result<(), Failure> {
        match line {
            Line::Empty | Line::Quit => (),
            Line::Help => eprint!("{HELP}"),
            Line::Stats => eprint!("{}", self.stats(talk, last.as_ref())),
            Line::Say(text) => {
                let turn = self.say(talk, text)?;
                self.show_turn(&turn, asks);
                *last = Some(turn);
            }
            Line::Reset => {
                let system: Vec<Message> =
                    kept(talk).into_iter().take(1).filter(|(role, _)| role == "system").collect();
                replace(talk, &system)?;
                self.generation.reset();
                *last = None;
                eprintln!("forgotten{}", if system.is_empty() { "" } else { "; the system message stays" });
            }
            Line::System(text) => {
                let mut messages = kept(talk);
                if messages.first().is_some_and(|(role, _)| role == "system") {
                    messages.remove(0);
                }
                if !text.is_empty() {
                    messages.insert(0, ("system".into(), text.into()));
                }
                replace(talk, &messages)?;
                eprintln!("system message {}", if text.is_empty() { "removed" } else { "set" });
            }
            Line::Save(path) => {
                save(talk, path)?;
                eprintln!("{path}: {} messages", talk.len());
            }
            Line::Load(path) => {
                let count = load(talk, path)?;
                *last = None;
                eprintln!("{count} messages");
            }
        }
        Ok(())
    }

    /// Asks, streams the reply and keeps both; after an error the conversation is as before.
    fn say(&mut self, talk: &mut Conversation<'_>, text: &str) -> Result<Turn, Failure> {
        // The draws depend on the transcript alone: a loaded conversation goes on as the saved one would have.
        let turn = kept(talk).iter().filter(|(role, _)| role == "assistant").count() as u32;
        talk.push("user", text).map_err(full)?;
        let result = self.reply(talk, turn);
        match &result {
            Ok(turn) => talk.push("assistant", &turn.answer.text).map_err(full)?,
            Err(_) => talk.pop(),
        }
        result
    }

    fn reply(&mut self, talk: &mut Conversation<'_>, turn: u32) -> Result<Turn, Failure> {
        let context = self.generation.session().context();
        // A quarter of the context at most waits for the reply, so that short contexts still hold a question.
        let reserved = (self.limits.max_new_tokens as usize).min(context / 4).max(1);
        let limit = context.saturating_sub(reserved);
        let options = PromptOptions {
            now: self.args.now.unwrap_or_else(clock),
            parse_specials: self.args.content_specials == Specials::Parse,
            limit,
            vars: b"",
            generation_prompt: true,
        };
        let tokenizer = *self.generation.tokenizer();
        let prompt = talk.prompt(self.template, &tokenizer, &options).map_err(|refusal| {
            let error = refusal.error;
            match error.code() {
                Code::ConversationTooLong => Failure::new(
                    Kind::Usage,
                    format!(
                        "the message is too long: with the system message it makes {} tokens, and a prompt may have \
                         {limit} of {context} positions: see --context",
                        error.offset().unwrap_or(0)
                    ),
                ),
                _ => Failure::new(Kind::Malformed, Refused::of(self.template, refusal, talk.message(&refusal)).message),
            }
        })?;
        let mut stdout = std::io::stdout().lock();
        let mut broken = None;
        interrupt::replying(true);
        let explain = self.args.sampling.explain;
        let reply = generate(&mut self.generation, self.workers, talk.ids(), turn, &self.limits, explain, |text| {
            broken = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).err();
            broken.is_none() && !interrupt::asked()
        });
        interrupt::replying(false);
        if let Some(error) = broken {
            return Err(error.into());
        }
        let answer = reply.map_err(|(error, _)| explained(error, context))?;
        writeln!(stdout)?;
        Ok(Turn { prompt, answer })
    }

    fn show_turn(&self, turn: &Turn, asks: bool) {
        if self.args.sampling.explain > 0 {
            turn.answer.steps.iter().for_each(|step| eprint!("{}", table(step)));
        }
        if asks || self.args.stats {
            let dropped = match turn.prompt.dropped {
                0 => String::new(),
                n => format!(", {n} oldest messages left out"),
            };
            eprintln!("[{}{dropped}]", turn.answer.summary());
        }
    }

    fn stats(&self, talk: &Conversation<'_>, last: Option<&Turn>) -> String {
        let session = self.generation.session();
        let mut out = String::new();
        let _ = writeln!(out, "transcript: {} messages, {} bytes", talk.len(), talk.transcript().len());
        let _ = writeln!(
            out,
            "cache: kv_len {} of {} positions (0 to {})",
            session.kv_len(),
            session.context(),
            session.kv_len().saturating_sub(1)
        );
        let Some(Turn { prompt, answer }) = last else {
            let _ = writeln!(out, "no reply yet");
            return out;
        };
        let _ = writeln!(
            out,
            "last prompt: {} tokens, {} reused, {} computed; {} messages, {} left out",
            prompt.tokens,
            answer.reused,
            prompt.tokens - answer.reused,
            prompt.messages,
            prompt.dropped
        );
        let stop = json!(answer.diagnostics["stop"]);
        let _ = writeln!(
            out,
            "last reply: {} tokens, stop {}{}, first after {:.0} ms{}",
            answer.ids.len(),
            answer.stop.map_or("none", |stop| stop.name()),
            stop["token"].as_u64().map(|id| format!(" ({id})")).unwrap_or_default(),
            answer.prefill_ms,
            answer.tokens_per_second.map(|speed| format!(", {speed:.1} tokens/s")).unwrap_or_default()
        );
        let config = self.generation.config();
        let _ = writeln!(
            out,
            "sampling: temperature {}, top-k {}, top-p {}, min-p {}, seed {}, turn {}; {} threads",
            config.temperature,
            config.top_k,
            config.top_p,
            config.min_p,
            config.seed,
            self.generation.turn(),
            self.workers.count()
        );
        out
    }
}

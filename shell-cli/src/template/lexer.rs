//! Jinja source to tokens: the reference's rules for white space, with `trim_blocks` and `lstrip_blocks` on.

use super::Fault;

/// A token and where it begins in the source.
#[derive(Clone, PartialEq, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Byte offset in the source.
    pub at: usize,
}

/// What a token is.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Data(String),
    BlockBegin,
    BlockEnd,
    VariableBegin,
    VariableEnd,
    Name(String),
    Str(String),
    Int(i64),
    Float(f64),
    Op(&'static str),
    End,
}

/// Operators, longest first.
const OPERATORS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".",
    ":", "|", ",", ";",
];

struct Lexer<'s> {
    text: &'s str,
    at: usize,
    /// Whether what was read last ended a line.
    line_starting: bool,
    tokens: Vec<Token>,
}

/// Cuts the source into tokens. Line ends become LF, and one at the very end is dropped, as the reference does.
///
/// The offsets count in the text after that; `lines` of [`super`] turns them into line and column.
pub fn tokens(source: &str) -> Result<Vec<Token>, Fault> {
    let mut lexer = Lexer { text: source, at: 0, line_starting: true, tokens: Vec::new() };
    lexer.run()?;
    lexer.tokens.push(Token { kind: Kind::End, at: source.len() });
    Ok(lexer.tokens)
}

/// The text the reference's lexer works on.
pub fn normalise(source: &str) -> String {
    let mut text = source.replace("\r\n", "\n").replace('\r', "\n");
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

fn is_space(c: char) -> bool {
    // Python's `\s`: what `str.isspace` accepts.
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    fn fault<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::syntax(self.at, message))
    }

    fn push(&mut self, kind: Kind, at: usize) {
        self.tokens.push(Token { kind, at });
    }

    /// Passes over `len` bytes.
    fn advance(&mut self, len: usize) {
        if len > 0 {
            self.line_starting = self.text[..self.at + len].ends_with('\n');
            self.at += len;
        }
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.advance(rest.len() - rest.trim_start_matches(is_space).len());
    }

    fn run(&mut self) -> Result<(), Fault> {
        while self.at < self.text.len() {
            let start = self.at;
            let found = ["{%", "{{", "{#"].iter().filter_map(|tag| self.rest().find(tag)).min();
            let Some(length) = found else {
                let data = self.rest().to_owned();
                self.push(Kind::Data(data), start);
                self.at = self.text.len();
                break;
            };
            let tag_at = start + length;
            let tag = &self.text[tag_at..tag_at + 2];
            let sign = self.text[tag_at + 2..].chars().next().filter(|c| matches!(c, '-' | '+'));
            self.data(start, tag_at, sign, tag == "{{");
            self.advance(length + 2 + sign.is_some() as usize);
            match tag {
                "{#" => self.comment(tag_at)?,
                "{{" => {
                    self.push(Kind::VariableBegin, tag_at);
                    self.inside(tag_at, false)?;
                }
                _ => {
                    if !self.raw(tag_at)? {
                        self.push(Kind::BlockBegin, tag_at);
                        self.inside(tag_at, true)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Text before a tag, stripped as its sign and `lstrip_blocks` say.
    fn data(&mut self, from: usize, to: usize, sign: Option<char>, variable: bool) {
        let text = &self.text[from..to];
        let kept = match sign {
            Some('-') => text.trim_end_matches(is_space),
            Some(_) => text,
            None if variable => text,
            None => {
                let line = text.rfind('\n').map_or(0, |at| at + 1);
                let blank = line < text.len() && text[line..].chars().all(is_space);
                if (line > 0 || self.line_starting) && blank { &text[..line] } else { text }
            }
        };
        if !kept.is_empty() {
            self.push(Kind::Data(kept.to_owned()), from);
        }
    }

    /// What may follow the end of a block or comment: its sign was read.
    fn after_end(&mut self, sign: Option<char>) {
        match sign {
            Some('-') => self.skip_space(),
            Some(_) => {}
            None if self.rest().starts_with('\n') => self.advance(1),
            None => {}
        }
    }

    fn comment(&mut self, tag_at: usize) -> Result<(), Fault> {
        let Some(length) = self.rest().find("#}") else {
            return Err(Fault::syntax(tag_at, "missing end of comment"));
        };
        let sign = self.rest()[..length].chars().next_back().filter(|c| matches!(c, '-' | '+'));
        self.advance(length + 2);
        self.after_end(sign);
        Ok(())
    }

    /// `{% raw %}`: everything up to its end is data.
    fn raw(&mut self, tag_at: usize) -> Result<bool, Fault> {
        let rest = self.rest();
        let Some(after) = rest.trim_start_matches(is_space).strip_prefix("raw") else { return Ok(false) };
        let after = after.trim_start_matches(is_space);
        let (body, strip) = match (after.strip_prefix("-%}"), after.strip_prefix("%}")) {
            (Some(body), _) => (body, true),
            (_, Some(body)) => (body, false),
            _ => return Ok(false),
        };
        self.advance(rest.len() - body.len());
        if strip {
            self.skip_space();
        }
        let start = self.at;
        let mut search = start;
        while let Some(length) = self.text[search..].find("{%") {
            let open = search + length;
            let sign = self.text[open + 2..].chars().next().filter(|c| matches!(c, '-' | '+'));
            let inner = self.text[open + 2 + sign.is_some() as usize..].trim_start_matches(is_space);
            if let Some(end) = inner.strip_prefix("endraw") {
                let end = end.trim_start_matches(is_space);
                let close = end.chars().next().filter(|c| matches!(c, '-' | '+'));
                if let Some(after) = end[close.is_some() as usize..].strip_prefix("%}") {
                    self.data(start, open, sign, false);
                    self.advance(self.text.len() - after.len() - self.at);
                    self.after_end(close);
                    return Ok(true);
                }
            }
            search = open + 2;
        }
        Err(Fault::syntax(tag_at, "missing end of raw directive"))
    }

    /// Tokens of a tag up to its end.
    fn inside(&mut self, tag_at: usize, block: bool) -> Result<(), Fault> {
        let mut open: Vec<&str> = Vec::new();
        loop {
            self.skip_space();
            let (start, rest) = (self.at, self.rest());
            let Some(first) = rest.chars().next() else {
                return Err(Fault::syntax(tag_at, "this tag has no end"));
            };
            if open.is_empty() {
                let end = if block { "%}" } else { "}}" };
                let sign = Some(first).filter(|c| *c == '-' || *c == '+' && block);
                if rest[sign.is_some() as usize..].starts_with(end) {
                    self.advance(2 + sign.is_some() as usize);
                    self.push(if block { Kind::BlockEnd } else { Kind::VariableEnd }, start);
                    if block || sign.is_some() {
                        self.after_end(sign);
                    }
                    return Ok(());
                }
            }
            if first.is_ascii_digit() {
                self.number()?;
            } else if first == '_' || first.is_alphanumeric() {
                let length = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                self.push(Kind::Name(rest[..length].to_owned()), start);
                self.advance(length);
            } else if first == '"' || first == '\'' {
                self.string(first)?;
            } else if let Some(op) = OPERATORS.iter().find(|op| rest.starts_with(**op)) {
                match *op {
                    "{" => open.push("}"),
                    "(" => open.push(")"),
                    "[" => open.push("]"),
                    "}" | ")" | "]" if open.pop() != Some(op) => return self.fault(format!("unexpected `{op}`")),
                    _ => {}
                }
                self.push(Kind::Op(op), start);
                self.advance(op.len());
            } else {
                return self.fault(format!("unexpected character {first:?}"));
            }
        }
    }

    /// Digits, single underscores allowed between them.
    fn digits(text: &str, from: usize, radix: u32) -> usize {
        let bytes = text.as_bytes();
        let digit = |at: usize| bytes.get(at).is_some_and(|b| (*b as char).is_digit(radix));
        let mut at = from;
        while digit(at) || at > from && bytes.get(at) == Some(&b'_') && digit(at + 1) {
            at += 1;
        }
        at
    }

    fn number(&mut self) -> Result<(), Fault> {
        let (start, rest) = (self.at, self.rest());
        let bytes = rest.as_bytes();
        let whole = Self::digits(rest, 0, 10);
        let mut end = whole;
        let after_dot = self.text[..start].ends_with('.');
        if bytes.get(end) == Some(&b'.') && Self::digits(rest, end + 1, 10) > end + 1 {
            end = Self::digits(rest, end + 1, 10);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = matches!(bytes.get(end + 1), Some(b'+' | b'-')) as usize;
            let stop = Self::digits(rest, end + 1 + sign, 10);
            if stop > end + 1 + sign {
                end = stop;
            }
        }
        if end > whole && !after_dot {
            let text = rest[..end].replace('_', "");
            let value = text.parse().map_err(|_| Fault::syntax(start, "bad number"))?;
            self.push(Kind::Float(value), start);
            self.advance(end);
            return Ok(());
        }
        let radix = match (bytes[0], bytes.get(1)) {
            (b'0', Some(b'x' | b'X')) => 16,
            (b'0', Some(b'o' | b'O')) => 8,
            (b'0', Some(b'b' | b'B')) => 2,
            _ => 10,
        };
        let (mut from, mut end) = (0, whole);
        if radix != 10 {
            let stop = Self::digits(rest, 2, radix);
            if stop > 2 {
                (from, end) = (2, stop);
            }
        } else if bytes[0] == b'0' {
            // A zero ends at the first digit that is none.
            end = rest[..whole].find(|c: char| c != '0' && c != '_').unwrap_or(whole);
        }
        let text = rest[from..end].replace('_', "");
        let value = i64::from_str_radix(&text, if from > 0 { radix } else { 10 });
        let value = value.map_err(|_| Fault::unsupported(start, "an integer beyond 64 bits"))?;
        self.push(Kind::Int(value), start);
        self.advance(end);
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<(), Fault> {
        let (start, rest) = (self.at, self.rest());
        let mut chars = rest.char_indices().skip(1);
        let mut text = String::new();
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.push(Kind::Str(text), start);
                self.advance(at + 1);
                return Ok(());
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let Some((_, escape)) = chars.next() else { break };
            let hex = match escape {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            if hex > 0 {
                let mut value = 0;
                for _ in 0..hex {
                    let digit = chars.next().and_then(|(_, c)| c.to_digit(16));
                    value = value * 16 + digit.ok_or(Fault::syntax(start + at, "bad escape in a string"))?;
                }
                let c = char::from_u32(value);
                text.push(c.ok_or(Fault::unsupported(start + at, "a lone surrogate in a string"))?);
                continue;
            }
            match escape {
                '\n' => {}
                '\\' | '\'' | '"' => text.push(escape),
                'a' => text.push('\u{7}'),
                'b' => text.push('\u{8}'),
                'f' => text.push('\u{c}'),
                'n' => text.push('\n'),
                'r' => text.push('\r'),
                't' => text.push('\t'),
                'v' => text.push('\u{b}'),
                '0'..='7' => {
                    let mut value = escape.to_digit(8).unwrap_or(0);
                    for _ in 0..2 {
                        let Some(digit) = chars.clone().next().and_then(|(_, c)| c.to_digit(8)) else { break };
                        value = value * 8 + digit;
                        chars.next();
                    }
                    text.push(char::from_u32(value).unwrap_or('\u{fffd}'));
                }
                'N' => return Err(Fault::unsupported(start + at, "a character by its name (`\\N`)")),
                _ if escape.is_ascii() => text.extend(['\\', escape]),
                // The reference turns what is not ASCII into escapes first, and those lose their meaning here.
                _ => {
                    let code = escape as u32;
                    text.push_str(&match code {
                        0..=0xff => format!("\\x{code:02x}"),
                        0x100..=0xffff => format!("\\u{code:04x}"),
                        _ => format!("\\U{code:08x}"),
                    });
                }
            }
        }
        Err(Fault::syntax(start, "this string has no end"))
    }
}

//! Split and replace patterns: the reference's regular expressions (Oniguruma, Ruby syntax) as a tree.
//!
//! What cannot become an automaton with one unit of look-ahead and look-behind is refused by name.

use super::sets::Set;
use super::unicode;

/// A pattern.
#[derive(Clone, PartialEq, Debug)]
pub enum Node {
    /// One character of a set.
    Class(Set),
    /// One after the other.
    Concat(Vec<Node>),
    /// The first that leads to a match.
    Alternation(Vec<Node>),
    /// Repetition.
    Repeat {
        /// What is repeated.
        node: Box<Node>,
        /// At least this often.
        min: u32,
        /// At most this often.
        max: Option<u32>,
        /// As often as possible first.
        greedy: bool,
    },
    /// The neighbour is in a set, or the text ends there.
    Look {
        /// The next character, or else the one before.
        ahead: bool,
        /// The set.
        set: Set,
        /// Whether the end (or the start) of the text will do.
        edge: bool,
    },
}

/// A literal string.
pub fn literal(text: &str) -> Node {
    Node::Concat(text.chars().map(|c| Node::Class(Set::char(c))).collect())
}

/// Parses a regular expression.
///
/// # Errors
/// What it uses that the tables cannot express.
pub fn parse(pattern: &str) -> Result<Node, String> {
    let mut parser = Parser { chars: pattern.chars().collect(), at: 0, fold: false, dot_all: false };
    let node = parser.alternation()?;
    match parser.peek() {
        None => Ok(node),
        Some(c) => Err(format!("unexpected {c:?}")),
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    fold: bool,
    dot_all: bool,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Result<char, String> {
        let c = self.peek().ok_or("the pattern ends early")?;
        self.at += 1;
        Ok(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let wanted: Vec<char> = text.chars().collect();
        if self.chars[self.at.min(self.chars.len())..].starts_with(&wanted) {
            self.at += wanted.len();
            return true;
        }
        false
    }

    fn alternation(&mut self) -> Result<Node, String> {
        let (fold, dot_all) = (self.fold, self.dot_all);
        let mut branches = vec![self.concat()?];
        while self.eat("|") {
            branches.push(self.concat()?);
        }
        (self.fold, self.dot_all) = (fold, dot_all);
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Alternation(branches) })
    }

    fn concat(&mut self) -> Result<Node, String> {
        let mut nodes = Vec::new();
        // Letters in a row under (?i), to notice folds that change the number of characters.
        let mut run = String::new();
        while let Some(c) = self.peek() {
            if c == '|' || c == ')' {
                break;
            }
            let Some(atom) = self.atom()? else { continue };
            let single = match &atom {
                Node::Class(_) if self.fold && c.is_alphabetic() => Some(c.to_lowercase().collect::<String>()),
                _ => None,
            };
            run = single.map_or_else(String::new, |s| run.clone() + &s);
            if ["ss", "ff", "fi", "fl", "st"].iter().any(|fold| run.ends_with(fold)) {
                return Err(format!("case-insensitive {run:?}, which other spellings fold to"));
            }
            nodes.push(self.quantified(atom)?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Concat(nodes) })
    }

    fn quantified(&mut self, mut node: Node) -> Result<Node, String> {
        loop {
            let interval = self.peek() == Some('{');
            let (min, max) = match self.peek() {
                Some('?') => (0, Some(1)),
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('{') => match self.interval()? {
                    Some(bounds) => bounds,
                    None => return Ok(node),
                },
                _ => return Ok(node),
            };
            if !interval {
                self.at += 1;
            }
            if max.is_some_and(|max| max < min || max > 1000) || min > 1000 {
                return Err(format!("repetition {{{min},{max:?}}}"));
            }
            let greedy = !self.eat("?");
            // `{n,m}+` repeats the repetition; after the other operators `+` forbids giving back.
            let possessive = greedy && !interval && self.eat("+");
            let set = as_set(&node);
            node = Node::Repeat { node: Box::new(node), min, max, greedy };
            if possessive {
                let Some(set) = set else { return Err("possessive repetition of more than one character".into()) };
                let stop = Node::Look { ahead: true, set: set.complement(), edge: true };
                node = if max == Some(1) {
                    Node::Alternation(vec![Node::Class(set), stop])
                } else {
                    Node::Concat(vec![node, stop])
                };
            }
        }
    }

    /// Bounds of `{n,m}`; `None` and nothing read where the brace stands for itself.
    fn interval(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let start = self.at;
        self.at += 1;
        let number = |parser: &mut Self| {
            let mut digits = String::new();
            while let Some(c) = parser.peek().filter(char::is_ascii_digit) {
                digits.push(c);
                parser.at += 1;
            }
            digits.parse::<u32>().ok()
        };
        let low = number(self);
        let bounds = if self.eat("}") {
            low.map(|n| (n, Some(n)))
        } else if self.eat(",") {
            let high = number(self);
            if self.eat("}") && (low.is_some() || high.is_some()) { Some((low.unwrap_or(0), high)) } else { None }
        } else {
            None
        };
        if bounds.is_none() {
            self.at = start;
        }
        Ok(bounds)
    }

    fn class(&self, set: Set) -> Node {
        Node::Class(if self.fold { unicode::fold(&set) } else { set })
    }

    /// One atom; `None` for what matches nothing by itself (options, comments).
    fn atom(&mut self) -> Result<Option<Node>, String> {
        let node = match self.next()? {
            '(' => return self.group(),
            '[' => {
                let set = self.bracket()?;
                self.class(set)
            }
            '.' => Node::Class(if self.dot_all { Set::all() } else { Set::char('\n').complement() }),
            '^' => Node::Look { ahead: false, set: Set::char('\n'), edge: true },
            '$' => Node::Look { ahead: true, set: Set::char('\n'), edge: true },
            '\\' => return self.escape().map(Some),
            c @ ('?' | '*' | '+') => return Err(format!("{c:?} with nothing before it")),
            c => self.class(Set::char(c)),
        };
        Ok(Some(node))
    }

    fn group(&mut self) -> Result<Option<Node>, String> {
        let saved = (self.fold, self.dot_all);
        let kinds = ["?:", "?=", "?!", "?<=", "?<!", "?>", "?#"];
        let kind = kinds.into_iter().find(|kind| self.eat(kind)).unwrap_or("");
        if kind == "?#" {
            while self.next()? != ')' {}
            return Ok(None);
        }
        if kind.is_empty() && self.eat("?") {
            if self.peek() == Some('<') || self.peek() == Some('P') {
                // A named group.
                while self.next()? != '>' {}
            } else {
                let mut on = true;
                loop {
                    match self.next()? {
                        '-' => on = false,
                        'i' => self.fold = on,
                        'm' => self.dot_all = on,
                        ':' => break,
                        // Options without a group hold to the end of the group they stand in.
                        ')' => return Ok(None),
                        c => return Err(format!("option {c:?}")),
                    }
                }
            }
        }
        let node = self.alternation()?;
        if !self.eat(")") {
            return Err("a group without its end".into());
        }
        (self.fold, self.dot_all) = saved;
        Ok(Some(match kind {
            "?=" | "?!" | "?<=" | "?<!" => {
                let ahead = !kind.contains('<');
                let Some((mut set, mut edge)) = neighbour(&node, ahead) else {
                    return Err("looking further than one character".into());
                };
                if kind.contains('!') {
                    (set, edge) = (set.complement(), !edge);
                }
                Node::Look { ahead, set, edge }
            }
            "?>" if as_set(&node).is_none() => return Err("an atomic group".into()),
            _ => node,
        }))
    }

    fn escape(&mut self) -> Result<Node, String> {
        let c = self.next()?;
        let word = || unicode::word();
        Ok(match c {
            'A' => Node::Look { ahead: false, set: Set::default(), edge: true },
            'z' => Node::Look { ahead: true, set: Set::default(), edge: true },
            'b' | 'B' => {
                let side = |ahead: bool, inside: bool| Node::Look {
                    ahead,
                    set: if inside { word() } else { word().complement() },
                    edge: !inside,
                };
                let pair = |before, after| Node::Concat(vec![side(false, before), side(true, after)]);
                let same = c == 'B';
                Node::Alternation(vec![pair(true, same), pair(false, !same)])
            }
            'Z' | 'G' | 'K' | 'X' | 'R' | 'k' | 'g' | '1'..='9' => return Err(format!("\\{c}")),
            _ => {
                self.at -= 1;
                let set = self.escaped_set()?;
                // Case-insensitivity concerns characters, not properties.
                if set.single().is_some() { self.class(set) } else { Node::Class(set) }
            }
        })
    }

    /// The set of an escape, inside or outside of brackets; the backslash has been read.
    fn escaped_set(&mut self) -> Result<Set, String> {
        let c = self.next()?;
        Ok(match c {
            's' => unicode::white_space(),
            'S' => unicode::white_space().complement(),
            'd' => unicode::property("Nd")?,
            'D' => unicode::property("Nd")?.complement(),
            'w' => unicode::word(),
            'W' => unicode::word().complement(),
            'h' => Set::of(|c| c.is_ascii_hexdigit()),
            'H' => Set::of(|c| c.is_ascii_hexdigit()).complement(),
            'p' | 'P' => {
                if !self.eat("{") {
                    return Err(format!("\\{c} without braces"));
                }
                let negated = self.eat("^") != (c == 'P');
                let mut name = String::new();
                loop {
                    match self.next()? {
                        '}' => break,
                        c => name.push(c),
                    }
                }
                let set = unicode::property(&name)?;
                if negated { set.complement() } else { set }
            }
            'n' => Set::char('\n'),
            'r' => Set::char('\r'),
            't' => Set::char('\t'),
            'f' => Set::char('\u{c}'),
            'v' => Set::char('\u{b}'),
            'a' => Set::char('\u{7}'),
            'e' => Set::char('\u{1b}'),
            'b' => Set::char('\u{8}'),
            'x' | 'u' => {
                let braces = c == 'x' && self.eat("{");
                let limit = if braces {
                    8
                } else if c == 'u' {
                    4
                } else {
                    2
                };
                let mut digits = String::new();
                while digits.len() < limit
                    && let Some(d) = self.peek().filter(char::is_ascii_hexdigit)
                {
                    digits.push(d);
                    self.at += 1;
                }
                if braces && !self.eat("}") {
                    return Err("\\x{ without its end".into());
                }
                let code = u32::from_str_radix(&digits, 16).map_err(|_| "\\x without digits")?;
                // Two digits are a byte of the text in the reference, which only ASCII makes a character.
                if c == 'x' && !braces && code > 0x7F {
                    return Err(format!("the byte \\x{digits}"));
                }
                Set::char(char::from_u32(code).ok_or("\\x of no character")?)
            }
            '0' => return Err("an octal escape".into()),
            c if c.is_ascii_alphanumeric() => return Err(format!("\\{c}")),
            c => Set::char(c),
        })
    }

    /// A bracketed set; the opening bracket has been read.
    fn bracket(&mut self) -> Result<Set, String> {
        let negated = self.eat("^");
        let mut all: Option<Set> = None;
        let mut set = Set::default();
        let mut first = true;
        loop {
            if self.eat("&&") {
                all = Some(all.map_or(set.clone(), |a| a.intersection(&set)));
                set = Set::default();
                continue;
            }
            let c = self.next()?;
            let item = match c {
                ']' if !first => break,
                '[' if self.peek() == Some(':') => {
                    self.at += 1;
                    let inverse = self.eat("^");
                    let mut name = String::new();
                    while !self.eat(":]") {
                        name.push(self.next()?);
                    }
                    let posix = unicode::posix(&name)?;
                    if inverse { posix.complement() } else { posix }
                }
                '[' => self.bracket()?,
                '\\' => self.escaped_set()?,
                c => Set::char(c),
            };
            first = false;
            if let Some(low) = item.single()
                && self.peek() == Some('-')
                && self.chars.get(self.at + 1).is_some_and(|c| *c != ']')
            {
                self.at += 1;
                let high = match self.next()? {
                    '\\' => self.escaped_set()?.single().ok_or("a range without its end")?,
                    '[' => return Err("a range that ends in a set".into()),
                    c => c,
                };
                if high < low {
                    return Err(format!("the empty range {low:?}-{high:?}"));
                }
                set = set.union(&Set::new([(low as u32, high as u32)]));
            } else {
                set = set.union(&item);
            }
        }
        let set = all.map_or(set.clone(), |a| a.intersection(&set));
        let set = if self.fold { unicode::fold(&set) } else { set };
        Ok(if negated { set.complement() } else { set })
    }
}

/// The set of a node that always takes exactly one character.
pub fn as_set(node: &Node) -> Option<Set> {
    match node {
        Node::Class(set) => Some(set.clone()),
        Node::Alternation(nodes) => {
            nodes.iter().map(as_set).try_fold(Set::default(), |all, set| Some(all.union(&set?)))
        }
        Node::Concat(nodes) if nodes.len() == 1 => as_set(&nodes[0]),
        _ => None,
    }
}

/// What a look-around group says about the neighbour: its set, and whether an edge of the text will do.
fn neighbour(node: &Node, ahead: bool) -> Option<(Set, bool)> {
    match node {
        Node::Class(set) => Some((set.clone(), false)),
        Node::Look { ahead: side, set, edge } if *side == ahead => Some((set.clone(), *edge)),
        Node::Alternation(nodes) => {
            nodes.iter().map(|node| neighbour(node, ahead)).try_fold((Set::default(), false), |all, one| {
                let one = one?;
                Some((all.0.union(&one.0), all.1 || one.1))
            })
        }
        Node::Concat(nodes) if nodes.len() == 1 => neighbour(&nodes[0], ahead),
        _ => None,
    }
}

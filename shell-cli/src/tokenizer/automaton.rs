//! From patterns to deterministic automata over classes.

use super::pattern::Node;
use super::sets::{Partition, Set};
use std::collections::HashMap;

/// States an automaton may have.
const MAX_STATES: usize = 0x7FFF;
/// Instructions a pattern may need.
const MAX_CODE: usize = 20_000;

/// The bit of a transition that says a match ends before the unit read.
const MATCH: u16 = 0x8000;

/// A compiled automaton.
#[derive(Debug)]
pub struct Automaton {
    /// Start state by the class before, the last for the start of the text.
    pub starts: Vec<u16>,
    /// [states, classes + 1].
    pub transitions: Vec<u16>,
    /// Number of states, the failed one included.
    pub states: usize,
    /// Whether the class before matters.
    pub looks_back: bool,
}

enum Code {
    Class(usize),
    Split(Vec<usize>),
    Look { ahead: bool, set: usize, edge: bool },
    Match,
}

/// Every set a pattern uses.
pub fn sets(node: &Node, out: &mut Vec<Set>) {
    match node {
        Node::Class(set) | Node::Look { set, .. } => {
            if !out.contains(set) {
                out.push(set.clone());
            }
        }
        Node::Concat(nodes) | Node::Alternation(nodes) => nodes.iter().for_each(|node| sets(node, out)),
        Node::Repeat { node, .. } => sets(node, out),
    }
}

struct Compiler<'p> {
    code: Vec<Code>,
    all: &'p [Set],
    looks_back: bool,
}

impl Compiler<'_> {
    fn emit(&mut self, code: Code) -> Result<usize, String> {
        if self.code.len() >= MAX_CODE {
            return Err("a pattern that is too long".into());
        }
        self.code.push(code);
        Ok(self.code.len() - 1)
    }

    fn set(&self, set: &Set) -> usize {
        self.all.iter().position(|s| s == set).unwrap_or_default()
    }

    fn compile(&mut self, node: &Node) -> Result<(), String> {
        match node {
            Node::Class(set) => {
                let set = self.set(set);
                self.emit(Code::Class(set))?;
            }
            Node::Look { ahead, set, edge } => {
                self.looks_back |= !ahead;
                let set = self.set(set);
                self.emit(Code::Look { ahead: *ahead, set, edge: *edge })?;
            }
            Node::Concat(nodes) => nodes.iter().try_for_each(|node| self.compile(node))?,
            Node::Alternation(nodes) => {
                let split = self.emit(Code::Split(Vec::new()))?;
                let mut starts = Vec::new();
                let mut ends = Vec::new();
                for node in nodes {
                    starts.push(self.code.len());
                    self.compile(node)?;
                    ends.push(self.emit(Code::Split(Vec::new()))?);
                }
                let after = self.code.len();
                self.code[split] = Code::Split(starts);
                for end in ends {
                    self.code[end] = Code::Split(vec![after]);
                }
            }
            Node::Repeat { node, min, max, greedy } => {
                for _ in 0..*min {
                    self.compile(node)?;
                }
                let choose = |inside: usize, after: usize| {
                    Code::Split(if *greedy { vec![inside, after] } else { vec![after, inside] })
                };
                match max {
                    None => {
                        let split = self.emit(Code::Split(Vec::new()))?;
                        let inside = self.code.len();
                        self.compile(node)?;
                        self.emit(Code::Split(vec![split]))?;
                        self.code[split] = choose(inside, self.code.len());
                    }
                    Some(max) => {
                        let mut splits = Vec::new();
                        for _ in *min..*max {
                            splits.push(self.emit(Code::Split(Vec::new()))?);
                            self.compile(node)?;
                        }
                        let after = self.code.len();
                        for split in splits {
                            self.code[split] = choose(split + 1, after);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Compiles a pattern; `sets` are those of the partition.
///
/// # Errors
/// A pattern that may match nothing, or that needs too many states.
pub fn compile(node: &Node, sets: &[Set], partition: &Partition) -> Result<Automaton, String> {
    let mut compiler = Compiler { code: Vec::new(), all: sets, looks_back: false };
    compiler.compile(node)?;
    compiler.emit(Code::Match)?;
    let Compiler { code, looks_back, .. } = compiler;
    let end = partition.count;
    let width = end + 1;
    let holds = |set: usize, edge: bool, class: usize| if class == end { edge } else { partition.members[set][class] };

    // Threads in order of priority that have just read a unit of class `before`, closed with `next` known.
    let step = |threads: &[usize], before: usize, next: usize| -> (Vec<usize>, bool) {
        let mut seen = vec![false; code.len()];
        let mut stack: Vec<usize> = threads.iter().rev().copied().collect();
        let mut after = Vec::new();
        while let Some(pc) = stack.pop() {
            if std::mem::replace(&mut seen[pc], true) {
                continue;
            }
            match &code[pc] {
                Code::Split(targets) => stack.extend(targets.iter().rev()),
                Code::Look { ahead, set, edge } => {
                    if holds(*set, *edge, if *ahead { next } else { before }) {
                        stack.push(pc + 1);
                    }
                }
                Code::Class(set) => {
                    if next != end && partition.members[*set][next] {
                        after.push(pc + 1);
                    }
                }
                // What has less priority than a match is lost.
                Code::Match => return (after, true),
            }
        }
        (after, false)
    };

    let mut numbers: HashMap<(Vec<usize>, usize), u16> = HashMap::new();
    let mut queue: Vec<(Vec<usize>, usize)> = Vec::new();
    let mut transitions = vec![0u16; width];
    let mut number =
        |threads: Vec<usize>, before: usize, queue: &mut Vec<(Vec<usize>, usize)>| -> Result<u16, String> {
            if threads.is_empty() {
                return Ok(0);
            }
            let key = (threads, if looks_back { before } else { end });
            if let Some(number) = numbers.get(&key) {
                return Ok(*number);
            }
            if numbers.len() + 1 >= MAX_STATES {
                return Err("a pattern with too many states".into());
            }
            let number = numbers.len() as u16 + 1;
            numbers.insert(key.clone(), number);
            queue.push(key);
            Ok(number)
        };
    let mut starts = Vec::new();
    for before in 0..width {
        starts.push(number(vec![0], before, &mut queue)?);
    }
    let begins = starts.iter().copied().max().unwrap_or(0);
    let mut at = 0;
    while at < queue.len() {
        let (threads, before) = queue[at].clone();
        at += 1;
        for next in 0..width {
            let (after, matched) = step(&threads, before, next);
            if matched && at <= begins as usize {
                return Err("a pattern that matches the empty text".into());
            }
            let to = number(after, next, &mut queue)?;
            transitions.push(to | if matched { MATCH } else { 0 });
        }
    }
    let states = at + 1;
    Ok(Automaton { starts, transitions, states, looks_back })
}

impl Automaton {
    /// End of the match that begins at character `from` of a text given as classes.
    pub fn match_at(&self, text: &[(usize, char)], from: usize) -> Option<usize> {
        let width = self.starts.len();
        let before = from.checked_sub(1).map_or(width - 1, |i| text[i].0);
        let mut state = usize::from(self.starts[before]);
        let mut found = None;
        for at in from..=text.len() {
            let class = text.get(at).map_or(width - 1, |c| c.0);
            let next = self.transitions[state * width + class];
            if next & MATCH != 0 {
                found = Some(at);
            }
            state = usize::from(next & !MATCH);
            if state == 0 {
                break;
            }
        }
        found
    }
}

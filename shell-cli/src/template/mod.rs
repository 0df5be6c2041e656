//! Compiles chat templates: Jinja source to the section that the core runs.
//!
//! The grammar, the rules for white space and the scopes are those of jinja2 3.1.6 in the environment of transformers
//! 5.24.0. A construct that the core cannot run exactly is refused with its name, line and column.

mod ast;
mod codegen;
mod expr;
mod filters;
mod folder;
mod functions;
mod lexer;
mod library;
mod names;
mod operators;
mod parser;
mod render;
mod scope;
mod source;
mod statements;
mod time;

pub use folder::{Choice, from_folder};
pub use render::{Refused, Renderer, Text, error_name};
pub use source::{Opened, open, open_file};

use crate::failure::{Failure, Kind};
use sha2::{Digest, Sha256};
use tinyrustlm_core::template::{HEADER, PARTS, VERSION, names::REFUSED_NAME};

/// Longest template, in bytes.
const MAX_SOURCE: usize = 1 << 20;

/// Properties of code points: see `unicode.py`.
const UNICODE: &[u8] = include_bytes!("unicode.bin");

/// Why a template was refused, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Whether the reference accepts it.
    supported_by_reference: bool,
    at: usize,
    message: String,
}

impl Fault {
    fn syntax(at: usize, message: impl Into<String>) -> Self {
        Self { supported_by_reference: false, at, message: message.into() }
    }

    fn unsupported(at: usize, what: impl Into<String>) -> Self {
        Self { supported_by_reference: true, at, message: format!("{} is not supported", what.into()) }
    }
}

/// A compiled template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiled {
    /// The section of the file.
    pub section: Vec<u8>,
    /// SHA-256 of the source.
    pub source_hash: [u8; 32],
    /// SHA-256 of the program.
    pub program_hash: [u8; 32],
    /// Names the template looks up in its input.
    pub inputs: Vec<String>,
}

/// Line and column, from 1, of an offset in the text the lexer works on. Columns count characters.
pub fn line_and_column(source: &str, at: usize) -> (usize, usize) {
    let text = lexer::normalise(source);
    let before = text.get(..at).unwrap_or(&text);
    let line = before.matches('\n').count() + 1;
    (line, before.chars().rev().take_while(|&c| c != '\n').count() + 1)
}

/// Compiles a template. `name` tells which of the publisher's named templates it is, `variables` is a JSON object of what
/// every rendering sees, such as the special tokens.
///
/// # Errors
/// Unsupported for what this compiler lacks, malformed for what the reference does not accept either; with line and column.
pub fn compile(
    source: &str,
    name: &str,
    variables: &serde_json::Map<String, serde_json::Value>,
) -> Result<Compiled, Failure> {
    if source.len() > MAX_SOURCE {
        return Err(Failure::new(Kind::Unsupported, format!("chat template: longer than {MAX_SOURCE} bytes")));
    }
    let text = lexer::normalise(source);
    let parsed = lexer::tokens(&text).and_then(|tokens| parser::Parser::new(&tokens).template());
    let output = parsed.and_then(|body| codegen::Codegen::compile(&body)).map_err(|fault| {
        let (line, column) = line_and_column(source, fault.at);
        let kind = if fault.supported_by_reference { Kind::Unsupported } else { Kind::Malformed };
        Failure::new(kind, format!("chat template, line {line}, column {column}: {}", fault.message))
    })?;
    Ok(assemble(source, name, variables, &output))
}

fn assemble(
    source: &str,
    name: &str,
    variables: &serde_json::Map<String, serde_json::Value>,
    output: &codegen::Output,
) -> Compiled {
    let variables = serde_json::Value::Object(variables.clone()).to_string();
    let mut parts: [Vec<u8>; PARTS] = Default::default();
    parts[1] = output.functions.iter().flat_map(|address| address.to_le_bytes()).collect();
    parts[2] = output.operators.iter().flat_map(|function| function.to_le_bytes()).collect();
    parts[3] = output.code.clone();
    parts[4] = output.positions.iter().flat_map(|&(pc, at)| [pc, at]).flat_map(u32::to_le_bytes).collect();
    for ((constant, function), (_, kinds)) in output.names.iter().zip(names::NAMES) {
        parts[5].extend(kinds.to_le_bytes());
        parts[5].extend(constant.to_le_bytes());
        parts[5].extend(function.to_le_bytes());
    }
    let before_pool = HEADER + 8 * output.strings.len() + parts[1..6].iter().map(Vec::len).sum::<usize>();
    for text in &output.strings {
        let listed = names::NAMES.iter().position(|(name, _)| name == text).map_or(0, |index| index + 1);
        let number = if text.starts_with("__") && text.ends_with("__") { REFUSED_NAME } else { listed };
        let packed = text.len() as u32 | (number as u32) << 24;
        parts[0].extend(((before_pool + parts[6].len()) as u32).to_le_bytes());
        parts[0].extend(packed.to_le_bytes());
        parts[6].extend(text.as_bytes());
    }
    parts[7] = UNICODE.to_vec();
    parts[8] = variables.into_bytes();
    parts[9] = name.as_bytes().to_vec();
    parts[10] = source.as_bytes().to_vec();

    let head = output.library.to_le_bytes();
    let source_hash: [u8; 32] = Sha256::digest(source).into();
    let mut program = Sha256::new();
    program.update(head);
    parts[..9].iter().for_each(|part| program.update(part));
    let program_hash: [u8; 32] = program.finalize().into();
    let mut section = Vec::new();
    section.extend(VERSION.to_le_bytes());
    section.extend(head);
    section.extend(source_hash);
    section.extend(program_hash);
    section.extend(parts.iter().flat_map(|part| (part.len() as u32).to_le_bytes()));
    section.extend(parts.concat());
    Compiled { section, source_hash, program_hash, inputs: output.inputs.iter().cloned().collect() }
}

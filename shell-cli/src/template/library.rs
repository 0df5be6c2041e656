//! The library: operators, filters, methods and functions in the template language itself, see `library.jinja` and `strings.jinja`.

use super::ast::{Param, Stmt, StmtKind};
use super::lexer;
use super::parser::Parser;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Parameters that a caller may give by name.
pub const NAMED: &[&str] = &["count", "maxsplit", "message", "sep"];

type Functions = HashMap<String, (Vec<Param>, Vec<Stmt>)>;

/// Parameters and body of each function.
pub fn functions() -> &'static Functions {
    static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| {
        let source = lexer::normalise(concat!(
            include_str!("library.jinja"),
            include_str!("strings.jinja"),
            include_str!("numbers.jinja"),
            include_str!("printing.jinja"),
        ));
        let tokens = lexer::tokens(&source).expect("the library is in order");
        let body = Parser::of_library(&tokens).template().expect("the library is in order");
        let functions = body.into_iter().filter_map(|stmt| match stmt.kind {
            StmtKind::Macro { name, params, body } => Some((name, (params, body))),
            _ => None,
        });
        functions.collect()
    });
    &FUNCTIONS
}

#[cfg(test)]
mod tests {
    use super::super::codegen::Codegen;
    use super::*;

    #[test]
    fn all_functions_compile() {
        for name in functions().keys() {
            Codegen::compile_library(name).unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
        }
    }
}

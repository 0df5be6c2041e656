//! Tokens to a syntax tree: statements.

use super::Fault;
use super::ast::{Expr, ExprKind, Param, Stmt, StmtKind, Target};
use super::lexer::{Kind, Token};
use tinyrustlm_core::template::value;

/// Deepest nesting of expressions and of statements.
const MAX_DEPTH: usize = 120;

/// Reads the tokens of one template.
pub struct Parser<'t> {
    tokens: &'t [Token],
    pub(super) at: usize,
    depth: usize,
    /// Whether the library's own statements are known.
    library: bool,
}

pub(super) fn is(token: &Token, op: &str) -> bool {
    matches!(token.kind, Kind::Op(o) if o == op)
}

pub(super) fn named(token: &Token, name: &str) -> bool {
    matches!(&token.kind, Kind::Name(n) if n == name)
}

impl<'t> Parser<'t> {
    /// A parser of these tokens, the last of which is the end.
    pub fn new(tokens: &'t [Token]) -> Self {
        Self { tokens, at: 0, depth: 0, library: false }
    }

    /// A parser of the library.
    pub fn of_library(tokens: &'t [Token]) -> Self {
        Self { library: true, ..Self::new(tokens) }
    }

    pub(super) fn peek(&self) -> &'t Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(super) fn look(&self) -> &'t Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> &'t Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    pub(super) fn skip(&mut self, op: &str) -> bool {
        let hit = is(self.peek(), op);
        self.at += hit as usize;
        hit
    }

    pub(super) fn skip_name(&mut self, name: &str) -> bool {
        let hit = named(self.peek(), name);
        self.at += hit as usize;
        hit
    }

    pub(super) fn unexpected<T>(&self, wanted: &str) -> Result<T, Fault> {
        let found = match &self.peek().kind {
            Kind::Data(_) => "text".to_owned(),
            Kind::Name(name) => format!("`{name}`"),
            Kind::Op(op) => format!("`{op}`"),
            Kind::Str(_) => "a string".to_owned(),
            Kind::Int(_) | Kind::Float(_) => "a number".to_owned(),
            Kind::End => "the end of the template".to_owned(),
            Kind::BlockBegin | Kind::VariableBegin => "a tag".to_owned(),
            Kind::BlockEnd | Kind::VariableEnd => "the end of the tag".to_owned(),
        };
        Err(Fault::syntax(self.peek().at, format!("expected {wanted}, found {found}")))
    }

    pub(super) fn expect(&mut self, op: &str) -> Result<(), Fault> {
        if self.skip(op) { Ok(()) } else { self.unexpected(&format!("`{op}`")) }
    }

    pub(super) fn name(&mut self) -> Result<String, Fault> {
        match &self.peek().kind {
            Kind::Name(name) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => self.unexpected("a name"),
        }
    }

    fn end_of_block(&mut self) -> Result<(), Fault> {
        if self.peek().kind == Kind::BlockEnd {
            self.at += 1;
            return Ok(());
        }
        self.unexpected("the end of the tag")
    }

    pub(super) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth >= MAX_DEPTH {
            return Err(Fault::unsupported(self.peek().at, format!("nesting deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    pub(super) fn expr(&self, at: usize, kind: ExprKind) -> Result<Expr, Fault> {
        let expr = Expr::new(at, kind);
        if expr.depth > MAX_DEPTH {
            return Err(Fault::unsupported(at, format!("an expression deeper than {MAX_DEPTH}")));
        }
        Ok(expr)
    }

    /// The whole template.
    pub fn template(&mut self) -> Result<Vec<Stmt>, Fault> {
        let body = self.statements(&[])?;
        if self.peek().kind != Kind::End {
            return self.unexpected("the end of the template");
        }
        Ok(body)
    }

    /// Statements up to a tag with one of these names, which is left unread behind its beginning; or to the end.
    fn statements(&mut self, ends: &[&str]) -> Result<Vec<Stmt>, Fault> {
        self.deeper(|parser| {
            let mut body = Vec::new();
            loop {
                let token = parser.next();
                let at = token.at;
                match &token.kind {
                    Kind::Data(text) => body.push(Stmt { kind: StmtKind::Data(text.clone()), at }),
                    Kind::VariableBegin => {
                        let expr = parser.tuple(true, &[], false)?;
                        if parser.peek().kind != Kind::VariableEnd {
                            return parser.unexpected("`}}`");
                        }
                        parser.at += 1;
                        body.push(Stmt { kind: StmtKind::Print(expr), at });
                    }
                    Kind::BlockBegin => {
                        if ends.iter().any(|end| named(parser.peek(), end)) {
                            return Ok(body);
                        }
                        let at = parser.peek().at;
                        let kind = parser.statement()?;
                        parser.end_of_block()?;
                        body.push(Stmt { kind, at });
                    }
                    _ if ends.is_empty() => {
                        parser.at -= 1;
                        return Ok(body);
                    }
                    _ => {
                        parser.at -= 1;
                        return parser.unexpected(&format!("`{}`", ends.join("` or `")));
                    }
                }
            }
        })
    }

    /// The body of a block and its closing tag's name.
    fn body(&mut self, ends: &[&str]) -> Result<(Vec<Stmt>, String), Fault> {
        self.end_of_block()?;
        let body = self.statements(ends)?;
        Ok((body, self.name()?))
    }

    fn statement(&mut self) -> Result<StmtKind, Fault> {
        let at = self.peek().at;
        let name = self.name()?;
        Ok(match name.as_str() {
            "if" => {
                let test = self.tuple(false, &[], false)?;
                let (body, mut end) = self.body(&["elif", "else", "endif"])?;
                let (mut elifs, mut otherwise) = (Vec::new(), Vec::new());
                while end == "elif" {
                    let test = self.tuple(false, &[], false)?;
                    let (body, next) = self.body(&["elif", "else", "endif"])?;
                    elifs.push((test, body));
                    end = next;
                }
                if end == "else" {
                    (otherwise, _) = self.body(&["endif"])?;
                }
                StmtKind::If { test, body, elifs, otherwise }
            }
            "for" => {
                let target = self.target(&["in"], false)?;
                if !self.skip_name("in") {
                    return self.unexpected("`in`");
                }
                let iter = self.tuple(false, &["recursive"], false)?;
                let test = if self.skip_name("if") { Some(self.expression(true)?) } else { None };
                if named(self.peek(), "recursive") {
                    return Err(Fault::unsupported(self.peek().at, "a recursive loop"));
                }
                let (body, end) = self.body(&["endfor", "else"])?;
                let otherwise = if end == "else" { self.body(&["endfor"])?.0 } else { Vec::new() };
                StmtKind::For { target, iter, test, body, otherwise }
            }
            "set" => {
                let target = self.target(&[], true)?;
                if self.skip("=") {
                    StmtKind::Set(target, self.tuple(true, &[], false)?)
                } else {
                    let filter = if is(self.peek(), "|") { Some(self.filters(None)?) } else { None };
                    let (body, _) = self.body(&["endset"])?;
                    StmtKind::SetBlock { target, filter, body }
                }
            }
            "macro" => {
                let name = self.name()?;
                let params = self.signature()?;
                let (body, _) = self.body(&["endmacro"])?;
                StmtKind::Macro { name, params, body }
            }
            "call" => {
                let params = if is(self.peek(), "(") { self.signature()? } else { Vec::new() };
                let call = self.expression(true)?;
                if !matches!(*call.kind, ExprKind::Call(..)) {
                    return Err(Fault::syntax(call.at, "expected a call"));
                }
                let (body, _) = self.body(&["endcall"])?;
                StmtKind::CallBlock { params, call, body }
            }
            "filter" => {
                let filter = self.filter(None)?;
                let filter = if is(self.peek(), "|") { self.filters(Some(filter))? } else { filter };
                let (body, _) = self.body(&["endfilter"])?;
                StmtKind::FilterBlock { filter, body }
            }
            "generation" => StmtKind::Generation(self.body(&["endgeneration"])?.0),
            "with" => {
                let mut targets = Vec::new();
                while self.peek().kind != Kind::BlockEnd {
                    if !targets.is_empty() {
                        self.expect(",")?;
                    }
                    let target = self.target(&[], false)?;
                    self.expect("=")?;
                    targets.push((target, self.expression(true)?));
                }
                let (body, _) = self.body(&["endwith"])?;
                StmtKind::With { targets, body }
            }
            "return" if self.library => StmtKind::Return(self.tuple(true, &[], false)?),
            "collect" if self.library => StmtKind::Collect(self.tuple(true, &[], false)?),
            "loop" if self.library => StmtKind::Forever(self.body(&["endloop"])?.0),
            "gather" | "text" | "dict" if self.library => {
                let kind = match name.as_str() {
                    "text" => value::STR,
                    "dict" => value::DICT,
                    _ => value::LIST,
                };
                let end = format!("end{name}");
                let name = self.name()?;
                let mut each = None;
                if self.skip_name("for") {
                    let target = self.target(&["in"], false)?;
                    if !self.skip_name("in") {
                        return self.unexpected("`in`");
                    }
                    each = Some((target, self.tuple(false, &[], false)?));
                }
                StmtKind::Gather { kind, name, each, body: self.body(&[end.as_str()])?.0 }
            }
            "break" => StmtKind::Break,
            "continue" => StmtKind::Continue,
            "block" | "extends" | "include" | "import" | "from" | "print" | "autoescape" => {
                return Err(Fault::unsupported(at, format!("the statement `{name}`")));
            }
            _ => return Err(Fault::syntax(at, format!("unknown statement `{name}`"))),
        })
    }

    fn signature(&mut self) -> Result<Vec<Param>, Fault> {
        self.expect("(")?;
        let mut params: Vec<Param> = Vec::new();
        while !self.skip(")") {
            if !params.is_empty() {
                self.expect(",")?;
            }
            let at = self.peek().at;
            let name = self.name()?;
            let default = if self.skip("=") { Some(self.expression(true)?) } else { None };
            if default.is_none() && params.last().is_some_and(|(_, default)| default.is_some()) {
                return Err(Fault::syntax(at, "a parameter without a default follows one with"));
            }
            if params.iter().any(|(other, _)| *other == name) {
                return Err(Fault::syntax(at, format!("the parameter `{name}` comes twice")));
            }
            params.push((name, default));
        }
        Ok(params)
    }

    /// Items with commas between, and whether there is a comma at all: one item without is no tuple.
    pub(super) fn listed<T>(
        &mut self,
        ends: &[&str],
        mut item: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<(Vec<T>, bool), Fault> {
        let mut items = Vec::new();
        let mut tuple = false;
        loop {
            if !items.is_empty() {
                self.expect(",")?;
            }
            if self.is_tuple_end(ends) {
                break;
            }
            items.push(item(self)?);
            if !is(self.peek(), ",") {
                break;
            }
            tuple = true;
        }
        Ok((items, tuple))
    }

    /// What is assigned to: names, tuples of them, attributes of namespaces where allowed.
    fn target(&mut self, ends: &[&str], attributes: bool) -> Result<Target, Fault> {
        let (mut items, tuple) = self.listed(ends, |parser| parser.target_item(attributes))?;
        match (tuple, items.pop()) {
            (false, Some(item)) => Ok(item),
            (true, Some(last)) => {
                items.push(last);
                Ok(Target::Tuple(items))
            }
            (_, None) => self.unexpected("a name"),
        }
    }

    fn target_item(&mut self, attributes: bool) -> Result<Target, Fault> {
        if is(self.peek(), "(") || is(self.peek(), "[") {
            let close = if is(self.peek(), "(") { ")" } else { "]" };
            self.at += 1;
            let inner = self.deeper(|parser| parser.target(&[], false))?;
            self.expect(close)?;
            return Ok(inner);
        }
        let at = self.peek().at;
        let name = self.name()?;
        if matches!(name.as_str(), "true" | "false" | "none" | "True" | "False" | "None") {
            return Err(Fault::syntax(at, format!("cannot assign to `{name}`")));
        }
        if attributes && self.skip(".") {
            return Ok(Target::Attr(name, self.name()?));
        }
        Ok(Target::Name(name))
    }

    pub(super) fn is_tuple_end(&self, ends: &[&str]) -> bool {
        let token = self.peek();
        matches!(token.kind, Kind::VariableEnd | Kind::BlockEnd)
            || is(token, ")")
            || ends.iter().any(|end| named(token, end))
    }
}

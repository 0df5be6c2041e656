//! Which variable a name means where: the reference's own analysis, so that a template sees the same values.
//!
//! Bodies of loops, macros and captured blocks are scopes. A name set in a scope is a variable of that scope, which begins
//! with the outer variable's value; a name only read and known nowhere outside is looked up in the input when the scope is
//! entered.

use super::ast::{Expr, ExprKind, Param, Stmt, StmtKind, Target};
use std::collections::{BTreeMap, BTreeSet};

/// A variable: the scope that defines it, and its name.
pub type Variable = (usize, String);

/// How a variable begins when its scope is entered.
#[derive(Clone, PartialEq, Debug)]
pub enum Load {
    /// Given by the loop or the call.
    Parameter,
    /// Looked up in the input.
    Resolve,
    /// The outer variable's value.
    Alias(Variable),
    /// Missing.
    Missing,
}

/// The names of one scope.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Number of the scope.
    pub id: usize,
    /// Number of the function whose slots it uses.
    pub function: usize,
    refs: BTreeMap<String, Variable>,
    /// In order of definition.
    pub loads: Vec<(Variable, Load)>,
    stores: BTreeSet<String>,
}

/// The scopes from the outermost to the one that is analysed.
#[derive(Debug, Default)]
pub struct Scopes {
    stack: Vec<Scope>,
    count: usize,
    /// Whether loops and captured blocks have no scope of their own: in the library.
    pub flat: bool,
}

impl Scopes {
    /// Opens a scope in a function.
    pub fn push(&mut self, function: usize) {
        let (refs, loads, stores) = Default::default();
        self.stack.push(Scope { id: self.count, function, refs, loads, stores });
        self.count += 1;
    }

    /// Closes the innermost scope.
    pub fn pop(&mut self) {
        self.stack.pop();
    }

    /// The innermost scope.
    pub fn top(&mut self) -> &mut Scope {
        self.stack.last_mut().expect("a scope is open while a template is compiled")
    }

    fn outer(&self, name: &str) -> Option<Variable> {
        let outer = &self.stack[..self.stack.len() - 1];
        outer.iter().rev().find_map(|scope| scope.refs.get(name)).cloned()
    }

    /// The variable a name means in the innermost scope.
    pub fn find(&self, name: &str) -> Option<Variable> {
        self.stack.iter().rev().find_map(|scope| scope.refs.get(name)).cloned()
    }

    /// Whether the innermost scope sets the name.
    pub fn sets(&mut self, name: &str) -> bool {
        self.top().stores.contains(name)
    }

    /// How a variable begins.
    pub fn load_of(&self, variable: &Variable) -> Option<&Load> {
        let mut loads = self.stack.iter().rev().flat_map(|scope| &scope.loads);
        loads.find(|(other, _)| other == variable).map(|(_, load)| load)
    }

    /// The function a variable's slot belongs to.
    pub fn function_of(&self, variable: &Variable) -> usize {
        self.stack.iter().find(|scope| scope.id == variable.0).map_or(0, |scope| scope.function)
    }

    fn define(&mut self, name: &str, load: Load) -> Variable {
        let top = self.top();
        let variable = (top.id, name.to_owned());
        top.refs.insert(name.to_owned(), variable.clone());
        top.set_load(variable.clone(), load);
        variable
    }

    /// A name that is given from outside: loop target, parameter.
    pub fn parameter(&mut self, name: &str) -> Variable {
        self.top().stores.insert(name.to_owned());
        self.define(name, Load::Parameter)
    }

    fn store(&mut self, name: &str) {
        self.top().stores.insert(name.to_owned());
        if !self.top().refs.contains_key(name) {
            let load = self.outer(name).map_or(Load::Missing, Load::Alias);
            self.define(name, load);
        }
    }

    fn read(&mut self, name: &str) {
        if self.find(name).is_none() {
            self.define(name, Load::Resolve);
        }
    }

    /// Names of an expression.
    pub fn expr(&mut self, expr: &Expr) {
        if let ExprKind::Name(name) = &*expr.kind {
            self.read(name);
        }
        let mut children = Vec::new();
        expr.children(&mut |child| children.push(child));
        for child in children {
            self.expr(child);
        }
    }

    /// Names of a target.
    pub fn target(&mut self, target: &Target, parameter: bool) {
        match target {
            Target::Name(name) if parameter => {
                self.parameter(name);
            }
            Target::Name(name) => self.store(name),
            Target::Tuple(items) => items.iter().for_each(|item| self.target(item, parameter)),
            Target::Attr(namespace, _) => self.read(namespace),
        }
    }

    /// Names of a macro's or call block's head.
    pub fn params(&mut self, params: &[Param]) {
        for (name, _) in params {
            self.parameter(name);
        }
        for default in params.iter().filter_map(|(_, default)| default.as_ref()) {
            self.expr(default);
        }
    }

    /// Names of statements, as far as they belong to the scope that holds them.
    pub fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Data(_) | StmtKind::Generation(_) | StmtKind::Break | StmtKind::Continue => {}
                StmtKind::Print(expr) => self.expr(expr),
                StmtKind::If { test, body, elifs, otherwise } => {
                    self.expr(test);
                    self.branches(body, elifs, otherwise);
                }
                StmtKind::For { iter, target, body, .. } => {
                    self.expr(iter);
                    if self.flat {
                        self.target(target, true);
                        self.body(body);
                    }
                }
                StmtKind::Return(expr) | StmtKind::Collect(expr) => self.expr(expr),
                StmtKind::Forever(body) => self.body(body),
                StmtKind::Gather { name, each, body, .. } => {
                    if let Some((target, iter)) = each {
                        self.expr(iter);
                        self.target(target, true);
                    }
                    self.body(body);
                    self.parameter(name);
                }
                StmtKind::Set(target, value) => {
                    self.expr(value);
                    self.target(target, false);
                }
                StmtKind::SetBlock { target, body, .. } => {
                    self.target(target, false);
                    if self.flat {
                        self.body(body);
                    }
                }
                StmtKind::Macro { name, .. } => self.store(name),
                StmtKind::CallBlock { call, .. } => self.expr(call),
                StmtKind::FilterBlock { filter, .. } => self.expr(filter),
                StmtKind::With { targets, .. } => targets.iter().for_each(|(_, value)| self.expr(value)),
            }
        }
    }

    /// An `if` with its branches; of an `elif`, the rest is a branch of its own.
    fn branches(&mut self, body: &[Stmt], elifs: &[(Expr, Vec<Stmt>)], otherwise: &[Stmt]) {
        let original = self.top().clone();
        self.body(body);
        let first = std::mem::replace(self.top(), original.clone());
        for (test, body) in elifs {
            self.expr(test);
            self.branches(body, &[], &[]);
        }
        let second = std::mem::replace(self.top(), original);
        let original = self.top().clone();
        self.body(otherwise);
        let third = std::mem::replace(self.top(), original);

        let mut stores = BTreeSet::new();
        for branch in [&first, &second, &third] {
            stores.extend(branch.stores.difference(&self.top().stores).cloned());
        }
        for branch in [first, second, third] {
            let top = self.top();
            top.refs.extend(branch.refs);
            for (variable, load) in branch.loads {
                top.set_load(variable, load);
            }
            top.stores.extend(branch.stores);
        }
        for name in stores {
            let load = self.outer(&name).map_or(Load::Resolve, Load::Alias);
            if let Some(variable) = self.find(&name) {
                self.top().set_load(variable, load);
            }
        }
    }
}

impl Scope {
    fn set_load(&mut self, variable: Variable, load: Load) {
        match self.loads.iter_mut().find(|(other, _)| *other == variable) {
            Some((_, old)) => *old = load,
            None => self.loads.push((variable, load)),
        }
    }
}

/// Whether a body reads a name anywhere, also inside of what it holds.
pub fn reads(body: &[Stmt], name: &str) -> bool {
    fn expr(e: &Expr, name: &str) -> bool {
        let mut hit = matches!(&*e.kind, ExprKind::Name(other) if other == name);
        e.children(&mut |child| hit = hit || expr(child, name));
        hit
    }
    let any = |e: &Expr| expr(e, name);
    let params = |params: &[Param]| params.iter().filter_map(|(_, default)| default.as_ref()).any(any);
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Data(_) | StmtKind::Break | StmtKind::Continue => false,
        StmtKind::Print(e) => any(e),
        StmtKind::Set(target, e) => any(e) || matches!(target, Target::Attr(other, _) if other == name),
        StmtKind::If { test, body, elifs, otherwise } => {
            any(test)
                || reads(body, name)
                || elifs.iter().any(|(test, body)| any(test) || reads(body, name))
                || reads(otherwise, name)
        }
        StmtKind::For { iter, test, body, otherwise, .. } => {
            any(iter) || test.as_ref().is_some_and(any) || reads(body, name) || reads(otherwise, name)
        }
        StmtKind::SetBlock { filter, body, .. } => filter.as_ref().is_some_and(any) || reads(body, name),
        StmtKind::Macro { params: head, body, .. } => params(head) || reads(body, name),
        StmtKind::CallBlock { params: head, call, body } => params(head) || any(call) || reads(body, name),
        StmtKind::FilterBlock { filter, body } => any(filter) || reads(body, name),
        StmtKind::Generation(body) | StmtKind::Forever(body) => reads(body, name),
        StmtKind::Return(e) | StmtKind::Collect(e) => any(e),
        StmtKind::Gather { each, body, .. } => each.as_ref().is_some_and(|(_, e)| any(e)) || reads(body, name),
        StmtKind::With { targets, body } => targets.iter().any(|(_, e)| any(e)) || reads(body, name),
    })
}

//! Syntax tree to program: the parts of a program, its instructions, and the variables they use.

use super::Fault;
use super::ast::Stmt;
use super::library;
use super::scope::{Load, Scopes, Variable};
use super::statements::Loop;
use std::collections::{BTreeSet, HashMap};
use tinyrustlm_core::template::names::UNSUPPORTED;
use tinyrustlm_core::template::op::{self, hook};
use tinyrustlm_core::template::value::{self, Value};

/// Bit of an operator of [`binary`]: its result is negated.
pub const NEGATED: u8 = 0x80;

/// The library's function of each operator, for what the machine does not do itself, and others that it calls.
const OPERATORS: [&str; hook::COUNT] = [
    "op_add",
    "op_sub",
    "op_mul",
    "op_div",
    "op_floordiv",
    "op_mod",
    "op_pow",
    "op_eq",
    "op_lt",
    "op_le",
    "op_gt",
    "op_ge",
    "op_in",
    "text",
    "json_number",
];

/// The parts of a program.
#[derive(Debug, Default)]
pub struct Output {
    /// Constants, each once.
    pub strings: Vec<String>,
    /// Address of each function; the first is the template.
    pub functions: Vec<u32>,
    /// Function of each operator.
    pub operators: [u16; hook::COUNT],
    /// Instructions.
    pub code: Vec<u8>,
    /// Address in the code and offset in the source, ascending.
    pub positions: Vec<(u32, u32)>,
    /// Names looked up in the input.
    pub inputs: BTreeSet<String>,
    /// Address at which the library's functions begin.
    pub library: u32,
    /// Constant and function of each of [`NAMES`].
    pub names: Vec<(u16, u16)>,
}

/// Compiles one template.
pub struct Codegen {
    pub(super) out: Output,
    pub(super) constants: HashMap<String, u16>,
    pub(super) scopes: Scopes,
    /// Slots of each function so far, and the function that encloses it.
    pub(super) functions: Vec<(u16, Option<usize>)>,
    pub(super) function: usize,
    pub(super) slots: HashMap<Variable, u16>,
    pub(super) loops: Vec<Loop>,
    pub(super) soft: bool,
    /// Functions of the library in use, and those of them that are not compiled yet.
    pub(super) used: HashMap<String, u16>,
    pub(super) waiting: Vec<String>,
}

impl Codegen {
    pub(super) fn new() -> Self {
        Self {
            out: Output { operators: [UNSUPPORTED; hook::COUNT], ..Output::default() },
            constants: HashMap::new(),
            scopes: Scopes::default(),
            functions: vec![(0, None)],
            function: 0,
            slots: HashMap::new(),
            loops: Vec::new(),
            soft: false,
            used: HashMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Compiles the statements of a template.
    pub fn compile(body: &[Stmt]) -> Result<Output, Fault> {
        let mut codegen = Self::new();
        codegen.out.functions.push(0);
        codegen.calls(hook::TEXT)?;
        codegen.calls(hook::NUMBER)?;
        let head = codegen.head(&[], 0, 0)?;
        codegen.scopes.push(0);
        codegen.scopes.body(body);
        codegen.enter()?;
        codegen.body(body)?;
        codegen.op(op::HALT);
        codegen.end_head(head);
        codegen.library()?;
        Ok(codegen.out)
    }

    /// Whether the library is being compiled.
    pub(super) fn in_library(&self) -> bool {
        self.scopes.flat
    }

    pub(super) fn native(&mut self, which: u8, count: u8) {
        self.op8(op::NATIVE, which);
        self.op(count);
    }

    /// The machine calls this function of [`OPERATORS`].
    fn calls(&mut self, function: u8) -> Result<(), Fault> {
        self.out.operators[function as usize] = self.function(OPERATORS[function as usize])?;
        Ok(())
    }

    pub(super) fn binary(&mut self, which: u8) -> Result<(), Fault> {
        let operator = which & !NEGATED;
        self.calls(operator)?;
        self.op8(op::BINARY, operator);
        if which != operator {
            self.op(op::NOT);
        }
        Ok(())
    }

    pub(super) fn op(&mut self, op: u8) {
        self.out.code.push(op);
    }

    pub(super) fn op8(&mut self, op: u8, operand: u8) {
        self.out.code.extend([op, operand]);
    }

    pub(super) fn op16(&mut self, op: u8, operand: u16) {
        self.op(op);
        self.out.code.extend(operand.to_le_bytes());
    }

    /// Pushes a value as it is.
    pub(super) fn push(&mut self, item: Value) {
        self.op(op::PUSH);
        self.out.code.extend(item.word().to_le_bytes());
    }

    pub(super) fn int(&mut self, number: i64) {
        let small = Value::small(number);
        if small.inline() == number { self.push(small) } else { self.wide(value::WIDE, number as u64) }
    }

    pub(super) fn float(&mut self, number: f64) {
        self.wide(value::FLOAT, number.to_bits());
    }

    fn wide(&mut self, kind: u8, word: u64) {
        self.op8(op::WIDE, kind);
        self.out.code.extend(word.to_le_bytes());
    }

    /// The top `count` values become one of this kind.
    pub(super) fn make(&mut self, at: usize, kind: u8, count: usize) -> Result<(), Fault> {
        let count = Self::count(at, count)?;
        self.op8(op::MAKE, kind);
        self.out.code.extend(count.to_le_bytes());
        Ok(())
    }

    /// Begins the function that runs from here: `names` are the constants of its parameters, and of a caller. Its slots
    /// are counted when it ends.
    pub(super) fn head(&mut self, names: &[u16], params: u16, flags: u8) -> Result<usize, Fault> {
        let at = self.out.code.len();
        self.out.code.extend([0; 2]);
        self.out.code.extend(params.to_le_bytes());
        self.op(flags);
        self.out.code.extend(names.iter().flat_map(|name| name.to_le_bytes()));
        Ok(at)
    }

    /// Ends the running function.
    pub(super) fn end_head(&mut self, at: usize) {
        let slots = self.functions[self.function].0;
        self.out.code[at..at + 2].copy_from_slice(&slots.to_le_bytes());
    }

    /// An instruction that ends in an address, which [`Self::land`] fills in.
    pub(super) fn jump(&mut self, bytes: &[u8]) -> usize {
        self.out.code.extend(bytes);
        self.out.code.extend([0; 4]);
        self.out.code.len() - 4
    }

    /// Lets a jump go to what comes next.
    pub(super) fn land(&mut self, jump: usize) {
        let here = self.here();
        self.out.code[jump..jump + 4].copy_from_slice(&here.to_le_bytes());
    }

    pub(super) fn here(&self) -> u32 {
        self.out.code.len() as u32
    }

    pub(super) fn jump_back(&mut self, op: u8, to: u32) {
        self.op(op);
        self.out.code.extend(to.to_le_bytes());
    }

    /// What follows in the code stands at `at` in the source.
    pub(super) fn mark(&mut self, at: usize) {
        if self.in_library() {
            return;
        }
        let (pc, at) = (self.here(), at as u32);
        match self.out.positions.last_mut() {
            Some(last) if last.1 == at => {}
            Some(last) if last.0 == pc => last.1 = at,
            _ => self.out.positions.push((pc, at)),
        }
    }

    pub(super) fn constant(&mut self, at: usize, text: &str) -> Result<u16, Fault> {
        if let Some(index) = self.constants.get(text) {
            return Ok(*index);
        }
        let index = u16::try_from(self.out.strings.len()).ok().filter(|&index| index < u16::MAX);
        let index = index.filter(|_| text.len() < 1 << 24).ok_or(Fault::unsupported(at, "so many or so long texts"))?;
        self.out.strings.push(text.to_owned());
        self.constants.insert(text.to_owned(), index);
        Ok(index)
    }

    pub(super) fn count(at: usize, count: usize) -> Result<u16, Fault> {
        u16::try_from(count).map_err(|_| Fault::unsupported(at, "so many items"))
    }

    /// A new slot of the running function.
    pub(super) fn fresh(&mut self, function: usize) -> Result<u16, Fault> {
        let next = &mut self.functions[function].0;
        *next = next.checked_add(1).ok_or(Fault::unsupported(0, "so many variables"))?;
        Ok(*next - 1)
    }

    pub(super) fn slot(&mut self, variable: &Variable) -> Result<u16, Fault> {
        if let Some(slot) = self.slots.get(variable) {
            return Ok(*slot);
        }
        let slot = self.fresh(self.scopes.function_of(variable))?;
        self.slots.insert(variable.clone(), slot);
        Ok(slot)
    }

    /// Pushes a slot of the running function.
    pub(super) fn load_slot(&mut self, slot: u16) {
        self.op8(op::LOAD_RAW, 0);
        self.out.code.extend(slot.to_le_bytes());
    }

    /// Functions outward, and slot.
    fn place(&mut self, variable: &Variable) -> Result<(u8, u16), Fault> {
        let home = self.scopes.function_of(variable);
        let (mut at, mut up) = (self.function, 0u8);
        while at != home {
            at = self.functions[at].1.unwrap_or(home);
            up = up.checked_add(1).ok_or(Fault::unsupported(0, "macros nested so deep"))?;
        }
        Ok((up, self.slot(variable)?))
    }

    pub(super) fn placed(&mut self, op: u8, variable: &Variable) -> Result<(), Fault> {
        let (up, slot) = self.place(variable)?;
        self.op8(op, up);
        self.out.code.extend(slot.to_le_bytes());
        Ok(())
    }

    pub(super) fn missing_name<T>(at: usize, name: &str) -> Result<T, Fault> {
        Err(Fault::unsupported(at, format!("the name `{name}` here")))
    }

    /// Whether a name is looked up in the input, and never set by the template.
    pub(super) fn is_input(&self, name: &str) -> bool {
        let variable = self.scopes.find(name);
        variable.is_some_and(|variable| self.scopes.load_of(&variable) == Some(&Load::Resolve))
    }

    /// Pushes a variable.
    pub(super) fn load(&mut self, at: usize, name: &str) -> Result<(), Fault> {
        match self.scopes.find(name) {
            Some(variable) => self.placed(op::LOAD, &variable),
            None => Self::missing_name(at, name),
        }
    }

    pub(super) fn store(&mut self, at: usize, name: &str) -> Result<(), Fault> {
        let Some(variable) = self.scopes.find(name) else { return Self::missing_name(at, name) };
        let slot = self.slot(&variable)?;
        self.op16(op::STORE, slot);
        Ok(())
    }

    /// Gives the innermost scope's variables their first values.
    pub(super) fn enter(&mut self) -> Result<(), Fault> {
        for (variable, load) in self.scopes.top().loads.clone() {
            let slot = self.slot(&variable)?;
            if self.in_library() {
                // All slots of a function begin missing.
                let name = &variable.1;
                let function = library::functions().contains_key(name) || name == "_fail";
                if load == Load::Resolve && !function && !self.scopes.sets(name) {
                    return Self::missing_name(0, name);
                }
                continue;
            }
            match load {
                Load::Parameter => {}
                Load::Missing => {
                    self.push(Value::of(value::MISSING));
                    self.op16(op::STORE, slot);
                }
                Load::Alias(outer) => {
                    self.placed(op::LOAD_RAW, &outer)?;
                    self.op16(op::STORE, slot);
                }
                Load::Resolve => {
                    if matches!(variable.1.as_str(), "cycler" | "joiner" | "lipsum") {
                        return Err(Fault::unsupported(0, format!("the function `{}`", variable.1)));
                    }
                    self.out.inputs.insert(variable.1.clone());
                    let name = self.constant(0, &variable.1)?;
                    let (visible, absent) = self.absent(&variable.1)?;
                    self.push(absent);
                    self.op16(op::RESOLVE, name);
                    self.op(visible as u8);
                    self.op16(op::STORE, slot);
                }
            }
        }
        Ok(())
    }

    /// Whether the input itself has the name, and its value when it is nowhere.
    fn absent(&mut self, name: &str) -> Result<(bool, Value), Fault> {
        let function = |number: u16| Value::new(value::FUNCTION, 0, number as usize);
        Ok(match name {
            "messages" => (true, Value::of(value::MISSING)),
            "tools" | "documents" => (true, Value::of(value::NONE)),
            "add_generation_prompt" => (true, Value::bool(false)),
            // With a constant format it is no call; otherwise it is refused when it is called.
            "strftime_now" => (false, function(UNSUPPORTED)),
            "namespace" | "raise_exception" | "range" | "dict" => {
                (false, function(self.function(&format!("function_{name}"))?))
            }
            _ => (false, Value::of(value::MISSING)),
        })
    }

    /// A scope around a part of the same function.
    pub(super) fn scoped(
        &mut self,
        analyse: impl FnOnce(&mut Scopes),
        emit: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.in_library() {
            return emit(self);
        }
        self.scopes.push(self.function);
        analyse(&mut self.scopes);
        let soft = std::mem::replace(&mut self.soft, false);
        emit(self)?;
        self.soft = soft;
        self.scopes.pop();
        Ok(())
    }
}

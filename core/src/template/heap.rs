//! Where the machine's values are: one memory, the stack in front and behind it the heap that only grows.

use super::Fail;
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

impl Vm<'_> {
    /// The value at a place of the memory; missing outside.
    #[inline(never)]
    pub(super) fn load(&self, index: usize) -> Value {
        Value::from_word(self.word(index))
    }

    fn word(&self, index: usize) -> u64 {
        self.memory.get(index).copied().unwrap_or(0)
    }

    /// Puts a value at a place of the memory; nothing outside.
    #[inline(never)]
    pub(super) fn store(&mut self, index: usize, item: Value) {
        if let Some(place) = self.memory.get_mut(index) {
            *place = item.word();
        }
    }

    #[inline(never)]
    pub(super) fn push(&mut self, item: Value) -> Result<(), Fail> {
        if self.sp >= self.stack_end {
            return self.fail(Code::TemplateStack);
        }
        self.store(self.sp, item);
        self.sp = self.sp.wrapping_add(1);
        Ok(())
    }

    /// The top, which is dropped. A damaged program may go below the stack: there all is missing, and no push succeeds.
    #[inline(never)]
    pub(super) fn pop(&mut self) -> Value {
        self.sp = self.sp.wrapping_sub(1);
        self.load(self.sp)
    }

    /// The value `below` the top of the stack; 0 is the top.
    pub(super) fn peek(&self, below: usize) -> Value {
        self.load(self.sp.wrapping_sub(below).wrapping_sub(1))
    }

    /// A cell of the heap with one word.
    pub(super) fn cell(&mut self, kind: u8, word: u64) -> Result<Value, Fail> {
        let at = self.alloc(1)?;
        if let Some(place) = self.memory.get_mut(at) {
            *place = word;
        }
        Ok(Value::new(kind, at, 0))
    }

    /// An integer as a value.
    pub(super) fn integer(&mut self, number: i64) -> Result<Value, Fail> {
        let small = Value::small(number);
        if small.inline() == number { Ok(small) } else { self.cell(value::WIDE, number as u64) }
    }

    /// A float as a value.
    pub(super) fn float(&mut self, number: f64) -> Result<Value, Fail> {
        self.cell(value::FLOAT, number.to_bits())
    }

    /// The number of an integer or bool; 0 of anything else.
    pub(super) fn int_of(&self, item: Value) -> i64 {
        match item.kind() {
            value::INT => item.inline(),
            value::BOOL => item.at() as i64,
            value::WIDE => self.word(item.at()) as i64,
            _ => 0,
        }
    }

    /// A number as a float.
    pub(super) fn float_of(&self, item: Value) -> f64 {
        if item.kind() == value::FLOAT { f64::from_bits(self.word(item.at())) } else { self.int_of(item) as f64 }
    }

    /// Copies values to a place behind them.
    pub(super) fn move_words(&mut self, from: usize, to: usize, count: usize) {
        for offset in 0..count {
            self.store(to.wrapping_add(offset), self.load(from.wrapping_add(offset)));
        }
    }

    /// Takes `count` values of the heap.
    pub(super) fn alloc(&mut self, count: usize) -> Result<usize, Fail> {
        let at = self.top;
        let end = at.checked_add(count).filter(|&end| end <= self.memory.len());
        self.top = self.need(end, Code::TemplateMemory)?;
        self.charge(count / 8)?;
        Ok(at)
    }

    /// The top `count` values of the stack as one: items of a list or tuple, keys and values of a dict, pieces of a string.
    pub(super) fn make(&mut self, kind: u8, count: usize) -> Result<Value, Fail> {
        let first = self.sp.wrapping_sub(count);
        if kind == value::STR {
            let text = self.concat(count);
            self.sp = first;
            return text;
        }
        let at = self.alloc(count)?;
        if kind == value::DICT {
            return self.make_dict(at, first);
        }
        self.move_words(first, at, count);
        self.sp = first;
        Ok(Value::new(kind, at, count))
    }

    /// Moves keys and values from `first` to the top of the stack into a dict. A key that comes again replaces the value
    /// and keeps the place.
    fn make_dict(&mut self, at: usize, first: usize) -> Result<Value, Fail> {
        let mut count = 0usize;
        let mut index = first;
        while index < self.sp {
            let (key, item) = (self.load(index), self.load(index.wrapping_add(1)));
            index = index.wrapping_add(2);
            let place = match self.dict_find(Value::new(value::DICT, at, count), key)? {
                Some(place) => place,
                None => {
                    let place = at.wrapping_add(2 * count);
                    self.store(place, key);
                    count = count.wrapping_add(1);
                    place
                }
            };
            self.store(place.wrapping_add(1), item);
        }
        self.sp = first;
        Ok(Value::new(value::DICT, at, count))
    }
}

//! Calls: macros, functions of the environment, methods of Python's types.

use super::Fail;
use super::names::id;
use super::op::function;
use super::text::{count, find, find_last, part};
use super::unicode::{self, Case};
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

/// The arguments of a call: where they stand on the stack, how many positional ones and how many pairs of name and value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Args {
    first: usize,
    positional: usize,
    named: usize,
}

impl Vm<'_> {
    /// On the stack: object, callee, positional arguments, pairs of name and value. Leaves the result, or begins a macro.
    pub(super) fn call(&mut self, positional: usize, named: usize, spread: bool) -> Result<(), Fail> {
        let mut positional = positional;
        if spread {
            if named > 0 {
                return self.fail(Code::TemplateUnsupported);
            }
            let more = self.pop()?;
            let more = self.listed(more)?;
            for index in 0..more.len() {
                self.push(self.entry(more, index))?;
            }
            positional = positional.wrapping_sub(1).wrapping_add(more.len());
        }
        let size = positional.wrapping_add(2 * named);
        let first = self.sp.wrapping_sub(size);
        let restore = first.wrapping_sub(2);
        let (below, callee) = (self.stack_at(restore)?, self.stack_at(restore.wrapping_add(1))?);
        let args = Args { first, positional, named };
        let result = match callee.kind() {
            value::MACRO => return self.call_macro(callee, first, positional, named, restore),
            value::FUNCTION => self.function(callee.len(), args)?,
            value::METHOD if callee.at() == 0 => self.method(callee.len() as u8, below, args)?,
            value::METHOD => self.method(callee.len() as u8, self.heap_at(callee.at().wrapping_sub(1)), args)?,
            _ if callee.is_undefined() => return self.fail(Self::misuse(callee)),
            _ => return self.fail(Code::TemplateTypeError),
        };
        self.sp = restore;
        self.push(result)
    }

    pub(super) fn arg(&self, args: Args, index: usize) -> Value {
        let at = args.first.wrapping_add(index);
        if index < args.positional {
            self.stack_at(at).unwrap_or(Value::of(value::MISSING))
        } else {
            Value::of(value::MISSING)
        }
    }

    /// The value of a named argument.
    pub(super) fn named(&self, args: Args, name: &[u8]) -> Option<Value> {
        let pairs = args.first.wrapping_add(args.positional);
        (0..args.named).map(|pair| pairs.wrapping_add(2 * pair)).find_map(|at| {
            let key = self.stack_at(at).ok()?;
            if self.text.of(key) == name { self.stack_at(at.wrapping_add(1)).ok() } else { None }
        })
    }

    fn function(&mut self, which: usize, args: Args) -> Result<Value, Fail> {
        let first = self.arg(args, 0);
        match which {
            function::NAMESPACE | function::DICT => {
                let floor = self.sp;
                if args.positional > 1 {
                    return self.fail(Code::TemplateTypeError);
                }
                if args.positional == 1 {
                    self.push_pairs(first)?;
                }
                let pairs = args.first.wrapping_add(args.positional);
                for index in 0..2 * args.named {
                    self.push(self.stack_at(pairs.wrapping_add(index))?)?;
                }
                let dict = self.make_dict(floor)?;
                if which == function::DICT {
                    return Ok(dict);
                }
                for index in 0..dict.len() {
                    if self.text.of(self.entry(dict, index)).starts_with(b"_") {
                        return self.fail(Code::TemplateSecurityError);
                    }
                }
                let cell = self.alloc(2)?;
                self.set_heap(cell, dict);
                self.set_heap(cell.wrapping_add(1), Value::new(value::MARK, 0, dict.len()));
                Ok(Value::new(value::NAMESPACE, cell, 0))
            }
            function::RAISE_EXCEPTION => {
                if args.positional.wrapping_add(args.named) != 1 {
                    return self.fail(Code::TemplateTypeError);
                }
                let message = if args.positional == 1 { Some(first) } else { self.named(args, b"message") };
                let message = self.need(message, Code::TemplateTypeError)?;
                let message = self.string_of(message)?;
                self.fail_with(message);
                self.fail(Code::TemplateRaised)
            }
            function::STRFTIME_NOW => self.fail(Code::TemplateUnsupported),
            _ => self.range(args),
        }
    }

    /// Pushes the pairs of a dict, or of an iterable of pairs.
    fn push_pairs(&mut self, source: Value) -> Result<(), Fail> {
        let dict = if source.kind() == value::NAMESPACE { self.heap_at(source.at()) } else { source };
        let source = if dict.kind() == value::DICT { dict.seen_as(value::ITEMS) } else { dict };
        let list = self.listed(source)?;
        for index in 0..list.len() {
            self.push(self.entry(list, index))?;
            self.unpack(2)?;
            let (key, item) = (self.pop()?, self.pop()?);
            self.push(key)?;
            self.push(item)?;
        }
        Ok(())
    }

    fn range(&mut self, args: Args) -> Result<Value, Fail> {
        if args.named > 0 || !(1..=3).contains(&args.positional) {
            return self.fail(Code::TemplateTypeError);
        }
        let mut bounds = [0i64, 0, 1];
        for (index, bound) in bounds.iter_mut().enumerate().take(args.positional) {
            let item = self.arg(args, index);
            if !item.is_integer() {
                return self.fail(Code::TemplateTypeError);
            }
            *bound = self.int_of(item);
        }
        let [mut start, mut stop, step] = bounds;
        if args.positional == 1 {
            (start, stop) = (0, start);
        }
        if step == 0 {
            return self.fail(Code::TemplateValueError);
        }
        // Bounds beyond 2^54 would only make ranges longer than the limit, or could not be told apart from it.
        if (start.unsigned_abs() | stop.unsigned_abs() | step.unsigned_abs()) >> 54 != 0 {
            return self.fail(Code::TemplateOverflow);
        }
        let distance = if step > 0 { stop.wrapping_sub(start) } else { start.wrapping_sub(stop) }.max(0) as u64;
        let size = step.unsigned_abs();
        let length = distance.wrapping_add(size).wrapping_sub(1).checked_div(size).unwrap_or(0);
        if length > super::MAX_RANGE {
            return self.fail(Code::TemplateOverflow);
        }
        let at = self.alloc(3)?;
        for (offset, number) in [start, step, stop].into_iter().enumerate() {
            self.set_heap(at.wrapping_add(offset), Value::small(number));
        }
        Ok(Value::new(value::RANGE, at, length as usize))
    }

    fn text_arg(&self, args: Args, index: usize) -> Result<Value, Fail> {
        let item = self.arg(args, index);
        if item.kind() == value::STR { Ok(item) } else { self.fail(Code::TemplateTypeError) }
    }

    fn method(&mut self, which: u8, object: Value, args: Args) -> Result<Value, Fail> {
        if args.named > 0 && !matches!(which, id::format | id::split | id::rsplit | id::replace) {
            return self.fail(Code::TemplateTypeError);
        }
        let first = self.arg(args, 0);
        let most = match which {
            id::format | id::cycle => usize::MAX,
            id::replace | id::find | id::rfind | id::index | id::count | id::startswith | id::endswith => 3,
            id::split | id::rsplit | id::get => 2,
            id::strip | id::lstrip | id::rstrip | id::join | id::removeprefix | id::removesuffix | id::splitlines => 1,
            _ => 0,
        };
        if args.positional > most {
            return self.fail(Code::TemplateTypeError);
        }
        self.charge(object.weight() / 4)?;
        match which {
            id::strip | id::lstrip | id::rstrip => self.strip(object, first, which != id::rstrip, which != id::lstrip),
            id::upper => self.case(object, Case::Upper, false),
            id::lower => self.case(object, Case::Lower, false),
            id::capitalize => self.case(object, Case::Title, true),
            id::title => self.title(object, true),
            id::split | id::rsplit => {
                let separator = self.named(args, b"sep").unwrap_or(first);
                let limit = self.named(args, b"maxsplit").unwrap_or(self.arg(args, 1));
                let limit = if limit.is_integer() { self.int_of(limit) } else { -1 };
                self.split(object, separator, limit, which == id::rsplit)
            }
            id::splitlines if args.positional == 0 => self.split_lines(object),
            id::join => self.join(object, first, false),
            id::replace => {
                let limit = self.named(args, b"count").unwrap_or(self.arg(args, 2));
                let limit = if limit.is_integer() { self.int_of(limit) } else { -1 };
                self.replace(object, first, self.arg(args, 1), limit)
            }
            id::startswith | id::endswith => self.affix(which, object, args),
            id::removeprefix | id::removesuffix => {
                let affix = self.text_arg(args, 0)?;
                let (bytes, affix) = (self.text.of(object), self.text.of(affix));
                Ok(if which == id::removeprefix && bytes.starts_with(affix) {
                    part(object, affix.len(), bytes.len())
                } else if which == id::removesuffix && bytes.ends_with(affix) {
                    part(object, 0, bytes.len().saturating_sub(affix.len()))
                } else {
                    object
                })
            }
            id::find | id::rfind | id::index | id::count => self.search(which, object, args),
            id::isdigit | id::isspace => {
                let bytes = self.text.of(object);
                if which == id::isdigit && !bytes.is_ascii() {
                    return self.fail(Code::TemplateUnsupported);
                }
                let mut all = !bytes.is_empty();
                let mut at = 0;
                while all && at < bytes.len() {
                    let (point, len) = super::text::decode(bytes, at);
                    all = if which == id::isdigit { (48..58).contains(&point) } else { unicode::is_space(point) };
                    at = at.wrapping_add(len.max(1));
                }
                Ok(Value::bool(all))
            }
            id::format => self.format_braces(object, args),
            id::get => {
                if args.positional == 0 {
                    return self.fail(Code::TemplateTypeError);
                }
                let absent = if args.positional > 1 { self.arg(args, 1) } else { Value::of(value::NONE) };
                Ok(self.dict_find(object, first)?.map_or(absent, |slot| self.heap_at(slot.wrapping_add(1))))
            }
            id::items => Ok(object.seen_as(value::ITEMS)),
            id::keys => Ok(object.seen_as(value::KEYS)),
            id::values => Ok(object.seen_as(value::VALUES)),
            id::cycle => {
                let (index, ..) = self.loop_state(object)?;
                match index.checked_rem(args.positional) {
                    Some(which) => Ok(self.arg(args, which)),
                    None => self.fail(Code::TemplateTypeError),
                }
            }
            _ => self.fail(Code::TemplateUnsupported),
        }
    }

    fn affix(&mut self, which: u8, object: Value, args: Args) -> Result<Value, Fail> {
        if args.positional != 1 {
            return self.fail(if args.positional == 0 { Code::TemplateTypeError } else { Code::TemplateUnsupported });
        }
        let affix = self.arg(args, 0);
        let (single, choices) = match affix.kind() {
            value::STR => (true, 1),
            value::TUPLE => (false, affix.len()),
            _ => return self.fail(Code::TemplateTypeError),
        };
        for index in 0..choices {
            let choice = if single { affix } else { self.entry(affix, index) };
            if choice.kind() != value::STR {
                return self.fail(Code::TemplateTypeError);
            }
            let (bytes, choice) = (self.text.of(object), self.text.of(choice));
            if if which == id::startswith { bytes.starts_with(choice) } else { bytes.ends_with(choice) } {
                return Ok(Value::bool(true));
            }
        }
        Ok(Value::bool(false))
    }

    /// `find`, `rfind`, `index`, `count`, of strings and sequences.
    fn search(&mut self, which: u8, object: Value, args: Args) -> Result<Value, Fail> {
        if args.positional != 1 {
            return self.fail(if args.positional == 0 { Code::TemplateTypeError } else { Code::TemplateUnsupported });
        }
        if object.kind() != value::STR {
            let (source, needle) = (self.iterable(object)?, self.arg(args, 0));
            let mut hits = 0;
            for index in 0..self.length(source).unwrap_or(0) {
                let entry = self.entry(source, index);
                if self.equal(entry, needle)? {
                    if which == id::index {
                        return Ok(Value::small(index as i64));
                    }
                    hits += 1;
                }
            }
            return if which == id::index { self.fail(Code::TemplateValueError) } else { Ok(Value::small(hits)) };
        }
        let needle = self.text_arg(args, 0)?;
        self.charge((object.len() / 16).saturating_mul(needle.len() / 16 + 1))?;
        let (bytes, needle) = (self.text.of(object), self.text.of(needle));
        if which == id::count {
            if needle.is_empty() {
                return Ok(Value::small(count(bytes) as i64 + 1));
            }
            let (mut hits, mut at) = (0, 0);
            while let Some(hit) = find(bytes, needle, at) {
                hits += 1;
                at = hit.wrapping_add(needle.len());
            }
            return Ok(Value::small(hits));
        }
        let hit = if which == id::rfind { find_last(bytes, needle) } else { find(bytes, needle, 0) };
        match hit {
            Some(at) => Ok(Value::small(count(bytes.get(..at).unwrap_or(&[])) as i64)),
            None if which == id::index => self.fail(Code::TemplateValueError),
            None => Ok(Value::small(-1)),
        }
    }

    /// `str.format` with `{}`, `{0}`, `{name}`, `!s`, `!r` and doubled braces.
    fn format_braces(&mut self, object: Value, args: Args) -> Result<Value, Fail> {
        let mark = self.text.used();
        let (mut at, mut next, mut numbered) = (0, 0, false);
        // Nothing may be written to the arena beside the result: what is printed goes straight into it.
        while at < object.len() {
            self.charge(1)?;
            let bytes = self.text.of(object);
            let here = object.at().wrapping_add(at);
            match (bytes.get(at), bytes.get(at.wrapping_add(1))) {
                (Some(b'{'), Some(b'{')) | (Some(b'}'), Some(b'}')) => {
                    self.text.push_from(here, 1)?;
                    at = at.wrapping_add(2);
                }
                (Some(b'{'), _) => {
                    let end = self.need(find(bytes, b"}", at), Code::TemplateValueError)?;
                    let field = bytes.get(at.wrapping_add(1)..end).unwrap_or(&[]);
                    let (field, repr) = match field {
                        [head @ .., b'!', b'r'] => (head, true),
                        [head @ .., b'!', b's'] => (head, false),
                        _ => (field, false),
                    };
                    if field.iter().any(|byte| matches!(byte, b':' | b'.' | b'[' | b'!' | b'{')) {
                        return self.fail(Code::TemplateUnsupported);
                    }
                    let item = if field.is_empty() {
                        next += 1;
                        self.arg(args, next - 1)
                    } else if let Some(index) = super::number::parse_int(field) {
                        numbered = true;
                        self.arg(args, index.clamp(0, 255) as usize)
                    } else {
                        self.need(self.named(args, field), Code::TemplateKeyError)?
                    };
                    if numbered && next > 0 {
                        return self.fail(Code::TemplateValueError);
                    }
                    if item.kind() == value::MISSING {
                        return self.fail(Code::TemplateIndexError);
                    }
                    if repr {
                        self.print_repr(item)?
                    } else {
                        self.print(item)?
                    }
                    at = end.wrapping_add(1);
                }
                (Some(b'}'), _) => return self.fail(Code::TemplateValueError),
                _ => {
                    self.text.push_from(here, 1)?;
                    at = at.wrapping_add(1);
                }
            }
        }
        Ok(self.text.since(mark).flagged(object.flags()))
    }

    /// `format % values`: `%s %r %d %i %u %%`, by position or by name, without width and precision.
    pub(super) fn format_percent(&mut self, format: Value, values: Value) -> Result<Value, Fail> {
        let tuple = values.kind() == value::TUPLE;
        let given = if tuple { values.len() } else { 1 };
        let (mut at, mut used, mut named) = (0usize, 0usize, false);
        let floor = self.sp;
        loop {
            self.charge(1)?;
            let bytes = self.text.of(format);
            let hit = find(bytes, b"%", at);
            let literal = part(format, at, hit.unwrap_or(bytes.len()));
            self.push(literal)?;
            let Some(hit) = hit else { break };
            at = hit.wrapping_add(1);
            let bytes = self.text.of(format);
            let mut key = None;
            if bytes.get(at) == Some(&b'(') {
                let end = self.need(find(bytes, b")", at), Code::TemplateValueError)?;
                key = Some(part(format, at.wrapping_add(1), end));
                at = end.wrapping_add(1);
            }
            let kind = bytes.get(at).copied().unwrap_or(0);
            at = at.wrapping_add(1);
            if kind == b'%' {
                self.push(part(format, hit, hit.wrapping_add(1)))?;
                continue;
            }
            let item = match key {
                Some(key) => {
                    named = true;
                    if values.kind() != value::DICT {
                        return self.fail(Code::TemplateTypeError);
                    }
                    let slot = self.dict_find(values, key)?;
                    let slot = self.need(slot, Code::TemplateKeyError)?;
                    self.heap_at(slot.wrapping_add(1))
                }
                None => {
                    if used >= given {
                        return self.fail(Code::TemplateTypeError);
                    }
                    used = used.wrapping_add(1);
                    if tuple { self.entry(values, used.wrapping_sub(1)) } else { values }
                }
            };
            let mark = self.text.used();
            match kind {
                b's' => self.print(item)?,
                b'r' => self.print_repr(item)?,
                b'd' | b'i' | b'u' if item.is_integer() => self.write_int(self.int_of(item), item.is_content())?,
                b'd' | b'i' | b'u' if item.is_undefined() => return self.fail(Self::misuse(item)),
                b'd' | b'i' | b'u' if item.kind() != value::FLOAT => return self.fail(Code::TemplateTypeError),
                _ => return self.fail(Code::TemplateUnsupported),
            }
            self.push(self.text.since(mark))?;
        }
        let spare = used < given && !named && (tuple || !matches!(values.kind(), value::DICT | value::LIST));
        if spare || format.flags() & value::MARKUP != 0 {
            return self.fail(if spare { Code::TemplateTypeError } else { Code::TemplateUnsupported });
        }
        self.concat(self.sp.saturating_sub(floor))
    }
}

//! Attribute names of Python's own types. An attribute of a value is found by its number.

/// Which types have the attribute.
pub const STR: u8 = 1;
/// A list's.
pub const LIST: u8 = 2;
/// A tuple's.
pub const TUPLE: u8 = 4;
/// A dict's.
pub const DICT: u8 = 8;
/// The loop variable's.
pub const LOOP: u8 = 16;
/// Changes the value: the reference's sandbox refuses it on lists and dicts.
pub const MUTATING: u8 = 32;
/// The reference has it, this machine cannot call it.
pub const UNSUPPORTED: u8 = 64;

macro_rules! names {
    ($($name:ident $mask:expr;)*) => {
        /// The numbers, from 1; 0 is no such name.
        #[allow(non_camel_case_types, missing_docs, clippy::upper_case_acronyms)]
        #[repr(u8)]
        #[derive(Clone, Copy)]
        enum Name { _none, $($name,)* }

        /// The number of each name.
        #[allow(missing_docs, non_upper_case_globals)]
        pub mod id { $(pub const $name: u8 = super::Name::$name as u8;)* }

        const TEXT: &str = concat!($(stringify!($name), " ",)*);
        const MASKS: &[u8] = &[0, $($mask,)*];
    };
}

names! {
    capitalize STR;
    count STR | LIST | TUPLE;
    endswith STR;
    find STR;
    format STR;
    index STR | LIST | TUPLE | LOOP;
    isdigit STR;
    isspace STR;
    join STR;
    lower STR;
    lstrip STR;
    removeprefix STR;
    removesuffix STR;
    replace STR;
    rfind STR;
    rsplit STR;
    rstrip STR;
    split STR;
    splitlines STR;
    startswith STR;
    strip STR;
    title STR;
    upper STR;
    get DICT;
    items DICT;
    keys DICT;
    values DICT;
    index0 LOOP;
    first LOOP;
    last LOOP;
    length LOOP;
    revindex LOOP;
    revindex0 LOOP;
    previtem LOOP;
    nextitem LOOP;
    depth LOOP;
    depth0 LOOP;
    cycle LOOP;
    append LIST | MUTATING;
    clear LIST | DICT | MUTATING;
    extend LIST | MUTATING;
    insert LIST | MUTATING;
    pop LIST | DICT | MUTATING;
    popitem DICT | MUTATING;
    remove LIST | MUTATING;
    reverse LIST | MUTATING;
    setdefault DICT | MUTATING;
    sort LIST | MUTATING;
    update DICT | MUTATING;
    casefold STR | UNSUPPORTED;
    center STR | UNSUPPORTED;
    changed LOOP | UNSUPPORTED;
    copy LIST | DICT | UNSUPPORTED;
    encode STR | UNSUPPORTED;
    expandtabs STR | UNSUPPORTED;
    format_map STR | UNSUPPORTED;
    fromkeys DICT | UNSUPPORTED;
    isalnum STR | UNSUPPORTED;
    isalpha STR | UNSUPPORTED;
    isascii STR | UNSUPPORTED;
    isdecimal STR | UNSUPPORTED;
    isidentifier STR | UNSUPPORTED;
    islower STR | UNSUPPORTED;
    isnumeric STR | UNSUPPORTED;
    isprintable STR | UNSUPPORTED;
    istitle STR | UNSUPPORTED;
    isupper STR | UNSUPPORTED;
    ljust STR | UNSUPPORTED;
    maketrans STR | UNSUPPORTED;
    partition STR | UNSUPPORTED;
    rindex STR | UNSUPPORTED;
    rjust STR | UNSUPPORTED;
    rpartition STR | UNSUPPORTED;
    swapcase STR | UNSUPPORTED;
    translate STR | UNSUPPORTED;
    zfill STR | UNSUPPORTED;
}

/// The number of a name, 0 when no type has such an attribute.
pub fn lookup(name: &[u8]) -> u8 {
    let mut id = 1;
    for known in TEXT.as_bytes().split(|&byte| byte == b' ') {
        if known == name && !name.is_empty() {
            return id;
        }
        id = id.wrapping_add(1);
    }
    0
}

/// Which types have the attribute of this number.
pub fn mask(id: u8) -> u8 {
    MASKS.get(id as usize).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_text_agree() {
        assert_eq!(lookup(b"capitalize"), id::capitalize);
        assert_eq!(lookup(b"zfill"), id::zfill);
        assert_eq!(lookup(b"items"), id::items);
        assert_eq!(lookup(b""), 0);
        assert_eq!(lookup(b"item"), 0);
        assert_eq!(mask(id::items), DICT);
    }
}

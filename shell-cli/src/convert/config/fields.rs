//! A JSON object read under a closed schema: each field is used, known not to matter, or a reason to stop.

use crate::convert::overrides::Overrides;
use crate::convert::refusal::{Refusal, refuse};
use crate::failure::Failure;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// An object with the set of fields that have been read.
#[derive(Debug)]
pub struct Fields<'a> {
    /// File (and path in it) for messages.
    pub place: String,
    map: &'a Map<String, Value>,
    used: RefCell<BTreeSet<String>>,
}

impl<'a> Fields<'a> {
    /// Reads `map`, which stands at `place`.
    pub fn new(place: impl Into<String>, map: &'a Map<String, Value>) -> Self {
        Self { place: place.into(), map, used: RefCell::default() }
    }

    /// A field; `null` counts as absent.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.used.borrow_mut().insert(key.to_owned());
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// The field is written down, be it as `null`.
    pub fn is_present(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// Somebody read the field.
    pub fn was_used(&self, key: &str) -> bool {
        self.used.borrow().contains(key)
    }

    /// The same fields with the same values.
    pub fn same_as(&self, other: &Fields) -> bool {
        self.map == other.map
    }

    /// The object itself.
    pub fn to_value(&self) -> Value {
        Value::Object(self.map.clone())
    }

    fn wrong(&self, key: &str, value: &Value, want: &str) -> Failure {
        refuse(Refusal::BadJson, format!("{}: {key} is {value}, expected {want}", self.place))
    }

    fn missing(&self, key: &str) -> Failure {
        refuse(Refusal::MissingField, format!("{}: {key} is missing", self.place))
    }

    /// A whole number from 0 to 2^32 - 1.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, Failure> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number =
            value.as_u64().or_else(|| value.as_f64().filter(|f| f.fract() == 0.0 && *f >= 0.0).map(|f| f as u64));
        match number.and_then(|n| u32::try_from(n).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(key, value, "a whole number below 2^32")),
        }
    }

    /// A whole number that must be there and not be zero.
    pub fn size(&self, key: &str) -> Result<u32, Failure> {
        match self.u32(key)? {
            Some(0) => Err(refuse(Refusal::BadDimensions, format!("{}: {key} is 0", self.place))),
            Some(size) => Ok(size),
            None => Err(self.missing(key)),
        }
    }

    /// A finite number.
    pub fn f64(&self, key: &str) -> Result<Option<f64>, Failure> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.as_f64().filter(|f| f.is_finite() && (*f as f32).is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(key, value, "a finite number")),
        }
    }

    /// A finite number that must be there.
    pub fn need_f64(&self, key: &str) -> Result<f64, Failure> {
        self.f64(key)?.ok_or_else(|| self.missing(key))
    }

    /// True or false.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, Failure> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, value, "true or false"))
    }

    /// A string.
    pub fn str(&self, key: &str) -> Result<Option<&'a str>, Failure> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(key, value, "a string"))
    }

    /// A list.
    pub fn list(&self, key: &str) -> Result<Option<&'a Vec<Value>>, Failure> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_array().map(Some).ok_or_else(|| self.wrong(key, value, "a list"))
    }

    /// An object.
    pub fn object(&self, key: &str) -> Result<Option<Fields<'a>>, Failure> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| self.wrong(key, value, "an object"))?;
        Ok(Some(Fields::new(format!("{}: {key}", self.place), map)))
    }

    /// Refuses a field whose value is not `neutral`, the only one the runtime computes.
    pub fn only(&self, key: &str, neutral: &[Value], why: &str) -> Result<(), Failure> {
        match self.value(key) {
            Some(value) if !neutral.contains(value) => {
                Err(refuse(Refusal::UnsupportedValue, format!("{}: {key} is {value}: {why}", self.place)))
            }
            _ => Ok(()),
        }
    }

    /// Accounts for the fields nobody read: documentary ones are returned with the reason, `null` says nothing, and any other
    /// is refused by name.
    pub fn finish(
        &self,
        documentary: &[(&str, &str)],
        overrides: &Overrides,
    ) -> Result<Vec<(String, String)>, Failure> {
        let used = self.used.borrow();
        let mut ignored = Vec::new();
        for (key, value) in self.map {
            if used.contains(key) {
                continue;
            }
            if let Some((_, reason)) = documentary.iter().find(|(name, _)| name == key) {
                ignored.push((key.clone(), (*reason).to_owned()));
            } else if value.is_null() {
                ignored.push((key.clone(), "null: not set".to_owned()));
            } else if key.starts_with('_') {
                ignored.push((key.clone(), "private note of the publisher's tools".to_owned()));
            } else if overrides.get(key) == Some("ignore") {
                ignored.push((key.clone(), "ignored by --override".to_owned()));
            } else {
                let mut shown = value.to_string();
                if shown.len() > 60 {
                    shown = shown.chars().take(57).collect::<String>() + "...";
                }
                return Err(refuse(
                    Refusal::UnknownField,
                    format!(
                        "{}: unknown field {key:?} = {shown}, which may change the result. If it does not, add --override {key}=ignore",
                        self.place
                    ),
                ));
            }
        }
        Ok(ignored)
    }
}

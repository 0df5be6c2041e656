//! Contradictions between the publisher's files, and the user's explicit decisions about them.

use super::refusal::{Refusal, refuse};
use crate::failure::{Failure, Kind};
use serde::Serialize;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The `--override KEY=VALUE` of a command line, and which of them were needed.
#[derive(Debug, Default)]
pub struct Overrides {
    values: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
}

impl Overrides {
    /// Reads `KEY=VALUE` arguments.
    pub fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut values = BTreeMap::new();
        for argument in arguments {
            let Some((key, value)) = argument.split_once('=').filter(|(key, _)| !key.is_empty()) else {
                return Err(Failure::new(Kind::Usage, format!("--override {argument:?} is not KEY=VALUE")));
            };
            if values.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(Failure::new(Kind::Usage, format!("--override {key} is given twice")));
            }
        }
        Ok(Self { values, used: RefCell::default() })
    }

    /// The value given for `key`; it then counts as needed.
    pub fn get(&self, key: &str) -> Option<&str> {
        let value = self.values.get(key)?;
        self.used.borrow_mut().insert(key.to_owned());
        Some(value)
    }

    /// The overrides that decided something, for the provenance.
    pub fn used(&self) -> BTreeMap<String, String> {
        let used = self.used.borrow();
        self.values.iter().filter(|(key, _)| used.contains(*key)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// Refuses overrides that decided nothing: a typo must not pass unseen.
    pub fn check_all_used(&self) -> Result<(), Failure> {
        let used = self.used.borrow();
        match self.values.keys().find(|key| !used.contains(*key)) {
            Some(key) => Err(Failure::new(Kind::Usage, format!("--override {key}: nothing in the source needs it"))),
            None => Ok(()),
        }
    }
}

/// One contradiction.
#[derive(Clone, Debug, Serialize)]
pub struct Conflict {
    /// The stop rule, e.g. `eos_token_id`; also the key of the override.
    pub rule: String,
    /// Where each claim stands, and what it says.
    pub claims: Vec<Claim>,
    /// Why they cannot all hold.
    pub reason: String,
    /// What the pinned reference does with these files.
    pub reference: String,
    /// Exact arguments, each of which would settle it.
    pub overrides: Vec<String>,
}

/// What one file says.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    pub place: String,
    pub value: Value,
}

/// The contradictions found so far. All are looked for before the conversion stops, so that one run shows them all.
#[derive(Debug, Default)]
pub struct Conflicts {
    found: Vec<Conflict>,
}

impl Conflicts {
    /// Notes a contradiction.
    pub fn add(&mut self, rule: &str, claims: &[(&str, Value)], reason: &str, reference: &str, values: &[String]) {
        self.found.push(Conflict {
            rule: rule.to_owned(),
            claims: claims
                .iter()
                .map(|(place, value)| Claim { place: (*place).to_owned(), value: value.clone() })
                .collect(),
            reason: reason.to_owned(),
            reference: reference.to_owned(),
            overrides: values.iter().map(|value| format!("--override {rule}={value}")).collect(),
        });
    }

    /// The machine-readable receipt, or `None` when nothing contradicts.
    pub fn receipt(&self) -> Option<Value> {
        if self.found.is_empty() {
            return None;
        }
        Some(json!({ "status": "conflict", "exit_code": Kind::Conflict as u8, "conflicts": self.found }))
    }

    /// The failure that ends the conversion.
    pub fn failure(&self) -> Failure {
        let lines: Vec<String> = self
            .found
            .iter()
            .map(|c| {
                let claims: Vec<String> =
                    c.claims.iter().map(|claim| format!("{} says {}", claim.place, claim.value)).collect();
                format!("{}: {}; {}. To decide: {}", c.rule, claims.join(", "), c.reason, c.overrides.join(" or "))
            })
            .collect();
        refuse(Refusal::Conflict, format!("the publisher's files contradict each other.\n  {}\n ", lines.join("\n  ")))
    }
}

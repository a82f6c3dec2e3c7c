//! An nftables table as a value, and the script that makes a table of the kernel equal to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// One table of family `ip`: its sets and maps, its chains, and their rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruleset {
    table: String,
    sets: BTreeMap<String, Set>,
    chains: BTreeMap<String, Chain>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    /// `set` or `map`.
    keyword: &'static str,
    declaration: String,
    /// What it holds as far as we decide; rules may add elements of their own.
    elements: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    hook: Option<String>,
    rules: Vec<String>,
}

/// The kernel's limit is 255 bytes; a prefix and an endpoint's address may still come before and after.
const LONGEST_NAME: usize = 200;

/// A name for a set or a chain that stands for an object: its parts, shortened when the kernel would not take it.
pub(crate) fn name(parts: &[&str]) -> String {
    let name = parts.join("/");
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let digest = Sha256::digest(name.as_bytes());
    let mut short: String = name.chars().take(LONGEST_NAME - 17).collect();
    short.push('-');
    for byte in &digest[..8] {
        write!(short, "{byte:02x}").expect("a string takes what is written");
    }
    short
}

impl Ruleset {
    /// A table without anything in it.
    pub(crate) fn new(table: &str) -> Self {
        Self { table: table.to_owned(), sets: BTreeMap::new(), chains: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, name: &str, declaration: &str, elements: impl IntoIterator<Item = String>) {
        self.insert("set", name, declaration, elements.into_iter().collect());
    }

    pub(crate) fn map(&mut self, name: &str, declaration: &str, elements: impl IntoIterator<Item = String>) {
        self.insert("map", name, declaration, elements.into_iter().collect());
    }

    fn insert(&mut self, keyword: &'static str, name: &str, declaration: &str, elements: BTreeSet<String>) {
        let set = Set { keyword, declaration: declaration.to_owned(), elements };
        self.sets.insert(name.to_owned(), set);
    }

    /// A chain that others go to.
    pub(crate) fn chain(&mut self, name: &str, rules: Vec<String>) {
        self.chains.insert(name.to_owned(), Chain { hook: None, rules });
    }

    /// A chain that the kernel calls.
    pub(crate) fn hook(&mut self, name: &str, hook: &str, rules: &[&str]) {
        let rules = rules.iter().map(ToString::to_string).collect();
        self.chains.insert(name.to_owned(), Chain { hook: Some(hook.to_owned()), rules });
    }

    /// The script that puts this in the place of whatever the table held.
    pub fn replacement(&self) -> String {
        let table = &self.table;
        let empty = Self::new(table);
        format!("add table ip {table}\ndelete table ip {table}\nadd table ip {table}\n{}", self.changes(&empty))
    }

    /// The script that turns a table that holds `old` into this. What is equal is not touched: sets that rules fill keep
    /// what they hold.
    pub fn change_from(&self, old: &Self) -> String {
        if self.declares_otherwise(old) { self.replacement() } else { self.changes(old) }
    }

    /// The kernel does not change the type of a set or the hook of a chain.
    fn declares_otherwise(&self, old: &Self) -> bool {
        let sets = old.sets.iter().any(|(name, old)| {
            self.sets.get(name).is_some_and(|set| (set.keyword, &set.declaration) != (old.keyword, &old.declaration))
        });
        let chains = old.chains.iter().any(|(name, old)| self.chains.get(name).is_some_and(|new| new.hook != old.hook));
        self.table != old.table || sets || chains
    }

    /// Everything is declared before it is referred to, and no longer referred to before it is deleted.
    fn changes(&self, old: &Self) -> String {
        let mut script = Script { table: &self.table, text: String::new() };
        for (name, set) in missing(&self.sets, &old.sets) {
            script.line("add", set.keyword, name, &format!("{{ {}; }}", set.declaration));
        }
        for (name, chain) in missing(&self.chains, &old.chains) {
            let hook = chain.hook.as_ref().map(|hook| format!("{{ {hook}; policy accept; }}"));
            script.line("add", "chain", name, &hook.unwrap_or_default());
        }
        for (name, chain) in differing(&old.chains, &self.chains) {
            if !chain.rules.is_empty() {
                script.line("flush", "chain", name, "");
            }
        }
        for (name, set) in differing(&old.sets, &self.sets) {
            if !set.elements.is_empty() {
                script.line("flush", set.keyword, name, "");
            }
        }
        for (name, chain) in differing(&self.chains, &old.chains) {
            for rule in &chain.rules {
                script.line("add", "rule", name, rule);
            }
        }
        for (name, set) in differing(&self.sets, &old.sets) {
            if !set.elements.is_empty() {
                let elements: Vec<_> = set.elements.iter().map(String::as_str).collect();
                script.line("add", "element", name, &format!("{{ {} }}", elements.join(", ")));
            }
        }
        for (name, _) in missing(&old.chains, &self.chains) {
            script.line("delete", "chain", name, "");
        }
        for (name, set) in missing(&old.sets, &self.sets) {
            script.line("delete", set.keyword, name, "");
        }
        script.text
    }
}

/// What is in the one and, under that name, not in the other.
fn missing<'a, T>(
    here: &'a BTreeMap<String, T>,
    there: &'a BTreeMap<String, T>,
) -> impl Iterator<Item = (&'a String, &'a T)> {
    here.iter().filter(|(name, _)| !there.contains_key(*name))
}

/// What is in the one, and not the same in the other.
fn differing<'a, T: PartialEq>(
    here: &'a BTreeMap<String, T>,
    there: &'a BTreeMap<String, T>,
) -> impl Iterator<Item = (&'a String, &'a T)> {
    here.iter().filter(|(name, value)| there.get(*name) != Some(*value))
}

struct Script<'a> {
    table: &'a str,
    text: String,
}

impl Script<'_> {
    fn line(&mut self, verb: &str, what: &str, name: &str, rest: &str) {
        let line = format!("{verb} {what} ip {} {name} {rest}", self.table);
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doors(open: &[&str]) -> Ruleset {
        let mut rules = Ruleset::new("t");
        rules.set("seen", "type ipv4_addr; flags dynamic, timeout; timeout 60s", []);
        rules.map(
            "doors",
            "type inet_service : verdict",
            open.iter().enumerate().map(|(i, d)| format!("{i} : goto {d}")),
        );
        for door in open {
            rules.chain(door, vec!["accept".to_owned()]);
        }
        rules.hook("input", "type filter hook input priority filter", &["tcp dport vmap @doors"]);
        rules
    }

    #[test]
    fn a_replacement_starts_from_nothing() {
        insta::assert_snapshot!(doors(&["front"]).replacement(), @r"
        add table ip t
        delete table ip t
        add table ip t
        add map ip t doors { type inet_service : verdict; }
        add set ip t seen { type ipv4_addr; flags dynamic, timeout; timeout 60s; }
        add chain ip t front
        add chain ip t input { type filter hook input priority filter; policy accept; }
        add rule ip t front accept
        add rule ip t input tcp dport vmap @doors
        add element ip t doors { 0 : goto front }
        ");
    }

    #[test]
    fn a_change_touches_only_what_differs() {
        insta::assert_snapshot!(doors(&["back"]).change_from(&doors(&["front"])), @r"
        add chain ip t back
        flush chain ip t front
        flush map ip t doors
        add rule ip t back accept
        add element ip t doors { 0 : goto back }
        delete chain ip t front
        ");
        assert_eq!(doors(&["front"]).change_from(&doors(&["front"])), "");
    }

    #[test]
    fn a_set_of_another_type_needs_a_replacement() {
        let mut other = doors(&["front"]);
        other.set("seen", "type ipv4_addr; flags dynamic, timeout; timeout 5s", []);
        assert_eq!(other.change_from(&doors(&["front"])), other.replacement());
    }

    #[test]
    fn names_that_the_kernel_would_refuse_are_shortened_and_stay_apart() {
        assert_eq!(name(&["to", "shop", "web"]), "to/shop/web");
        let (one, other) = ("a".repeat(250) + "1", "a".repeat(250) + "2");
        assert!(name(&["to", &one]).len() <= LONGEST_NAME);
        assert_ne!(name(&["to", &one]), name(&["to", &other]));
    }
}

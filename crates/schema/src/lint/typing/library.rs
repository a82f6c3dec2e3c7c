//! The functions that a rule can call, read from the table of their signatures.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::signatures::SIGNATURES;
use super::types::Type;

/// One way to call a function.
#[derive(Debug)]
pub(in crate::lint) struct Overload {
    /// What tells it from the function's others, where that matters to its cost.
    pub(in crate::lint) id: String,
    /// Called as `target.name(...)`; the target is then the first parameter.
    pub(super) member: bool,
    /// The parameters' types and then the result's.
    pub(super) types: Vec<Type>,
}

/// The overloads of a function, in the order in which they are tried; empty if there is no such function.
pub(super) fn overloads(name: &str) -> &'static [Overload] {
    static LIBRARY: LazyLock<HashMap<String, Vec<Overload>>> = LazyLock::new(read_library);
    LIBRARY.get(name).map_or(&[], Vec::as_slice)
}

/// The type that a name stands for when it is used as a value, as in `type(self) == string`.
pub(super) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "dyn" | "optional_type" | "type" => Type::Dyn,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::String,
        "uint" => Type::Uint,
        _ => return library_type(name),
    })
}

fn library_type(name: &str) -> Option<Type> {
    let names = ["kubernetes.NamedFormat", "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL"];
    names.into_iter().chain(["net.CIDR", "net.IP"]).find(|known| *known == name).map(Type::Library)
}

fn read_library() -> HashMap<String, Vec<Overload>> {
    let mut library: HashMap<String, Vec<Overload>> = HashMap::new();
    for line in SIGNATURES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).flat_map(spread) {
        let mut signature = Reader { rest: &line };
        let id = signature.word().to_owned();
        let member = signature.take('.');
        let name = signature.until('(').to_owned();
        let mut types = Vec::new();
        while !signature.take(')') {
            types.push(signature.one());
            signature.take(',');
        }
        types.push(signature.one());
        library.entry(name).or_default().push(Overload { id, member, types });
    }
    library
}

/// A line for each type that the line's placeholder stands for.
fn spread(line: &str) -> Vec<String> {
    let summable = ["int", "uint", "double", "duration"];
    let others = ["bool", "string", "bytes", "timestamp"];
    let comparable: Vec<&str> = summable.into_iter().chain(others).collect();
    let every = |mark: &str, types: &[&str]| types.iter().map(|one| line.replace(mark, one)).collect();
    if line.contains("{C}") {
        every("{C}", &comparable)
    } else if line.contains("{N}") {
        every("{N}", &summable)
    } else {
        vec![line.to_owned()]
    }
}

/// Reads a signature from left to right.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn take(&mut self, mark: char) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.strip_prefix(mark);
        self.rest = found.unwrap_or(rest).trim_start();
        found.is_some()
    }

    fn until(&mut self, mark: char) -> &'t str {
        let (before, after) = self.rest.split_once(mark).unwrap_or((self.rest, ""));
        self.rest = after;
        before
    }

    fn word(&mut self) -> &'t str {
        let text = self.rest.trim_start();
        let end = text.find([' ', '(', ')', ',']).unwrap_or(text.len());
        self.rest = text[end..].trim_start();
        &text[..end]
    }

    fn one(&mut self) -> Type {
        let name = self.word();
        let mut parts = Vec::new();
        if self.take('(') {
            while !self.take(')') {
                parts.push(self.one());
                self.take(',');
            }
        }
        let mut part = || parts.pop().unwrap_or(Type::Dyn);
        match name {
            "map" => {
                let value = part();
                Type::map(part(), value)
            }
            "list" => Type::list(part()),
            "optional" => Type::optional(part()),
            "type" => Type::Meta(Box::new(part())),
            "timestamp" => Type::Timestamp,
            "duration" => Type::Duration,
            // A single capital is a parameter, told from others by its letter.
            _ if name.len() == 1 => Type::Variable(usize::from(name.as_bytes()[0])),
            _ => type_named(name).unwrap_or(Type::Dyn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_as_it_is_written() {
        let shown = |name: &str| -> Vec<String> {
            let show = |one: &Overload| {
                let types: Vec<String> = one.types.iter().map(ToString::to_string).collect();
                format!("{} {} {}", one.id, one.member, types.join(" "))
            };
            overloads(name).iter().map(show).collect()
        };
        assert_eq!(shown("contains"), ["contains_string true string string bool"]);
        assert_eq!(shown("_%_"), ["modulo false int int int", "modulo false uint uint uint"]);
        assert_eq!(shown("getQuery"), ["url true kubernetes.URL map(string, list(string))"]);
        assert_eq!(shown("sum").len(), 4);
        assert_eq!(shown("max").len(), 8);
        assert_eq!(shown("_<_").len(), 14);
        assert_eq!(shown("optional.none"), ["optional false optional_type(dyn)"]);
        assert!(shown("math.greatest").is_empty());
    }

    #[test]
    fn no_signature_names_a_type_that_is_not_one() {
        let names = SIGNATURES.lines().filter(|line| !line.starts_with('#')).flat_map(|line| {
            line.split_once('(').unwrap_or_default().1.split(['(', ')', ',', ' ']).filter(|word| !word.is_empty())
        });
        let structural = ["map", "list", "optional", "type", "timestamp", "duration", "{C}", "{N}"];
        for name in names.filter(|name| name.len() > 1 && !structural.contains(name)) {
            assert!(type_named(name).is_some(), "{name}");
        }
    }
}

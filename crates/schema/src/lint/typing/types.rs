//! CEL's types, and when a value of one may stand where another is wanted.

use std::collections::HashMap;
use std::fmt;

use super::decl::Id;

/// A type as CEL's checker sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::lint) enum Type {
    /// Anything: checked when the rule runs.
    Dyn,
    /// Of an expression that is wrong already; fits everywhere, so that one mistake is reported once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    /// An object of the schema. Each place in a schema is a type of its own, however alike two of them look.
    Object(Id),
    /// A type as a value, as `type(x)` gives it.
    Meta(Box<Type>),
    /// A type of Kubernetes' libraries.
    Library(&'static str),
    /// Not known yet.
    Variable(usize),
}

impl Type {
    pub(in crate::lint) fn list(of: Type) -> Self {
        Self::List(Box::new(of))
    }

    pub(in crate::lint) fn map(key: Type, value: Type) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    pub(in crate::lint) fn optional(of: Type) -> Self {
        Self::Optional(Box::new(of))
    }

    /// Whether nothing can be said about it.
    pub(in crate::lint) fn is_open(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    fn parts(&self) -> Vec<&Type> {
        match self {
            Self::List(of) | Self::Optional(of) | Self::Meta(of) => vec![of],
            Self::Map(key, value) => vec![key, value],
            _ => Vec::new(),
        }
    }

    /// The same type with its parts replaced.
    fn with(&self, mut each: impl FnMut(&Type) -> Type) -> Type {
        match self {
            Self::List(of) => Self::list(each(of)),
            Self::Optional(of) => Self::optional(each(of)),
            Self::Meta(of) => Self::Meta(Box::new(each(of))),
            Self::Map(key, value) => Self::map(each(key), each(value)),
            other => other.clone(),
        }
    }

    /// What null may stand for: fields that are messages in protocol buffers, of which CEL was made.
    fn takes_null(&self) -> bool {
        let messages = matches!(self, Self::Object(_) | Self::Library(_) | Self::Optional(_));
        messages || matches!(self, Self::Null | Self::Timestamp | Self::Duration)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Meta(of) => write!(f, "type({of})"),
            Self::Library(name) => f.write_str(name),
            Self::Dyn | Self::Variable(_) => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Object(_) => f.write_str("object"),
        }
    }
}

/// What the variables have turned out to be.
#[derive(Default)]
pub(super) struct Unifier {
    known: HashMap<usize, Type>,
    next: usize,
}

impl Unifier {
    pub(super) fn fresh(&mut self) -> Type {
        self.next += 1;
        Type::Variable(self.next - 1)
    }

    /// A signature's types with variables of this call's own for its parameters.
    pub(super) fn instantiate(&mut self, types: &[Type]) -> Vec<Type> {
        let mut fresh = HashMap::new();
        types.iter().map(|one| self.renamed(one, &mut fresh)).collect()
    }

    fn renamed(&mut self, one: &Type, fresh: &mut HashMap<usize, Type>) -> Type {
        match one {
            Type::Variable(parameter) => fresh.entry(*parameter).or_insert_with(|| self.fresh()).clone(),
            other => other.with(|part| self.renamed(part, fresh)),
        }
    }

    /// The type with all that is known of its variables.
    pub(super) fn resolve(&self, one: &Type) -> Type {
        match one {
            Type::Variable(variable) => {
                self.known.get(variable).map_or_else(|| one.clone(), |known| self.resolve(known))
            }
            other => other.with(|part| self.resolve(part)),
        }
    }

    /// The type with variables that nothing was learnt of left open.
    pub(super) fn settle(&self, one: &Type) -> Type {
        match self.resolve(one) {
            Type::Variable(_) => Type::Dyn,
            other => other.with(|part| self.settle(part)),
        }
    }

    /// Whether values of these types may be given where those are wanted. Learns from it only if all of them may.
    pub(super) fn fits(&mut self, given: &[Type], wanted: &[Type]) -> bool {
        let before = self.known.clone();
        let fits = given.len() == wanted.len() && given.iter().zip(wanted).all(|(a, b)| self.fits_one(a, b));
        if !fits {
            self.known = before;
        }
        fits
    }

    fn fits_one(&mut self, given: &Type, wanted: &Type) -> bool {
        if let Type::Variable(variable) = wanted {
            let had = self.known.contains_key(variable);
            if self.substitutes(given, wanted, *variable) {
                return true;
            }
            if had {
                return false;
            }
        }
        if let Type::Variable(variable) = given {
            return self.substitutes(wanted, given, *variable);
        }
        match (given, wanted) {
            (given, wanted) if given.is_open() || wanted.is_open() => true,
            (Type::Null, other) | (other, Type::Null) => other.takes_null(),
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits_one(a, b),
            (Type::Map(k, v), Type::Map(l, w)) => self.fits_one(k, l) && self.fits_one(v, w),
            (given, wanted) => given == wanted,
        }
    }

    /// Whether `one` may be what `place`, a variable, stands for; if so, notes it.
    fn substitutes(&mut self, one: &Type, place: &Type, variable: usize) -> bool {
        if one == place {
            return true;
        }
        if let Some(known) = self.known.get(&variable).cloned() {
            if *one == known {
                return true;
            }
            if !self.fits_one(one, &known) {
                return false;
            }
            let general = more_general(one, &known);
            if !self.mentions(&general, variable) {
                self.known.insert(variable, general);
            }
            return true;
        }
        let sound = !self.mentions(one, variable);
        if sound {
            self.known.insert(variable, one.clone());
        }
        sound
    }

    fn mentions(&self, within: &Type, variable: usize) -> bool {
        match within {
            Type::Variable(other) if *other == variable => true,
            Type::Variable(other) => self.known.get(other).is_some_and(|known| self.mentions(known, variable)),
            other => other.parts().into_iter().any(|part| self.mentions(part, variable)),
        }
    }

    /// What a literal's elements have in common, or `None` if they differ.
    pub(super) fn join(&mut self, all: Option<Type>, one: &Type) -> Option<Type> {
        let Some(all) = all else {
            return Some(one.clone());
        };
        self.fits(std::slice::from_ref(&all), std::slice::from_ref(one)).then(|| more_general(&all, one))
    }
}

fn more_general(a: &Type, b: &Type) -> Type {
    if is_as_general(a, b) { a.clone() } else { b.clone() }
}

fn is_as_general(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_as_general(a, b),
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            is_as_general(key, other_key) && is_as_general(value, other_value)
        }
        (a, b) => a == b || matches!((a, b), (Type::Meta(_), Type::Meta(_))),
    }
}

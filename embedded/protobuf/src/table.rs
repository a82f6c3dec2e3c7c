//! The table of messages: which field has which number, which JSON name, and which type.

#[cfg(test)]
mod schemas;

use std::collections::HashMap;
use std::sync::LazyLock;

/// Every message of the built-in kinds.
pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::parse(concat!(include_str!("../data/messages.txt"), include_str!("../data/apiextensions.txt")))
});

/// The version under which kinds are listed that every version has, such as `DeleteOptions`.
const ANY_VERSION: &str = "*";

/// Messages, and which of them is which kind.
pub(crate) struct Table {
    kinds: HashMap<(&'static str, &'static str), usize>,
    messages: Vec<Message>,
}

/// The fields of a message, by their numbers.
pub(crate) struct Message {
    fields: Vec<Field>,
}

/// A field of a message.
pub(crate) struct Field {
    number: u64,
    /// Its name in JSON; none if JSON inlines it.
    pub(crate) name: Option<&'static str>,
    /// Whether JSON omits its zero value.
    pub(crate) omits_zero: bool,
    pub(crate) shape: Shape,
    pub(crate) kind: Type,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    List,
    /// From a text to a value.
    Map,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Boolean,
    Integer,
    /// A number that may have a fraction.
    Double,
    /// Another message, by its place in the table.
    Message(usize),
    /// A message whose JSON is a single value: that of its field with the highest number that is set.
    Choice(usize),
    /// Something that is bytes on the wire, and one value in JSON.
    Leaf(Leaf),
}

/// How bytes are one value in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    Text,
    /// Base64 in JSON.
    Bytes,
    /// A message around a list of texts, which in JSON is that list.
    Texts,
    /// Seconds since 1970.
    Time,
    /// A time with microseconds.
    MicroTime,
    Quantity,
    IntOrString,
    /// A message around JSON, or around an object in an envelope of its own; nothing if it is empty.
    Json,
    /// A message around any JSON value; `null` if it is empty.
    AnyValue,
}

impl Table {
    /// The message of a kind.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        let place = self.kinds.get(&(api_version, kind)).or_else(|| self.kinds.get(&(ANY_VERSION, kind)))?;
        self.messages.get(*place)
    }

    /// The message that a field refers to.
    pub(crate) fn message(&self, place: usize) -> &Message {
        &self.messages[place]
    }

    fn parse(text: &'static str) -> Self {
        let lines = || text.lines().filter(|line| !line.starts_with('#')).map(words);
        let headings = lines().filter(|words| words[0] == "message");
        let places: HashMap<&str, usize> = headings.enumerate().map(|(place, words)| (words[1], place)).collect();
        let mut table = Self { kinds: HashMap::new(), messages: Vec::with_capacity(places.len()) };
        for words in lines() {
            match words {
                ["kind", api_version, message] => {
                    let (_, kind) = message.split_once('.').expect("a message's name follows its package");
                    table.kinds.insert((api_version, kind), places[message]);
                }
                ["message", ..] => table.messages.push(Message { fields: Vec::new() }),
                [number, name, kind] => {
                    let message = table.messages.last_mut().expect("a field follows its message");
                    message.fields.push(Field::parse(number, name, kind, &places));
                }
            }
        }
        table
    }
}

/// The three words of a line; a heading has two, and then an empty one.
fn words(line: &'static str) -> [&'static str; 3] {
    let mut words = line.split(' ');
    [(); 3].map(|()| words.next().unwrap_or_default())
}

impl Message {
    /// All fields, by ascending number.
    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field of this number.
    pub(crate) fn field(&self, number: u64) -> Option<&Field> {
        let place = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(place)
    }
}

impl Field {
    fn parse(number: &str, name: &'static str, kind: &str, places: &HashMap<&str, usize>) -> Self {
        let number = number.parse().expect("a field starts with its number");
        let (name, omits_zero) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
        let (shape, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("{}")) {
            (Some(item), _) => (Shape::List, item),
            (_, Some(value)) => (Shape::Map, value),
            _ => (Shape::One, kind),
        };
        let kind = match kind {
            "string" => Type::Leaf(Leaf::Text),
            "bool" => Type::Boolean,
            "int" => Type::Integer,
            "double" => Type::Double,
            "bytes" => Type::Leaf(Leaf::Bytes),
            "strings" => Type::Leaf(Leaf::Texts),
            "time" => Type::Leaf(Leaf::Time),
            "microtime" => Type::Leaf(Leaf::MicroTime),
            "quantity" => Type::Leaf(Leaf::Quantity),
            "intorstring" => Type::Leaf(Leaf::IntOrString),
            "json" => Type::Leaf(Leaf::Json),
            "value" => Type::Leaf(Leaf::AnyValue),
            message => match message.strip_prefix('|') {
                Some(choice) => Type::Choice(places[choice]),
                None => Type::Message(places[message]),
            },
        };
        Self { number, name: (name != "-").then_some(name), omits_zero, shape, kind }
    }
}

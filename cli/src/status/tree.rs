//! A tree as text: what a thing is on the left, what is to be said of it on the right, and what to do below it.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    Waiting,
    Stuck,
    NotStarted,
}

impl State {
    pub(crate) fn mark(self) -> char {
        match self {
            Self::Ready => '✓',
            Self::Waiting => '…',
            Self::Stuck => '✗',
            Self::NotStarted => '·',
        }
    }
}

/// A thing, and what hangs below it.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// What it is: `kind/name`.
    pub(crate) label: String,
    /// How it is; none where it goes without saying.
    pub(crate) state: Option<State>,
    /// What there is to say of it.
    pub(crate) says: String,
    /// What to do about it.
    pub(crate) remedy: Vec<String>,
    pub(crate) children: Vec<Tree>,
}

/// The widest that the left side gets.
const WIDEST: usize = 44;

/// The longest that a line's right side gets.
const LONGEST: usize = 110;

impl Tree {
    pub(crate) fn new(label: impl Into<String>, says: impl Into<String>) -> Self {
        Self { label: label.into(), state: None, says: says.into(), remedy: Vec::new(), children: Vec::new() }
    }

    pub(crate) fn state(self, state: State) -> Self {
        Self { state: Some(state), ..self }
    }

    pub(crate) fn remedy(mut self, line: impl Into<String>) -> Self {
        self.remedy.push(line.into());
        self
    }

    /// Puts a line before the others.
    pub(crate) fn first_remedy(mut self, line: impl Into<String>) -> Self {
        self.remedy.insert(0, line.into());
        self
    }

    pub(crate) fn children(self, children: Vec<Tree>) -> Self {
        Self { children, ..self }
    }

    /// Whether it, and everything below it, is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.state.is_none_or(|state| state == State::Ready) && self.children.iter().all(Self::is_ready)
    }

    /// The tree as a value.
    pub(crate) fn json(&self) -> Value {
        let children: Vec<Value> = self.children.iter().map(Self::json).collect();
        let mut value =
            json!({"object": self.label, "message": self.says, "remedy": self.remedy, "children": children});
        if let Some(state) = self.state {
            value["state"] = format!("{state:?}").into();
        }
        value
    }

    /// The tree as lines that fit on a screen.
    pub(crate) fn render(&self) -> String {
        let width = self.width(0).min(WIDEST);
        let mut text = String::new();
        self.write(&mut text, "", "", width);
        text
    }

    fn width(&self, depth: usize) -> usize {
        let own = self.label.chars().count() + 3 * depth + if self.state.is_some() { 2 } else { 0 };
        self.children.iter().map(|child| child.width(depth + 1)).max().unwrap_or_default().max(own)
    }

    fn write(&self, text: &mut String, first: &str, rest: &str, width: usize) {
        let mark = self.state.map(|state| format!("{} ", state.mark())).unwrap_or_default();
        let left = format!("{first}{mark}{}", self.label);
        let _ = writeln!(text, "{}", format!("{left:<width$}  {}", one_line(&self.says)).trim_end());
        let below = if self.children.is_empty() { "  " } else { "│ " };
        for (index, line) in self.remedy.iter().enumerate() {
            let arrow = if index == 0 { "→" } else { " " };
            let _ = writeln!(text, "{rest}{below}{arrow} {line}");
        }
        for (index, child) in self.children.iter().enumerate() {
            let last = index + 1 == self.children.len();
            let (corner, bar) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            child.write(text, &format!("{rest}{corner}"), &format!("{rest}{bar}"), width);
        }
    }
}

/// The text on one line, cut where it would leave the screen.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST {
        return line;
    }
    let cut: String = line.chars().take(LONGEST - 1).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_as_it_is_printed() {
        let leaf = Tree::new("pod/nova-0", "a line\nand   another").remedy("do this").remedy("or that");
        let tree = Tree::new("controlplane/lab", "waiting 2s").children(vec![
            Tree::new("mariadb/mariadb", "ready").state(State::Ready),
            Tree::new("nova/nova", "is not").state(State::Stuck).children(vec![leaf]),
        ]);
        insta::assert_snapshot!(tree.render());
    }
}

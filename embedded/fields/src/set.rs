//! A set of paths, kept as a sorted tree. Set algebra only; what the wire format looks like is in `fieldsv1`.

use std::cmp::Ordering;
use std::fmt::{self, Display, Formatter};

use crate::element::{Element, Path};

/// A set of fields of an object.
///
/// Membership of a field says nothing about the fields below it: owning `.metadata.labels` is not owning
/// `.metadata.labels.app`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by element, no element twice, every node a member or with something below.
    pub(crate) nodes: Vec<Node>,
}

/// An element, whether the path that ends in it is in the set, and what of the set lies below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) element: Element,
    pub(crate) member: bool,
    pub(crate) children: FieldSet,
}

impl Node {
    pub(crate) fn holds_something(&self) -> bool {
        self.member || !self.children.is_empty()
    }
}

impl FieldSet {
    /// The set of these dotted paths of plain fields: `FieldSet::of(&["status", "metadata.labels"])`.
    pub fn of(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let elements: Vec<_> = path.split('.').map(Element::field).collect();
            set.insert(&elements);
        }
        set
    }

    /// A tree from nodes in any order, no element twice.
    pub(crate) fn from_nodes(mut nodes: Vec<Node>) -> Self {
        if !nodes.is_sorted_by(|a, b| a.element < b.element) {
            nodes.sort_by(|a, b| a.element.cmp(&b.element));
        }
        Self { nodes }
    }

    /// Adds a path. The empty path, the whole object, is no one's and is not added.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let place = match self.place(first) {
            Ok(place) => place,
            Err(place) => {
                self.nodes.insert(place, Node { element: first.clone(), member: false, children: Self::default() });
                place
            }
        };
        let node = &mut self.nodes[place];
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert(rest);
        }
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether a path is in the set.
    pub fn contains(&self, path: &[Element]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.get(first).is_some_and(|node| if rest.is_empty() { node.member } else { node.children.contains(rest) })
    }

    fn place(&self, element: &Element) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    pub(crate) fn get(&self, element: &Element) -> Option<&Node> {
        self.place(element).ok().map(|place| &self.nodes[place])
    }

    /// What is in either set.
    pub fn union(&self, other: &Self) -> Self {
        self.zip(other, |pair| match pair {
            Pair::Left(node) | Pair::Right(node) => Some(node.clone()),
            Pair::Both(a, b) => Some(Node {
                element: a.element.clone(),
                member: a.member || b.member,
                children: a.children.union(&b.children),
            }),
        })
    }

    /// What is in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |pair| match pair {
            Pair::Both(a, b) => Some(Node {
                element: a.element.clone(),
                member: a.member && b.member,
                children: a.children.intersection(&b.children),
            }),
            _ => None,
        })
    }

    /// What is in this set and not in the other, path by path.
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// Takes the paths of the other set out of this one; whether any was in it.
    pub(crate) fn subtract(&mut self, other: &Self) -> bool {
        self.take_out(other, &|node, taken| {
            let itself = node.member && taken.member;
            node.member &= !taken.member;
            node.children.subtract(&taken.children) || itself
        })
    }

    /// What is in this set and neither in the other nor below a path of the other.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.cut(other);
        rest
    }

    /// Takes the paths of the other set, and what is below them, out of this one; whether any was in it.
    pub(crate) fn cut(&mut self, other: &Self) -> bool {
        self.take_out(other, &|node, taken| {
            if taken.member {
                node.member = false;
                node.children = Self::default();
            }
            taken.member || node.children.cut(&taken.children)
        })
    }

    /// Changes the nodes that the other set has too. The other is often small: only its nodes are looked up.
    fn take_out(&mut self, other: &Self, take: &dyn Fn(&mut Node, &Node) -> bool) -> bool {
        let mut taken_any = false;
        for taken in &other.nodes {
            if let Ok(place) = self.place(&taken.element) {
                taken_any |= take(&mut self.nodes[place], taken);
            }
        }
        if taken_any {
            self.nodes.retain(Node::holds_something);
        }
        taken_any
    }

    /// What of this set is on the way to, at or below a path of the other.
    pub fn within(&self, other: &Self) -> Self {
        self.zip(other, |pair| match pair {
            Pair::Both(a, b) if b.member => Some(a.clone()),
            Pair::Both(a, b) => {
                Some(Node { element: a.element.clone(), member: a.member, children: a.children.within(&b.children) })
            }
            _ => None,
        })
    }

    /// Whether every path of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.nodes.iter().all(|a| {
            other.get(&a.element).is_some_and(|b| (b.member || !a.member) && a.children.is_subset(&b.children))
        })
    }

    /// The paths that no other path of the set is below.
    pub fn leaves(&self) -> Self {
        let leaf = |node: &Node| Node {
            element: node.element.clone(),
            member: node.member && node.children.is_empty(),
            children: node.children.leaves(),
        };
        Self { nodes: self.nodes.iter().map(leaf).collect() }
    }

    /// Every path: those that end at a level before those that go deeper, as the real server lists conflicts.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Path>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            prefix.push(node.element.clone());
            paths.push(Path(prefix.clone()));
            prefix.pop();
        }
        for node in &self.nodes {
            prefix.push(node.element.clone());
            node.children.collect(prefix, paths);
            prefix.pop();
        }
    }

    fn zip(&self, other: &Self, keep: impl Fn(Pair<'_>) -> Option<Node>) -> Self {
        let (mut left, mut right) = (self.nodes.as_slice(), other.nodes.as_slice());
        let mut nodes = Vec::with_capacity(left.len());
        loop {
            let order = match (left.first(), right.first()) {
                (Some(a), Some(b)) => a.element.cmp(&b.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Self { nodes },
            };
            let pair = match order {
                Ordering::Less => Pair::Left(&left[0]),
                Ordering::Greater => Pair::Right(&right[0]),
                Ordering::Equal => Pair::Both(&left[0], &right[0]),
            };
            nodes.extend(keep(pair).filter(Node::holds_something));
            left = &left[usize::from(order.is_le())..];
            right = &right[usize::from(order.is_ge())..];
        }
    }
}

/// Nodes of two sets with the same element, or the one there is.
enum Pair<'a> {
    Left(&'a Node),
    Right(&'a Node),
    Both(&'a Node, &'a Node),
}

impl Display for FieldSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, path) in self.paths().iter().enumerate() {
            let newline = if i > 0 { "\n" } else { "" };
            write!(f, "{newline}{path}")?;
        }
        Ok(())
    }
}

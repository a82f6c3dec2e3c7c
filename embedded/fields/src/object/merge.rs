//! Merging an applied configuration into an object. Nothing is removed here.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::element::Element;
use crate::shape::{Form, List, Map, Shape};

/// Makes `object` what it is with everything that `config` says, whoever owns it. Nulls and empty containers in `config` do
/// not clear containers that hold something.
pub fn merge_into(shape: &Shape, object: &mut Value, config: &Value) {
    match shape.form(Some(config)) {
        Form::Leaf => object.clone_from(config),
        Form::Map(map) => merge_map(map, object, config),
        Form::List(list) => merge_list(list, object, config),
    }
}

fn merge_map(map: &Map, object: &mut Value, config: &Value) {
    let Some(config_fields) = config.as_object().filter(|fields| !fields.is_empty()) else {
        if object.as_object().is_none_or(serde_json::Map::is_empty) {
            object.clone_from(config);
        }
        return;
    };
    let Value::Object(fields) = object else {
        object.clone_from(config);
        return;
    };
    for (name, value) in config_fields {
        match fields.get_mut(name) {
            Some(field) => merge_into(map.field(name).shape_or_deduced(), field, value),
            None => drop(fields.insert(name.clone(), value.clone())),
        }
    }
}

fn merge_list(list: &List, object: &mut Value, config: &Value) {
    let Some(config_items) = config.as_array().filter(|items| !items.is_empty()) else {
        if object.as_array().is_none_or(Vec::is_empty) {
            object.clone_from(config);
        }
        return;
    };
    let Value::Array(items) = object else {
        object.clone_from(config);
        return;
    };
    if items == config_items {
        return;
    }
    let (steps, config_steps) = (steps(list, items), steps(list, config_items));
    if steps == config_steps && steps.iter().all(Option::is_some) {
        for (item, config) in items.iter_mut().zip(config_items) {
            merge_into(&list.items, item, config);
        }
        return;
    }
    let old = steps.into_iter().zip(std::mem::take(items)).collect();
    let new = config_steps.into_iter().zip(config_items).filter_map(|(step, item)| Some((step?, item))).collect();
    *items = Interleave::new(list, old, new).run();
}

fn steps(list: &List, items: &[Value]) -> Vec<Option<Element>> {
    items.iter().map(|item| list.step(item).ok()).collect()
}

/// Two lists on their way into one. Items of both take the order of the configuration; items that only the object has
/// keep their place between their neighbours.
struct Interleave<'c, 'l> {
    list: &'l List,
    old: Vec<(Option<Element>, Value)>,
    new: Vec<(Element, &'c Value)>,
    /// Where the object has an item; `None` if it has several, which are then not merged with.
    old_place: BTreeMap<Element, Option<usize>>,
    /// Whether an item of the configuration is already in the result.
    placed: BTreeMap<Element, bool>,
    /// Items of both that are not placed yet, in the order of the configuration, last first.
    shared: Vec<Element>,
}

impl<'c, 'l> Interleave<'c, 'l> {
    fn new(list: &'l List, old: Vec<(Option<Element>, Value)>, new: Vec<(Element, &'c Value)>) -> Self {
        let mut old_place = BTreeMap::new();
        for (place, element) in old.iter().enumerate().filter_map(|(i, (element, _))| Some((i, element.as_ref()?))) {
            let first_of_its_key = !old_place.contains_key(element);
            old_place.insert(element.clone(), first_of_its_key.then_some(place));
        }
        let placed = new.iter().map(|(element, _)| (element.clone(), false)).collect();
        let shared =
            new.iter().rev().map(|(element, _)| element).filter(|e| old_place.contains_key(e)).cloned().collect();
        Self { list, old, new, old_place, placed, shared }
    }

    fn run(mut self) -> Vec<Value> {
        let mut out = Vec::with_capacity(self.old.len() + self.new.len());
        let (mut i, mut j) = (0, 0);
        while i < self.old.len() || j < self.new.len() {
            if let Some((element, item)) = self.old.get_mut(i) {
                let Some(&placed) = element.as_ref().and_then(|element| self.placed.get(element)) else {
                    out.push(item.take());
                    i += 1;
                    continue;
                };
                let is = |other: &Element| Some(other) == element.as_ref();
                let next_in_both = self.new.get(j).is_some_and(|(next, _)| is(next));
                let another_first = j < self.new.len() && self.shared.last().is_some_and(|next| !is(next));
                if !next_in_both && another_first {
                    i += 1;
                    continue;
                }
                i += usize::from(next_in_both || placed);
            }
            if j < self.new.len() {
                out.push(self.merged(j));
                j += 1;
            }
        }
        out
    }

    fn merged(&mut self, j: usize) -> Value {
        let (element, config) = &self.new[j];
        self.placed.insert(element.clone(), true);
        if self.shared.last() == Some(element) {
            self.shared.pop();
        }
        let Some(place) = self.old_place.get(element).copied().flatten() else { return Value::clone(config) };
        let mut item = self.old[place].1.take();
        merge_into(&self.list.items, &mut item, config);
        item
    }
}

//! Links, anchors and the table of contents.

use std::collections::BTreeMap;

use crate::pages::{all, one, root, target};

#[test]
fn every_link_within_the_repository_and_every_anchor_leads_somewhere() {
    let mut anchors: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    let pages = all();
    let contents = [one("docs/SUMMARY.md")];
    for page in pages.iter().chain(&contents) {
        for (number, link) in page.links() {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let found = if path.is_empty() { Some(page.path.clone()) } else { target(&page.path, path) };
            let Some(found) = found.filter(|found| root().join(found).exists()) else {
                wrong.push(format!("{}:{number}: {link}: there is no such file", page.path));
                continue;
            };
            if anchor.is_empty() {
                continue;
            }
            let known = anchors.entry(found.clone()).or_insert_with(|| one(&found).anchors());
            if !known.iter().any(|known| known == anchor) {
                wrong.push(format!("{}:{number}: {link}: {found} has no heading for #{anchor}", page.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let contents = one("docs/SUMMARY.md");
    let named: Vec<String> = contents.links().iter().filter_map(|(_, link)| target(&contents.path, link)).collect();
    let mut wrong = Vec::new();
    for page in all() {
        let count = named.iter().filter(|name| **name == page.path).count();
        let from_there = page.path.strip_prefix("docs/").map_or_else(|| format!("../{}", page.path), ToOwned::to_owned);
        match count {
            1 => {}
            0 => wrong
                .push(format!("{} is not there: add `- [...]({from_there})` where a reader looks for it", page.path)),
            _ => wrong.push(format!("{} is there {count} times", page.path)),
        }
    }
    assert!(wrong.is_empty(), "docs/SUMMARY.md:\n{}", wrong.join("\n"));
}

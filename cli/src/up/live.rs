//! What is told while a ControlPlane comes up: a tree that changes in place on a terminal, and lines elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use kube::Client;

use super::say;
use crate::status::{self, State, Tree};

/// How often the cluster is looked at.
const INTERVAL: Duration = Duration::from_millis(500);

/// Stays until the ControlPlane of a namespace is ready and serves, and shows how it gets there. Says so once when it is
/// late. One that was deleted may come back, and an API that does not answer may answer again.
pub(super) async fn until_ready(
    client: &Client,
    (namespace, name): (&str, &str),
    serves: impl AsyncFn() -> bool,
    patience: Duration,
    late: impl Fn(),
) {
    let begun = Instant::now();
    let mut view = View::new();
    let mut is_late = false;
    loop {
        match status::world(client, Some(namespace)).await {
            Ok(world) => {
                view.show(&status::overview(&world));
                let plane = world.find(&format!("controlplane/{name}"), Some(namespace));
                if plane.is_some_and(|plane| plane.wait.is_none()) && serves().await {
                    break;
                }
            }
            Err(error) => tracing::warn!(error, "the cluster cannot be looked at"),
        }
        if begun.elapsed() > patience && !is_late {
            is_late = true;
            view.end();
            late();
            view = View::new();
        }
        tokio::time::sleep(INTERVAL).await;
    }
    view.end();
    say(&format!("ready      controlplane/{name} after {:.1} s", begun.elapsed().as_secs_f64()));
}

/// Where it is shown.
enum View {
    Tree(ProgressBar),
    Lines(BTreeMap<String, (State, String)>),
}

impl View {
    fn new() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::Lines(BTreeMap::new());
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self::Tree(bar)
    }

    fn show(&mut self, trees: &[Tree]) {
        match self {
            Self::Tree(bar) => {
                let text = trees.iter().map(Tree::render).collect::<String>();
                bar.set_message(text.trim_end().to_owned());
                bar.tick();
            }
            Self::Lines(told) => news(told, trees).iter().for_each(|line| say(line)),
        }
    }

    fn end(&self) {
        if let Self::Tree(bar) = self {
            bar.finish();
        }
    }
}

/// A line for everything that is not as it was told.
fn news(told: &mut BTreeMap<String, (State, String)>, trees: &[Tree]) -> Vec<String> {
    let mut lines = Vec::new();
    for tree in trees {
        if let Some(state) = tree.state {
            // Of what is ready or has not begun it is enough to say so once, whatever else changes.
            let says = if matches!(state, State::Waiting | State::Stuck) { tree.says.clone() } else { String::new() };
            let now = (state, says);
            let counts = state != State::NotStarted && !tree.says.starts_with("waiting ");
            if told.get(&tree.label) != Some(&now) && counts {
                let says = tree.says.split_whitespace().collect::<Vec<_>>().join(" ");
                lines.push(format!("{} {}  {says}", state.mark(), tree.label));
            }
            told.insert(tree.label.clone(), now);
        }
        lines.extend(news(told, &tree.children));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_told_again() {
        let mut told = BTreeMap::new();
        let tree = |state, says: &str| {
            let part = Tree::new("mariadb/mariadb", says).state(state);
            vec![Tree::new("controlplane/lab", "waiting 2s").state(State::Waiting).children(vec![part])]
        };
        assert_eq!(news(&mut told, &tree(State::NotStarted, "does not exist yet")), [""; 0]);
        assert_eq!(news(&mut told, &tree(State::Waiting, "0 of 1 ready")), ["… mariadb/mariadb  0 of 1 ready"]);
        assert_eq!(news(&mut told, &tree(State::Waiting, "0 of 1 ready")), [""; 0]);
        assert_eq!(news(&mut told, &tree(State::Ready, "ready 1s")), ["✓ mariadb/mariadb  ready 1s"]);
        assert_eq!(news(&mut told, &tree(State::Ready, "ready 2s")), [""; 0]);
    }
}

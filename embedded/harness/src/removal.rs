//! Removing what a test made from a cluster that is not its own.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use kube::{Client, Config};

use crate::definitions;
use crate::error::Error;
use crate::ledger::{Entries, Made};
use crate::patience::Rounds;
use crate::raw::send;
use crate::release::{Whose, release};

/// Removes everything, and says what it could not. Blocks its thread: a test's runtime may be about to end, so this has
/// one of its own, and connections of its own.
pub(crate) fn remove_everything(config: Config, user: &str, entries: Entries) -> Vec<String> {
    let removal = async move {
        let client = Client::try_from(config).map_err(|error| vec![error.to_string()])?;
        let left = remove_entries(&client, user, entries).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    };
    std::thread::scope(|scope| {
        let removed = scope.spawn(|| match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(removal),
            Err(error) => Err(vec![error.to_string()]),
        });
        removed.join().unwrap_or_else(|_| Err(vec!["the removal panicked".to_owned()])).err().unwrap_or_default()
    })
}

async fn remove_entries(client: &Client, user: &str, entries: Entries) -> Vec<String> {
    let mut left = remove(client, &entries.made).await;
    for definition in entries.shared.iter().map(|name| Made::definition(name)) {
        let gone = match definitions::leave(client, user, &definition.name).await {
            Ok(Some(uid)) => until_gone(client, &definition, Some(&uid)).await,
            left => left.map(drop),
        };
        left.extend(gone.err().map(|error| format!("{definition}: {error}")));
    }
    left
}

/// Removes objects: definitions after namespaces, namespaces after all else, so that nothing waits for what is gone.
/// Returns what is left, and why.
pub(crate) async fn remove(client: &Client, made: &BTreeSet<Made>) -> Vec<String> {
    let rank = |made: &Made| u8::from(made.is_namespace()) + 2 * u8::from(made.is_definition());
    let mut left = Vec::new();
    for turn in 0..=2 {
        let turn: Vec<_> = made.iter().filter(|made| rank(made) == turn).collect();
        for made in &turn {
            // Whatever comes of it: the next step looks.
            let _ = send(client, Method::DELETE, &made.path(), None).await;
        }
        for made in turn {
            left.extend(until_gone(client, made, None).await.err().map(|error| format!("{made}: {error}")));
        }
    }
    left
}

/// Waits until an object is gone, and helps it go. With a uid, until that one is gone: another under its name is left alone.
async fn until_gone(client: &Client, made: &Made, uid: Option<&str>) -> Result<(), Error> {
    let mut rounds = Rounds::begin();
    loop {
        let (code, object) = send(client, Method::GET, &made.path(), None).await?;
        let is_other = code.is_success() && uid.is_some_and(|uid| object["metadata"]["uid"] != *uid);
        if code == StatusCode::NOT_FOUND || is_other {
            return Ok(());
        }
        if code.is_success() && object["metadata"]["deletionTimestamp"].is_null() {
            send(client, Method::DELETE, &made.path(), None).await?;
        } else if rounds.is_late() {
            release(client, made, &object, Whose::Anybodys).await?;
        } else if rounds.is_stuck() {
            release(client, made, &object, Whose::TheTests).await?;
        }
        if !rounds.next().await {
            return Err(Error::TooLate("it does not go".to_owned()));
        }
    }
}

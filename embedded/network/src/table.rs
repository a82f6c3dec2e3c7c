//! A table of the kernel, kept equal to a rule set.

use crate::namespace::{CommandError, Namespace};
use crate::ruleset::Ruleset;

/// A table in a namespace, and what we last put into it.
pub(crate) struct Table {
    namespace: Namespace,
    loaded: Option<Ruleset>,
}

impl Table {
    pub(crate) fn new(namespace: Namespace) -> Self {
        Self { namespace, loaded: None }
    }

    /// Makes the table what is wanted, in one transaction, if it is not that already.
    ///
    /// What a former process left is replaced at the first time, and so is a table that someone else has changed so much
    /// that our change does not fit it.
    pub(crate) async fn load(&mut self, wanted: Ruleset) -> Result<(), CommandError> {
        if self.loaded.as_ref() == Some(&wanted) {
            return Ok(());
        }
        if let Some(old) = self.loaded.take() {
            match run(&self.namespace, &wanted.change_from(&old)).await {
                Ok(()) => {
                    self.loaded = Some(wanted);
                    return Ok(());
                }
                Err(error) => tracing::warn!(%error, "a change did not fit the table; it is written anew"),
            }
        }
        run(&self.namespace, &wanted.replacement()).await?;
        self.loaded = Some(wanted);
        Ok(())
    }
}

/// Removes a table of ours, if it is there.
pub async fn remove(namespace: &Namespace, table: &str) -> Result<(), CommandError> {
    run(namespace, &format!("add table ip {table}\ndelete table ip {table}\n")).await
}

async fn run(namespace: &Namespace, script: &str) -> Result<(), CommandError> {
    namespace.run("nft", &["-f", "-"], script).await.map(|_| ())
}

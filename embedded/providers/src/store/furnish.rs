//! What a store has from the start: the engines, policies, logins and roles of `deploy/openbao`, as a production store has them.

use jiff::Timestamp;
use serde_json::Value;

use super::logins::Role;
use super::pki;
use super::policy;
use super::vault::{Policy, State};

macro_rules! files {
    ($folder:literal, $extension:literal, $($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../deploy/openbao/", $folder, "/", $name, $extension)))),+]
    };
}

/// Policies by their names.
pub(super) const POLICIES: &[(&str, &str)] = files!(
    "policies",
    ".hcl",
    "ci-cd-provisioner",
    "db-exporter",
    "eso-control-plane",
    "eso-hypervisor",
    "eso-management",
    "eso-storage",
    "pki-issuer",
    "push-app-credentials",
    "push-ceph-keys",
    "push-compute-config",
    "push-keystone-keys",
);

/// Roles of logins, by cluster and name.
pub(super) const ROLES: &[(&str, &str)] = files!(
    "roles",
    ".json",
    "control-plane/cert-manager",
    "control-plane/db-exporter",
    "control-plane/eso-control-plane",
    "hypervisor/eso-hypervisor",
    "management/eso-management",
    "storage/eso-storage",
);

/// Roles of the PKI engine.
pub(super) const PKI_ROLES: &[(&str, &str)] = files!("pki", ".json", "api-external", "openstack-internal");

/// What the only policy of older stores said: everything. It is replaced by the one of today.
const FORMER: &str = r#"path "kv-v2/*" { capabilities = ["create", "read", "update", "patch", "delete", "list"] }"#;

impl State {
    /// Adds what is missing. Policies and roles that were changed since stay as they are.
    pub(super) fn furnish(&mut self, now: Timestamp) {
        self.engines.entry("kv-v2".into()).or_default();
        self.authorities.entry("pki".into()).or_insert_with(|| pki::Engine::furnished(now));
        for (name, text) in POLICIES {
            let known = self.policies.get(*name).is_some_and(|policy| policy.text != FORMER);
            if let (false, Ok(rules)) = (known, policy::parse(text)) {
                self.policies.insert((*name).to_owned(), Policy { text: (*text).to_owned(), rules });
            }
        }
        for (path, text) in ROLES {
            let Some((cluster, name)) = path.split_once('/') else { continue };
            let roles = self.logins.entry(format!("kubernetes/{cluster}")).or_default();
            if let Ok(role) = Role::read(&serde_json::from_str(text).unwrap_or(Value::Null)) {
                roles.entry(name.to_owned()).or_insert(role);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    fn in_folder(folder: &Path, extension: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_dir() {
                found.extend(in_folder(&entry.path(), extension).into_iter().map(|below| format!("{name}/{below}")));
            } else {
                found.extend(name.strip_suffix(extension).map(str::to_owned));
            }
        }
        found
    }

    #[test]
    fn a_store_begins_with_every_file_of_deploy() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/openbao");
        for (folder, extension, known) in
            [("policies", ".hcl", POLICIES), ("roles", ".json", ROLES), ("pki", ".json", PKI_ROLES)]
        {
            let known: BTreeSet<String> = known.iter().map(|(name, _)| (*name).to_owned()).collect();
            assert_eq!(known, in_folder(&deploy.join(folder), extension), "{folder}");
        }
        let (state, _) = State::new(Timestamp::now());
        assert_eq!(state.policies.len(), POLICIES.len());
        assert_eq!(state.logins.values().map(std::collections::BTreeMap::len).sum::<usize>(), ROLES.len());
        for role in state.logins.values().flat_map(std::collections::BTreeMap::values) {
            assert!(role.policies.iter().all(|name| state.policies.contains_key(name)), "{role:?}");
        }
    }

    #[test]
    fn an_older_store_loses_the_policy_for_everything_and_keeps_what_people_wrote() {
        let mut state = State::default();
        let policy = |text: &str| Policy { text: text.into(), rules: policy::parse(text).unwrap() };
        let own = r#"path "kv-v2/data/ceph/*" { capabilities = ["list"] }"#;
        state.policies.insert("eso-control-plane".into(), policy(FORMER));
        state.policies.insert("eso-storage".into(), policy(own));
        state.furnish(Timestamp::now());
        assert!(state.policies["eso-control-plane"].text.contains("push-*.hcl"));
        assert_eq!(state.policies["eso-storage"].text, own);
    }
}

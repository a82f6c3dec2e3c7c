//! For tests: contracts with the kinds of other projects, which are facts about the fields that we write or read.
//!
//! A contract is a small file, `kinds/GROUP/PLURAL.yaml`: the names, the scope, the columns, and one line for each field
//! with its type, enum, default and limits. It holds no text of the other project. `make contracts` makes the files from
//! a folder of genuine CRDs; see `docs/contracts.md`.
//!
//! [`problems`] checks an object against its contract. Where `C5C3_GENUINE_CRDS` names a folder of genuine CRDs, it checks
//! the object against the whole genuine schema as well, and [`compared_with_genuine`] tells tests whether to compare more.

mod contract;
mod genuine;
mod record;
mod select;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use c5c3_schema::Schema;
use serde_json::Value;

pub use contract::{Contract, without_prose};
pub use genuine::{Genuine, compared_with_genuine};
pub use record::{is_recording, record};
pub use select::Paths;

/// A schema that an object has to meet.
pub struct Demand {
    by: &'static str,
    /// The schema.
    pub schema: Schema,
}

impl Demand {
    fn new(by: &'static str, schema: &Value) -> Arc<Self> {
        Arc::new(Self { by, schema: Schema::compile(schema).unwrap_or_else(|error| panic!("{by}: {error}")) })
    }

    /// What an API server with this schema would refuse or prune of an object.
    pub fn unmet(&self, object: &Value) -> Vec<String> {
        let said = self.schema.check(object, None).to_string();
        said.lines().map(|line| format!("by {}: {line}", self.by)).collect()
    }
}

/// The schemas of the contracts that were asked for. Tests plan the same kinds hundreds of times.
static CONTRACTS: Mutex<BTreeMap<(String, String, String), Arc<Demand>>> = Mutex::new(BTreeMap::new());

/// The schema that objects of a kind have to meet by its contract.
///
/// # Errors
/// If the kind has no contract.
pub fn demand(group: &str, version: &str, kind: &str) -> Result<Arc<Demand>, String> {
    let mut contracts = CONTRACTS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (group.to_owned(), version.to_owned(), kind.to_owned());
    if let Some(found) = contracts.get(&key) {
        return Ok(Arc::clone(found));
    }
    let contract = Contract::of_kind(group, version, kind)
        .ok_or_else(|| format!("{group}/{version} {kind} has no contract; {}", contract::HOW_TO_ADD))?;
    let demand = Demand::new("its contract", &contract.schema());
    contracts.insert(key, Arc::clone(&demand));
    Ok(demand)
}

/// The schema of the genuine CRD, if that is at hand.
///
/// # Errors
/// If the genuine CRD does not serve this version.
pub fn genuine_demand(group: &str, version: &str, kind: &str) -> Result<Option<Arc<Demand>>, String> {
    let plural = Contract::of_kind(group, version, kind).map(|contract| contract.plural);
    let Some(genuine) = plural.and_then(|plural| Genuine::find(group, &plural)) else { return Ok(None) };
    let schema = genuine.schema(version).ok_or_else(|| format!("the genuine CRD of {kind} serves no {version}"))?;
    Ok(Some(Demand::new("the genuine CRD", schema)))
}

/// What an API server would refuse or prune of an object, by its contract and, if at hand, by the genuine CRD. A kind
/// without a contract is a problem, too.
pub fn problems(object: &Value) -> Vec<String> {
    if record(object) {
        return Vec::new();
    }
    let ((group, version), kind) = (api(object), object["kind"].as_str().unwrap_or_default());
    match (demand(group, version, kind), genuine_demand(group, version, kind)) {
        (Ok(contract), Ok(genuine)) => {
            contract.unmet(object).into_iter().chain(genuine.iter().flat_map(|genuine| genuine.unmet(object))).collect()
        }
        (Err(problem), _) | (_, Err(problem)) => vec![problem],
    }
}

/// The definitions that tests of API servers try: our own, those of all contracts and, if at hand, genuine ones, each with its
/// file. `what` says what is left out without genuine ones.
pub fn definitions(what: &str, with_other_releases: bool) -> Vec<(PathBuf, Value)> {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let ours = Genuine::all_in(&deploy, false).into_iter().map(|ours| (ours.file, ours.definition));
    let contracts = Contract::all().into_iter().map(|contract| (contract.file(), contract.definition()));
    compared_with_genuine(what);
    let genuine = Genuine::all(with_other_releases).into_iter().map(|genuine| (genuine.file, genuine.definition));
    ours.chain(contracts).chain(genuine).collect()
}

/// The group and the version of an object of a group.
fn api(object: &Value) -> (&str, &str) {
    let api = object["apiVersion"].as_str().unwrap_or_default();
    api.split_once('/').unwrap_or(("", api))
}

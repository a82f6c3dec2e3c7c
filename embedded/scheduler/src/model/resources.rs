//! Amounts of resources: what pods ask for, and what nodes have.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use c5c3_kinds::Quantity as Amount;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Counted in thousandths; all others in whole units.
pub const CPU: &str = "cpu";
/// In bytes.
pub const MEMORY: &str = "memory";
/// How many pods a node takes; no pod asks for it.
pub const PODS: &str = "pods";

/// What a container is taken to use when it does not say, so that a node does not look empty for all the pods that ask
/// for nothing. Only scores see it. The numbers are upstream's.
static UNSAID: LazyLock<Resources> =
    LazyLock::new(|| Resources(BTreeMap::from([(CPU.into(), 100), (MEMORY.into(), 200 * 1024 * 1024)])));

/// Amounts by the name of the resource.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Resources(BTreeMap<String, i64>);

impl Resources {
    /// The amounts in a list of an object. What is not an amount counts as none: the API server lets none in.
    pub fn of(list: Option<&BTreeMap<String, Quantity>>) -> Self {
        let amount = |name: &str, text: &str| {
            let amount = Amount::parse(text)?;
            Some(if name == CPU { amount.milli() } else { amount.units() })
        };
        let amounts = list.into_iter().flatten();
        Self(amounts.filter_map(|(name, text)| Some((name.clone(), amount(name, &text.0)?))).collect())
    }

    /// How much of one there is.
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Every resource with its amount, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Adds each amount.
    pub fn add(&mut self, other: &Self) {
        self.merge(other, i64::saturating_add);
    }

    /// Takes each amount away.
    pub fn take(&mut self, other: &Self) {
        self.merge(other, i64::saturating_sub);
    }

    /// Raises each amount to the other's.
    fn raise(&mut self, other: &Self) {
        self.merge(other, i64::max);
    }

    fn merge(&mut self, other: &Self, with: impl Fn(i64, i64) -> i64) {
        for (name, amount) in &other.0 {
            let mine = self.0.entry(name.clone()).or_insert(0);
            *mine = with(*mine, *amount);
        }
    }
}

/// What a pod asks of a node.
pub fn requests(spec: &PodSpec) -> Resources {
    total(spec, &Resources::default())
}

/// What a pod is taken to use of a node when nodes are compared: silence counts as a little.
pub fn footprint(spec: &PodSpec) -> Resources {
    total(spec, &UNSAID)
}

/// The most that a pod uses at any time of its life. Init containers run one after the other, so the largest counts;
/// those that go on running beside the rest count for all that start after them.
fn total(spec: &PodSpec, unsaid: &Resources) -> Resources {
    let asks = |container: &Container| {
        let mut asks = unsaid.clone();
        let said = Resources::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
        asks.0.extend(said.0);
        asks
    };
    let (mut beside, mut peak) = (Resources::default(), Resources::default());
    for container in spec.init_containers.iter().flatten() {
        if is_sidecar(container) {
            beside.add(&asks(container));
            peak.raise(&beside);
        } else {
            let mut during = asks(container);
            during.add(&beside);
            peak.raise(&during);
        }
    }
    let mut running = beside;
    for container in &spec.containers {
        running.add(&asks(container));
    }
    peak.raise(&running);
    let of_the_pod = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    peak.0.extend(Resources::of(of_the_pod).0);
    peak.add(&Resources::of(spec.overhead.as_ref()));
    peak
}

/// Whether an init container goes on running beside the others.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(spec: Value) -> PodSpec {
        serde_json::from_value(spec).unwrap()
    }

    fn cpu(amount: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": amount}}})
    }

    fn sidecar(amount: &str) -> Value {
        json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": amount}}})
    }

    #[test]
    fn a_pod_asks_for_the_most_that_it_uses_at_any_time() {
        let cases = [
            ("containers run together", json!({"containers": [cpu("1"), cpu("500m")]}), 1500),
            (
                "init containers run one by one",
                json!({"initContainers": [cpu("2"), cpu("3")], "containers": [cpu("1")]}),
                3000,
            ),
            ("a sidecar runs beside", json!({"initContainers": [sidecar("1")], "containers": [cpu("1")]}), 2000),
            (
                "a sidecar runs beside the init containers after it, not before it",
                json!({"initContainers": [cpu("3"), sidecar("1"), cpu("2500m")], "containers": [cpu("1")]}),
                3500,
            ),
            ("overhead comes on top", json!({"overhead": {"cpu": "250m"}, "containers": [cpu("1")]}), 1250),
            (
                "what the pod as a whole asks for wins",
                json!({"resources": {"requests": {"cpu": "5"}}, "containers": [cpu("1")]}),
                5000,
            ),
        ];
        for (what, pod, wanted) in cases {
            assert_eq!(requests(&spec(pod)).get(CPU), wanted, "{what}");
        }
    }

    #[test]
    fn silence_counts_as_a_little_when_nodes_are_compared() {
        let silent =
            spec(json!({"containers": [{"name": "c"}, {"name": "d", "resources": {"requests": {"cpu": "2"}}}]}));
        assert_eq!(requests(&silent).get(MEMORY), 0);
        assert_eq!(footprint(&silent).get(CPU), 2100);
        assert_eq!(footprint(&silent).get(MEMORY), 400 * 1024 * 1024);
    }

    #[test]
    fn amounts_finer_than_what_is_counted_are_rounded_up() {
        let list = BTreeMap::from([
            (CPU.to_owned(), Quantity("100500u".into())),
            (MEMORY.to_owned(), Quantity("1500m".into())),
            ("example.com/gpu".to_owned(), Quantity("2".into())),
        ]);
        let amounts = Resources::of(Some(&list));
        assert_eq!((amounts.get(CPU), amounts.get(MEMORY), amounts.get("example.com/gpu")), (101, 2, 2));
    }
}

//! `c5c3 why` as a value: from an object that is not ready down to what keeps it from being so, with the field that
//! decides it and what to do.

use serde_json::Value;

use super::tree::Tree;
use super::world::{Object, Said, World};
use super::{delivery, fields, pods, reach};

/// How deep a chain is followed before it is taken for a circle.
const DEEPEST: usize = 12;

/// How many things below one are told: more would leave the screen.
const MOST: usize = 4;

/// What keeps the objects from being ready; nothing when they are.
pub(crate) fn trees(world: &World, asked: &[&Object]) -> Vec<Tree> {
    let waiting = asked.iter().filter(|object| is_down(object));
    let mut trees: Vec<Tree> = waiting.map(|object| Search { world }.explain(object, &[])).collect();
    trees.extend(asked.iter().filter(|object| !is_down(object)).filter_map(|object| run_held_up(world, object)));
    if !trees.is_empty() {
        trees.extend(world.nodes_down().map(|(node, message)| {
            let tree = Tree::new(node.reference.short(), format!("NotReady: {message}"));
            tree.remedy(format!("kubectl describe node {}", node.reference.name))
        }));
    }
    trees
}

/// Why a run of tests does not start. The object is ready all the same: the next run may go.
fn run_held_up(world: &World, object: &Object) -> Option<Tree> {
    let pods = if object.kind() == "Tempest" { world.below(object, "Pod") } else { Vec::new() };
    let is_held_up = |pod: &&Object| pod.text("/status/phase") == Some("Pending") && !pods::halted(pod).is_empty();
    let pod = pods.into_iter().find(is_held_up)?;
    let tree = Tree::new(label(object, &[]), "its run does not start".to_owned());
    Some(tree.children(vec![Search { world }.explain(pod, &[object])]))
}

/// The objects that are explained without a name: ControlPlanes, or what of ours there is when there are none.
pub(crate) fn unasked(world: &World) -> Vec<&Object> {
    let planes: Vec<&Object> = world.of_kind("ControlPlane").collect();
    if !planes.is_empty() {
        return planes;
    }
    let ours = |object: &&Object| object.reference.resource.group.ends_with("c5c3.io");
    world.objects.iter().filter(ours).collect()
}

struct Search<'a> {
    world: &'a World,
}

impl<'a> Search<'a> {
    /// Follows an object downwards. `above` is the way to it, from the top.
    fn explain(&self, object: &'a Object, above: &[&'a Object]) -> Tree {
        let mut tree = Tree::new(label(object, above), self.says(object));
        let mut way = above.to_vec();
        way.push(object);
        if way.len() > DEEPEST {
            return tree.remedy("the objects wait for each other in a circle");
        }
        if let Some(problems) = invalid(object) {
            return problems.lines().fold(tree, |tree, line| {
                let tree = tree.remedy(line.to_owned());
                fields::origin(line, above).into_iter().fold(tree, Tree::remedy)
            });
        }
        // What it says of itself needs no object below it.
        for wait in object.said().iter().filter(|wait| wait.object == object.reference.short()) {
            tree = tree.remedy(wait.because.clone().unwrap_or_else(|| wait.state()));
            tree = wait.look_at.iter().fold(tree, |tree, remedy| tree.remedy(remedy.clone()));
        }
        let children = match object.kind() {
            "PushSecret" | "ExternalSecret" => {
                // What it says itself is worth telling: it names the Secret, the key or the store.
                let mut tree = self.end(tree, object, &way);
                if let Some(field) =
                    delivery::missing_store(self.world, object).and_then(|name| fields::of_value(name, above))
                {
                    tree = tree.first_remedy(format!(
                        "{field} names a store that does not exist: correct it, or create the store"
                    ));
                }
                return tree.children(few(self.delivery(delivery::before(self.world, object), &way)));
            }
            "Pod" => return self.pod(tree, object, &way),
            "PersistentVolumeClaim" => return self.claim(tree, object, &way),
            // Pods that are still there are on their way out.
            _ if is_scaled_to_zero(object) => return self.end(tree, object, &way),
            _ => self.below(object, &way),
        };
        if children.is_empty() && tree.remedy.is_empty() {
            let links = self.delivery(delivery::before(self.world, object), &way);
            return self.end(tree, object, &way).children(few(links));
        }
        tree.children(few(children))
    }

    /// Links of the way of a credential that fail.
    fn delivery(&self, links: Vec<&'a Object>, way: &[&'a Object]) -> Vec<Tree> {
        links.into_iter().filter(|link| !is_in(way, link)).map(|link| self.explain(link, way)).collect()
    }

    /// What an object waits for by its own word, or else what it owns that is not ready.
    fn below(&self, object: &'a Object, way: &[&'a Object]) -> Vec<Tree> {
        let said = object.said();
        if !said.is_empty() {
            let others = said.iter().filter(|wait| wait.object != object.reference.short());
            return others.map(|wait| self.wait(wait, object, way)).collect();
        }
        // A ReplicaSet says nothing that its pods do not say better.
        let owned: Vec<&Object> = match object.kind() {
            "Deployment" => self.world.below(object, "Pod"),
            _ => self.world.owned_by(object).collect(),
        };
        let down = owned.iter().filter(|child| is_down(child) && !is_in(way, child));
        let causes = down.filter(|child| !waits_for_pod(child, &owned, way));
        causes.map(|child| self.explain(child, way)).collect()
    }

    fn wait(&self, wait: &Said, object: &'a Object, way: &[&'a Object]) -> Tree {
        match self.world.find(&wait.object, object.namespace()) {
            Some(found) if is_down(found) && !is_in(way, found) => {
                let tree = self.explain(found, way);
                // What is below tells more than why it is needed.
                let ends_here = tree.children.is_empty() && invalid(found).is_none();
                match wait.because.as_deref().filter(|because| ends_here && *because != tree.says) {
                    Some(because) => {
                        let known = format!(" ({})", tree.says);
                        tree.first_remedy(because.strip_suffix(&known).unwrap_or(because))
                    }
                    None => tree,
                }
            }
            _ => {
                let tree = Tree::new(wait.object.clone(), wait.state());
                let links = match wait.object.strip_prefix("secret/") {
                    Some(secret) => delivery::makers(self.world, secret, object.namespace()),
                    None => Vec::new(),
                };
                if !links.is_empty() {
                    // A Secret that something delivers is not made by hand.
                    let tree = wait.because.iter().fold(tree, |tree, line| tree.remedy(line.clone()));
                    return tree.children(few(self.delivery(links, way)));
                }
                wait.because.iter().chain(&wait.look_at).fold(tree, |tree, line| tree.remedy(line.clone()))
            }
        }
    }

    fn pod(&self, mut tree: Tree, pod: &'a Object, way: &[&'a Object]) -> Tree {
        let unscheduled = pods::unscheduled(pod);
        if let Some(remedies) = unscheduled.and_then(|message| misfit(pod, message, way)) {
            return remedies.into_iter().fold(tree, Tree::remedy);
        }
        let unbound: Vec<&Object> = pods::claims(pod)
            .filter_map(|name| self.world.find(&format!("persistentvolumeclaim/{name}"), pod.namespace()))
            .filter(|claim| claim.wait.is_some())
            .collect();
        if !unbound.is_empty() {
            let children = unbound.into_iter().map(|claim| self.explain(claim, way)).collect();
            return tree.children(few(children));
        }
        if unscheduled.is_some() {
            return tree.remedy("kubectl describe nodes");
        }
        let links = delivery::makers_for_pod(self.world, &tree.says, pod.namespace());
        if !links.is_empty() {
            return tree.children(few(self.delivery(links, way)));
        }
        if let Some(container) = pods::out_of_memory(pod).or_else(|| self.loses_processes(pod)) {
            let limit = pods::memory_limit(pod, container);
            let field = limit.and_then(|limit| fields::of_value(limit, way));
            let field = field.unwrap_or_else(|| "resources.limits.memory".to_owned());
            let limit = limit.map(|limit| format!(", {limit}")).unwrap_or_default();
            return tree.remedy(format!(
                "the kernel killed {container} because it used more memory than its limit{limit}: raise {field}"
            ));
        }
        for halted in pods::halted(pod).into_iter().take(2) {
            if is_image_trouble(halted.reason) {
                tree = tree.remedy(format!("{} does not exist, or cannot be pulled", halted.image));
                tree = match (fields::of_release(halted.image, way), fields::of_image(halted.image, way)) {
                    (Some(remedy), _) => tree.remedy(remedy),
                    (None, Some(field)) => tree.remedy(format!("{field} names it: correct it, or provide the image")),
                    (None, None) => {
                        tree.remedy("provide it: build it and import it on the nodes, or push it to its registry")
                    }
                };
                continue;
            }
            if let Some(line) = self.last_line(pod, &halted) {
                tree = tree.remedy(line);
            }
            if let Some(field) = fields::of_server(pod, halted.name, way) {
                tree = tree.remedy(format!("{field} names it: correct it, or make sure that it answers"));
                continue;
            }
            tree = match halted.reason {
                "CreateContainerConfigError" | "CreateContainerError" => tree.remedy(halted.message.to_owned()),
                _ => tree.remedy(format!(
                    "kubectl logs {} -c {}{}{}",
                    pod.reference.name,
                    halted.name,
                    in_namespace(pod),
                    if halted.reason == "CrashLoopBackOff" { " --previous" } else { "" }
                )),
            };
        }
        tree = reach::remedies(self.world, pod, way).into_iter().fold(tree, Tree::remedy);
        if tree.remedy.is_empty() {
            tree = tree.remedy(format!("kubectl describe pod {}{}", pod.reference.name, in_namespace(pod)));
        }
        tree
    }

    /// A container with a memory limit that does not get ready because its processes are killed, by its own log. Where cgroups are
    /// of version 1, the kernel kills processes one by one, and the container lives on.
    fn loses_processes(&self, pod: &'a Object) -> Option<&'a str> {
        let container = pods::starting(pod)?.0;
        let log = self.world.logs.get(&pods::log_name(pod, container))?;
        (log.contains("killed by signal 9") && pods::memory_limit(pod, container).is_some()).then_some(container)
    }

    fn claim(&self, tree: Tree, claim: &Object, way: &[&Object]) -> Tree {
        let Some(class) = claim.text("/spec/storageClassName") else {
            let tree = tree.remedy("it names no storage class, and the cluster has no default one");
            return tree.remedy("name one, or mark one: storageclass.kubernetes.io/is-default-class=true");
        };
        // Classes that may not be listed are taken to be there.
        let unknown = self.world.unread.iter().any(|kind| kind.starts_with("storageclasses"));
        let exists = unknown || self.world.find(&format!("storageclass/{class}"), None).is_some();
        let tree = if exists {
            tree
        } else {
            tree.remedy(format!("the storage class {class} does not exist: kubectl get storageclasses"))
        };
        match way.iter().find_map(|object| fields::of_text(class, object)) {
            Some(field) if !exists => tree.remedy(format!("{field} names it")),
            _ => tree.remedy(format!("kubectl describe pvc {}{}", claim.reference.name, in_namespace(claim))),
        }
    }

    /// An object that is not ready and says nothing more: where to look.
    fn end(&self, tree: Tree, object: &Object, way: &[&Object]) -> Tree {
        if is_scaled_to_zero(object) {
            let field =
                fields::of_no_replicas(way).unwrap_or_else(|| format!("spec.replicas of {}", object.reference.short()));
            return tree.remedy(format!("{field} is 0: set it to 1 or more"));
        }
        let mut tree = match self.world.warning(object) {
            Some((reason, message)) => tree.remedy(format!("{reason}: {message}")),
            None => tree,
        };
        let now = object.wait.as_ref().and_then(|wait| wait.now.as_ref()).filter(|now| !tree.says.contains(*now));
        if let Some(now) = now.filter(|_| tree.remedy.is_empty()) {
            tree = tree.remedy(now.clone());
        }
        match object.wait.as_ref().and_then(|wait| wait.look_at.clone()) {
            Some(command) => tree.remedy(command),
            None => tree,
        }
    }

    fn says(&self, object: &Object) -> String {
        match object.kind() {
            "Pod" => return pods::says(self.world, object),
            "PersistentVolumeClaim" => return self.claim_says(object),
            _ => {}
        }
        let since = object.condition("Ready").and_then(|ready| ready["lastTransitionTime"].as_str());
        if object.kind() == "ControlPlane" {
            let ago =
                since.and_then(|since| self.world.ago(since)).unwrap_or_else(|| "since it was created".to_owned());
            return match invalid(object) {
                Some(_) => format!("its spec has been invalid for {ago}; the last valid configuration keeps running"),
                None => format!("waiting {ago}"),
            };
        }
        if invalid(object).is_some() {
            return "its spec is invalid; the last valid configuration keeps running".to_owned();
        }
        if let Some(condition) = first_false(object) {
            return condition;
        }
        object.wait.as_ref().map(|wait| wait.now.clone().unwrap_or_else(|| wait.condition.clone())).unwrap_or_default()
    }

    fn claim_says(&self, claim: &Object) -> String {
        let phase = claim.text("/status/phase").unwrap_or("new");
        match self.world.warning(claim) {
            Some((_, message)) => format!("is {phase}: {message}"),
            None => format!("is {phase}"),
        }
    }

    /// The last line that a container wrote, as far as its pod or its log still has it.
    fn last_line(&self, pod: &Object, halted: &pods::Halted<'_>) -> Option<String> {
        let log = || self.world.logs.get(&pods::log_name(pod, halted.name));
        let words = halted.last_words.or_else(|| log().map(String::as_str))?;
        words.lines().rev().find(|line| !line.trim().is_empty()).map(|line| format!("its last line: {}", line.trim()))
    }
}

/// What to do about a pod that fits no node, by what it requests or selects; none if that is not why it has no node. A claim of
/// such a pod is not bound either, and that is no cause: its volume is created on the node of the pod.
fn misfit(pod: &Object, message: &str, way: &[&Object]) -> Option<Vec<String>> {
    if let Some(short) = pods::lacking(message) {
        let field = pods::requests(pod, short).find_map(|asked| fields::of_value(asked, way));
        let lower = field.map(|field| format!("{field} requests more {short} than any node has free: lower it"));
        let rest = format!("lower the {short} that pods request, or add a node: kubectl describe nodes");
        return Some(lower.into_iter().chain([rest]).collect());
    }
    if message.contains("node affinity/selector") {
        let field = fields::of_selector(way)?;
        return Some(vec![format!(
            "{field} fits no node: correct it, or label a node: kubectl get nodes --show-labels"
        )]);
    }
    None
}

/// Whether a claim waits for a pod that fits no node.
fn waits_for_pod(claim: &Object, pods: &[&Object], way: &[&Object]) -> bool {
    claim.kind() == "PersistentVolumeClaim"
        && pods.iter().any(|pod| {
            pod.kind() == "Pod"
                && pods::claims(pod).any(|name| name == claim.reference.name)
                && pods::unscheduled(pod).is_some_and(|message| misfit(pod, message, way).is_some())
        })
}

/// Whether there is something to explain about an object.
fn is_down(object: &Object) -> bool {
    match object.kind() {
        "Pod" => !pods::is_ready(object),
        "Node" => object.condition("Ready").is_none_or(|ready| ready["status"] != "True"),
        _ => object.wait.is_some(),
    }
}

fn is_scaled_to_zero(object: &Object) -> bool {
    object.wait.as_ref().is_some_and(|wait| wait.reason() == "ScaledToZero")
}

fn is_in(way: &[&Object], object: &Object) -> bool {
    way.iter().any(|passed| passed.reference == object.reference)
}

/// The object as seen from the one above it.
fn label(object: &Object, above: &[&Object]) -> String {
    match above.first() {
        Some(top) => object.reference.relative_to(top.namespace()),
        None => object.reference.short(),
    }
}

/// The first condition of an object of ours that does not hold: finer ones before `Ready`, which sums them up.
fn first_false(object: &Object) -> Option<String> {
    if !object.reference.resource.group.ends_with("c5c3.io") {
        return None;
    }
    // Conditions that say something about the whole, and are good when they are false.
    let is_summary =
        |condition: &Value| ["Degraded", "Progressing", "Paused"].iter().any(|one| condition["type"] == *one);
    let is_false = |condition: &&Value| {
        condition["status"] == "False" && condition["reason"] != "Blocked" && !is_summary(condition)
    };
    let mut conditions: Vec<&Value> = object.list("/status/conditions").iter().filter(is_false).collect();
    conditions.sort_by_key(|condition| condition["type"] == "Ready");
    let found = conditions.first()?;
    Some(format!("{}=False", found["type"].as_str().unwrap_or_default()))
}

/// What is wrong with the spec, a line for each problem.
pub(super) fn invalid(object: &Object) -> Option<&str> {
    object
        .condition("Ready")
        .filter(|ready| ready["reason"] == "InvalidSpec")
        .and_then(|ready| ready["message"].as_str())
}

fn is_image_trouble(reason: &str) -> bool {
    matches!(
        reason,
        "ImagePullBackOff" | "ErrImagePull" | "ErrImageNeverPull" | "InvalidImageName" | "ImageInspectError"
    )
}

fn in_namespace(object: &Object) -> String {
    object.namespace().map(|namespace| format!(" -n {namespace}")).unwrap_or_default()
}

/// As many as fit. What is the same of several is told once.
fn few(trees: Vec<Tree>) -> Vec<Tree> {
    let mut told: Vec<(Tree, usize)> = Vec::new();
    for tree in trees {
        let same = |(other, _): &&mut (Tree, usize)| {
            other.says == tree.says
                && other.remedy == tree.remedy
                && other.children.is_empty()
                && tree.children.is_empty()
        };
        match told.iter_mut().find(same) {
            Some((_, more)) => *more += 1,
            None => told.push((tree, 0)),
        }
    }
    let mut trees: Vec<Tree> = told
        .into_iter()
        .map(|(tree, more)| match more {
            0 => tree,
            more => Tree { label: format!("{} and {more} more", tree.label), ..tree },
        })
        .collect();
    if trees.len() > MOST {
        let more = trees.len() - MOST;
        trees.truncate(MOST);
        trees.push(Tree::new(format!("and {more} more"), ""));
    }
    trees
}

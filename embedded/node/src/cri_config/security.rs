//! Security contexts: users, groups, capabilities, profiles, namespaces.

use std::path::Path;

use c5c3_cri::v1;
use c5c3_cri::v1::security_profile::ProfileType;
use k8s_openapi::api::core::v1::{Container, SeccompProfile, SecurityContext};

use crate::pod::Pod;

/// What of `/proc` and `/sys` a container does not see.
const MASKED: [&str; 11] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
];
/// What of `/proc` a container cannot write.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// A container that must not run as root, and would or might.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Root {
    #[error("container's runAsUser breaks non-root policy (pod: \"{pod}\", container: {container})")]
    Asked { pod: String, container: String },
    #[error("container has runAsNonRoot and image will run as root (pod: \"{pod}\", container: {container})")]
    ByImage { pod: String, container: String },
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: \
         \"{pod}\", container: {container})"
    )]
    Unknown { user: String, pod: String, container: String },
}

/// What the container's context and the pod's say together.
struct Effective {
    user: Option<i64>,
    group: Option<i64>,
    non_root: bool,
    seccomp: Option<SeccompProfile>,
    own: SecurityContext,
}

impl Effective {
    fn new(pod: &Pod, container: &Container) -> Self {
        let of_pod = pod.spec().security_context.clone().unwrap_or_default();
        let own = container.security_context.clone().unwrap_or_default();
        Self {
            user: own.run_as_user.or(of_pod.run_as_user),
            group: own.run_as_group.or(of_pod.run_as_group),
            non_root: own.run_as_non_root.or(of_pod.run_as_non_root).unwrap_or(false),
            seccomp: own.seccomp_profile.clone().or(of_pod.seccomp_profile),
            own,
        }
    }
}

/// A container's security context; `image` says who it runs as if no one else does.
pub(crate) fn context(
    pod: &Pod,
    container: &Container,
    image: &v1::Image,
    seccomp_folder: &Path,
) -> Result<v1::LinuxContainerSecurityContext, Root> {
    let effective = Effective::new(pod, container);
    check_root(pod, container, image, &effective)?;
    let own = &effective.own;
    let is_privileged = own.privileged == Some(true);
    let number = |value: Option<i64>| value.map(|value| v1::Int64Value { value });
    let of_image = image.uid.as_ref().map(|uid| uid.value).filter(|_| image.username.is_empty());
    let user = effective.user.or(of_image);
    let name = if user.is_none() { image.username.clone() } else { String::new() };
    let hides_proc = !is_privileged && own.proc_mount.as_deref() != Some("Unmasked");
    let paths = |list: &[&str]| list.iter().filter(|_| hides_proc).map(|path| (*path).to_owned()).collect();
    Ok(v1::LinuxContainerSecurityContext {
        capabilities: own.capabilities.as_ref().map(|capabilities| v1::Capability {
            add_capabilities: capabilities.add.clone().unwrap_or_default(),
            drop_capabilities: capabilities.drop.clone().unwrap_or_default(),
            ..v1::Capability::default()
        }),
        privileged: is_privileged,
        namespace_options: Some(namespaces(pod)),
        run_as_user: number(user),
        // The runtime refuses a group without a user.
        run_as_group: number(effective.group.filter(|_| user.is_some() || !name.is_empty())),
        run_as_username: name,
        readonly_rootfs: own.read_only_root_filesystem == Some(true),
        supplemental_groups: groups(pod),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        masked_paths: paths(&MASKED),
        readonly_paths: paths(&READ_ONLY),
        seccomp: Some(seccomp(effective.seccomp.as_ref(), seccomp_folder, ProfileType::Unconfined)),
        ..v1::LinuxContainerSecurityContext::default()
    })
}

fn check_root(pod: &Pod, container: &Container, image: &v1::Image, effective: &Effective) -> Result<(), Root> {
    if !effective.non_root {
        return Ok(());
    }
    let (pod, container) = (pod.description(), container.name.clone());
    match (effective.user, &image.uid) {
        (Some(0), _) => Err(Root::Asked { pod, container }),
        (None, Some(uid)) if uid.value == 0 => Err(Root::ByImage { pod, container }),
        (Some(_), _) | (None, Some(_)) => Ok(()),
        (None, None) if image.username.is_empty() => Err(Root::ByImage { pod, container }),
        (None, None) => Err(Root::Unknown { user: image.username.clone(), pod, container }),
    }
}

/// The groups of every container of a pod, beside its user's own.
pub(crate) fn groups(pod: &Pod) -> Vec<i64> {
    let context = pod.spec().security_context.as_ref();
    let further = context.and_then(|context| context.supplemental_groups.clone()).unwrap_or_default();
    further.into_iter().chain(context.and_then(|context| context.fs_group)).collect()
}

/// Which namespaces are the pod's, the node's, or each container's own.
pub(crate) fn namespaces(pod: &Pod) -> v1::NamespaceOption {
    use v1::NamespaceMode::{Container, Node, Pod};
    let spec = pod.spec();
    let host_or =
        |is_host: Option<bool>, other: v1::NamespaceMode| (if is_host == Some(true) { Node } else { other }) as i32;
    let is_shared = spec.share_process_namespace == Some(true);
    v1::NamespaceOption {
        network: host_or(spec.host_network, Pod),
        pid: host_or(spec.host_pid, if is_shared { Pod } else { Container }),
        ipc: host_or(spec.host_ipc, Pod),
        ..v1::NamespaceOption::default()
    }
}

/// Lets a container that has processes of its own see those of another instead.
pub(crate) fn share_processes(context: &mut v1::LinuxContainerSecurityContext, target: Option<String>) {
    let options = context.namespace_options.as_mut().filter(|options| options.pid() == v1::NamespaceMode::Container);
    if let (Some(options), Some(target)) = (options, target) {
        options.set_pid(v1::NamespaceMode::Target);
        options.target_id = target;
    }
}

/// A seccomp profile; `folder` holds those that are named.
pub(crate) fn seccomp(profile: Option<&SeccompProfile>, folder: &Path, default: ProfileType) -> v1::SecurityProfile {
    let local = profile.and_then(|profile| profile.localhost_profile.as_deref()).unwrap_or_default();
    let kind = match profile.map(|profile| profile.type_.as_str()) {
        Some("RuntimeDefault") => ProfileType::RuntimeDefault,
        Some("Unconfined") => ProfileType::Unconfined,
        Some("Localhost") => ProfileType::Localhost,
        _ => default,
    };
    let is_local = kind == ProfileType::Localhost;
    let localhost_ref = if is_local { folder.join(local).display().to_string() } else { String::new() };
    v1::SecurityProfile { profile_type: kind as i32, localhost_ref }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::testing::pod;

    fn made(of_pod: Value, own: Value, image: &v1::Image) -> Result<v1::LinuxContainerSecurityContext, Root> {
        let pod = pod(json!({"securityContext": of_pod, "containers": [{"name": "app", "securityContext": own}]}));
        context(&pod, &pod.main_containers()[0], image, Path::new("/data/seccomp"))
    }

    fn image(uid: Option<i64>, username: &str) -> v1::Image {
        let uid = uid.map(|value| v1::Int64Value { value });
        v1::Image { uid, username: username.to_owned(), ..v1::Image::default() }
    }

    #[test]
    fn the_containers_word_counts_before_the_pods_and_that_before_the_images() {
        let user = |of_pod, own, image: &v1::Image| {
            let context = made(of_pod, own, image).unwrap();
            (context.run_as_user.map(|user| user.value), context.run_as_username)
        };
        let (none, image_user) = (json!({}), image(Some(7), ""));
        assert_eq!(user(json!({"runAsUser": 5}), json!({"runAsUser": 6}), &image_user), (Some(6), String::new()));
        assert_eq!(user(json!({"runAsUser": 5}), none.clone(), &image_user), (Some(5), String::new()));
        assert_eq!(user(none.clone(), none.clone(), &image_user), (Some(7), String::new()));
        assert_eq!(user(none.clone(), none, &image(None, "nginx")), (None, "nginx".to_owned()));
    }

    #[test]
    fn who_must_not_be_root_is_not() {
        let non_root = json!({"runAsNonRoot": true});
        let refused =
            |own: Value, image: &v1::Image| made(non_root.clone(), own, image).err().map(|error| error.to_string());
        let root = image(Some(0), "");
        assert_eq!(refused(json!({"runAsUser": 5}), &root), None);
        assert_eq!(refused(json!({}), &image(Some(7), "")), None);
        assert_eq!(
            refused(json!({}), &root).unwrap(),
            "container has runAsNonRoot and image will run as root (pod: \"web_shop(u-1)\", container: app)"
        );
        assert!(refused(json!({"runAsUser": 0}), &root).unwrap().contains("breaks non-root policy"));
        assert!(refused(json!({}), &image(None, "nginx")).unwrap().contains("non-numeric user (nginx)"));
    }

    #[test]
    fn a_context_is_passed_on() {
        let own = json!({"capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "readOnlyRootFilesystem": true,
            "allowPrivilegeEscalation": false, "seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"}});
        let of_pod = json!({"supplementalGroups": [3], "fsGroup": 4, "runAsUser": 1, "runAsGroup": 2});
        let made = made(of_pod, own, &image(None, "")).unwrap();
        assert_eq!(made.capabilities.unwrap().drop_capabilities, ["ALL"]);
        assert!(made.readonly_rootfs && made.no_new_privs && !made.privileged);
        assert_eq!((made.supplemental_groups, made.run_as_group.unwrap().value), (vec![3, 4], 2));
        assert_eq!(made.seccomp.unwrap().localhost_ref, "/data/seccomp/a.json");
        assert!(made.masked_paths.contains(&"/proc/kcore".to_owned()));
    }

    #[test]
    fn a_privileged_container_sees_everything() {
        let made = made(json!({}), json!({"privileged": true}), &image(None, "")).unwrap();
        assert!(made.privileged && made.masked_paths.is_empty());
        assert_eq!(made.seccomp.unwrap().profile_type, ProfileType::Unconfined as i32);
    }

    #[test]
    fn processes_are_shared_with_a_target_unless_the_pod_shares_more() {
        let pid = |spec: Value| {
            let pod = pod(spec);
            let mut context = context(&pod, &pod.main_containers()[0], &image(None, ""), Path::new("/")).unwrap();
            share_processes(&mut context, Some("c-1".to_owned()));
            let options = context.namespace_options.unwrap();
            (options.pid(), options.target_id)
        };
        assert_eq!(pid(json!({})), (v1::NamespaceMode::Target, "c-1".to_owned()));
        assert_eq!(pid(json!({"shareProcessNamespace": true})), (v1::NamespaceMode::Pod, String::new()));
        assert_eq!(pid(json!({"hostPID": true})), (v1::NamespaceMode::Node, String::new()));
    }
}

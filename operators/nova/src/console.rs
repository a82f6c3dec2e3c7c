//! Graphical consoles: the proxy that shows the screens of guests in browsers, and how it is reached.
//!
//! ```text
//!  browser ── noVNC, WebSocket ──► pod console ── VNC ──► node of the guest, ports 5900 to 6899 (QEMU)
//!                                      └─ the token of the URL, in the database of the guest's cell
//! ```

use c5c3_api::blocks::GatewayRoute;
use c5c3_api::ext::gateway::{Filter, HTTPRoute, HTTPRouteSpec, ParentRef, Rule};
use c5c3_api::openstack::{Nova, NovaSpec};
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Child, Step};
use c5c3_service::instance::host;
use c5c3_service::network::Egress;
use c5c3_service::{Component, Instance, ServicePlan};

use crate::{CONF, Compute, config};

/// The component, and its Service's name after that of the Nova.
pub(crate) const NAME: &str = "console";

const PORT: i32 = 6080;

/// The ports of screens on a node, as `qemu.conf` has them.
const SCREENS: (i32, i32) = (5900, 6899);

/// The page that shows a screen.
const PAGE: &str = "vnc_lite.html";

/// The proxy; none without `spec.console`.
pub(crate) fn component(spec: &NovaSpec) -> Option<Component> {
    let console = spec.console.as_ref()?;
    let script = format!("{}/console.py", config::FOLDER);
    let proxy = Component::worker(NAME, &["/opt/nova/bin/python", &script, CONF]).serves(NAME, PORT);
    let size = &console.workload;
    Some(proxy.replicas(spec.console_replicas()).sized(size.resources.as_ref(), size.scheduling.as_ref()))
}

/// What it reaches: screens are on nodes.
pub(crate) fn egress(spec: &NovaSpec) -> Option<Egress> {
    let (first, last) = SCREENS;
    spec.console.as_ref().map(|_| Egress { end_port: Some(last), ..Egress::new(None, first) })
}

/// What nova-compute and the proxy are told. What a node listens at is written into its environment by `compute.py`.
pub(crate) fn configure(nova: &Nova, instance: &Instance, conf: &mut Ini) -> Result<(), IniError> {
    let page = page(&nova.spec, instance);
    conf.set("vnc", "enabled", page.is_some())?;
    if let Some(page) = page {
        conf.set("vnc", "novncproxy_base_url", page)?;
    }
    Ok(())
}

/// The address of the page that Nova adds tokens to. Below a path, browsers have to be told it for their WebSocket, too.
fn page(spec: &NovaSpec, instance: &Instance) -> Option<String> {
    let console = spec.console.as_ref()?;
    let given = console.public_endpoint.as_ref().map(ToString::to_string);
    let routed = || console.gateway.as_ref().map(|route| format!("https://{}{}", route.hostname, route.path));
    let own = || format!("http://{}:{PORT}", host(&instance.named(NAME), &instance.namespace));
    let url = given.or_else(routed).unwrap_or_else(own);
    let url = url.trim_end_matches('/');
    let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map(|(_, path)| path);
    Some(match path {
        Some(path) => format!("{url}/{PAGE}?path={path}"),
        None => format!("{url}/{PAGE}"),
    })
}

/// What leads to it from outside, if anything does. Nothing waits for it but `Ready`: Gateways are not ours.
pub(crate) fn route(plan: &ServicePlan<'_, Compute>) -> Option<Step> {
    let console = plan.parts.object.spec.console.as_ref()?;
    let step = Step::new("DeploymentReady").node("console-route", ["services"]);
    Some(match &console.gateway {
        Some(gateway) => step.child(http_route(&plan.parts.instance, gateway)).done("its Gateway routes to consoles"),
        None => step.childless().done(""),
    })
}

fn http_route(instance: &Instance, gateway: &GatewayRoute) -> Child {
    let service = instance.named(NAME);
    let path = gateway.path.trim_end_matches('/');
    let rule = Rule::prefix(if path.is_empty() { "/" } else { path }, &service, PORT);
    let filters = [Filter::replace_prefix("/")].into_iter().filter(|_| !path.is_empty()).collect();
    let spec = HTTPRouteSpec {
        parent_refs: vec![ParentRef {
            namespace: gateway.parent_ref.namespace.as_ref().map(ToString::to_string),
            section_name: gateway.parent_ref.section_name.as_ref().map(ToString::to_string),
            ..ParentRef::new(gateway.parent_ref.name.to_string())
        }],
        hostnames: vec![gateway.hostname.to_string()],
        rules: vec![Rule { filters, ..rule }],
    };
    let mut route = HTTPRoute::new(&service, spec);
    route.metadata = instance.meta(&service, NAME);
    Child::new(&route).because("spec.console.gateway asks for it")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page_of(console: &serde_json::Value) -> String {
        let nova: Nova =
            serde_json::from_value(json!({"apiVersion": "nova.openstack.c5c3.io/v1alpha1", "kind": "Nova",
            "metadata": {"name": "gate", "namespace": "cloud"}, "spec": {"console": console}}))
            .unwrap();
        page(&nova.spec, &Instance::new("nova", &nova.metadata)).unwrap()
    }

    #[test]
    fn a_page_is_where_browsers_reach_the_proxy_and_tells_them_the_path_before_it() {
        let route = json!({"parentRef": {"name": "fence"}, "hostname": "cloud.example.net", "path": "/screens"});
        assert_eq!(page_of(&json!({})), "http://gate-console.cloud.svc.cluster.local:6080/vnc_lite.html");
        assert_eq!(page_of(&json!({"gateway": route})), "https://cloud.example.net/screens/vnc_lite.html?path=screens");
        assert_eq!(
            page_of(&json!({"gateway": route, "publicEndpoint": "http://192.0.2.7:6080/"})),
            "http://192.0.2.7:6080/vnc_lite.html"
        );
    }

    #[test]
    fn libvirt_takes_the_ports_that_the_proxy_may_reach() {
        let conf = include_str!("compute/qemu.conf");
        let (first, last) = SCREENS;
        assert!(conf.contains(&format!("remote_display_port_min = {first}\nremote_display_port_max = {last}\n")));
    }
}

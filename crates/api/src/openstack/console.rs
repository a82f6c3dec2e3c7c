//! The proxy of Nova's graphical consoles.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::blocks::{GatewayRoute, HttpUrl, Workload};

/// Graphical consoles: guests have a screen, and a proxy shows it in a browser by noVNC. Guests that run already get a screen when
/// they are next started or moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NovaConsole {
    /// How many proxies, how large, where; 1 replica when absent.
    #[serde(flatten)]
    pub workload: Workload,
    /// The URL that browsers reach the proxy at; that of the gateway, or the one within the cluster, when absent. It is part of
    /// the addresses that Nova gives out for consoles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_endpoint: Option<HttpUrl>,
    /// A route of the Gateway API to the proxy, which has to let WebSockets through; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayRoute>,
}

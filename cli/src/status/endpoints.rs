//! Whether the public endpoint of a cloud that calls itself ready can be reached from here. Operators ask services within the
//! cluster, and cannot see that an address outside leads nowhere.

use std::time::Duration;

use futures::future::join_all;
use tokio::net::TcpStream;

use super::tree::{State, Tree};
use super::world::World;

/// How long an endpoint may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// A tree for each public endpoint that accepts no connection from this machine.
pub(super) async fn silent(world: &World) -> Vec<Tree> {
    let ready = world.of_kind("ControlPlane").filter(|plane| plane.wait.is_none());
    let urls = ready.filter_map(|plane| plane.text("/spec/services/keystone/publicEndpoint"));
    let asked = urls.map(|url| async move {
        let error = reach(url).await.err()?;
        let tree = Tree::new(format!("endpoint {url}"), format!("does not answer from this machine: {error}"));
        let remedy = "spec.services.keystone.publicEndpoint names it: correct it, or open the way to it";
        Some(tree.state(State::Stuck).remedy(remedy))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Connects to the host and port of a URL.
async fn reach(url: &str) -> Result<(), String> {
    let Some((host, port)) = address(url) else { return Err("it is not a URL".into()) };
    match tokio::time::timeout(PATIENCE, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection after {} s", PATIENCE.as_secs())),
    }
}

/// Host and port of a URL.
fn address(url: &str) -> Option<(&str, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let default = if scheme == "https" { 443 } else { 80 };
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => Some((host.trim_matches(['[', ']']), port.parse().ok()?)),
        _ => Some((authority.trim_matches(['[', ']']), default)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_read_from_a_url() {
        assert_eq!(address("http://10.0.0.1:5000/v3"), Some(("10.0.0.1", 5000)));
        assert_eq!(address("https://identity.example.org/v3"), Some(("identity.example.org", 443)));
        assert_eq!(address("http://[::1]:5000"), Some(("::1", 5000)));
        assert_eq!(address("http://[::1]"), Some(("::1", 80)));
        assert_eq!(address("http://x:99999/"), None);
    }

    #[tokio::test]
    async fn an_endpoint_that_refuses_connections_is_told() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v3", listener.local_addr().unwrap());
        assert_eq!(reach(&url).await, Ok(()));
        drop(listener);
        assert!(reach(&url).await.unwrap_err().contains("refused"));
    }
}

//! Where a packet would go: Open vSwitch follows it through the flows of a bridge, and sends nothing.

use std::path::Path;

use crate::rpc::{self, RpcError};

/// What `ofproto/trace` says of a packet on a bridge, such as `in_port=1,tcp,nw_dst=10.20.0.5`. `run` is the folder of Open
/// vSwitch's sockets.
pub async fn trace(run: &Path, bridge: &str, packet: &str) -> Result<String, RpcError> {
    rpc::command(&run.join("ovs-vswitchd.ctl"), "ofproto/trace", &[bridge, packet]).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    /// A daemon that answers one command.
    async fn told(answer: impl Fn(&Value) -> Value + Send + 'static) -> Result<String, RpcError> {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("ovs-vswitchd.ctl")).unwrap();
        let daemon = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = vec![0; 4096];
            let length = stream.read(&mut asked).await.unwrap();
            let asked: Value = serde_json::from_slice(&asked[..length]).unwrap();
            let mut answer = answer(&asked);
            answer["id"] = asked["id"].clone();
            stream.write_all(answer.to_string().as_bytes()).await.unwrap();
        });
        let said = trace(folder.path(), "br-int", "in_port=1").await;
        daemon.await.unwrap();
        said
    }

    #[tokio::test]
    async fn a_packet_is_followed_on_a_bridge_and_a_refusal_is_told_in_the_words_of_open_vswitch() {
        let said = told(|asked| {
            assert_eq!(
                (&asked["method"], &asked["params"]),
                (&json!("ofproto/trace"), &json!(["br-int", "in_port=1"]))
            );
            json!({"result": "Flow: in_port=1\n\nbridge(\"br-int\")\n 0. priority 0\n    drop\n", "error": null})
        });
        assert!(said.await.unwrap().ends_with("drop"));
        let said = told(|_| json!({"result": null, "error": "br-int: unknown bridge"})).await.unwrap_err();
        assert_eq!(said.to_string(), "ofproto/trace was refused: br-int: unknown bridge");
    }
}

//! The health protocol of gRPC.

use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::attempt::Failure;

const SERVING: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

pub(super) async fn check(host: &str, port: i32, service: &str, limit: Duration) -> Result<(), Failure> {
    let address = format!("{host}:{port}");
    let dial = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!("timeout: failed to connect service \"{address}\" within {limit:?}: {error}"))
    };
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| dial(&error))?;
    let connected = timeout(limit, endpoint.connect()).await.map_err(|error| dial(&error))?;
    let channel = connected.map_err(|error| dial(&error))?;
    let asked = timeout(limit, ask(Grpc::new(channel), service)).await;
    match asked {
        Ok(Ok(SERVING)) => Ok(()),
        Ok(Ok(status)) => {
            let name = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
            let name = usize::try_from(status).ok().and_then(|at| name.get(at)).copied().unwrap_or("UNKNOWN");
            Err(Failure::Failed(format!("service unhealthy (responded with \"{name}\")")))
        }
        Ok(Err(error)) => Err(Failure::Failed(format!("health rpc probe failed: {error}"))),
        Err(_) => Err(Failure::Failed(format!("timeout: health rpc did not complete within {limit:?}"))),
    }
}

async fn ask(mut client: Grpc<tonic::transport::Channel>, service: &str) -> Result<i32, Status> {
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let question = Request::new(HealthCheckRequest { service: service.to_owned() });
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let answer: tonic::Response<HealthCheckResponse> = client.unary(question, path, ProstCodec::default()).await?;
    Ok(answer.into_inner().status)
}

//! Nova's WSGI pipelines as a paste file. Nova's own file chooses a pipeline by `auth_strategy`, which is always keystone here, and
//! serves API v2 beside v2.1, where users' filters would have to be a second time.

use c5c3_api::blocks::Middleware;
use c5c3_service::pipeline::{PasteFile, Pipeline};
use secrecy::SecretString;

/// The filters that a request passes.
pub(crate) const PIPELINE: Pipeline = Pipeline {
    service: "Nova",
    filters: &[
        "cors",
        "http_proxy_to_wsgi",
        "compute_req_id",
        "faultwrap",
        "request_log",
        "sizelimit",
        "osprofiler",
        "authtoken",
        "keystonecontext",
    ],
};

/// What is beside the pipeline: versions and metadata, which pass few filters and no user's.
const ROOT: &str = include_str!("root.ini");

const FACTORY: &str = "paste.filter_factory";

const FILE: PasteFile = PasteFile {
    pipeline: PIPELINE,
    name: "openstack_compute_api_v21",
    filters: &[
        ("cors", &[(FACTORY, "oslo_middleware.cors:filter_factory"), ("oslo_config_project", "nova")]),
        ("http_proxy_to_wsgi", &[(FACTORY, "oslo_middleware.http_proxy_to_wsgi:HTTPProxyToWSGI.factory")]),
        ("compute_req_id", &[(FACTORY, "nova.api.compute_req_id:ComputeReqIdMiddleware.factory")]),
        ("faultwrap", &[(FACTORY, "nova.api.openstack:FaultWrapper.factory")]),
        ("request_log", &[(FACTORY, "nova.api.openstack.requestlog:RequestLog.factory")]),
        ("sizelimit", &[(FACTORY, "oslo_middleware:RequestBodySizeLimiter.factory")]),
        ("osprofiler", &[(FACTORY, "nova.profiler:WsgiMiddleware.factory")]),
        ("authtoken", &[(FACTORY, "keystonemiddleware.auth_token:filter_factory")]),
        ("keystonecontext", &[(FACTORY, "nova.api.auth:NovaKeystoneContext.factory")]),
    ],
    app: "osapi_compute_app_v21",
    rest: ROOT,
};

/// `api-paste.ini`, with users' filters at their positions. What cannot be written was refused before.
pub(crate) fn file(middleware: &[Middleware]) -> SecretString {
    FILE.render(middleware).or_else(|_| FILE.render(&[])).unwrap_or_default()
}

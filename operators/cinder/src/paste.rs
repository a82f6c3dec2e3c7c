//! Cinder's WSGI pipeline as a paste file. Cinder's own file chooses a pipeline by `auth_strategy`, which is always keystone here.

use c5c3_api::blocks::Middleware;
use c5c3_service::pipeline::{PasteFile, Pipeline};
use secrecy::SecretString;

/// The filters that a request passes.
pub(crate) const PIPELINE: Pipeline = Pipeline {
    service: "Cinder",
    filters: &[
        "request_id",
        "cors",
        "http_proxy_to_wsgi",
        "faultwrap",
        "sizelimit",
        "osprofiler",
        "authtoken",
        "keystonecontext",
    ],
};

/// What is beside the pipeline: versions and the health check, which pass few filters and no user's.
const ROOT: &str = include_str!("root.ini");

const FACTORY: &str = "paste.filter_factory";

const FILE: PasteFile = PasteFile {
    pipeline: PIPELINE,
    name: "openstack_volume_api_v3",
    filters: &[
        ("request_id", &[(FACTORY, "cinder.api.middleware.request_id:RequestId.factory")]),
        ("cors", &[(FACTORY, "oslo_middleware.cors:filter_factory"), ("oslo_config_project", "cinder")]),
        ("http_proxy_to_wsgi", &[(FACTORY, "oslo_middleware.http_proxy_to_wsgi:HTTPProxyToWSGI.factory")]),
        ("faultwrap", &[(FACTORY, "cinder.api.middleware.fault:FaultWrapper.factory")]),
        ("sizelimit", &[(FACTORY, "oslo_middleware.sizelimit:RequestBodySizeLimiter.factory")]),
        ("osprofiler", &[(FACTORY, "osprofiler.web:WsgiMiddleware.factory")]),
        ("authtoken", &[(FACTORY, "keystonemiddleware.auth_token:filter_factory")]),
        ("keystonecontext", &[(FACTORY, "cinder.api.middleware.auth:CinderKeystoneContext.factory")]),
    ],
    app: "apiv3",
    rest: ROOT,
};

/// `api-paste.ini`, with users' filters at their positions. What cannot be written was refused before.
pub(crate) fn file(middleware: &[Middleware]) -> SecretString {
    FILE.render(middleware).or_else(|_| FILE.render(&[])).unwrap_or_default()
}

//! Neutron's WSGI pipeline as a paste file. Neutron's own file chooses a pipeline by `auth_strategy`, which is always keystone
//! here.

use c5c3_api::blocks::Middleware;
use c5c3_service::pipeline::{PasteFile, Pipeline};
use secrecy::SecretString;

/// The filters that a request passes.
pub(crate) const PIPELINE: Pipeline = Pipeline {
    service: "Neutron",
    filters: &[
        "cors",
        "http_proxy_to_wsgi",
        "request_id",
        "catch_errors",
        "osprofiler",
        "authtoken",
        "keystonecontext",
        "extensions",
    ],
};

/// What is beside the pipeline: versions and the health check, which pass few filters and no user's.
const ROOT: &str = include_str!("root.ini");

const FACTORY: &str = "paste.filter_factory";

const FILE: PasteFile = PasteFile {
    pipeline: PIPELINE,
    name: "neutronapi_v2_0",
    filters: &[
        ("cors", &[(FACTORY, "oslo_middleware.cors:filter_factory"), ("oslo_config_project", "neutron")]),
        ("http_proxy_to_wsgi", &[(FACTORY, "oslo_middleware.http_proxy_to_wsgi:HTTPProxyToWSGI.factory")]),
        ("request_id", &[(FACTORY, "oslo_middleware:RequestId.factory")]),
        ("catch_errors", &[(FACTORY, "oslo_middleware:CatchErrors.factory")]),
        ("osprofiler", &[(FACTORY, "osprofiler.web:WsgiMiddleware.factory")]),
        ("authtoken", &[(FACTORY, "keystonemiddleware.auth_token:filter_factory")]),
        ("keystonecontext", &[(FACTORY, "neutron.auth:NeutronKeystoneContext.factory")]),
        ("extensions", &[(FACTORY, "neutron.api.extensions:plugin_aware_extension_middleware_factory")]),
    ],
    app: "neutronapiapp_v2_0",
    rest: ROOT,
};

/// `api-paste.ini`, with users' filters at their positions. What cannot be written was refused before.
pub(crate) fn file(middleware: &[Middleware]) -> SecretString {
    FILE.render(middleware).or_else(|_| FILE.render(&[])).unwrap_or_default()
}

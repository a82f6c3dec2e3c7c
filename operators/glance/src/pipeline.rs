//! What a request passes on its way to the images.

use c5c3_api::openstack::Glance;
use c5c3_service::pipeline::{Part, PasteFile, Pipeline};

/// The file.
pub(crate) const FILE: &str = "glance-api-paste.ini";

const CACHED: &[&str] =
    &["cors", "http_proxy_to_wsgi", "versionnegotiation", "osprofiler", "authtoken", "context", "cache", "cachemanage"];

const FACTORY: &str = "paste.filter_factory";

const FILTERS: &[Part] = &[
    (
        "cors",
        &[
            (FACTORY, "oslo_middleware.cors:filter_factory"),
            ("oslo_config_project", "glance"),
            ("oslo_config_program", "glance-api"),
        ],
    ),
    ("http_proxy_to_wsgi", &[(FACTORY, "oslo_middleware:HTTPProxyToWSGI.factory")]),
    ("versionnegotiation", &[(FACTORY, "glance.api.middleware.version_negotiation:VersionNegotiationFilter.factory")]),
    ("osprofiler", &[(FACTORY, "osprofiler.web:WsgiMiddleware.factory")]),
    ("authtoken", &[(FACTORY, "keystonemiddleware.auth_token:filter_factory"), ("delay_auth_decision", "true")]),
    ("context", &[(FACTORY, "glance.api.middleware.context:ContextMiddleware.factory")]),
    ("cache", &[(FACTORY, "glance.api.middleware.cache:CacheFilter.factory")]),
    ("cachemanage", &[(FACTORY, "glance.api.middleware.cache_manage:CacheManageFilter.factory")]),
];

/// What is not of the pipeline: which path leads where.
const PATHS: &str = "
[composite:glance-api]
paste.composite_factory = glance.api:root_app_factory
/: api
/healthcheck: healthcheck

[composite:versions]
paste.composite_factory = glance.api:root_app_factory
/: apiversions
/v2: apiv2app

[app:apiversions]
paste.app_factory = glance.api.versions:create_resource

[app:apiv2app]
paste.app_factory = glance.api.v2.router:API.factory

[app:healthcheck]
paste.app_factory = oslo_middleware:Healthcheck.app_factory
";

/// The pipeline of a Glance, with the cache if it has one.
pub(crate) fn of(glance: &Glance) -> PasteFile {
    let cached = glance.spec.storage.as_ref().is_some_and(|storage| storage.cache.is_some());
    let count = if cached { CACHED.len() } else { CACHED.len() - 2 };
    PasteFile {
        pipeline: Pipeline { service: "Glance", filters: &CACHED[..count] },
        name: "api",
        filters: &FILTERS[..count],
        app: "versions",
        rest: PATHS,
    }
}

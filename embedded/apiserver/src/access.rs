//! Who sends a request, and whether they may: authentication, impersonation, authorization, and the limit on requests that
//! are served at once.

use c5c3_auth::rbac::Attributes;
use c5c3_auth::{Found, Impersonation, Kind, Lookup, Refusal, UserInfo};
use c5c3_kinds::Verb;
use http::request::Parts;
use http::{Method, StatusCode, header};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use crate::call::Call;
use crate::in_flight::Load;
use crate::object::{meta, of_entry};
use crate::path::{Asked, Query, Target, verb};
use crate::selector::Fields;
use crate::server::Server;
use crate::status::{ApiError, Reason};

/// A request that its user may make.
pub(crate) struct Permitted {
    /// What it does to a resource; none if that is only known to a server that is proxied to, or is no resource.
    pub(crate) verb: Option<Verb>,
    pub(crate) asked: Asked,
    pub(crate) query: Query,
    pub(crate) user: UserInfo,
}

impl Server {
    /// Refuses a request that its user may not make, or that is one too many, before its body is read. The request counts
    /// as one that is being served until what this returns is dropped.
    pub(crate) fn admit(&self, parts: &Parts, user: &UserInfo) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        let Permitted { verb, asked, user, .. } = self.permit(parts, user.clone())?;
        let load = match &asked {
            Asked::Resource(target) => Load::of_resource(verb, target),
            Asked::Path => Load::of_path(&parts.method),
        };
        self.in_flight().enter(load, &user)
    }

    /// What a request asks for, if its user may ask for it.
    pub(crate) fn permit(&self, parts: &Parts, user: UserInfo) -> Result<Permitted, ApiError> {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let asked = Asked::parse(parts.uri.path());
        let user = self.acting_user(parts, user)?;
        let verb = match &asked {
            Asked::Resource(target) => {
                let verb = verb(&parts.method, target, &query);
                self.authorize(&user, verb, target, &query)?;
                verb
            }
            Asked::Path => {
                self.may(&user, &Attributes::path(method_verb(&parts.method), parts.uri.path()))?;
                None
            }
        };
        Ok(Permitted { verb, asked, query, user })
    }

    /// Who a request is served as: the user, or whom they act as.
    fn acting_user(&self, parts: &Parts, user: UserInfo) -> Result<UserInfo, ApiError> {
        let headers = parts.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        match Impersonation::from_headers(headers).map_err(|refusal| refused(&refusal))? {
            None => Ok(user),
            Some(other) => {
                self.with_policy(|policy| other.authorize(policy, &user)).map_err(|refusal| refused(&refusal))
            }
        }
    }

    fn authorize(&self, user: &UserInfo, verb: Option<Verb>, target: &Target, query: &Query) -> Result<(), ApiError> {
        // Only these verbs act on what a selector selects. An object that is created has the name in its body, which no
        // selector may stand in for.
        let selector = query
            .get("fieldSelector")
            .filter(|_| matches!(verb, Some(Verb::List | Verb::Watch | Verb::DeleteCollection)));
        let fields = selector.and_then(|text| Fields::parse(text).ok()).unwrap_or_default();
        let selected = fields.required("metadata.name");
        let attributes = Attributes {
            verb: verb.map_or("unknown", Verb::as_str),
            group: &target.group,
            resource: &target.plural,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            name: target.name.as_deref().or(selected).unwrap_or_default(),
            namespace: target.namespace.as_deref().unwrap_or_default(),
            path: "",
        };
        self.may(user, &attributes)
    }

    /// Whether who updates what is not there may create it.
    pub(crate) fn may_create_by_update(&self, call: &Call<'_>) -> Result<(), ApiError> {
        self.authorize(&call.user, Some(Verb::Create), &call.target, &call.query)
    }

    fn may(&self, user: &UserInfo, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let decision = self.with_policy(|policy| policy.authorize(user, attributes));
        if decision.allowed { Ok(()) } else { Err(refused(&attributes.forbidden(user, &decision.reason))) }
    }

    /// Whose bearer token this is.
    pub fn bearer(&self, token: &str) -> Option<UserInfo> {
        self.authenticator().bearer(token, &StoreLookup(self), Timestamp::now()).ok().map(|found| found.user)
    }

    /// Who sends a request: by certificate, by token, or anonymous. A wrong token is an error, not an anonymous request.
    pub fn identify(&self, parts: &Parts, certificate: Option<UserInfo>) -> Result<UserInfo, ApiError> {
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        match (certificate, header.and_then(|header| header.split_once(' '))) {
            (Some(user), _) => Ok(user),
            (None, Some((scheme, token))) if scheme.eq_ignore_ascii_case("bearer") => {
                self.bearer(token.trim()).ok_or_else(ApiError::unauthorized)
            }
            _ => Ok(UserInfo::anonymous()),
        }
    }
}

/// The objects that tokens are bound to, from the store.
pub(crate) struct StoreLookup<'a>(pub(crate) &'a Server);

impl Lookup for StoreLookup<'_> {
    fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<Found> {
        let plural = match kind {
            Kind::ServiceAccount => "serviceaccounts",
            Kind::Pod => "pods",
            Kind::Secret => "secrets",
            Kind::Node => "nodes",
        };
        let served = self.0.registry().find("", "v1", plural)?;
        let entry = self.0.store().get(&served.key(Some(namespace).filter(|_| served.resource.namespaced), name))?;
        let object = of_entry(&served.resource, &entry).ok()?;
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        Some(Found {
            uid: meta(&object, "uid").to_owned(),
            deleted_at: meta(&object, "deletionTimestamp").parse().ok(),
            service_account: text(&object["spec"]["serviceAccountName"]),
            node: text(&object["spec"]["nodeName"]),
        })
    }
}

fn method_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "options",
    }
}

/// A refusal of the auth crate as an answer.
pub(crate) fn refused(refusal: &Refusal) -> ApiError {
    let status = refusal.status();
    let reason = match refusal.code() {
        400 => Reason::BadRequest,
        401 => Reason::Unauthorized,
        403 => Reason::Forbidden,
        404 => Reason::NotFound,
        409 => Reason::Conflict,
        422 => Reason::Invalid,
        _ => Reason::InternalError,
    };
    let code = StatusCode::from_u16(refusal.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let message = status["message"].as_str().unwrap_or_default();
    ApiError { details: status["details"].clone(), ..ApiError::new(code, reason, message) }
}

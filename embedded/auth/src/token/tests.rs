//! Tokens as a client gets them, as an attacker bends them, and as time and deletions void them.

use ring::hmac;
use secrecy::ExposeSecret;

use super::*;
use crate::refusal::Refusal;
use crate::user::AUTHENTICATED;

/// A store in a map.
#[derive(Default)]
pub(crate) struct Objects(HashMap<(Kind, String, String), Found>);

impl Objects {
    pub(crate) fn with(mut self, kind: Kind, namespace: &str, name: &str, found: Found) -> Self {
        self.0.insert((kind, namespace.to_owned(), name.to_owned()), found);
        self
    }
}

impl Lookup for Objects {
    fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<Found> {
        self.0.get(&(kind, namespace.to_owned(), name.to_owned())).cloned()
    }
}

pub(crate) fn now() -> Timestamp {
    "2026-03-04T05:06:07Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
    now() + jiff::SignedDuration::from_secs(seconds)
}

fn uid(uid: &str) -> Found {
    Found { uid: uid.to_owned(), ..Found::default() }
}

fn pod() -> Found {
    Found { service_account: Some("till".to_owned()), node: Some("n1".to_owned()), ..uid("pod-uid") }
}

/// A shop with a till, a pod that runs as it, a secret and a node.
pub(crate) fn shop() -> Objects {
    Objects::default()
        .with(Kind::ServiceAccount, "shop", "till", uid("till-uid"))
        .with(Kind::Pod, "shop", "till-0", pod())
        .with(Kind::Secret, "shop", "till-token", uid("secret-uid"))
        .with(Kind::Node, "", "n1", uid("node-uid"))
}

fn tokens() -> ServiceAccountTokens {
    ServiceAccountTokens::new(&Pki::in_memory(&[], now()).unwrap())
}

fn request(tokens: &ServiceAccountTokens, spec: &Value) -> Result<Value, Refusal> {
    tokens.token_request(&json!({"spec": spec}), "shop", "till", &shop(), now())
}

fn token(tokens: &ServiceAccountTokens, spec: &Value) -> String {
    request(tokens, spec).unwrap()["status"]["token"].as_str().unwrap().to_owned()
}

fn pod_ref() -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "name": "till-0", "uid": "pod-uid"})
}

fn api() -> Vec<String> {
    vec![ISSUER.to_owned()]
}

#[test]
fn a_token_for_a_pod_says_what_a_real_one_says() {
    let tokens = tokens();
    let answer = request(&tokens, &json!({"expirationSeconds": 3607, "boundObjectRef": pod_ref()})).unwrap();
    assert_eq!(answer["status"]["expirationTimestamp"], "2026-03-04T06:06:14Z");
    assert_eq!(
        answer["metadata"],
        json!({"name": "till", "namespace": "shop", "creationTimestamp": "2026-03-04T05:06:07Z"})
    );
    assert_eq!(answer["spec"]["audiences"], json!([ISSUER]));
    let token = answer["status"]["token"].as_str().unwrap();
    let (claims, audiences) = tokens.verify(token, &api(), &shop(), now()).unwrap();
    assert_eq!(audiences, api());
    let mut shown = serde_json::to_value(&*claims).unwrap();
    assert_eq!(shown["jti"].take().as_str().map(str::len), Some(36));
    let issued = now().as_second();
    assert_eq!(
        shown,
        json!({
            "aud": [ISSUER], "exp": issued + 365 * 86400, "iat": issued, "iss": ISSUER, "jti": null, "nbf": issued,
            "kubernetes.io": {
                "namespace": "shop",
                "node": {"name": "n1", "uid": "node-uid"},
                "pod": {"name": "till-0", "uid": "pod-uid"},
                "serviceaccount": {"name": "till", "uid": "till-uid"},
                "warnafter": issued + 3607,
            },
            "sub": "system:serviceaccount:shop:till",
        })
    );
    let user = claims.user();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:shop:till", "till-uid"));
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:shop", AUTHENTICATED]);
    let extra: Vec<_> =
        user.extra.iter().map(|(key, values)| (key.rsplit('/').next().unwrap(), values[0].as_str())).collect();
    let credential = format!("JTI={}", claims.jti);
    assert_eq!(
        extra,
        [
            ("credential-id", credential.as_str()),
            ("node-name", "n1"),
            ("node-uid", "node-uid"),
            ("pod-name", "till-0"),
            ("pod-uid", "pod-uid")
        ]
    );
}

#[test]
fn a_token_holds_between_its_beginning_and_its_end() {
    let tokens = tokens();
    let token = token(&tokens, &json!({"expirationSeconds": 600}));
    let at = |seconds| tokens.verify(&token, &api(), &shop(), after(seconds)).map(|_| ());
    assert_eq!(at(0), Ok(()));
    assert_eq!(at(600), Ok(()));
    assert_eq!(at(660), Ok(()), "clocks differ");
    assert_eq!(at(661), Err(TokenError::Expired));
    assert_eq!(at(-60), Ok(()), "clocks differ");
    assert_eq!(at(-61), Err(TokenError::NotYetValid));
}

#[test]
fn a_token_is_for_its_audiences_only() {
    let tokens = tokens();
    let token = token(&tokens, &json!({"audiences": ["vault", "shop"]}));
    let ask = |audiences: &[&str]| {
        let audiences: Vec<_> = audiences.iter().map(|&a| a.to_owned()).collect();
        tokens.verify(&token, &audiences, &shop(), now()).map(|(_, shared)| shared)
    };
    assert_eq!(ask(&["shop", "other"]), Ok(vec!["shop".to_owned()]));
    assert_eq!(
        ask(&["other"]).unwrap_err().to_string(),
        "token audiences [\"vault\" \"shop\"] is invalid for the target audiences [\"other\"]"
    );
}

#[test]
fn a_token_ends_with_what_it_is_bound_to() {
    let tokens = tokens();
    let bound = |kind: &str, name: &str| {
        token(&tokens, &json!({"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}}))
    };
    let (in_pod, in_secret, on_node) = (bound("Pod", "till-0"), bound("Secret", "till-token"), bound("Node", "n1"));
    let ask = |token: &str, objects: &Objects| tokens.verify(token, &api(), objects, now()).map(|_| ());
    let without = |kind, namespace: &str, name: &str| {
        let mut objects = shop();
        objects.0.remove(&(kind, namespace.to_owned(), name.to_owned()));
        objects
    };
    assert_eq!(ask(&in_pod, &shop()), Ok(()));
    assert_eq!(ask(&in_pod, &without(Kind::Pod, "shop", "till-0")), Err(TokenError::Unbound));
    assert_eq!(ask(&in_pod, &without(Kind::Node, "", "n1")), Ok(()), "the node of a pod is information");
    assert_eq!(ask(&in_secret, &without(Kind::Secret, "shop", "till-token")), Err(TokenError::Unbound));
    assert_eq!(ask(&on_node, &without(Kind::Node, "", "n1")), Err(TokenError::Unbound));
    let replaced = shop().with(Kind::Pod, "shop", "till-0", Found { uid: "another".to_owned(), ..pod() });
    assert_eq!(ask(&in_pod, &replaced), Err(TokenError::Unbound));
    let deleted =
        |seconds| shop().with(Kind::Pod, "shop", "till-0", Found { deleted_at: Some(after(seconds)), ..pod() });
    assert_eq!(ask(&in_pod, &deleted(-30)), Ok(()), "a pod that ends may say goodbye");
    assert_eq!(ask(&in_pod, &deleted(-61)), Err(TokenError::Unbound));
    let gone = without(Kind::ServiceAccount, "shop", "till");
    assert_eq!(ask(&in_pod, &gone), Err(TokenError::NoServiceAccount("till".to_owned())));
    let other = shop().with(Kind::ServiceAccount, "shop", "till", uid("new-uid"));
    assert_eq!(
        ask(&in_pod, &other).unwrap_err().to_string(),
        "service account UID (new-uid) does not match claim (till-uid)"
    );
}

/// Replaces the header, keeping the payload, and signs with whatever `signature` makes of it.
fn forged(token: &str, header: &Value, signature: impl FnOnce(&str) -> Vec<u8>) -> String {
    let payload = token.split('.').nth(1).unwrap();
    let signed = format!("{}.{payload}", URL_SAFE_NO_PAD.encode(header.to_string()));
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature(&signed)))
}

#[test]
fn bent_tokens_are_refused() {
    let tokens = tokens();
    let good = token(&tokens, &json!({}));
    let kid = &tokens.key_id;
    let hmac_with_public_key = |signed: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &tokens.key.spki());
        hmac::sign(&key, signed.as_bytes()).as_ref().to_vec()
    };
    let ours = |signed: &str| tokens.key.sign_fixed(signed.as_bytes()).unwrap();
    let stranger = P256::generate().unwrap();
    let parts: Vec<_> = good.split('.').collect();
    let other_payload = URL_SAFE_NO_PAD.encode(r#"{"sub":"system:admin"}"#);
    let cases = [
        ("nothing", String::new(), TokenError::Malformed),
        ("dots", "..".to_owned(), TokenError::Malformed),
        ("garbage", "%%%.!!!.***".to_owned(), TokenError::Malformed),
        ("two parts", format!("{}.{}", parts[0], parts[1]), TokenError::Malformed),
        ("four parts", format!("{good}.x"), TokenError::Malformed),
        ("padding", format!("{}=.{}.{}", parts[0], parts[1], parts[2]), TokenError::Malformed),
        ("huge", "a".repeat(MAX_TOKEN_BYTES + 1), TokenError::TooLong),
        ("no signature", forged(&good, &json!({"alg": "none", "kid": kid}), |_| Vec::new()), TokenError::Algorithm),
        ("None in capitals", forged(&good, &json!({"alg": "NONE"}), |_| Vec::new()), TokenError::Algorithm),
        (
            "hmac with our public key",
            forged(&good, &json!({"alg": "HS256", "kid": kid}), hmac_with_public_key),
            TokenError::Algorithm,
        ),
        ("RS256", forged(&good, &json!({"alg": "RS256", "kid": kid}), ours), TokenError::Algorithm),
        (
            "critical extension",
            forged(&good, &json!({"alg": "ES256", "kid": kid, "crit": ["b64"]}), ours),
            TokenError::Algorithm,
        ),
        ("no key named", forged(&good, &json!({"alg": "ES256"}), ours), TokenError::UnknownKey),
        ("another key named", forged(&good, &json!({"alg": "ES256", "kid": "x"}), ours), TokenError::UnknownKey),
        (
            "another key used",
            forged(&good, &json!({"alg": "ES256", "kid": kid}), |s| stranger.sign_fixed(s.as_bytes()).unwrap()),
            TokenError::Signature,
        ),
        (
            "DER signature",
            forged(&good, &json!({"alg": "ES256", "kid": kid}), |s| tokens.key.sign_der(s.as_bytes()).unwrap()),
            TokenError::Signature,
        ),
        (
            "zero signature",
            format!("{}.{}.{}", parts[0], parts[1], URL_SAFE_NO_PAD.encode([0; 64])),
            TokenError::Signature,
        ),
        ("changed payload", format!("{}.{other_payload}.{}", parts[0], parts[2]), TokenError::Signature),
    ];
    for (what, bent, error) in cases {
        assert_eq!(tokens.verify(&bent, &api(), &shop(), now()).unwrap_err(), error, "{what}");
    }
    assert!(tokens.verify(&good, &api(), &shop(), now()).is_ok());
}

#[test]
fn claims_of_another_issuer_or_shape_are_refused_though_signed_by_us() {
    let tokens = tokens();
    let good = token(&tokens, &json!({}));
    let mut claims = Claims::clone(&tokens.verify(&good, &api(), &shop(), now()).unwrap().0);
    claims.iss = "https://elsewhere".to_owned();
    let signed = tokens.sign(&claims).unwrap();
    assert_eq!(tokens.verify(signed.expose_secret(), &api(), &shop(), now()).unwrap_err(), TokenError::Issuer);
    let odd = jwt::sign(&tokens.key, &tokens.key_id, &json!({"sub": 7})).unwrap();
    assert_eq!(tokens.verify(odd.expose_secret(), &api(), &shop(), now()).unwrap_err(), TokenError::Malformed);
    claims.iss = ISSUER.to_owned();
    claims.iat = now().as_second() + 3600;
    let signed = tokens.sign(&claims).unwrap();
    assert_eq!(tokens.verify(signed.expose_secret(), &api(), &shop(), now()).unwrap_err(), TokenError::FromTheFuture);
}

#[test]
fn requests_that_ask_too_much_are_refused() {
    let tokens = tokens();
    let bound = |kind: &str, version: &str, name: &str, uid: &str| json!({"boundObjectRef": {"kind": kind, "apiVersion": version, "name": name, "uid": uid}});
    let cases = [
        (json!({"expirationSeconds": 599}), 422, "may not specify a duration less than 10 minutes"),
        (json!({"expirationSeconds": (1_i64 << 32) + 1}), 422, "may not specify a duration larger than 2^32 seconds"),
        (json!({"expirationSeconds": "soon"}), 400, "cannot be handled"),
        (json!(["audience"]), 400, "spec is not an object"),
        (
            bound("Deployment", "apps/v1", "till", ""),
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
        (bound("Pod", "v1", "nobody", ""), 404, "pods \"nobody\" not found"),
        (
            bound("Pod", "v1", "till-0", "old"),
            409,
            "Operation cannot be fulfilled on Pod \"till-0\": the UID in the bound object reference (old)",
        ),
    ];
    for (spec, code, wording) in cases {
        let refusal = request(&tokens, &spec).unwrap_err();
        assert!(refusal.code() == code && refusal.to_string().contains(wording), "{spec}: {refusal}");
    }
    let stranger = shop().with(Kind::ServiceAccount, "shop", "thief", uid("thief-uid"));
    let refusal =
        tokens.token_request(&json!({"spec": {"boundObjectRef": pod_ref()}}), "shop", "thief", &stranger, now());
    assert_eq!(
        refusal.unwrap_err().to_string(),
        "cannot bind token for serviceaccount \"thief\" to pod running with different serviceaccount name."
    );
    let elsewhere = json!({"metadata": {"name": "other"}, "spec": {}});
    assert_eq!(tokens.token_request(&elsewhere, "shop", "till", &shop(), now()).unwrap_err().code(), 400);
    assert_eq!(tokens.token_request(&json!([]), "shop", "till", &shop(), now()).unwrap_err().code(), 400);
}

#[test]
fn an_hour_is_the_default_and_only_injected_tokens_are_prolonged() {
    let tokens = tokens();
    let life = |spec: &Value| {
        let claims = tokens.verify(&token(&tokens, spec), &api(), &shop(), now()).unwrap().0;
        claims.exp - claims.iat
    };
    assert_eq!(life(&Value::Null), 3600);
    assert_eq!(life(&json!({"expirationSeconds": 3607})), 3607, "not bound to a pod");
    assert_eq!(life(&json!({"expirationSeconds": 3600, "boundObjectRef": pod_ref()})), 3600, "asked for another life");
}

#[test]
fn the_published_key_verifies_the_tokens() {
    let tokens = tokens();
    let jwk = &tokens.jwks()["keys"][0];
    let decode = |field: &str| URL_SAFE_NO_PAD.decode(jwk[field].as_str().unwrap()).unwrap();
    let point = [vec![4], decode("x"), decode("y")].concat();
    let token = token(&tokens, &json!({}));
    let (signed, signature) = token.rsplit_once('.').unwrap();
    ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point)
        .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
        .unwrap();
    assert_eq!(jwk["kid"].as_str(), Some(tokens.key_id.as_str()));
    let discovery = tokens.discovery("https://127.0.0.1:6443/");
    assert_eq!(discovery["jwks_uri"], "https://127.0.0.1:6443/openid/v1/jwks");
    assert_eq!(discovery["issuer"], ISSUER);
}

#[test]
fn a_new_cluster_does_not_know_the_tokens_of_the_old() {
    let token = token(&tokens(), &json!({}));
    assert_eq!(tokens().verify(&token, &api(), &shop(), now()).unwrap_err(), TokenError::UnknownKey);
}

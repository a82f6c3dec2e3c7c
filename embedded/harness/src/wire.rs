//! What lies between a test's clients and the API: the one place where faults strike, watches are cut, and what a test
//! makes on a cluster that is not its own is written down.

use std::sync::Arc;

use axum::body::Body;
use c5c3_apiserver::{Asked, Query, verb};
use futures::StreamExt;
use http::{Method, Request, Response, Uri};
use kube::Client;
use tokio::sync::watch;

use crate::faults::{Effect, Faults, refusal};
use crate::ledger::Ledger;
use crate::upstream::{Failure, Upstream};
use crate::view;

/// A wire to an API. Every client of a test cluster is connected by the same one.
pub(crate) struct Wire {
    pub(crate) faults: Faults,
    cut: watch::Sender<u64>,
    /// What was made, on a cluster that others use too.
    ledger: Option<Arc<Ledger>>,
}

/// What a request asks for.
pub(crate) struct Wanted {
    pub(crate) verb: &'static str,
    pub(crate) path: String,
    pub(crate) asked: Asked,
    /// Whether nothing is to be stored.
    pub(crate) dry_run: bool,
}

impl Wanted {
    fn read(method: &Method, uri: &Uri) -> Self {
        let query = Query::parse(uri.query().unwrap_or_default());
        let asked = Asked::parse(uri.path());
        let verb = match &asked {
            Asked::Resource(target) => verb(method, target, &query).map_or("unknown", |verb| verb.as_str()),
            Asked::Path => "get",
        };
        Self { verb, path: uri.path().to_owned(), asked, dry_run: query.get("dryRun").is_some() }
    }
}

impl Wire {
    pub(crate) fn new(ledger: Option<Arc<Ledger>>) -> Arc<Self> {
        Arc::new(Self { faults: Faults::default(), cut: watch::channel(0).0, ledger })
    }

    /// Ends every watch that is open.
    pub(crate) fn cut_watches(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// A client at the end of the wire.
    pub(crate) fn client(self: &Arc<Self>, upstream: Upstream, namespace: &str) -> Client {
        let wire = self.clone();
        let service = tower::service_fn(move |request| {
            let (wire, upstream) = (wire.clone(), upstream.clone());
            async move { wire.carry(&upstream, request).await }
        });
        Client::new(service, namespace)
    }

    /// Carries a request there and its answer back.
    pub(crate) async fn carry(
        &self,
        upstream: &Upstream,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Body>, Failure> {
        let wanted = Wanted::read(request.method(), request.uri());
        if let Some(strike) = self.faults.strike(wanted.verb, &wanted.path) {
            tokio::time::sleep(strike.delay).await;
            match strike.effect {
                Effect::Serve => {}
                Effect::Answer(code) => return Ok(refusal(code)),
                Effect::Disconnect => return Err("the connection broke: fault injected".into()),
                Effect::LoseAnswer => {
                    let answer = upstream.send(request).await?;
                    self.note(&wanted, answer).await?;
                    return Err("the connection broke before the answer: fault injected".into());
                }
            }
        }
        // Before the request is sent: a watch that is opened while watches are cut is cut as well.
        let cut = self.cut.subscribe();
        let answer = self.note(&wanted, upstream.send(request).await?).await?;
        Ok(if wanted.verb == "watch" { until(answer, cut) } else { answer })
    }

    async fn note(&self, wanted: &Wanted, answer: Response<Body>) -> Result<Response<Body>, Failure> {
        let Some(ledger) = &self.ledger else { return Ok(answer) };
        let answer = ledger.note(wanted, answer).await?;
        view::narrow(wanted, answer, ledger).await
    }
}

/// A watch's events until watches are cut.
fn until(answer: Response<Body>, mut cut: watch::Receiver<u64>) -> Response<Body> {
    answer.map(|body| {
        let cut = async move { drop(cut.changed().await) };
        Body::from_stream(body.into_data_stream().take_until(Box::pin(cut)))
    })
}

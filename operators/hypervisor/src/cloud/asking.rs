//! Questions to Nova and Placement.

use std::collections::HashMap;
use std::sync::PoisonError;

use c5c3_openstack::{Client, Error, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::nova::{COMPUTE, InstanceAction, Migration, PLACEMENT, Server, Traits};
use super::{Booted, Cloud, Consumers, Guests, HostSeen, Rejection};
use c5c3_openstack::Access;

/// How many lines of a console are read: a login prompt with the server's name is among the last ones.
const CONSOLE_LINES: i64 = 50;

fn optional<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Cloud {
    pub(super) async fn host(&self, access: &Access, client: &Client, host: &str) -> Result<HostSeen, Error> {
        Ok(HostSeen {
            service: self.lists.service(access, client, host).await?,
            compute: self.lists.compute(access, client, host).await?,
            aggregates: self.lists.aggregates(access, client).await?,
        })
    }

    pub(super) async fn guests(
        &self,
        access: &Access,
        client: &Client,
        host: &str,
        drain: &str,
    ) -> Result<Guests, Error> {
        // Migrations first: one that ends between the two lists would otherwise look as if its server had not moved, and be repeated.
        let request = Request::get("compute", ["os-migrations"]).query("host", host).microversion(COMPUTE);
        let migrations: Vec<Migration> = client.list(&request, "migrations").await?;
        let request = Request::get("compute", ["servers", "detail"]).query("all_tenants", "1").query("host", host);
        let servers: Vec<Server> = client.list(&request.microversion(COMPUTE), "servers").await?;
        // A filter that the credential may not use is ignored by Nova, and lists the servers of all hosts.
        let servers: Vec<Server> = servers.into_iter().filter(|server| server.host.as_deref() == Some(host)).collect();
        let mut errors = HashMap::new();
        for server in &servers {
            let of_server = migrations.iter().filter(|migration| migration.instance_uuid == server.id);
            let last = of_server.max_by_key(|migration| migration.id);
            if last.is_some_and(Migration::has_failed)
                && let Some(error) = failure(client, &server.id).await?
            {
                errors.insert(server.id.clone(), error);
            }
        }
        let rejections = self.rejections_of(drain, &servers);
        let destinations = self.lists.destinations(access, client, host).await?;
        Ok(Guests { servers, migrations, errors, rejections, destinations })
    }

    fn rejections_of(&self, drain: &str, servers: &[Server]) -> HashMap<String, Rejection> {
        let rejected = self.rejections.lock().unwrap_or_else(PoisonError::into_inner);
        let of_server =
            |server: &Server| Some((server.id.clone(), rejected.get(&(drain.to_owned(), server.id.clone()))?.clone()));
        servers.iter().filter_map(of_server).collect()
    }
}

/// What Nova says of the last move of a server that failed.
async fn failure(client: &Client, server: &str) -> Result<Option<String>, Error> {
    let path = ["servers", server, "os-instance-actions"];
    let all = optional(client.list(&Request::get("compute", path).microversion(COMPUTE), "instanceActions").await)?;
    let is_move = |action: &&InstanceAction| action.action.contains("migrat");
    // Nova lists the newest action first.
    let Some(last) = all.iter().flatten().find(is_move) else { return Ok(None) };
    let Some(request_id) = &last.request_id else { return Ok(last.message.clone()) };
    let request = Request::get("compute", ["servers", server, "os-instance-actions", request_id]).microversion(COMPUTE);
    let action: Option<InstanceAction> = optional(client.fetch(&request, "instanceAction").await)?;
    let details = action
        .into_iter()
        .flat_map(|action| action.events)
        .find_map(|event| event.details.filter(|_| event.result.as_deref() == Some("Error")));
    Ok(details.or_else(|| last.message.clone()))
}

pub(super) async fn traits(client: &Client, provider: &str) -> Result<Option<Traits>, Error> {
    let request = Request::get("placement", ["resource_providers", provider, "traits"]).microversion(PLACEMENT);
    match client.send(&request).await {
        Ok(response) => response.json().map(Some),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) async fn consumers(client: &Client, provider: &str) -> Result<Option<Consumers>, Error> {
    #[derive(Deserialize)]
    struct Body {
        allocations: HashMap<String, Value>,
    }
    let request = Request::get("placement", ["resource_providers", provider, "allocations"]).microversion(PLACEMENT);
    let body: Body = match client.send(&request).await {
        Ok(response) => response.json()?,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut consumers = Consumers::default();
    let mut ids: Vec<String> = body.allocations.into_keys().collect();
    ids.sort();
    for id in ids {
        let exists = client.exists(&Request::get("compute", ["servers", id.as_str()]).microversion(COMPUTE)).await?;
        if exists { consumers.servers.push(id) } else { consumers.orphans.push(id) }
    }
    Ok(Some(consumers))
}

pub(super) async fn smoke(client: &Client, name: &str) -> Result<Vec<Booted>, Error> {
    let request = Request::get("compute", ["servers", "detail"]).query("name", format!("^{name}$"));
    let servers: Vec<Server> = client.list(&request.microversion(COMPUTE), "servers").await?;
    let mut booted = Vec::new();
    for server in servers.into_iter().filter(|server| server.name == name) {
        let mut console = None;
        if server.status == "ACTIVE" {
            let body = json!({"os-getConsoleOutput": {"length": CONSOLE_LINES}});
            let request = Request::post("compute", ["servers", server.id.as_str(), "action"]).json(body);
            let text = client.fetch(&request.microversion(COMPUTE), "output").await;
            // A console that cannot be read yet is an empty one; the deadline of the test decides.
            console = text.ok();
        }
        booted.push(Booted { server, console });
    }
    Ok(booted)
}

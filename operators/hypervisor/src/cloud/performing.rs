//! How Nova and Placement are told.

use std::sync::PoisonError;

use c5c3_kit::remote::{Class, Failure};
use c5c3_openstack::{Client, Error, Request};
use serde_json::{Value, json};

use super::nova::{Aggregate, COMPUTE, Named, PLACEMENT, Service};
use super::{Cloud, Deed, Order, failed};
use crate::settings::Smoke;
use c5c3_openstack::Access;

impl Cloud {
    pub(super) async fn carry_out(&self, order: &Order) -> Result<(), Failure> {
        let Order { access, deed } = order;
        match deed {
            Deed::Taint { node } => return self.taint(node, true).await,
            Deed::Untaint { node } => return self.taint(node, false).await,
            _ => {}
        }
        let client = self.client(access)?;
        match deed {
            Deed::Enable { host, service, disabled_by } => {
                let is_ours = |now: &Service| {
                    let why = now.disabled_reason.as_deref().unwrap_or_default();
                    disabled_by.as_ref().is_none_or(|mark| !now.is_enabled() && why.starts_with(mark.as_str()))
                };
                let body = json!({"status": "enabled", "forced_down": false});
                self.service(access, &client, (host, service), is_ours, body).await
            }
            Deed::Disable { host, service, reason } => {
                let body = json!({"status": "disabled", "disabled_reason": reason});
                self.service(access, &client, (host, service), Service::is_enabled, body).await
            }
            Deed::AddHost { host, aggregate, .. } => self.member(access, &client, *aggregate, "add_host", host).await,
            Deed::RemoveHost { host, aggregate, .. } => {
                self.member(access, &client, *aggregate, "remove_host", host).await
            }
            Deed::SetTraits { provider, generation, traits, create } => {
                set_traits(&client, provider, *generation, traits, create).await
            }
            Deed::Boot { host, zone, name, smoke } => boot(&client, host, zone, name, smoke).await,
            Deed::DeleteServer { id, .. } => delete(&client, compute(["servers", id.as_str()])).await,
            Deed::LiveMigrate { server, drain } => {
                let body = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
                self.migrate(&client, drain, server, body).await
            }
            Deed::ColdMigrate { server, drain } => self.migrate(&client, drain, server, json!({"migrate": null})).await,
            Deed::Confirm { server, drain } => {
                self.migrate(&client, drain, server, json!({"confirmResize": null})).await
            }
            Deed::Abort { server, migration } => {
                let migration = migration.to_string();
                let path = ["servers", server.as_str(), "migrations", migration.as_str()];
                match client.send(&compute(path)).await {
                    // It ended meanwhile, well or not.
                    Err(Error::NotFound(_) | Error::Conflict(_) | Error::Invalid(_)) => Ok(()),
                    other => other.map(drop).map_err(|error| failed(&error)),
                }
            }
            Deed::DeleteService { host, service } => {
                delete(&client, compute(["os-services", service.as_str()])).await?;
                self.lists.forget_host(access, host).await;
                Ok(())
            }
            Deed::DeleteAllocations { consumer } => {
                delete(&client, placement(["allocations", consumer.as_str()])).await
            }
            Deed::DeleteProvider { provider } => {
                delete(&client, placement(["resource_providers", provider.as_str()])).await
            }
            Deed::Taint { .. } | Deed::Untaint { .. } => unreachable!("done above"),
        }
    }

    /// Changes a compute service if `still` holds for it now. It is read right before the change, because the list that the
    /// decision is based on may be stale, and must not overwrite the reason that a person gave in Nova meanwhile.
    async fn service(
        &self,
        access: &Access,
        client: &Client,
        (host, id): (&str, &str),
        still: impl Fn(&Service) -> bool,
        body: Value,
    ) -> Result<(), Failure> {
        let request = Request::get("compute", ["os-services"])
            .query("binary", "nova-compute")
            .query("host", host)
            .microversion(COMPUTE);
        let all: Vec<Service> = client.list(&request, "services").await.map_err(|error| failed(&error))?;
        let now = all.into_iter().find(|service| service.id == id);
        let is_changed = now.as_ref().is_none_or(|now| !still(now));
        // The next look at the host sees what it is now.
        self.lists.note_service(access, now).await;
        if is_changed {
            return Ok(());
        }
        let request = Request::put("compute", ["os-services", id]).json(body).microversion(COMPUTE);
        let changed: Result<Service, Error> = client.fetch(&request, "service").await;
        self.lists.note_service(access, changed.as_ref().ok().cloned()).await;
        changed.map(drop).map_err(|error| failed(&error))
    }

    async fn member(&self, access: &Access, client: &Client, id: i64, action: &str, host: &str) -> Result<(), Failure> {
        let path = ["os-aggregates".to_owned(), id.to_string(), "action".to_owned()];
        let body = json!({ action: {"host": host} });
        let request = Request::post("compute", path).json(body).microversion(COMPUTE);
        let changed: Result<Aggregate, Error> = client.fetch(&request, "aggregate").await;
        self.lists.note_aggregate(access, changed.as_ref().ok().cloned()).await;
        match changed {
            // It is in it, or out of it, already: the list was old, and was dropped.
            Err(Error::Conflict(failure)) if action == "add_host" && failure.message.contains("already") => Ok(()),
            Err(Error::NotFound(_)) if action == "remove_host" => Ok(()),
            other => other.map(drop).map_err(|error| failed(&error)),
        }
    }

    /// Moves a server. What Nova does not accept is remembered, for it keeps no record of that itself: the drain counts it as an
    /// attempt, and goes on with other servers.
    async fn migrate(&self, client: &Client, drain: &str, server: &str, body: Value) -> Result<(), Failure> {
        let request = Request::post("compute", ["servers", server, "action"]).json(body).microversion(COMPUTE);
        match client.send(&request).await {
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(error @ (Error::Conflict(_) | Error::Invalid(_))) => {
                let mut rejections = self.rejections.lock().unwrap_or_else(PoisonError::into_inner);
                let rejection = rejections.entry((drain.to_owned(), server.to_owned())).or_default();
                rejection.times += 1;
                rejection.message.clone_from(&error.failure().message);
                Ok(())
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

fn compute<'a>(path: impl IntoIterator<Item = &'a str>) -> Request {
    Request::delete("compute", path).microversion(COMPUTE)
}

fn placement<'a>(path: impl IntoIterator<Item = &'a str>) -> Request {
    Request::delete("placement", path).microversion(PLACEMENT)
}

async fn delete(client: &Client, request: Request) -> Result<(), Failure> {
    client.exists(&request).await.map(drop).map_err(|error| failed(&error))
}

async fn set_traits(
    client: &Client,
    provider: &str,
    generation: i64,
    traits: &[String],
    create: &[String],
) -> Result<(), Failure> {
    for name in create {
        let path = ["traits", name.as_str()];
        if client
            .exists(&Request::get("placement", path).microversion(PLACEMENT))
            .await
            .map_err(|error| failed(&error))?
        {
            continue;
        }
        let request = Request::put("placement", path).microversion(PLACEMENT);
        client.send(&request).await.map_err(|error| failed(&error))?;
    }
    let body = json!({"resource_provider_generation": generation, "traits": traits});
    let request = Request::put("placement", ["resource_providers", provider, "traits"]).json(body);
    client.send(&request.microversion(PLACEMENT)).await.map(drop).map_err(|error| failed(&error))
}

/// The id of what has that name. A name that nothing has is a mistake in the operator's flags.
async fn named(client: &Client, request: Request, key: &str, what: &str, name: &str) -> Result<String, Failure> {
    let all: Vec<Named> = client.list(&request, key).await.map_err(|error| failed(&error))?;
    let found = all.into_iter().find(|one| one.name.as_deref() == Some(name));
    found.map(|one| one.id).ok_or_else(|| {
        let message = format!("there is no {what} {name} for the smoke server; create it, or name another");
        Failure::new(Class::Refused, "NotFound", message)
    })
}

async fn boot(client: &Client, host: &str, zone: &str, name: &str, smoke: &Smoke) -> Result<(), Failure> {
    let images = Request::get("image", ["images"]).query("name", smoke.image.as_str());
    let image = named(client, images, "images", "image", &smoke.image).await?;
    let flavors = Request::get("compute", ["flavors", "detail"]).microversion(COMPUTE);
    let flavor = named(client, flavors, "flavors", "flavor", &smoke.flavor).await?;
    let networks = match &smoke.network {
        None => json!("none"),
        Some(network) => {
            let request = Request::get("network", ["networks"]).query("name", network.as_str());
            json!([{"uuid": named(client, request, "networks", "network", network).await?}])
        }
    };
    let server = json!({"name": name, "imageRef": image, "flavorRef": flavor, "networks": networks,
        "availability_zone": format!("{zone}:{host}"), "metadata": {"c5c3.io/purpose": "onboarding"}});
    let request = Request::post("compute", ["servers"]).json(json!({ "server": server })).microversion(COMPUTE);
    client.send(&request).await.map(drop).map_err(|error| failed(&error))
}

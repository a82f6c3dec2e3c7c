//! Backups: a Backup becomes a Job, or a CronJob if it has a schedule, that writes SQL to a volume; a Restore becomes a
//! Job that loads it.
//!
//! | what | how |
//! |---|---|
//! | names | Job, CronJob and claim are called as their Backup, the Job of a Restore as that |
//! | claim | is never removed with its Backup: what is in it is what the Backup was for |
//! | files | `backup.TIME.sql`, `backup.TIME.gzip.sql`, as mariadb-operator names them |
//! | accounts | as statements, not as tables: they reach every member of a Galera cluster, and leave root alone |
//! | how it ended | the condition `Complete`, in the words of mariadb-operator |
//!
//! A Job is made once. A Restore that failed is repeated by deleting and creating it.

mod plan;
#[cfg(test)]
mod scripts;
mod standing;
mod wanted;

use std::time::Duration;

use c5c3_api::ext::mariadb::{BackedUpRef, Backup, MariaDB, Restore};
use c5c3_api::ext::{Conditions, Readiness, Ready};
use c5c3_kit::condition::{ConditionState, find};
use c5c3_kit::ownership::{MANAGED_BY, label};
use c5c3_kit::{Plan, Step};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::controller::Action;
use kube::{Api, Client, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::wanted::Wanted;
use super::{MANAGER, server};
use crate::failure::Error;
use crate::queue::{Kind, RESYNC};
use crate::{objects, queue};
use standing::COMPLETE;
use wanted::{BackupWanted, Kept, RestoreWanted};

/// How soon to look again at what has to be there first.
const AGAIN: Duration = Duration::from_secs(3);

/// A Backup or a Restore.
trait Dump: Kind + Resource<Scope = k8s_openapi::NamespaceResourceScope> {
    /// The server.
    fn server(&self) -> &BackedUpRef;

    /// Its status.
    fn status(&self) -> Option<&Conditions>;
}

macro_rules! dump {
    ($kind:ty) => {
        impl Dump for $kind {
            fn server(&self) -> &BackedUpRef {
                &self.spec.maria_db_ref
            }

            fn status(&self) -> Option<&Conditions> {
                self.status.as_ref()
            }
        }
    };
}

dump!(Backup);
dump!(Restore);

/// Looks after every Backup and Restore until `stop`.
pub(super) async fn run(client: Client, stop: CancellationToken) {
    let backups = queue::controller::<Backup>(&client)
        .owns_stream(queue::children::<Job>(&client, MANAGER))
        .owns_stream(queue::children::<CronJob>(&client, MANAGER));
    let restores = queue::controller::<Restore>(&client).owns_stream(queue::children::<Job>(&client, MANAGER));
    tokio::join!(
        queue::run(backups, client.clone(), stop.clone(), |backup, client| async move {
            Box::pin(reconcile(&backup, &client, backup_once(&backup, &client))).await
        }),
        queue::run(restores, client, stop, |restore, client| async move {
            Box::pin(reconcile(&restore, &client, restore_once(&restore, &client))).await
        }),
    );
}

/// What there is to say of an object, and when to look again.
struct Said(ConditionState, Action);

impl Said {
    /// What stands in the way, or is waited for.
    fn no(why: impl Into<String>) -> Self {
        Self(ConditionState::unmet(COMPLETE, "Failed", why), Action::requeue(AGAIN))
    }

    /// What is wrong with the object itself.
    fn refused(why: String) -> Self {
        Self(ConditionState::unmet(COMPLETE, "Failed", why), Action::await_change())
    }
}

/// One look. What the API refuses is told on the object; what just fails is tried again.
async fn reconcile<K: Dump>(
    object: &K,
    client: &Client,
    look: impl Future<Output = Result<Said, Error>>,
) -> Result<Action, Error> {
    if object.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let (Said(said, again), error) = match look.await {
        Ok(said) => (said, None),
        Err(error) if is_refusal(&error) => (Said::no(error.to_string()), Some(error)),
        Err(error) => return Err(error),
    };
    let before = object.status();
    let had = before.and_then(|status| find(&status.conditions, COMPLETE));
    let status = Conditions { conditions: vec![said.to_condition(had, None, Timestamp::now())] };
    objects::report(client, object, MANAGER, before, &status).await?;
    error.map_or(Ok(again), Err)
}

/// Whether the API will not take what is made however often it is asked.
fn is_refusal(error: &Error) -> bool {
    let Error::Api { source, .. } = error else { return server::is_refusal(error) };
    matches!(&**source, kube::Error::Api(answer) if matches!(answer.code, 400 | 403 | 422))
}

/// The server that an object names, once it can be talked to; or why not.
async fn server<K: Dump>(object: &K, client: &Client) -> Result<Result<(MariaDB, Wanted), Said>, Error> {
    let named = object.server();
    let namespace = object.namespace().unwrap_or_default();
    let Some(mariadb) = objects::find::<MariaDB>(client, &namespace, &named.name).await? else {
        return Ok(Err(Said::no(format!("spec.mariaDbRef: mariadb/{} is not there", named.name))));
    };
    if named.wait_for_it.unwrap_or(true)
        && let Ready::No { message, .. } = mariadb.readiness()
    {
        return Ok(Err(Said::no(format!("MariaDB not ready: {message}"))));
    }
    Ok(match Wanted::of(&mariadb) {
        Ok(wanted) => Ok((mariadb, wanted)),
        Err(why) => Err(Said::no(format!("spec.mariaDbRef: mariadb/{}: {why}", named.name))),
    })
}

async fn backup_once(backup: &Backup, client: &Client) -> Result<Said, Error> {
    let wanted = match BackupWanted::of(backup) {
        Ok(wanted) => wanted,
        Err(why) => return Ok(Said::refused(why)),
    };
    if wanted.schedule.is_none()
        && let Some(ended) = ended(backup)
    {
        return Ok(ended);
    }
    let (mariadb, database) = match server(backup, client).await? {
        Ok(found) => found,
        Err(said) => return Ok(said),
    };
    if let Kept::Claim(_) = &wanted.kept {
        claim(backup, &wanted, client).await?;
    }
    let pod = plan::backup(&wanted, &mariadb, &database);
    if wanted.schedule.is_none() {
        remove_cron_job(backup, client).await?;
        return job(backup, client, plan::job(&wanted.name, &wanted.namespace, &pod)).await;
    }
    let step = Step::new(COMPLETE).child(plan::cron_job(&wanted, &pod));
    let applied = objects::apply(client, backup, MANAGER, &Plan::new().step(step)).await?;
    if let Some(foreign) = server::foreign(&applied, &wanted.namespace) {
        return Ok(Said::no(foreign));
    }
    let found = objects::find::<CronJob>(client, &wanted.namespace, &wanted.name).await?;
    Ok(Said(standing::of_cron_job(found.as_ref()), Action::requeue(RESYNC)))
}

async fn restore_once(restore: &Restore, client: &Client) -> Result<Said, Error> {
    let wanted = match RestoreWanted::of(restore) {
        Ok(wanted) => wanted,
        Err(why) => return Ok(Said::refused(why)),
    };
    if let Some(ended) = ended(restore) {
        return Ok(ended);
    }
    let kept = match (&wanted.backup, wanted.kept.clone()) {
        (Some(backup), _) => match source(backup, &wanted.namespace, client).await? {
            Ok(kept) => kept,
            Err(said) => return Ok(said),
        },
        (None, Some(kept)) => kept,
        (None, None) => return Ok(Said::refused(wanted::NO_SOURCE.into())),
    };
    let (mariadb, database) = match server(restore, client).await? {
        Ok(found) => found,
        Err(said) => return Ok(said),
    };
    let pod = plan::restore(&wanted, &kept, &mariadb, &database);
    job(restore, client, plan::job(&wanted.name, &wanted.namespace, &pod)).await
}

/// Where the files of a Backup are, once there are any.
async fn source(name: &str, namespace: &str, client: &Client) -> Result<Result<Kept, Said>, Error> {
    let Some(backup) = objects::find::<Backup>(client, namespace, name).await? else {
        return Ok(Err(Said::no(format!("spec.backupRef: backup/{name} is not there"))));
    };
    let wanted = match BackupWanted::of(&backup) {
        Ok(wanted) => wanted,
        Err(why) => return Ok(Err(Said::no(format!("spec.backupRef: backup/{name}: {why}")))),
    };
    let Ready::No { message, .. } = backup.readiness() else { return Ok(Ok(wanted.kept)) };
    // A later run that has failed leaves the earlier ones to be used.
    let jobs = objects::find::<CronJob>(client, namespace, name).await?;
    if jobs.and_then(|jobs| jobs.status?.last_successful_time).is_some() {
        return Ok(Ok(wanted.kept));
    }
    Ok(Err(Said::no(format!("Backup not complete: backup/{name}: {message}"))))
}

/// What was said of an object whose Job has ended. It stays so when the Job is removed: that is no wish for another.
fn ended<K: Dump>(object: &K) -> Option<Said> {
    let had = object.status().and_then(|status| find(&status.conditions, COMPLETE))?;
    let said = standing::final_state(had)?;
    Some(Said(said, Action::await_change()))
}

/// Makes a Job unless it is there, and says how it stands.
async fn job<K: Dump>(object: &K, client: &Client, mut job: Job) -> Result<Said, Error> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let Some(found) = objects::find::<Job>(client, &namespace, &name).await? else {
        job.metadata.owner_references = object.controller_owner_ref(&()).map(|owner| vec![owner]);
        let made = Api::<Job>::namespaced(client.clone(), &namespace).create(&PostParams::default(), &job).await;
        made.map_err(Error::api(format!("create job/{name}")))?;
        return Ok(Said(standing::of_job(&job), Action::requeue(RESYNC)));
    };
    if !is_of(&found, object) {
        let why = format!("job/{name} already exists and belongs to something else; delete it, or choose another name");
        return Ok(Said::no(why));
    }
    Ok(Said(standing::of_job(&found), Action::requeue(RESYNC)))
}

/// Whether an object controls another.
fn is_of<K: Resource>(child: &impl Resource, object: &K) -> bool {
    let uid = object.meta().uid.as_deref();
    child.owner_references().iter().any(|owner| Some(owner.uid.as_str()) == uid && owner.controller == Some(true))
}

/// Makes the claim for the files unless it is there. It has no owner.
async fn claim(backup: &Backup, wanted: &BackupWanted, client: &Client) -> Result<(), Error> {
    if objects::find::<PersistentVolumeClaim>(client, &wanted.namespace, &wanted.name).await?.is_some() {
        return Ok(());
    }
    let name = backup.name_any();
    let api = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &wanted.namespace);
    let made = api.create(&PostParams::default(), &plan::claim(wanted)).await;
    made.map(drop).map_err(Error::api(format!("create persistentvolumeclaim/{name}")))
}

/// Removes the CronJob of a Backup that has no schedule any more.
async fn remove_cron_job(backup: &Backup, client: &Client) -> Result<(), Error> {
    let (name, namespace) = (backup.name_any(), backup.namespace().unwrap_or_default());
    let found = objects::find::<CronJob>(client, &namespace, &name).await?;
    let ours =
        |found: &CronJob| is_of(found, backup) && label(&found.metadata, MANAGED_BY).is_some_and(|by| by == MANAGER);
    if !found.as_ref().is_some_and(ours) {
        return Ok(());
    }
    let api = Api::<CronJob>::namespaced(client.clone(), &namespace);
    match api.delete(&name, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
        Err(error) => Err(Error::api(format!("delete cronjob/{name}"))(error)),
    }
}

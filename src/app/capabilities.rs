//! Starts the services for the ops of handlers.

use std::sync::Arc;

use tollhouse_base::clock::Clock;
use tollhouse_capability::{
    CapabilityServices, Guard, GuardSettings,
    guard::{DevelopmentUpstreams, OwnHost},
    secret::Secrets,
};
use tollhouse_config::Settings;
use tollhouse_objects::Objects;
use tollhouse_replica::Replica;
use tollhouse_store::Store;

use crate::error::StartError;

pub(super) fn start(
    settings: &Settings,
    store: &Arc<dyn Store>,
    clock: &Clock,
    replica: &Arc<Replica>,
    objects: Arc<Objects>,
    secrets: Arc<Secrets>,
    development: DevelopmentUpstreams,
) -> Result<Arc<CapabilityServices>, StartError> {
    let own = OwnHost::new(settings.base_url.as_deref(), settings.listen);
    let guard = GuardSettings { allow: settings.sandbox.guard_allow.clone(), development, own, ..GuardSettings::default() };
    let guard = Guard::new(guard).map_err(StartError::Guard)?;
    let (store, replica, logs) = (Arc::clone(store), Arc::clone(replica), settings.retention.logs.clone());
    Ok(CapabilityServices::new(store, clock.clone(), guard, objects, logs, secrets, replica))
}

//! What comes in, and how much of it at once: connections, and bytes of bodies.

use std::sync::Arc;

use serde_json::{Value, json};

use super::quota::Quota;
use crate::{
    config::{BodySettings, ConnectionSettings, IntakeSettings},
    telemetry::{Samples, table},
};

/// The limits of what comes in, and what there is of it.
#[derive(Debug)]
pub struct Intake {
    pub(crate) connections: ConnectionSettings,
    pub(crate) bodies: BodySettings,
    /// Connections that are open.
    pub(crate) open: Arc<Quota>,
    /// Bytes of bodies that are in memory.
    pub(crate) held: Arc<Quota>,
}

impl Intake {
    /// Nothing is held yet.
    #[must_use]
    pub fn new(settings: &IntakeSettings) -> Self {
        let IntakeSettings { connections, bodies } = settings.clone();
        Self {
            open: Quota::new(connections.most, connections.most_of_address),
            held: Quota::new(bodies.held, bodies.held_of_address),
            connections,
            bodies,
        }
    }

    /// As metrics.
    pub(crate) fn measured(&self, samples: &mut Samples) {
        samples.put(&table::CONNECTIONS, [], self.open.taken());
        samples.put(&table::CONNECTIONS_LIMIT, [], self.open.most().unwrap_or_default());
        samples.put(&table::BODIES_HELD, [], self.held.taken());
    }

    /// For operators.
    pub(crate) fn status(&self) -> Value {
        json!({
            "connections": self.open.taken(),
            "maxConnections": self.open.most(),
            "bodyBytesHeld": self.held.taken(),
            "maxBodyBytesHeld": self.held.most(),
        })
    }
}

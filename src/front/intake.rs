//! Memory that is held for clients, within its limits: connections, bodies of requests, and answers.

use std::{net::IpAddr, sync::Arc};

use serde_json::{Value, json};
use tollhouse_config::{BodySettings, ConnectionSettings, IntakeSettings};
use tollhouse_telemetry::{Samples, table};

use super::{
    fault::Fault,
    faults::Code,
    quota::{Full, Quota, Share},
};

/// Answers of so many bytes go out whatever the others hold.
const SHORT_BYTES: u64 = 16 << 10;

/// Limits of the memory that is held for clients, and how much of it is used.
#[derive(Debug)]
pub struct Intake {
    pub(crate) connections: ConnectionSettings,
    /// Limits of request bodies.
    pub bodies: BodySettings,
    /// Streams that follow logs, calls or events.
    pub followers: Arc<Quota>,
    /// Connections that are open.
    pub open: Arc<Quota>,
    /// Bytes of bodies that are in memory.
    held: Arc<Quota>,
    /// Bytes of answers that clients have not taken yet.
    pub(crate) answers: Arc<Quota>,
}

impl Intake {
    /// Nothing is held yet.
    #[must_use]
    pub fn new(settings: &IntakeSettings) -> Self {
        let IntakeSettings { connections, followers, bodies, answers } = settings.clone();
        Self {
            followers: Quota::new(followers.most, followers.most_of_address),
            open: Quota::new(connections.most, connections.most_of_address),
            held: Quota::with_reserve(bodies.held, bodies.held_of_address),
            answers: Quota::new(answers.held, answers.held_of_address),
            connections,
            bodies,
        }
    }

    /// A share of the memory for bodies, with so many bytes: of a body, of a head, or of what is made of them.
    ///
    /// # Errors
    ///
    /// 503, when there is no room for as much.
    pub fn hold(&self, address: IpAddr, bytes: usize) -> Result<Share, Fault> {
        let mut share = self.held.share(address);
        let message = match share.take(bytes) {
            Ok(()) => return Ok(share),
            Err(Full::All(most)) => format!("the host holds {most} bytes of requests, its limit"),
            Err(Full::Address(most)) => format!("the host holds {most} bytes of requests of your address, its limit"),
        };
        Err(Fault::new(Code::Busy, message).retry_after(1))
    }

    /// Lets an address ask for more, unless it leaves too many answers untaken.
    ///
    /// # Errors
    ///
    /// 503, when it has its share of the memory for answers.
    pub(crate) fn takes_answers(&self, address: IpAddr) -> Result<(), Fault> {
        match self.answers.has_all_of_its_share(address) {
            Some(most) => Err(untaken(&format!("your address has {most} bytes of answers that it has not read, its limit"))),
            None => Ok(()),
        }
    }

    /// Whether an answer of so many bytes that nobody has paid for is held until its client takes it. A short one always is, and one that
    /// is larger than a limit while no more than half of that is taken.
    ///
    /// # Errors
    ///
    /// 503, when the memory for answers has no room for it.
    pub(crate) fn holds(&self, address: IpAddr, bytes: u64) -> Result<(), Fault> {
        if bytes <= SHORT_BYTES {
            return Ok(());
        }
        let message = match self.answers.has_room_or_is_large(address, usize::try_from(bytes).unwrap_or(usize::MAX)) {
            Ok(()) => return Ok(()),
            Err(Full::All(most)) => format!("the host holds {most} bytes of answers that clients have not read, its limit"),
            Err(Full::Address(most)) => format!("your address has {most} bytes of answers that it has not read, its limit"),
        };
        Err(untaken(&message))
    }

    /// As metrics.
    pub fn measured(&self, samples: &mut Samples) {
        samples.put(&table::CONNECTIONS, [], self.open.taken());
        samples.put(&table::CONNECTIONS_LIMIT, [], self.open.most().unwrap_or_default());
        samples.put(&table::BODIES_HELD, [], self.held.taken());
        samples.put(&table::ANSWERS_HELD, [], self.answers.taken());
    }

    /// For operators.
    pub fn status(&self) -> Value {
        json!({
            "connections": self.open.taken(),
            "maxConnections": self.open.most(),
            "bodyBytesHeld": self.held.taken(),
            "maxBodyBytesHeld": self.held.most(),
            "answerBytesHeld": self.answers.taken(),
            "maxAnswerBytesHeld": self.answers.most(),
        })
    }
}

fn untaken(message: &str) -> Fault {
    Fault::new(Code::Busy, message).hint("read the answers that are on their way, or close their connections").retry_after(1)
}

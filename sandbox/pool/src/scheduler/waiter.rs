//! Calls that wait for a permit, or for a running slot again.

use std::net::IpAddr;

use tokio::sync::oneshot;

use super::rules::AdmissionRequest;

/// The permission that a waiter gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WaiterGrant {
    /// A running slot, and the process if it asked for one.
    Slot,
    /// Permission to be sent ahead without a slot.
    Ahead,
}

/// A waiting call.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) owner: Box<str>,
    pub(super) endpoint: Box<str>,
    pub(super) caller: Option<IpAddr>,
    concurrency: usize,
    pub(super) may_run_ahead: bool,
    /// `None` once the scheduler is closed.
    wake: Option<oneshot::Sender<WaiterGrant>>,
}

/// The receiving side of a [`Waiter`]. Its holder waits.
#[derive(Debug)]
pub(super) struct WaiterHandle {
    pub(super) ticket: u64,
    pub(super) granted: oneshot::Receiver<WaiterGrant>,
}

impl Waiter {
    pub(super) fn new(ticket: u64, admission: AdmissionRequest<'_>, may_go_ahead: bool) -> (Self, WaiterHandle) {
        let (wake, granted) = oneshot::channel();
        let waiter = Self {
            ticket,
            owner: admission.owner.into(),
            endpoint: admission.endpoint.into(),
            caller: admission.caller,
            concurrency: admission.concurrency,
            may_run_ahead: may_go_ahead,
            wake: Some(wake),
        };
        (waiter, WaiterHandle { ticket, granted })
    }

    pub(super) fn admission(&self) -> AdmissionRequest<'_> {
        AdmissionRequest { owner: &self.owner, endpoint: &self.endpoint, caller: self.caller, concurrency: self.concurrency }
    }

    /// Wakes the waiter. If it was abandoned meanwhile, dropping it returns the grant.
    pub(super) fn wake(self, granted: WaiterGrant) {
        if let Some(wake) = self.wake {
            let _ = wake.send(granted);
        }
    }

    /// Dismisses the waiter by dropping its sender.
    pub(super) fn reject(&mut self) {
        self.wake = None;
    }
}

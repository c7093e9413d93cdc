//! The slot of a run, and the ways in which it ends.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tollhouse_telemetry::counters::UNPAID_RUNS;

use super::{RunParties, UnpaidRunLimiter, account::Standing};
use crate::payments::run_limits::RunLimitReached;

/// A run's slot among those that may fail. If it is dropped, the run does not count.
#[derive(Debug)]
#[must_use]
pub(in crate::payments) struct RunPermit {
    throttle: Arc<UnpaidRunLimiter>,
    pub(in crate::payments) running: RunParties,
    /// Whether the payer has paid for this tool more often than it has such runs in flight.
    is_customer: bool,
    /// Whether it was counted as unpaid when its caller canceled it.
    is_canceled: AtomicBool,
    is_over: bool,
}

impl UnpaidRunLimiter {
    /// Takes a slot for a run whose payer is verified. The run's standing becomes [`Standing::New`] if the payer's paid runs
    /// cover no more runs in flight than there are by now.
    pub(in crate::payments) fn begin(self: &Arc<Self>, mut running: RunParties) -> Result<RunPermit, RunLimitReached> {
        let (mut accounts, now) = (self.accounts.lock(), self.now());
        let is_customer = accounts.admit(&self.limits, &running, self.hosts(), now)?;
        if !is_customer {
            running.standing = Standing::New;
        }
        accounts.begin(&self.limits, &running, is_customer, now);
        drop(accounts);
        Ok(RunPermit { throttle: Arc::clone(self), running, is_customer, is_canceled: AtomicBool::new(false), is_over: false })
    }
}

impl RunPermit {
    pub(in crate::payments) fn paid(mut self) {
        self.finish();
        match *self.is_canceled.get_mut() {
            true => self.throttle.settled_afterwards(&self.running),
            false => self.throttle.accounts.lock().paid(&self.running, self.throttle.now()),
        }
    }

    /// Counts the run as unpaid now, because its caller cancels it. Returns false if there are too many unpaid runs, not
    /// counting those in flight. Then the run must go on.
    pub(in crate::payments) fn cancel(&self) -> bool {
        let throttle = &self.throttle;
        let canceled = throttle.accounts.lock().cancel(&throttle.limits, &self.running, self.is_customer, throttle.hosts(), throttle.now());
        self.is_canceled.fetch_or(canceled, Ordering::Relaxed);
        canceled
    }

    /// Records that the run was not paid for.
    pub(in crate::payments) fn failed(mut self, reason: &'static str) {
        UNPAID_RUNS.count([reason]);
        self.finish();
        if !*self.is_canceled.get_mut() {
            self.throttle.accounts.lock().failed(&self.running, self.is_customer, self.throttle.now());
        }
    }

    /// Records that the facilitator did not serve the run's settlement. That counts as unpaid unless it `is_excusable`
    /// and its payer, its address and its tool have an excuse left.
    pub(in crate::payments) fn unserved(mut self, is_excusable: bool) {
        let throttle = Arc::clone(&self.throttle);
        match is_excusable && throttle.accounts.lock().take_excuse(&throttle.limits, &self.running, throttle.now()) {
            true => self.finish(),
            false => self.failed("refused"),
        }
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.throttle.accounts.lock().end(&self.running, self.is_customer);
        }
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.finish();
    }
}

//! Admits runs whose settlements may burn gas, and counts what runs in flight hold.

use std::{
    num::{NonZeroU32, NonZeroU64},
    sync::Arc,
    time::Duration,
};

use tokio::time::timeout;

use super::{Burned, Burner, GasCaller, GasHold, GasMeter, GasRefusal, HeldGas, State, WINDOW, WindowMoment, entry};
use crate::{
    PrepareError,
    payments::run_limits::{RunLimit, RunLimitReached},
    x402::offer::TriedGas,
};

/// When a retry is worthwhile if only runs in flight exceed the limit.
const SOON: Duration = Duration::from_secs(1);

/// Gas that a reverted settlement of a payer with a key burns, at most: such a settlement fails early. Each run in flight
/// of such a payer holds it.
const REVERTED_GAS: u64 = 65_000;

/// Maximum time that a settlement waits for others of its payer.
const TURN_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, Default)]
struct Both {
    newcomers: Burned,
    customers: Burned,
}

impl Both {
    fn of(&self, is_customer: bool) -> &Burned {
        if is_customer { &self.customers } else { &self.newcomers }
    }

    /// Returns the part of a limit that a payer may use. New payers may use half, unless customers have used more than the
    /// other half. Customers may use what new payers leave, which is at least half. Contracts may use half as much as payers
    /// with a key, because they can burn gas on purpose.
    fn part(&self, whole: NonZeroU64, is_customer: bool, by_contract: bool, used: impl Fn(&Burned) -> u64) -> u64 {
        let (whole, half) = (whole.get(), whole.get().div_ceil(2));
        let part = match is_customer {
            true => whole - used(&self.newcomers).min(half),
            false => half.min(whole.saturating_sub(used(&self.customers))),
        };
        if by_contract { part / 2 } else { part }
    }

    /// Returns the part and the time to wait if a run that may burn `gas` more exceeds it.
    fn beyond(&self, whole: NonZeroU64, is_customer: bool, by_contract: bool, gas: u64, now: WindowMoment) -> Option<(u64, Duration)> {
        let part = self.part(whole, is_customer, by_contract, |of| of.gas.total(now).saturating_add(of.held));
        let (max, wait) = self.of(is_customer).beyond(part, gas, now)?;
        // If nothing is left, the others have used it.
        let of_others = self.of(!is_customer).gas.wait(now).filter(|_| max == 0);
        Some((max, of_others.unwrap_or(wait)))
    }

    fn part_of_underpaid(&self, whole: NonZeroU64, is_regular: bool, by_contract: bool, now: WindowMoment) -> u64 {
        self.part(whole, is_regular, by_contract, |of| of.underpaid_and_burned(now).saturating_add(of.held_underpaid))
    }

    /// Returns whether burned gas leaves nothing even to customers with a key.
    fn is_closed(&self, whole: NonZeroU64, now: WindowMoment) -> bool {
        self.customers.gas.total(now) >= self.part(whole, true, false, |of| of.gas.total(now))
    }
}

impl GasMeter {
    /// Admits a run whose settlement needs this gas, and counts the gas until the hold is dropped.
    pub(in crate::payments) fn hold(self: &Arc<Self>, caller: GasCaller, tried: TriedGas) -> Result<GasHold, GasRefusal> {
        let (mut state, now) = (self.state.lock(), self.now());
        let (GasCaller { burner, cover }, by_contract) = (caller, tried.by_contract);
        let (is_customer, is_regular) = (burner.standing.is_customer(), burner.standing.is_regular());
        let of = |burned: Option<&Burned>| burned.copied().unwrap_or_default();
        let of_payer = of(state.payers.get(&burner.payer));
        let of_address = of(burner.from.and_then(|from| state.addresses.get(&from.to_string())));
        let (of_builder, of_all) = (state.of_builder(&burner), state.of_all());
        let slowed = |bound, max: u64, wait| {
            let max = NonZeroU32::new(u32::try_from(max).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN);
            Err(GasRefusal::Slowed(RunLimitReached { bound, max, window: WINDOW, wait }))
        };
        let is_underpaid = cover.is_limited(of_payer.underpaid.total(now) > 0);
        let gas = match (by_contract, is_underpaid) {
            (true, _) => tried.limit,
            // The run holds gas for underpaid runs instead.
            (false, true) => 0,
            (false, false) => tried.limit.min(REVERTED_GAS),
        };
        // A customer with a key has paid for as many runs as it has in flight.
        let of_its_payer = if is_customer && !by_contract { 0 } else { gas };

        if let Some(reverts) = self.limits.reverts.filter(|max| of_payer.reverts.total(now) >= u64::from(max.get())) {
            return slowed(RunLimit::Reverts, reverts.get().into(), of_payer.reverts.wait(now).unwrap_or(SOON));
        }
        if let Some((max, wait)) = self.limits.of_payer.and_then(|max| of_payer.beyond(max.get(), of_its_payer, now)) {
            return slowed(RunLimit::PayerGas, max, wait);
        }
        let limit_of_address = self.limits.of_address.filter(|_| !is_customer);
        if let Some((max, wait)) = limit_of_address.and_then(|max| of_address.beyond(max.get(), gas, now)) {
            return slowed(RunLimit::AddressGas, max, wait);
        }
        if let Some(whole) = self.limits.of_builder
            && let Some((max, wait)) = of_builder.beyond(whole, is_customer, by_contract, gas, now)
        {
            let is_closed = is_customer || of_builder.is_closed(whole, now);
            return slowed(if is_closed { RunLimit::OwnerGas } else { RunLimit::NewPayers }, max, wait);
        }
        if let Some(whole) = self.limits.of_all
            && let Some((max, wait)) = of_all.beyond(whole, is_customer, by_contract, gas, now)
        {
            let is_closed = is_customer || by_contract || of_all.is_closed(whole, now);
            return if is_closed { Err(GasRefusal::Spent { wait }) } else { slowed(RunLimit::NewPayers, max, wait) };
        }
        if is_underpaid {
            let part = |of: &Both, whole| of.part_of_underpaid(whole, is_regular, by_contract, now);
            let limits = [
                (self.limits.of_payer.map(NonZeroU64::get), &of_payer),
                (self.limits.of_address.filter(|_| !is_regular).map(NonZeroU64::get), &of_address),
                (self.limits.of_builder.map(|whole| part(&of_builder, whole)), of_builder.of(is_regular)),
                (self.limits.of_all.map(|whole| part(&of_all, whole)), of_all.of(is_regular)),
            ];
            let beyond = limits.into_iter().find_map(|(max, used)| used.beyond_underpaid(max?, tried.limit, now));
            if let Some((max, wait)) = beyond {
                return slowed(RunLimit::Underpaid, max, wait);
            }
        }

        let held = HeldGas { gas, of_payer: of_its_payer, underpaid: if is_underpaid { tried.limit } else { 0 } };
        state.is_used = true;
        state.change_held(&burner, held, now, u64::saturating_add);
        drop(state);
        Ok(GasHold { meter: Arc::clone(self), burner, held, is_settling: false })
    }

    /// Returns whether so much gas was burned, or may be by runs in flight, that the limits depend on who has paid for a
    /// tool of this builder before.
    pub(in crate::payments) fn depends_on_standing(&self, burner: &Burner) -> bool {
        let (state, now) = (self.state.lock(), self.now());
        let is_high = |max: Option<NonZeroU64>, of: &[Burned]| {
            let used = |of: &Burned| of.underpaid_and_burned(now).saturating_add(of.held).saturating_add(of.held_underpaid);
            max.is_some_and(|max| of.iter().map(used).fold(0, u64::saturating_add) >= max.get() / 4)
        };
        let (of_builder, of_all) = (state.of_builder(burner), state.of_all());
        let of_address = burner.from.and_then(|from| state.addresses.get(&from.to_string()));
        is_high(self.limits.of_all, &[of_all.newcomers, of_all.customers])
            || is_high(self.limits.of_builder, &[of_builder.newcomers, of_builder.customers])
            || of_address.is_some_and(|burned| is_high(self.limits.of_address, &[*burned]))
    }
}

impl State {
    fn of_builder(&self, burner: &Burner) -> Both {
        let [newcomers, customers] = [&self.newcomers, &self.customers].map(|pool| {
            let burned = burner.builder.as_ref().and_then(|id| pool.builders.get(id));
            burned.copied().unwrap_or_default()
        });
        Both { newcomers, customers }
    }

    fn of_all(&self) -> Both {
        Both { newcomers: self.newcomers.all, customers: self.customers.all }
    }

    /// Adds or removes what a run in flight holds.
    fn change_held(&mut self, burner: &Burner, held: HeldGas, now: WindowMoment, change: fn(u64, u64) -> u64) {
        let is_customer = burner.standing.is_customer();
        let changed = |of: &mut Burned, gas| (of.held, of.runs) = (change(of.held, gas), change(of.runs, 1));
        self.change_pool(burner, is_customer, now, |of| changed(of, held.gas));
        changed(entry(&mut self.payers, &burner.payer, now), held.of_payer);
        if let Some(from) = burner.from.filter(|_| !is_customer) {
            changed(entry(&mut self.addresses, &from.to_string(), now), held.gas);
        }
        if held.underpaid > 0 {
            let is_regular = burner.standing.is_regular();
            self.change_all(burner, is_regular, now, |of| of.held_underpaid = change(of.held_underpaid, held.underpaid));
        }
    }
}

impl Burned {
    /// Returns the limit and the time to wait if a run that may burn `gas` more exceeds it.
    fn beyond(&self, max: u64, gas: u64, now: WindowMoment) -> Option<(u64, Duration)> {
        let burned = self.gas.total(now);
        if burned >= max {
            return Some((max, self.gas.wait(now).unwrap_or(SOON)));
        }
        let needed = burned.saturating_add(self.held).saturating_add(gas);
        // A single run may always begin, because its gas is limited anyway.
        (gas > 0 && self.held > 0 && needed > max).then_some((max, SOON))
    }

    /// Like [`Self::beyond`], for a run whose settlement is underpaid and uses `gas`. Burned gas counts as well.
    fn beyond_underpaid(&self, max: u64, gas: u64, now: WindowMoment) -> Option<(u64, Duration)> {
        let used = self.underpaid_and_burned(now);
        if used >= max {
            let waits = [self.gas.wait(now), self.underpaid.wait(now)];
            return Some((max, waits.into_iter().flatten().min().unwrap_or(SOON)));
        }
        let needed = used.saturating_add(self.held_underpaid).saturating_add(gas);
        (self.held_underpaid > 0 && needed > max).then_some((max, SOON))
    }
}

impl GasHold {
    /// Waits until the run's settlement can be sent. Reverted settlements of its payer and those in flight that no paid run
    /// covers are together no more than may be reverted in an hour.
    ///
    /// # Errors
    ///
    /// Too many settlements of the payer were reverted meanwhile, or others of its settlements did not end in time.
    pub(in crate::payments) async fn begin_settlement(&mut self) -> Result<(), PrepareError> {
        let refused = |message: &str| {
            let reason = "invalid_exact_evm_transaction_simulation_failed".to_owned();
            Err(PrepareError::Refused { reason, message: message.to_owned() })
        };
        match timeout(TURN_PATIENCE, self.turn()).await {
            Ok(true) => Ok(()),
            Ok(false) => refused("too many of your settlements were reverted in the last hour"),
            Err(_) => refused("your other settlements did not end in time"),
        }
    }

    /// Counts the settlement as in flight, even if other settlements of the payer are in flight.
    pub(in crate::payments) fn settle_now(&mut self) {
        let (mut state, now) = (self.meter.state.lock(), self.meter.now());
        if !std::mem::replace(&mut self.is_settling, true) {
            let payer = entry(&mut state.payers, &self.burner.payer, now);
            payer.settling = payer.settling.saturating_add(1);
        }
    }

    /// Returns whether the settlement may be sent, once that is known.
    async fn turn(&mut self) -> bool {
        let meter = Arc::clone(&self.meter);
        loop {
            // The future is created before the check, so that it misses no end after the check.
            let ended = meter.ended.notified();
            if let Some(may_settle) = self.try_settle() {
                return may_settle;
            }
            ended.await;
        }
    }

    /// Returns whether the settlement may be sent, or `None` if it has to wait.
    fn try_settle(&mut self) -> Option<bool> {
        let (mut state, now) = (self.meter.state.lock(), self.meter.now());
        let Some(max) = self.meter.limits.reverts.filter(|_| !self.burner.standing.is_customer()) else { return Some(true) };
        let payer = entry(&mut state.payers, &self.burner.payer, now);
        let (max, reverted) = (u64::from(max.get()), payer.reverts.total(now));
        if self.is_settling || reverted >= max {
            return Some(self.is_settling);
        }
        if reverted.saturating_add(payer.settling) >= max {
            return None;
        }
        (payer.settling, self.is_settling) = (payer.settling + 1, true);
        Some(true)
    }
}

impl Drop for GasHold {
    fn drop(&mut self) {
        let (mut state, now) = (self.meter.state.lock(), self.meter.now());
        state.change_held(&self.burner, self.held, now, u64::saturating_sub);
        if self.is_settling {
            let payer = entry(&mut state.payers, &self.burner.payer, now);
            payer.settling = payer.settling.saturating_sub(1);
            self.meter.ended.notify_waiters();
        }
    }
}

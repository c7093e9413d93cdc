use futures_util::FutureExt;

use super::*;

const MIB: usize = 1 << 20;

#[test]
fn owner_can_use_all_free_bytes_and_newcomers_find_room() {
    let flow = FlowControl::new(12 * MIB);
    let (mut first, mut second, mut third) = (flow.account("a"), flow.account("b"), flow.account("c"));
    assert!(first.try_set(6 * MIB) && !first.try_set(6 * MIB + 2), "a single owner gets half");
    assert!(second.try_set(3 * MIB) && !second.try_set(3 * MIB + 2));
    assert!(third.try_set(MIB));
    first.set(4 * MIB);
    assert!(third.try_set(2 * MIB));
    assert_eq!(flow.held(), 9 * MIB);
    // The owner's other calls share the same limit.
    assert!(!flow.account("a").try_set(MIB));
}

#[test]
fn set_bytes_count_even_beyond_the_limit() {
    let flow = FlowControl::new(2 * MIB);
    let (mut first, mut second) = (flow.account("a"), flow.account("b"));
    first.set(5 * MIB);
    assert!(!second.try_set(1) && !first.try_set(6 * MIB));
    assert!(second.try_set(0));
    first.set(0);
    assert!(second.try_set(MIB));
}

#[test]
fn waiters_are_notified_when_memory_is_released() {
    let flow = FlowControl::new(2 * MIB);
    let (mut holds, waits) = (flow.account("a"), flow.account("b"));
    assert!(holds.try_set(MIB));
    let mut freed = Box::pin(waits.freed());
    assert!(freed.as_mut().now_or_never().is_none());
    assert!(holds.try_set(MIB) && freed.as_mut().now_or_never().is_none(), "its bytes are unchanged");
    holds.set(MIB + 1);
    assert!(freed.as_mut().now_or_never().is_none());
    drop(holds);
    assert!(freed.now_or_never().is_some());
}

/// Compares random accounts with a simple sum per owner.
#[test]
fn nothing_is_lost_or_counted_twice_and_owners_that_left_are_forgotten() {
    let flow = FlowControl::new(64);
    let owners = ["a", "b", "c"];
    let mut accounts: Vec<(usize, usize, CallAccount<'_>)> = vec![];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        match random.u8(..4) {
            0 if accounts.len() < 12 => {
                let owner = random.usize(..owners.len());
                accounts.push((owner, 0, flow.account(owners[owner])));
            }
            1 if !accounts.is_empty() => drop(accounts.swap_remove(random.usize(..accounts.len()))),
            what if !accounts.is_empty() => {
                let (at, bytes) = (random.usize(..accounts.len()), random.usize(..40));
                let (owner, before) = (accounts[at].0, accounts[at].1);
                let sum =
                    |of: &dyn Fn(usize) -> bool| accounts.iter().filter(|account| of(account.0)).map(|account| account.1).sum::<usize>();
                let (own, all) = (sum(&|of| of == owner) - before + bytes, sum(&|_| true) - before + bytes);
                let fits = own <= 64_usize.saturating_sub(all);
                if what == 2 {
                    accounts[at].2.set(bytes);
                } else {
                    assert_eq!(accounts[at].2.try_set(bytes), fits);
                }
                if what == 2 || fits {
                    accounts[at].1 = bytes;
                }
            }
            _ => {}
        }
        assert_eq!(flow.held(), accounts.iter().map(|account| account.1).sum::<usize>());
    }
    drop(accounts);
    assert!(flow.held() == 0 && flow.state.lock().owners.is_empty());
}

use std::sync::Mutex;

use futures_util::FutureExt;

use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn place_is_taken_until_it_is_dropped() {
    let slots = ProcessSlots::new(2, u64::MAX, UserAllocator::default());
    let [one, other] = [slots.take().unwrap(), slots.take().unwrap()];
    one.leave();
    assert!(slots.take().is_none() && slots.taken() == 2, "an ended process keeps its place");
    drop(one);
    drop(slots.take().unwrap());
    drop(other);
    assert_eq!((slots.taken(), slots.bytes()), (0, 0));
    assert!(ProcessSlots::new(0, 0, UserAllocator::default()).take().is_some(), "one process is always allowed");
}

#[test]
fn memory_of_a_process_is_estimated_from_others() {
    let slots = ProcessSlots::new(9, 100 * MIB, UserAllocator::default());
    let one = slots.take().unwrap();
    assert_eq!(slots.bytes(), UNMEASURED_BYTES);
    one.note(90 * MIB);
    assert!(slots.take().is_none() && slots.bytes() == 90 * MIB);
    one.note(84 * MIB);
    let other = slots.take().unwrap();
    assert_eq!(slots.bytes(), 100 * MIB);
    other.note(3 * MIB);
    drop(one);
    assert_eq!((slots.bytes(), other.bytes()), (3 * MIB, 3 * MIB));
}

#[test]
fn shortage_ignores_what_ending_processes_will_release() {
    let slots = ProcessSlots::new(2, 100 * MIB, UserAllocator::default());
    let [one, other] = [slots.take().unwrap(), slots.take().unwrap()];
    assert_eq!(slots.shortage(), None, "nobody waits");
    other.note(90 * MIB);
    assert_eq!(slots.shortage(), Some(Shortage::Memory), "the processes have grown");
    other.note(UNMEASURED_BYTES);
    let waits = slots.wait();
    assert_eq!(slots.shortage(), Some(Shortage::Places));
    one.leave();
    one.leave();
    assert_eq!(slots.shortage(), None, "one process has been ended");
    other.note(90 * MIB);
    assert_eq!(slots.shortage(), Some(Shortage::Memory));
    other.leave();
    let more = slots.wait();
    assert_eq!(slots.shortage(), None);
    let crowd = [slots.wait(), slots.wait()];
    assert_eq!(slots.shortage(), None, "no remaining process could make room");
    drop((one, other, more, crowd));
    assert_eq!(slots.shortage(), None);
    assert!(slots.take_unused().is_none());
    drop(waits);
    assert!(slots.take_unused().is_some());
}

#[test]
fn memory_of_ending_processes_counts_as_expected() {
    let slots = ProcessSlots::new(9, 100 * MIB, UserAllocator::default());
    let [large, small] = [slots.take().unwrap(), slots.take().unwrap()];
    let _waits = slots.wait();
    large.leave();
    large.note(90 * MIB);
    small.note(84 * MIB);
    assert_eq!(slots.shortage(), None);
    small.note(84 * MIB + 1);
    assert_eq!(slots.shortage(), Some(Shortage::Memory));
    drop(large);
    assert_eq!(slots.bytes(), 84 * MIB + 1);
}

#[tokio::test]
async fn waiters_are_notified_when_a_slot_can_be_taken() {
    let slots = ProcessSlots::new(3, u64::MAX, UserAllocator::default());
    let [one, other] = [slots.take().unwrap(), slots.take().unwrap()];
    let notifies = |action: &dyn Fn()| {
        let mut changed = Box::pin(slots.changed());
        changed.as_mut().enable();
        action();
        changed.now_or_never().is_some()
    };
    let nothing = || ();
    let third = Mutex::new(slots.take());
    for action in [&(|| slots.notify_idle()) as &dyn Fn(), &|| one.note(1), &|| drop(third.lock().unwrap().take())] {
        assert!(!notifies(action), "nobody waits");
    }
    one.note(UNMEASURED_BYTES);
    let _waits = slots.wait();
    assert!(!notifies(&nothing) && notifies(&|| slots.notify_idle()));
    assert!(!notifies(&|| one.note(UNMEASURED_BYTES + 1)) && notifies(&|| one.note(UNMEASURED_BYTES)));
    assert!(!notifies(&|| one.note(UNMEASURED_BYTES)), "its memory is unchanged");
    let one = Mutex::new(Some(one));
    assert!(notifies(&|| drop(one.lock().unwrap().take())));
    drop(other);
}

#[test]
fn memory_of_zygotes_counts_once() {
    let slots = ProcessSlots::new(9, 100 * MIB, UserAllocator::default());
    let one = slots.take().unwrap();
    one.note(60 * MIB);
    let zygotes = ZygoteCounts { zygotes: 1, bytes: 30 * MIB };
    slots.record_zygotes(zygotes);
    assert_eq!((slots.zygotes(), slots.bytes(), slots.shortage()), (zygotes, 60 * MIB, None));
    assert!(slots.take().is_none());
    one.note(71 * MIB);
    assert_eq!(slots.shortage(), Some(Shortage::Memory));
    let _waits = slots.wait();
    let changed = slots.changed();
    let mut changed = std::pin::pin!(changed);
    changed.as_mut().enable();
    slots.record_zygotes(zygotes);
    assert!(changed.as_mut().now_or_never().is_none());
    slots.record_zygotes(ZygoteCounts::default());
    assert!(changed.now_or_never().is_some() && slots.take().is_some());
    slots.record_zygotes(ZygoteCounts { zygotes: 1, bytes: 200 * MIB });
    drop(one);
}

#[test]
fn process_has_its_user_to_itself_until_it_is_gone() {
    let range: crate::Users = "10-11".parse().unwrap();
    let slots = ProcessSlots::new(2, u64::MAX, range.allocator_with(rustix::thread::CapabilitySet::all(), 0));
    let [one, other] = [slots.take().unwrap(), slots.take_unused().unwrap()];
    assert_eq!([&one, &other].map(|slot| slot.user()), [Some(10), Some(11)]);
    one.leave();
    assert!(slots.take().is_none(), "the user of an ended process is not free yet");
    drop(other);
    assert_eq!(slots.take().unwrap().user(), Some(11));
    drop(one);
    assert_eq!(slots.take().unwrap().user(), Some(10));
}

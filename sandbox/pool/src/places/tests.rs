use futures_util::FutureExt;

use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn place_is_taken_until_it_is_dropped() {
    let places = Places::new(2, u64::MAX, Turn::default());
    let [one, other] = [places.take().unwrap(), places.take().unwrap()];
    one.leave();
    assert!(places.take().is_none() && places.taken() == 2, "what leaves is there yet");
    drop(one);
    drop(places.take().unwrap());
    drop(other);
    assert_eq!((places.taken(), places.bytes()), (0, 0));
    assert!(Places::new(0, 0, Turn::default()).take().is_some(), "one there may always be");
}

#[test]
fn process_fits_by_what_others_were_measured_to_hold() {
    let places = Places::new(9, 100 * MIB, Turn::default());
    let one = places.take().unwrap();
    assert_eq!(places.bytes(), UNMEASURED_BYTES);
    one.note(90 * MIB);
    assert!(places.take().is_none() && places.bytes() == 90 * MIB);
    one.note(84 * MIB);
    let other = places.take().unwrap();
    assert_eq!(places.bytes(), 100 * MIB);
    other.note(3 * MIB);
    drop(one);
    assert_eq!((places.bytes(), other.bytes()), (3 * MIB, 3 * MIB));
}

#[test]
fn who_waits_lacks_what_does_not_come_by_itself() {
    let places = Places::new(2, 100 * MIB, Turn::default());
    let [one, other] = [places.take().unwrap(), places.take().unwrap()];
    assert_eq!(places.lack(), None, "nobody waits");
    other.note(90 * MIB);
    assert_eq!(places.lack(), Some(Lack::Memory), "they have grown");
    other.note(UNMEASURED_BYTES);
    let waits = places.wait();
    assert_eq!(places.lack(), Some(Lack::Places));
    one.leave();
    one.leave();
    assert_eq!(places.lack(), None, "one is about to leave");
    other.note(90 * MIB);
    assert_eq!(places.lack(), Some(Lack::Memory));
    other.leave();
    let more = places.wait();
    assert_eq!(places.lack(), None);
    let crowd = [places.wait(), places.wait()];
    assert_eq!(places.lack(), None, "nobody stays whose place they could have");
    drop((one, other, more, crowd));
    assert_eq!(places.lack(), None);
    assert!(places.take_unwanted().is_none());
    drop(waits);
    assert!(places.take_unwanted().is_some());
}

#[test]
fn memory_of_what_leaves_is_about_to_come_however_it_changes() {
    let places = Places::new(9, 100 * MIB, Turn::default());
    let [large, small] = [places.take().unwrap(), places.take().unwrap()];
    let _waits = places.wait();
    large.leave();
    large.note(90 * MIB);
    small.note(84 * MIB);
    assert_eq!(places.lack(), None);
    small.note(84 * MIB + 1);
    assert_eq!(places.lack(), Some(Lack::Memory));
    drop(large);
    assert_eq!(places.bytes(), 84 * MIB + 1);
}

#[tokio::test]
async fn who_waits_is_told_when_a_place_may_be_had() {
    let places = Places::new(3, u64::MAX, Turn::default());
    let [one, other] = [places.take().unwrap(), places.take().unwrap()];
    let told = |does: &dyn Fn()| {
        let mut changed = Box::pin(places.changed());
        changed.as_mut().enable();
        does();
        changed.now_or_never().is_some()
    };
    let nothing = || ();
    let third = Mutex::new(places.take());
    for does in [&(|| places.note_idle()) as &dyn Fn(), &|| one.note(1), &|| drop(third.lock().unwrap().take())] {
        assert!(!told(does), "nobody waits");
    }
    one.note(UNMEASURED_BYTES);
    let _waits = places.wait();
    assert!(!told(&nothing) && told(&|| places.note_idle()));
    assert!(!told(&|| one.note(UNMEASURED_BYTES + 1)) && told(&|| one.note(UNMEASURED_BYTES)));
    assert!(!told(&|| one.note(UNMEASURED_BYTES)), "it holds what it held");
    let one = Mutex::new(Some(one));
    assert!(told(&|| drop(one.lock().unwrap().take())));
    drop(other);
}

#[test]
fn what_zygotes_hold_is_nobody_elses() {
    let places = Places::new(9, 100 * MIB, Turn::default());
    let one = places.take().unwrap();
    one.note(60 * MIB);
    let zygotes = Census { zygotes: 1, bytes: 30 * MIB };
    places.note_zygotes(zygotes);
    assert_eq!((places.zygotes(), places.bytes(), places.lack()), (zygotes, 60 * MIB, None));
    assert!(places.take().is_none());
    one.note(71 * MIB);
    assert_eq!(places.lack(), Some(Lack::Memory));
    let _waits = places.wait();
    let changed = places.changed();
    let mut changed = std::pin::pin!(changed);
    changed.as_mut().enable();
    places.note_zygotes(zygotes);
    assert!(changed.as_mut().now_or_never().is_none());
    places.note_zygotes(Census::default());
    assert!(changed.now_or_never().is_some() && places.take().is_some());
    places.note_zygotes(Census { zygotes: 1, bytes: 200 * MIB });
    drop(one);
}

#[test]
fn process_has_its_user_to_itself_until_it_is_gone() {
    let range: crate::Users = "10-11".parse().unwrap();
    let places = Places::new(2, u64::MAX, range.to_give_with(rustix::thread::CapabilitySet::all(), 0));
    let [one, other] = [places.take().unwrap(), places.take_unwanted().unwrap()];
    assert_eq!([&one, &other].map(|place| place.user()), [Some(10), Some(11)]);
    one.leave();
    assert!(places.take().is_none(), "the user of one who leaves is not free yet");
    drop(other);
    assert_eq!(places.take().unwrap().user(), Some(11));
    drop(one);
    assert_eq!(places.take().unwrap().user(), Some(10));
}

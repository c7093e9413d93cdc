use tollhouse_protocol::{JailLayer, LayerRefusal};

use super::*;
use crate::{scheduler::AdmissionRequest, status::RefusedLayer};

#[tokio::test]
async fn calls_that_wait_for_the_host_are_distinguished_from_those_that_compute() {
    let core = Core::new(PoolConfig { running: 2, ..PoolConfig::new("/bin/false") }).unwrap();
    let admission = AdmissionRequest { owner: "a", endpoint: "x", caller: None, concurrency: 2 };
    let _computes = core.scheduler.acquire(admission).await.unwrap();
    let mut waits = core.scheduler.acquire(admission).await.unwrap();
    waits.park();
    let status = core.status();
    assert_eq!((status.running, status.waiting_in_ops), (1, 1));
}

#[tokio::test]
async fn background_work_of_a_pool_ends_with_it() {
    let core = Core::new(PoolConfig::new("/bin/false")).unwrap();
    let (stopped, alarm) = (core.stopped.clone(), Arc::clone(&core.alarm));
    drop(core);
    assert!(stopped.is_cancelled());
    alarm.arm();
    alarm.run(|_| panic!("the alarm is stopped"));
}

#[tokio::test]
async fn layer_is_in_force_if_no_worker_was_refused_it() {
    let core = Core::new(PoolConfig::new("/bin/false")).unwrap();
    let refused = |layer| LayerRefusal { layer, errno: 1 };
    let all = JailReport { in_force: vec![JailLayer::Rlimits, JailLayer::Seccomp, JailLayer::Landlock], refused: vec![] };
    core.note_jail(Tier::Jit, &all);
    assert_eq!((core.status().jail, core.status().jail_refused), (all.in_force.clone(), vec![]));
    for _ in 0..2 {
        core.note_jail(
            Tier::Jit,
            &JailReport { in_force: vec![JailLayer::Rlimits, JailLayer::Seccomp], refused: vec![refused(JailLayer::Landlock)] },
        );
        core.note_jail(Tier::Jit, &all);
    }
    let status = core.status();
    assert_eq!(status.jail, [JailLayer::Rlimits, JailLayer::Seccomp]);
    assert_eq!(status.jail_refused, [RefusedLayer::from(refused(JailLayer::Landlock))]);
    assert!(status.jail_refused[0].error.starts_with("Operation not permitted"));
}

#[test]
fn caller_gets_its_percentage_but_at_least_one() {
    let slots =
        |running, caller_running_percent| rules(&PoolConfig { running, caller_running_percent, ..PoolConfig::new("") }).caller_running;
    assert_eq!([slots(128, 75), slots(9, 50), slots(1, 50), slots(9, 0)], [96, 4, 1, 1]);
}

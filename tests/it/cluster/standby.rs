//! A database with a synchronous standby. The standby is promoted, and nothing that was
//! acknowledged is lost.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::join_all;

use super::{ASKED, Cluster, rounds};
use crate::harness::{Host, balancer::Balancer, postgres::Postgres, rounds_requested};

/// Number of tries, and the number in the long form, which [`ASKED`] selects and in which kills can
/// hit any moment.
const TRIES: usize = 1;
const MANY_TRIES: usize = 5;
const PAYERS: usize = 4;
/// Initial balance of each payer, in micro-dollars.
const FUNDS: u64 = 100_000_000;
/// Duration of the payments before the primary is killed, and after the standby is promoted.
const PAID_FOR: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_takes_the_databases_place_has_all_that_was_reported() {
    for _ in 0..if rounds_requested(ASKED).is_some() { MANY_TRIES } else { TRIES } {
        takes_its_place().await;
    }
}

async fn takes_its_place() {
    let mut primary = Postgres::start();
    let standby = primary.standby().await;
    let url = format!("postgres://tollhouse@127.0.0.1:{},127.0.0.1:{}/postgres", primary.port(), standby.port());
    let cluster = Cluster::on(&url, Host::builder(), Balancer::HOSTS.len(), standby).await;
    let callers = cluster.behind_a_balancer(PAYERS, FUNDS).await;

    let over = AtomicBool::new(false);
    let paying = join_all((0..PAYERS).map(|payer| rounds::pay_until(&over, &callers, payer)));
    let promoting = async {
        tokio::time::sleep(PAID_FOR).await;
        primary.kill9();
        cluster.server.sql("SELECT pg_promote()").await;
        tokio::time::sleep(PAID_FOR).await;
        over.store(true, Ordering::SeqCst);
    };
    let (paid, ()) = tokio::join!(paying, promoting);

    let paid = rounds::paid_in(&paid);
    println!("{} payments, the standby has them all", paid.concat().len());
    cluster.agrees_with(&callers, &paid, 0).await;
}

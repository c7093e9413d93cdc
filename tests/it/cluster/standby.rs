//! A database that has a standby with every commit: the standby takes its place, and nothing that was told is lost.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::join_all;

use super::{ASKED, Cluster, PRICE, Paid, rounds};
use crate::harness::{Host, Payer, balancer::Balancer, postgres::Postgres, rounds_asked};

/// How often, where [`ASKED`] does not ask for as many tries as it takes for kills to fall anywhere.
const TRIES: usize = 1;
const MANY_TRIES: usize = 5;
const PAYERS: usize = 4;
/// What each payer has at first, in micro-dollars.
const FUNDS: u64 = 100_000_000;
/// How long is paid before the primary is killed, and once the standby has its place.
const PAID_FOR: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_takes_the_databases_place_has_all_that_was_told() {
    for _ in 0..if rounds_asked(ASKED).is_some() { MANY_TRIES } else { TRIES } {
        takes_its_place().await;
    }
}

async fn takes_its_place() {
    let mut primary = Postgres::start();
    let standby = primary.standby().await;
    let url = format!("postgres://tollhouse@127.0.0.1:{},127.0.0.1:{}/postgres", primary.port(), standby.port());
    let cluster = Cluster::on(&url, Host::builder(), Balancer::HOSTS.len(), standby).await;
    let owner = cluster.sells().await;
    let payers = join_all((0..PAYERS).map(|_| Payer::funded(&cluster.hosts[0], FUNDS as f64 / 1e6))).await;
    let challenge = cluster.hosts[0].challenge("pay").await;
    let urls: Vec<&str> = cluster.hosts.iter().map(|host| host.url.as_str()).collect();
    let balancer = Balancer::start(&urls);

    let over = AtomicBool::new(false);
    let paying = join_all(payers.iter().map(|payer| rounds::pay_until(&over, payer, &challenge, &balancer.url)));
    let promoting = async {
        tokio::time::sleep(PAID_FOR).await;
        primary.kill9();
        cluster.server.sql("SELECT pg_promote()").await;
        tokio::time::sleep(PAID_FOR).await;
        over.store(true, Ordering::SeqCst);
    };
    let (paid, ()) = tokio::join!(paying, promoting);

    let each: Vec<u64> = paid.iter().map(|paid| paid.len() as u64).collect();
    let paid: Vec<&Paid> = paid.iter().flatten().map(|call| &call.paid).collect();
    println!("{} payments, the standby has them all", paid.len());
    cluster.agrees(&owner, &paid, 0).await;
    for host in &cluster.hosts {
        for (payer, count) in payers.iter().zip(&each) {
            assert_eq!(host.balance(&payer.address).await, FUNDS - count * PRICE);
        }
    }
}

//! Measures durable commits per second: on the local disk, and in a local database, with many or
//! one per transaction.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tollhouse::store::{
    Batch, Check, Durability, Space, Store, Write,
    postgres::{PostgresConfig, PostgresStore},
    sled::{SledConfig, SledStore},
};

use crate::{Failure, options::Options, postgres::Postgres};

/// Numbers of concurrent tasks.
const TASKS: [usize; 3] = [1, 64, 256];
/// Connections for commits with one transaction each.
pub(crate) const POOLED: usize = 16;

pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let wall = Duration::from_secs(options.seconds);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let server = Postgres::start();
        let folder = tempfile::tempdir()?;
        let together = PostgresConfig::new(&server.schema().await, None)?;
        let mut pooled = PostgresConfig::new(&server.schema().await, None)?;
        (pooled.lanes, pooled.together) = (POOLED, 1);
        let stores: [(&str, Arc<dyn Store>); 3] = [
            ("sled", Arc::new(SledStore::open(folder.path().join("store"), SledConfig::default())?)),
            ("PostgreSQL, one by one", Arc::new(PostgresStore::open(pooled).await?)),
            ("PostgreSQL, together", Arc::new(PostgresStore::open(together).await?)),
        ];
        println!("durable commits a second of a check and two puts, and as a ratio to those of sled");
        for tasks in TASKS {
            let mut first = None;
            for (name, store) in &stores {
                let rate = rate(store, tasks, wall).await?;
                println!("  {tasks:>3} tasks   {name:<24}{rate:>9.0}{:>9.2}", rate / *first.get_or_insert(rate));
            }
        }
        Ok(())
    })
}

/// Returns the commits per second of concurrent tasks in a time span.
async fn rate(store: &Arc<dyn Store>, tasks: usize, wall: Duration) -> Result<f64, Failure> {
    let (started, numbers) = (Instant::now(), Arc::new(AtomicU64::new(getrandom::u64()? >> 1)));
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let (store, numbers) = (Arc::clone(store), Arc::clone(&numbers));
            tokio::spawn(async move {
                let mut commits = 0_u32;
                while started.elapsed() < wall {
                    let key = numbers.fetch_add(1, Relaxed).to_be_bytes();
                    let writes = vec![Write::put(Space::Payments, key, [7; 300]), Write::put(Space::PaymentExpiry, key, [])];
                    store.apply(Batch::of(vec![Check::absent(Space::Payments, key)], writes), Durability::Durable).await?;
                    commits += 1;
                }
                Ok::<_, tollhouse::store::StoreError>(commits)
            })
        })
        .collect();
    let mut commits = 0;
    for task in tasks {
        commits += task.await??;
    }
    Ok(f64::from(commits) / started.elapsed().as_secs_f64())
}

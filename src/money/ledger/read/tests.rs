//! A reading lists each account once, with whether it agrees with the rows that could be read.

use serde_json::json;
use tollhouse_api::Budgets;
use tollhouse_base::{clock::Timestamp, id::ReceiptId};
use tollhouse_store::{Batch, Durability, SumLimit, memory::MemoryStore, test_wrappers::CountingStore as Counting};
use tollhouse_tool::{MicroUsd, Owner};

use super::*;
use crate::{
    credit::{
        balance::StoredCredit,
        row::{Movement, MovementKind},
    },
    ledger::{Cause, Posting, Token, Tokens},
    sale::UnpaidSale,
};

const AT: Timestamp = Timestamp(1_800_000_000_000);
/// A token's name in accounts.
const TOKEN: &str = "simulated/eip155:84532/0xaa";

fn token() -> Token {
    Token { network: "eip155:84532".to_owned(), token: "0xaa".to_owned(), simulated: true }
}

async fn commit(store: &MemoryStore, batches: impl IntoIterator<Item = Batch>) {
    let mut all = Batch::new();
    batches.into_iter().for_each(|batch| _ = all.append(batch));
    all.commit(store, Durability::Buffered).await.unwrap();
}

/// Creates a credit with this balance.
async fn minted(store: &MemoryStore, micros: u64) -> CreditId {
    let (id, amount) = (CreditId::generate(), MicroUsd(micros));
    let holder = json!({ "id": id, "label": "", "createdAt": AT, "secretSha256": "ab", "budgets": Budgets::default() });
    let movement = Movement { at: AT, kind: MovementKind::Mint, amount, receipt_id: None, slug: None };
    let posting = Posting::new(Cause::Minted(id.clone(), 0), AT).dollars(Dollars::Issued, Dollars::Credit(id.clone()), amount);
    let held = CREDITS.put(&id, &serde_json::from_value::<StoredCredit>(holder).unwrap());
    commit(store, [held, LINES.put(&(id.clone(), 0), &CreditRow::Movement(movement)), posting.stored()]).await;
    id
}

/// Adds a sale that was paid with the token and is not paid out yet.
async fn sold(store: &MemoryStore, builder: &BuilderId, net: u64) {
    let (receipt, earned) = (ReceiptId::generate(), Dollars::Builder(builder.clone()));
    let posting = Posting::new(Cause::Sold(receipt.clone()), AT).tokens(token(), Tokens::Payers, Tokens::Treasury, net.into());
    let posting = posting.dollars(Dollars::Exchange(token()), earned, MicroUsd(net));
    commit(store, [posting.stored(), waits(builder, &receipt, net)]).await;
}

fn waits(builder: &BuilderId, receipt: &ReceiptId, net: u64) -> Batch {
    UnpaidSale { net, at_ms: AT.0 }.stored(&Owner::Builder(builder.clone()), receipt)
}

fn builders() -> [BuilderId; 2] {
    let mut builders = [BuilderId::generate(), BuilderId::generate()];
    builders.sort();
    builders
}

/// Returns the units that do not sum to zero, the accounts that do not agree, and whether everything agrees.
async fn wrong(store: &MemoryStore) -> (Vec<String>, Vec<String>, bool) {
    let Ledger { units, accounts, agrees, .. } = read(store, 100, None).await.unwrap();
    assert_eq!(units.iter().map(|line| line.unit.as_str()).collect::<Vec<_>>(), [DOLLARS, TOKEN]);
    let units = units.into_iter().filter(|line| line.sum != "0").map(|line| format!("{}: {}", line.unit, line.sum));
    let accounts = accounts.into_iter().filter(|line| line.agrees == Some(false)).map(|line| line.account);
    (units.collect(), accounts.collect(), agrees)
}

#[tokio::test]
async fn however_long_its_pages_are_each_account_is_reported_once() {
    let store = MemoryStore::new();
    let [one, two] = builders();
    let mut credits = [minted(&store, 5).await, minted(&store, 6).await];
    credits.sort();
    sold(&store, &one, 7).await;
    sold(&store, &two, 8).await;
    let others = ["credits".to_owned(), format!("exchange/{TOKEN}"), "issued".to_owned(), format!("payers/{TOKEN}")];
    let requested = [format!("builder/{one}"), format!("builder/{two}")].into_iter().chain(others);
    let requested = requested.chain([format!("treasury/{TOKEN}")]).chain(credits.map(|id| format!("credit/{id}")));
    let requested: Vec<_> = requested.collect();
    for limit in 1..=requested.len() + 1 {
        let (mut reported, mut cursor) = (vec![], None::<String>);
        loop {
            let page = read(&store, limit, cursor.as_deref()).await.unwrap();
            reported.extend(page.accounts.into_iter().map(|line| line.account));
            assert!(reported.len() <= requested.len(), "{limit}: {reported:?}");
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(reported, requested, "{limit}");
    }
}

#[tokio::test]
async fn of_more_accounts_than_a_reading_adds_up_those_that_it_reports_are_read() {
    let store = Counting::of(MemoryStore::new());
    for n in 0..200 {
        let mut batch = Batch::new();
        batch.add(&ACCOUNTS, &format!("packet/{n:04}"), 7, SumLimit::Floor(i128::MIN));
        batch.commit(&*store, Durability::Buffered).await.unwrap();
    }
    store.rows();
    let (mut reported, mut cursor) = (vec![], None::<String>);
    loop {
        let page = read_most(&*store, 40, cursor.as_deref(), 30).await.unwrap();
        // One more than are summed, those of the page, the opening time, and the searches for credits and unresolved settlements.
        assert!(store.rows() <= 31 + 40 + 3);
        assert!(page.units.is_empty() && page.agrees, "accounts that were not read are not listed");
        reported.extend(page.accounts.into_iter().map(|line| line.account));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(reported, (0..200).map(|n| format!("packet/{n:04}")).collect::<Vec<_>>());
    let page = read_most(&*store, 40, None, 200).await.unwrap();
    assert_eq!(page.units.iter().map(|line| line.sum.as_str()).collect::<Vec<_>>(), ["1400"]);
    assert!(!page.agrees);
}

#[tokio::test]
async fn unbalanced_unit_or_account_is_reported() {
    let store = MemoryStore::new();
    let [builder, _] = builders();
    minted(&store, 5).await;
    sold(&store, &builder, 7).await;
    assert_eq!(wrong(&store).await, (vec![], vec![], true));

    let treasury = async |by| {
        let mut batch = Batch::new();
        batch.add(&ACCOUNTS, &format!("treasury/{TOKEN}"), by, SumLimit::Floor(i128::MIN));
        commit(&store, [batch]).await;
    };
    treasury(3).await;
    assert_eq!(wrong(&store).await, (vec![format!("{TOKEN}: 3")], vec![], false));
    treasury(-3).await;
    assert_eq!(wrong(&store).await, (vec![], vec![], true));

    commit(&store, [waits(&builder, &ReceiptId::generate(), 1)]).await;
    assert_eq!(wrong(&store).await, (vec![], vec![format!("builder/{builder}")], false));
}

#[tokio::test]
async fn an_account_with_too_many_rows_is_reported_without_a_balance() {
    let store = MemoryStore::new();
    let [one, two] = builders();
    for (builder, net) in [(&one, 7), (&one, 8), (&two, 9)] {
        sold(&store, builder, net).await;
    }
    let credit = minted(&store, 5).await;
    let describe = async |account: &[Option<(&BuilderId, i128)>]| {
        // A credit's balance is a row too.
        let mut reader = LedgerReader { store: &store, remaining: 2, lines: vec![] };
        for account in account {
            match account {
                Some((builder, balance)) => reader.account(format!("builder/{builder}"), *balance).await.unwrap(),
                None => reader.credit(&credit).await.unwrap(),
            }
        }
        let lines = reader.lines.into_iter();
        lines.map(|line| (line.balance, line.rows)).collect::<Vec<_>>()
    };
    let (first, second) = (Some((&one, 15)), Some((&two, 9)));
    let line = |balance: &str, checked_at: bool| (balance.to_owned(), checked_at.then(|| balance.to_owned()));
    assert_eq!(describe(&[first, second, None]).await, [line("15", true), line("9", false), line("5", false)]);
    assert_eq!(describe(&[None, second]).await, [line("5", true), line("9", false)]);
    assert_eq!(describe(&[second, first]).await, [line("9", true), line("15", false)]);
}

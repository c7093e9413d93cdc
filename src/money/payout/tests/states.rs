//! The index of payouts by state.

use super::*;

#[tokio::test]
async fn packets_are_counted_and_found_by_their_state_whichever_host_has_changed_them() {
    let fixture = Fixture::new().settled().await;
    fixture.earn(&fixture.builder, [5]).await;
    let first = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap().id;
    fixture.earn(&fixture.builder, [6]).await;
    let second = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap().id;
    let other = Fixture::on(Arc::clone(&fixture.store));
    assert_eq!(other.payouts.counts().await.unwrap(), PayoutCounts { created: 2, ..PayoutCounts::default() });
    fixture.decide(&first, PayoutDecision::Approve, None).await.unwrap();
    assert_eq!(other.payouts.counts().await.unwrap(), PayoutCounts { created: 1, approved: 1, ..PayoutCounts::default() });
    let of = async |status: PayoutStatus, limit: usize| {
        let (packets, next) = other.payouts.list_all(Some(status), limit, None).await.unwrap();
        (packets.into_iter().map(|packet| packet.id).collect::<Vec<_>>(), next)
    };
    assert_eq!(of(PayoutStatus::Approved, 1).await, (vec![first.clone()], Some(first.clone())));
    assert_eq!(of(PayoutStatus::Created, 2).await, (vec![second.clone()], None));
    assert_eq!(of(PayoutStatus::Paid, 2).await, (vec![], None));
    let (all, next) = other.payouts.list_all(None, 2, None).await.unwrap();
    assert_eq!((all.len(), next.is_some()), (2, true));
    let behind = other.payouts.list_all(Some(PayoutStatus::Approved), 1, Some(&first)).await.unwrap();
    assert!(behind.0.is_empty() && behind.1.is_none());
}

#[tokio::test]
async fn wrong_index_entries_and_counts_are_reported() {
    let fixture = Fixture::new().settled().await;
    let store = fixture.store.inner();
    let mut ids = vec![];
    for net in [5, 6, 7] {
        fixture.earn(&fixture.builder, [net]).await;
        ids.push(fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap().id);
    }
    assert_eq!(flaws(store).await, Vec::<String>::new());
    let states = schema::PAYOUT_STATES.holding::<BuilderId>();
    states.put(&(PayoutStatus::Paid as u8, ids[1].clone()), &fixture.builder).commit(store, Durability::Buffered).await.unwrap();
    let mut batch = tollhouse_store::Batch::new();
    batch.add(&schema::PAYOUT_COUNTS.counting(), &(PayoutStatus::Paid as u8), 1, tollhouse_store::SumLimit::Floor(0));
    batch.delete(&states, &(PayoutStatus::Created as u8, ids[2].clone()));
    batch.commit(store, Durability::Buffered).await.unwrap();
    let answer = flaws(store).await.join("\n");
    for flaw in [
        format!("payout {} is listed in state number 3, but is not in it", ids[1]),
        format!("payout {} is `created`, but is not listed in that state", ids[2]),
        "payouts are counted as".to_owned(),
    ] {
        assert!(answer.contains(&flaw), "{flaw}: {answer}");
    }
}

#[tokio::test]
async fn payouts_of_a_state_are_paged_and_an_empty_state_reads_nothing() {
    let fixture = Fixture::new().settled().await;
    fixture.earn(&fixture.builder, [1]).await;
    let packet = fixture.payouts.pay_out(&fixture.builder).await.unwrap().unwrap();
    let mut batch = tollhouse_store::Batch::new();
    for at in 1..=1_000 {
        let id = PayoutId::of_time(Timestamp(packet.id.made_at().0 + at));
        batch.insert(&PAYOUTS, &key(&fixture.builder, &id), &Packet { id: id.clone(), ..packet.clone() });
    }
    batch.commit(fixture.store.inner(), Durability::Buffered).await.unwrap();
    let of =
        async |status: PayoutStatus, cursor: Option<PayoutId>| fixture.payouts.list_all(Some(status), 300, cursor.as_ref()).await.unwrap();
    assert_eq!(of(PayoutStatus::Paid, None).await, (vec![], None));
    let (mut times, mut pages, mut cursor) = (vec![], 0, None);
    while pages == 0 || cursor.is_some() {
        let (found, next) = of(PayoutStatus::Created, cursor).await;
        times.extend(found.iter().map(|packet| packet.id.made_at().0));
        (pages, cursor) = (pages + 1, next);
    }
    assert_eq!((times.len(), pages), (1_001, 4));
    assert!(times.is_sorted_by(|one, next| one > next), "newest first");
}

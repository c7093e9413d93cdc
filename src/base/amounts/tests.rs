use super::*;
use crate::counted::Counted;

#[test]
fn largest_amount_is_found_and_empty_keys_are_removed() {
    let mut amounts = Amounts::default();
    assert_eq!(amounts.largest(), None);
    for (key, more) in [("a", 3), ("b", 5), ("c", 4), ("a", 3), ("d", 0)] {
        amounts.add(&key, more);
    }
    assert_eq!((amounts.largest(), amounts.of(&"a"), amounts.of(&"d")), (Some((&"a", 6)), 6, 0));
    amounts.take(&"a", 2);
    assert_eq!(amounts.largest(), Some((&"b", 5)));
    for key in ["a", "b", "c", "d"] {
        amounts.take(&key, 100);
    }
    assert!(amounts.is_empty() && amounts.in_order.is_empty());
}

#[test]
fn change_among_many_keys_takes_few_steps() {
    const KEYS: u32 = 100_000;
    let mut amounts = Amounts::default();
    let keys: Vec<_> = (0..KEYS).map(Counted).collect();
    for key in &keys {
        amounts.add(key, 1 + key.0 as usize % 7);
    }
    let steps = Counted::steps(|| {
        while let Some((largest, amount)) = amounts.largest() {
            let largest = largest.clone();
            amounts.take(&largest, amount);
        }
    });
    assert!(steps < u64::from(KEYS) * 100, "{steps} steps for {KEYS} keys");
}

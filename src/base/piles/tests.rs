use super::*;
use crate::counted::Counted;

/// Left and right owner, id, weight.
type Item = (u8, u8, u32, usize);

/// Computes [`Piles::oldest_of_most`] by visiting all items.
fn looked_up(things: &[Item]) -> Option<u32> {
    let sum = |is_in: &dyn Fn(&Item) -> bool| -> usize { things.iter().filter(|thing| is_in(thing)).map(|thing| thing.3).sum() };
    let max = |side: fn(&Item) -> u8| {
        let sums = things.iter().map(|thing| (sum(&|other| side(other) == side(thing)), side(thing)));
        sums.max().unwrap_or((0_usize, 0))
    };
    let ((of_left, left), (of_right, right)) = (max(|thing| thing.0), max(|thing| thing.1));
    let is_in = |thing: &&Item| if of_right >= of_left { thing.1 == right } else { thing.0 == left };
    let heaviest = things.iter().filter(is_in).map(|thing| {
        let pile = |other: &&Item| (other.0, other.1) == (thing.0, thing.1);
        let weight: usize = things.iter().filter(pile).map(|thing| thing.3).sum();
        (weight, Reverse(things.iter().filter(pile).map(|thing| thing.2).min()))
    });
    heaviest.max().and_then(|(_, Reverse(oldest))| oldest)
}

#[test]
fn oldest_item_of_the_largest_user_is_found_in_random_histories() {
    for seed in 0..100 {
        let (mut random, mut piles, mut things) = (fastrand::Rng::with_seed(seed), Piles::default(), vec![]);
        for id in 0..200 {
            if random.u8(..3) > 0 {
                let thing = (random.u8(..4), random.u8(..4), id, 1 + random.usize(..9));
                piles.add(&thing.0, &thing.1, thing.2, thing.3);
                things.push(thing);
            } else if let Some(oldest) = piles.oldest_of_most().copied() {
                let (left, right, id, weight) = things.remove(things.iter().position(|thing| thing.2 == oldest).unwrap());
                piles.remove(&left, &right, &id, weight);
            }
            assert_eq!(piles.oldest_of_most().copied(), looked_up(&things));
        }
        for (left, right, id, weight) in things {
            piles.remove(&left, &right, &id, weight);
        }
        assert!(piles.is_empty());
    }
}

#[test]
fn next_item_to_drop_is_found_in_few_steps() {
    const THINGS: u32 = 100_000;
    let mut piles = Piles::default();
    // Each pile has one item, so there are as many owners and addresses as possible.
    for n in 0..THINGS {
        piles.add(&Counted(n), &Counted(n), Counted(n), 1);
    }
    let steps = Counted::steps(|| {
        for n in THINGS..2 * THINGS {
            piles.add(&Counted(n), &Counted(n), Counted(n), 1);
            let Counted(oldest) = *piles.oldest_of_most().unwrap();
            piles.remove(&Counted(oldest), &Counted(oldest), &Counted(oldest), 1);
        }
    });
    assert!(steps < u64::from(THINGS) * 400, "{steps} steps for {THINGS} things");
}

//! Reading what moved a balance.

use std::{fmt, num::ParseIntError, str::FromStr};

use serde::Serialize;
use tollhouse_base::id::CreditId;
use tollhouse_store::{Direction, StoreError};
use tollhouse_tool::UsdChange;

use super::{
    Credits,
    line::{LINES, Line, Movement},
    number::BALANCE,
};

/// A movement as it is read: the balance is not stored with it, for it is not known before the commit has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// What moved.
    #[serde(flatten)]
    pub movement: Movement,
    /// What the balance was after it, in the order in which they are read.
    #[serde(rename = "balanceUsd")]
    pub balance: UsdChange,
}

/// Movements, newest first.
#[derive(Debug)]
pub struct Movements {
    /// Those that are wanted, up to the limit.
    pub movements: Vec<Moved>,
    /// The place to go on from, while there are older ones.
    pub next: Option<MovementPlace>,
}

/// A place in the list of a credit's movements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovementPlace {
    /// The number of the last one that was read.
    before: u64,
    /// What the balance was before that one.
    balance: i128,
}

impl Credits {
    /// At most `limit` movements of a credit, newest first, from behind `place`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn movements(&self, id: &CreditId, place: Option<MovementPlace>, limit: usize) -> Result<Movements, StoreError> {
        // Where the balance is not known it lies before the newest of them, in one scan, which is one moment.
        let (range, rows) = match place {
            Some(place) => (LINES.under(id).before(&(id.clone(), place.before)), limit + 1),
            None => (LINES.under(id), limit + 2),
        };
        let mut balance = place.map_or(0, |place| place.balance);
        let (mut movements, mut last, mut next) = (Vec::with_capacity(limit), BALANCE, None);
        for row in LINES.page(&*self.store, &range, rows, Direction::Backward).await? {
            match row.value {
                Line::Balance(sum) => balance = sum,
                Line::Movement(movement) if movements.len() < limit => {
                    let change = movement.change();
                    movements.push(Moved { movement, balance: UsdChange::of(balance) });
                    balance -= change;
                    last = row.key.1;
                }
                Line::Movement(_) => next = Some(MovementPlace { before: last, balance }),
            }
        }
        Ok(Movements { movements, next })
    }
}

impl fmt::Display for MovementPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.before, self.balance)
    }
}

impl FromStr for MovementPlace {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (before, balance) = text.split_once('.').unwrap_or((text, ""));
        Ok(Self { before: before.parse()?, balance: balance.parse()? })
    }
}
